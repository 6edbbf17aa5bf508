// SPDX-License-Identifier: Apache-2.0
// What an intruder or a bug can do to the stored log, done through the store itself: each is refused at open and named.
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store.h"
#include "tests/support/test.h"
#include "tests/unit/ledger/ledger_support.h"

#define EVENTS 600
#define BATCH  7

enum { LOG, LEAF, TREE, STATE, SECRET };
static const char *const families[] = {"log", "leaf", "tree", "state", "secret", "row", "blob", NULL};

struct fixture {
	char *folder;
	struct berth_store *store;
	struct berth_store_batch *batch;
};

static int set_up(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	fixture->folder = berth_test_folder();
	struct berth_ledger *ledger = must_open_ledger(fixture->folder);
	commit_events(ledger, EVENTS, BATCH);
	berth_ledger_close(ledger);
	const struct berth_store_options options = {.families = families};
	BERTH_AUTO_FREE char *path = berth_path_join(fixture->folder, "ledger");
	struct berth_error err;
	fixture->store = berth_store_open(path, &options, &err);
	assert_ok(fixture->store, err);
	fixture->batch = berth_store_batch_new(fixture->store);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	free(fixture->folder);
	free(fixture);
	return 0;
}

static void key_of(uint64_t sequence, uint8_t key[static 8])
{
	for (int i = 7; i >= 0; i--, sequence >>= 8) {
		key[i] = (uint8_t)sequence;
	}
}

static void put_event(struct fixture *fixture, uint64_t at, uint64_t content, size_t flipped)
{
	uint8_t key[8];
	uint8_t event[EVENT_SIZE_MAX];
	key_of(at, key);
	size_t size = event_bytes(content, event);
	if (flipped < size) {
		event[flipped] ^= 1;
	}
	berth_store_batch_put(fixture->batch, LOG, key, sizeof key, event, size);
}

static void remove_key(struct fixture *fixture, int family, uint64_t sequence)
{
	uint8_t key[8];
	key_of(sequence, key);
	berth_store_batch_delete(fixture->batch, family, key, sizeof key);
}

static void assert_refused(struct fixture *fixture, const char *part)
{
	struct berth_error err;
	assert_ok(berth_store_commit(fixture->store, fixture->batch, &err), err);
	berth_store_batch_free(fixture->batch);
	berth_store_close(fixture->store);
	const struct berth_ledger_options options = {0};
	assert_fails(berth_ledger_open(fixture->folder, &options, &err), err, BERTH_ERROR_CORRUPT, part);
}

static void a_flipped_bit_in_an_event_names_it(void **state)
{
	put_event(*state, 321, 321, 5);
	assert_refused(*state, "event 321 does not have the leaf hash");
}

static void a_flipped_bit_in_the_first_event_names_it(void **state)
{
	put_event(*state, 1, 1, 0);
	assert_refused(*state, "event 1 does not");
}

static void a_flipped_bit_in_the_last_event_names_it(void **state)
{
	put_event(*state, EVENTS, EVENTS, 3);
	assert_refused(*state, "event 600 does not");
}

static void an_exchanged_pair_names_the_first(void **state)
{
	put_event(*state, 100, 101, EVENT_SIZE_MAX);
	put_event(*state, 101, 100, EVENT_SIZE_MAX);
	assert_refused(*state, "event 100 does not");
}

static void a_removed_event_is_named(void **state)
{
	remove_key(*state, LOG, 55);
	assert_refused(*state, "event 55 is missing");
}

static void a_removed_first_event_is_named(void **state)
{
	remove_key(*state, LOG, 1);
	assert_refused(*state, "event 1 is missing");
}

static void a_removed_last_event_is_named(void **state)
{
	remove_key(*state, LOG, EVENTS);
	assert_refused(*state, "event 600 is missing");
}

static void a_removed_log_is_no_new_ledger(void **state)
{
	for (uint64_t sequence = 1; sequence <= EVENTS; sequence++) {
		remove_key(*state, LOG, sequence);
	}
	assert_refused(*state, "event 1 is missing");
}

static void an_added_event_is_named(void **state)
{
	put_event(*state, EVENTS + 1, EVENTS + 1, EVENT_SIZE_MAX);
	assert_refused(*state, "event 601 has no stored leaf hash");
}

static void a_key_that_is_no_sequence_is_refused(void **state)
{
	struct fixture *fixture = *state;
	berth_store_batch_put(fixture->batch, LOG, "zz", 2, "x", 1);
	assert_refused(fixture, "no sequence");
}

static void a_removed_run_of_leaves_names_its_first_event(void **state)
{
	remove_key(*state, LEAF, 1 + 3 * BATCH);
	assert_refused(*state, "event 22 has no stored leaf hash");
}

static void an_event_rewritten_together_with_its_leaf_breaks_the_tree(void **state)
{
	struct fixture *fixture = *state;
	uint8_t key[8];
	key_of(EVENTS - 4, key); // the last run: 595 is its first event
	key_of(1 + (EVENTS - 1) / BATCH * BATCH, key);
	BERTH_AUTO(berth_buf_free) struct berth_buf run = {0};
	struct berth_error err;
	assert_ok(berth_store_get(fixture->store, LEAF, key, sizeof key, &run, &err), err);
	put_event(fixture, 1 + (EVENTS - 1) / BATCH * BATCH, 9999, EVENT_SIZE_MAX);
	uint8_t event[EVENT_SIZE_MAX];
	size_t size = event_bytes(9999, event);
	struct berth_digest leaf = berth_merkle_leaf(event, size);
	memcpy(run.data, leaf.bytes, BERTH_DIGEST_SIZE);
	berth_store_batch_put(fixture->batch, LEAF, key, sizeof key, run.data, run.size);
	assert_refused(fixture, "another root than the stored head");
}

static void a_changed_stored_subtree_is_named(void **state)
{
	struct fixture *fixture = *state;
	const uint8_t key[9] = {8, 0, 0, 0, 0, 0, 0, 1, 0};
	const struct berth_digest other = {{1}};
	berth_store_batch_put(fixture->batch, TREE, key, sizeof key, other.bytes, sizeof other.bytes);
	assert_refused(fixture, "event 512 ends a subtree");
}

static void a_removed_head_is_refused(void **state)
{
	struct fixture *fixture = *state;
	berth_store_batch_delete(fixture->batch, STATE, "ledger/head", strlen("ledger/head"));
	assert_refused(fixture, "event 1 is beyond the stored head");
}

static char *wal_of(const char *folder)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "ledger");
	DIR *dir = opendir(path);
	assert_non_null(dir);
	char *found = NULL;
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct stat info;
		size_t length = strlen(entry->d_name);
		BERTH_AUTO_FREE char *file = berth_path_join(path, entry->d_name);
		if (length > 4 && strcmp(entry->d_name + length - 4, ".log") == 0 && stat(file, &info) == 0 &&
			info.st_size > 0) {
			free(found);
			found = BERTH_STEAL(file);
		}
	}
	closedir(dir);
	assert_non_null(found);
	return found;
}

static void a_lost_tail_of_committed_events_is_refused_until_the_floor_is_removed(void **state)
{
	struct fixture *fixture = *state;
	berth_store_batch_free(fixture->batch);
	berth_store_close(fixture->store);
	struct berth_ledger *ledger = must_open_ledger(fixture->folder);
	commit_events(ledger, 20, 1);
	berth_ledger_close(ledger);
	// To RocksDB this looks like a write that a crash tore off.
	BERTH_AUTO_FREE char *wal = wal_of(fixture->folder);
	struct stat info;
	assert_int_equal(stat(wal, &info), 0);
	assert_int_equal(truncate(wal, info.st_size - 3), 0);
	const struct berth_ledger_options options = {0};
	struct berth_error err;
	assert_fails(berth_ledger_open(fixture->folder, &options, &err), err, BERTH_ERROR_CORRUPT,
		"event 620 is missing, it was committed");
	BERTH_AUTO_FREE char *floor = berth_path_join(fixture->folder, "ledger.floor");
	assert_int_equal(unlink(floor), 0);
	ledger = must_open_ledger(fixture->folder);
	assert_events(ledger, 619);
	berth_ledger_close(ledger);
}

static void a_damaged_tail_is_cut_on_demand_and_the_floor_names_what_was_committed(void **state)
{
	struct fixture *fixture = *state;
	berth_store_batch_free(fixture->batch);
	berth_store_close(fixture->store);
	struct berth_ledger *ledger = must_open_ledger(fixture->folder);
	commit_events(ledger, 20, 1);
	berth_ledger_close(ledger);
	BERTH_AUTO_FREE char *wal = wal_of(fixture->folder);
	struct stat info;
	assert_int_equal(stat(wal, &info), 0);
	BERTH_AUTO(berth_close_cleanup) int fd = open(wal, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "\0\0\0\0\0\0\0\0", 8, info.st_size - 60), 8); // in the last event's write
	struct berth_ledger_options options = {0};
	struct berth_error err;
	assert_fails(berth_ledger_open(fixture->folder, &options, &err), err, BERTH_ERROR_CORRUPT, "cannot open");
	options.cut_tail = true;
	assert_fails(berth_ledger_open(fixture->folder, &options, &err), err, BERTH_ERROR_CORRUPT,
		"event 620 is missing, it was committed");
}

static void a_floor_that_was_torn_is_passed_over(void **state)
{
	struct fixture *fixture = *state;
	berth_store_batch_free(fixture->batch);
	berth_store_close(fixture->store);
	BERTH_AUTO_FREE char *floor = berth_path_join(fixture->folder, "ledger.floor");
	assert_int_equal(truncate(floor, 11), 0);
	struct berth_ledger *ledger = must_open_ledger(fixture->folder);
	assert_events(ledger, EVENTS);
	berth_ledger_close(ledger);
}

#define DAMAGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	DAMAGED(a_flipped_bit_in_an_event_names_it),
	DAMAGED(a_flipped_bit_in_the_first_event_names_it),
	DAMAGED(a_flipped_bit_in_the_last_event_names_it),
	DAMAGED(an_exchanged_pair_names_the_first),
	DAMAGED(a_removed_event_is_named),
	DAMAGED(a_removed_first_event_is_named),
	DAMAGED(a_removed_last_event_is_named),
	DAMAGED(a_removed_log_is_no_new_ledger),
	DAMAGED(an_added_event_is_named),
	DAMAGED(a_key_that_is_no_sequence_is_refused),
	DAMAGED(a_removed_run_of_leaves_names_its_first_event),
	DAMAGED(an_event_rewritten_together_with_its_leaf_breaks_the_tree),
	DAMAGED(a_changed_stored_subtree_is_named),
	DAMAGED(a_removed_head_is_refused),
	DAMAGED(a_lost_tail_of_committed_events_is_refused_until_the_floor_is_removed),
	DAMAGED(a_damaged_tail_is_cut_on_demand_and_the_floor_names_what_was_committed),
	DAMAGED(a_floor_that_was_torn_is_passed_over),
};
BERTH_TEST_MAIN(tests)
