// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store.h"
#include "tests/support/test.h"

enum { LOG, STATE };
static const char *const families[] = {"log", "state", NULL};
static const struct berth_store_options options = {.families = families};

struct fixture {
	char *folder;
	struct berth_store *store;
	struct berth_store_batch *batch;
};

static void open_store(struct fixture *fixture)
{
	struct berth_error err;
	fixture->store = berth_store_open(fixture->folder, &options, &err);
	assert_ok(fixture->store, err);
	fixture->batch = berth_store_batch_new(fixture->store);
}

static void close_store(struct fixture *fixture)
{
	berth_store_batch_free(fixture->batch);
	berth_store_close(fixture->store);
}

static int set_up(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	BERTH_AUTO_FREE char *parent = berth_test_folder();
	fixture->folder = berth_path_join(parent, "a/store");
	open_store(fixture);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	close_store(fixture);
	free(fixture->folder);
	free(fixture);
	return 0;
}

static void put(struct fixture *fixture, int family, const char *key, const char *value)
{
	berth_store_batch_put(fixture->batch, family, key, strlen(key), value, strlen(value));
}

static void commit(struct fixture *fixture)
{
	struct berth_error err;
	assert_ok(berth_store_commit(fixture->store, fixture->batch, &err), err);
	assert_int_equal(berth_store_batch_count(fixture->batch), 0);
}

static void assert_value(struct berth_store *store, int family, const char *key, const char *wanted)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	struct berth_error err;
	if (!wanted) {
		assert_fails(berth_store_get(store, family, key, strlen(key), &value, &err), err, BERTH_ERROR_NOT_FOUND,
			"no such key");
		return;
	}
	assert_ok(berth_store_get(store, family, key, strlen(key), &value, &err), err);
	assert_string_equal(berth_buf_text(&value), wanted);
}

static void a_committed_batch_is_there_after_reopening(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, LOG, "1", "one");
	put(fixture, STATE, "1", "other");
	put(fixture, STATE, "gone", "x");
	commit(fixture);
	berth_store_batch_delete(fixture->batch, STATE, "gone", 4);
	commit(fixture);
	close_store(fixture);
	open_store(fixture);
	assert_value(fixture->store, LOG, "1", "one");
	assert_value(fixture->store, STATE, "1", "other");
	assert_value(fixture->store, STATE, "gone", NULL);
}

static void an_uncommitted_batch_is_nowhere(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, LOG, "1", "one");
	assert_int_equal(berth_store_batch_count(fixture->batch), 1);
	assert_value(fixture->store, LOG, "1", NULL);
	close_store(fixture);
	open_store(fixture);
	assert_value(fixture->store, LOG, "1", NULL);
}

static void a_large_value_leaves_the_batch_usable(void **state)
{
	struct fixture *fixture = *state;
	const size_t size = 3 * 1024 * 1024;
	BERTH_AUTO_FREE char *large = berth_alloc(size);
	berth_store_batch_put(fixture->batch, LOG, "l", 1, large, size);
	commit(fixture);
	put(fixture, LOG, "s", "small");
	commit(fixture);
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	struct berth_error err;
	assert_ok(berth_store_get(fixture->store, LOG, "l", 1, &value, &err), err);
	assert_int_equal(value.size, size);
	assert_value(fixture->store, LOG, "s", "small");
}

struct seen {
	struct berth_buf keys;
	int left;
};

static bool see(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct seen *seen = context;
	berth_buf_add(&seen->keys, key, key_size);
	berth_buf_add_text(&seen->keys, "=");
	berth_buf_add(&seen->keys, value, value_size);
	berth_buf_add_text(&seen->keys, " ");
	return --seen->left != 0;
}

static void assert_scan(struct fixture *fixture, const char *prefix, const char *from, int most, const char *wanted)
{
	struct seen seen = {.left = most};
	struct berth_error err;
	assert_ok(berth_store_scan(fixture->store, LOG, prefix, prefix ? strlen(prefix) : 0, from,
			  from ? strlen(from) : 0, see, &seen, &err),
		err);
	assert_string_equal(berth_buf_text(&seen.keys), wanted);
	berth_buf_free(&seen.keys);
}

static void a_scan_is_ordered_and_stays_in_its_prefix(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, LOG, "b2", "4");
	put(fixture, LOG, "a", "1");
	put(fixture, LOG, "b", "2");
	put(fixture, LOG, "c", "5");
	put(fixture, LOG, "b1", "3");
	commit(fixture);
	assert_scan(fixture, NULL, NULL, 9, "a=1 b=2 b1=3 b2=4 c=5 ");
	assert_scan(fixture, "b", NULL, 9, "b=2 b1=3 b2=4 ");
	assert_scan(fixture, "b", "a", 9, "b=2 b1=3 b2=4 ");
	assert_scan(fixture, "b", "b1", 9, "b1=3 b2=4 ");
	assert_scan(fixture, "b", "c", 9, "");
	assert_scan(fixture, NULL, "b1x", 9, "b2=4 c=5 ");
	assert_scan(fixture, NULL, NULL, 2, "a=1 b=2 ");
	assert_scan(fixture, "d", NULL, 9, "");
}

static void the_last_key_is_found_or_the_family_is_empty(void **state)
{
	struct fixture *fixture = *state;
	BERTH_AUTO(berth_buf_free) struct berth_buf key = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	struct berth_error err;
	assert_fails(berth_store_last(fixture->store, LOG, &key, &value, &err), err, BERTH_ERROR_NOT_FOUND, "empty");
	put(fixture, LOG, "7", "seven");
	put(fixture, LOG, "8", "eight");
	put(fixture, STATE, "9", "nine");
	commit(fixture);
	assert_ok(berth_store_last(fixture->store, LOG, &key, &value, &err), err);
	assert_string_equal(berth_buf_text(&key), "8");
	assert_string_equal(berth_buf_text(&value), "eight");
}

static void a_folder_has_one_owner_at_a_time(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(berth_store_open(fixture->folder, &options, &err), err, BERTH_ERROR_CONFLICT, "in use");
	put(fixture, LOG, "1", "still works");
	commit(fixture);
	close_store(fixture);
	open_store(fixture);
	assert_value(fixture->store, LOG, "1", "still works");
}

static void a_family_that_is_new_is_made_and_one_that_is_forgotten_is_refused(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, STATE, "1", "kept");
	commit(fixture);
	close_store(fixture);
	static const char *const more[] = {"log", "state", "tree", NULL};
	const struct berth_store_options wider = {.families = more};
	struct berth_error err;
	struct berth_store *store = berth_store_open(fixture->folder, &wider, &err);
	assert_ok(store, err);
	assert_value(store, STATE, "1", "kept");
	berth_store_close(store);
	assert_fails(berth_store_open(fixture->folder, &options, &err), err, BERTH_ERROR_IO, "tree");
	BERTH_AUTO_FREE char *aside = berth_format("%s-2", fixture->folder);
	free(fixture->folder);
	fixture->folder = BERTH_STEAL(aside);
	open_store(fixture);
}

static void a_checkpoint_is_the_store_as_of_then(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, LOG, "1", "before");
	commit(fixture);
	BERTH_AUTO_FREE char *copy = berth_format("%s-copy", fixture->folder);
	struct berth_error err;
	assert_ok(berth_mkdir_all(copy, 0700, &err), err);
	assert_ok(berth_store_checkpoint(fixture->store, copy, &err), err);
	put(fixture, LOG, "2", "after");
	commit(fixture);
	struct berth_store *store = berth_store_open(copy, &options, &err);
	assert_ok(store, err);
	assert_value(store, LOG, "1", "before");
	assert_value(store, LOG, "2", NULL);
	berth_store_close(store);
	assert_fails(
		berth_store_checkpoint(fixture->store, copy, &err), err, BERTH_ERROR_CONFLICT, "not an empty folder");
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	WITH_STORE(a_committed_batch_is_there_after_reopening),
	WITH_STORE(an_uncommitted_batch_is_nowhere),
	WITH_STORE(a_large_value_leaves_the_batch_usable),
	WITH_STORE(a_scan_is_ordered_and_stays_in_its_prefix),
	WITH_STORE(the_last_key_is_found_or_the_family_is_empty),
	WITH_STORE(a_folder_has_one_owner_at_a_time),
	WITH_STORE(a_family_that_is_new_is_made_and_one_that_is_forgotten_is_refused),
	WITH_STORE(a_checkpoint_is_the_store_as_of_then),
};
BERTH_TEST_MAIN(tests)
