// SPDX-License-Identifier: Apache-2.0
// Watermark and ballast, on a disk of 64 MiB.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store.h"
#include "tests/support/test.h"
#include "tests/unit/store/small_disk.h"

static const char *const families[] = {"log", NULL};
static const struct berth_store_options options = {
	.families = families, .disk_free_min_bytes = 16 * MIB, .ballast_bytes = 8 * MIB};

static bool ballast_is_there(const char *folder)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "ballast.berth");
	struct stat info;
	return stat(path, &info) == 0 && info.st_blocks * 512 >= 8 * MIB;
}

static void opening_below_the_watermark_is_refused_and_says_how_much(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = small_disk_folder("refused");
	char *filler = small_disk_fill(50 * MIB);
	struct berth_error err;
	assert_fails(berth_store_open(folder, &options, &err), err, BERTH_ERROR_EXHAUSTED, "needs 16777216");
	small_disk_empty(filler);
	struct berth_store *store = berth_store_open(folder, &options, &err);
	assert_ok(store, err);
	berth_store_close(store);
	assert_ok(berth_remove_all(folder, &err), err);
}

static void a_commit_below_the_watermark_is_refused_whole_and_can_be_tried_again(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = small_disk_folder("commit");
	struct berth_error err;
	struct berth_store *store = berth_store_open(folder, &options, &err);
	assert_ok(store, err);
	struct berth_store_batch *batch = berth_store_batch_new(store);
	berth_store_batch_put(batch, 0, "1", 1, "one", 3);
	assert_ok(berth_store_commit(store, batch, &err), err);
	char *filler = small_disk_fill(38 * MIB);
	assert_fails(berth_store_disk_ok(store, &err), err, BERTH_ERROR_EXHAUSTED, "bytes free");
	berth_store_batch_put(batch, 0, "2", 1, "two", 3);
	assert_fails(berth_store_commit(store, batch, &err), err, BERTH_ERROR_EXHAUSTED, "bytes free");
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	assert_ok(berth_store_get(store, 0, "1", 1, &value, &err), err);
	assert_false(berth_store_get(store, 0, "2", 1, &value, NULL));
	// The ballast makes the room that an orderly end needs.
	berth_store_release_ballast(store);
	assert_ok(berth_store_disk_ok(store, &err), err);
	assert_ok(berth_store_commit(store, batch, &err), err);
	assert_ok(berth_store_get(store, 0, "2", 1, &value, &err), err);
	berth_store_batch_free(batch);
	berth_store_close(store);
	small_disk_empty(filler);
	assert_ok(berth_remove_all(folder, &err), err);
}

static void a_batch_that_would_cross_the_watermark_is_refused(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = small_disk_folder("large");
	struct berth_error err;
	struct berth_store *store = berth_store_open(folder, &options, &err);
	assert_ok(store, err);
	char *filler = small_disk_fill(32 * MIB);
	const size_t size = 12 * MIB;
	BERTH_AUTO_FREE char *large = berth_alloc(size);
	struct berth_store_batch *batch = berth_store_batch_new(store);
	berth_store_batch_put(batch, 0, "1", 1, large, size);
	assert_fails(berth_store_commit(store, batch, &err), err, BERTH_ERROR_EXHAUSTED, "bytes free");
	berth_store_batch_free(batch);
	berth_store_close(store);
	small_disk_empty(filler);
	assert_ok(berth_remove_all(folder, &err), err);
}

static void the_ballast_comes_back_when_there_is_room_for_it(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = small_disk_folder("ballast");
	struct berth_error err;
	struct berth_store *store = berth_store_open(folder, &options, &err);
	assert_ok(store, err);
	assert_true(ballast_is_there(folder));
	berth_store_release_ballast(store);
	assert_false(ballast_is_there(folder));
	berth_store_close(store);
	char *filler = small_disk_fill(40 * MIB); // enough free for the watermark, not for the ballast on top
	store = berth_store_open(folder, &options, &err);
	assert_ok(store, err);
	assert_false(ballast_is_there(folder));
	berth_store_close(store);
	small_disk_empty(filler);
	store = berth_store_open(folder, &options, &err);
	assert_ok(store, err);
	assert_true(ballast_is_there(folder));
	berth_store_close(store);
	assert_ok(berth_remove_all(folder, &err), err);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(opening_below_the_watermark_is_refused_and_says_how_much),
	cmocka_unit_test(a_commit_below_the_watermark_is_refused_whole_and_can_be_tried_again),
	cmocka_unit_test(a_batch_that_would_cross_the_watermark_is_refused),
	cmocka_unit_test(the_ballast_comes_back_when_there_is_room_for_it),
};

int main(void)
{
	return cmocka_run_group_tests_name(__FILE__, tests, small_disk_mount, small_disk_unmount) != 0;
}
