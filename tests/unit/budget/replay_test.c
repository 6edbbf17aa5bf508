// SPDX-License-Identifier: Apache-2.0
// Semantic replay: an event that no decision would have given is refused, and changes nothing.
#include "tests/unit/budget/world.h"

typedef Berth__Store__V1__BudgetEnded ended_t;
typedef Berth__V1__ReservationEnding ending_t;

// "open" is reserved at the meter `plain`, "call" with token ceilings 100 and 10, "lost" is forfeited.
static void open_world(struct world *world, const char *policy)
{
	world_open(world, policy);
	assert_true(world_reserve(world, "open", "plain", 0));
	struct berth_budget_reserve command = world_command("call", "worker", 0);
	command.input_token_ceiling = 100;
	command.output_token_ceiling = 10;
	assert_true(world_reserve_as(world, &command));
	assert_true(world_reserve(world, "lost", "runner", 0));
	assert_true(world_forfeit(world, "lost", "CreateUnknown"));
}

static void assert_end_refused(struct world *world, const ended_t *ended, const char *part)
{
	struct berth_error err = {0};
	struct berth_digest before = digest_of(world->budgets);
	assert_fails(
		berth_budgets_apply_ended(world->budgets, ended, world->now_ns, &err), err, BERTH_ERROR_CORRUPT, part);
	struct berth_digest after = digest_of(world->budgets);
	assert_true(berth_digest_equal(&before, &after));
}

static ended_t *good_settle(struct world *world, const char *id, int64_t elapsed_ns, int64_t input_tokens)
{
	struct berth_budget_settle settle = {
		.reservation_id = id, .elapsed_ns = elapsed_ns, .input_tokens = input_tokens};
	ended_t *ended = NULL;
	assert_true(berth_budget_decide_settle(world->budgets, &settle, &ended, &world->refusal));
	return ended;
}

// One change of a good settlement; whether it still applies is asked each time.
#define CHANGED(member, value, part)                                                                                   \
	do {                                                                                                           \
		BERTH_AUTO(berth_proto_cleanup) ended_t *copy = berth_proto_clone(ended);                              \
		copy->ending->member = (value);                                                                        \
		assert_end_refused(&world, copy, part);                                                                \
	} while (0)
#define RETEXTED(member, value, part)                                                                                  \
	do {                                                                                                           \
		BERTH_AUTO(berth_proto_cleanup) ended_t *copy = berth_proto_clone(ended);                              \
		berth_proto_set_string(&copy->member, value);                                                          \
		assert_end_refused(&world, copy, part);                                                                \
	} while (0)

static void a_false_charge_is_caught(void **state)
{
	(void)state;
	struct world world;
	open_world(&world, POLICY(10000, "\"search\":10000", ""));
	ended_t *ended = good_settle(&world, "open", 20 * BERTH_NS_PER_S, 0);
	CHANGED(charged_nano_usd, 0, "frozen tariff");
	CHANGED(charged_nano_usd, 41, "frozen tariff");
	CHANGED(overrun_nano_usd, 1, "frozen tariff");
	CHANGED(overrun_nano_usd, -1, "frozen tariff");
	CHANGED(usage->quantity, 19, "frozen tariff");
	CHANGED(usage->quantity, 21, "more time than was measured");
	CHANGED(state, BERTH__V1__RESERVATION_STATE__BREACHED, "frozen tariff"); // a false breach
	CHANGED(state, BERTH__V1__RESERVATION_STATE__RESERVED, "without sense");
	CHANGED(state, BERTH__V1__RESERVATION_STATE__RELEASED, "without sense");
	CHANGED(proof, BERTH__V1__DEATH_PROOF__REJECTED, "neither failure type nor proof");
	RETEXTED(ending->failure_type, "X", "neither failure type nor proof");
	RETEXTED(ending->breach_kind, "reservation", "frozen tariff");
	RETEXTED(ending->receipt_digest, DIGEST_OF("e"), "appeal");
	RETEXTED(ending->usage->unit, "token", "billing seconds alone");
	RETEXTED(budget, "other", "another budget");
	RETEXTED(reservation_id, "nobody", "nobody is not known");
	world_log(&world, BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED, ended);
	assert_end_refused(&world, ended, "ended already"); // a second end
	world_close(&world);
}

static void sub_quantum_and_misaligned_settlements_are_refused(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(10000, "\"search\":10000", ""));
	assert_true(world_reserve(&world, "a", "runner", 0));
	ended_t *ended = good_settle(&world, "a", 200 * BERTH_NS_PER_S, 0);
	CHANGED(usage->quantity, 59, "at least one billing quantum");
	CHANGED(usage->quantity, 0, "at least one billing quantum");
	CHANGED(usage->quantity, 61, "whole billing quanta");
	berth_proto_free(ended);
	world_close(&world);
}

static void a_token_breach_kind_on_a_timed_meter_is_refused(void **state)
{
	(void)state;
	struct world world;
	open_world(&world, POLICY(10000, "\"search\":10000", ""));
	struct berth_budget_settle settle = {
		.reservation_id = "open", .elapsed_ns = 99 * BERTH_NS_PER_S, .provider_confirmed = true};
	ended_t *ended = NULL;
	assert_true(berth_budget_decide_settle(world.budgets, &settle, &ended, &world.refusal));
	assert_int_equal(ended->ending->state, BERTH__V1__RESERVATION_STATE__BREACHED);
	RETEXTED(ending->breach_kind, "input_token_ceiling", "frozen tariff");
	RETEXTED(ending->breach_kind, "", "frozen tariff");
	CHANGED(state, BERTH__V1__RESERVATION_STATE__SETTLED, "frozen tariff");
	berth_proto_free(ended);
	ended = good_settle(&world, "call", 0, 50);
	CHANGED(usage->quantity, 60, "tokens alone");
	CHANGED(usage->input_tokens, -1, "tokens alone");
	CHANGED(usage->input_tokens, 49, "frozen tariff");
	RETEXTED(ending->usage->unit, "billing_second", "tokens alone");
	berth_proto_free(ended);
	world_close(&world);
}

static void forfeits_and_releases_are_checked_as_well(void **state)
{
	(void)state;
	struct world world;
	open_world(&world, POLICY(10000, "\"search\":10000", ",\"forfeit_undispatched\":true"));
	ended_t *ended = NULL;
	assert_true(berth_budget_decide_forfeit(world.budgets, "open", "X", NULL, &ended, &world.refusal));
	CHANGED(charged_nano_usd, 59, "whole ceiling");
	CHANGED(overrun_nano_usd, 1, "without sense");
	CHANGED(proof, BERTH__V1__DEATH_PROOF__REJECTED, "whole ceiling");
	RETEXTED(ending->failure_type, "free text", "failure type");
	berth_proto_free(ended->ending);
	ended->ending = NULL;
	assert_end_refused(&world, ended, "without an ending");
	ended->ending = berth_alloc(sizeof *ended->ending);
	berth__v1__reservation_ending__init(ended->ending);
	ended->ending->state = BERTH__V1__RESERVATION_STATE__RELEASED;
	CHANGED(charged_nano_usd, 1, "charges nothing");
	CHANGED(proof, BERTH__V1__DEATH_PROOF__ABSENCE_SEEN, "needs its proof");
	CHANGED(proof, BERTH__V1__DEATH_PROOF__REJECTED, "the policy forfeits");
	berth_proto_free(ended);
	world_close(&world);
}

static void assert_reserve_refused(struct world *world, const Berth__V1__Reservation *row, const char *part)
{
	struct berth_error err = {0};
	struct berth_digest before = digest_of(world->budgets);
	assert_fails(
		berth_budgets_apply_reserved(world->budgets, row, world->now_ns, &err), err, BERTH_ERROR_CORRUPT, part);
	struct berth_digest after = digest_of(world->budgets);
	assert_true(berth_digest_equal(&before, &after));
}

#define REROWED(member, value, part)                                                                                   \
	do {                                                                                                           \
		BERTH_AUTO(berth_proto_cleanup) Berth__V1__Reservation *copy = berth_proto_clone(row);                 \
		copy->member = (value);                                                                                \
		assert_reserve_refused(&world, copy, part);                                                            \
	} while (0)

static void an_under_reservation_is_caught(void **state)
{
	(void)state;
	struct world world;
	open_world(&world, POLICY(10000, "\"search\":10000", ""));
	struct berth_budget_reserve command = world_command("new", "plain", 0);
	Berth__V1__Reservation *row;
	assert_true(berth_budget_decide_reserve(world.budgets, &command, 1, &row, &world.refusal));
	REROWED(max_nano_usd, 59, "exact maximum");
	REROWED(max_nano_usd, 61, "exact maximum");
	REROWED(max_nano_usd, 0, "holds nothing");
	REROWED(input_token_ceiling, 1, "no token ceilings");
	REROWED(state, BERTH__V1__RESERVATION_STATE__SETTLED, "begins ended");
	REROWED(ended_at_ns, 1, "begins ended");
	berth_proto_set_string(&row->reservation_id, "open");
	assert_reserve_refused(&world, row, "reserved twice");
	berth_proto_set_string(&row->reservation_id, "lost"); // ended counts as used too
	assert_reserve_refused(&world, row, "reserved twice");
	berth_proto_set_string(&row->reservation_id, "new");
	berth_proto_set_string(&row->meter_id, "none");
	assert_reserve_refused(&world, row, "no meter");
	berth_proto_free(row);
	world_close(&world);
}

static void a_reservation_past_a_cap_is_caught(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	struct berth_budget_reserve command = world_command("new", "plain", 0);
	Berth__V1__Reservation *row;
	assert_true(berth_budget_decide_reserve(world.budgets, &command, 1, &row, &world.refusal));
	assert_true(world_reserve(&world, "open", "plain", 0));
	assert_reserve_refused(&world, row, "hard limit");
	struct berth_budget_settle settle = {
		.reservation_id = "open", .elapsed_ns = 31 * BERTH_NS_PER_S, .provider_confirmed = true};
	assert_true(world_settle_as(&world, &settle));
	assert_reserve_refused(&world, row, "breached");
	berth_proto_free(row);
	world_close(&world);
}

static void a_false_opening_or_limit_is_caught(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100, "\"search\":100", ""));
	struct berth_error err = {0};
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__BudgetOpened *opened = berth_proto_clone(world.events[0]->budget_opened);
	assert_fails(berth_budgets_apply_opened(world.budgets, opened, &err), err, BERTH_ERROR_CORRUPT, "opened twice");
	berth_proto_set_string(&opened->name, "c");
	opened->policy->hard_limit_nano_usd = 200;
	assert_fails(berth_budgets_apply_opened(world.budgets, opened, &err), err, BERTH_ERROR_CORRUPT, "digest");
	opened->policy->hard_limit_nano_usd = 1;
	assert_fails(berth_budgets_apply_opened(world.budgets, opened, &err), err, BERTH_ERROR_CORRUPT, "hard limit");
	Berth__Store__V1__BudgetJobLimited limited = BERTH__STORE__V1__BUDGET_JOB_LIMITED__INIT;
	limited.budget = (char *)"b";
	limited.job_id = (char *)"j";
	limited.limit_nano_usd = -1;
	assert_fails(berth_budgets_apply_job_limited(world.budgets, &limited, &err), err, BERTH_ERROR_CORRUPT, "sense");
	limited.budget = (char *)"none";
	assert_fails(berth_budgets_apply_job_limited(world.budgets, &limited, &err), err, BERTH_ERROR_CORRUPT,
		"no such budget");
	assert_int_equal(berth_budgets_count(world.budgets), 1);
	world_close(&world);
}

static void assert_appeal_refused(
	struct world *world, const Berth__Store__V1__BudgetAppealed *appealed, const char *part)
{
	struct berth_error err = {0};
	struct berth_digest before = digest_of(world->budgets);
	assert_fails(berth_budgets_apply_appealed(world->budgets, appealed, world->now_ns, &err), err,
		BERTH_ERROR_CORRUPT, part);
	struct berth_digest after = digest_of(world->budgets);
	assert_true(berth_digest_equal(&before, &after));
}

#define REAPPEALED(member, value, part)                                                                                \
	do {                                                                                                           \
		BERTH_AUTO(berth_proto_cleanup)                                                                        \
		Berth__Store__V1__BudgetAppealed *copy = berth_proto_clone(appealed);                                  \
		copy->member = (value);                                                                                \
		assert_appeal_refused(&world, copy, part);                                                             \
	} while (0)

static void a_false_appeal_is_caught(void **state)
{
	(void)state;
	struct world world;
	open_world(&world, POLICY(10000, "\"search\":10000", ""));
	world.now_ns += 100 * BERTH_NS_PER_S;
	Berth__V1__Lease lease = BERTH__V1__LEASE__INIT;
	lease.lease_id = (char *)"lost";
	lease.state = BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	lease.proof = BERTH__V1__DEATH_PROOF__ABSENCE_SEEN;
	lease.retired_at_ns = world.now_ns;
	struct berth_budget_appeal command = {
		.reservation_id = "lost", .lease = &lease, .receipt_digest = DIGEST_OF("e")};
	Berth__Store__V1__BudgetAppealed *appealed;
	assert_true(berth_budget_decide_appeal(world.budgets, &command, &appealed, &world.refusal));
	REAPPEALED(ending->charged_nano_usd, 1, "frozen tariff");
	REAPPEALED(ending->charged_nano_usd, CEILING_RUNNER, "returns nothing");
	REAPPEALED(ending->usage->quantity, 60, "whole time");
	REAPPEALED(ending->usage->elapsed_ns, 119 * BERTH_NS_PER_S, "another time"); // not over yet
	REAPPEALED(ending->proof, BERTH__V1__DEATH_PROOF__GIVEN_UP, "whole time");
	REAPPEALED(ending->state, BERTH__V1__RESERVATION_STATE__RELEASED, "without sense");
	REAPPEALED(forfeited->max_nano_usd, CEILING_RUNNER + 1, "exact maximum");
	REAPPEALED(forfeited->reserved_at_ns, world.now_ns, "differs from the one in force");
	REAPPEALED(forfeited->state, BERTH__V1__RESERVATION_STATE__SETTLED, "not forfeited");
	world_log(&world, BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED, appealed);
	assert_appeal_refused(&world, appealed, "not forfeited"); // only once
	world_close(&world);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_false_charge_is_caught),
	cmocka_unit_test(sub_quantum_and_misaligned_settlements_are_refused),
	cmocka_unit_test(a_token_breach_kind_on_a_timed_meter_is_refused),
	cmocka_unit_test(forfeits_and_releases_are_checked_as_well),
	cmocka_unit_test(an_under_reservation_is_caught),
	cmocka_unit_test(a_reservation_past_a_cap_is_caught),
	cmocka_unit_test(a_false_opening_or_limit_is_caught),
	cmocka_unit_test(a_false_appeal_is_caught),
};

BERTH_TEST_MAIN(tests)
