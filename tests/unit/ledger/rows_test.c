// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store.h"
#include "tests/support/test.h"
#include "tests/unit/ledger/ledger_support.h"

#define VALUES_MAX 16

static void put(struct ledger_fixture *fixture, uint64_t checkpoint, const char *key, unsigned slot, const char *value)
{
	berth_ledger_put_row(fixture->ledger, checkpoint, key, slot, value, strlen(value));
}

static void commit(struct ledger_fixture *fixture)
{
	struct berth_error err;
	assert_ok(berth_ledger_commit(fixture->ledger, &err), err);
}

static void mark(struct ledger_fixture *fixture, uint64_t checkpoint)
{
	berth_ledger_put_marker(fixture->ledger, checkpoint);
	commit(fixture);
}

struct list {
	struct berth_buf text; // "key@slot=value " each
	size_t most;
};

static bool list_one(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct list *list = context;
	BERTH_AUTO_FREE char *line = berth_format("%s@%u=%.*s ", key, slot, (int)size, (const char *)value);
	berth_buf_add_text(&list->text, line);
	return --list->most > 0;
}

static void assert_rows(
	struct ledger_fixture *fixture, const char *prefix, const char *after, size_t most, const char *wanted)
{
	struct list list = {.most = most};
	struct berth_error err;
	assert_ok(berth_ledger_rows(fixture->ledger, prefix, after, list_one, &list, &err), err);
	berth_buf_add_byte(&list.text, 0);
	assert_string_equal((const char *)list.text.data, wanted);
	berth_buf_free(&list.text);
}

static void records_count_once_their_checkpoint_is_whole(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 5, 5);
	put(fixture, 5, "job/a", 1, "one");
	put(fixture, 5, "job/b", 1, "two");
	commit(fixture);
	assert_rows(fixture, "job/", NULL, VALUES_MAX, "");
	mark(fixture, 5);
	assert_rows(fixture, "job/", NULL, VALUES_MAX, "job/a@1=one job/b@1=two ");
	assert_int_equal(berth_ledger_marker(fixture->ledger), 5);
}

static void a_checkpoint_that_was_cut_short_is_as_if_it_had_never_begun(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 5, 5);
	put(fixture, 5, "job/a", 1, "old");
	put(fixture, 5, "trial/a/00000001", 1, "old");
	mark(fixture, 5);
	commit_events(fixture->ledger, 4, 4);
	put(fixture, 9, "job/a", 0, "new");
	put(fixture, 9, "job/c", 1, "new");
	commit(fixture);
	ledger_reopen(fixture);
	assert_rows(fixture, "job/", NULL, VALUES_MAX, "job/a@1=old ");
	struct berth_buf value = {0};
	struct berth_error err;
	assert_ok(berth_ledger_row(fixture->ledger, "job/a", &value, &err), err);
	assert_memory_equal(value.data, "old", 3);
	assert_fails(berth_ledger_row(fixture->ledger, "job/c", &value, &err), err, BERTH_ERROR_NOT_FOUND, "job/c");
	// The next one takes the same places.
	put(fixture, 9, "job/a", 0, "newer");
	mark(fixture, 9);
	ledger_reopen(fixture);
	assert_rows(fixture, "job/", NULL, VALUES_MAX, "job/a@0=newer job/c@1=new ");
	assert_rows(fixture, "trial/a/", NULL, VALUES_MAX, "trial/a/00000001@1=old ");
	berth_buf_free(&value);
}

static void records_are_read_by_prefix_in_pages(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 2, 2);
	put(fixture, 1, "lease/a/1", 1, "x");
	put(fixture, 2, "lease/a/1", 0, "y");
	put(fixture, 2, "lease/a/2", 0, "z");
	put(fixture, 2, "lease/ab/1", 0, "w");
	mark(fixture, 2);
	assert_rows(fixture, "lease/a/", NULL, 1, "lease/a/1@0=y ");
	assert_rows(fixture, "lease/a/", "lease/a/1", VALUES_MAX, "lease/a/2@0=z ");
	assert_rows(fixture, "lease/", NULL, VALUES_MAX, "lease/a/1@0=y lease/a/2@0=z lease/ab/1@0=w ");
}

// One more event and place for each size, so that the tree is begun at every shape of its edge.
static void the_tree_goes_on_from_any_marker(void **state)
{
	struct ledger_fixture *fixture = *state;
	struct berth_merkle tree = {0};
	for (uint64_t sequence = 1; sequence <= 600; sequence++) {
		uint8_t event[EVENT_SIZE_MAX];
		size_t size = event_bytes(sequence, event);
		struct berth_digest leaf = berth_merkle_leaf(event, size);
		berth_merkle_add(&tree, &leaf);
		commit_events(fixture->ledger, 1, 1);
		if (sequence % 37 == 0 || sequence == 256 || sequence == 512) {
			mark(fixture, sequence);
		}
		if (sequence % 37 < 2 || sequence % 256 < 2) {
			ledger_reopen(fixture);
			struct berth_digest root = berth_merkle_root(&tree);
			struct berth_ledger_head head = berth_ledger_head(fixture->ledger);
			assert_int_equal(head.sequence, sequence);
			assert_memory_equal(head.root.bytes, root.bytes, BERTH_DIGEST_SIZE);
			assert_memory_equal(head.leaf.bytes, leaf.bytes, BERTH_DIGEST_SIZE);
		}
	}
	struct berth_error err;
	assert_ok(berth_ledger_verify(fixture->ledger, &err), err);
	assert_events(fixture->ledger, 600);
}

static void flip(const char *folder, uint64_t sequence)
{
	static const char *const families[] = {"log", "leaf", "tree", "state", "secret", "row", "blob", NULL};
	const struct berth_store_options options = {.families = families};
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "ledger");
	struct berth_error err;
	struct berth_store *store = berth_store_open(path, &options, &err);
	assert_ok(store, err);
	struct berth_store_batch *batch = berth_store_batch_new(store);
	uint8_t key[8] = {0}, event[EVENT_SIZE_MAX];
	key[6] = (uint8_t)(sequence >> 8);
	key[7] = (uint8_t)sequence;
	size_t size = event_bytes(sequence, event);
	event[0] ^= 1;
	berth_store_batch_put(batch, 0, key, sizeof key, event, size);
	assert_ok(berth_store_commit(store, batch, &err), err);
	berth_store_batch_free(batch);
	berth_store_close(store);
}

static void assert_open_names(struct ledger_fixture *fixture, const char *event)
{
	struct berth_error err;
	const struct berth_ledger_options options = {0};
	fixture->ledger = berth_ledger_open(fixture->folder, &options, &err);
	assert_null(fixture->ledger);
	assert_int_equal(err.code, BERTH_ERROR_CORRUPT);
	assert_non_null(strstr(err.message, event));
}

static void an_edited_event_is_named_by_a_verification_wherever_it_is(void **state)
{
	struct ledger_fixture *fixture = *state;
	struct berth_error err;
	commit_events(fixture->ledger, 600, 4);
	mark(fixture, 520);
	berth_ledger_close(fixture->ledger);
	flip(fixture->folder, 7); // under a stored subtree: a start takes its hash
	fixture->ledger = must_open_ledger(fixture->folder);
	assert_fails(berth_ledger_verify(fixture->ledger, &err), err, BERTH_ERROR_CORRUPT, "event 7 ");
}

static void an_edited_event_near_the_marker_or_after_it_is_named_at_open(void **state)
{
	struct ledger_fixture *fixture = *state;
	commit_events(fixture->ledger, 600, 4);
	mark(fixture, 520);
	berth_ledger_close(fixture->ledger);
	flip(fixture->folder, 561);
	assert_open_names(fixture, "event 561 ");
	flip(fixture->folder, 515);
	assert_open_names(fixture, "event 515 ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ledger_set_up, ledger_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_count_once_their_checkpoint_is_whole),
		TEST(a_checkpoint_that_was_cut_short_is_as_if_it_had_never_begun),
		TEST(records_are_read_by_prefix_in_pages),
		TEST(the_tree_goes_on_from_any_marker),
		TEST(an_edited_event_is_named_by_a_verification_wherever_it_is),
		TEST(an_edited_event_near_the_marker_or_after_it_is_named_at_open),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
