// SPDX-License-Identifier: Apache-2.0
// Whose doing an end is: whole trials over a runner that fails where it is told to. The fake is a runner without a
// backend: it remembers what was asked, and its verifier's folder holds one reward.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trial/internal.h"
#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"

enum point { NOWHERE, PREPARE, CREATE, OPEN, SOLUTION_PUT, AGENT, TESTS_PUT, VERIFIER, DOWNLOAD, KILL, MARK };

struct fake {
	struct berth_runner runner;
	enum point point;
	enum berth_error_code code;
	enum berth_create_outcome create_outcome;
	bool exists, was_verified, outlasts_cancel;
	int exit_code;
	const char *reward;
	struct berth_cancel *cancel; // fired where it fails
};

static bool meet(struct fake *fake, enum point point, struct berth_error *err)
{
	if (fake->point != point) {
		return true;
	}
	if (fake->cancel) {
		berth_cancel_fire(fake->cancel);
	}
	return berth_fail(err, fake->code, "it failed with token-of-the-judge");
}

static bool fake_prepare(struct berth_runner *runner, const struct berth_environment_plan *plan, struct berth_sink log,
	struct berth_until until, struct berth_error *err)
{
	(void)log;
	(void)until;
	assert_string_equal(plan->session_id, "quay__2345678__env");
	return meet((struct fake *)runner, PREPARE, err);
}

static enum berth_create_outcome fake_create(struct berth_runner *runner, const struct berth_environment_plan *plan,
	struct berth_created *created, struct berth_until until, struct berth_error *err)
{
	(void)plan;
	(void)until;
	struct fake *fake = (struct fake *)runner;
	if (!meet(fake, CREATE, err)) {
		return fake->create_outcome;
	}
	created->resource_id = berth_strdup("box-1");
	fake->exists = true;
	return BERTH_CREATE_CREATED;
}

static struct berth_environment *fake_open(struct berth_runner *runner, const struct berth_environment_plan *plan,
	const char *resource_id, struct berth_until until, struct berth_error *err)
{
	(void)plan;
	(void)until;
	assert_string_equal(resource_id, "box-1");
	return meet((struct fake *)runner, OPEN, err) ? (struct berth_environment *)runner : NULL;
}

static bool fake_kill(
	struct berth_runner *runner, const char *lease_id, struct berth_until until, struct berth_error *err)
{
	(void)lease_id;
	(void)until;
	struct fake *fake = (struct fake *)runner;
	if (!meet(fake, KILL, err)) {
		return false;
	}
	fake->exists = false;
	return true;
}

static bool fake_exec(struct berth_environment *environment, const struct berth_exec *exec, struct berth_exec_end *end,
	struct berth_until until, struct berth_error *err)
{
	(void)until;
	struct fake *fake = (struct fake *)environment;
	*end = (struct berth_exec_end){.leftovers = "kept", .exit_code = fake->exit_code};
	bool verifier = strstr(exec->command, "/tests/test.sh") != NULL;
	fake->was_verified = fake->was_verified || verifier;
	return meet(fake, verifier ? VERIFIER : AGENT, err);
}

static bool fake_put(struct berth_environment *environment, const struct berth_put *puts, size_t count,
	struct berth_until until, struct berth_error *err)
{
	(void)until;
	bool solution = count == 1 && strcmp(puts[0].target, "/solution") == 0;
	if (!solution) {
		assert_string_equal(puts[0].target, "/logs/verifier");
		assert_true(puts[0].fresh);
	}
	return meet((struct fake *)environment, solution ? SOLUTION_PUT : TESTS_PUT, err);
}

static bool fake_download(struct berth_environment *environment, const char *source, bool is_folder, const char *path,
	struct berth_until until, struct berth_error *err)
{
	(void)is_folder;
	struct fake *fake = (struct fake *)environment;
	// A stopped trial's container must die at once: nothing that comes before may outlast the cancel.
	fake->outlasts_cancel = fake->outlasts_cancel || (fake->cancel && until.cancel != fake->cancel);
	if (strcmp(source, "/logs/verifier") != 0) {
		return true;
	}
	if (!meet(fake, DOWNLOAD, err)) {
		return false;
	}
	BERTH_AUTO_FREE char *file = berth_path_join(path, "reward.txt");
	return !fake->reward || berth_file_write(file, fake->reward, strlen(fake->reward), 0644, err);
}

static berth_json *fake_attest(struct berth_environment *environment, struct berth_until until, struct berth_error *err)
{
	(void)environment;
	(void)until;
	(void)err;
	berth_json *json = berth_json_object();
	berth_json_set(json, "image_id", berth_json_string("sha256:00"));
	return json;
}

static void fake_close(struct berth_environment *environment)
{
	(void)environment;
}

static bool book_mark(void *context, const Berth__V1__LeaseMove *move, struct berth_error *err)
{
	struct fake *fake = context;
	return move->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED || meet(fake, MARK, err);
}

static void put_text(const char *folder, const char *name, const char *text)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	struct berth_error err = {0};
	assert_ok(berth_file_write(path, text, strlen(text), 0755, &err), err);
}

static char *make_task(const char *toml)
{
	char *folder = berth_test_folder();
	for (const char *const *name = (const char *const[]){"environment", "tests", "solution", NULL}; *name; name++) {
		BERTH_AUTO_FREE char *path = berth_path_join(folder, *name);
		assert_true(berth_mkdir_all(path, 0755, NULL));
	}
	put_text(folder, "task.toml", toml);
	put_text(folder, "instruction.md", "Do it.\n");
	put_text(folder, "environment/Dockerfile", "FROM scratch\n");
	put_text(folder, "tests/test.sh", "#!/bin/bash\n");
	put_text(folder, "tests/test.bat", "exit\n");
	put_text(folder, "solution/solve.sh", "#!/bin/bash\n");
	return folder;
}

static Berth__V1__Lease *lease_of(const char *id, Berth__V1__LeaseRole role)
{
	Berth__V1__Lease *lease = berth_alloc(sizeof *lease);
	berth__v1__lease__init(lease);
	berth_proto_set_string(&lease->lease_id, id);
	lease->role = role;
	lease->state = BERTH__V1__LEASE_STATE__LEASE_CREATING;
	return lease;
}

static Berth__V1__Assignment *make_assignment(bool with_token)
{
	Berth__V1__Assignment *assignment = berth_alloc(sizeof *assignment);
	berth__v1__assignment__init(assignment);
	assignment->trial = berth_alloc(sizeof *assignment->trial);
	berth__v1__trial_key__init(assignment->trial);
	berth_proto_set_string(&assignment->trial->job_id, "job-1");
	berth_proto_set_string(&assignment->trial_name, "quay__2345678");
	assignment->spec = berth_alloc(sizeof *assignment->spec);
	berth__v1__job_spec__init(assignment->spec);
	assignment->spec->timeout_multiplier = 1;
	assignment->spec->agent_timeout_multiplier = assignment->spec->verifier_timeout_multiplier = -1;
	assignment->spec->agent_setup_timeout_multiplier = assignment->spec->environment_build_timeout_multiplier = -1;
	Berth__V1__AgentConfig *agent = berth_alloc(sizeof *agent);
	berth__v1__agent_config__init(agent);
	berth_proto_set_string(&agent->name, "oracle");
	berth_proto_append(&assignment->spec->n_agents, &assignment->spec->agents, agent);
	assignment->secrets = berth_alloc(sizeof *assignment->secrets);
	berth__v1__secret_set__init(assignment->secrets);
	if (with_token) {
		Berth__V1__Secret *secret = berth_alloc(sizeof *secret);
		berth__v1__secret__init(secret);
		berth_proto_set_string(&secret->scope, "verifier/0");
		berth_proto_set_string(&secret->name, "JUDGE_TOKEN");
		berth_proto_set_string(&secret->value, "token-of-the-judge");
		secret->sensitive = true;
		berth_proto_append(&assignment->secrets->n_secrets, &assignment->secrets->secrets, secret);
	}
	berth_proto_append(&assignment->n_leases, &assignment->leases,
		lease_of("lease-1", BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT));
	berth_proto_append(&assignment->n_leases, &assignment->leases,
		lease_of("lease-2", BERTH__V1__LEASE_ROLE__VERIFIER_ENVIRONMENT));
	return assignment;
}

#define PLAIN_TOML "[verifier.env]\nJUDGE_TOKEN = \"${JUDGE_TOKEN}\"\n"

static void run(struct fake *fake, const char *toml, Berth__V1__Assignment *assignment, Berth__V1__TrialResult *result)
{
	fake->runner.prepare = fake_prepare;
	fake->runner.create = fake_create;
	fake->runner.open = fake_open;
	fake->runner.kill = fake_kill;
	fake->runner.exec = fake_exec;
	fake->runner.put = fake_put;
	fake->runner.download = fake_download;
	fake->runner.attest = fake_attest;
	fake->runner.close = fake_close;
	BERTH_AUTO_FREE char *task = make_task(toml);
	BERTH_AUTO_FREE char *work = berth_test_folder();
	const struct berth_trial_host host = {
		.leases = {&fake->runner, {book_mark, fake}}, .fleet = "harbor", .agent = "quay-1"};
	const struct berth_trial_input input = {.assignment = assignment, .task_folder = task, .work_folder = work};
	berth__v1__trial_result__init(result);
	berth_trial_run(&host, &input, fake->cancel, result);
	berth_proto_free(assignment);
}

static void h14_every_failure_has_its_exception_and_its_owner(void **state)
{
	(void)state;
	enum { TASK = BERTH__V1__OUTCOME__OUTCOME_TASK, INFRA = BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE };
	static const struct {
		enum point point;
		enum berth_error_code code;
		int outcome;
		const char *exception;
		bool verified;
	} rows[] = {
		{PREPARE, BERTH_ERROR_INVALID, TASK, "RuntimeError", false},
		{PREPARE, BERTH_ERROR_UNAVAILABLE, INFRA, "RuntimeError", false},
		{PREPARE, BERTH_ERROR_TIMEOUT, INFRA, "EnvironmentStartTimeoutError", false},
		{CREATE, BERTH_ERROR_IO, INFRA, "RuntimeError", false},
		{OPEN, BERTH_ERROR_INVALID, TASK, "RuntimeError", false},
		{OPEN, BERTH_ERROR_IO, INFRA, "RuntimeError", false},
		{SOLUTION_PUT, BERTH_ERROR_IO, INFRA, "RuntimeError", false},
		{AGENT, BERTH_ERROR_TIMEOUT, BERTH__V1__OUTCOME__OUTCOME_SCORED, "AgentTimeoutError", true},
		{AGENT, BERTH_ERROR_INTERNAL, INFRA, "RuntimeError", false},
		{AGENT, BERTH_ERROR_UNAVAILABLE, INFRA, "RuntimeError", false},
		{TESTS_PUT, BERTH_ERROR_IO, INFRA, "AddTestsDirError", false},
		{VERIFIER, BERTH_ERROR_TIMEOUT, TASK, "VerifierTimeoutError", true},
		{VERIFIER, BERTH_ERROR_INTERNAL, INFRA, "RuntimeError", true},
		{VERIFIER, BERTH_ERROR_INVALID, TASK, "RuntimeError", true},
		{DOWNLOAD, BERTH_ERROR_IO, INFRA, "DownloadVerifierDirError", true},
		{KILL, BERTH_ERROR_UNAVAILABLE, INFRA, NULL, true},
		{MARK, BERTH_ERROR_IO, INFRA, NULL, true},
		{NOWHERE, BERTH_ERROR_OK, BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL, true},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct fake fake = {.point = rows[i].point,
			.code = rows[i].code,
			.create_outcome = BERTH_CREATE_REJECTED,
			.reward = "1"};
		Berth__V1__TrialResult result;
		run(&fake, PLAIN_TOML, make_assignment(true), &result);
		const char *exception = result.exception ? result.exception->type : NULL;
		bool same = exception && rows[i].exception ? strcmp(exception, rows[i].exception) == 0
		                                           : exception == rows[i].exception;
		bool scored = rows[i].outcome == BERTH__V1__OUTCOME__OUTCOME_SCORED;
		if (!same || (int)result.outcome != rows[i].outcome || fake.was_verified != rows[i].verified ||
			strcmp(result.rewards_json, scored ? "{\"reward\": 1.0}" : "") != 0) {
			fail_msg("row %zu: outcome %d, %s (%s), rewards %s", i, (int)result.outcome,
				exception ? exception : "no exception",
				result.exception ? result.exception->message : "", result.rewards_json);
		}
		assert_false(rows[i].point != KILL && fake.exists);
		berth_trial_result_free(&result);
	}
}

static void secrets_leave_no_trace_in_exceptions(void **state)
{
	(void)state;
	struct fake fake = {.point = PREPARE, .code = BERTH_ERROR_INVALID};
	Berth__V1__TrialResult result;
	run(&fake, PLAIN_TOML, make_assignment(true), &result);
	assert_string_equal(result.exception->message, "it failed with [REDACTED]");
	assert_null(strstr(result.exception->traceback, "judge"));
	assert_non_null(strstr(result.exception->traceback, "phase: environment_setup"));
	berth_trial_result_free(&result);
}

static void a_cancel_ends_in_cancelled_whatever_broke_on_the_way(void **state)
{
	(void)state;
	static const struct {
		enum point point;
		enum berth_error_code code;
	} rows[] = {
		{PREPARE, BERTH_ERROR_CANCELLED},
		{OPEN, BERTH_ERROR_CANCELLED},
		{AGENT, BERTH_ERROR_CANCELLED},
		{AGENT, BERTH_ERROR_TIMEOUT},
		{VERIFIER, BERTH_ERROR_CANCELLED},
		{VERIFIER, BERTH_ERROR_IO},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct fake fake = {
			.point = rows[i].point, .code = rows[i].code, .reward = "1", .cancel = berth_cancel_new(NULL)};
		Berth__V1__TrialResult result;
		run(&fake, PLAIN_TOML, make_assignment(true), &result);
		assert_int_equal(result.outcome, BERTH__V1__OUTCOME__OUTCOME_CANCELLED);
		assert_string_equal(result.exception->type, "CancelledError");
		assert_false(fake.exists);
		assert_false(fake.outlasts_cancel);
		berth_trial_result_free(&result);
		berth_cancel_free(fake.cancel);
	}
}

static void what_can_not_run_as_asked_is_said_before_anything_is_created(void **state)
{
	(void)state;
	static const struct {
		const char *toml, *exception, *part;
		bool with_token;
	} rows[] = {
		{PLAIN_TOML, "ValueError", "JUDGE_TOKEN", false},
		{"[environment]\ngpus = 1\n", "RuntimeError", "environment.gpus", true},
		{"[environment]\nos = \"windows\"\n", "RuntimeError", "environment.os", true},
		{"[environment]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"example.org\"]\n", "ValueError",
			"environment.network_mode", true},
		{"[agent]\nnetwork_mode = \"no-network\"\n", "ValueError", "agent.network_mode", true},
		{"[verifier]\nenvironment_mode = \"separate\"\n", "ValueError", "verifier.environment_mode", true},
		{"artifacts = [{source = \"/srv/x\", service = \"store\"}]\n", "ServiceOperationsUnsupportedError",
			"store", true},
		{"[environment]\ncpus = \"many\"\n", "ValueError", "cpus", true},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct fake fake = {.point = PREPARE, .code = BERTH_ERROR_INTERNAL};
		Berth__V1__TrialResult result;
		run(&fake, rows[i].toml, make_assignment(rows[i].with_token), &result);
		if (result.outcome != BERTH__V1__OUTCOME__OUTCOME_CONFIGURATION || !result.exception ||
			strcmp(result.exception->type, rows[i].exception) != 0 ||
			!strstr(result.exception->message, rows[i].part)) {
			fail_msg("row %zu: outcome %d, %s", i, (int)result.outcome,
				result.exception ? result.exception->message : "no exception");
		}
		berth_trial_result_free(&result);
	}
}

static void a_lease_that_was_not_used_was_never_dispatched(void **state)
{
	(void)state;
	struct fake fake = {.reward = "1"};
	Berth__V1__TrialResult result;
	run(&fake, PLAIN_TOML, make_assignment(true), &result);
	const Berth__V1__Evidence *evidence = result.evidence;
	assert_int_equal(evidence->n_receipts, 2);
	assert_int_equal(evidence->receipts[0]->lease->proof, BERTH__V1__DEATH_PROOF__ABSENCE_SEEN);
	assert_string_equal(evidence->receipts[0]->lease->resource_id, "box-1");
	assert_int_equal(evidence->receipts[1]->lease->proof, BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
	assert_int_equal(evidence->n_attestations, 1);
	assert_string_equal(evidence->attestations[0]->json, "{\"image_id\":\"sha256:00\"}");
	assert_non_null(strstr(evidence->statement, evidence->attestations[0]->digest));
	assert_int_equal(evidence->signature.len, 0); // that is made where its report reaches the disk
	berth_trial_result_free(&result);
}

static void limits_of_nothing_are_missed_at_once(void **state)
{
	(void)state;
	static const struct {
		size_t offset;
		const char *exception;
	} rows[] = {
		{offsetof(Berth__V1__JobSpec, agent_setup_timeout_multiplier), "AgentSetupTimeoutError"},
		{offsetof(Berth__V1__JobSpec, agent_timeout_multiplier), "AgentTimeoutError"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct fake fake = {.reward = "1"};
		Berth__V1__Assignment *assignment = make_assignment(true);
		*(double *)((char *)assignment->spec + rows[i].offset) = 0;
		Berth__V1__TrialResult result;
		run(&fake, PLAIN_TOML "[agent]\ntimeout_sec = 5\n", assignment, &result);
		assert_string_equal(result.exception->type, rows[i].exception);
		berth_trial_result_free(&result);
	}
}

static void without_rewards_a_timed_out_agent_is_the_tasks_own(void **state)
{
	(void)state;
	struct fake fake = {.point = AGENT, .code = BERTH_ERROR_TIMEOUT};
	Berth__V1__TrialResult result;
	run(&fake, PLAIN_TOML, make_assignment(true), &result);
	assert_string_equal(result.exception->type, "AgentTimeoutError");
	assert_int_equal(result.outcome, BERTH__V1__OUTCOME__OUTCOME_TASK);
	assert_string_equal(result.rewards_json, "");
	berth_trial_result_free(&result);
}

static void an_unproven_end_outranks_rewards_and_failures(void **state)
{
	(void)state;
	berth_json *rewards = berth_json_object();
	struct trial_failure none = {0};
	struct trial_failure task = {.type = "VerifierTimeoutError", .outcome = BERTH__V1__OUTCOME__OUTCOME_TASK};
	assert_int_equal(trial_outcome(false, true, &none, rewards), BERTH__V1__OUTCOME__OUTCOME_SCORED);
	assert_int_equal(trial_outcome(true, true, &none, rewards), BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE);
	assert_int_equal(trial_outcome(false, false, &none, rewards), BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE);
	assert_int_equal(trial_outcome(false, false, &task, NULL), BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE);
	assert_int_equal(trial_outcome(false, true, &task, rewards), BERTH__V1__OUTCOME__OUTCOME_TASK);
	assert_int_equal(trial_outcome(false, true, &none, NULL), BERTH__V1__OUTCOME__OUTCOME_TASK);
	berth_json_free(rewards);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(h14_every_failure_has_its_exception_and_its_owner),
	cmocka_unit_test(secrets_leave_no_trace_in_exceptions),
	cmocka_unit_test(a_cancel_ends_in_cancelled_whatever_broke_on_the_way),
	cmocka_unit_test(what_can_not_run_as_asked_is_said_before_anything_is_created),
	cmocka_unit_test(a_lease_that_was_not_used_was_never_dispatched),
	cmocka_unit_test(limits_of_nothing_are_missed_at_once),
	cmocka_unit_test(without_rewards_a_timed_out_agent_is_the_tasks_own),
	cmocka_unit_test(an_unproven_end_outranks_rewards_and_failures),
};
BERTH_TEST_MAIN(tests)
