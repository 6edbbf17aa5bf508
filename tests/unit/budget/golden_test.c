// SPDX-License-Identifier: Apache-2.0
// The reference's golden vectors, byte for byte.
#include "common/codec/json.h"
#include "coordinator/budget/chain.h"
#include "coordinator/budget/resource_class.h"
#include "tests/unit/budget/world.h"

#define GOLDEN_POLICY                                                                                                  \
	"{\"study_id\":\"golden\",\"manifest_digest\":\"" DIGEST_OF(                                                   \
		"a") "\",\"hard_limit_nano_usd\":10000,\"phase_limits_nano_usd\":{\"search\":9000,\"final\":1000},"    \
		     "\"meters\":{\"runner\":{\"kind\":\"timed_resource\",\"resource_type\":\"agent_runner\","         \
		     "\"resource_class_digest\":"                                                                      \
		     "\"sha256:61e41e3e55d6f312e042a5ab8398d4139f4a87cc76466589741192d905e2d867\","                    \
		     "\"fixed_nano_usd\":10,\"nano_usd_per_second\":3,\"billing_quantum_seconds\":60,"                 \
		     "\"max_billing_seconds\":1050}}}"
#define NOON_NS INT64_C(1784462400000000000) // 2026-07-19T12:00:00Z

static void assert_policy_digest(const char *json, const char *hex)
{
	Berth__V1__BudgetPolicy *policy = world_policy(json);
	struct berth_digest digest;
	char text[BERTH_DIGEST_HEX_SIZE];
	assert_true(berth_policy_digest(policy, &digest, NULL));
	berth_digest_hex(&digest, text);
	assert_string_equal(text, hex);
	berth_proto_free(policy);
}

static void golden_resource_classes(void **state)
{
	(void)state;
	static const struct {
		struct berth_resource_class class;
		int64_t horizon;
		const char *hex;
	} rows[] = {
		{{"e2b", "agent_runner", 2, 2048, 420, 30, 600}, 1050,
			"61e41e3e55d6f312e042a5ab8398d4139f4a87cc76466589741192d905e2d867"},
		{{"e2b", "task_environment", 2, 1024, 86400, 30, 600}, 87030,
			"23cb6e39acce2e28f2ade785a1700d70220d8f53e7ccf450b09c95a689fe8b53"},
		{{"e2b", "task_environment_build", 2, 1024, 3600, 3600, 60}, 7260,
			"f2f1f06db345b62b68db1a3b5041d27455df06fc60c193c2e163adaed22ce885"},
		{{"e2b", "proposer_project", 2, 1024, 21600, 30, 600}, 22230,
			"9de876cc793d99a38bcd50439f9b80ea1e7ad4eb7840e8f929083e6a08e6c88e"},
		{{"e2b", "proposer_project", 2, 1024, 21600, 253, 600}, 22453,
			"17530057c369646ae152abd90b68e8a1a7e419b05bb3e36b2f1b25615ed74be2"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_digest digest;
		char text[BERTH_DIGEST_HEX_SIZE];
		int64_t horizon;
		assert_true(berth_resource_class_digest(&rows[i].class, &digest, NULL));
		berth_digest_hex(&digest, text);
		assert_string_equal(text, rows[i].hex);
		assert_true(berth_resource_class_horizon(&rows[i].class, &horizon, NULL));
		assert_int_equal(horizon, rows[i].horizon);
	}
}

static void golden_policy_digest(void **state)
{
	(void)state;
	assert_policy_digest(GOLDEN_POLICY, "f41a990e8997ab63ab145024b11085275fc55c6b48cf138a4da841e39d23d6a8");
}

static void golden_legacy_policy_leaves_a_null_authority_out(void **state)
{
	(void)state;
#define LEGACY(more)                                                                                                   \
	"{\"study_id\":\"legacy-timed-resource\",\"manifest_digest\":\"" DIGEST_OF(                                    \
		"a") "\",\"hard_limit_nano_usd\":100,\"phase_limits_nano_usd\":{\"search\":100},"                      \
		     "\"meters\":{\"runner\":{\"kind\":\"timed_resource\",\"resource_type\":\"agent_runner\","         \
		     "\"resource_class_digest\":\"" DIGEST_OF(                                                         \
			     "b") "\",\"nano_usd_per_second\":2,\"billing_quantum_seconds\":60,"                       \
				  "\"max_billing_seconds\":120" more "}}}"
	const char *hex = "27406f282ffd8a014471b6d13d33160e79c0075bb3bd728c17d4c484c4438bcb";
	assert_policy_digest(LEGACY(""), hex);
	assert_policy_digest(LEGACY(",\"external_spend_authority\":null"), hex);
	// With the null written out it would be another one, so that the omission is what the vector holds.
	Berth__V1__BudgetPolicy *policy = world_policy(LEGACY(""));
	BERTH_AUTO(berth_json_cleanup) berth_json *object = berth_policy_json(policy);
	berth_json *meter = berth_json_get(berth_json_get(object, "meters"), "runner");
	berth_json_set(meter, "external_spend_authority", berth_json_null());
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	assert_true(berth_json_write_canonical(object, &text, NULL));
	struct berth_digest digest = berth_sha256(text.data, text.size);
	char other[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&digest, other);
	assert_memory_equal(other, "e696e6c4", 8);
	berth_proto_free(policy);
}

static Berth__V1__Scope golden_scope(void)
{
	Berth__V1__Scope scope = BERTH__V1__SCOPE__INIT;
	scope.phase = (char *)"search";
	scope.category = (char *)"agent_runner";
	scope.run_id = (char *)"run-1";
	scope.lane = (char *)"l";
	return scope;
}

static void assert_line(const char *lines, size_t index, const char *hex)
{
	for (size_t i = 0; i < index; i++) {
		lines = strchr(lines, '\n') + 1;
	}
	BERTH_AUTO_FREE char *line = berth_strndup(lines, (size_t)(strchr(lines, '\n') - lines));
	struct berth_error err = {0};
	BERTH_AUTO(berth_json_cleanup) berth_json *entry = berth_json_parse(line, strlen(line), "line", &err);
	assert_ok(entry != NULL, err);
	const char *digest = berth_json_get_string(entry, "digest");
	assert_memory_equal(digest, "sha256:", 7);
	assert_string_equal(digest + 7, hex);
}

static void golden_event_chain(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, GOLDEN_POLICY);
	assert_int_equal(world.now_ns, NOON_NS);
	Berth__V1__Scope scope = golden_scope();
	struct berth_budget_reserve reserve = world_command("lease-1", "runner", 0);
	reserve.scope = &scope;
	world.now_ns = NOON_NS + 1123456000;
	assert_true(world_reserve_as(&world, &reserve));
	Berth__V1__TerminalProvenance provenance = BERTH__V1__TERMINAL_PROVENANCE__INIT;
	provenance.schema_version = 1;
	provenance.namespace_ = (char *)"x.y.v1";
	provenance.digest = (char *)DIGEST_OF("7");
	struct berth_budget_settle settle = {
		.reservation_id = "lease-1", .elapsed_ns = 100 * BERTH_NS_PER_S, .provenance = &provenance};
	world.now_ns = NOON_NS + 2 * BERTH_NS_PER_S;
	assert_true(world_settle_as(&world, &settle));

	struct berth_budget_chain chain = {.budget = "b"};
	BERTH_AUTO(berth_buf_free) struct berth_buf lines = {0};
	for (size_t i = 0; i < world.count; i++) {
		assert_true(berth_budget_chain_add(&chain, world.events[i], &lines, NULL));
	}
	assert_int_equal(chain.sequence, 3);
	assert_line(berth_buf_text(&lines), 0, "3bfa02c314646f5621bcaa57355bf42ad1643dc5dda4e7300141699431c27555");
	assert_line(berth_buf_text(&lines), 1, "7f238e979978f5a12086e4d2aed42de0f6327487a71aabd40071a77c04b3936c");
	assert_line(berth_buf_text(&lines), 2, "79ace6e47f5c695e7b695de169a7ed1cd24f012589d649154aaed5b74eda41b8");
	world_close(&world);
}

static void a_settlement_without_provenance_leaves_it_out_of_its_event(void **state)
{
	(void)state;
	struct world world;
	world_open(&world, GOLDEN_POLICY);
	assert_true(world_reserve(&world, "lease-1", "runner", 0));
	assert_true(world_settle(&world, "lease-1", 0));
	struct berth_budget_chain chain = {.budget = "b"};
	BERTH_AUTO(berth_buf_free) struct berth_buf lines = {0};
	assert_true(berth_budget_chain_add(&chain, world.events[2], &lines, NULL));
	assert_null(strstr(berth_buf_text(&lines), "terminal_provenance"));
	assert_non_null(strstr(berth_buf_text(&lines), "\"breach_kind\":null"));
	assert_non_null(strstr(berth_buf_text(&lines), "\"input_tokens\":null"));
	struct berth_budget_chain other = {.budget = "other"};
	lines.size = 0;
	assert_true(berth_budget_chain_add(&other, world.events[2], &lines, NULL));
	assert_int_equal(lines.size, 0);
	world_close(&world);
}

#define LOCAL_RUNNER                                                                                                   \
	"\"backend\":\"local\",\"image\":\"node:22.19.0-bookworm-slim@sha256:"                                         \
	"cff78eb5aa1cf27dc2b6aeea9d31366415a43e9a9ea0ddec00d780b2b66fad0f\",\"platform\":\"linux/amd64\""
#define E2B_RUNNER                                                                                                     \
	"\"backend\":\"e2b\",\"template_id\":\"template-immutable\",\"build_id\":\"build-immutable\",\"cpu_count\":2," \
	"\"memory_mb\":2048,\"platform\":\"linux/x86_64\",\"envd_version\":\"0.2.1\",\"lease_timeout_s\":420"

// What the rest of the table digests: the same encoder over what other modules build.
static void golden_digests_of_the_shared_encoder(void **state)
{
	(void)state;
	static const struct {
		const char *json, *hex;
	} rows[] = {
		{"{" LOCAL_RUNNER "}", "f38c6144971f9b50c1d78664eb1bc4aea87655f01d360684424401ee5a72f04b"},
		{"{\"schema_version\":2," LOCAL_RUNNER ",\"image_manifest_digest\":\"sha256:"
		 "cff78eb5aa1cf27dc2b6aeea9d31366415a43e9a9ea0ddec00d780b2b66fad0f\",\"runner_bundle_digest\":"
		 "\"sha256:a50f6f5e9967a71c8466b7c736f5cdad0a33eb85cd00a2035f1cb884f74d0e9d\",\"internet_access\":"
	         "false}",
			"0485b60fdff5c0214055fb5bb4aba6e08ac91c5c716ad08106ad19165d7e2298"},
		{"{" E2B_RUNNER "}", "924db37202b5f02a080094a253b8f1fdbb382e6432023d2397ef2f17550d262f"},
		{"{\"schema_version\":2," E2B_RUNNER ",\"internet_access\":false,\"timeout_action\":\"kill\","
		 "\"auto_resume\":false,\"volume_mounts\":false,\"runner_bundle_digest\":"
		 "\"sha256:44baa2f9e745e29a86ac213069823413c3dabd90430905948988c8ec6872fdc8\"}",
			"3269c2a6a20c3ba0dcf70d96e789a1a9903577aba6bc06d13b5f8b837d4720dd"},
		{"{\"schema_version\":1,\"provider\":\"e2b\",\"operation\":\"sandbox_create\","
		 "\"maximum_dispatches\":4,\"period_milliseconds\":1000}",
			"031caa3e2e97df20395d521824914ab2f3e8cc4fae4dbdf96417b50aae5a3f37"},
		{"{\"schema_version\":3,\"environment_id\":\"environment-immutable\",\"build_context_digest\":"
		 "\"" DIGEST_OF("e") "\",\"definition_kind\":\"dockerfile_context\",\"docker_image\":null,"
				     "\"cpu_count\":2,\"memory_mb\":1024}",
			"5b635a71481d302c706057734a9151bcf8fedb12c0fa0d93685abb1d59cd430f"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_error err = {0};
		BERTH_AUTO(berth_json_cleanup)
		berth_json *value = berth_json_parse(rows[i].json, strlen(rows[i].json), "row", &err);
		assert_ok(value != NULL, err);
		BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
		assert_true(berth_json_write_canonical(value, &text, NULL));
		struct berth_digest digest = berth_sha256(text.data, text.size);
		char hex[BERTH_DIGEST_HEX_SIZE];
		berth_digest_hex(&digest, hex);
		assert_string_equal(hex, rows[i].hex);
	}
}

static void golden_fingerprint_and_owners(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t size;
		const char *hex;
	} rows[] = {
		{"wmh-e2b-credential-v1\0test-e2b-api-key", sizeof "wmh-e2b-credential-v1\0test-e2b-api-key" - 1,
			"8a4f66408aecb592b23d169a7bccb3b5d7acad6fc50ff6a31bf2b9262c9e434d"},
		{"trial-a", 7, "078f3082673a9eef427ed56b544e6f7517b9bd45f01168d39c70fc2a77c36ab1"},
		{"task__harbor", 12, "04d07bea33351b63bef016717b85dc55ba81c2e481516ac4e23dd09e5562ea29"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_digest digest = berth_sha256(rows[i].text, rows[i].size);
		char hex[BERTH_DIGEST_HEX_SIZE];
		berth_digest_hex(&digest, hex);
		assert_string_equal(hex, rows[i].hex);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(golden_resource_classes),
	cmocka_unit_test(golden_policy_digest),
	cmocka_unit_test(golden_legacy_policy_leaves_a_null_authority_out),
	cmocka_unit_test(golden_event_chain),
	cmocka_unit_test(a_settlement_without_provenance_leaves_it_out_of_its_event),
	cmocka_unit_test(golden_digests_of_the_shared_encoder),
	cmocka_unit_test(golden_fingerprint_and_owners),
};

BERTH_TEST_MAIN(tests)
