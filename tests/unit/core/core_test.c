// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define HOLD_MS  TEST_HOLD_MS
#define FENCE_MS (HOLD_MS * 105 / 100 + BERTH_FENCE_EXTRA_MS)

static void a_job_runs_to_its_end_on_one_agent(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 4);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 2, 1);
	test_place(fleet);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_ASSIGN), 2);
	uint64_t sequence = 1;
	for (uint32_t i = 0; i < 2; i++) {
		sequence = test_live_and_retire(fleet, "north", session, BOOT_A, sequence, test_lease(fleet, job, i));
		test_report_done(fleet, "north", session, BOOT_A, sequence++, test_key(job, i, 1),
			BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
		assert_int_equal(test_state(fleet, job, i), BERTH__V1__TRIAL_STATE__TRIAL_SCORED);
	}
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_DROP_SECRETS), 1);
}

static void the_same_client_key_gives_the_same_job_and_another_spec_conflicts(void **state)
{
	struct test_fleet *fleet = *state;
	BERTH_AUTO_FREE const char *first = test_submit(fleet, "key", 3, 1);
	BERTH_AUTO_FREE const char *again = test_submit(fleet, "key", 3, 1);
	assert_string_equal(first, again);
	assert_true(fleet->outcome.existed);
	assert_int_equal(fleet->outcome.events_count, 0);
	BERTH_AUTO_FREE const char *other = test_submit(fleet, "key", 4, 1);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_CONFLICT);
}

static void a_trial_is_not_moved_before_the_fencing_wait_is_over(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t north = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	test_place(fleet);
	test_decide(fleet, (struct berth_command){
				   .kind = BERTH_COMMAND_STREAM_DOWN, .actor = "", .agent = "north", .session = north});
	test_advance_ms(fleet, FENCE_MS - 1);
	test_tick(fleet);
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_RUNNING);
	test_advance_ms(fleet, 1);
	test_tick(fleet);
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_QUEUED);
	test_join(fleet, "south", BOOT_B, 1);
	test_place(fleet);
	assert_int_equal(test_generation(fleet, job, 0), 2);
}

static void a_replayed_core_decides_nothing_before_its_incarnation_has_begun(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	test_place(fleet);
	// The replica is what a restarted coordinator has: state, and nobody heard.
	struct berth_outcome outcome = {0};
	const struct berth_command tick = {.kind = BERTH_COMMAND_TICK, .actor = ""};
	test_advance_ms(fleet, FENCE_MS);
	berth_core_decide(fleet->replica, &tick, fleet->now, &outcome);
	assert_int_equal(outcome.events_count, 0);
	assert_int_equal(outcome.error.code, BERTH_ERROR_NOT_SERVING);
	const struct berth_command start = {.kind = BERTH_COMMAND_START,
		.nonce = (const uint8_t *)"fedcba9876543210",
		.version = "test",
		.actor = ""};
	berth_outcome_clear(&outcome);
	berth_core_decide(fleet->replica, &start, fleet->now, &outcome);
	assert_int_equal(outcome.events_count, 1);
	berth_outcome_clear(&outcome);
	berth_core_decide(fleet->replica, &tick, fleet->now, &outcome);
	assert_int_equal(outcome.events_count, 0);
	test_advance_ms(fleet, FENCE_MS);
	berth_core_decide(fleet->replica, &tick, fleet->now, &outcome);
	assert_int_equal(outcome.events_count, 1);
	assert_int_equal(outcome.events[0]->body_case, BERTH__STORE__V1__EVENT__BODY_TRIAL_UNASSIGNED);
	berth_outcome_clear(&outcome);
}

static void a_result_of_an_older_generation_changes_nothing(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	test_place(fleet);
	BERTH_AUTO_FREE char *old_lease = berth_strdup(test_lease(fleet, job, 0));
	test_advance_ms(fleet, FENCE_MS);
	test_tick(fleet);
	uint64_t south = test_join(fleet, "south", BOOT_B, 1);
	test_place(fleet);
	uint64_t north = test_join(fleet, "north", BOOT_A, 1); // back from a long pause, with its result
	uint64_t sequence = test_live_and_retire(fleet, "north", north, BOOT_A, 1, old_lease);
	test_report_done(
		fleet, "north", north, BOOT_A, sequence, test_key(job, 0, 1), BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	assert_int_equal(fleet->outcome.events[0]->body_case, BERTH__STORE__V1__EVENT__BODY_RESULT_REFUSED);
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_RUNNING);
	sequence = test_live_and_retire(fleet, "south", south, BOOT_B, 1, test_lease(fleet, job, 0));
	test_report_done(
		fleet, "south", south, BOOT_B, sequence, test_key(job, 0, 2), BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_SCORED);
}

static void a_report_is_applied_once_and_a_gap_is_refused(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	test_place(fleet);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	test_report_lease(fleet, "north", session, BOOT_A, 1, lease, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0);
	assert_int_equal(fleet->outcome.events_count, 1);
	test_report_lease(fleet, "north", session, BOOT_A, 1, lease, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0);
	assert_int_equal(fleet->outcome.events_count, 0);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REPORT_ACK), 1);
	test_report_lease(fleet, "north", session, BOOT_A, 3, lease, BERTH__V1__LEASE_STATE__LEASE_ACTIVE, 0);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_FENCED);
}

static void a_scored_result_with_an_open_lease_is_run_again(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	test_place(fleet);
	test_report_lease(fleet, "north", session, BOOT_A, 1, test_lease(fleet, job, 0),
		BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0);
	test_report_done(
		fleet, "north", session, BOOT_A, 2, test_key(job, 0, 1), BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_QUEUED);
}

static void infrastructure_failures_end_in_quarantine_and_never_in_a_score(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	uint64_t sequence = 1;
	for (uint32_t generation = 1; generation <= 3; generation++) {
		test_advance_ms(fleet, 10000);
		test_beat(fleet, "north", session, NULL, 0);
		test_tick(fleet);
		test_place(fleet);
		assert_int_equal(test_generation(fleet, job, 0), generation);
		sequence = test_live_and_retire(fleet, "north", session, BOOT_A, sequence, test_lease(fleet, job, 0));
		test_report_done(fleet, "north", session, BOOT_A, sequence++, test_key(job, 0, generation),
			BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE, "RuntimeError");
	}
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_QUARANTINED);
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
}

static void a_trial_that_a_broken_host_failed_waits_longer_each_time(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	uint64_t sequence = 1;
	for (uint32_t generation = 1; generation <= 2; generation++) {
		test_place(fleet);
		assert_int_equal(test_generation(fleet, job, 0), generation);
		sequence = test_live_and_retire(fleet, "north", session, BOOT_A, sequence, test_lease(fleet, job, 0));
		test_report_done(fleet, "north", session, BOOT_A, sequence++, test_key(job, 0, generation),
			BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE, "RuntimeError");
		test_advance_ms(fleet, (generation == 1 ? 2000 : 4000) - 1);
		test_beat(fleet, "north", session, NULL, 0);
		test_tick(fleet);
		test_place(fleet);
		assert_int_equal(test_generation(fleet, job, 0), generation);
		test_advance_ms(fleet, 1);
		test_tick(fleet);
	}
	test_place(fleet);
	assert_int_equal(test_generation(fleet, job, 0), 3);
}

static void harbors_retries_wait_and_are_counted_apart_from_the_fleets(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit_retrying(fleet, "j", 1);
	uint64_t sequence = 1;
	test_place(fleet);
	sequence = test_live_and_retire(fleet, "north", session, BOOT_A, sequence, test_lease(fleet, job, 0));
	test_report_done(fleet, "north", session, BOOT_A, sequence++, test_key(job, 0, 1),
		BERTH__V1__OUTCOME__OUTCOME_TASK, "RuntimeError");
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_QUEUED);
	test_advance_ms(fleet, 4999);
	test_beat(fleet, "north", session, NULL, 0);
	test_tick(fleet);
	test_place(fleet);
	assert_int_equal(test_generation(fleet, job, 0), 1);
	test_advance_ms(fleet, 1);
	test_tick(fleet);
	test_place(fleet);
	assert_int_equal(test_generation(fleet, job, 0), 2);
	sequence = test_live_and_retire(fleet, "north", session, BOOT_A, sequence, test_lease(fleet, job, 0));
	test_report_done(fleet, "north", session, BOOT_A, sequence++, test_key(job, 0, 2),
		BERTH__V1__OUTCOME__OUTCOME_TASK, "RuntimeError");
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_UNSCORED);
}

static void an_agent_that_restarts_loses_its_trials_but_not_its_finished_result(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 2);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 2, 1);
	test_place(fleet);
	Berth__V1__Hello hello = BERTH__V1__HELLO__INIT;
	Berth__V1__VersionRange range = BERTH__V1__VERSION_RANGE__INIT;
	range.least = range.most = 1;
	Berth__V1__TrialKey finished = test_key(job, 1, 1), *running[] = {&finished};
	hello.protocol = &range;
	hello.boot_id = (char *)BOOT_B;
	hello.daemon_id = (char *)"daemon";
	hello.running = running;
	hello.n_running = 1;
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_HELLO,
				   .actor = "agent/north",
				   .agent = "north",
				   .session = 77,
				   .hello = &hello,
				   .seen_held = true});
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_QUEUED);
	assert_int_equal(test_state(fleet, job, 1), BERTH__V1__TRIAL_STATE__TRIAL_RUNNING);
	uint64_t sequence = test_live_and_retire(fleet, "north", 77, BOOT_A, 1, test_lease(fleet, job, 1));
	test_report_done(fleet, "north", 77, BOOT_A, sequence, finished, BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	assert_int_equal(test_state(fleet, job, 1), BERTH__V1__TRIAL_STATE__TRIAL_SCORED);
}

static void an_assignment_that_was_never_received_is_sent_again(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t first = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	test_place(fleet);
	test_decide(fleet, (struct berth_command){
				   .kind = BERTH_COMMAND_STREAM_DOWN, .actor = "", .agent = "north", .session = first});
	uint64_t second = test_join(fleet, "north", BOOT_A, 1);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_ASSIGN), 1);
	Berth__V1__TrialKey key = test_key(job, 0, 1);
	test_beat(fleet, "north", second, &key, 1);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_ASSIGN), 0);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REVOKE), 0);
}

static void a_trial_that_an_agent_no_longer_owns_is_revoked(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	Berth__V1__TrialKey stale = test_key(job, 0, 7);
	test_beat(fleet, "north", session, &stale, 1);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REVOKE), 1);
}

static void h1_a_cancelled_job_ends_when_its_last_lease_is_proven_dead(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 3, 1);
	test_place(fleet);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	test_decide(
		fleet, (struct berth_command){
			       .kind = BERTH_COMMAND_CANCEL, .actor = "user/ann", .job_id = job, .reason = "enough"});
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REVOKE), 1);
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_CANCELLING);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Job *seen = berth_core_job(fleet->core, job);
	assert_int_equal(seen->n_open_leases, 1);
	assert_string_equal(seen->open_leases[0], lease);
	test_live_and_retire(fleet, "north", session, BOOT_A, 1, lease);
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_CANCELLED);
	test_decide(
		fleet, (struct berth_command){
			       .kind = BERTH_COMMAND_CANCEL, .actor = "user/ann", .job_id = job, .reason = "again"});
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	assert_int_equal(fleet->outcome.events_count, 0);
}

static void a_lease_that_its_agent_never_learned_of_is_retired_as_never_dispatched(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	test_place(fleet);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	uint64_t session = test_join(fleet, "north", BOOT_A, 1); // its stream broke before the assignment
	test_decide(
		fleet, (struct berth_command){
			       .kind = BERTH_COMMAND_CANCEL, .actor = "user/ann", .job_id = job, .reason = "enough"});
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_CANCELLING);
	fleet->outbox_first = 1; // as long as it has something to tell, the mark may be among it
	test_beat(fleet, "north", session, NULL, 0);
	test_beat(fleet, "north", session, NULL, 0);
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_CANCELLING);
	fleet->outbox_first = 0;
	Berth__V1__TrialKey key = test_key(job, 0, 1);
	test_beat(fleet, "north", session, &key, 1);
	test_beat(fleet, "north", session, NULL, 0);
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_CANCELLING);
	test_beat(fleet, "north", session, NULL, 0);
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_CANCELLED);
	while (!berth_core_is_forgotten(fleet->core, job)) {
		test_disk_write(fleet->disk, fleet->core, 4);
	}
	BERTH_AUTO_FREE char *record = berth_format("lease/%s/%s", job, lease);
	size_t size;
	struct berth_error err;
	const void *value = test_disk_record(fleet->disk, record, &size);
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__Lease *retired = berth_proto_unpack(&berth__v1__lease__descriptor, value, size, record, &err);
	assert_ok(retired != NULL, err);
	assert_int_equal(retired->proof, BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
}

static void hello(struct test_fleet *fleet, uint64_t number, const char *nonce, bool seen_held)
{
	Berth__V1__Hello message = BERTH__V1__HELLO__INIT;
	Berth__V1__VersionRange range = BERTH__V1__VERSION_RANGE__INIT;
	Berth__V1__Incarnation obeyed = BERTH__V1__INCARNATION__INIT;
	range.least = range.most = 1;
	obeyed.number = number;
	obeyed.nonce.data = (uint8_t *)nonce;
	obeyed.nonce.len = 16;
	message.protocol = &range;
	message.boot_id = (char *)BOOT_A;
	message.obeyed = &obeyed;
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_HELLO,
				   .actor = "agent/north",
				   .agent = "north",
				   .session = 5,
				   .hello = &message,
				   .seen_held = seen_held});
}

static void an_agent_of_a_twin_is_refused(void **state)
{
	hello(*state, 1, "another-nonce-16", true);
	assert_int_equal(((struct test_fleet *)*state)->outcome.error.code, BERTH_ERROR_FENCED);
	assert_non_null(strstr(((struct test_fleet *)*state)->outcome.error.message, "twin"));
}

static void an_agent_that_saw_what_the_ledger_lacks_is_refused(void **state)
{
	hello(*state, 1, "0123456789abcdef", false);
	assert_int_equal(((struct test_fleet *)*state)->outcome.error.code, BERTH_ERROR_FENCED);
}

static void a_higher_incarnation_ends_the_service_for_good(void **state)
{
	struct test_fleet *fleet = *state;
	hello(fleet, 2, "0123456789abcdef", true);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_FENCED);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_STOP_SERVING), 1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_NOT_SERVING);
}

static void a_task_that_no_host_could_hold_is_refused_by_name(void **state)
{
	struct test_fleet *fleet = *state;
	Berth__V1__SubmitJobRequest request = BERTH__V1__SUBMIT_JOB_REQUEST__INIT;
	Berth__V1__JobSpec spec = BERTH__V1__JOB_SPEC__INIT;
	Berth__V1__Task task = BERTH__V1__TASK__INIT, *tasks[] = {&task};
	Berth__V1__AgentConfig agent = BERTH__V1__AGENT_CONFIG__INIT, *agents[] = {&agent};
	test_join(fleet, "north", BOOT_A, 4);
	task.name = (char *)"org/huge";
	task.cpus = 64;
	spec.tasks = tasks;
	spec.agents = agents;
	spec.n_tasks = spec.n_agents = spec.attempts = 1;
	spec.environment_type = (char *)"docker";
	request.client_key = (char *)"k";
	request.spec = &spec;
	test_decide(
		fleet, (struct berth_command){.kind = BERTH_COMMAND_SUBMIT, .actor = "user/ann", .submit = &request});
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_INVALID);
	assert_non_null(strstr(fleet->outcome.error.message, "org/huge"));
}

static void two_jobs_share_the_fleet_by_what_runs(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 4);
	BERTH_AUTO_FREE const char *first = test_submit(fleet, "a", 100, 1);
	BERTH_AUTO_FREE const char *second = test_submit(fleet, "b", 100, 1);
	test_place(fleet);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Job *a = berth_core_job(fleet->core, first);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Job *b = berth_core_job(fleet->core, second);
	assert_int_equal(a->counts->running, 2);
	assert_int_equal(b->counts->running, 2);
}

static void a_job_is_found_by_prefix_and_by_name(void **state)
{
	struct test_fleet *fleet = *state;
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "night-run", 1, 1);
	char id[BERTH_ID_SIZE];
	struct berth_error err;
	assert_ok(berth_core_find_job(fleet->core, "night-run", id, &err), err);
	assert_string_equal(id, job);
	assert_ok(berth_core_find_job(fleet->core, "000000", id, &err), err);
	assert_fails(
		berth_core_find_job(fleet->core, "00000", id, &err), err, BERTH_ERROR_NOT_FOUND, "no job is 00000");
	BERTH_AUTO_FREE const char *other = test_submit(fleet, "day-run", 1, 1);
	assert_fails(berth_core_find_job(fleet->core, "000000", id, &err), err, BERTH_ERROR_CONFLICT, "2 jobs");
	assert_string_not_equal(other, job);
}

// A seeded walk over everything that agents and users can do; the replica checks each event, and these hold at each
// step: a cell has one accepted result, generations only grow, an ended job stays ended.
static void a_long_random_walk_keeps_every_promise(void **state)
{
	struct test_fleet *fleet = *state;
	enum { CELLS = 6, STEPS = 4000 };
	unsigned seed = 20261;
	static const char *const names[] = {"north", "south"};
	uint64_t sessions[2] = {0}, sequences[2] = {1, 1};
	char boots[2][BERTH_ID_SIZE] = {BOOT_A, BOOT_B};
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "walk", CELLS, 1);
	uint32_t generations[CELLS] = {0};
	bool over[CELLS] = {false};
	for (int step = 0; step < STEPS; step++) {
		int who = rand_r(&seed) % 2;
		uint32_t cell = (uint32_t)rand_r(&seed) % CELLS;
		switch (rand_r(&seed) % 8) {
		case 0:
			if (rand_r(&seed) % 4 == 0) {
				snprintf(boots[who], BERTH_ID_SIZE, "%032x", rand_r(&seed));
				sequences[who] = 1;
			}
			sessions[who] = test_join(fleet, names[who], boots[who], 2);
			break;
		case 1:
			test_advance_ms(fleet, rand_r(&seed) % (2 * FENCE_MS));
			test_tick(fleet);
			break;
		case 2:
		case 3:
			test_place(fleet);
			break;
		case 4:
		case 5: {
			Berth__V1__TrialKey key = test_key(job, cell, test_generation(fleet, job, cell));
			bool running = test_state(fleet, job, cell) == BERTH__V1__TRIAL_STATE__TRIAL_RUNNING;
			if (sessions[who] && running && rand_r(&seed) % 3 == 0) {
				// Whoever reports, owner or not: only the owner's may count.
				BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, cell));
				sequences[who] = test_live_and_retire(
					fleet, names[who], sessions[who], boots[who], sequences[who], lease);
			}
			if (sessions[who] && key.generation) {
				test_report_done(fleet, names[who], sessions[who], boots[who], sequences[who], key,
					rand_r(&seed) % 2 ? BERTH__V1__OUTCOME__OUTCOME_SCORED
							  : BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE,
					"RuntimeError");
				sequences[who] += fleet->outcome.error.code == BERTH_ERROR_OK;
			}
			break;
		}
		default:
			if (sessions[who]) {
				test_beat(fleet, names[who], sessions[who], NULL, 0);
			}
		}
		for (uint32_t i = 0; i < CELLS; i++) {
			Berth__V1__TrialState now = test_state(fleet, job, i);
			uint32_t generation = test_generation(fleet, job, i);
			assert_true(generation >= generations[i]);
			assert_false(over[i] && generation != generations[i]);
			generations[i] = generation;
			bool ended = now == BERTH__V1__TRIAL_STATE__TRIAL_SCORED ||
			             now == BERTH__V1__TRIAL_STATE__TRIAL_QUARANTINED;
			assert_false(over[i] && !ended);
			over[i] = ended;
		}
	}
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
}

static void what_has_ended_leaves_memory_and_its_records_stay(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 2);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "done", 1, 1);
	test_place(fleet);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	uint64_t next = test_live_and_retire(fleet, "north", session, BOOT_A, 1, lease);
	test_report_done(
		fleet, "north", session, BOOT_A, next, test_key(job, 0, 1), BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
	while (!berth_core_is_forgotten(fleet->core, job)) {
		test_disk_write(fleet->disk, fleet->core, 2);
	}
	Berth__V1__Lease *leases[1];
	Berth__V1__LeaseDetail *details[1];
	assert_int_equal(berth_core_leases(fleet->core, NULL, BERTH_LEASES_ALL, NULL, 1, leases, details), 0);
	assert_int_equal(test_state(fleet, job, 0), BERTH__V1__TRIAL_STATE__TRIAL_SCORED);
	BERTH_AUTO_FREE char *key = berth_format("lease/%s/%s", job, lease);
	size_t size;
	assert_non_null(test_disk_record(fleet->disk, key, &size));
	// Whoever recovers has the job, not its trials; and the client key is still known.
	struct berth_core *recovered = test_disk_recover(fleet->disk, &fleet->config);
	assert_true(berth_core_is_forgotten(recovered, job));
	berth_core_free(recovered);
	BERTH_AUTO_FREE const char *again = test_submit(fleet, "done", 1, 1);
	assert_string_equal(again, job);
	// A late report of it is answered and counts for nothing.
	test_report_done(fleet, "north", session, BOOT_A, next + 1, test_key(job, 0, 1),
		BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REPORT_ACK), 1);
}

static void a_checkpoint_is_the_state_at_its_event_however_long_it_takes(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 4);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "long", 8, 1);
	test_place(fleet);
	while (test_disk_marker(fleet->disk) < 5) {
		test_disk_write(fleet->disk, fleet->core, 1);
	}
	uint64_t next = 1;
	for (uint32_t i = 0; i < 4; i++) {
		BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, i));
		next = test_live_and_retire(fleet, "north", session, BOOT_A, next, lease);
		test_report_done(fleet, "north", session, BOOT_A, next++, test_key(job, i, 1),
			BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
		test_disk_write(fleet->disk, fleet->core, 1);
		struct berth_core *recovered = test_disk_recover(fleet->disk, &fleet->config);
		struct berth_digest live = berth_core_digest(fleet->core), again = berth_core_digest(recovered);
		assert_memory_equal(live.bytes, again.bytes, BERTH_DIGEST_SIZE);
		berth_core_free(recovered);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_set_up_two, test_tear_down)

static const struct CMUnitTest tests[] = {
	TEST(a_job_runs_to_its_end_on_one_agent),
	TEST(the_same_client_key_gives_the_same_job_and_another_spec_conflicts),
	TEST(a_trial_is_not_moved_before_the_fencing_wait_is_over),
	TEST(a_replayed_core_decides_nothing_before_its_incarnation_has_begun),
	TEST(a_result_of_an_older_generation_changes_nothing),
	TEST(a_report_is_applied_once_and_a_gap_is_refused),
	TEST(a_scored_result_with_an_open_lease_is_run_again),
	TEST(infrastructure_failures_end_in_quarantine_and_never_in_a_score),
	TEST(a_trial_that_a_broken_host_failed_waits_longer_each_time),
	TEST(harbors_retries_wait_and_are_counted_apart_from_the_fleets),
	TEST(an_agent_that_restarts_loses_its_trials_but_not_its_finished_result),
	TEST(an_assignment_that_was_never_received_is_sent_again),
	TEST(a_trial_that_an_agent_no_longer_owns_is_revoked),
	TEST(h1_a_cancelled_job_ends_when_its_last_lease_is_proven_dead),
	TEST(a_lease_that_its_agent_never_learned_of_is_retired_as_never_dispatched),
	TEST(what_has_ended_leaves_memory_and_its_records_stay),
	TEST(a_checkpoint_is_the_state_at_its_event_however_long_it_takes),
	TEST(an_agent_of_a_twin_is_refused),
	TEST(an_agent_that_saw_what_the_ledger_lacks_is_refused),
	TEST(a_higher_incarnation_ends_the_service_for_good),
	TEST(a_task_that_no_host_could_hold_is_refused_by_name),
	TEST(two_jobs_share_the_fleet_by_what_runs),
	TEST(a_job_is_found_by_prefix_and_by_name),
	TEST(a_long_random_walk_keeps_every_promise),
};

BERTH_TEST_MAIN(tests)
