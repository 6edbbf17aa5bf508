// SPDX-License-Identifier: Apache-2.0
// What a store does with damaged files and writes that fail.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store.h"
#include "tests/support/test.h"

extern char **environ;

#define WRITE_FAILS "write-fails"
#define SYNC_FAILS  "sync-fails"
#define KEYS        200
#define VALUE_SIZE  300

static const char *const families[] = {"log", NULL};
static const struct berth_store_options options = {.families = families};

static struct berth_store *must_open(const char *folder)
{
	struct berth_error err;
	struct berth_store *store = berth_store_open(folder, &options, &err);
	assert_ok(store, err);
	return store;
}

static bool put_one(struct berth_store *store, unsigned number, struct berth_error *err)
{
	char key[16];
	char value[VALUE_SIZE];
	snprintf(key, sizeof key, "%08u", number);
	memset(value, 'a' + (int)(number % 26), sizeof value);
	struct berth_store_batch *batch = berth_store_batch_new(store);
	berth_store_batch_put(batch, 0, key, strlen(key), value, sizeof value);
	bool put = berth_store_commit(store, batch, err);
	berth_store_batch_free(batch);
	return put;
}

static void fill(const char *folder, unsigned keys)
{
	struct berth_store *store = must_open(folder);
	for (unsigned i = 0; i < keys; i++) {
		struct berth_error err;
		assert_ok(put_one(store, i, &err), err);
	}
	berth_store_close(store);
}

static bool count_one(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	(void)value;
	unsigned *count = context;
	char wanted[16];
	snprintf(wanted, sizeof wanted, "%08u", *count);
	assert_int_equal(key_size, strlen(wanted));
	assert_memory_equal(key, wanted, key_size);
	assert_int_equal(value_size, VALUE_SIZE);
	++*count;
	return true;
}

// Asserts that the keys have no hole, and counts them.
static unsigned count_keys(struct berth_store *store)
{
	unsigned count = 0;
	struct berth_error err;
	assert_ok(berth_store_scan(store, 0, NULL, 0, NULL, 0, count_one, &count, &err), err);
	return count;
}

// The largest file with this ending.
static char *find(const char *folder, const char *ending)
{
	DIR *dir = opendir(folder);
	assert_non_null(dir);
	char *found = NULL;
	off_t largest = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		size_t length = strlen(entry->d_name);
		if (length < strlen(ending) || strcmp(entry->d_name + length - strlen(ending), ending) != 0) {
			continue;
		}
		BERTH_AUTO_FREE char *path = berth_path_join(folder, entry->d_name);
		struct stat info;
		assert_int_equal(stat(path, &info), 0);
		if (info.st_size > largest) {
			largest = info.st_size;
			free(found);
			found = berth_strdup(path);
		}
	}
	closedir(dir);
	assert_non_null(found);
	return found;
}

static off_t size_of(const char *path)
{
	struct stat info;
	assert_int_equal(stat(path, &info), 0);
	return info.st_size;
}

static void flip(const char *path, off_t offset)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned char byte = 0;
	assert_int_equal(pread(fd, &byte, 1, offset), 1);
	byte ^= 0x40;
	assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
	close(fd);
}

static void a_tail_that_a_crash_tore_off_is_cut(void **state)
{
	(void)state;
	static const off_t cuts[] = {1, 6, 7, 100, 331, 512};
	for (size_t i = 0; i < BERTH_COUNT(cuts); i++) {
		BERTH_AUTO_FREE char *folder = berth_test_folder();
		fill(folder, KEYS);
		BERTH_AUTO_FREE char *log = find(folder, ".log");
		assert_int_equal(truncate(log, size_of(log) - cuts[i]), 0);
		struct berth_store *store = must_open(folder);
		unsigned left = count_keys(store);
		assert_true(left < KEYS && left >= KEYS - 3);
		berth_store_close(store);
	}
}

#define SECTOR_SIZE 512
#define FEW_KEYS    5
#define BIG_BATCH   40 // keys

// A last batch of many sectors behind a few small ones; gives the log and where that batch begins.
static char *fill_to_a_big_batch(const char *folder, off_t *begins)
{
	struct berth_store *store = must_open(folder);
	struct berth_error err;
	for (unsigned i = 0; i < FEW_KEYS; i++) {
		assert_ok(put_one(store, i, &err), err);
	}
	char *log = find(folder, ".log");
	*begins = size_of(log);
	struct berth_store_batch *batch = berth_store_batch_new(store);
	char key[16], value[VALUE_SIZE];
	memset(value, 'v', sizeof value);
	for (unsigned i = FEW_KEYS; i < FEW_KEYS + BIG_BATCH; i++) {
		snprintf(key, sizeof key, "%08u", i);
		berth_store_batch_put(batch, 0, key, strlen(key), value, sizeof value);
	}
	assert_ok(berth_store_commit(store, batch, &err), err);
	berth_store_batch_free(batch);
	berth_store_close(store);
	return log;
}

static void fill_from(const char *path, off_t at, unsigned char byte)
{
	static unsigned char bytes[BIG_BATCH * (VALUE_SIZE + SECTOR_SIZE)];
	int fd = open(path, O_RDWR | O_CLOEXEC);
	size_t size = (size_t)(size_of(path) - at);
	assert_true(size <= sizeof bytes);
	memset(bytes, byte, size);
	assert_int_equal(pwrite(fd, bytes, size, at), (ssize_t)size);
	close(fd);
}

// A file that was cut short ends with the last whole batch.
static void f7_a_last_batch_that_was_torn_at_any_sector_is_not_there_and_all_before_it_is(void **state)
{
	(void)state;
	off_t begins, at = 0, ends = SECTOR_SIZE;
	for (unsigned sector = 1; at < ends; sector++) {
		BERTH_AUTO_FREE char *folder = berth_test_folder();
		BERTH_AUTO_FREE char *log = fill_to_a_big_batch(folder, &begins);
		ends = size_of(log) - SECTOR_SIZE;
		at = (begins / SECTOR_SIZE + sector) * SECTOR_SIZE;
		assert_true(ends - begins > 20 * SECTOR_SIZE);
		assert_int_equal(truncate(log, at), 0);
		struct berth_store *store = must_open(folder);
		assert_int_equal(count_keys(store), FEW_KEYS);
		berth_store_close(store);
	}
}

static void f7_sectors_of_a_last_batch_that_hold_something_else_are_never_served(void **state)
{
	(void)state;
	static const unsigned char others[] = {0, 0xa5}; // never written, or an older file's
	off_t begins, at = 0, ends = SECTOR_SIZE;
	for (unsigned sector = 1; at < ends; sector++) {
		BERTH_AUTO_FREE char *folder = berth_test_folder();
		BERTH_AUTO_FREE char *log = fill_to_a_big_batch(folder, &begins);
		ends = size_of(log) - SECTOR_SIZE;
		at = (begins / SECTOR_SIZE + sector) * SECTOR_SIZE;
		fill_from(log, at, others[sector % BERTH_COUNT(others)]);
		struct berth_error err;
		assert_fails(berth_store_open(folder, &options, &err), err, BERTH_ERROR_CORRUPT, "cannot open");
		// Who knows that the power was cut drops it, and has all before it.
		struct berth_store_options cutting = options;
		cutting.cut_tail = true;
		struct berth_store *store = berth_store_open(folder, &cutting, &err);
		assert_ok(store != NULL, err);
		assert_int_equal(count_keys(store), FEW_KEYS);
		berth_store_close(store);
		berth_store_close(must_open(folder)); // once is enough
	}
}

static void damage_in_the_middle_of_the_log_is_refused(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	fill(folder, KEYS);
	BERTH_AUTO_FREE char *log = find(folder, ".log");
	flip(log, size_of(log) / 2);
	struct berth_error err;
	assert_fails(berth_store_open(folder, &options, &err), err, BERTH_ERROR_CORRUPT, "cannot open the store");
}

static void damage_in_a_table_is_never_served(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *aside = berth_format("%s/copy", folder);
	BERTH_AUTO_FREE char *first = berth_format("%s/first", folder);
	fill(first, KEYS);
	struct berth_store *store = must_open(first);
	struct berth_error err;
	assert_ok(berth_store_checkpoint(store, aside, &err), err);
	berth_store_close(store);
	BERTH_AUTO_FREE char *table = find(aside, ".sst");
	flip(table, 40);
	store = must_open(aside);
	unsigned count = 0;
	assert_fails(berth_store_scan(store, 0, NULL, 0, NULL, 0, count_one, &count, &err), err, BERTH_ERROR_CORRUPT,
		"cannot read");
	assert_int_equal(count, 0);
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	assert_fails(berth_store_get(store, 0, "00000000", 8, &value, &err), err, BERTH_ERROR_CORRUPT, "cannot read");
	berth_store_close(store);
}

// Takes the place of libc's for everything in this process, RocksDB too.
static atomic_int syncs;
static atomic_bool syncs_fail;
int fdatasync(int fd);
int fdatasync(int fd)
{
	atomic_fetch_add(&syncs, 1);
	if (atomic_load(&syncs_fail)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static void every_commit_is_synced_before_it_returns(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct berth_store *store = must_open(folder);
	for (unsigned i = 0; i < 20; i++) {
		int before = atomic_load(&syncs);
		struct berth_error err;
		assert_ok(put_one(store, i, &err), err);
		assert_true(atomic_load(&syncs) > before);
	}
	berth_store_close(store);
}

static void limit_file_size(rlim_t bytes)
{
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// In a process of its own: commits until a write or a sync fails, and answers with how many were committed. 0: not as
// promised.
static int write_until_it_fails(const char *mode, const char *folder)
{
	bool by_sync = strcmp(mode, SYNC_FAILS) == 0;
	struct berth_error first = {0};
	struct berth_error later = {0};
	struct berth_store *store = berth_store_open(folder, &options, &first);
	if (!store) {
		return 0;
	}
	signal(SIGXFSZ, SIG_IGN);
	limit_file_size(by_sync ? RLIM_INFINITY : 20000);
	int committed = 0;
	while (committed < KEYS && put_one(store, (unsigned)committed, &first)) {
		committed++;
		atomic_store(&syncs_fail, by_sync && committed == 50);
	}
	limit_file_size(RLIM_INFINITY);
	atomic_store(&syncs_fail, false);
	bool poisoned = !put_one(store, (unsigned)committed, &later) && later.code == first.code &&
	                strcmp(later.message, first.message) == 0;
	berth_store_close(store);
	return poisoned && first.code == BERTH_ERROR_IO ? committed : 0;
}

static void assert_nothing_lost(const char *mode)
{
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *argument = berth_strdup(mode);
	char self[] = "/proc/self/exe";
	char *argv[] = {self, argument, folder, NULL};
	pid_t child;
	int status = 0;
	assert_int_equal(posix_spawn(&child, self, NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	unsigned committed = (unsigned)WEXITSTATUS(status);
	assert_true(committed > 10 && committed < KEYS);
	struct berth_store *store = must_open(folder);
	unsigned found = count_keys(store);
	assert_true(found == committed || found == committed + 1); // of the refused one the outcome is unknown
	berth_store_close(store);
}

static void a_failed_write_poisons_the_store_and_loses_nothing_that_was_committed(void **state)
{
	(void)state;
	assert_nothing_lost(WRITE_FAILS);
}

static void a_failed_sync_poisons_the_store_and_loses_nothing_that_was_committed(void **state)
{
	(void)state;
	assert_nothing_lost(SYNC_FAILS);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_tail_that_a_crash_tore_off_is_cut),
	cmocka_unit_test(f7_a_last_batch_that_was_torn_at_any_sector_is_not_there_and_all_before_it_is),
	cmocka_unit_test(f7_sectors_of_a_last_batch_that_hold_something_else_are_never_served),
	cmocka_unit_test(damage_in_the_middle_of_the_log_is_refused),
	cmocka_unit_test(damage_in_a_table_is_never_served),
	cmocka_unit_test(every_commit_is_synced_before_it_returns),
	cmocka_unit_test(a_failed_write_poisons_the_store_and_loses_nothing_that_was_committed),
	cmocka_unit_test(a_failed_sync_poisons_the_store_and_loses_nothing_that_was_committed),
};

int main(int argc, char **argv)
{
	if (argc == 3) {
		_exit(write_until_it_fails(argv[1], argv[2]));
	}
	return cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL) != 0;
}
