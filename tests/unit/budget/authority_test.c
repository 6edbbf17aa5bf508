// SPDX-License-Identifier: Apache-2.0
// Admission, ends and limits; the acceptance list's rows under Budget carry its words.
#include <stdlib.h>

#include "tests/unit/budget/world.h"

#define SETTLED  BERTH__V1__RESERVATION_STATE__SETTLED
#define BREACHED BERTH__V1__RESERVATION_STATE__BREACHED

static void racing_for_60_of_100_admits_exactly_one(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	assert_true(world_reserve(&world, "first", "plain", 60));
	assert_refused(&world, world_reserve(&world, "second", "plain", 60), BERTH_BUDGET_HARD_LIMIT, "hard limit");
	assert_sums(&world, 0, 60, 0, 0);
	world_close(&world);
}

static void a_thousand_reserves_spend_the_cap_exactly(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(24000, "\"search\":24000", ""));
	int admitted = 0;
	for (int i = 0; i < 1000; i++) {
		char id[32];
		snprintf(id, sizeof id, "lease-%d", i);
		admitted += world_reserve(&world, id, "plain", 0);
	}
	assert_int_equal(admitted, 400);
	assert_sums(&world, 0, 24000, 0, 0);
	assert_int_equal(world.refusal.wanted_nano_usd, 60);
	assert_int_equal(world.refusal.sums.limit_nano_usd, 24000);
	assert_int_equal(world.refusal.sums.reserved_nano_usd, 24000);
	assert_int_equal(world.refusal.sums.remaining_nano_usd, 0);
	assert_true(berth_budget_waits(world.refusal.reason));
	assert_int_equal(world.refusal.error.code, BERTH_ERROR_BUDGET);
	assert_non_null(strstr(world.refusal.error.message,
		"0.00000006 USD is wanted and 0.00 of 0.000024 USD is left (settled 0.00, reserved 0.000024, forfeited "
		"0.00)"));
	world_close(&world);
}

static void provider_and_timed_meters_race_for_the_same_cap(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	assert_true(world_reserve(&world, "tokens", "worker", 41));
	assert_refused(&world, world_reserve(&world, "sandbox", "plain", 0), BERTH_BUDGET_HARD_LIMIT, "hard limit");
	assert_true(
		world_settle_as(&world, &(struct berth_budget_settle){.reservation_id = "tokens", .input_tokens = 20}));
	assert_true(world_reserve(&world, "sandbox", "plain", 0));
	assert_sums(&world, 40, 60, 0, 0);
	world_close(&world);
}

static void process_exit_after_reserve_keeps_exposure(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	assert_true(world_reserve(&world, "lease", "plain", 0));
	struct berth_budgets *restarted = berth_budgets_new();
	for (size_t i = 0; i < world.count; i++) {
		assert_true(berth_budgets_apply(restarted, world.events[i], NULL));
	}
	struct berth_budget_reserve command = world_command("other", "plain", 0);
	Berth__V1__Reservation *row;
	assert_false(berth_budget_decide_reserve(restarted, &command, 1, &row, &world.refusal));
	assert_int_equal(world.refusal.sums.reserved_nano_usd, 60);
	berth_budgets_free(restarted);
	world_close(&world);
}

static void phase_cap_and_hard_cap_are_reported_separately_with_what_remains(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(200, "\"search\":80,\"final\":120", ""));
	assert_true(world_reserve(&world, "a", "plain", 0));
	assert_refused(&world, world_reserve(&world, "b", "plain", 0), BERTH_BUDGET_PHASE_LIMIT, "phase search");
	assert_int_equal(world.refusal.sums.limit_nano_usd, 80);
	assert_int_equal(world.refusal.sums.remaining_nano_usd, 20);
	assert_true(world_amend(&world, 100, "final", 20));
	assert_refused(&world, world_reserve(&world, "b", "plain", 0), BERTH_BUDGET_HARD_LIMIT, "the hard limit");
	assert_int_equal(world.refusal.sums.remaining_nano_usd, 40);
	world_close(&world);
}

static void over_ceiling_settlement_is_recorded_then_blocks(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(1000, "\"search\":1000", ""));
	assert_true(world_reserve(&world, "a", "plain", 0));
	assert_true(world_reserve(&world, "open", "plain", 0));
	struct berth_budget_settle settle = {
		.reservation_id = "a", .elapsed_ns = 40 * BERTH_NS_PER_S, .provider_confirmed = true};
	assert_true(world_settle_as(&world, &settle));
	const Berth__V1__Reservation *row = world_row(&world, "a");
	assert_int_equal(row->state, BREACHED);
	assert_string_equal(row->ending->breach_kind, "reservation");
	assert_int_equal(row->ending->charged_nano_usd, 60);
	assert_int_equal(row->ending->overrun_nano_usd, 20);
	assert_sums(&world, 60, 60, 0, 20);
	assert_true(world_settle_as(&world, &settle));
	settle.provider_confirmed = false;
	assert_refused(&world, world_settle_as(&world, &settle), BERTH_BUDGET_CONFLICT, "breached already");
	assert_refused(&world, world_reserve(&world, "b", "plain", 0), BERTH_BUDGET_BREACHED, "breached");
	assert_false(berth_budget_waits(world.refusal.reason));
	assert_true(world_amend(&world, 2000, NULL, 0)); // money does not heal it
	assert_refused(&world, world_reserve(&world, "b", "plain", 0), BERTH_BUDGET_BREACHED, "breached");
	assert_true(world_settle(&world, "open", 0)); // what is open still ends
	world_close(&world);
}

static void the_callers_policy_can_be_changed_without_effect(void **state)
{
	(void)state;
	struct berth_budgets *budgets = berth_budgets_new();
	struct berth_budget_refusal refusal;
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	request.name = (char *)"b";
	request.policy = world_policy(POLICY(100, "\"search\":100", ""));
	Berth__Store__V1__BudgetOpened *opened;
	assert_ok(berth_budget_decide_open(budgets, &request, &opened, &refusal), refusal.error);
	assert_true(berth_budgets_apply_opened(budgets, opened, NULL));
	request.policy->hard_limit_nano_usd = 1000000;
	request.policy->meters[0]->timed->nano_usd_per_second = 1;
	opened->policy->hard_limit_nano_usd = 1000000;
	Berth__V1__Budget *budget = berth_budgets_get(budgets, "b");
	budget->policy->hard_limit_nano_usd = 1000000;
	int64_t ceiling;
	assert_true(berth_budgets_ceiling(budgets, "b", "plain", &ceiling, NULL));
	assert_int_equal(ceiling, CEILING_PLAIN);
	struct berth_budget_reserve command = world_command("a", "worker", 101);
	Berth__V1__Reservation *row;
	assert_false(berth_budget_decide_reserve(budgets, &command, 1, &row, &refusal));
	berth_proto_free(budget);
	berth_proto_free(opened);
	berth_proto_free(request.policy);
	berth_budgets_free(budgets);
}

static void a_name_that_exists_is_refused_unless_the_policy_is_the_same(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	Berth__Store__V1__BudgetOpened *opened;
	request.name = (char *)"b";
	request.policy = world_policy(POLICY(100, "\"search\":100", ""));
	assert_true(berth_budget_decide_open(world.budgets, &request, &opened, &world.refusal));
	assert_null(opened);
	request.policy->hard_limit_nano_usd++;
	assert_refused(&world, berth_budget_decide_open(world.budgets, &request, &opened, &world.refusal),
		BERTH_BUDGET_CONFLICT, "another policy");
	request.name = (char *)"b/c";
	assert_refused(&world, berth_budget_decide_open(world.budgets, &request, &opened, &world.refusal),
		BERTH_BUDGET_INVALID, "a name of");
	berth_proto_free(request.policy);
	world_close(&world);
}

static void several_budgets_do_not_touch_each_other(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	Berth__Store__V1__BudgetOpened *opened;
	request.name = (char *)"a";
	request.policy = world_policy(POLICY(60, "\"search\":60", ""));
	assert_true(berth_budget_decide_open(world.budgets, &request, &opened, &world.refusal));
	world_log(&world, BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED, opened);
	berth_proto_free(request.policy);
	struct berth_budget_reserve command = world_command("x", "plain", 0);
	command.budget = "a";
	assert_true(world_reserve_as(&world, &command));
	assert_sums(&world, 0, 0, 0, 0);
	// An id is one reservation in the whole fleet.
	assert_refused(&world, world_reserve(&world, "x", "plain", 0), BERTH_BUDGET_CONFLICT, "another payload");
	assert_true(world_reserve(&world, "y", "plain", 0));
	const char **names;
	assert_int_equal(berth_budgets_names(world.budgets, &names), 2);
	assert_string_equal(names[0], "a");
	free(names);
	world_close(&world);
}

static void unknown_budget_phase_and_meter_are_told_apart(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	struct berth_budget_reserve command = world_command("x", "plain", 0);
	command.budget = "c";
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_UNKNOWN_BUDGET, "named c");
	assert_refused(&world, world_reserve(&world, "x", "other", 0), BERTH_BUDGET_UNKNOWN_METER, "other");
	Berth__V1__Scope scope = BERTH__V1__SCOPE__INIT;
	scope.phase = (char *)"confirm";
	scope.category = scope.run_id = (char *)"r";
	command = world_command("x", "plain", 0);
	command.scope = &scope;
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_UNKNOWN_PHASE, "confirm");
	scope.phase = (char *)"search";
	scope.run_id = (char *)" r";
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_INVALID, "scope");
	command.scope = NULL;
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_INVALID, "scope");
	assert_refused(&world, world_reserve(&world, "x y", "plain", 0), BERTH_BUDGET_INVALID, "reservation id");
	assert_refused(&world, world_settle(&world, "nobody", 0), BERTH_BUDGET_UNKNOWN_RESERVATION, "nobody");
	assert_int_equal(world.count, 1);
	world_close(&world);
}

static void a_batch_is_admitted_whole_or_not_at_all(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(179, "\"search\":179", ""));
	struct berth_budget_reserve commands[] = {
		world_command("a", "plain", 0), world_command("b", "plain", 0), world_command("c", "plain", 0)};
	Berth__V1__Reservation *rows[3];
	assert_refused(&world, berth_budget_decide_reserve(world.budgets, commands, 3, rows, &world.refusal),
		BERTH_BUDGET_HARD_LIMIT, "asked for in the same step 0.00000012");
	assert_int_equal(world.refusal.index, 2);
	assert_sums(&world, 0, 0, 0, 0);
	assert_true(berth_budget_decide_reserve(world.budgets, commands, 2, rows, &world.refusal));
	assert_sums(&world, 0, 0, 0, 0); // deciding changes nothing
	for (size_t i = 0; i < 2; i++) {
		Berth__Store__V1__BudgetReserved *reserved = berth_alloc(sizeof *reserved);
		berth__store__v1__budget_reserved__init(reserved);
		reserved->reservation = rows[i];
		world_log(&world, BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED, reserved);
	}
	assert_sums(&world, 0, 120, 0, 0);
	commands[1].reservation_id = "a";
	assert_refused(&world, berth_budget_decide_reserve(world.budgets, commands, 2, rows, &world.refusal),
		BERTH_BUDGET_INVALID, "asked for twice");
	world_close(&world);
}

static void an_assignment_brings_its_reservations_along(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(200, "\"search\":200", ""));
	struct berth_budget_reserve commands[] = {world_command("a", "plain", 0), world_command("b", "plain", 0)};
	Berth__V1__Reservation *rows[2];
	assert_true(berth_budget_decide_reserve(world.budgets, commands, 2, rows, &world.refusal));
	Berth__Store__V1__TrialAssigned *assigned = berth_alloc(sizeof *assigned);
	berth__store__v1__trial_assigned__init(assigned);
	berth_proto_append(&assigned->n_reservations, &assigned->reservations, rows[0]);
	berth_proto_append(&assigned->n_reservations, &assigned->reservations, rows[1]);
	world_log(&world, BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED, assigned);
	assert_sums(&world, 0, 120, 0, 0);
	assert_int_equal(world_row(&world, "a")->reserved_at_ns, world.now_ns);
	world_close(&world);
}

static void job_and_user_limits_are_held_and_reported(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(1000, "\"search\":1000", ",\"job_limit_nano_usd\":120,\"user_limit_nano_usd\":180"));
	struct berth_budget_reserve command = world_command("a", "plain", 0);
	command.job_id = "j1";
	command.user = "user/ada";
	assert_true(world_reserve_as(&world, &command));
	command.reservation_id = "b";
	assert_true(world_reserve_as(&world, &command));
	command.reservation_id = "c";
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_JOB_LIMIT, "job j1");
	command.job_id = "j2";
	assert_true(world_reserve_as(&world, &command));
	command.reservation_id = "d";
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_USER_LIMIT, "user user/ada");
	assert_int_equal(world.refusal.sums.reserved_nano_usd, 180);
	assert_true(world_settle(&world, "a", 0)); // 2 instead of 60
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_USER_LIMIT, "58");
	Berth__V1__BudgetTotals totals;
	assert_true(berth_budgets_totals(world.budgets, "b", NULL, "j1", NULL, &totals));
	assert_int_equal(totals.settled_nano_usd, 2);
	assert_int_equal(totals.reserved_nano_usd, 60);
	assert_int_equal(totals.limit_nano_usd, 120);
	world_close(&world);
}

static void a_job_cannot_pass_its_quote(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(1000, "\"search\":1000", ""));
	Berth__Store__V1__BudgetJobLimited *limited;
	assert_true(berth_budget_decide_limit_job(world.budgets, "b", "j1", 60, &limited, &world.refusal));
	world_log(&world, BERTH__STORE__V1__EVENT__BODY_BUDGET_JOB_LIMITED, limited);
	assert_true(berth_budget_decide_limit_job(world.budgets, "b", "j1", 60, &limited, &world.refusal));
	assert_null(limited);
	assert_refused(&world, berth_budget_decide_limit_job(world.budgets, "b", "j1", 61, &limited, &world.refusal),
		BERTH_BUDGET_CONFLICT, "limited already");
	struct berth_budget_reserve command = world_command("a", "plain", 0);
	command.job_id = "j1";
	assert_true(world_reserve_as(&world, &command));
	command.reservation_id = "b";
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_JOB_LIMIT, "job j1");
	command.job_id = "j2";
	assert_true(world_reserve_as(&world, &command));
	assert_refused(&world, berth_budget_decide_limit_job(world.budgets, "b", "j2", 60, &limited, &world.refusal),
		BERTH_BUDGET_CONFLICT, "has reserved");
	world_close(&world);
}

static void forfeits_charge_the_full_ceiling(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	assert_true(world_reserve(&world, "a", "plain", 0));
	assert_refused(&world, world_forfeit(&world, "a", "it broke"), BERTH_BUDGET_INVALID, "failure type");
	assert_refused(&world, world_forfeit(&world, "a", ""), BERTH_BUDGET_INVALID, "failure type");
	assert_true(world_forfeit(&world, "a", "CreateUnknown"));
	assert_sums(&world, 0, 0, 60, 0);
	assert_refused(&world, world_reserve(&world, "b", "plain", 0), BERTH_BUDGET_HARD_LIMIT, "forfeited 0.00000006");
	world_close(&world);
}

static void a_release_returns_the_money_and_needs_its_proof(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	assert_true(world_reserve(&world, "a", "plain", 0));
	for (int proof = 0; proof <= BERTH__V1__DEATH_PROOF__GIVEN_UP; proof++) {
		bool proves =
			proof == BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED || proof == BERTH__V1__DEATH_PROOF__REJECTED;
		if (!proves) {
			assert_refused(&world, world_release(&world, "a", (Berth__V1__DeathProof)proof),
				BERTH_BUDGET_NOT_PROVEN, "never dispatched");
		}
	}
	assert_true(world_release(&world, "a", BERTH__V1__DEATH_PROOF__REJECTED));
	assert_sums(&world, 0, 0, 0, 0);
	assert_int_equal(world_row(&world, "a")->state, BERTH__V1__RESERVATION_STATE__RELEASED);
	assert_true(world_reserve(&world, "b", "plain", 0));
	world_close(&world);
}

static void the_policy_switch_forfeits_what_was_not_dispatched(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(1000, "\"search\":1000", ",\"forfeit_undispatched\":true"));
	assert_true(world_reserve(&world, "a", "plain", 0));
	assert_true(world_reserve(&world, "b", "plain", 0));
	assert_true(world_release(&world, "a", BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED));
	assert_true(world_release(&world, "b", BERTH__V1__DEATH_PROOF__REJECTED));
	assert_string_equal(world_row(&world, "a")->ending->failure_type, "PreDispatchFailure");
	assert_string_equal(world_row(&world, "b")->ending->failure_type, "CreateRejected");
	assert_sums(&world, 0, 0, 120, 0);
	assert_true(world_release(&world, "a", BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED)); // a repeat
	assert_refused(&world, world_appeal(&world, "a", BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED, world.now_ns),
		BERTH_BUDGET_NOT_PROVEN, "policy");
	world_close(&world);
}

static void token_usage_is_settled_at_the_frozen_price(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100000, "\"search\":100000", ""));
	struct berth_budget_reserve command = world_command("call", "worker", 0);
	command.input_token_ceiling = 100;
	command.output_token_ceiling = 10;
	assert_true(world_reserve_as(&world, &command));
	assert_int_equal(world_row(&world, "call")->max_nano_usd, 250);
	struct berth_budget_settle settle = {.reservation_id = "call", .input_tokens = 90, .output_tokens = 7};
	assert_true(world_settle_as(&world, &settle));
	assert_sums(&world, 215, 0, 0, 0);
	command.reservation_id = "wrong";
	command.max_nano_usd = 251;
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_NOT_EXACT, "is 250");
	command.max_nano_usd = 0;
	command.input_token_ceiling = command.output_token_ceiling = 0;
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_INVALID, "holds nothing");
	command.output_token_ceiling = -1;
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_INVALID, "negative");
	world_close(&world);
}

static void a_call_beyond_its_token_ceiling_is_a_breach_even_when_it_is_cheap(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100000, "\"search\":100000", ""));
	struct berth_budget_reserve command = world_command("in", "worker", 0);
	command.input_token_ceiling = 100;
	command.output_token_ceiling = 10;
	assert_true(world_reserve_as(&world, &command));
	command.reservation_id = "out";
	assert_true(world_reserve_as(&world, &command));
	assert_true(world_reserve(&world, "slice", "worker", 10));
	struct berth_budget_settle settle = {.reservation_id = "in", .input_tokens = 101};
	assert_true(world_settle_as(&world, &settle));
	assert_string_equal(world_row(&world, "in")->ending->breach_kind, "input_token_ceiling");
	assert_int_equal(world_row(&world, "in")->ending->charged_nano_usd, 202);
	settle = (struct berth_budget_settle){.reservation_id = "out", .output_tokens = 11};
	assert_true(world_settle_as(&world, &settle));
	assert_string_equal(world_row(&world, "out")->ending->breach_kind, "output_token_ceiling");
	settle = (struct berth_budget_settle){.reservation_id = "slice", .output_tokens = 3};
	assert_true(world_settle_as(&world, &settle));
	assert_string_equal(world_row(&world, "slice")->ending->breach_kind, "reservation");
	assert_int_equal(world_row(&world, "slice")->ending->overrun_nano_usd, 5);
	world_close(&world);
}

static void ends_are_idempotent_on_the_same_payload_and_conflict_otherwise(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(1000, "\"search\":1000", ""));
	for (const char *id = "sfr"; *id; id++) {
		char text[2] = {*id, 0};
		assert_true(world_reserve(&world, text, "plain", 0));
	}
	assert_true(world_settle(&world, "s", 5));
	assert_true(world_forfeit(&world, "f", "CleanupUnknown"));
	assert_true(world_release(&world, "r", BERTH__V1__DEATH_PROOF__REJECTED));
	size_t logged = world.count;
	assert_true(world_settle(&world, "s", 5));
	assert_true(world_forfeit(&world, "f", "CleanupUnknown"));
	assert_true(world_release(&world, "r", BERTH__V1__DEATH_PROOF__REJECTED));
	assert_int_equal(world.count, logged);
	assert_refused(&world, world_settle(&world, "s", 6), BERTH_BUDGET_CONFLICT, "settled already");
	assert_refused(&world, world_settle(&world, "f", 5), BERTH_BUDGET_CONFLICT, "forfeited already");
	assert_refused(&world, world_settle(&world, "r", 5), BERTH_BUDGET_CONFLICT, "released already");
	assert_refused(&world, world_forfeit(&world, "s", "CleanupUnknown"), BERTH_BUDGET_CONFLICT, "settled");
	assert_refused(&world, world_forfeit(&world, "f", "CreateUnknown"), BERTH_BUDGET_CONFLICT, "forfeited");
	assert_refused(&world, world_release(&world, "r", BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED),
		BERTH_BUDGET_CONFLICT, "released");
	assert_refused(
		&world, world_release(&world, "s", BERTH__V1__DEATH_PROOF__REJECTED), BERTH_BUDGET_CONFLICT, "settled");
	assert_sums(&world, 2, 0, 60, 0);
	world_close(&world);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(racing_for_60_of_100_admits_exactly_one),
	cmocka_unit_test(a_thousand_reserves_spend_the_cap_exactly),
	cmocka_unit_test(provider_and_timed_meters_race_for_the_same_cap),
	cmocka_unit_test(process_exit_after_reserve_keeps_exposure),
	cmocka_unit_test(phase_cap_and_hard_cap_are_reported_separately_with_what_remains),
	cmocka_unit_test(over_ceiling_settlement_is_recorded_then_blocks),
	cmocka_unit_test(the_callers_policy_can_be_changed_without_effect),
	cmocka_unit_test(a_name_that_exists_is_refused_unless_the_policy_is_the_same),
	cmocka_unit_test(several_budgets_do_not_touch_each_other),
	cmocka_unit_test(unknown_budget_phase_and_meter_are_told_apart),
	cmocka_unit_test(a_batch_is_admitted_whole_or_not_at_all),
	cmocka_unit_test(an_assignment_brings_its_reservations_along),
	cmocka_unit_test(job_and_user_limits_are_held_and_reported),
	cmocka_unit_test(a_job_cannot_pass_its_quote),
	cmocka_unit_test(forfeits_charge_the_full_ceiling),
	cmocka_unit_test(a_release_returns_the_money_and_needs_its_proof),
	cmocka_unit_test(the_policy_switch_forfeits_what_was_not_dispatched),
	cmocka_unit_test(token_usage_is_settled_at_the_frozen_price),
	cmocka_unit_test(a_call_beyond_its_token_ceiling_is_a_breach_even_when_it_is_cheap),
	cmocka_unit_test(ends_are_idempotent_on_the_same_payload_and_conflict_otherwise),
};

BERTH_TEST_MAIN(tests)
