// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/test.h"
#include "tests/unit/ledger/ledger_support.h"
#include "tests/unit/store/small_disk.h"

static char *fill_until_left(const char *folder, int64_t bytes)
{
	struct berth_error err;
	return small_disk_fill(berth_disk_free(folder, &err) - bytes);
}

static void below_the_watermark_nothing_is_granted_and_what_runs_may_end(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = small_disk_folder("ends");
	const struct berth_ledger_options options = {.disk_free_min_bytes = 16 * MIB, .ballast_bytes = 8 * MIB};
	struct berth_error err;
	struct berth_ledger *ledger = berth_ledger_open(folder, &options, &err);
	assert_ok(ledger, err);
	char *filler = fill_until_left(folder, 12 * MIB);
	assert_fails(berth_ledger_disk_ok(ledger, &err), err, BERTH_ERROR_EXHAUSTED, "bytes free");
	commit_events(ledger, 10, 5);
	// At the end of the disk the ballast takes one more batch.
	small_disk_empty(filler);
	filler = fill_until_left(folder, 3 * MIB);
	append_events(ledger, 5);
	assert_fails(berth_ledger_commit(ledger, &err), err, BERTH_ERROR_EXHAUSTED, "bytes free");
	berth_ledger_release_ballast(ledger);
	assert_ok(berth_ledger_commit(ledger, &err), err);
	assert_events(ledger, 15);
	berth_ledger_close(ledger);
	assert_null(berth_ledger_open(folder, &options, &err));
	assert_int_equal(err.code, BERTH_ERROR_EXHAUSTED);
	small_disk_empty(filler);
}

static void a_commit_at_the_end_of_the_disk_is_refused_and_loses_nothing(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = small_disk_folder("data");
	const struct berth_ledger_options options = {.disk_free_min_bytes = 16 * MIB, .ballast_bytes = 8 * MIB};
	struct berth_error err;
	struct berth_ledger *ledger = berth_ledger_open(folder, &options, &err);
	assert_ok(ledger, err);
	commit_events(ledger, 500, 20);
	assert_ok(berth_ledger_disk_ok(ledger, &err), err);
	char *filler = fill_until_left(folder, 3 * MIB);
	append_events(ledger, 10);
	assert_fails(berth_ledger_disk_ok(ledger, &err), err, BERTH_ERROR_EXHAUSTED, "bytes free");
	assert_fails(berth_ledger_commit(ledger, &err), err, BERTH_ERROR_EXHAUSTED, "bytes free");
	assert_events(ledger, 500);
	// The batch is whole: more may join it, and with room again it goes through.
	append_events(ledger, 5);
	small_disk_empty(filler);
	assert_ok(berth_ledger_commit(ledger, &err), err);
	assert_events(ledger, 515);
	berth_ledger_close(ledger);
	ledger = must_open_ledger(folder);
	assert_events(ledger, 515);
	filler = small_disk_fill(30 * MIB);
	append_events(ledger, 5);
	berth_ledger_close(ledger);
	ledger = must_open_ledger(folder);
	assert_events(ledger, 515);
	berth_ledger_close(ledger);
	small_disk_empty(filler);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(below_the_watermark_nothing_is_granted_and_what_runs_may_end),
	cmocka_unit_test(a_commit_at_the_end_of_the_disk_is_refused_and_loses_nothing),
};

int main(void)
{
	return cmocka_run_group_tests_name(__FILE__, tests, small_disk_mount, small_disk_unmount) != 0;
}
