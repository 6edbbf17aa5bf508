// SPDX-License-Identifier: Apache-2.0
#include "coordinator/budget/policy.h"

#include "common/base/file.h"
#include "coordinator/budget/resource_class.h"
#include "tests/unit/budget/world.h"

static void assert_parse_fails(const char *json, const char *part)
{
	struct berth_error err = {0};
	Berth__V1__BudgetPolicy *policy = berth_policy_parse(json, strlen(json), "policy.json", &err);
	assert_fails(policy != NULL, err, BERTH_ERROR_INVALID, part);
	assert_memory_equal(err.message, "policy.json", 11);
}

// Replaces the first `old` of a good policy.
static void assert_edit_fails(const char *old, const char *new, const char *part)
{
	const char *good = POLICY(1000, "\"search\":600,\"final\":400", "");
	const char *at = strstr(good, old);
	assert_non_null(at);
	BERTH_AUTO_FREE char *bad = berth_format("%.*s%s%s", (int)(at - good), good, new, at + strlen(old));
	assert_parse_fails(bad, part);
}

static void a_policy_reads_back_from_its_canonical_json(void **state)
{
	(void)state;
	Berth__V1__BudgetPolicy *policy = world_policy(POLICY(1000, "\"search\":600,\"final\":400", ""));
	BERTH_AUTO(berth_json_cleanup) berth_json *object = berth_policy_json(policy);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	assert_true(berth_json_write_canonical(object, &text, NULL));
	Berth__V1__BudgetPolicy *again = world_policy(berth_buf_text(&text));
	struct berth_digest a, b;
	assert_true(berth_policy_digest(policy, &a, NULL) && berth_policy_digest(again, &b, NULL));
	assert_true(berth_digest_equal(&a, &b));
	assert_int_equal(policy->meters[2]->tokens->input_overhead_tokens, 8192);
	assert_string_equal(policy->phase_limits[0]->phase, "final");
	berth_proto_free(policy);
	berth_proto_free(again);
}

static void unknown_json_fields_are_rejected_by_name(void **state)
{
	(void)state;
	assert_edit_fails("{\"study_id\"", "{\"colour\":1,\"study_id\"", "colour: unknown field");
	assert_edit_fails(
		"\"fixed_nano_usd\":10", "\"fixed_nano_usd\":10,\"tax\":0", "meters.runner.tax: unknown field");
	assert_edit_fails("\"input_nano_usd_per_token\":2", "\"input_nano_usd_per_token\":2,\"cached\":1",
		"meters.worker.price.cached: unknown field");
	assert_edit_fails("\"provider_config\"", "\"kin\":1,\"provider_config\"", "kin: unknown field");
	assert_edit_fails("{\"study_id\"", "{\"study_id\":\"x\",\"study_id\"", "duplicate");
}

static void h16_nothing_is_coerced(void **state)
{
	(void)state;
	assert_edit_fails("\"fixed_nano_usd\":10", "\"fixed_nano_usd\":true", "fixed_nano_usd: is not a whole number");
	assert_edit_fails("\"fixed_nano_usd\":10", "\"fixed_nano_usd\":10.0", "fixed_nano_usd: is not a whole number");
	assert_edit_fails(
		"\"fixed_nano_usd\":10", "\"fixed_nano_usd\":\"10\"", "fixed_nano_usd: is not a whole number");
	assert_edit_fails("\"fixed_nano_usd\":10", "\"fixed_nano_usd\":null", "fixed_nano_usd: is not a whole number");
	assert_edit_fails("\"fixed_nano_usd\":10", "\"fixed_nano_usd\":9223372036854775808", "policy.json");
	assert_edit_fails("\"study_id\":\"s\"", "\"study_id\":1", "study_id: is not text");
	assert_edit_fails("\"study_id\":\"s\"", "\"study_id\":\"s\\u0000t\"", "study_id: is not text");
	assert_edit_fails("1000", "true", "hard_limit_nano_usd: is not a whole number");
}

static void every_limit_of_a_policy_is_held(void **state)
{
	(void)state;
	assert_edit_fails("\"study_id\":\"s\",", "", "study_id: is missing");
	assert_edit_fails("\"study_id\":\"s\"", "\"study_id\":\" s\"", "study_id is blank");
	assert_edit_fails("sha256:a", "SHA256:a", "manifest_digest");
	assert_edit_fails("1000", "0", "hard_limit_nano_usd is at least 1");
	assert_edit_fails("1000", "999", "above the hard limit");
	assert_edit_fails("\"search\":600,\"final\":400", "", "1 to 64 phases");
	assert_edit_fails("\"search\":600", "\"search\":-1", "search: is negative");
	assert_edit_fails("\"search\":600", "\"search\":9223372036854775807", "2^63");
	assert_edit_fails("\"search\":600", "\" search\":600", "a phase's name");
	assert_edit_fails("\"agent_runner\"", "\"Agent\"", "resource_type");
	assert_edit_fails("\"billing_quantum_seconds\":60", "\"billing_quantum_seconds\":0", "at least 1");
	assert_edit_fails("\"max_billing_seconds\":1050", "\"max_billing_seconds\":0", "at least 1");
	assert_edit_fails(",\"max_billing_seconds\":1050", "", "max_billing_seconds: is missing");
	assert_edit_fails("\"fixed_nano_usd\":10,\"nano_usd_per_second\":3", "\"fixed_nano_usd\":0", "one is above 0");
	assert_edit_fails("\"nano_usd_per_second\":3", "\"nano_usd_per_second\":9223372036854775807",
		"meters.runner: the most that it can charge");
	assert_edit_fails("\"kind\":\"timed_resource\"", "\"kind\":\"sandbox\"", "meters.runner.kind");
	assert_edit_fails("\"input_nano_usd_per_token\":2,\"output_nano_usd_per_token\":5",
		"\"input_nano_usd_per_token\":0,\"output_nano_usd_per_token\":0", "one is above 0");
	assert_edit_fails("\"openai/m1\"", "\"openai/m1\",\"input_estimator\":\"bytes\"", "input_estimator");
	assert_edit_fails("\"openai/m1\"", "\"openai/m1\",\"input_overhead_tokens\":0", "input_overhead_tokens");
	assert_parse_fails("[]", "it is not an object");
	assert_parse_fails("{", "policy.json:1");
	assert_parse_fails(
		"{\"study_id\":\"s\",\"manifest_digest\":\"" DIGEST_OF(
			"a") "\",\"hard_limit_nano_usd\":1,\"phase_limits_nano_usd\":{\"p\":1},\"meters\":{}}",
		"a meter or a rate");
}

static void an_external_spend_authority_is_part_of_the_digest(void **state)
{
	(void)state;
#define AUTHORITY(provider, account, digit)                                                                            \
	"{\"study_id\":\"s\",\"manifest_digest\":\"" DIGEST_OF(                                                        \
		"a") "\",\"hard_limit_nano_usd\":100,\"phase_limits_nano_usd\":{\"p\":100},\"meters\":{\"build\":{"    \
		     "\"kind\":\"timed_resource\",\"resource_type\":\"task_environment_build\","                       \
		     "\"resource_class_digest\":\"" DIGEST_OF(                                                         \
			     "9") "\",\"nano_usd_per_second\":1,\"max_billing_seconds\":30,"                           \
				  "\"external_spend_authority\":{\"provider\":\"" provider                             \
				  "\",\"account_identity\":\"" account                                                 \
				  "\",\"verifier_digest\":\"" DIGEST_OF(digit) "\"}}}}"
	static const char *const rows[] = {AUTHORITY("e2b", "team/account", "8"),
		AUTHORITY("other", "team/account", "8"), AUTHORITY("e2b", "other/account", "8"),
		AUTHORITY("e2b", "team/account", "b")};
	struct berth_digest digests[BERTH_COUNT(rows)];
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		Berth__V1__BudgetPolicy *policy = world_policy(rows[i]);
		assert_true(berth_policy_digest(policy, &digests[i], NULL));
		berth_proto_free(policy);
		for (size_t k = 0; k < i; k++) {
			assert_false(berth_digest_equal(&digests[i], &digests[k]));
		}
	}
	assert_parse_fails(AUTHORITY("", "team/account", "8"), "external_spend_authority needs");
}

#define RATE_POLICY(more)                                                                                              \
	"{\"study_id\":\"s\",\"manifest_digest\":\"" DIGEST_OF(                                                        \
		"a") "\",\"hard_limit_nano_usd\":1000000,\"phase_limits_nano_usd\":{\"search\":1000000},"              \
		     "\"rates\":[{\"backend\":\"e2b\",\"role\":\"task_environment\",\"cpu_count\":2,"                  \
		     "\"memory_mb\":1024,\"nano_usd_per_second\":3" more "}]}"

static void a_rate_gives_a_meter_for_each_time_to_live_of_the_ladder(void **state)
{
	(void)state;
	Berth__V1__BudgetPolicy *policy = world_policy(RATE_POLICY(""));
	struct berth_error err = {0};
	struct berth_tariffs *tariffs = berth_tariffs_new(policy, &err);
	assert_ok(tariffs != NULL, err);
	assert_int_equal(berth_tariffs_count(tariffs), BERTH_TTL_LADDER_COUNT);
	static const int ttls[] = {900, 3600, 7200, 14400, 28800, 86400};
	for (size_t i = 0; i < BERTH_COUNT(ttls); i++) {
		struct berth_resource_class class;
		char id[BERTH_METER_ID_SIZE];
		assert_true(berth_resource_class_of_rate(policy->rates[0], ttls[i] - 1, &class, &err));
		assert_int_equal(class.provider_ttl_seconds, ttls[i]);
		berth_resource_class_meter_id(&class, id);
		const Berth__V1__Meter *meter = berth_tariffs_find(tariffs, id);
		assert_non_null(meter);
		assert_ok(berth_resource_class_fits_meter(&class, meter, &err), err);
		assert_int_equal(meter->timed->max_billing_seconds, 253 + ttls[i] + 600);
	}
	assert_non_null(berth_tariffs_find(tariffs, "e2b.task_environment.c2.m1024.t900"));
	assert_null(berth_tariffs_find(tariffs, "e2b.task_environment.c2.m1024.t901"));
	berth_tariffs_free(tariffs);
	berth_proto_free(policy);
}

static void a_plans_limit_is_the_last_rung(void **state)
{
	(void)state;
	Berth__V1__BudgetPolicy *policy = world_policy(RATE_POLICY(",\"provider_ttl_max_seconds\":5000"));
	struct berth_tariffs *tariffs = berth_tariffs_new(policy, NULL);
	assert_int_equal(berth_tariffs_count(tariffs), 3);
	assert_non_null(berth_tariffs_find(tariffs, "e2b.task_environment.c2.m1024.t5000"));
	berth_tariffs_free(tariffs);
	berth_proto_free(policy);
	struct berth_error err = {0};
	int64_t ttl;
	assert_true(berth_resource_ttl(3601, 5000, &ttl, NULL));
	assert_int_equal(ttl, 5000);
	assert_true(berth_resource_ttl(900, 86400, &ttl, NULL));
	assert_int_equal(ttl, 900);
	assert_true(berth_resource_ttl(901, 86400, &ttl, NULL));
	assert_int_equal(ttl, 3600);
	assert_fails(berth_resource_ttl(5001, 5000, &ttl, &err), err, BERTH_ERROR_INVALID, "shorten the timeouts");
	assert_fails(berth_resource_ttl(86401, 100000, &ttl, &err), err, BERTH_ERROR_INVALID, "86400");
	assert_false(berth_resource_ttl(0, 100, &ttl, NULL));
}

static void a_rate_without_sense_is_refused(void **state)
{
	(void)state;
	assert_parse_fails(RATE_POLICY(",\"fixed_nano_usd\":true"), "rates[0].fixed_nano_usd");
	assert_parse_fails(RATE_POLICY(",\"gpu\":1"), "rates[0].gpu: unknown field");
	assert_parse_fails(RATE_POLICY(",\"billing_quantum_seconds\":0"), "billing_quantum_seconds");
	assert_parse_fails(RATE_POLICY(",\"provider_ttl_max_seconds\":0"), "provider_ttl_max_seconds");
	assert_parse_fails(RATE_POLICY(",\"cleanup_horizon_seconds\":0"), "at least 1");
	assert_parse_fails(RATE_POLICY("},{\"backend\":\"e2b\",\"role\":\"task_environment\",\"cpu_count\":2,"
				       "\"memory_mb\":1024,\"nano_usd_per_second\":4"),
		"given twice");
	assert_parse_fails(RATE_POLICY("},{\"backend\":\"moon\",\"role\":\"task_environment\",\"cpu_count\":2,"
				       "\"memory_mb\":1024,\"nano_usd_per_second\":4"),
		"neither local nor e2b");
	assert_parse_fails(RATE_POLICY("},{\"backend\":\"e2b\",\"role\":\"pet\",\"cpu_count\":2,"
				       "\"memory_mb\":1024,\"nano_usd_per_second\":4"),
		"no role of a lease");
	assert_parse_fails(RATE_POLICY("},{\"backend\":\"e2b\",\"role\":\"agent_runner\",\"cpu_count\":2,"
				       "\"memory_mb\":1024,\"nano_usd_per_second\":9223372036854775807"),
		"rate of e2b agent_runner");
}

static void class_drift_in_role_memory_or_ttl_is_refused(void **state)
{
	(void)state;
	Berth__V1__BudgetPolicy *policy = world_policy(POLICY(1000, "\"search\":600", ""));
	const Berth__V1__Meter *meter = policy->meters[1];
	assert_string_equal(meter->meter_id, "runner");
	struct berth_resource_class class = {"e2b", "agent_runner", 2, 2048, 420, 30, 600};
	struct berth_error err = {0};
	assert_ok(berth_resource_class_fits_meter(&class, meter, &err), err);
	struct berth_resource_class drift = class;
	drift.role = "task_environment";
	assert_fails(berth_resource_class_fits_meter(&drift, meter, &err), err, BERTH_ERROR_CORRUPT, "role");
	drift = class;
	drift.memory_mb = 4096;
	assert_fails(berth_resource_class_fits_meter(&drift, meter, &err), err, BERTH_ERROR_CORRUPT, "class differs");
	drift = class;
	drift.provider_ttl_seconds = 421;
	assert_fails(berth_resource_class_fits_meter(&drift, meter, &err), err, BERTH_ERROR_CORRUPT, "class differs");
	assert_fails(berth_resource_class_fits_meter(&class, policy->meters[2], &err), err, BERTH_ERROR_CORRUPT,
		"prices tokens");
	berth_proto_free(policy);
}

static void a_meter_one_second_short_of_the_horizon_is_refused(void **state)
{
	(void)state;
	Berth__V1__BudgetPolicy *policy = world_policy(POLICY(1000, "\"search\":600", ""));
	policy->meters[1]->timed->max_billing_seconds = 1049;
	struct berth_resource_class class = {"e2b", "agent_runner", 2, 2048, 420, 30, 600};
	struct berth_error err = {0};
	assert_fails(berth_resource_class_fits_meter(&class, policy->meters[1], &err), err, BERTH_ERROR_CORRUPT,
		"horizon of 1050");
	berth_proto_free(policy);
}

static void a_policy_of_the_wire_is_sorted_before_it_counts(void **state)
{
	(void)state;
	Berth__V1__BudgetPolicy *policy = world_policy(POLICY(1000, "\"search\":600,\"final\":400", ""));
	Berth__V1__PhaseLimit *first = policy->phase_limits[0];
	policy->phase_limits[0] = policy->phase_limits[1];
	policy->phase_limits[1] = first;
	struct berth_error err = {0};
	assert_fails(berth_policy_check(policy, &err), err, BERTH_ERROR_INVALID, "out of order");
	berth_policy_sort(policy);
	assert_ok(berth_policy_check(policy, &err), err);
	berth_proto_set_string(&policy->study_id, "\xff");
	assert_fails(berth_policy_check(policy, &err), err, BERTH_ERROR_INVALID, "study_id");
	berth_proto_free(policy);
}

static void the_pages_example_is_a_policy(void **state)
{
	(void)state;
	struct berth_error err = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf page = {0};
	assert_ok(berth_file_read("docs/BUDGET.md", BERTH_POLICY_SIZE_MAX, &page, &err), err);
	const char *begin = strstr(berth_buf_text(&page), "```json\n");
	assert_non_null(begin);
	begin += strlen("```json\n");
	const char *end = strstr(begin, "```");
	assert_non_null(end);
	Berth__V1__BudgetPolicy *policy = berth_policy_parse(begin, (size_t)(end - begin), "BUDGET.md", &err);
	assert_ok(policy != NULL, err);
	assert_int_equal(policy->n_rates, 1);
	berth_proto_free(policy);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_policy_reads_back_from_its_canonical_json),
	cmocka_unit_test(unknown_json_fields_are_rejected_by_name),
	cmocka_unit_test(h16_nothing_is_coerced),
	cmocka_unit_test(every_limit_of_a_policy_is_held),
	cmocka_unit_test(an_external_spend_authority_is_part_of_the_digest),
	cmocka_unit_test(a_rate_gives_a_meter_for_each_time_to_live_of_the_ladder),
	cmocka_unit_test(a_plans_limit_is_the_last_rung),
	cmocka_unit_test(a_rate_without_sense_is_refused),
	cmocka_unit_test(class_drift_in_role_memory_or_ttl_is_refused),
	cmocka_unit_test(a_meter_one_second_short_of_the_horizon_is_refused),
	cmocka_unit_test(a_policy_of_the_wire_is_sorted_before_it_counts),
	cmocka_unit_test(the_pages_example_is_a_policy),
};

BERTH_TEST_MAIN(tests)
