// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ledger/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "coordinator/ledger/ledger_internal.h"

#define COMMIT_FREE_PART 4 // of the watermark is for the ends of what runs when it is reached
#define BATCH_BYTES_MAX  ((size_t)2 * BERTH_EVENT_SIZE_MAX)

void ledger_key(uint64_t sequence, uint8_t key[static LEDGER_KEY_SIZE])
{
	uint64_t big_endian = __builtin_bswap64(sequence);
	memcpy(key, &big_endian, sizeof big_endian);
}

uint64_t ledger_key_sequence(const uint8_t key[static LEDGER_KEY_SIZE])
{
	uint64_t big_endian;
	memcpy(&big_endian, key, sizeof big_endian);
	return __builtin_bswap64(big_endian);
}

void ledger_node_key(unsigned level, uint64_t start, uint8_t key[static LEDGER_NODE_KEY_SIZE])
{
	key[0] = (uint8_t)level;
	ledger_key(start, key + 1);
}

static bool open_store(struct berth_ledger *ledger, const struct berth_ledger_options *options, struct berth_error *err)
{
	static const char *const families[] = {"log", "leaf", "tree", "state", "secret", "row", "blob", NULL};
	const struct berth_store_options store_options = {
		.families = families,
		.disk_free_min_bytes = options->disk_free_min_bytes,
		.commit_free_min_bytes = options->disk_free_min_bytes / COMMIT_FREE_PART,
		.ballast_bytes = options->ballast_bytes,
		.cut_tail = options->cut_tail,
	};
	BERTH_AUTO_FREE char *folder = berth_path_join(ledger->data_folder, "ledger");
	ledger->store = berth_store_open(folder, &store_options, err);
	if (ledger->store) {
		ledger->batch = berth_store_batch_new(ledger->store);
	}
	return ledger->store;
}

// The tree as it was after event `size`, from the subtrees that are stored.
static bool tree_at(struct berth_ledger *ledger, uint64_t size, struct berth_merkle *tree, struct berth_error *err)
{
	for (unsigned level = 0; level < BERTH_MERKLE_LEVELS; level++) {
		uint64_t leaves = UINT64_C(1) << level;
		if (size & leaves &&
			!berth_ledger_node(ledger, level, size & ~(2 * leaves - 1), &tree->edge[level], err)) {
			return false;
		}
	}
	tree->size = size;
	return true;
}

bool berth_ledger_head_at(
	struct berth_ledger *ledger, uint64_t sequence, struct berth_ledger_head *head, struct berth_error *err)
{
	struct berth_merkle tree = {0};
	struct berth_ledger_head newest = berth_ledger_head(ledger);
	if (sequence == newest.sequence) {
		*head = newest;
		return true;
	}
	head->sequence = sequence;
	if (!berth_ledger_leaf(ledger, sequence, &head->leaf, err) || !tree_at(ledger, sequence, &tree, err)) {
		return false;
	}
	head->root = berth_merkle_root(&tree);
	return true;
}

static bool start_at_marker(struct berth_ledger *ledger, struct berth_error *err)
{
	uint64_t marker = ledger->marker;
	if (!marker) {
		return true;
	}
	ledger->head.sequence = marker; // what may be read
	return tree_at(ledger, marker, &ledger->tree, err) &&
	       berth_ledger_leaf(ledger, marker, &ledger->last_leaf, err);
}

bool berth_ledger_verify(struct berth_ledger *ledger, struct berth_error *err)
{
	const struct ledger_floor floor = {.sequence = ledger->head.sequence, .leaf = ledger->head.leaf};
	ledger->tree = (struct berth_merkle){0};
	return ledger_walk(ledger, &floor, err) || berth_error_wrap(err, "ledger");
}

static bool recover(struct berth_ledger *ledger, struct berth_error *err)
{
	struct ledger_floor floor;
	if (!ledger_floor_open(ledger, &floor, err) || !ledger_read_marker(ledger, err)) {
		return false;
	}
	if (start_at_marker(ledger, err) && ledger_walk(ledger, &floor, err)) {
		return true;
	}
	// Whatever is wrong before the marker shows only in a root: the whole walk names the event.
	if (ledger->marker && err->code == BERTH_ERROR_CORRUPT) {
		struct berth_error named;
		ledger->tree = (struct berth_merkle){0};
		if (!ledger_walk(ledger, &floor, &named)) {
			*err = named;
		}
	}
	return false;
}

struct berth_ledger *berth_ledger_open(
	const char *data_folder, const struct berth_ledger_options *options, struct berth_error *err)
{
	struct berth_ledger *ledger = berth_alloc(sizeof *ledger);
	ledger->data_folder = berth_strdup(data_folder);
	ledger->floor_fd = -1;
	pthread_mutex_init(&ledger->lock, NULL);
	pthread_mutex_init(&ledger->nodes.lock, NULL);
	if (!open_store(ledger, options, err) || !recover(ledger, err)) {
		berth_error_wrap(err, "ledger");
		berth_ledger_close(ledger);
		return NULL;
	}
	return ledger;
}

void berth_ledger_close(struct berth_ledger *ledger)
{
	if (!ledger) {
		return;
	}
	berth_store_batch_free(ledger->batch);
	berth_store_close(ledger->store);
	berth_close_cleanup(&ledger->floor_fd);
	berth_buf_free(&ledger->pending_leaves);
	ledger_wipe_keys(ledger);
	pthread_mutex_destroy(&ledger->lock);
	pthread_mutex_destroy(&ledger->nodes.lock);
	free(ledger->data_folder);
	free(ledger);
}

uint64_t berth_ledger_next(const struct berth_ledger *ledger)
{
	return ledger->tree.size + 1;
}

struct berth_ledger_head berth_ledger_head(struct berth_ledger *ledger)
{
	pthread_mutex_lock(&ledger->lock);
	struct berth_ledger_head head = ledger->head;
	pthread_mutex_unlock(&ledger->lock);
	return head;
}

void berth_ledger_release_ballast(struct berth_ledger *ledger)
{
	berth_store_release_ballast(ledger->store);
}

bool berth_ledger_disk_ok(struct berth_ledger *ledger, struct berth_error *err)
{
	return berth_store_disk_ok(ledger->store, err);
}

static bool may_append(struct berth_ledger *ledger, uint64_t sequence, size_t size, struct berth_error *err)
{
	unsigned long long number = sequence;
	if (sequence != berth_ledger_next(ledger)) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "event %llu is out of turn: the next one is %llu", number,
			(unsigned long long)berth_ledger_next(ledger));
	}
	if (size > BERTH_EVENT_SIZE_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "event %llu has %zu bytes, more than %d", number, size,
			BERTH_EVENT_SIZE_MAX);
	}
	if (ledger->batch_bytes + size > BATCH_BYTES_MAX) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED,
			"event %llu does not fit into the open batch: commit it first", number);
	}
	return berth_store_writable(ledger->store, err);
}

static void add_leaf(struct berth_ledger *ledger, uint64_t sequence, const struct berth_digest *leaf)
{
	struct berth_digest nodes[BERTH_MERKLE_LEVELS];
	unsigned levels = berth_merkle_add_nodes(&ledger->tree, leaf, nodes);
	for (unsigned level = LEDGER_STORED_LEVEL_MIN; level < levels; level++) {
		uint8_t key[LEDGER_NODE_KEY_SIZE];
		ledger_node_key(level, sequence - (UINT64_C(1) << level), key);
		berth_store_batch_put(
			ledger->batch, LEDGER_TREE, key, sizeof key, nodes[level].bytes, BERTH_DIGEST_SIZE);
	}
	if (ledger->pending_leaves.size == 0) {
		ledger->pending_first = sequence;
	}
	berth_buf_add(&ledger->pending_leaves, leaf->bytes, BERTH_DIGEST_SIZE);
	ledger->last_leaf = *leaf;
}

bool berth_ledger_append(
	struct berth_ledger *ledger, uint64_t sequence, const void *event, size_t size, struct berth_error *err)
{
	if (!may_append(ledger, sequence, size, err)) {
		return false;
	}
	uint8_t key[LEDGER_KEY_SIZE];
	ledger_key(sequence, key);
	berth_store_batch_put(ledger->batch, LEDGER_LOG, key, sizeof key, event, size);
	struct berth_digest leaf = berth_merkle_leaf(event, size);
	add_leaf(ledger, sequence, &leaf);
	ledger->batch_bytes += size;
	return true;
}

// What makes a later flip, hole or exchange of events tell its sequence: the leaves, and the head.
static void seal_batch(struct berth_ledger *ledger, const struct berth_ledger_head *head)
{
	uint8_t key[LEDGER_KEY_SIZE];
	ledger_key(ledger->pending_first, key);
	berth_store_batch_put(
		ledger->batch, LEDGER_LEAF, key, sizeof key, ledger->pending_leaves.data, ledger->pending_leaves.size);
	uint8_t value[LEDGER_HEAD_SIZE];
	ledger_key(head->sequence, value);
	memcpy(value + LEDGER_KEY_SIZE, head->leaf.bytes, BERTH_DIGEST_SIZE);
	memcpy(value + LEDGER_KEY_SIZE + BERTH_DIGEST_SIZE, head->root.bytes, BERTH_DIGEST_SIZE);
	berth_store_batch_put(
		ledger->batch, LEDGER_STATE, LEDGER_HEAD_KEY, strlen(LEDGER_HEAD_KEY), value, sizeof value);
}

static void publish(struct berth_ledger *ledger, const struct berth_ledger_head *head)
{
	pthread_mutex_lock(&ledger->lock);
	ledger->head = *head;
	pthread_mutex_unlock(&ledger->lock);
	const struct ledger_floor floor = {head->sequence, head->leaf};
	ledger_floor_set(ledger, &floor);
}

static void take_marker(struct berth_ledger *ledger)
{
	if (ledger->pending_marker) {
		pthread_mutex_lock(&ledger->lock);
		ledger->marker = ledger->pending_marker;
		pthread_mutex_unlock(&ledger->lock);
		ledger->pending_marker = 0;
	}
}

bool berth_ledger_commit(struct berth_ledger *ledger, struct berth_error *err)
{
	if (berth_store_batch_count(ledger->batch) == 0) {
		return true;
	}
	struct berth_ledger_head head = {.sequence = ledger->tree.size, .leaf = ledger->last_leaf};
	bool has_events = ledger->pending_leaves.size > 0;
	if (has_events) {
		head.root = berth_merkle_root(&ledger->tree);
		seal_batch(ledger, &head);
	}
	bool written = has_events || ledger->must_sync ? berth_store_commit(ledger->store, ledger->batch, err)
	                                               : berth_store_write(ledger->store, ledger->batch, err);
	if (!written) {
		return berth_error_wrap(err, "ledger");
	}
	ledger->batch_bytes = 0;
	ledger->must_sync = false;
	take_marker(ledger);
	if (has_events) {
		berth_buf_reset(&ledger->pending_leaves);
		publish(ledger, &head);
	}
	return true;
}
