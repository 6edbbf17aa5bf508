// SPDX-License-Identifier: Apache-2.0
// Metrics and pass@k (harbor.md, 3.2).
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/results_internal.h"
#include "tests/support/test.h"

static berth_json *parsed(const char *text)
{
	return berth_json_parse(text, strlen(text), "test", NULL);
}

static void pass_at_k_is_the_chance_that_one_of_k_draws_passes(void **state)
{
	(void)state;
	assert_true(results_pass_at_k(4, 2, 2) == 1 - 1.0 / 6);
	assert_true(results_pass_at_k(5, 0, 5) == 0);
	assert_true(results_pass_at_k(5, 1, 5) == 1);
	assert_true(results_pass_at_k(10, 1, 2) == 1 - 0.8);
	assert_true(results_pass_at_k(3, 2, 2) == 1);
}

static void k_runs_over_powers_of_two_and_multiples_of_five(void **state)
{
	(void)state;
	static const uint32_t WANTED[] = {2, 4, 5, 8, 10, 15, 16, 20, 25, 30, 32, 35};
	uint32_t k = 0;
	for (size_t i = 0; i < BERTH_COUNT(WANTED); i++) {
		k = results_next_k(k);
		assert_int_equal(k, WANTED[i]);
	}
}

static void check(const char *type, const char *const *rewards, size_t count, size_t unscored, const char *wanted)
{
	berth_json *values[4] = {0};
	for (size_t i = 0; i < count; i++) {
		values[i] = parsed(rewards[i]);
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *metric = results_metric(type, values, count, unscored);
	BERTH_AUTO(berth_json_cleanup) berth_json *expected = wanted ? parsed(wanted) : NULL;
	for (size_t i = 0; i < count; i++) {
		berth_json_free(values[i]);
	}
	if (!wanted) {
		assert_null(metric);
		return;
	}
	assert_true(berth_json_equal(metric, expected));
}

static void each_metric_follows_its_name(void **state)
{
	(void)state;
	static const char *const ONE[] = {"{\"reward\":1}", "{\"reward\":0.5}", "{\"reward\":-1}"};
	check("mean", ONE, 2, 0, "{\"mean\":0.75}");
	check("sum", ONE, 3, 0, "{\"sum\":0.5}");
	check("min", ONE, 3, 0, "{\"min\":-1.0}");
	check("max", ONE, 3, 0, "{\"max\":1.0}");
	check("median", ONE, 3, 0, NULL);
	check("mean", ONE, 0, 0, NULL);
}

static void zeros_stand_for_unscored_cells_only_where_they_are_asked_for(void **state)
{
	(void)state;
	static const char *const ONE[] = {"{\"reward\":1}", "{\"reward\":0.5}"};
	check("mean", ONE, 2, 2, "{\"mean\":0.375}");
	check("min", ONE, 2, 1, "{\"min\":0.0}");
	check("max", ONE, 0, 1, "{\"max\":0.0}");
}

static void several_keys_are_aggregated_apart_and_a_missing_one_is_zero(void **state)
{
	(void)state;
	static const char *const TWO[] = {"{\"a\":1}", "{\"b\":3,\"a\":0}"};
	check("mean", TWO, 2, 0, "{\"a\":0.5,\"b\":1.5}");
	static const char *const EMPTY[] = {"{}"};
	check("mean", EMPTY, 1, 0, "{\"mean\":0.0}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pass_at_k_is_the_chance_that_one_of_k_draws_passes),
		cmocka_unit_test(k_runs_over_powers_of_two_and_multiples_of_five),
		cmocka_unit_test(each_metric_follows_its_name),
		cmocka_unit_test(zeros_stand_for_unscored_cells_only_where_they_are_asked_for),
		cmocka_unit_test(several_keys_are_aggregated_apart_and_a_missing_one_is_zero),
	};
	return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
