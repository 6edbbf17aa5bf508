// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/session/bundles.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/codec/tar.h"
#include "tests/unit/session/agent_under_test.h"

#define HOLDERS 6

struct shelf {
	struct fake fake;
	struct berth_rpc_channel *channel;
	char *folder;
	struct bundles *bundles;
};

static struct bundles *open_bundles(struct shelf *shelf, int64_t bytes_max)
{
	struct berth_error err;
	struct bundles *bundles = bundles_open(shelf->folder, bytes_max, shelf->channel, &err);
	assert_ok(bundles != NULL, err);
	return bundles;
}

static struct shelf *open_shelf(int64_t bytes_max)
{
	struct shelf *shelf = berth_alloc(sizeof *shelf);
	fake_open(&shelf->fake);
	shelf->channel = open_channel(shelf->fake.port);
	shelf->folder = berth_test_folder();
	shelf->bundles = open_bundles(shelf, bytes_max);
	return shelf;
}

static void close_shelf(struct shelf *shelf)
{
	bundles_close(shelf->bundles);
	berth_rpc_channel_free(shelf->channel);
	fake_close(&shelf->fake);
	free(shelf->folder);
	free(shelf);
}

static void *hold_one(void *context)
{
	struct shelf *shelf = context;
	return bundles_hold(shelf->bundles, &shelf->fake.bundle, berth_within_ms(60000, NULL), NULL);
}

static void trials_that_need_one_bundle_share_one_fetch(void **state)
{
	(void)state;
	struct shelf *shelf = open_shelf(INT64_MAX);
	pthread_t threads[HOLDERS];
	for (int i = 0; i < HOLDERS; i++) {
		pthread_create(&threads[i], NULL, hold_one, shelf);
	}
	for (int i = 0; i < HOLDERS; i++) {
		void *path = NULL;
		pthread_join(threads[i], &path);
		assert_non_null(path);
		BERTH_AUTO_FREE char *file = berth_path_join(path, "instruction.md");
		assert_true(berth_file_exists(file));
		free(path);
	}
	assert_int_equal(shelf->fake.gets, 1);
	bundles_close(shelf->bundles);
	shelf->bundles = open_bundles(shelf, INT64_MAX); // and the next life has it
	free(hold_one(shelf));
	assert_int_equal(shelf->fake.gets, 1);
	close_shelf(shelf);
}

static void a_cut_fetch_goes_on_where_it_stopped(void **state)
{
	(void)state;
	struct shelf *shelf = open_shelf(INT64_MAX);
	shelf->fake.cut_get_after = 6000;
	struct berth_error err;
	BERTH_AUTO_FREE char *path =
		bundles_hold(shelf->bundles, &shelf->fake.bundle, berth_within_ms(60000, NULL), &err);
	assert_ok(path != NULL, err);
	int64_t parts = (shelf->fake.bundle.size + 5999) / 6000;
	assert_int_equal(shelf->fake.gets, parts);
	assert_int_equal(shelf->fake.gets_from, (parts - 1) * 6000);
	close_shelf(shelf);
}

static void bytes_with_another_digest_are_refused_and_not_kept(void **state)
{
	(void)state;
	struct shelf *shelf = open_shelf(INT64_MAX);
	shelf->fake.corrupt_gets = true;
	struct berth_error err;
	BERTH_AUTO_FREE char *path =
		bundles_hold(shelf->bundles, &shelf->fake.bundle, berth_within_ms(60000, NULL), &err);
	assert_fails(path != NULL, err, BERTH_ERROR_CORRUPT, "other bytes");
	shelf->fake.corrupt_gets = false;
	BERTH_AUTO_FREE char *again =
		bundles_hold(shelf->bundles, &shelf->fake.bundle, berth_within_ms(60000, NULL), &err);
	assert_ok(again != NULL, err);
	close_shelf(shelf);
}

static void a_bundle_that_the_coordinator_lacks_fails_at_once(void **state)
{
	(void)state;
	struct shelf *shelf = open_shelf(INT64_MAX);
	shelf->fake.bundle.sha256.data[0] ^= 1;
	struct berth_error err;
	BERTH_AUTO_FREE char *path =
		bundles_hold(shelf->bundles, &shelf->fake.bundle, berth_within_ms(60000, NULL), &err);
	assert_fails(path != NULL, err, BERTH_ERROR_NOT_FOUND, "no such blob");
	close_shelf(shelf);
}

static void a_bundle_in_use_is_kept_above_the_bound_and_removed_when_it_is_not(void **state)
{
	(void)state;
	struct shelf *shelf = open_shelf(1);
	struct berth_error err;
	BERTH_AUTO_FREE char *path =
		bundles_hold(shelf->bundles, &shelf->fake.bundle, berth_within_ms(60000, NULL), &err);
	assert_ok(path != NULL, err);
	assert_true(berth_file_exists(path));
	bundles_release(shelf->bundles, &shelf->fake.bundle);
	assert_false(berth_file_exists(path));
	close_shelf(shelf);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(trials_that_need_one_bundle_share_one_fetch),
	cmocka_unit_test(a_cut_fetch_goes_on_where_it_stopped),
	cmocka_unit_test(bytes_with_another_digest_are_refused_and_not_kept),
	cmocka_unit_test(a_bundle_that_the_coordinator_lacks_fails_at_once),
	cmocka_unit_test(a_bundle_in_use_is_kept_above_the_bound_and_removed_when_it_is_not),
};
BERTH_TEST_MAIN(tests)
