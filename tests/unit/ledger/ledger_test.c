// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/thread.h"
#include "tests/support/test.h"
#include "tests/unit/ledger/ledger_support.h"

#define READERS 3

static struct berth_merkle tree_of(uint64_t last)
{
	struct berth_merkle tree = {0};
	for (uint64_t sequence = 1; sequence <= last; sequence++) {
		uint8_t event[EVENT_SIZE_MAX];
		size_t size = event_bytes(sequence, event);
		struct berth_digest leaf = berth_merkle_leaf(event, size);
		berth_merkle_add(&tree, &leaf);
	}
	return tree;
}

static void an_empty_ledger_has_the_empty_root_and_starts_at_one(void **state)
{
	struct ledger_fixture *fixture = *state;
	struct berth_ledger_head head = berth_ledger_head(fixture->ledger);
	struct berth_digest nothing = berth_sha256("", 0);
	assert_int_equal(head.sequence, 0);
	assert_memory_equal(head.root.bytes, nothing.bytes, BERTH_DIGEST_SIZE);
	assert_int_equal(berth_ledger_next(fixture->ledger), 1);
	struct berth_error err;
	assert_ok(berth_ledger_commit(fixture->ledger, &err), err);
	ledger_reopen(fixture);
	assert_events(fixture->ledger, 0);
}

static void events_and_the_head_survive_reopening(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 1000, 17);
	struct berth_ledger_head before = berth_ledger_head(fixture->ledger);
	struct berth_merkle tree = tree_of(1000);
	struct berth_digest root = berth_merkle_root(&tree);
	assert_memory_equal(before.root.bytes, root.bytes, BERTH_DIGEST_SIZE);
	ledger_reopen(fixture);
	struct berth_ledger_head after = berth_ledger_head(fixture->ledger);
	assert_memory_equal(&before, &after, sizeof before);
	assert_events(fixture->ledger, 1000);
	commit_events(fixture->ledger, 600, 600);
	ledger_reopen(fixture);
	assert_events(fixture->ledger, 1600);
}

static void an_open_batch_is_seen_by_no_one(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 3, 3);
	append_events(fixture->ledger, 2);
	assert_int_equal(berth_ledger_next(fixture->ledger), 6);
	assert_events(fixture->ledger, 3);
	BERTH_AUTO(berth_buf_free) struct berth_buf event = {0};
	struct berth_digest leaf;
	struct berth_error err;
	assert_fails(berth_ledger_read(fixture->ledger, 4, &event, &err), err, BERTH_ERROR_NOT_FOUND, "no event 4");
	assert_fails(berth_ledger_leaf(fixture->ledger, 4, &leaf, &err), err, BERTH_ERROR_NOT_FOUND, "no event 4");
	assert_fails(berth_ledger_read(fixture->ledger, 0, &event, &err), err, BERTH_ERROR_NOT_FOUND, "no event 0");
	ledger_reopen(fixture);
	assert_events(fixture->ledger, 3);
}

static void an_event_out_of_turn_is_refused(void **state)
{
	struct ledger_fixture *fixture = *state;
	struct berth_error err;
	assert_fails(
		berth_ledger_append(fixture->ledger, 2, "x", 1, &err), err, BERTH_ERROR_INTERNAL, "the next one is 1");
	append_events(fixture->ledger, 1);
	assert_fails(
		berth_ledger_append(fixture->ledger, 1, "x", 1, &err), err, BERTH_ERROR_INTERNAL, "the next one is 2");
}

static void an_event_or_a_batch_beyond_its_bound_is_refused(void **state)
{
	struct ledger_fixture *fixture = *state;
	const size_t size = BERTH_EVENT_SIZE_MAX;
	BERTH_AUTO_FREE uint8_t *large = berth_alloc(size + 1);
	struct berth_error err;
	assert_fails(
		berth_ledger_append(fixture->ledger, 1, large, size + 1, &err), err, BERTH_ERROR_INVALID, "more than");
	assert_ok(berth_ledger_append(fixture->ledger, 1, large, size, &err), err);
	assert_ok(berth_ledger_append(fixture->ledger, 2, large, size, &err), err);
	assert_fails(
		berth_ledger_append(fixture->ledger, 3, large, 1, &err), err, BERTH_ERROR_EXHAUSTED, "commit it first");
}

static void a_read_gives_the_stored_bytes_and_their_leaf(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 40, 40);
	uint8_t wanted[EVENT_SIZE_MAX];
	size_t size = event_bytes(33, wanted);
	BERTH_AUTO(berth_buf_free) struct berth_buf event = {0};
	struct berth_digest leaf;
	struct berth_error err;
	assert_ok(berth_ledger_read(fixture->ledger, 33, &event, &err), err);
	assert_int_equal(event.size, size);
	assert_memory_equal(event.data, wanted, size);
	assert_ok(berth_ledger_leaf(fixture->ledger, 33, &leaf, &err), err);
	struct berth_digest wanted_leaf = berth_merkle_leaf(wanted, size);
	assert_memory_equal(leaf.bytes, wanted_leaf.bytes, BERTH_DIGEST_SIZE);
	assert_ok(berth_ledger_leaf(fixture->ledger, 40, &leaf, &err), err);
	struct berth_ledger_head head = berth_ledger_head(fixture->ledger);
	assert_memory_equal(leaf.bytes, head.leaf.bytes, BERTH_DIGEST_SIZE);
}

static bool stop_at_seven(void *context, uint64_t sequence, const void *event, size_t size, struct berth_error *err)
{
	(void)event;
	(void)size;
	++*(int *)context;
	return sequence < 7 || berth_fail(err, BERTH_ERROR_UNSUPPORTED, "stopped at seven");
}

static void a_replay_starts_where_it_is_told_and_stops_with_the_visitors_error(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 20, 5);
	int seen = 0;
	struct berth_error err;
	assert_fails(berth_ledger_replay(fixture->ledger, 4, stop_at_seven, &seen, &err), err, BERTH_ERROR_UNSUPPORTED,
		"stopped at seven");
	assert_int_equal(seen, 4);
	seen = 0;
	assert_ok(berth_ledger_replay(fixture->ledger, 21, stop_at_seven, &seen, &err), err);
	assert_int_equal(seen, 0);
}

static void assert_included(struct berth_ledger *ledger, uint64_t sequence, uint64_t size)
{
	struct berth_merkle tree = tree_of(size);
	struct berth_digest root = berth_merkle_root(&tree);
	struct berth_digest proof[BERTH_MERKLE_LEVELS + 1];
	struct berth_digest leaf;
	size_t count = 0;
	struct berth_error err;
	assert_ok(berth_ledger_leaf(ledger, sequence, &leaf, &err), err);
	assert_ok(berth_merkle_inclusion(sequence - 1, size, berth_ledger_node, ledger, proof, &count, &err), err);
	assert_true(berth_merkle_verify_inclusion(&leaf, sequence - 1, size, proof, count, &root));
}

static void proofs_are_made_from_the_log_across_stored_and_small_subtrees(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 1300, 33);
	ledger_reopen(fixture);
	commit_events(fixture->ledger, 77, 5);
	static const uint64_t sequences[] = {1, 2, 255, 256, 257, 511, 512, 513, 1024, 1025, 1280, 1377};
	static const uint64_t sizes[] = {1377, 1280, 1024, 513, 257, 256};
	for (size_t i = 0; i < BERTH_COUNT(sequences); i++) {
		for (size_t j = 0; j < BERTH_COUNT(sizes); j++) {
			if (sequences[i] <= sizes[j]) {
				assert_included(fixture->ledger, sequences[i], sizes[j]);
			}
		}
	}
	for (size_t i = 0; i < BERTH_COUNT(sizes); i++) {
		struct berth_merkle old_tree = tree_of(sizes[i]);
		struct berth_digest old_root = berth_merkle_root(&old_tree);
		struct berth_ledger_head head = berth_ledger_head(fixture->ledger);
		struct berth_digest proof[BERTH_MERKLE_LEVELS + 1];
		size_t count = 0;
		struct berth_error err;
		assert_ok(berth_merkle_consistency(
				  sizes[i], head.sequence, berth_ledger_node, fixture->ledger, proof, &count, &err),
			err);
		assert_true(
			berth_merkle_verify_consistency(sizes[i], &old_root, head.sequence, &head.root, proof, count));
	}
}

// Small subtrees are kept once they were made: more of them than there is room for, asked for again and again, while
// the log grows.
static void a_proof_is_the_same_whatever_was_asked_before(void **state)
{
	struct ledger_fixture *fixture = *state;
	for (int i = 0; i < 3; i++) {
		commit_events(fixture->ledger, 333, 333);
		uint64_t size = berth_ledger_head(fixture->ledger).sequence;
		for (uint64_t sequence = 1; sequence <= size; sequence += 7) {
			assert_included(fixture->ledger, sequence, size);
			assert_included(fixture->ledger, size - sequence + 1, size);
			assert_included(fixture->ledger, sequence, sequence);
		}
	}
}

static void the_head_of_an_earlier_event_is_what_it_was_then(void **state)
{
	struct ledger_fixture *fixture = *state;
	struct berth_error err;
	struct berth_ledger_head head, then[9];
	for (size_t i = 0; i < BERTH_COUNT(then); i++) {
		commit_events(fixture->ledger, i == 4 ? 600 : i + 1, 100);
		then[i] = berth_ledger_head(fixture->ledger);
	}
	for (size_t i = 0; i < BERTH_COUNT(then); i++) {
		assert_ok(berth_ledger_head_at(fixture->ledger, then[i].sequence, &head, &err), err);
		assert_int_equal(head.sequence, then[i].sequence);
		assert_memory_equal(head.leaf.bytes, then[i].leaf.bytes, BERTH_DIGEST_SIZE);
		assert_memory_equal(head.root.bytes, then[i].root.bytes, BERTH_DIGEST_SIZE);
	}
	uint64_t beyond = then[BERTH_COUNT(then) - 1].sequence + 1;
	assert_fails(
		berth_ledger_head_at(fixture->ledger, beyond, &head, &err), err, BERTH_ERROR_NOT_FOUND, "no event");
}

static void a_subtree_that_is_not_full_is_not_found(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 300, 300);
	struct berth_digest node;
	struct berth_error err;
	assert_ok(berth_ledger_node(fixture->ledger, 8, 0, &node, &err), err);
	assert_fails(berth_ledger_node(fixture->ledger, 8, 256, &node, &err), err, BERTH_ERROR_NOT_FOUND, "subtree");
	assert_fails(berth_ledger_node(fixture->ledger, 3, 4, &node, &err), err, BERTH_ERROR_NOT_FOUND, "subtree");
	assert_fails(berth_ledger_node(fixture->ledger, 0, 300, &node, &err), err, BERTH_ERROR_NOT_FOUND, "subtree");
	assert_fails(berth_ledger_node(fixture->ledger, 64, 0, &node, &err), err, BERTH_ERROR_NOT_FOUND, "subtree");
}

static void a_data_folder_has_one_ledger_at_a_time(void **state)
{
	struct ledger_fixture *fixture = *state;
	const struct berth_ledger_options options = {0};
	struct berth_error err;
	assert_fails(berth_ledger_open(fixture->folder, &options, &err), err, BERTH_ERROR_CONFLICT, "in use");
	commit_events(fixture->ledger, 2, 1);
	ledger_reopen(fixture);
	assert_events(fixture->ledger, 2);
}

struct reading {
	struct berth_ledger *ledger;
	atomic_bool over;
	atomic_int wrong;
};

static void *read_heads(void *context)
{
	struct reading *reading = context;
	uint64_t last = 0;
	while (!atomic_load(&reading->over)) {
		struct berth_ledger_head head = berth_ledger_head(reading->ledger);
		struct berth_digest leaf;
		if (head.sequence < last ||
			(head.sequence > 0 && (!berth_ledger_leaf(reading->ledger, head.sequence, &leaf, NULL) ||
						      !berth_digest_equal(&leaf, &head.leaf)))) {
			atomic_fetch_add(&reading->wrong, 1);
		}
		last = head.sequence;
	}
	return NULL;
}

static void readers_see_only_whole_heads_while_the_writer_commits(void **state)
{
	struct ledger_fixture *fixture = *state;
	struct reading reading = {.ledger = fixture->ledger};
	pthread_t threads[READERS];
	struct berth_error err;
	for (int i = 0; i < READERS; i++) {
		assert_ok(berth_thread_start(&threads[i], "reader", read_heads, &reading, &err), err);
	}
	commit_events(fixture->ledger, 600, 3);
	atomic_store(&reading.over, true);
	for (int i = 0; i < READERS; i++) {
		pthread_join(threads[i], NULL);
	}
	assert_int_equal(atomic_load(&reading.wrong), 0);
	assert_events(fixture->ledger, 600);
}

static void opening_below_the_watermark_is_refused_and_loses_nothing(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 10, 10);
	berth_ledger_close(fixture->ledger);
	const struct berth_ledger_options too_much = {.disk_free_min_bytes = INT64_MAX / 2};
	struct berth_error err;
	struct berth_ledger *refused = berth_ledger_open(fixture->folder, &too_much, &err);
	fixture->ledger = NULL;
	assert_fails(refused, err, BERTH_ERROR_EXHAUSTED, "bytes free");
	fixture->ledger = must_open_ledger(fixture->folder);
	assert_events(fixture->ledger, 10);
}

#define WITH_LEDGER(test) cmocka_unit_test_setup_teardown(test, ledger_set_up, ledger_tear_down)

static const struct CMUnitTest tests[] = {
	WITH_LEDGER(an_empty_ledger_has_the_empty_root_and_starts_at_one),
	WITH_LEDGER(events_and_the_head_survive_reopening),
	WITH_LEDGER(an_open_batch_is_seen_by_no_one),
	WITH_LEDGER(an_event_out_of_turn_is_refused),
	WITH_LEDGER(an_event_or_a_batch_beyond_its_bound_is_refused),
	WITH_LEDGER(a_read_gives_the_stored_bytes_and_their_leaf),
	WITH_LEDGER(a_replay_starts_where_it_is_told_and_stops_with_the_visitors_error),
	WITH_LEDGER(proofs_are_made_from_the_log_across_stored_and_small_subtrees),
	WITH_LEDGER(a_proof_is_the_same_whatever_was_asked_before),
	WITH_LEDGER(the_head_of_an_earlier_event_is_what_it_was_then),
	WITH_LEDGER(a_subtree_that_is_not_full_is_not_found),
	WITH_LEDGER(a_data_folder_has_one_ledger_at_a_time),
	WITH_LEDGER(readers_see_only_whole_heads_while_the_writer_commits),
	WITH_LEDGER(opening_below_the_watermark_is_refused_and_loses_nothing),
};
BERTH_TEST_MAIN(tests)
