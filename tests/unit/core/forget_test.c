// SPDX-License-Identifier: Apache-2.0
// Agents that an operator gives up: when that may be, and what becomes of what they held.
#include "tests/unit/core/lost.h"

static void forget(struct test_fleet *fleet, const char *agent)
{
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_FORGET_AGENT,
				   .actor = "operator/ann",
				   .agent = agent,
				   .reason = "its host burnt"});
}

static void who_may_still_run_something_is_not_given_up(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	forget(fleet, "north");
	assert_refused(fleet, BERTH_ERROR_CONFLICT, "in session");
	test_decide(fleet,
		(struct berth_command){
			.kind = BERTH_COMMAND_STREAM_DOWN, .actor = "agent/x", .agent = "north", .session = session});
	forget(fleet, "north");
	assert_refused(fleet, BERTH_ERROR_CONFLICT, "hold ends in 11 s");
	forget(fleet, "west");
	assert_refused(fleet, BERTH_ERROR_NOT_FOUND, "west");
}

static void what_a_given_up_agent_holds_is_charged_in_full(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_run(fleet);
	fleet->obeyed = fleet->seen_elsewhere = 0;
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_report_lease(fleet, "north", session, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	test_report_lease(fleet, "north", session, BOOT_A, 2, lost.lease, LEASE(ACTIVE), 0);
	test_decide(fleet,
		(struct berth_command){
			.kind = BERTH_COMMAND_STREAM_DOWN, .actor = "agent/x", .agent = "north", .session = session});
	test_advance_ms(fleet, FENCE_MS + 1);
	forget(fleet, "north");
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	assert_sums(fleet, 0, 0, TEST_PRICE);
	Berth__V1__Agent *none[1];
	assert_int_equal(berth_core_agents(fleet->core, none, 1), 0);
	test_hello(fleet, "north", BOOT_A, 1);
	assert_refused(fleet, BERTH_ERROR_DENIED, "given up");
	// Enrolled again, its late receipt gives back what it did not use.
	test_enroll(fleet, "north");
	session = test_join(fleet, "north", BOOT_A, 1);
	fleet->elapsed_ns = 61 * BERTH_NS_PER_S;
	test_report_lease(fleet, "north", session, BOOT_A, 3, lost.lease, LEASE(KILL_PROVED), 0);
	test_report_lease(fleet, "north", session, BOOT_A, 4, lost.lease, LEASE(RETIRED), PROOF(ABSENCE_SEEN));
	assert_int_equal(test_totals(fleet, "b").forfeited_nano_usd, 0);
	take_back(fleet, &lost);
}

static void a_restore_waits_for_no_agent_that_was_given_up(void **state)
{
	struct test_fleet *fleet = *state;
	test_enroll(fleet, "south"); // never seen by the backup, and maybe busy since
	struct lost lost = lose_a_run(fleet);
	test_restore(fleet, lost.backup);
	test_join(fleet, "north", BOOT_A, 1);
	assert_false(wants_place(fleet));
	forget(fleet, "south");
	assert_refused(fleet, BERTH_ERROR_CONFLICT, "may still go on");
	test_advance_ms(fleet, FENCE_MS + 1);
	forget(fleet, "south");
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	test_join(fleet, "north", BOOT_A, 1);
	assert_true(wants_place(fleet));
	take_back(fleet, &lost);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	T(who_may_still_run_something_is_not_given_up),
	T(what_a_given_up_agent_holds_is_charged_in_full),
	T(a_restore_waits_for_no_agent_that_was_given_up),
};
BERTH_TEST_MAIN(tests)
