// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/budget/world.h"

static Berth__V1__SubLimit sub_job, sub_user, *subs[] = {&sub_job, &sub_user};
static uint8_t signature[64] = {1};

static Berth__V1__AmendBudgetRequest request_for(uint64_t number)
{
	Berth__V1__AmendBudgetRequest request = BERTH__V1__AMEND_BUDGET_REQUEST__INIT;
	request.name = (char *)"b";
	request.hard_limit_nano_usd = 500;
	request.reason = (char *)"more tasks";
	request.number = number;
	request.key_id = (char *)"operator-key";
	request.signature = (ProtobufCBinaryData){sizeof signature, signature};
	return request;
}

static bool amend(struct world *world, const Berth__V1__AmendBudgetRequest *request)
{
	Berth__Store__V1__BudgetAmended *amended = NULL;
	bool decided = berth_budget_decide_amend(world->budgets, request, true, &amended, &world->refusal);
	if (amended) {
		world_log(world, BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED, amended);
	}
	return decided;
}

static void below_exposure_only_stops_new_grants(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(200, "\"search\":200", ""));
	assert_true(world_reserve(&world, "a", "plain", 0));
	assert_true(world_reserve(&world, "b", "plain", 0));
	assert_true(world_amend(&world, 100, "search", 100));
	Berth__V1__BudgetTotals totals = world_totals(&world);
	assert_int_equal(totals.reserved_nano_usd, 120);
	assert_int_equal(totals.remaining_nano_usd, 0);
	assert_refused(
		&world, world_reserve(&world, "c", "plain", 0), BERTH_BUDGET_HARD_LIMIT, "0.00 of 0.0000001 USD");
	assert_true(world_settle(&world, "a", 0));
	assert_true(world_settle(&world, "b", 0));
	assert_true(world_reserve(&world, "c", "plain", 0));
	world_close(&world);
}

static void the_policy_digest_covers_the_genesis_policy(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(200, "\"search\":200", ""));
	Berth__V1__Budget *before = berth_budgets_get(world.budgets, "b");
	assert_true(world_amend(&world, 300, "search", 300));
	Berth__V1__Budget *after = berth_budgets_get(world.budgets, "b");
	assert_string_equal(before->policy_digest, after->policy_digest);
	assert_int_equal(after->policy->hard_limit_nano_usd, 200);
	assert_int_equal(after->totals->limit_nano_usd, 300);
	assert_int_equal(after->by_phase[0]->value->limit_nano_usd, 300);
	assert_int_equal(after->amendments, 1);
	berth_proto_free(before);
	berth_proto_free(after);
	world_close(&world);
}

static void an_amendment_is_signed_numbered_and_applied_once(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(200, "\"search\":200", ""));
	Berth__V1__AmendBudgetRequest request = request_for(1);
	Berth__Store__V1__BudgetAmended *amended;
	assert_refused(&world, berth_budget_decide_amend(world.budgets, &request, false, &amended, &world.refusal),
		BERTH_BUDGET_NOT_SIGNED, "not signed");
	request.signature.len = 63;
	assert_refused(&world, amend(&world, &request), BERTH_BUDGET_INVALID, "signed by an operator");
	request = request_for(2);
	assert_refused(&world, amend(&world, &request), BERTH_BUDGET_CONFLICT, "next amendment is number 1");
	request = request_for(1);
	assert_true(amend(&world, &request));
	assert_true(amend(&world, &request)); // a repeat
	assert_int_equal(world.count, 2);
	request.hard_limit_nano_usd = 501;
	assert_refused(&world, amend(&world, &request), BERTH_BUDGET_CONFLICT, "next amendment is number 2");
	assert_int_equal(world_totals(&world).limit_nano_usd, 500);
	world_close(&world);
}

static void what_an_operator_signs_binds_everything(void **state)
{
	(void)state;
	berth__v1__sub_limit__init(&sub_job);
	sub_job.job_id = (char *)"j1";
	sub_job.limit_nano_usd = 7;
	Berth__V1__AmendBudgetRequest request = request_for(3);
	request.n_sub_limits = 1;
	request.sub_limits = subs;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	assert_true(berth_budget_amendment_text(DIGEST_OF("1"), &request, &text, NULL));
	assert_string_equal(berth_buf_text(&text), "berth-budget-amendment-v1");
	assert_string_equal(berth_buf_text(&text) + strlen("berth-budget-amendment-v1") + 1,
		"{\"budget\":\"b\",\"hard_limit_nano_usd\":500,\"number\":3,\"phase_limits_nano_usd\":{},"
		"\"policy_digest\":\"" DIGEST_OF("1") "\",\"reason\":\"more tasks\",\"schema_version\":1,"
						      "\"sub_limits\":[{\"job_id\":\"j1\",\"limit_nano_usd\":7,"
						      "\"user\":null}]}");
}

static void sub_limits_come_change_and_go(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(1000, "\"search\":1000", ",\"user_limit_nano_usd\":60"));
	struct berth_budget_reserve command = world_command("a", "plain", 0);
	command.job_id = "j1";
	command.user = "ada";
	assert_true(world_reserve_as(&world, &command));
	command.reservation_id = "b";
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_USER_LIMIT, "ada");
	berth__v1__sub_limit__init(&sub_job);
	berth__v1__sub_limit__init(&sub_user);
	sub_job.job_id = (char *)"j1";
	sub_job.limit_nano_usd = 100;
	sub_user.user = (char *)"ada";
	sub_user.limit_nano_usd = 500;
	Berth__V1__AmendBudgetRequest request = request_for(1);
	request.hard_limit_nano_usd = 0;
	request.n_sub_limits = 2;
	request.sub_limits = subs;
	assert_true(amend(&world, &request));
	assert_refused(&world, world_reserve_as(&world, &command), BERTH_BUDGET_JOB_LIMIT, "j1");
	sub_job.removed = true;
	sub_job.limit_nano_usd = 0;
	request.number = 2;
	request.n_sub_limits = 1;
	assert_true(amend(&world, &request));
	assert_true(world_reserve_as(&world, &command));
	world_close(&world);
}

static void an_amendment_without_sense_is_refused(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(200, "\"search\":150,\"final\":50", ""));
	assert_refused(&world, world_amend(&world, 199, NULL, 0), BERTH_BUDGET_INVALID, "sum to 200");
	assert_refused(&world, world_amend(&world, 0, "search", 151), BERTH_BUDGET_INVALID, "sum to 201");
	assert_refused(&world, world_amend(&world, 0, "search", -1), BERTH_BUDGET_INVALID, "2^63");
	assert_refused(&world, world_amend(&world, 0, "none", 1), BERTH_BUDGET_INVALID, "no phase none");
	assert_refused(&world, world_amend(&world, 0, NULL, 0), BERTH_BUDGET_INVALID, "changes nothing");
	assert_refused(&world, world_amend(&world, -5, NULL, 0), BERTH_BUDGET_INVALID, "hard limit");
	Berth__V1__AmendBudgetRequest request = request_for(1);
	request.reason = (char *)" ";
	assert_refused(&world, amend(&world, &request), BERTH_BUDGET_INVALID, "reason");
	berth__v1__sub_limit__init(&sub_job);
	request = request_for(1);
	request.n_sub_limits = 1;
	request.sub_limits = subs;
	assert_refused(&world, amend(&world, &request), BERTH_BUDGET_INVALID, "of one job or of one user");
	request.name = (char *)"none";
	assert_refused(&world, amend(&world, &request), BERTH_BUDGET_UNKNOWN_BUDGET, "none");
	assert_int_equal(world.count, 1);
	world_close(&world);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(below_exposure_only_stops_new_grants),
	cmocka_unit_test(the_policy_digest_covers_the_genesis_policy),
	cmocka_unit_test(an_amendment_is_signed_numbered_and_applied_once),
	cmocka_unit_test(what_an_operator_signs_binds_everything),
	cmocka_unit_test(sub_limits_come_change_and_go),
	cmocka_unit_test(an_amendment_without_sense_is_refused),
};

BERTH_TEST_MAIN(tests)
