// SPDX-License-Identifier: Apache-2.0
// Who is next: the share of each job by its weight, and the bound of aging.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define HOLD_MS 5000

static int setup(void **state)
{
	*state = test_fleet_new(HOLD_MS);
	test_enroll(*state, "north");
	return 0;
}

static int teardown(void **state)
{
	test_fleet_free(*state);
	return 0;
}

static void assert_running(const struct test_fleet *fleet, const char *job, uint32_t wanted)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Job *seen = berth_core_job(fleet->core, job);
	assert_int_equal(seen->counts->running, wanted);
}

static void wait_past_aging(struct test_fleet *fleet, uint64_t session)
{
	test_advance_ms(fleet, fleet->config.aging_ms + 1);
	test_beat(fleet, "north", session, NULL, 0);
}

static void jobs_share_by_their_priority(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 8);
	fleet->priority = 30;
	BERTH_AUTO_FREE const char *first = test_submit(fleet, "a", 50, 1);
	fleet->priority = 10;
	BERTH_AUTO_FREE const char *second = test_submit(fleet, "b", 50, 1);
	test_place(fleet);
	assert_running(fleet, first, 6);
	assert_running(fleet, second, 2);
}

static void a_trial_that_waited_past_the_bound_is_next_whatever_its_job_runs(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 2);
	BERTH_AUTO_FREE const char *first = test_submit(fleet, "a", 3, 1);
	test_place(fleet);
	assert_running(fleet, first, 2);
	wait_past_aging(fleet, session);
	BERTH_AUTO_FREE const char *second = test_submit(fleet, "b", 3, 1);
	uint64_t sequence = test_live_and_retire(fleet, "north", session, BOOT_A, 1, test_lease(fleet, first, 0));
	test_report_done(fleet, "north", session, BOOT_A, sequence, test_key(first, 0, 1),
		BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	test_place(fleet);
	assert_running(fleet, first, 2); // its share is the larger one, and it is next all the same
	assert_running(fleet, second, 0);
}

static void a_trial_that_a_limit_of_its_own_job_keeps_back_keeps_no_host_from_others(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 4);
	fleet->concurrent = 1;
	BERTH_AUTO_FREE const char *narrow = test_submit(fleet, "a", 3, 1);
	fleet->concurrent = 0;
	test_place(fleet);
	wait_past_aging(fleet, session);
	BERTH_AUTO_FREE const char *other = test_submit(fleet, "b", 5, 1);
	test_place(fleet);
	assert_running(fleet, narrow, 1);
	assert_running(fleet, other, 3);
}

static void a_restart_makes_nobody_wait_longer_than_others(void **state)
{
	struct test_fleet *fleet = *state;
	BERTH_AUTO_FREE const char *first = test_submit(fleet, "a", 50, 1);
	BERTH_AUTO_FREE const char *second = test_submit(fleet, "b", 50, 1);
	test_restart(fleet);
	test_join(fleet, "north", BOOT_A, 4);
	test_place(fleet);
	assert_running(fleet, first, 2);
	assert_running(fleet, second, 2);
}

static void assert_digest_of(const char *digest, const char *text)
{
	char wanted[BERTH_DIGEST_TEXT_SIZE];
	struct berth_digest of_text = berth_sha256(text, strlen(text));
	berth_digest_text(&of_text, wanted);
	assert_string_equal(digest, wanted);
}

static void a_lease_names_its_owner_and_its_config_by_digests(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 8);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "a", 12, 1);
	test_place(fleet);
	test_place(fleet);
	Berth__V1__Lease *leases[8];
	Berth__V1__LeaseDetail *details[8];
	assert_int_equal(berth_core_leases(fleet->core, job, BERTH_LEASES_ALL, "", 8, leases, details), 8);
	for (size_t i = 0; i < BERTH_COUNT(leases); i++) {
		BERTH_AUTO_FREE char *owner = berth_format("%s/%u/1", job, leases[i]->trial_index);
		assert_digest_of(leases[i]->owner_id, owner);
		assert_digest_of(leases[i]->config_digest, "0123456789abcdef0123456789abcdef//1/512/");
		berth_proto_free(leases[i]);
		berth_proto_free(details[i]);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(jobs_share_by_their_priority),
	TEST(a_trial_that_waited_past_the_bound_is_next_whatever_its_job_runs),
	TEST(a_trial_that_a_limit_of_its_own_job_keeps_back_keeps_no_host_from_others),
	TEST(a_restart_makes_nobody_wait_longer_than_others),
	TEST(a_lease_names_its_owner_and_its_config_by_digests),
};

BERTH_TEST_MAIN(tests)
