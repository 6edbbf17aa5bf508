// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/late.h"
#include "common/base/mem.h"
#include "common/base/table.h"
#include "tests/support/test.h"

static void an_error_keeps_its_cause_when_context_is_too_long(void **state)
{
	(void)state;
	struct berth_error err;
	berth_fail(&err, BERTH_ERROR_INVALID, "%s", "task.toml:3: cpus must be a whole number");
	char context[2 * BERTH_ERROR_MESSAGE_MAX];
	memset(context, 'c', sizeof context);
	context[sizeof context - 1] = 0;
	berth_error_wrap(&err, "%s", context);
	assert_int_equal(strlen(err.message), BERTH_ERROR_MESSAGE_MAX - 1);
	assert_non_null(strstr(err.message, ": task.toml:3: cpus must be a whole number"));
}

static void an_error_wraps_outside_in(void **state)
{
	(void)state;
	struct berth_error err;
	berth_fail(&err, BERTH_ERROR_NOT_FOUND, "no agent named %s", "quay-1");
	assert_false(berth_error_wrap(&err, "job %d", 7));
	assert_string_equal(err.message, "job 7: no agent named quay-1");
	assert_int_equal(err.code, BERTH_ERROR_NOT_FOUND);
	assert_int_equal(berth_error_exit_code(err.code), 3);
}

static void a_grpc_status_and_reason_give_back_the_same_code(void **state)
{
	(void)state;
	for (int code = BERTH_ERROR_OK; code <= BERTH_ERROR_UNAUTHENTICATED; code++) {
		assert_int_equal(berth_error_from_grpc(berth_error_grpc_status(code), berth_error_name(code)), code);
		assert_int_equal(berth_error_from_name(berth_error_name(code)), code);
	}
}

static void digests_match_their_published_values(void **state)
{
	(void)state;
	char hex[BERTH_DIGEST_HEX_SIZE];
	struct berth_digest digest = berth_sha256("abc", 3);
	berth_digest_hex(&digest, hex);
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	struct berth_hasher *hasher = berth_hasher_new();
	berth_hasher_add(hasher, "a", 1);
	berth_hasher_add(hasher, "bc", 2);
	struct berth_digest parts = berth_hasher_finish(hasher);
	assert_true(berth_digest_equal(&digest, &parts));
	// RFC 4231, test case 2.
	digest = berth_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28);
	berth_digest_hex(&digest, hex);
	assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void base64_refuses_what_is_not_base64(void **state)
{
	(void)state;
	static const char *const bad[] = {"a", "ab", "abc", "ab=c", "a===", "ab c", "!!!!", "ab\n="};
	for (size_t i = 0; i < BERTH_COUNT(bad); i++) {
		size_t size;
		BERTH_AUTO_FREE uint8_t *data = berth_unbase64(bad[i], strlen(bad[i]), &size);
		assert_null(data);
	}
	for (size_t length = 0; length < 70; length++) {
		uint8_t data[70];
		berth_random(data, length);
		BERTH_AUTO_FREE char *text = berth_base64(data, length);
		size_t size = 0;
		BERTH_AUTO_FREE uint8_t *back = berth_unbase64(text, strlen(text), &size);
		assert_int_equal(size, length);
		assert_memory_equal(back, data, length);
	}
}

static void times_are_written_as_harbor_and_the_ledger_want_them(void **state)
{
	(void)state;
	char text[BERTH_TIME_TEXT_SIZE];
	berth_time_harbor(INT64_C(1784462400) * BERTH_NS_PER_S, text);
	assert_string_equal(text, "2026-07-19T12:00:00.000000Z");
	berth_time_canonical(INT64_C(1784462400) * BERTH_NS_PER_S, text);
	assert_string_equal(text, "2026-07-19T12:00:00Z");
	berth_time_canonical(INT64_C(1784462401) * BERTH_NS_PER_S + 123456789, text);
	assert_string_equal(text, "2026-07-19T12:00:01.123456Z");
}

static void a_growing_array_keeps_its_items_and_moves_only_when_it_doubles(void **state)
{
	(void)state;
	BERTH_AUTO_FREE size_t *items = NULL;
	for (size_t i = 0; i < 1000; i++) {
		size_t *grown = berth_grow_array(items, i, sizeof *items);
		assert_true(grown == items || (i & (i - 1)) == 0);
		items = grown;
		items[i] = i;
	}
	for (size_t i = 0; i < 1000; i++) {
		assert_int_equal(items[i], i);
	}
}

static void a_written_file_is_whole_and_has_its_mode(void **state)
{
	(void)state;
	struct berth_error err;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "a/b/c.json");
	BERTH_AUTO_FREE char *parent = berth_path_join(folder, "a/b");
	assert_ok(berth_mkdir_all(parent, 0755, &err), err);
	assert_ok(berth_file_write(path, "old", 3, 0600, &err), err);
	assert_ok(berth_file_write(path, "newer", 5, 0640, &err), err);
	BERTH_AUTO(berth_buf_free) struct berth_buf buf = {0};
	assert_ok(berth_file_read(path, 100, &buf, &err), err);
	assert_string_equal(berth_buf_text(&buf), "newer");
	struct stat info;
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0640);
	assert_fails(berth_file_read(path, 4, &buf, &err), err, BERTH_ERROR_INVALID, "larger than 4 bytes");
	assert_fails(berth_file_read(folder, 4, &buf, &err), err, BERTH_ERROR_INVALID, "not a regular file");
	assert_ok(berth_file_write_unsynced(path, "last", 4, 0600, &err), err);
	berth_buf_reset(&buf);
	assert_ok(berth_file_read(path, 100, &buf, &err), err);
	assert_string_equal(berth_buf_text(&buf), "last");
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	assert_ok(berth_remove_all(folder, &err), err);
	assert_false(berth_file_exists(folder));
	assert_ok(berth_remove_all(folder, &err), err);
}

static void removing_a_tree_does_not_follow_links(void **state)
{
	(void)state;
	struct berth_error err;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *kept = berth_path_join(folder, "kept");
	BERTH_AUTO_FREE char *gone = berth_path_join(folder, "gone");
	BERTH_AUTO_FREE char *file = berth_path_join(kept, "file");
	BERTH_AUTO_FREE char *link = berth_path_join(gone, "link");
	assert_ok(berth_mkdir_all(kept, 0755, &err) && berth_mkdir_all(gone, 0755, &err), err);
	assert_ok(berth_file_write(file, "x", 1, 0644, &err), err);
	assert_int_equal(symlink(kept, link), 0);
	assert_ok(berth_remove_all(gone, &err), err);
	assert_true(berth_file_exists(file));
}

static void unsafe_paths_are_told_from_safe_ones(void **state)
{
	(void)state;
	static const char *const safe[] = {"a", "a/b", ".hidden", "a/..b", "-dash", "\xc3\xbc/x y"};
	static const char *const unsafe[] = {"", "/a", "..", "a/..", "../a", "a//b", "a/", "./a", "a\\b", "a\nb"};
	for (size_t i = 0; i < BERTH_COUNT(safe); i++) {
		assert_true(berth_path_is_safe(safe[i]));
	}
	for (size_t i = 0; i < BERTH_COUNT(unsafe); i++) {
		assert_false(berth_path_is_safe(unsafe[i]));
	}
}

static void *fire(void *context)
{
	berth_cancel_fire(context);
	return NULL;
}

static void a_cancelled_parent_wakes_a_sleeping_child(void **state)
{
	(void)state;
	struct berth_error err;
	struct berth_cancel *parent = berth_cancel_new(NULL);
	struct berth_cancel *child = berth_cancel_new(parent);
	pthread_t thread;
	pthread_create(&thread, NULL, fire, parent);
	assert_fails(
		berth_sleep_ms(60000, berth_within_ms(120000, child), &err), err, BERTH_ERROR_CANCELLED, "cancelled");
	pthread_join(thread, NULL);
	berth_cancel_free(child);
	berth_cancel_free(parent);
}

static void a_sleep_past_its_deadline_times_out(void **state)
{
	(void)state;
	struct berth_error err;
	assert_fails(berth_sleep_ms(60000, berth_within_ms(5, NULL), &err), err, BERTH_ERROR_TIMEOUT, "timed out");
	assert_ok(berth_sleep_ms(1, berth_within_ms(60000, NULL), &err), err);
}

static void count(void *context)
{
	++*(int *)context;
}

static void a_hook_runs_once_or_never(void **state)
{
	(void)state;
	int runs = 0;
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	struct berth_cancel_hook kept = {.run = count, .context = &runs};
	struct berth_cancel_hook dropped = {.run = count, .context = &runs};
	berth_cancel_hook(cancel, &kept);
	berth_cancel_hook(cancel, &dropped);
	berth_cancel_unhook(&dropped);
	berth_cancel_fire(cancel);
	berth_cancel_fire(cancel);
	assert_int_equal(runs, 1);
	struct berth_cancel_hook late = {.run = count, .context = &runs};
	berth_cancel_hook(cancel, &late);
	assert_int_equal(runs, 2);
	berth_cancel_unhook(&late);
	berth_cancel_unhook(&kept);
	berth_cancel_free(cancel);
}

static struct {
	double (*cosine)(double);
	int (*none)(void);
} late_calls;

static const char *const late_names[] = {"cos", "berth_has_no_such_function"};

static int first_uses;

static void used_first(void)
{
	first_uses += late_calls.cosine(0) == 1;
}

static struct berth_late late_of(const char *file, size_t count)
{
	return (struct berth_late){.file = file,
		.package = "libtest9",
		.names = late_names,
		.functions = &late_calls,
		.count = count,
		.first_use = used_first};
}

static void a_late_library_fills_its_table(void **state)
{
	(void)state;
	struct berth_error err;
	struct berth_late late = late_of("libm.so.6", 1);
	late_calls.cosine = NULL;
	first_uses = 0;
	assert_true(berth_late_load(&late, &err));
	assert_true(late_calls.cosine(0) == 1);
	assert_null(late_calls.none);
	assert_true(berth_late_load(&late, &err));
	assert_int_equal(first_uses, 1);
}

static void a_late_library_that_lacks_something_names_it_and_the_package(void **state)
{
	(void)state;
	struct berth_error err = {0};
	struct berth_late missing = late_of("libberth-none.so.1", 1);
	assert_false(berth_late_load(&missing, &err));
	assert_int_equal(err.code, BERTH_ERROR_UNSUPPORTED);
	assert_non_null(strstr(err.message, "libberth-none.so.1"));
	assert_non_null(strstr(err.message, "install the package libtest9"));
	struct berth_late partial = late_of("libm.so.6", 2);
	assert_false(berth_late_load(&partial, &err));
	assert_non_null(strstr(err.message, "berth_has_no_such_function"));
	assert_false(partial.loaded);
}

static void a_text_is_cut_to_its_room(void **state)
{
	(void)state;
	char room[4] = "xyz";
	berth_copy_text(room, sizeof room, "ab");
	assert_string_equal(room, "ab");
	berth_copy_text(room, sizeof room, "abcdef");
	assert_string_equal(room, "abc");
	berth_copy_text(room, sizeof room, "");
	assert_string_equal(room, "");
}

struct entry {
	char id[40];
	UT_hash_handle hh;
};

// Ids that differ in one place alone, of every length up to four words and more.
static void a_table_finds_each_of_many_like_ids(void **state)
{
	(void)state;
	static struct entry entries[2000];
	struct entry *table = NULL, *found;
	for (size_t i = 0; i < BERTH_COUNT(entries); i++) {
		snprintf(entries[i].id, sizeof entries[i].id, "%.*s%zu%.*s", (int)(i % 17), "aaaaaaaaaaaaaaaaaaa", i,
			(int)(i % 13), "bbbbbbbbbbbbb");
		HASH_ADD_STR(table, id, &entries[i]);
	}
	for (size_t i = 0; i < BERTH_COUNT(entries); i++) {
		HASH_FIND_STR(table, entries[i].id, found);
		assert_ptr_equal(found, &entries[i]);
	}
	HASH_FIND_STR(table, "a", found);
	assert_null(found);
	unsigned buckets = table->hh.tbl->num_buckets, most = 0;
	for (unsigned i = 0; i < buckets; i++) {
		most = table->hh.tbl->buckets[i].count > most ? table->hh.tbl->buckets[i].count : most;
	}
	assert_in_range(most, 1, 16); // spread, as by chance
	HASH_CLEAR(hh, table);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_text_is_cut_to_its_room),
	cmocka_unit_test(a_table_finds_each_of_many_like_ids),
	cmocka_unit_test(an_error_keeps_its_cause_when_context_is_too_long),
	cmocka_unit_test(an_error_wraps_outside_in),
	cmocka_unit_test(a_grpc_status_and_reason_give_back_the_same_code),
	cmocka_unit_test(digests_match_their_published_values),
	cmocka_unit_test(base64_refuses_what_is_not_base64),
	cmocka_unit_test(times_are_written_as_harbor_and_the_ledger_want_them),
	cmocka_unit_test(a_growing_array_keeps_its_items_and_moves_only_when_it_doubles),
	cmocka_unit_test(a_written_file_is_whole_and_has_its_mode),
	cmocka_unit_test(removing_a_tree_does_not_follow_links),
	cmocka_unit_test(unsafe_paths_are_told_from_safe_ones),
	cmocka_unit_test(a_cancelled_parent_wakes_a_sleeping_child),
	cmocka_unit_test(a_sleep_past_its_deadline_times_out),
	cmocka_unit_test(a_hook_runs_once_or_never),
	cmocka_unit_test(a_late_library_fills_its_table),
	cmocka_unit_test(a_late_library_that_lacks_something_names_it_and_the_package),
};

BERTH_TEST_MAIN(tests)
