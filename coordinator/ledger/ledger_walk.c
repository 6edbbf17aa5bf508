// SPDX-License-Identifier: Apache-2.0
// Recovery: the log is read once, and everything that was stored beside it is held against it.
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/ledger/ledger_internal.h"

#define LEAVES_AHEAD 4096 // leaf hashes read at a time

struct walk {
	struct berth_ledger *ledger;
	const struct ledger_floor *floor;
	struct berth_buf leaves; // stored ones from sequence leaves_first on
	uint64_t leaves_first;
	bool broken;
	struct berth_error *err;
};

static bool broken(struct walk *walk, uint64_t sequence, const char *what)
{
	walk->broken = true;
	return berth_fail(walk->err, BERTH_ERROR_CORRUPT, "event %llu %s: restore the data folder from a backup",
		(unsigned long long)sequence, what);
}

static bool take_leaves(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct walk *walk = context;
	uint64_t next = walk->leaves_first + walk->leaves.size / BERTH_DIGEST_SIZE;
	// A run that starts elsewhere ends what can be known; the event after that has no leaf and is named for it.
	if (key_size != LEDGER_KEY_SIZE || ledger_key_sequence(key) != next || value_size % BERTH_DIGEST_SIZE != 0) {
		return false;
	}
	berth_buf_add(&walk->leaves, value, value_size);
	return walk->leaves.size < (size_t)LEAVES_AHEAD * BERTH_DIGEST_SIZE;
}

// The leaf hash that was stored for this event when it was appended.
static const uint8_t *stored_leaf(struct walk *walk, uint64_t sequence)
{
	size_t at = (size_t)(sequence - walk->leaves_first) * BERTH_DIGEST_SIZE;
	if (at == walk->leaves.size) {
		uint8_t key[LEDGER_KEY_SIZE];
		ledger_key(sequence, key);
		berth_buf_reset(&walk->leaves);
		walk->leaves_first = sequence;
		at = 0;
		if (!berth_store_scan(
			    walk->ledger->store, LEDGER_LEAF, NULL, 0, key, sizeof key, take_leaves, walk, walk->err)) {
			walk->broken = true;
			return NULL;
		}
	}
	if (at == walk->leaves.size) {
		broken(walk, sequence, "has no stored leaf hash");
		return NULL;
	}
	return walk->leaves.data + at;
}

static bool check_node(struct walk *walk, unsigned level, uint64_t sequence, const struct berth_digest *node)
{
	uint8_t key[LEDGER_NODE_KEY_SIZE];
	ledger_node_key(level, sequence - (UINT64_C(1) << level), key);
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	struct berth_error missing;
	if (!berth_store_get(walk->ledger->store, LEDGER_TREE, key, sizeof key, &value, &missing) ||
		value.size != BERTH_DIGEST_SIZE || memcmp(value.data, node->bytes, BERTH_DIGEST_SIZE) != 0) {
		return broken(walk, sequence, "ends a subtree whose stored hash is another one");
	}
	return true;
}

static bool grow(struct walk *walk, uint64_t sequence, const struct berth_digest *leaf)
{
	struct berth_digest nodes[BERTH_MERKLE_LEVELS];
	unsigned levels = berth_merkle_add_nodes(&walk->ledger->tree, leaf, nodes);
	for (unsigned level = LEDGER_STORED_LEVEL_MIN; level < levels; level++) {
		if (!check_node(walk, level, sequence, &nodes[level])) {
			return false;
		}
	}
	walk->ledger->last_leaf = *leaf;
	return true;
}

static bool step(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct walk *walk = context;
	uint64_t sequence = walk->ledger->tree.size + 1;
	if (key_size != LEDGER_KEY_SIZE) {
		return broken(walk, sequence, "is followed by a key that is no sequence");
	}
	if (ledger_key_sequence(key) != sequence) {
		return broken(walk, sequence, "is missing");
	}
	struct berth_digest leaf = berth_merkle_leaf(value, value_size);
	const uint8_t *stored = stored_leaf(walk, sequence);
	if (!stored) {
		return false;
	}
	if (memcmp(stored, leaf.bytes, BERTH_DIGEST_SIZE) != 0) {
		return broken(walk, sequence, "does not have the leaf hash that was stored with it");
	}
	if (sequence == walk->floor->sequence && !berth_digest_equal(&leaf, &walk->floor->leaf)) {
		return broken(walk, sequence, "is not the one that was committed (ledger.floor)");
	}
	return grow(walk, sequence, &leaf);
}

static bool read_head(struct walk *walk, struct berth_ledger_head *head)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	struct berth_error err;
	if (!berth_store_get(
		    walk->ledger->store, LEDGER_STATE, LEDGER_HEAD_KEY, strlen(LEDGER_HEAD_KEY), &value, &err)) {
		*head = (struct berth_ledger_head){.sequence = 0};
		return err.code == BERTH_ERROR_NOT_FOUND || berth_fail(walk->err, err.code, "%s", err.message);
	}
	if (value.size != LEDGER_HEAD_SIZE) {
		return berth_fail(walk->err, BERTH_ERROR_CORRUPT, "the stored head has %zu bytes", value.size);
	}
	head->sequence = ledger_key_sequence(value.data);
	memcpy(head->leaf.bytes, value.data + LEDGER_KEY_SIZE, BERTH_DIGEST_SIZE);
	memcpy(head->root.bytes, value.data + LEDGER_KEY_SIZE + BERTH_DIGEST_SIZE, BERTH_DIGEST_SIZE);
	return true;
}

static bool check_end(struct walk *walk)
{
	struct berth_ledger *ledger = walk->ledger;
	struct berth_ledger_head stored;
	if (!read_head(walk, &stored)) {
		return false;
	}
	uint64_t last = ledger->tree.size;
	if (stored.sequence > last) {
		return broken(walk, last + 1, "is missing");
	}
	if (stored.sequence < last) {
		return broken(walk, stored.sequence + 1, "is beyond the stored head");
	}
	ledger->head = (struct berth_ledger_head){last, ledger->last_leaf, berth_merkle_root(&ledger->tree)};
	if (last > 0 && (!berth_digest_equal(&stored.leaf, &ledger->head.leaf) ||
				!berth_digest_equal(&stored.root, &ledger->head.root))) {
		return broken(walk, last, "ends a log whose tree has another root than the stored head");
	}
	if (walk->floor->sequence > last) {
		return berth_fail(walk->err, BERTH_ERROR_CORRUPT,
			"event %llu is missing, it was committed: restore the data folder from a backup; "
			"if it was just restored, remove %s/ledger.floor",
			(unsigned long long)last + 1, ledger->data_folder);
	}
	return true;
}

bool ledger_walk(struct berth_ledger *ledger, const struct ledger_floor *floor, struct berth_error *err)
{
	struct walk walk = {.ledger = ledger, .floor = floor, .leaves_first = ledger->tree.size + 1, .err = err};
	uint8_t from[LEDGER_KEY_SIZE];
	ledger_key(ledger->tree.size + 1, from);
	const void *start = ledger->tree.size ? from : NULL;
	bool walked =
		berth_store_scan(ledger->store, LEDGER_LOG, NULL, 0, start, start ? sizeof from : 0, step, &walk, err);
	berth_buf_free(&walk.leaves);
	if (!walk.broken && !walked) {
		return berth_error_wrap(err, "event %llu", (unsigned long long)ledger->tree.size + 1);
	}
	return !walk.broken && check_end(&walk);
}
