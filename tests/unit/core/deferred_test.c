// SPDX-License-Identifier: Apache-2.0
// Results that come while agents resend: a trial may have run again in the part that a restore lost, and what was told
// of it then must come to be so again, whoever is heard first.
#include "tests/unit/core/lost.h"

#define OUTCOME(name) BERTH__V1__OUTCOME__OUTCOME_##name
#define MANY          150 // results: more than one tick counts

static uint64_t hear(struct test_fleet *fleet, const char *agent, const char *boot, const char *lease,
	uint32_t generation, const struct lost *lost, Berth__V1__Outcome outcome)
{
	uint64_t session = test_hello(fleet, agent, boot, 1);
	uint64_t sequence = test_live_and_retire(fleet, agent, session, boot, 1, lease);
	test_report_done(fleet, agent, session, boot, sequence, test_key(lost->job, 0, generation), outcome, NULL);
	assert_ok(fleet->outcome.error.code == BERTH_ERROR_OK, fleet->outcome.error);
	return session;
}

static uint64_t hear_older(struct test_fleet *fleet, const struct lost *lost, Berth__V1__Outcome outcome)
{
	return hear(fleet, "north", BOOT_A, lost->older, 1, lost, outcome);
}

static uint64_t hear_newer(struct test_fleet *fleet, const struct lost *lost, Berth__V1__Outcome outcome)
{
	give(fleet, lost);
	uint64_t session = hear(fleet, "south", BOOT_B, lost->lease, 2, lost, outcome);
	fleet->given_lease = NULL;
	fleet->given_reservation = NULL;
	return session;
}

static void have_resent(struct test_fleet *fleet, uint64_t north, uint64_t south)
{
	test_beat(fleet, "north", north, NULL, 0);
	test_beat(fleet, "south", south, NULL, 0);
	assert_int_equal(berth_core_resending(fleet->core, NULL, 0), 0);
	test_tick(fleet);
}

static Berth__V1__Trial *trial(const struct test_fleet *fleet, const struct lost *lost, uint64_t *result_sequence)
{
	return berth_core_trial(fleet->core, lost->job, 0, NULL, result_sequence);
}

static void assert_scored(const struct test_fleet *fleet, const struct lost *lost, uint32_t generation)
{
	assert_int_equal(test_state(fleet, lost->job, 0), TRIAL(SCORED));
	assert_int_equal(test_generation(fleet, lost->job, 0), generation);
	assert_int_equal(test_job_state(fleet, lost->job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
}

// The lost part had withdrawn generation 1, refused its result and told the score of generation 2.
static void a_score_that_was_told_is_not_replaced_by_an_older_result_that_is_heard_first(void **state)
{
	static const Berth__V1__Outcome older[] = {OUTCOME(TASK), OUTCOME(SCORED)};
	struct test_fleet *fleet = *state;
	for (size_t i = 0; i < BERTH_COUNT(older); i++) {
		if (i) {
			test_fleet_free(fleet);
			setup(state);
			fleet = *state;
		}
		struct lost lost = lose_a_rerun(fleet);
		test_restore(fleet, lost.backup);
		uint64_t north = hear_older(fleet, &lost, older[i]);
		assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
		uint64_t south = hear_newer(fleet, &lost, OUTCOME(SCORED));
		assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
		have_resent(fleet, north, south);
		assert_scored(fleet, &lost, 2);
		take_back(fleet, &lost);
	}
}

static void an_older_result_that_is_heard_last_counts_for_nothing(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_rerun(fleet);
	test_restore(fleet, lost.backup);
	uint64_t south = hear_newer(fleet, &lost, OUTCOME(SCORED));
	uint64_t north = hear_older(fleet, &lost, OUTCOME(SCORED));
	assert_int_equal(fleet->outcome.events[0]->body_case, BERTH__STORE__V1__EVENT__BODY_RESULT_REFUSED);
	have_resent(fleet, north, south);
	assert_scored(fleet, &lost, 2);
	take_back(fleet, &lost);
}

static void what_makes_way_is_named(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_rerun(fleet);
	test_restore(fleet, lost.backup);
	hear_older(fleet, &lost, OUTCOME(TASK));
	BERTH_AUTO_FREE char *named =
		berth_format("its result, of event %llu, makes way", (unsigned long long)test_disk_last(fleet->disk));
	uint64_t south = test_hello(fleet, "south", BOOT_B, 1);
	give(fleet, &lost);
	test_report_lease(fleet, "south", south, BOOT_B, 1, lost.lease, LEASE(DISPATCHING), 0);
	const Berth__Store__V1__TrialUnassigned *unassigned = NULL;
	for (size_t i = 0; i < fleet->outcome.events_count; i++) {
		const Berth__Store__V1__Event *event = fleet->outcome.events[i];
		bool is_it = event->body_case == BERTH__STORE__V1__EVENT__BODY_TRIAL_UNASSIGNED;
		unassigned = is_it ? event->trial_unassigned : unassigned;
	}
	assert_non_null(unassigned);
	assert_int_equal(unassigned->trial->generation, 1);
	assert_int_equal(unassigned->reason, BERTH__STORE__V1__UNASSIGN_REASON__RESTORED);
	assert_non_null(strstr(unassigned->detail, named));
	take_back(fleet, &lost);
}

static void a_result_counts_when_the_last_agent_has_resent(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_rerun(fleet);
	test_restore(fleet, lost.backup);
	uint64_t north = hear_older(fleet, &lost, OUTCOME(SCORED));
	uint64_t deferred_at = test_disk_last(fleet->disk);
	test_beat(fleet, "north", north, NULL, 0);
	test_tick(fleet);
	uint64_t result_sequence;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Trial *waits = trial(fleet, &lost, &result_sequence);
	assert_int_equal(waits->state, TRIAL(RUNNING));
	assert_string_equal(waits->phase, "awaiting_agents");
	assert_int_equal(result_sequence, 0);
	test_join(fleet, "south", BOOT_B, 1); // has nothing of it
	test_tick(fleet);
	const Berth__Store__V1__Event *event = fleet->outcome.events[0];
	assert_int_equal(event->body_case, BERTH__STORE__V1__EVENT__BODY_TRIAL_ENDED);
	assert_int_equal(event->trial_ended->deferred_at, deferred_at);
	assert_int_equal(event->trial_ended->result->outcome, OUTCOME(SCORED));
	assert_scored(fleet, &lost, 1);
	take_back(fleet, &lost);
}

static void its_agent_is_free_and_may_be_lost_meanwhile(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_rerun(fleet);
	test_restore(fleet, lost.backup);
	uint64_t north = hear_older(fleet, &lost, OUTCOME(SCORED));
	test_beat(fleet, "north", north, NULL, 0);
	test_advance_ms(fleet, FENCE_MS + 1);
	test_tick(fleet);
	test_join(fleet, "north", BOOT_C, 1);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
	test_join(fleet, "south", BOOT_B, 1);
	test_tick(fleet);
	assert_scored(fleet, &lost, 1);
	take_back(fleet, &lost);
}

static void a_result_that_waits_outlives_restarts(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_rerun(fleet);
	test_restore(fleet, lost.backup);
	hear_older(fleet, &lost, OUTCOME(SCORED));
	test_restart(fleet); // from the log
	for (int i = 0; i < 20; i++) {
		test_disk_write(fleet->disk, fleet->core, 3);
	}
	test_restart(fleet); // from records alone
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
	uint64_t north = test_hello(fleet, "north", BOOT_A, 1), south = test_hello(fleet, "south", BOOT_B, 1);
	test_beat(fleet, "north", north, NULL, 0);
	test_beat(fleet, "south", south, NULL, 0);
	test_restart(fleet); // nobody is to resend, and it has not come to count
	test_tick(fleet);
	assert_scored(fleet, &lost, 1);
	take_back(fleet, &lost);
}

static void a_second_restore_waits_again(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_rerun(fleet);
	test_restore(fleet, lost.backup);
	hear_older(fleet, &lost, OUTCOME(TASK));
	test_restore(fleet, test_disk_last(fleet->disk)); // of a backup with the result
	uint64_t north = test_hello(fleet, "north", BOOT_A, 1);
	uint64_t south = hear_newer(fleet, &lost, OUTCOME(SCORED));
	have_resent(fleet, north, south);
	assert_scored(fleet, &lost, 2);
	take_back(fleet, &lost);
}

static void an_agent_that_is_given_up_is_waited_for_no_more(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_rerun(fleet);
	test_restore(fleet, lost.backup);
	uint64_t north = hear_older(fleet, &lost, OUTCOME(SCORED));
	test_advance_ms(fleet, FENCE_MS + 1);
	test_beat(fleet, "north", north, NULL, 0);
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_FORGET_AGENT,
				   .actor = "operator/ann",
				   .agent = "south",
				   .reason = "its host burned down"});
	assert_ok(fleet->outcome.error.code == BERTH_ERROR_OK, fleet->outcome.error);
	test_tick(fleet);
	assert_scored(fleet, &lost, 1);
	take_back(fleet, &lost);
}

static void a_job_that_is_cancelled_drops_results_that_wait(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_rerun(fleet);
	test_restore(fleet, lost.backup);
	uint64_t north = hear_older(fleet, &lost, OUTCOME(SCORED));
	test_decide(fleet,
		(struct berth_command){
			.kind = BERTH_COMMAND_CANCEL, .actor = "user/ann", .job_id = lost.job, .reason = "enough"});
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(CANCELLED));
	have_resent(fleet, north, test_hello(fleet, "south", BOOT_B, 1));
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(CANCELLED));
	assert_int_equal(test_job_state(fleet, lost.job), BERTH__V1__JOB_STATE__JOB_CANCELLED);
	take_back(fleet, &lost);
}

// In the lost part generation 1 and 2 had failed by the host's fault, as often as may be, and generation 3 was scored:
// a second restore in between had not counted one of them.
static void a_trial_is_not_quarantined_while_a_later_run_may_be_heard_of(void **state)
{
	struct test_fleet *fleet = *state;
	fleet->config.max_generations = 1;
	test_restart(fleet);
	struct lost lost = lose_a_run(fleet);
	fleet->obeyed = fleet->seen_elsewhere = 0;
	test_restore(fleet, lost.last);
	uint64_t north = test_hello(fleet, "north", BOOT_A, 1);
	test_report_done(fleet, "north", north, BOOT_A, 1, test_key(lost.job, 0, 1), OUTCOME(INFRASTRUCTURE), NULL);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(QUEUED));
	take_back(fleet, &lost);
}

// In the lost part generation 1 had failed in a way that is tried again once, and generation 2 likewise: that was told.
static void a_run_that_is_taken_up_is_not_tried_again_more_often_than_it_was(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = {0};
	test_enroll(fleet, "south");
	BERTH_AUTO_FREE const char *job = test_submit_retrying(fleet, "j", 1);
	snprintf(lost.job, sizeof lost.job, "%s", job);
	uint64_t north = test_join(fleet, "north", BOOT_A, 1);
	test_place(fleet);
	snprintf(lost.older, sizeof lost.older, "%s", test_lease(fleet, lost.job, 0));
	lost.backup = test_disk_last(fleet->disk);
	uint64_t sequence = test_live_and_retire(fleet, "north", north, BOOT_A, 1, lost.older);
	test_report_done(fleet, "north", north, BOOT_A, sequence, test_key(lost.job, 0, 1), OUTCOME(TASK), "Timeout");
	test_decide(
		fleet, (struct berth_command){.kind = BERTH_COMMAND_STREAM_DOWN, .agent = "north", .session = north});
	test_join(fleet, "south", BOOT_B, 1);
	test_advance_ms(fleet, 60000);
	test_tick(fleet);
	test_join(fleet, "south", BOOT_B, 1);
	test_place(fleet);
	lost.assignment = test_assignment(fleet, lost.job, 0);
	assert_int_equal(lost.assignment->trial->generation, 2);
	fleet->obeyed = 1;
	fleet->seen_elsewhere = test_disk_last(fleet->disk);
	test_restore(fleet, lost.backup);
	fleet->given_lease = lost.assignment->leases[0];
	uint64_t south = test_hello(fleet, "south", BOOT_B, 1);
	sequence = test_live_and_retire(fleet, "south", south, BOOT_B, 1, lost.assignment->leases[0]->lease_id);
	test_report_done(fleet, "south", south, BOOT_B, sequence, test_key(lost.job, 0, 2), OUTCOME(TASK), "Timeout");
	have_resent(fleet, test_hello(fleet, "north", BOOT_A, 1), south);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(UNSCORED));
	assert_int_equal(test_generation(fleet, lost.job, 0), 2);
	take_back(fleet, &lost);
}

static void many_results_that_wait_count_in_turns(void **state)
{
	struct test_fleet *fleet = *state;
	fleet->memory_mb = -1;
	BERTH_AUTO_FREE char *job = (char *)test_submit(fleet, "j", MANY, 1);
	uint64_t north = test_join(fleet, "north", BOOT_A, MANY);
	while (wants_place(fleet)) {
		test_place(fleet);
	}
	for (uint32_t i = 0, sequence = 1; i < MANY; i++, sequence += 4) {
		BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, i));
		test_live_and_retire(fleet, "north", north, BOOT_A, sequence, lease);
	}
	test_restore(fleet, test_disk_last(fleet->disk));
	north = test_hello(fleet, "north", BOOT_A, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		test_report_done(
			fleet, "north", north, BOOT_A, 4 * MANY + 1 + i, test_key(job, i, 1), OUTCOME(SCORED), NULL);
	}
	test_beat(fleet, "north", north, NULL, 0);
	int ticks = 0;
	while (test_job_state(fleet, job) == BERTH__V1__JOB_STATE__JOB_RUNNING) {
		test_tick(fleet);
		assert_in_range(fleet->outcome.events_count, 1, MANY - 1);
		test_advance_ms(fleet, 1);
		ticks++;
	}
	assert_true(ticks > 1);
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	T(a_score_that_was_told_is_not_replaced_by_an_older_result_that_is_heard_first),
	T(an_older_result_that_is_heard_last_counts_for_nothing),
	T(what_makes_way_is_named),
	T(a_result_counts_when_the_last_agent_has_resent),
	T(its_agent_is_free_and_may_be_lost_meanwhile),
	T(a_result_that_waits_outlives_restarts),
	T(a_second_restore_waits_again),
	T(an_agent_that_is_given_up_is_waited_for_no_more),
	T(a_job_that_is_cancelled_drops_results_that_wait),
	T(a_trial_is_not_quarantined_while_a_later_run_may_be_heard_of),
	T(a_run_that_is_taken_up_is_not_tried_again_more_often_than_it_was),
	T(many_results_that_wait_count_in_turns),
};
BERTH_TEST_MAIN(tests)
