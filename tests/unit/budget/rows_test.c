// SPDX-License-Identifier: Apache-2.0
// Rows for the digest and the disk, and what leaves memory.
#include <stdlib.h>

#include "coordinator/budget/chain.h"
#include "tests/unit/budget/world.h"

struct copy {
	struct berth_budgets *into;
	char last[256];
	size_t count;
	int64_t add_reserved; // to the sum row of the whole budget
};

static void copy_row(void *context, const char *key, const struct berth_buf *value)
{
	struct copy *copy = context;
	assert_true(strcmp(copy->last, key) < 0);
	snprintf(copy->last, sizeof copy->last, "%s", key);
	copy->count++;
	BERTH_AUTO(berth_buf_free) struct berth_buf changed = {0};
	berth_buf_add(&changed, value->data, value->size);
	if (copy->add_reserved && strcmp(key, "budget_sum/b/total") == 0) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__BudgetSumRow *row = berth_proto_unpack(
			&berth__store__v1__budget_sum_row__descriptor, value->data, value->size, key, NULL);
		row->reserved_nano_usd += copy->add_reserved;
		berth_buf_reset(&changed);
		berth_proto_pack(row, &changed);
	}
	struct berth_error err = {0};
	assert_ok(berth_budgets_load(copy->into, key, changed.data, changed.size, &err), err);
}

static void fill(struct world *world)
{
	world_open(world, POLICY(100000, "\"search\":90000,\"x/y\":10000", ",\"job_limit_nano_usd\":50000"));
	struct berth_budget_reserve command = world_command("a", "plain", 0);
	command.job_id = "j1";
	command.user = "user/ada";
	assert_true(world_reserve_as(world, &command));
	command.reservation_id = "b";
	assert_true(world_reserve_as(world, &command));
	assert_true(world_reserve(world, "c", "runner", 0));
	assert_true(world_reserve(world, "d", "runner", 0));
	assert_true(world_settle(world, "a", 7 * BERTH_NS_PER_S));
	assert_true(world_forfeit(world, "c", "CreateUnknown"));
	assert_true(world_amend(world, 90000, "search", 70000));
	Berth__Store__V1__BudgetJobLimited *limited;
	assert_true(berth_budget_decide_limit_job(world->budgets, "b", "j2", 77, &limited, &world->refusal));
	world_log(world, BERTH__STORE__V1__EVENT__BODY_BUDGET_JOB_LIMITED, limited);
}

static void rows_come_in_key_order_and_load_back_to_the_same_state(void **state)
{
	(void)state;
	struct world world;
	fill(&world);
	struct copy copy = {.into = berth_budgets_new()};
	berth_budgets_rows(world.budgets, copy_row, &copy);
	struct berth_error err = {0};
	assert_ok(berth_budgets_loaded(copy.into, &err), err);
	struct berth_digest a = digest_of(world.budgets), b = digest_of(copy.into);
	assert_true(berth_digest_equal(&a, &b));
	assert_int_equal(copy.count, 1 + 3 + 3 + 4);
	assert_int_equal(berth_budgets_open_count(copy.into), 2);
	assert_int_equal(berth_budgets_ended_count(copy.into), 2);
	// And it goes on as the other one does.
	struct berth_budget_settle settle = {.reservation_id = "b"};
	Berth__Store__V1__BudgetEnded *ended;
	assert_true(berth_budget_decide_settle(copy.into, &settle, &ended, &world.refusal));
	assert_ok(berth_budgets_apply_ended(copy.into, ended, world.now_ns, &err), err);
	berth_proto_free(ended);
	berth_budgets_free(copy.into);
	world_close(&world);
}

static void count_key(void *context, const char *key)
{
	size_t *counts = context;
	counts[strncmp(key, "reservation/", strlen("reservation/")) == 0]++;
}

// How many rows the reservation tells beside its own.
static size_t sums_told(const struct world *world, struct berth_budget_payer *payer, const char *user, const char *id)
{
	Berth__Store__V1__Event event = BERTH__STORE__V1__EVENT__INIT;
	Berth__Store__V1__BudgetReserved reserved = BERTH__STORE__V1__BUDGET_RESERVED__INIT;
	Berth__V1__Reservation row = BERTH__V1__RESERVATION__INIT;
	row.budget = (char *)"b";
	row.job_id = (char *)"j1";
	row.user = (char *)user;
	row.reservation_id = (char *)id;
	reserved.reservation = &row;
	event.body_case = BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED;
	event.budget_reserved = &reserved;
	size_t counts[2] = {0, 0};
	berth_budgets_keys(world->budgets, &event, payer, count_key, counts);
	assert_int_equal(counts[1], 1);
	return counts[0];
}

static void the_sums_of_one_payer_are_told_once(void **state)
{
	(void)state;
	struct world world;
	fill(&world);
	char long_user[2 * sizeof((struct berth_budget_payer *)NULL)->user];
	memset(long_user, 'u', sizeof long_user);
	long_user[sizeof long_user - 1] = 0;
	struct berth_budget_payer payer = {.follows = false};
	assert_int_equal(sums_told(&world, &payer, "user/ada", "r1"), 5);
	assert_int_equal(sums_told(&world, &payer, "user/ada", "r2"), 5); // it does not follow
	payer.follows = true;
	assert_int_equal(sums_told(&world, &payer, "user/ada", "r3"), 5);
	assert_int_equal(sums_told(&world, &payer, "user/ada", "r4"), 0);
	payer.follows = false;
	assert_int_equal(sums_told(&world, &payer, "user/bob", "r5"), 5);
	assert_int_equal(sums_told(&world, &payer, "user/ada", "r6"), 0);
	payer.follows = true;
	assert_int_equal(sums_told(&world, &payer, long_user, "r7"), 5);
	assert_int_equal(sums_told(&world, &payer, long_user, "r8"), 5);
	long_user[sizeof payer.user - 1] = 0; // what was kept of it
	assert_int_equal(sums_told(&world, &payer, long_user, "r9"), 5);
	payer.budget[0] = 0;
	assert_int_equal(sums_told(&world, &payer, long_user, "r9"), 5);
	world_close(&world);
}

static void rows_that_do_not_sum_are_refused(void **state)
{
	(void)state;
	struct world world;
	fill(&world);
	struct copy copy = {.into = berth_budgets_new(), .add_reserved = -1};
	berth_budgets_rows(world.budgets, copy_row, &copy);
	struct berth_error err = {0};
	assert_fails(berth_budgets_loaded(copy.into, &err), err, BERTH_ERROR_CORRUPT, "do not sum");
	assert_fails(berth_budgets_load(copy.into, "budget_sum/none/total", "", 0, &err), err, BERTH_ERROR_CORRUPT,
		"no sense");
	assert_fails(berth_budgets_load(copy.into, "budget/q", "\xff", 1, &err), err, BERTH_ERROR_CORRUPT, "budget/q");
	assert_fails(berth_budgets_load(copy.into, "reservation/z", "", 0, &err), err, BERTH_ERROR_CORRUPT, "z");
	assert_fails(berth_budgets_load(copy.into, "lease/z", "", 0, &err), err, BERTH_ERROR_CORRUPT, "is none");
	berth_budgets_free(copy.into);
	world_close(&world);
}

static void forgetting_a_row_does_not_release_money(void **state)
{
	(void)state;
	struct world world;
	fill(&world);
	Berth__V1__BudgetTotals before = world_totals(&world);
	assert_null(berth_budgets_forget(world.budgets, "b")); // open
	assert_null(berth_budgets_forget(world.budgets, "nobody"));
	Berth__V1__Reservation *first = berth_budgets_forget(world.budgets, NULL);
	assert_string_equal(first->reservation_id, "a"); // ended longest
	Berth__V1__Reservation *second = berth_budgets_forget(world.budgets, "c");
	assert_null(berth_budgets_forget(world.budgets, NULL));
	Berth__V1__BudgetTotals after = world_totals(&world);
	assert_int_equal(before.settled_nano_usd, after.settled_nano_usd);
	assert_int_equal(before.forfeited_nano_usd, after.forfeited_nano_usd);
	assert_int_equal(before.remaining_nano_usd, after.remaining_nano_usd);
	assert_null(berth_budgets_reservation(world.budgets, "a"));
	berth_proto_free(first);
	berth_proto_free(second);
	world.forgot = true;
	world_close(&world);
}

static void a_repeat_about_a_forgotten_row_is_answered_from_the_row_brought_along(void **state)
{
	(void)state;
	struct world world;
	fill(&world);
	Berth__V1__Reservation *settled = berth_budgets_forget(world.budgets, "a");
	Berth__V1__Reservation *forfeited = berth_budgets_forget(world.budgets, "c");
	size_t logged = world.count;
	struct berth_budget_settle settle = {.reservation_id = "a", .elapsed_ns = 7 * BERTH_NS_PER_S, .prior = settled};
	assert_true(world_settle_as(&world, &settle));
	settle.elapsed_ns = 8 * BERTH_NS_PER_S;
	assert_refused(&world, world_settle_as(&world, &settle), BERTH_BUDGET_CONFLICT, "settled already");
	settle.prior = forfeited; // of another one
	assert_refused(&world, world_settle_as(&world, &settle), BERTH_BUDGET_UNKNOWN_RESERVATION, "a");
	struct berth_budget_reserve command = world_command("a", "plain", 0);
	command.job_id = "j1";
	command.user = "user/ada";
	command.prior = settled;
	assert_true(world_reserve_as(&world, &command));
	Berth__Store__V1__BudgetEnded *ended;
	assert_true(
		berth_budget_decide_forfeit(world.budgets, "c", "CreateUnknown", forfeited, &ended, &world.refusal));
	assert_null(ended);
	assert_int_equal(world.count, logged);
	berth_proto_free(settled);
	berth_proto_free(forfeited);
	world.forgot = true;
	world_close(&world);
}

static void an_appeal_brings_a_forgotten_row_back(void **state)
{
	(void)state;
	struct world world;
	fill(&world);
	Berth__V1__Reservation *forfeited = berth_budgets_forget(world.budgets, "c");
	Berth__V1__Lease lease = BERTH__V1__LEASE__INIT;
	lease.lease_id = (char *)"c";
	lease.state = BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	lease.proof = BERTH__V1__DEATH_PROOF__ABSENCE_SEEN;
	lease.retired_at_ns = world.now_ns;
	struct berth_budget_appeal command = {
		.reservation_id = "c", .lease = &lease, .receipt_digest = DIGEST_OF("e"), .prior = forfeited};
	Berth__Store__V1__BudgetAppealed *appealed;
	assert_true(berth_budget_decide_appeal(world.budgets, &command, &appealed, &world.refusal));
	world_log(&world, BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED, appealed);
	assert_sums(&world, 14 + 190, 60 + CEILING_RUNNER, 0, 0);
	assert_int_equal(world_row(&world, "c")->state, BERTH__V1__RESERVATION_STATE__SETTLED);
	assert_int_equal(berth_budgets_ended_count(world.budgets), 2);
	berth_proto_free(forfeited);
	world.forgot = true;
	world_close(&world);
}

static void x9_memory_does_not_grow_with_what_was_spent(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, POLICY(100000000, "\"search\":100000000", ""));
	for (int i = 0; i < 5000; i++) {
		char id[32];
		snprintf(id, sizeof id, "lease-%d", i);
		assert_true(world_reserve(&world, id, "plain", 0));
		assert_true(world_settle(&world, id, 0));
		berth_proto_free(berth_budgets_forget(world.budgets, NULL));
		assert_int_equal(berth_budgets_open_count(world.budgets) + berth_budgets_ended_count(world.budgets), 0);
	}
	assert_sums(&world, 10000, 0, 0, 0);
	struct copy copy = {.into = berth_budgets_new()};
	berth_budgets_rows(world.budgets, copy_row, &copy);
	assert_int_equal(copy.count, 3);
	berth_budgets_free(copy.into);
	world.forgot = true;
	world_close(&world);
}

static void reservations_are_listed_by_id_in_pages(void **state)
{
	(void)state;
	struct world world;
	fill(&world);
	const Berth__V1__Reservation **list;
	assert_int_equal(berth_budgets_reservations(world.budgets, "b", false, NULL, 3, &list), 3);
	assert_string_equal(list[0]->reservation_id, "a");
	assert_string_equal(list[2]->reservation_id, "c");
	free(list);
	assert_int_equal(berth_budgets_reservations(world.budgets, "b", false, "c", 3, &list), 1);
	assert_string_equal(list[0]->reservation_id, "d");
	free(list);
	assert_int_equal(berth_budgets_reservations(world.budgets, "b", true, NULL, 9, &list), 2);
	assert_string_equal(list[0]->reservation_id, "b");
	free(list);
	assert_int_equal(berth_budgets_reservations(world.budgets, "other", false, NULL, 9, &list), 0);
	free(list);
	world_close(&world);
}

static void every_event_of_a_budget_has_its_line_in_the_export(void **state)
{
	(void)state;
	struct world world;
	fill(&world);
	assert_true(world_release(&world, "d", BERTH__V1__DEATH_PROOF__REJECTED));
	world.now_ns += 1;
	assert_true(world_appeal(&world, "c", BERTH__V1__DEATH_PROOF__ABSENCE_SEEN, world.now_ns));
	struct berth_budget_settle settle = {
		.reservation_id = "b", .elapsed_ns = 40 * BERTH_NS_PER_S, .provider_confirmed = true};
	assert_true(world_settle_as(&world, &settle));
	struct berth_budget_chain chain = {.budget = "b"};
	BERTH_AUTO(berth_buf_free) struct berth_buf lines = {0};
	for (size_t i = 0; i < world.count; i++) {
		assert_true(berth_budget_chain_add(&chain, world.events[i], &lines, NULL));
	}
	assert_int_equal(chain.sequence, world.count);
	static const char *const parts[] = {"\"kind\":\"opened\"", "\"kind\":\"reserved\"", "\"kind\":\"settled\"",
		"\"kind\":\"forfeited\"", "\"kind\":\"amended\"", "\"kind\":\"job_limited\"", "\"kind\":\"released\"",
		"\"kind\":\"appealed\"",
		// A breach is charged in full there.
		"\"breach_kind\":\"reservation\",\"charged_nano_usd\":80"};
	for (size_t i = 0; i < BERTH_COUNT(parts); i++) {
		assert_non_null(strstr(berth_buf_text(&lines), parts[i]));
	}
	world_close(&world);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(rows_come_in_key_order_and_load_back_to_the_same_state),
	cmocka_unit_test(the_sums_of_one_payer_are_told_once),
	cmocka_unit_test(rows_that_do_not_sum_are_refused),
	cmocka_unit_test(forgetting_a_row_does_not_release_money),
	cmocka_unit_test(a_repeat_about_a_forgotten_row_is_answered_from_the_row_brought_along),
	cmocka_unit_test(an_appeal_brings_a_forgotten_row_back),
	cmocka_unit_test(x9_memory_does_not_grow_with_what_was_spent),
	cmocka_unit_test(reservations_are_listed_by_id_in_pages),
	cmocka_unit_test(every_event_of_a_budget_has_its_line_in_the_export),
};

BERTH_TEST_MAIN(tests)
