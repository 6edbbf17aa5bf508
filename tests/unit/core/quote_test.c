// SPDX-License-Identifier: Apache-2.0
// What a paid job may cost at most, fixed when it is taken.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

static void a_quote_is_the_price_of_every_generation_and_at_most_the_policys_limit(void **state)
{
	struct test_fleet *fleet = *state;
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 4, "b");
	assert_int_equal(fleet->outcome.events_count, 2);
	const Berth__Store__V1__BudgetJobLimited *limited = fleet->outcome.events[1]->budget_job_limited;
	assert_string_equal(limited->job_id, job);
	assert_int_equal(limited->limit_nano_usd, 4 * 3 * TEST_PRICE); // max_generations is 3
	test_open_budget(fleet, "c", 1000000, 1000000, ",\"job_limit_nano_usd\":50000");
	BERTH_AUTO_FREE const char *other = test_submit_paid(fleet, "k", 4, "c");
	assert_string_not_equal(other, job);
	assert_int_equal(fleet->outcome.events[1]->budget_job_limited->limit_nano_usd, 50000);
}

// Each differs from the one before it in one of the things that a price depends on.
static uint32_t first_variety;
#define VARIETIES 6

static void vary(Berth__V1__Task *task, uint32_t index)
{
	static char *steps[] = {(char *)"one", (char *)"two"};
	uint32_t variety = first_variety + index;
	task->build_timeout_sec += variety >= 1 ? 10000 : 0;
	task->agent_timeout_sec += variety >= 2 ? 10000 : 0;
	task->verifier_timeout_sec += variety >= 3 ? 10000 : 0;
	task->separate_verifier = variety >= 4;
	if (variety >= 5) {
		task->steps = steps;
		task->n_steps = BERTH_COUNT(steps);
	}
}

static int64_t quote_of(struct test_fleet *fleet, const char *key, uint32_t tasks)
{
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, key, tasks, "b");
	assert_ok(fleet->outcome.error.code == BERTH_ERROR_OK && job, fleet->outcome.error);
	return fleet->outcome.events[1]->budget_job_limited->limit_nano_usd;
}

static void a_quote_is_the_sum_of_what_each_task_costs_alone(void **state)
{
	struct test_fleet *fleet = *state;
	fleet->verifier = true;
	fleet->vary = vary;
	test_open_budget(fleet, "b", INT64_C(1) << 60, INT64_C(1) << 60, "");
	int64_t sum = 0, before = 0;
	for (uint32_t i = 0; i < VARIETIES; i++) {
		char key[] = {(char)('a' + (char)i), 0};
		first_variety = i;
		int64_t alone = quote_of(fleet, key, 1);
		assert_int_not_equal(alone, before);
		sum += before = alone;
	}
	first_variety = 0;
	assert_int_equal(quote_of(fleet, "all", VARIETIES), sum);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, test_set_up_two, test_tear_down)

static const struct CMUnitTest tests[] = {
	TEST(a_quote_is_the_price_of_every_generation_and_at_most_the_policys_limit),
	TEST(a_quote_is_the_sum_of_what_each_task_costs_alone),
};
BERTH_TEST_MAIN(tests)
