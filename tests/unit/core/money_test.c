// SPDX-License-Identifier: Apache-2.0
// Jobs that are paid for: what a lease reserves, how that ends, and who waits when there is no room.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define HOLD_MS     TEST_HOLD_MS
#define FENCE_MS    (HOLD_MS * 105 / 100 + BERTH_FENCE_EXTRA_MS)
#define LEASE(name) BERTH__V1__LEASE_STATE__LEASE_##name
#define PROOF(name) BERTH__V1__DEATH_PROOF__##name
#define TRIAL(name) BERTH__V1__TRIAL_STATE__TRIAL_##name

static void assert_sums(
	const struct test_fleet *fleet, const char *budget, int64_t settled, int64_t reserved, int64_t forfeited)
{
	Berth__V1__BudgetTotals totals = test_totals(fleet, budget);
	assert_int_equal(totals.settled_nano_usd, settled);
	assert_int_equal(totals.reserved_nano_usd, reserved);
	assert_int_equal(totals.forfeited_nano_usd, forfeited);
}

static void assert_reservation(const struct test_fleet *fleet, const char *id, Berth__V1__ReservationState wanted)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Reservation *row = test_reservation(fleet, "b", id);
	assert_non_null(row);
	assert_int_equal(row->state, wanted);
}

static void assert_refused(const struct test_fleet *fleet, enum berth_error_code code, const char *part)
{
	assert_int_equal(fleet->outcome.events_count, 0);
	assert_fails(fleet->outcome.error.code == BERTH_ERROR_OK, fleet->outcome.error, code, part);
}

static void a_run_reserves_its_ceiling_and_settles_what_its_agent_measured(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	assert_ok(fleet->outcome.error.code == BERTH_ERROR_OK, fleet->outcome.error);
	assert_sums(fleet, "b", 0, 0, 0);
	test_place(fleet);
	assert_sums(fleet, "b", 0, TEST_PRICE, 0);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Reservation *row = test_reservation(fleet, "b", lease);
	assert_string_equal(row->meter_id, "local.task_environment.c1.m512.t3600");
	assert_string_equal(row->scope->phase, "search");
	assert_string_equal(row->scope->category, "task_environment");
	assert_string_equal(row->scope->run_id, job);
	assert_string_equal(row->scope->lane, "north");
	assert_string_equal(row->user, "user/ann");
	test_advance_ms(fleet, 100000);
	fleet->elapsed_ns = 61 * BERTH_NS_PER_S;
	test_live_and_retire(fleet, "north", session, BOOT_A, 1, lease);
	assert_sums(fleet, "b", 120 * 10, 0, 0); // two quanta
}

static void the_agents_time_counts_up_to_the_coordinators(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	test_place(fleet);
	test_advance_ms(fleet, 10000);
	fleet->elapsed_ns = 3000 * BERTH_NS_PER_S;
	test_live_and_retire(fleet, "north", session, BOOT_A, 1, test_lease(fleet, job, 0));
	assert_sums(fleet, "b", 60 * 10, 0, 0); // 10 s and 30 s of grace
}

static void a_time_that_is_not_known_is_the_coordinators(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	test_place(fleet);
	test_advance_ms(fleet, 125000);
	test_live_and_retire(fleet, "north", session, BOOT_A, 1, test_lease(fleet, job, 0));
	assert_sums(fleet, "b", 180 * 10, 0, 0);
}

// Neither the agent nor the coordinator has a clock that ran all the while, and a wall clock may have been set back.
static void a_time_that_nobody_measured_is_charged_in_full_and_for_good(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	test_place(fleet);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	test_report_lease(fleet, "north", session, BOOT_A, 1, lease, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0);
	test_report_lease(fleet, "north", session, BOOT_A, 2, lease, BERTH__V1__LEASE_STATE__LEASE_ACTIVE, 0);
	test_advance_ms(fleet, 125000);
	fleet->now.wall_ns -= INT64_C(3600) * BERTH_NS_PER_S;
	test_restart(fleet);
	session = test_join(fleet, "north", BOOT_B, 1);
	test_report_lease(fleet, "north", session, BOOT_B, 1, lease, BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED, 0);
	test_report_lease(fleet, "north", session, BOOT_B, 2, lease, BERTH__V1__LEASE_STATE__LEASE_RETIRED,
		BERTH__V1__DEATH_PROOF__ABSENCE_SEEN);
	assert_sums(fleet, "b", 0, 0, TEST_PRICE);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Reservation *row = test_reservation(fleet, "b", lease);
	assert_string_equal(row->ending->failure_type, "DurationUnknown");
	test_report_lease(fleet, "north", session, BOOT_B, 3, lease, BERTH__V1__LEASE_STATE__LEASE_RETIRED,
		BERTH__V1__DEATH_PROOF__ABSENCE_SEEN);
	assert_sums(fleet, "b", 0, 0, TEST_PRICE); // no appeal: the time stays unknown
}

static void what_was_never_created_is_released(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 2);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 2, "b");
	test_place(fleet);
	assert_sums(fleet, "b", 0, 2 * TEST_PRICE, 0);
	BERTH_AUTO_FREE char *first = berth_strdup(test_lease(fleet, job, 0));
	BERTH_AUTO_FREE char *second = berth_strdup(test_lease(fleet, job, 1));
	test_report_lease(fleet, "north", session, BOOT_A, 1, first, LEASE(RETIRED), PROOF(NEVER_DISPATCHED));
	test_report_lease(fleet, "north", session, BOOT_A, 2, second, LEASE(DISPATCHING), 0);
	test_report_lease(fleet, "north", session, BOOT_A, 3, second, LEASE(RETIRED), PROOF(REJECTED));
	assert_sums(fleet, "b", 0, 0, 0);
	assert_reservation(fleet, first, BERTH__V1__RESERVATION_STATE__RELEASED);
}

static void a_create_of_which_only_the_expiry_is_known_is_forfeited_and_a_late_receipt_appeals_it(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	test_place(fleet);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	fleet->expiry_ns = fleet->now.wall_ns + 2 * BERTH_NS_PER_MS;
	test_report_lease(fleet, "north", session, BOOT_A, 1, lease, LEASE(DISPATCHING), 0);
	test_advance_ms(fleet, 2);
	test_report_lease(fleet, "north", session, BOOT_A, 2, lease, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
	assert_sums(fleet, "b", 0, 0, TEST_PRICE);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Reservation *row = test_reservation(fleet, "b", lease);
	assert_string_equal(row->ending->failure_type, "CreateUnknown");
	test_decide(fleet, (struct berth_command){
				   .kind = BERTH_COMMAND_CANCEL, .actor = "user/ann", .job_id = job, .reason = "x"});
	while (!berth_core_is_forgotten(fleet->core, job)) {
		test_disk_write(fleet->disk, fleet->core, 3);
	}
	// Another agent's word is none, and the job has left memory: the forfeit has not.
	test_advance_ms(fleet, 50000);
	uint64_t other = test_join(fleet, "south", BOOT_B, 1);
	test_report_lease(fleet, "south", other, BOOT_B, 1, lease, LEASE(RETIRED), PROOF(ABSENCE_SEEN));
	assert_sums(fleet, "b", 0, 0, TEST_PRICE);
	uint64_t back = test_join(fleet, "north", BOOT_A, 1);
	test_report_lease(fleet, "north", back, BOOT_A, 3, lease, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
	assert_sums(fleet, "b", 0, 0, TEST_PRICE);
	test_report_lease(fleet, "north", back, BOOT_A, 4, lease, LEASE(RETIRED), PROOF(ABSENCE_SEEN));
	assert_sums(fleet, "b", 60 * 10, 0, 0);
	for (int i = 0; i < 20; i++) {
		test_disk_write(fleet->disk, fleet->core, 3);
	}
	assert_null(test_reservation(fleet, "b", lease));
	struct berth_core *recovered = test_disk_recover(fleet->disk, &fleet->config);
	struct berth_digest live = berth_core_digest(fleet->core), again = berth_core_digest(recovered);
	assert_memory_equal(live.bytes, again.bytes, BERTH_DIGEST_SIZE);
	berth_core_free(recovered);
}

static void a_failed_cleanup_that_is_given_up_is_forfeited(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	test_place(fleet);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	test_report_lease(fleet, "north", session, BOOT_A, 1, lease, LEASE(DISPATCHING), 0);
	test_report_lease(fleet, "north", session, BOOT_A, 2, lease, LEASE(CLEANUP_FAILED), 0);
	assert_sums(fleet, "b", 0, TEST_PRICE, 0);
	test_report_lease(fleet, "north", session, BOOT_A, 3, lease, LEASE(RETIRED), PROOF(GIVEN_UP));
	assert_sums(fleet, "b", 0, 0, TEST_PRICE);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Reservation *row = test_reservation(fleet, "b", lease);
	assert_string_equal(row->ending->failure_type, "OrphanedLease");
}

static void a_time_that_cannot_be_priced_is_no_usage(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	test_place(fleet);
	fleet->elapsed_ns = -1;
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	test_live_and_retire(fleet, "north", session, BOOT_A, 1, lease);
	assert_sums(fleet, "b", 0, 0, TEST_PRICE);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Reservation *row = test_reservation(fleet, "b", lease);
	assert_string_equal(row->ending->failure_type, "UsageInvalid");
}

static void an_assignment_whose_money_and_leases_differ_does_not_replay(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	struct berth_core *cores[3] = {0};
	for (size_t i = 0; i < BERTH_COUNT(cores); i++) {
		cores[i] = test_disk_recover(fleet->disk, &fleet->config);
	}
	test_place(fleet);
	assert_int_equal(test_generation(fleet, job, 0), 1);
	for (size_t i = 0; i < BERTH_COUNT(cores); i++) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__Event *event = berth_proto_clone(fleet->outcome.events[0]);
		Berth__Store__V1__TrialAssigned *assigned = event->trial_assigned;
		struct berth_error err;
		if (i == 0) {
			berth_proto_set_string(&assigned->leases[0]->reservation_id, NULL);
		} else if (i == 1) {
			berth_proto_free(assigned->reservations[--assigned->n_reservations]);
		} else {
			assigned->reservations[0]->max_nano_usd--;
		}
		assert_fails(berth_core_apply(cores[i], event, &err), err, BERTH_ERROR_CORRUPT, "");
		berth_core_free(cores[i]);
	}
}

// --- taking jobs ---

static void a_job_names_a_budget_a_phase_and_machines_that_are_rated(void **state)
{
	struct test_fleet *fleet = *state;
	BERTH_AUTO_FREE const char *unknown = test_submit_paid(fleet, "a", 1, "nothing");
	assert_refused(fleet, BERTH_ERROR_BUDGET, "no budget is named nothing");
	test_open_budget(fleet, "small", TEST_PRICE - 1, 0, "");
	BERTH_AUTO_FREE const char *dear = test_submit_paid(fleet, "b", 1, "small");
	assert_refused(fleet, BERTH_ERROR_BUDGET, "the hard limit of budget small is 0.000044999 USD");
	test_open_budget(fleet, "narrow", 1000000, 1000, "");
	BERTH_AUTO_FREE const char *phase = test_submit_paid(fleet, "c", 1, "narrow");
	assert_refused(fleet, BERTH_ERROR_BUDGET, "the limit of the phase");
	test_open_budget(fleet, "strict", 1000000, 1000000, ",\"job_limit_nano_usd\":1000");
	BERTH_AUTO_FREE const char *limited = test_submit_paid(fleet, "d", 1, "strict");
	assert_refused(fleet, BERTH_ERROR_BUDGET, "the limit of one job");
	fleet->memory_mb = 700;
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *unrated = test_submit_paid(fleet, "e", 1, "b");
	assert_refused(fleet, BERTH_ERROR_BUDGET, "no rate for local task_environment with 1 CPUs and 700 MB");
	fleet->memory_mb = -1;
	BERTH_AUTO_FREE const char *unsized = test_submit_paid(fleet, "f", 1, "b");
	assert_refused(fleet, BERTH_ERROR_BUDGET, "task count-words declares no memory");
}

static void a_verifier_environment_is_reserved_with_the_tasks_or_neither(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 2);
	test_open_budget(fleet, "one", 1000000, 1000000, "");
	fleet->verifier = true;
	BERTH_AUTO_FREE const char *unrated = test_submit_paid(fleet, "i", 1, "one");
	assert_refused(fleet, BERTH_ERROR_BUDGET, "no rate for local verifier_environment");
	int64_t limit = 2 * (TEST_PRICE + TEST_VERIFIER_PRICE) - 1;
	test_open_budget(fleet, "b", limit, limit, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 2, "b");
	assert_ok(fleet->outcome.error.code == BERTH_ERROR_OK, fleet->outcome.error);
	test_place(fleet);
	assert_sums(fleet, "b", 0, TEST_PRICE + TEST_VERIFIER_PRICE, 0);
	assert_int_equal(test_state(fleet, job, 0), TRIAL(RUNNING));
	assert_int_equal(test_state(fleet, job, 1), TRIAL(BUDGET_BLOCKED));
}

static void what_a_policy_forfeits_undispatched_is_final(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, ",\"forfeit_undispatched\":true");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	test_place(fleet);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	test_report_lease(fleet, "north", session, BOOT_A, 1, lease, LEASE(RETIRED), PROOF(NEVER_DISPATCHED));
	assert_sums(fleet, "b", 0, 0, TEST_PRICE);
	test_report_lease(fleet, "north", session, BOOT_A, 2, lease, LEASE(RETIRED), PROOF(ABSENCE_SEEN));
	assert_sums(fleet, "b", 0, 0, TEST_PRICE);
	for (int i = 0; i < 20; i++) {
		test_disk_write(fleet->disk, fleet->core, 3);
	}
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Reservation *gone = test_reservation(fleet, "b", lease);
	assert_null(gone);
	assert_sums(fleet, "b", 0, 0, TEST_PRICE);
}

// --- waiting for money ---

static void assert_counts(const struct test_fleet *fleet, const char *job, uint32_t running, uint32_t queued,
	uint32_t blocked, const char *reason)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Job *seen = berth_core_job(fleet->core, job);
	assert_int_equal(seen->counts->running, running);
	assert_int_equal(seen->counts->queued, queued);
	assert_int_equal(seen->counts->budget_blocked, blocked);
	assert_non_null(strstr(seen->blocked_reason, reason));
}

static void who_finds_no_room_waits_with_the_sums_until_a_settlement(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 8);
	test_open_budget(fleet, "b", 2 * TEST_PRICE, 2 * TEST_PRICE, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 5, "b");
	test_place(fleet);
	assert_counts(fleet, job, 2, 0, 3,
		"0.000045 USD is wanted and 0.00 of 0.00009 USD is left (settled 0.00, reserved 0.00009, forfeited "
		"0.00)");
	assert_int_equal(test_state(fleet, job, 4), TRIAL(BUDGET_BLOCKED));
	// Nothing is tried again before something has changed.
	assert_false(berth_core_wants_place(fleet->core, fleet->now));
	test_beat(fleet, "north", session, NULL, 0);
	test_place(fleet);
	assert_int_equal(fleet->outcome.events_count, 0);
	test_report_lease(
		fleet, "north", session, BOOT_A, 1, test_lease(fleet, job, 0), LEASE(RETIRED), PROOF(NEVER_DISPATCHED));
	assert_true(berth_core_wants_place(fleet->core, fleet->now));
	assert_int_equal(test_state(fleet, job, 4), TRIAL(QUEUED));
	test_place(fleet);
	assert_counts(fleet, job, 3, 0, 2, "0.000045 USD is wanted");
	assert_sums(fleet, "b", 0, 2 * TEST_PRICE, 0);
}

static void an_amendment_lets_those_run_that_wait(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 8);
	test_open_budget(fleet, "b", TEST_PRICE, TEST_PRICE, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 5, "b");
	test_place(fleet);
	assert_counts(fleet, job, 1, 0, 4, "budget b, the hard limit");
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Budget *seen = berth_core_budget(fleet->core, "b");
	assert_int_equal(seen->blocked_trials, 4);
	test_amend_budget(fleet, "b", 1, 4 * TEST_PRICE, 3 * TEST_PRICE);
	test_place(fleet);
	assert_counts(fleet, job, 3, 0, 2, "budget b, phase search");
	test_amend_budget(fleet, "b", 2, 9 * TEST_PRICE, 9 * TEST_PRICE);
	test_place(fleet);
	assert_counts(fleet, job, 5, 0, 0, "");
}

static void a_cheaper_job_runs_while_a_dear_one_waits_and_no_host_is_kept_for_it(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 2);
	test_open_budget(fleet, "b", TEST_PRICE, TEST_PRICE, "");
	BERTH_AUTO_FREE const char *dear = test_submit_paid(fleet, "dear", 2, "b");
	test_place(fleet);
	assert_counts(fleet, dear, 1, 0, 1, "wanted");
	test_advance_ms(fleet, 700000); // past the aging bound
	test_beat(fleet, "north", session, NULL, 0);
	BERTH_AUTO_FREE const char *free_job = test_submit(fleet, "free", 1, 1);
	test_place(fleet);
	assert_int_equal(test_state(fleet, free_job, 0), TRIAL(RUNNING));
}

static uint64_t settle_trial(
	struct test_fleet *fleet, uint64_t session, uint64_t sequence, const char *job, uint32_t index)
{
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, index));
	sequence = test_live_and_retire(fleet, "north", session, BOOT_A, sequence, lease);
	test_report_done(fleet, "north", session, BOOT_A, sequence, test_key(job, index, 1),
		BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	test_place(fleet);
	return sequence + 1;
}

static void a_dear_run_that_waited_long_gets_the_money_that_comes_back(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 8), sequence = 1;
	fleet->elapsed_ns = 1;
	fleet->verifier = true;
	test_open_budget(fleet, "b", 100000, 100000, "");
	fleet->verifier = false;
	BERTH_AUTO_FREE const char *first = test_submit_paid(fleet, "first", 2, "b");
	test_place(fleet);
	fleet->verifier = true;
	BERTH_AUTO_FREE const char *dear = test_submit_paid(fleet, "dear", 1, "b");
	fleet->verifier = false;
	BERTH_AUTO_FREE const char *later = test_submit_paid(fleet, "later", 5, "b");
	sequence = settle_trial(fleet, session, sequence, first, 0);
	assert_int_equal(test_state(fleet, later, 0), TRIAL(RUNNING)); // what came back is enough for one of these
	assert_int_equal(test_state(fleet, dear, 0), TRIAL(BUDGET_BLOCKED));
	test_advance_ms(fleet, 700000); // past the aging bound
	test_beat(fleet, "north", session, NULL, 0);
	sequence = settle_trial(fleet, session, sequence, first, 1);
	assert_int_equal(test_state(fleet, later, 1), TRIAL(QUEUED));
	sequence = settle_trial(fleet, session, sequence, later, 0);
	assert_int_equal(test_state(fleet, dear, 0), TRIAL(RUNNING));
}

static void no_money_is_kept_for_a_run_that_it_cannot_pay(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 8), sequence = 1;
	fleet->verifier = true;
	test_open_budget(fleet, "b", 2 * TEST_PRICE, 2 * TEST_PRICE, "");
	fleet->verifier = false;
	BERTH_AUTO_FREE const char *cheap = test_submit_paid(fleet, "cheap", 2, "b");
	test_place(fleet);
	fleet->verifier = true;
	BERTH_AUTO_FREE const char *dear = test_submit_paid(fleet, "dear", 1, "b");
	fleet->verifier = false;
	BERTH_AUTO_FREE const char *later = test_submit_paid(fleet, "later", 1, "b");
	test_advance_ms(fleet, 1000000);
	test_beat(fleet, "north", session, NULL, 0);
	fleet->elapsed_ns = 1000 * BERTH_NS_PER_S; // what is spent leaves too little for ever
	sequence = settle_trial(fleet, session, sequence, cheap, 0);
	sequence = settle_trial(fleet, session, sequence, cheap, 1);
	assert_int_equal(test_state(fleet, dear, 0), TRIAL(BUDGET_BLOCKED));
	assert_int_equal(test_state(fleet, later, 0), TRIAL(RUNNING));
}

static void a_cancel_ends_those_that_wait_for_money(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 4);
	test_open_budget(fleet, "b", TEST_PRICE, TEST_PRICE, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 3, "b");
	test_place(fleet);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	test_decide(fleet, (struct berth_command){
				   .kind = BERTH_COMMAND_CANCEL, .actor = "user/ann", .job_id = job, .reason = "x"});
	assert_counts(fleet, job, 0, 0, 0, "");
	assert_sums(fleet, "b", 0, TEST_PRICE, 0);
	fleet->elapsed_ns = 1;
	test_live_and_retire(fleet, "north", session, BOOT_A, 1, lease);
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_CANCELLED);
	assert_sums(fleet, "b", 60 * 10, 0, 0);
}

static void a_trial_that_moves_from_a_lost_agent_keeps_both_reservations(void **state)
{
	struct test_fleet *fleet = *state;
	test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	test_place(fleet);
	BERTH_AUTO_FREE char *old = berth_strdup(test_lease(fleet, job, 0));
	test_advance_ms(fleet, FENCE_MS);
	test_tick(fleet);
	test_join(fleet, "south", BOOT_B, 1);
	test_place(fleet);
	assert_int_equal(test_generation(fleet, job, 0), 2);
	assert_sums(fleet, "b", 0, 2 * TEST_PRICE, 0);
	assert_reservation(fleet, old, BERTH__V1__RESERVATION_STATE__RESERVED);
	uint64_t north = test_join(fleet, "north", BOOT_A, 1);
	fleet->elapsed_ns = BERTH_NS_PER_S;
	test_live_and_retire(fleet, "north", north, BOOT_A, 1, old);
	assert_sums(fleet, "b", 60 * 10, TEST_PRICE, 0);
}

static void a_thousand_runs_on_sixteen_agents_reserve_the_cap_and_not_more(void **state)
{
	struct test_fleet *fleet = *state;
	enum { AGENTS = 16, TRIALS = 1000, PAID = 480 };
	fleet->quick = true;
	for (int i = 0; i < AGENTS; i++) {
		BERTH_AUTO_FREE char *name = berth_format("host-%02d", i);
		BERTH_AUTO_FREE char *boot = berth_format("%032d", i);
		test_enroll(fleet, name);
		test_join(fleet, name, boot, 64);
	}
	test_open_budget(fleet, "b", PAID * TEST_PRICE, PAID * TEST_PRICE, "");
	BERTH_AUTO_FREE const char *one = test_submit_paid(fleet, "j", TRIALS / 2, "b");
	BERTH_AUTO_FREE const char *two = test_submit_paid(fleet, "k", TRIALS / 2, "b");
	for (int i = 0; i < 40 && berth_core_wants_place(fleet->core, fleet->now); i++) {
		test_place(fleet);
	}
	assert_false(berth_core_wants_place(fleet->core, fleet->now));
	assert_sums(fleet, "b", 0, PAID * TEST_PRICE, 0);
	assert_counts(
		fleet, one, PAID / 2, 0, (TRIALS - PAID) / 2, "0.000045 USD is wanted and 0.00 of 0.0216 USD is left");
	assert_counts(fleet, two, PAID / 2, 0, (TRIALS - PAID) / 2, "reserved 0.0216");
	fleet->quick = false;
	test_tick(fleet); // replica and recovered core have the same state
}

static void a_breached_budget_quarantines_what_waits(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 2, "b");
	test_place(fleet);
	test_breach(fleet, "b", test_lease(fleet, job, 0));
	test_advance_ms(fleet, 1);
	test_report_lease(
		fleet, "north", session, BOOT_A, 1, test_lease(fleet, job, 0), LEASE(RETIRED), PROOF(NEVER_DISPATCHED));
	test_report_done(fleet, "north", session, BOOT_A, 2, test_key(job, 0, 1), BERTH__V1__OUTCOME__OUTCOME_TASK,
		"RuntimeError");
	test_place(fleet);
	assert_int_equal(test_state(fleet, job, 1), TRIAL(QUARANTINED));
	assert_int_equal(test_job_state(fleet, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
	BERTH_AUTO_FREE const char *later = test_submit_paid(fleet, "k", 1, "b");
	assert_refused(fleet, BERTH_ERROR_BUDGET, "budget b is breached");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_set_up_two, test_tear_down)

static const struct CMUnitTest tests[] = {
	TEST(a_run_reserves_its_ceiling_and_settles_what_its_agent_measured),
	TEST(the_agents_time_counts_up_to_the_coordinators),
	TEST(a_time_that_is_not_known_is_the_coordinators),
	TEST(a_time_that_nobody_measured_is_charged_in_full_and_for_good),
	TEST(what_was_never_created_is_released),
	TEST(a_create_of_which_only_the_expiry_is_known_is_forfeited_and_a_late_receipt_appeals_it),
	TEST(a_failed_cleanup_that_is_given_up_is_forfeited),
	TEST(a_time_that_cannot_be_priced_is_no_usage),
	TEST(an_assignment_whose_money_and_leases_differ_does_not_replay),
	TEST(a_job_names_a_budget_a_phase_and_machines_that_are_rated),
	TEST(a_verifier_environment_is_reserved_with_the_tasks_or_neither),
	TEST(what_a_policy_forfeits_undispatched_is_final),
	TEST(who_finds_no_room_waits_with_the_sums_until_a_settlement),
	TEST(an_amendment_lets_those_run_that_wait),
	TEST(a_cheaper_job_runs_while_a_dear_one_waits_and_no_host_is_kept_for_it),
	TEST(a_dear_run_that_waited_long_gets_the_money_that_comes_back),
	TEST(no_money_is_kept_for_a_run_that_it_cannot_pay),
	TEST(a_cancel_ends_those_that_wait_for_money),
	TEST(a_trial_that_moves_from_a_lost_agent_keeps_both_reservations),
	TEST(a_thousand_runs_on_sixteen_agents_reserve_the_cap_and_not_more),
	TEST(a_breached_budget_quarantines_what_waits),
};

BERTH_TEST_MAIN(tests)
