// SPDX-License-Identifier: Apache-2.0
// Reads of committed events: any thread.
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/ledger/ledger_internal.h"

struct replay {
	bool (*visit)(void *context, uint64_t sequence, const void *event, size_t size, struct berth_error *err);
	void *context;
	struct berth_error *err;
	uint64_t next;
	uint64_t last;
	bool stopped;
};

static bool replay_one(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct replay *replay = context;
	if (replay->next > replay->last) {
		return false;
	}
	if (key_size != LEDGER_KEY_SIZE || ledger_key_sequence(key) != replay->next) {
		replay->stopped = true;
		return berth_fail(
			replay->err, BERTH_ERROR_CORRUPT, "event %llu is missing", (unsigned long long)replay->next);
	}
	if (!replay->visit(replay->context, replay->next, value, value_size, replay->err)) {
		replay->stopped = true;
		return false;
	}
	replay->next++;
	return true;
}

bool berth_ledger_replay(struct berth_ledger *ledger, uint64_t from,
	bool (*visit)(void *context, uint64_t sequence, const void *event, size_t size, struct berth_error *err),
	void *context, struct berth_error *err)
{
	struct replay replay = {.visit = visit, .context = context, .err = err};
	replay.next = from > 0 ? from : 1;
	replay.last = berth_ledger_head(ledger).sequence;
	uint8_t key[LEDGER_KEY_SIZE];
	ledger_key(replay.next, key);
	if (!berth_store_scan(ledger->store, LEDGER_LOG, NULL, 0, key, sizeof key, replay_one, &replay, err)) {
		return berth_error_wrap(err, "event %llu", (unsigned long long)replay.next);
	}
	if (!replay.stopped && replay.next <= replay.last) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "event %llu is missing", (unsigned long long)replay.next);
	}
	return !replay.stopped;
}

bool berth_ledger_read(struct berth_ledger *ledger, uint64_t sequence, struct berth_buf *event, struct berth_error *err)
{
	uint64_t last = berth_ledger_head(ledger).sequence;
	if (sequence == 0 || sequence > last) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND, "there is no event %llu: the last one is %llu",
			(unsigned long long)sequence, (unsigned long long)last);
	}
	uint8_t key[LEDGER_KEY_SIZE];
	ledger_key(sequence, key);
	struct berth_error cause;
	if (berth_store_get(ledger->store, LEDGER_LOG, key, sizeof key, event, &cause)) {
		return true;
	}
	// A committed event that is not there is damage, not an answer.
	enum berth_error_code code = cause.code == BERTH_ERROR_NOT_FOUND ? BERTH_ERROR_CORRUPT : cause.code;
	return berth_fail(err, code, "event %llu: %s", (unsigned long long)sequence, cause.message);
}

// One place for each, taken over by the newest.
static size_t place_of(unsigned level, uint64_t start)
{
	return (size_t)((start >> level) + (uint64_t)level * (LEDGER_NODES_KEPT / LEDGER_STORED_LEVEL_MIN)) %
	       LEDGER_NODES_KEPT;
}

static bool kept_node(struct berth_ledger *ledger, unsigned level, uint64_t start, struct berth_digest *node)
{
	struct ledger_nodes *nodes = &ledger->nodes;
	size_t place = place_of(level, start);
	pthread_mutex_lock(&nodes->lock);
	bool found =
		nodes->kept[place].filled && nodes->kept[place].level == level && nodes->kept[place].start == start;
	if (found) {
		*node = nodes->kept[place].node;
	}
	pthread_mutex_unlock(&nodes->lock);
	return found;
}

static void keep_node(struct berth_ledger *ledger, unsigned level, uint64_t start, const struct berth_digest *node)
{
	struct ledger_nodes *nodes = &ledger->nodes;
	size_t place = place_of(level, start);
	pthread_mutex_lock(&nodes->lock);
	nodes->kept[place].filled = true;
	nodes->kept[place].level = level;
	nodes->kept[place].start = start;
	nodes->kept[place].node = *node;
	pthread_mutex_unlock(&nodes->lock);
}

bool berth_ledger_leaf(
	struct berth_ledger *ledger, uint64_t sequence, struct berth_digest *leaf, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf event = {0};
	if (sequence && sequence <= berth_ledger_head(ledger).sequence && kept_node(ledger, 0, sequence - 1, leaf)) {
		return true;
	}
	if (!berth_ledger_read(ledger, sequence, &event, err)) {
		return false;
	}
	*leaf = berth_merkle_leaf(event.data, event.size);
	keep_node(ledger, 0, sequence - 1, leaf);
	return true;
}

struct small_subtree {
	struct berth_merkle tree;
	uint64_t size;
};

static bool add_event(void *context, uint64_t sequence, const void *event, size_t size, struct berth_error *err)
{
	(void)sequence;
	(void)err;
	struct small_subtree *subtree = context;
	struct berth_digest leaf = berth_merkle_leaf(event, size);
	berth_merkle_add(&subtree->tree, &leaf);
	return subtree->tree.size < subtree->size;
}

static bool stored_node(
	struct berth_ledger *ledger, unsigned level, uint64_t start, struct berth_digest *node, struct berth_error *err)
{
	uint8_t key[LEDGER_NODE_KEY_SIZE];
	ledger_node_key(level, start, key);
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	if (!berth_store_get(ledger->store, LEDGER_TREE, key, sizeof key, &value, err)) {
		return berth_error_wrap(err, "subtree %u of %llu", level, (unsigned long long)start);
	}
	if (value.size != BERTH_DIGEST_SIZE) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "subtree %u of %llu has %zu bytes", level,
			(unsigned long long)start, value.size);
	}
	memcpy(node->bytes, value.data, BERTH_DIGEST_SIZE);
	return true;
}

bool berth_ledger_node(
	void *context, unsigned level, uint64_t start, struct berth_digest *node, struct berth_error *err)
{
	struct berth_ledger *ledger = context;
	uint64_t size = level < BERTH_MERKLE_LEVELS ? UINT64_C(1) << level : 0;
	uint64_t last = berth_ledger_head(ledger).sequence;
	if (size == 0 || start % size != 0 || size > last || start > last - size) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND, "a log of %llu events has no full subtree %u of %llu",
			(unsigned long long)last, level, (unsigned long long)start);
	}
	if (level >= LEDGER_STORED_LEVEL_MIN) {
		return stored_node(ledger, level, start, node, err);
	}
	if (kept_node(ledger, level, start, node)) {
		return true;
	}
	struct small_subtree subtree = {.size = size};
	struct berth_error cause = {.code = BERTH_ERROR_OK};
	if (!berth_ledger_replay(ledger, start + 1, add_event, &subtree, &cause) && cause.code != BERTH_ERROR_OK) {
		return berth_fail(err, cause.code, "%s", cause.message);
	}
	*node = berth_merkle_root(&subtree.tree);
	keep_node(ledger, level, start, node);
	return true;
}

bool berth_ledger_copy(struct berth_ledger *ledger, const char *folder, struct berth_error *err)
{
	return berth_store_checkpoint(ledger->store, folder, err);
}
