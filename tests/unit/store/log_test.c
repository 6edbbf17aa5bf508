// SPDX-License-Identifier: Apache-2.0
// What an open does with the logs of earlier runs.
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store.h"
#include "tests/support/test.h"

#define KEPT_LOGS_MAX  4
#define KEPT_BYTES_MAX (256 * 1024)
#define VALUE_SIZE     1000

static const char *const families[] = {"one", "two", NULL};
static const struct berth_store_options options = {.families = families};

// Takes the place of libc's for everything in this process, RocksDB too.
static atomic_ulong watched_inode;
static atomic_int watched_syncs;
static atomic_bool watched_fails;
int fdatasync(int fd);
int fdatasync(int fd)
{
	struct stat info;
	if (fstat(fd, &info) == 0 && info.st_ino == atomic_load(&watched_inode)) {
		atomic_fetch_add(&watched_syncs, 1);
		if (atomic_load(&watched_fails)) {
			errno = EIO;
			return -1;
		}
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static struct berth_store *must_open(const char *folder)
{
	struct berth_error err;
	struct berth_store *store = berth_store_open(folder, &options, &err);
	assert_ok(store, err);
	return store;
}

static void put(struct berth_store *store, unsigned number, bool synced)
{
	char key[16];
	char value[VALUE_SIZE];
	snprintf(key, sizeof key, "%08u", number);
	memset(value, 'a' + (int)(number % 26), sizeof value);
	struct berth_store_batch *batch = berth_store_batch_new(store);
	berth_store_batch_put(batch, (int)(number % 2), key, strlen(key), value, sizeof value);
	struct berth_error err;
	assert_ok(synced ? berth_store_commit(store, batch, &err) : berth_store_write(store, batch, &err), err);
	berth_store_batch_free(batch);
}

static bool has(struct berth_store *store, unsigned number)
{
	char key[16];
	snprintf(key, sizeof key, "%08u", number);
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	struct berth_error err;
	bool found = berth_store_get(store, (int)(number % 2), key, strlen(key), &value, &err);
	assert_true(found ? value.size == VALUE_SIZE : err.code == BERTH_ERROR_NOT_FOUND);
	return found;
}

static void put_in_a_run(const char *folder, unsigned from, unsigned to)
{
	struct berth_store *store = must_open(folder);
	for (unsigned i = from; i < to; i++) {
		put(store, i, true);
	}
	berth_store_close(store);
}

static void assert_has_all(const char *folder, unsigned count)
{
	struct berth_store *store = must_open(folder);
	for (unsigned i = 0; i < count; i++) {
		assert_true(has(store, i));
	}
	berth_store_close(store);
}

// How many files have this ending; the largest one's path goes to `largest`, which the caller frees.
static int count_files(const char *folder, const char *ending, char **largest)
{
	DIR *dir = opendir(folder);
	assert_non_null(dir);
	int count = 0;
	off_t size = -1;
	for (struct dirent *entry; (entry = readdir(dir));) {
		size_t length = strlen(entry->d_name);
		if (length < strlen(ending) || strcmp(entry->d_name + length - strlen(ending), ending) != 0) {
			continue;
		}
		count++;
		BERTH_AUTO_FREE char *path = berth_path_join(folder, entry->d_name);
		struct stat info;
		assert_int_equal(stat(path, &info), 0);
		if (largest && info.st_size > size) {
			size = info.st_size;
			free(*largest);
			*largest = berth_strdup(path);
		}
	}
	closedir(dir);
	return count;
}

static int tables(const char *folder)
{
	return count_files(folder, ".sst", NULL);
}

static void few_small_logs_are_read_again_and_make_no_table(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	for (unsigned run = 0; run < KEPT_LOGS_MAX; run++) {
		put_in_a_run(folder, 2 * run, 2 * run + 2);
	}
	assert_has_all(folder, 2 * KEPT_LOGS_MAX);
	assert_int_equal(tables(folder), 0);
}

static void logs_of_many_runs_become_tables(void **state)
{
	(void)state;
	const unsigned runs = 4 * KEPT_LOGS_MAX;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	for (unsigned run = 0; run < runs; run++) {
		put_in_a_run(folder, run, run + 1);
		assert_in_range(count_files(folder, ".log", NULL), 1, KEPT_LOGS_MAX + 1);
	}
	assert_has_all(folder, runs);
	assert_true(tables(folder) > 0);
}

static void a_large_log_becomes_a_table(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	const unsigned many = KEPT_BYTES_MAX / VALUE_SIZE + 1;
	put_in_a_run(folder, 0, many);
	assert_has_all(folder, many);
	assert_true(tables(folder) > 0);
	assert_int_equal(count_files(folder, ".log", NULL), 1);
}

static void a_log_that_was_torn_and_kept_hides_nothing_that_came_later(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	put_in_a_run(folder, 0, 10);
	BERTH_AUTO_FREE char *log = NULL;
	count_files(folder, ".log", &log);
	struct stat info;
	assert_int_equal(stat(log, &info), 0);
	assert_int_equal(truncate(log, info.st_size - VALUE_SIZE / 2), 0);
	put_in_a_run(folder, 9, 12);
	put_in_a_run(folder, 12, 14);
	assert_has_all(folder, 14);
	assert_int_equal(tables(folder), 0);
}

// A process that was killed leaves what it had written and not synced; who reads it again may act on it.
static char *leave_unsynced(const char *folder)
{
	struct berth_store *store = must_open(folder);
	put(store, 0, false);
	berth_store_close(store);
	char *log = NULL;
	count_files(folder, ".log", &log);
	struct stat info;
	assert_int_equal(stat(log, &info), 0);
	assert_true(info.st_size > VALUE_SIZE);
	atomic_store(&watched_syncs, 0);
	atomic_store(&watched_inode, info.st_ino);
	return log;
}

static void a_log_that_is_kept_was_synced_before_it_is_read(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *log = leave_unsynced(folder);
	struct berth_store *store = must_open(folder);
	assert_true(has(store, 0));
	assert_int_equal(tables(folder), 0);
	assert_true(atomic_load(&watched_syncs) > 0);
	berth_store_close(store);
}

static void a_log_that_can_not_be_synced_becomes_a_table(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *log = leave_unsynced(folder);
	atomic_store(&watched_fails, true);
	struct berth_store *store = must_open(folder);
	atomic_store(&watched_fails, false);
	assert_true(has(store, 0));
	assert_true(tables(folder) > 0);
	berth_store_close(store);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(few_small_logs_are_read_again_and_make_no_table),
	cmocka_unit_test(logs_of_many_runs_become_tables),
	cmocka_unit_test(a_large_log_becomes_a_table),
	cmocka_unit_test(a_log_that_was_torn_and_kept_hides_nothing_that_came_later),
	cmocka_unit_test(a_log_that_is_kept_was_synced_before_it_is_read),
	cmocka_unit_test(a_log_that_can_not_be_synced_becomes_a_table),
};

int main(void)
{
	return cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL) != 0;
}
