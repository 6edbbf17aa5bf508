// SPDX-License-Identifier: Apache-2.0
// Trials that wait for their time: the boot clock counts it, whatever becomes of the wall clock.
#include <stdlib.h>

#include "common/base/mem.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define DAY_NS (86400 * BERTH_NS_PER_S)

struct delayed { // a trial whose first run was lost by its host
	struct test_fleet *fleet;
	const char *job;
	uint64_t session;
};

static int setup(void **state)
{
	static struct delayed delayed;
	struct test_fleet *fleet = test_fleet_new(10000);
	test_enroll(fleet, "north");
	delayed.fleet = fleet;
	delayed.session = test_join(fleet, "north", BOOT_A, 1);
	delayed.job = test_submit(fleet, "j", 1, 1);
	test_place(fleet);
	const char *lease = test_lease(fleet, delayed.job, 0);
	uint64_t sequence = test_live_and_retire(fleet, "north", delayed.session, BOOT_A, 1, lease);
	test_report_done(fleet, "north", delayed.session, BOOT_A, sequence, test_key(delayed.job, 0, 1),
		BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE, "RuntimeError");
	*state = &delayed;
	return 0;
}

static int teardown(void **state)
{
	struct delayed *delayed = *state;
	test_fleet_free(delayed->fleet);
	free((char *)delayed->job);
	return 0;
}

static uint32_t generation_after_ms(struct delayed *delayed, int64_t ms)
{
	struct test_fleet *fleet = delayed->fleet;
	test_advance_ms(fleet, ms);
	test_beat(fleet, "north", delayed->session, NULL, 0);
	test_tick(fleet);
	test_place(fleet);
	return test_generation(fleet, delayed->job, 0);
}

static void a_wall_clock_that_steps_back_makes_no_trial_wait_longer(void **state)
{
	struct delayed *delayed = *state;
	delayed->fleet->now.wall_ns -= DAY_NS;
	assert_int_equal(generation_after_ms(delayed, 1999), 1);
	assert_int_equal(generation_after_ms(delayed, 1), 2);
}

static void a_wall_clock_that_steps_forward_makes_no_trial_run_sooner(void **state)
{
	struct delayed *delayed = *state;
	delayed->fleet->now.wall_ns += DAY_NS;
	assert_int_equal(generation_after_ms(delayed, 1999), 1);
	assert_int_equal(generation_after_ms(delayed, 1), 2);
}

static void after_a_step_back_and_a_restart_a_trial_waits_no_longer_than_the_longest_pause(void **state)
{
	struct delayed *delayed = *state;
	delayed->fleet->now.wall_ns -= DAY_NS;
	test_decide(delayed->fleet, (struct berth_command){.kind = BERTH_COMMAND_START,
					    .nonce = (const uint8_t *)"fedcba9876543210",
					    .version = "test",
					    .actor = ""});
	assert_int_equal(generation_after_ms(delayed, 63999), 1);
	assert_int_equal(generation_after_ms(delayed, 1), 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

// Seen in the simulation: late heartbeats came in a burst, and a trial was given away that its agent then began.
static void heartbeats_that_crossed_the_assignment_withdraw_nothing(void **state)
{
	(void)state;
	struct test_fleet *fleet = test_fleet_new(10000);
	test_enroll(fleet, "north");
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE char *job = (char *)test_submit(fleet, "crossing", 1, 1);
	test_place(fleet);
	for (fleet->unanswered = 1; fleet->unanswered < 10; fleet->unanswered++) {
		test_beat(fleet, "north", session, NULL, 0);
		assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_RUNNING);
	}
	fleet->unanswered = 0; // it has the answers that came after the assignment
	test_beat(fleet, "north", session, NULL, 0);
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_QUEUED);
	test_fleet_free(fleet);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(heartbeats_that_crossed_the_assignment_withdraw_nothing),
	TEST(a_wall_clock_that_steps_back_makes_no_trial_wait_longer),
	TEST(a_wall_clock_that_steps_forward_makes_no_trial_run_sooner),
	TEST(after_a_step_back_and_a_restart_a_trial_waits_no_longer_than_the_longest_pause),
};
BERTH_TEST_MAIN(tests)
