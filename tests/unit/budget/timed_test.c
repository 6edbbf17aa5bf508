// SPDX-License-Identifier: Apache-2.0
// The acceptance list's rows under Timed, and the hazards of budget 5.2 and runner-lease 9 that concern money.
#include "tests/unit/budget/world.h"

#define S BERTH_NS_PER_S

static void zero_duration_bills_one_quantum(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "runner", 0));
	assert_int_equal(world_row(&world, "a")->max_nano_usd, CEILING_RUNNER);
	assert_true(world_settle(&world, "a", 0));
	assert_int_equal(world_row(&world, "a")->ending->usage->quantity, 60);
	assert_sums(&world, 190, 0, 0, 0);
	world_close(&world);
}

static void a_timed_reservation_holds_its_exact_maximum(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_refused(&world, world_reserve(&world, "a", "plain", 59), BERTH_BUDGET_NOT_EXACT, "is 60");
	assert_refused(&world, world_reserve(&world, "a", "plain", 61), BERTH_BUDGET_NOT_EXACT, "is 60");
	struct berth_budget_reserve command = world_command("a", "plain", 60);
	command.input_token_ceiling = 1;
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_INVALID, "no token ceilings");
	assert_true(world_reserve(&world, "a", "plain", 60));
	world_close(&world);
}

static void a_settlement_has_one_usage_shape(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "time", "plain", 0));
	assert_true(world_reserve(&world, "call", "worker", 100));
	struct berth_budget_settle settle = {.reservation_id = "time", .elapsed_ns = S, .input_tokens = 1};
	assert_refused(&world, world_settle_as(&world, &settle), BERTH_BUDGET_INVALID, "in time alone");
	settle = (struct berth_budget_settle){.reservation_id = "call", .elapsed_ns = S, .input_tokens = 1};
	assert_refused(&world, world_settle_as(&world, &settle), BERTH_BUDGET_INVALID, "in tokens alone");
	settle = (struct berth_budget_settle){.reservation_id = "call", .input_tokens = -1};
	assert_refused(&world, world_settle_as(&world, &settle), BERTH_BUDGET_INVALID, "negative");
	assert_refused(&world, world_settle(&world, "time", -1), BERTH_BUDGET_INVALID, "negative");
	assert_sums(&world, 0, 160, 0, 0);
	world_close(&world);
}

static void a_transient_failure_before_the_commit_then_a_retry_settles_once(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "plain", 0));
	struct berth_budget_settle settle = {.reservation_id = "a", .elapsed_ns = S / 10};
	Berth__Store__V1__BudgetEnded *lost;
	assert_true(berth_budget_decide_settle(world.budgets, &settle, &lost, &world.refusal));
	berth_proto_free(lost); // decided, and never committed
	assert_sums(&world, 0, 60, 0, 0);
	assert_true(world_settle_as(&world, &settle));
	assert_true(world_settle_as(&world, &settle));
	assert_int_equal(world_row(&world, "a")->ending->usage->quantity, 1);
	assert_sums(&world, 2, 0, 0, 0);
	world_close(&world);
}

static void the_coordinators_time_bounds_what_an_agent_measured(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "runner", 0));
	struct berth_budget_settle settle = {.reservation_id = "a", .elapsed_ns = 900 * S, .elapsed_bound_ns = 100 * S};
	assert_true(world_settle_as(&world, &settle));
	assert_int_equal(world_row(&world, "a")->ending->usage->quantity, 180); // 100 + 30 s of skew, up to quanta
	assert_int_equal(world_row(&world, "a")->ending->usage->elapsed_ns, 900 * S);
	settle.elapsed_bound_ns = 5000 * S; // the same report later: what was decided stays
	assert_true(world_settle_as(&world, &settle));
	assert_sums(&world, 550, 0, 0, 0);
	world_close(&world);
}

static void x4_time_beyond_the_horizon_is_an_overrun_and_stops_nothing(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "runner", 0));
	assert_true(world_settle(&world, "a", 1080 * S + S / 2));
	const Berth__V1__Reservation *row = world_row(&world, "a");
	assert_int_equal(row->state, BERTH__V1__RESERVATION_STATE__SETTLED);
	assert_int_equal(row->ending->usage->quantity, 1140);
	assert_sums(&world, CEILING_RUNNER, 0, 0, 180);
	assert_true(world_reserve(&world, "b", "runner", 0));
	world_close(&world);
}

static void x10_a_forfeit_and_a_late_settlement_have_a_way_on(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "late", "runner", 0));
	assert_true(world_reserve(&world, "lost", "runner", 0));
	assert_true(world_settle(&world, "late", 5000 * S));
	assert_true(world_forfeit(&world, "lost", "OrphanedLease"));
	world.now_ns += 100 * S;
	assert_true(world_appeal(&world, "lost", BERTH__V1__DEATH_PROOF__ABSENCE_SEEN, world.now_ns));
	assert_sums(&world, CEILING_RUNNER + 10 + 3 * 120, 0, 0, world_row(&world, "late")->ending->overrun_nano_usd);
	world_close(&world);
}

static void x11_a_settlement_that_failed_after_the_kill_is_made_up_later(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "runner", 0));
	world.now_ns += 5000 * S; // the agent was away, its number is frozen
	assert_true(world_settle(&world, "a", 61 * S));
	assert_sums(&world, 370, 0, 0, 0);
	world_close(&world);
}

static void x12_reserve_is_idempotent_over_an_rpc_retry(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	assert_true(world_reserve(&world, "a", "plain", 0));
	assert_true(world_reserve(&world, "a", "plain", 0));
	assert_true(world_reserve(&world, "a", "plain", 60));
	assert_int_equal(world.count, 2);
	assert_sums(&world, 0, 60, 0, 0);
	assert_refused(&world, world_reserve(&world, "a", "worker", 60), BERTH_BUDGET_CONFLICT, "another payload");
	struct berth_budget_reserve command = world_command("a", "plain", 0);
	command.job_id = "j";
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_CONFLICT, "another payload");
	assert_true(world_settle(&world, "a", 0));
	assert_true(world_reserve(&world, "a", "plain", 0)); // a very late retry reserves nothing again
	assert_sums(&world, 2, 0, 0, 0);
	world_close(&world);
}

static void w1_h8_a_definitive_refusal_of_the_provider_costs_nothing(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	for (int i = 0; i < 10; i++) { // 429 after 429: never the ceiling, never in the way of the next
		char id[32];
		snprintf(id, sizeof id, "lease-%d", i);
		assert_true(world_reserve(&world, id, "plain", 0));
		assert_true(world_release(&world, id, BERTH__V1__DEATH_PROOF__REJECTED));
	}
	assert_sums(&world, 0, 0, 0, 0);
	world_close(&world);
}

static void h4_a_missing_reservation_is_told_and_not_taken_for_an_ended_one(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	assert_null(berth_budgets_reservation(world.budgets, "a"));
	assert_refused(&world, world_settle(&world, "a", 0), BERTH_BUDGET_UNKNOWN_RESERVATION, "a");
	assert_refused(&world, world_forfeit(&world, "a", "OrphanedLease"), BERTH_BUDGET_UNKNOWN_RESERVATION, "a");
	assert_refused(&world, world_release(&world, "a", BERTH__V1__DEATH_PROOF__REJECTED),
		BERTH_BUDGET_UNKNOWN_RESERVATION, "a");
	world_close(&world);
}

static void h9_a_receipt_of_another_lease_proves_nothing(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "runner", 0));
	assert_true(world_forfeit(&world, "a", "OrphanedLease"));
	Berth__V1__Lease lease = BERTH__V1__LEASE__INIT;
	lease.lease_id = (char *)"b";
	lease.state = BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	lease.proof = BERTH__V1__DEATH_PROOF__ABSENCE_SEEN;
	lease.retired_at_ns = world.now_ns;
	struct berth_budget_appeal command = {.reservation_id = "a", .lease = &lease, .receipt_digest = DIGEST_OF("e")};
	Berth__Store__V1__BudgetAppealed *event;
	assert_refused(&world, berth_budget_decide_appeal(world.budgets, &command, &event, &world.refusal),
		BERTH_BUDGET_NOT_PROVEN, "another lease");
	lease.lease_id = (char *)"a";
	command.receipt_digest = "none";
	assert_refused(&world, berth_budget_decide_appeal(world.budgets, &command, &event, &world.refusal),
		BERTH_BUDGET_NOT_PROVEN, "digest");
	command.receipt_digest = DIGEST_OF("e");
	lease.state = BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED;
	assert_refused(&world, berth_budget_decide_appeal(world.budgets, &command, &event, &world.refusal),
		BERTH_BUDGET_NOT_PROVEN, "not retired");
	world_close(&world);
}

static void h10_an_ended_reservations_id_is_never_used_again(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(1000, "\"search\":1000", ""));
	assert_true(world_reserve(&world, "a", "plain", 0));
	assert_true(world_settle(&world, "a", 0));
	Berth__V1__Reservation *gone = berth_budgets_forget(world.budgets, "a");
	struct berth_budget_reserve command = world_command("a", "worker", 5);
	command.prior = gone;
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_CONFLICT, "another payload");
	berth_proto_free(gone);
	world.forgot = true;
	world_close(&world);
}

static void a_forfeit_is_appealed_only_by_a_proven_death(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "runner", 0));
	assert_refused(&world, world_appeal(&world, "a", BERTH__V1__DEATH_PROOF__ABSENCE_SEEN, world.now_ns),
		BERTH_BUDGET_CONFLICT, "not forfeited");
	assert_true(world_forfeit(&world, "a", "CreateUnknown"));
	world.now_ns += 500 * S;
	assert_refused(&world, world_appeal(&world, "a", BERTH__V1__DEATH_PROOF__EXPIRY_PASSED, world.now_ns),
		BERTH_BUDGET_NOT_PROVEN, "seen gone");
	assert_refused(&world, world_appeal(&world, "a", BERTH__V1__DEATH_PROOF__GIVEN_UP, world.now_ns),
		BERTH_BUDGET_NOT_PROVEN, "seen gone");
	assert_refused(&world, world_appeal(&world, "a", BERTH__V1__DEATH_PROOF__ABSENCE_SEEN, world.now_ns + 600 * S),
		BERTH_BUDGET_NOT_PROVEN, "too late");
	assert_true(world_appeal(&world, "a", BERTH__V1__DEATH_PROOF__ABSENCE_SEEN, world.now_ns));
	const Berth__V1__Reservation *row = world_row(&world, "a");
	assert_int_equal(row->state, BERTH__V1__RESERVATION_STATE__SETTLED);
	assert_int_equal(row->ending->usage->quantity, 540);
	assert_string_equal(row->ending->failure_type, "CreateUnknown");
	assert_sums(&world, 1630, 0, 0, 0);
	size_t logged = world.count;
	assert_true(world_appeal(&world, "a", BERTH__V1__DEATH_PROOF__ABSENCE_SEEN, world.now_ns));
	assert_true(world_forfeit(&world, "a", "CreateUnknown")); // the forfeit's own retry
	assert_refused(&world, world_forfeit(&world, "a", "OrphanedLease"), BERTH_BUDGET_CONFLICT, "already");
	assert_int_equal(world.count, logged);
	world_close(&world);
}

static void an_appeal_with_the_proof_that_nothing_was_sent_releases(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "runner", 0));
	assert_true(world_forfeit(&world, "a", "OrphanedLease"));
	assert_true(world_appeal(&world, "a", BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED, world.now_ns));
	assert_int_equal(world_row(&world, "a")->state, BERTH__V1__RESERVATION_STATE__RELEASED);
	assert_sums(&world, 0, 0, 0, 0);
	world_close(&world);
}

static void provenance_stays_with_the_settlement_that_it_was_given_to(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "runner", 0));
	Berth__V1__TerminalProvenance provenance = BERTH__V1__TERMINAL_PROVENANCE__INIT;
	provenance.schema_version = 1;
	provenance.namespace_ = (char *)"Berth.build";
	provenance.digest = (char *)DIGEST_OF("7");
	struct berth_budget_settle settle = {.reservation_id = "a", .provenance = &provenance};
	assert_refused(&world, world_settle_as(&world, &settle), BERTH_BUDGET_INVALID, "provenance");
	provenance.namespace_ = (char *)"berth.build.v1";
	assert_true(world_settle_as(&world, &settle));
	assert_true(world_settle_as(&world, &settle));
	provenance.digest = (char *)DIGEST_OF("8");
	assert_refused(&world, world_settle_as(&world, &settle), BERTH_BUDGET_CONFLICT, "settled already");
	assert_refused(&world, world_settle(&world, "a", 0), BERTH_BUDGET_CONFLICT, "settled already");
	assert_string_equal(world_row(&world, "a")->ending->provenance->digest, DIGEST_OF("7"));
	world_close(&world);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(zero_duration_bills_one_quantum),
	cmocka_unit_test(a_timed_reservation_holds_its_exact_maximum),
	cmocka_unit_test(a_settlement_has_one_usage_shape),
	cmocka_unit_test(a_transient_failure_before_the_commit_then_a_retry_settles_once),
	cmocka_unit_test(the_coordinators_time_bounds_what_an_agent_measured),
	cmocka_unit_test(x4_time_beyond_the_horizon_is_an_overrun_and_stops_nothing),
	cmocka_unit_test(x10_a_forfeit_and_a_late_settlement_have_a_way_on),
	cmocka_unit_test(x11_a_settlement_that_failed_after_the_kill_is_made_up_later),
	cmocka_unit_test(x12_reserve_is_idempotent_over_an_rpc_retry),
	cmocka_unit_test(w1_h8_a_definitive_refusal_of_the_provider_costs_nothing),
	cmocka_unit_test(h4_a_missing_reservation_is_told_and_not_taken_for_an_ended_one),
	cmocka_unit_test(h9_a_receipt_of_another_lease_proves_nothing),
	cmocka_unit_test(h10_an_ended_reservations_id_is_never_used_again),
	cmocka_unit_test(a_forfeit_is_appealed_only_by_a_proven_death),
	cmocka_unit_test(an_appeal_with_the_proof_that_nothing_was_sent_releases),
	cmocka_unit_test(provenance_stays_with_the_settlement_that_it_was_given_to),
};

BERTH_TEST_MAIN(tests)
