// SPDX-License-Identifier: Apache-2.0
// Trials that wait for their time: the boot clock counts it, whatever becomes of the wall clock.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
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

// --- a coordinator that was started again with another hold ---
#define FENCE_OF_MS(hold_ms) ((hold_ms)*105 / 100 + BERTH_FENCE_EXTRA_MS)

struct held {
	struct test_fleet *fleet;
	uint64_t session;
	char *job;
};

// North has a trial under this hold.
static struct held hold_for_ms(int64_t hold_ms)
{
	struct held held = {.fleet = test_fleet_new(hold_ms)};
	test_enroll(held.fleet, "north");
	held.session = test_join(held.fleet, "north", BOOT_A, 1);
	held.job = (char *)test_submit(held.fleet, "held", 1, 1);
	test_place(held.fleet);
	assert_int_equal(test_state(held.fleet, held.job, 0), BERTH__V1__TRIAL_STATE__TRIAL_RUNNING);
	return held;
}

static void restart_with_ms(struct held *held, int64_t hold_ms)
{
	held->fleet->config.hold_ms = hold_ms;
	test_restart(held->fleet);
}

// Nobody hears from north: its trial is taken from it at this time and not before.
static void assert_taken_after_ms(struct held *held, int64_t ms)
{
	test_advance_ms(held->fleet, ms - 1);
	test_tick(held->fleet);
	assert_int_equal(test_state(held->fleet, held->job, 0), BERTH__V1__TRIAL_STATE__TRIAL_RUNNING);
	test_advance_ms(held->fleet, 1);
	test_tick(held->fleet);
	assert_int_equal(test_state(held->fleet, held->job, 0), BERTH__V1__TRIAL_STATE__TRIAL_QUEUED);
	test_fleet_free(held->fleet);
	free(held->job);
}

static void a_shorter_hold_waits_for_who_was_told_a_longer_one(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	restart_with_ms(&held, 5000);
	assert_taken_after_ms(&held, FENCE_OF_MS(60000));
}

static void any_number_of_restarts_forgets_no_hold(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	restart_with_ms(&held, 5000);
	restart_with_ms(&held, 8000);
	assert_taken_after_ms(&held, FENCE_OF_MS(60000));
}

static void a_welcome_alone_makes_no_hold_shorter_and_a_heartbeat_does(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	restart_with_ms(&held, 5000);
	test_hello(held.fleet, "north", BOOT_A, 1);
	restart_with_ms(&held, 5000);
	assert_taken_after_ms(&held, FENCE_OF_MS(60000));
	held = hold_for_ms(60000);
	restart_with_ms(&held, 5000);
	Berth__V1__TrialKey running = test_key(held.job, 0, 1);
	test_beat(held.fleet, "north", test_hello(held.fleet, "north", BOOT_A, 1), &running, 1);
	assert_taken_after_ms(&held, FENCE_OF_MS(5000));
}

static void a_longer_hold_counts_from_the_welcome_that_tells_it(void **state)
{
	(void)state;
	struct held held = hold_for_ms(5000);
	restart_with_ms(&held, 60000);
	test_hello(held.fleet, "north", BOOT_A, 1);
	restart_with_ms(&held, 5000);
	assert_taken_after_ms(&held, FENCE_OF_MS(60000));
}

static void a_new_life_has_the_hold_that_it_is_told(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	restart_with_ms(&held, 5000);
	Berth__V1__TrialKey running = test_key(held.job, 0, 2);
	test_join(held.fleet, "north", BOOT_B, 1);
	test_advance_ms(held.fleet, 60000); // past the pause before it runs again
	test_beat(held.fleet, "north", held.fleet->sessions, NULL, 0);
	test_tick(held.fleet);
	test_place(held.fleet);
	assert_int_equal(test_generation(held.fleet, held.job, 0), 2);
	test_beat(held.fleet, "north", held.fleet->sessions, &running, 1);
	assert_taken_after_ms(&held, FENCE_OF_MS(5000));
}

// Another host took north's name, or north another daemon: nobody has ended what runs on the first.
static void what_runs_on_another_daemon_may_go_on_to_the_end_of_its_hold(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	held.fleet->daemon = "another";
	test_hello(held.fleet, "north", BOOT_B, 1);
	assert_int_equal(held.fleet->outcome.error.code, BERTH_ERROR_CONFLICT);
	assert_non_null(strstr(held.fleet->outcome.error.message, "with another Docker daemon (another)"));
	assert_int_equal(test_state(held.fleet, held.job, 0), BERTH__V1__TRIAL_STATE__TRIAL_RUNNING);
	test_advance_ms(held.fleet, FENCE_OF_MS(60000));
	test_tick(held.fleet);
	assert_int_equal(test_state(held.fleet, held.job, 0), BERTH__V1__TRIAL_STATE__TRIAL_QUEUED);
	test_join(held.fleet, "north", BOOT_B, 1);
	test_fleet_free(held.fleet);
	free(held.job);
}

static void a_new_life_on_the_same_daemon_is_taken_at_once(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	test_join(held.fleet, "north", BOOT_B, 1);
	assert_int_equal(test_state(held.fleet, held.job, 0), BERTH__V1__TRIAL_STATE__TRIAL_QUEUED);
	test_fleet_free(held.fleet);
	free(held.job);
}

static size_t count_open(const struct test_fleet *fleet, const char *job)
{
	Berth__V1__Lease *leases[4];
	Berth__V1__LeaseDetail *details[4];
	size_t count =
		berth_core_leases(fleet->core, job, BERTH_LEASES_OPEN, NULL, BERTH_COUNT(leases), leases, details);
	for (size_t i = 0; i < count; i++) {
		berth_proto_free(leases[i]);
		berth_proto_free(details[i]);
	}
	return count;
}

// It was sent nothing of it, so there is nothing to wait for but what the life before has to report.
static void a_new_life_has_no_use_for_an_older_ones_lease(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	uint64_t session = test_hello(held.fleet, "north", BOOT_B, 1); // killed before it could journal the assignment
	held.fleet->outbox_first = 1;
	test_beat(held.fleet, "north", session, NULL, 0);
	assert_int_equal(count_open(held.fleet, held.job), 1);
	held.fleet->outbox_first = 0;
	test_beat(held.fleet, "north", session, NULL, 0);
	assert_int_equal(count_open(held.fleet, held.job), 0);
	test_fleet_free(held.fleet);
	free(held.job);
}

// Its acknowledgements are always a step behind, and yet it has told all.
static void an_agent_that_always_has_something_to_report_keeps_no_unused_lease_open(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	uint64_t session = test_hello(held.fleet, "north", BOOT_B, 1);
	held.fleet->outbox_first = held.fleet->outbox_last = 1;
	test_beat(held.fleet, "north", session, NULL, 0);
	assert_int_equal(count_open(held.fleet, held.job), 1);
	test_report_lease(held.fleet, "north", session, BOOT_B, 1, "another", BERTH__V1__LEASE_STATE__LEASE_RETIRED,
		BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
	test_beat(held.fleet, "north", session, NULL, 0);
	assert_int_equal(count_open(held.fleet, held.job), 0);
	held.fleet->outbox_first = held.fleet->outbox_last = 0;
	test_fleet_free(held.fleet);
	free(held.job);
}

static void beat_for_long(struct held *held, uint64_t session)
{
	for (int i = 0; i < 4; i++) {
		test_beat(held->fleet, "north", session, NULL, 0);
	}
}

static void give_up(struct held *held, uint64_t session)
{
	test_decide(held->fleet,
		(struct berth_command){.kind = BERTH_COMMAND_STREAM_DOWN, .agent = "north", .session = session});
	test_advance_ms(held->fleet, FENCE_OF_MS(60000));
	test_decide(held->fleet, (struct berth_command){.kind = BERTH_COMMAND_FORGET_AGENT,
					 .actor = "operator/ann",
					 .agent = "north",
					 .reason = "its disk is new"});
}

// Its state folder is gone, and with it what it may have dispatched: its lives begin at the first again.
static void an_agent_without_its_state_proves_nothing_of_what_it_was_given(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	uint64_t session = test_hello(held.fleet, "north", "aaaaaaaaaaaaaaaacccccccccccccccc", 1);
	beat_for_long(&held, session);
	assert_int_equal(count_open(held.fleet, held.job), 1);
	for (int i = 0; i < 20; i++) {
		test_disk_write(held.fleet->disk, held.fleet->core, 3);
	}
	test_restart(held.fleet);
	session = test_hello(held.fleet, "north", BOOT_B, 1); // the next life has no more than that one
	beat_for_long(&held, session);
	assert_int_equal(count_open(held.fleet, held.job), 1);
	give_up(&held, session);
	assert_int_equal(count_open(held.fleet, held.job), 0);
	test_fleet_free(held.fleet);
	free(held.job);
}

// A host that was enrolled under the name of another: what that one was given may have been dispatched there.
static void another_daemon_proves_nothing_of_what_was_given_to_the_first(void **state)
{
	(void)state;
	struct held held = hold_for_ms(60000);
	test_decide(held.fleet,
		(struct berth_command){
			.kind = BERTH_COMMAND_CANCEL, .actor = "user/ann", .job_id = held.job, .reason = "enough"});
	held.fleet->daemon = "another";
	test_hello(held.fleet, "north", BOOT_B, 1);
	assert_int_equal(held.fleet->outcome.error.code, BERTH_ERROR_CONFLICT);
	test_advance_ms(held.fleet, FENCE_OF_MS(60000));
	uint64_t session = test_hello(held.fleet, "north", BOOT_B, 1);
	assert_int_equal(held.fleet->outcome.error.code, BERTH_ERROR_OK);
	beat_for_long(&held, session);
	assert_int_equal(count_open(held.fleet, held.job), 1);
	give_up(&held, session);
	assert_int_equal(test_job_state(held.fleet, held.job), BERTH__V1__JOB_STATE__JOB_CANCELLED);
	test_fleet_free(held.fleet);
	free(held.job);
}

static void a_trial_is_tried_again_as_often_as_its_policy_says_and_no_more(void **state)
{
	(void)state;
	enum { RETRIES = 300 }; // more than a byte holds
	struct test_fleet *fleet = test_fleet_new(60000);
	test_enroll(fleet, "north");
	uint64_t session = test_join(fleet, "north", BOOT_A, 1), sequence = 1;
	BERTH_AUTO_FREE char *job = (char *)test_submit_retrying(fleet, "j", RETRIES);
	for (uint32_t run = 1; run <= RETRIES + 1; run++) {
		test_place(fleet);
		assert_int_equal(test_generation(fleet, job, 0), run);
		BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
		sequence = test_live_and_retire(fleet, "north", session, BOOT_A, sequence, lease);
		test_report_done(fleet, "north", session, BOOT_A, sequence++, test_key(job, 0, run),
			BERTH__V1__OUTCOME__OUTCOME_TASK, "Timeout");
		test_advance_ms(fleet, 60000);
		session = test_join(fleet, "north", BOOT_A, 1);
		test_tick(fleet);
	}
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_UNSCORED);
	test_fleet_free(fleet);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(an_agent_without_its_state_proves_nothing_of_what_it_was_given),
	cmocka_unit_test(another_daemon_proves_nothing_of_what_was_given_to_the_first),
	cmocka_unit_test(a_trial_is_tried_again_as_often_as_its_policy_says_and_no_more),
	cmocka_unit_test(an_agent_that_always_has_something_to_report_keeps_no_unused_lease_open),
	cmocka_unit_test(a_new_life_has_no_use_for_an_older_ones_lease),
	cmocka_unit_test(what_runs_on_another_daemon_may_go_on_to_the_end_of_its_hold),
	cmocka_unit_test(a_new_life_on_the_same_daemon_is_taken_at_once),
	cmocka_unit_test(a_shorter_hold_waits_for_who_was_told_a_longer_one),
	cmocka_unit_test(any_number_of_restarts_forgets_no_hold),
	cmocka_unit_test(a_welcome_alone_makes_no_hold_shorter_and_a_heartbeat_does),
	cmocka_unit_test(a_longer_hold_counts_from_the_welcome_that_tells_it),
	cmocka_unit_test(a_new_life_has_the_hold_that_it_is_told),
	cmocka_unit_test(heartbeats_that_crossed_the_assignment_withdraw_nothing),
	TEST(a_wall_clock_that_steps_back_makes_no_trial_wait_longer),
	TEST(a_wall_clock_that_steps_forward_makes_no_trial_run_sooner),
	TEST(after_a_step_back_and_a_restart_a_trial_waits_no_longer_than_the_longest_pause),
};
BERTH_TEST_MAIN(tests)
