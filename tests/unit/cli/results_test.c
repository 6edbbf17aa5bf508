// SPDX-License-Identifier: Apache-2.0
// What a reader of Harbor's result folders gets from us (harbor.md, section 4 and Appendix G).
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"
#include "tests/unit/cli/fixture.h"

#define TEXT_SIZE_MAX (1024 * 1024)
#define WRITTEN(name)                                                                                                  \
	BERTH_AUTO(fixture_free) struct fixture name;                                                                  \
	fixture_make(&name);                                                                                           \
	berth_results_free(fixture_write(&name))

static char *read_text(const char *path)
{
	struct berth_error err;
	struct berth_buf text = {0};
	assert_ok(berth_file_read(path, TEXT_SIZE_MAX, &text, &err), err);
	berth_buf_add_text(&text, "");
	return text.data ? berth_buf_steal(&text) : berth_strdup("");
}

static char *job_text(const struct fixture *fixture, const char *path)
{
	BERTH_AUTO_FREE char *full = berth_format("%s/tide/%s", fixture->folder, path);
	return read_text(full);
}

static char *replaced(const char *text, const char *what, const char *with)
{
	struct berth_buf out = {0};
	for (const char *at; (at = strstr(text, what)); text = at + strlen(what)) {
		berth_buf_add(&out, text, (size_t)(at - text));
		berth_buf_add_text(&out, with);
	}
	berth_buf_add_text(&out, text);
	return berth_buf_steal(&out);
}

static bool job_has(const struct fixture *fixture, const char *path)
{
	BERTH_AUTO_FREE char *full = berth_format("%s/tide/%s", fixture->folder, path);
	return berth_file_exists(full);
}

static void a_trial_result_is_byte_for_byte_the_golden_one(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO_FREE char *golden_path = berth_test_data("tests/unit/cli/golden_result.json");
	BERTH_AUTO_FREE char *golden = read_text(golden_path);
	BERTH_AUTO_FREE char *text = job_text(&fixture, "hello-world__aaaaaa2/result.json");
	BERTH_AUTO(berth_json_cleanup) berth_json *result = fixture_read(&fixture, "hello-world__aaaaaa2/result.json");
	BERTH_AUTO_FREE char *with_folder = replaced(golden, "@FOLDER@", fixture.folder);
	BERTH_AUTO_FREE char *wanted = replaced(with_folder, "@ID@", berth_json_get_string(result, "id"));
	if (wanted[strlen(wanted) - 1] == '\n' && text[strlen(text) - 1] != '\n') {
		wanted[strlen(wanted) - 1] = 0;
	}
	assert_string_equal(text, wanted);
}

static void a_trial_folder_has_its_name_and_what_the_trial_left(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *result = fixture_read(&fixture, "fog__aaaaaa4/result.json");
	assert_string_equal(berth_json_get_string(result, "trial_name"), "fog__aaaaaa4");
	BERTH_AUTO_FREE char *agent = job_text(&fixture, "fog__aaaaaa4/agent/oracle.txt");
	assert_string_equal(agent, "hello\n");
	assert_true(job_has(&fixture, "fog__aaaaaa4/verifier/reward.txt"));
	assert_false(job_has(&fixture, "fog__aaaaaa4/result.json/forged"));
	assert_false(job_has(&fixture, "fog__aaaaaa4/exception.txt"));
}

static void a_task_id_has_the_keys_of_one_kind_alone(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *result = fixture_read(&fixture, "fog__aaaaaa4/result.json");
	assert_int_equal(berth_json_size(fixture_at(result, "task_id")), 1);
	assert_string_equal(berth_json_as_string(fixture_at(result, "task_id.path")), "examples/tasks/fog");
	assert_string_equal(berth_json_get_string(result, "source"), "harbour-set");
}

static void a_trial_config_leaves_defaults_out_and_keeps_what_was_planned(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *config = fixture_read(&fixture, "hello-world__aaaaaa3/config.json");
	assert_string_equal(berth_json_as_string(fixture_at(config, "task.path")), "examples/tasks/hello-world");
	assert_int_equal(berth_json_size(fixture_at(config, "task")), 1);
	assert_string_equal(berth_json_as_string(fixture_at(config, "agent.model_name")), "anthropic/quay-1");
	assert_true(berth_json_is(fixture_at(config, "agent.override_timeout_sec"), BERTH_JSON_REAL));
	assert_string_equal(berth_json_as_string(fixture_at(config, "agent.env.API_KEY")), "****");
	assert_int_equal(berth_json_as_integer(fixture_at(config, "environment.override_cpus")), 2);
	assert_null(berth_json_get(config, "timeout_multiplier"));
	assert_null(berth_json_get(config, "verifier"));
	assert_string_equal(berth_json_get_string(config, "job_id"), "01234567-89ab-4def-8123-456789abcdef");
}

static void every_time_inside_a_trial_ends_in_z_and_a_job_has_none_that_does(void **state)
{
	(void)state;
	static const char *const TRIAL[] = {"started_at", "finished_at", "environment_setup.started_at",
		"verifier.finished_at", "exception_info.occurred_at"};
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *trial = fixture_read(&fixture, "hello-world__aaaaaa7/result.json");
	for (size_t i = 0; i < BERTH_COUNT(TRIAL); i++) {
		const char *text = berth_json_as_string(fixture_at(trial, TRIAL[i]));
		assert_non_null(text);
		assert_int_equal(text[strlen(text) - 1], 'Z');
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *job = fixture_read(&fixture, "result.json");
	const char *text = berth_json_get_string(job, "started_at");
	assert_string_equal(text, "2026-08-22T11:59:59.000000");
	assert_null(strchr(berth_json_get_string(job, "finished_at"), 'Z'));
	assert_null(strchr(berth_json_get_string(job, "updated_at"), 'Z'));
}

static void rewards_stay_as_the_verifier_wrote_them(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *whole = fixture_read(&fixture, "fog__aaaaaa4/result.json");
	assert_true(berth_json_is(fixture_at(whole, "verifier_result.rewards.reward"), BERTH_JSON_INTEGER));
	BERTH_AUTO(berth_json_cleanup) berth_json *real = fixture_read(&fixture, "hello-world__aaaaaa3/result.json");
	assert_true(berth_json_is(fixture_at(real, "verifier_result.rewards.reward"), BERTH_JSON_REAL));
	BERTH_AUTO(berth_json_cleanup) berth_json *none = fixture_read(&fixture, "fog__aaaaaa8/result.json");
	assert_true(berth_json_is(berth_json_get(none, "verifier_result"), BERTH_JSON_NULL));
}

static void an_exception_has_all_four_texts_and_a_file(void **state)
{
	(void)state;
	static const char *const KEYS[] = {"exception_type", "exception_message", "exception_traceback", "occurred_at"};
	static const char *const TRIALS[] = {"hello-world__aaaaaa7", "fog__aaaaaa8", "fog__aaaaaa9"};
	WRITTEN(fixture);
	for (size_t i = 0; i < BERTH_COUNT(TRIALS); i++) {
		BERTH_AUTO_FREE char *path = berth_format("%s/result.json", TRIALS[i]);
		BERTH_AUTO(berth_json_cleanup) berth_json *result = fixture_read(&fixture, path);
		const berth_json *info = berth_json_get(result, "exception_info");
		assert_int_equal(berth_json_size(info), BERTH_COUNT(KEYS));
		for (size_t k = 0; k < BERTH_COUNT(KEYS); k++) {
			assert_non_null(berth_json_get_string(info, KEYS[k]));
		}
		BERTH_AUTO_FREE char *file = berth_format("%s/exception.txt", TRIALS[i]);
		BERTH_AUTO_FREE char *text = job_text(&fixture, file);
		assert_non_null(strstr(text, berth_json_get_string(info, "exception_type")));
	}
}

// Its last run said that it was scored, and had not the evidence for it.
static void a_score_that_did_not_count_is_no_outcome(void **state)
{
	(void)state;
	BERTH_AUTO(fixture_free) struct fixture fixture;
	fixture_make(&fixture);
	fixture.trials[0]->state = BERTH__V1__TRIAL_STATE__TRIAL_QUARANTINED;
	assert_int_equal(fixture.trials[0]->result->outcome, BERTH__V1__OUTCOME__OUTCOME_SCORED);
	BERTH_AUTO_FREE char *path = berth_format("%s/result.json", fixture.trials[0]->trial_name);
	berth_results_free(fixture_write(&fixture));
	BERTH_AUTO(berth_json_cleanup) berth_json *result = fixture_read(&fixture, path);
	assert_string_equal(berth_json_as_string(fixture_at(result, "fleet.outcome")), "infrastructure");
}

static void a_quarantined_trial_says_which_hosts_failed_it(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *result = fixture_read(&fixture, "fog__aaaaaa9/result.json");
	assert_string_equal(
		berth_json_as_string(fixture_at(result, "exception_info.exception_type")), "InfrastructureError");
	assert_string_equal(berth_json_as_string(fixture_at(result, "fleet.outcome")), "infrastructure");
	assert_int_equal(berth_json_as_integer(fixture_at(result, "fleet.attempts")), 3);
	assert_int_equal(berth_json_as_integer(fixture_at(result, "fleet.generation")), 3);
	assert_string_equal(berth_json_as_string(fixture_at(result, "fleet.notes.1")),
		"generation 2 on quay-2: registry answered 429");
	assert_true(berth_json_is(berth_json_get(result, "verifier_result"), BERTH_JSON_NULL));
	assert_true(berth_json_is(berth_json_get(result, "agent_execution"), BERTH_JSON_NULL));
}

static void a_job_result_has_what_a_reader_demands(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *job = fixture_read(&fixture, "result.json");
	assert_string_equal(berth_json_get_string(job, "id"), "01234567-89ab-4def-8123-456789abcdef");
	assert_int_equal(berth_json_get_integer(job, "n_total_trials"), FIXTURE_TRIALS);
	assert_int_equal(berth_json_as_integer(fixture_at(job, "stats.n_completed_trials")), 8);
	assert_int_equal(berth_json_as_integer(fixture_at(job, "stats.n_errored_trials")), 3);
	assert_int_equal(berth_json_as_integer(fixture_at(job, "stats.n_pending_trials")), 0);
	assert_true(berth_json_is(fixture_at(job, "stats.cost_usd"), BERTH_JSON_NULL));
	BERTH_AUTO(berth_json_cleanup) berth_json *lock = fixture_read(&fixture, "lock.json");
	assert_int_equal(berth_json_get_integer(lock, "schema_version"), 3);
	assert_int_equal(berth_json_size(berth_json_get(lock, "trials")), FIXTURE_TRIALS);
	assert_string_equal(berth_json_as_string(fixture_at(lock, "trials.2.task.source")), "harbour-set");
	assert_null(fixture_at(lock, "trials.0.agent.model_name"));
	BERTH_AUTO(berth_json_cleanup) berth_json *config = fixture_read(&fixture, "config.json");
	assert_int_equal(berth_json_get_integer(config, "n_attempts"), 2);
}

static void evals_are_kept_by_agent_model_and_data_set(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *job = fixture_read(&fixture, "result.json");
	const berth_json *evals = fixture_at(job, "stats.evals");
	assert_int_equal(berth_json_size(evals), 4);
	const berth_json *adhoc = berth_json_get(evals, "oracle__adhoc");
	assert_int_equal(berth_json_get_integer(adhoc, "n_trials"), 2);
	assert_true(berth_json_as_number(fixture_at(adhoc, "metrics.0.mean")) == 0.5);
	const berth_json *values = fixture_at(adhoc, "reward_stats.reward");
	assert_string_equal(
		berth_json_as_string(berth_json_at(berth_json_get(values, "1.0"), 0)), "hello-world__aaaaaa2");
	assert_string_equal(
		berth_json_as_string(berth_json_at(berth_json_get(values, "0.0"), 0)), "hello-world__aaaaaa6");
	assert_true(berth_json_as_number(fixture_at(adhoc, "pass_at_k.2")) == 1.0);
	const berth_json *model = berth_json_get(evals, "nop__quay-1__adhoc");
	assert_int_equal(berth_json_get_integer(model, "n_errors"), 1);
	assert_string_equal(
		berth_json_as_string(fixture_at(model, "exception_stats.AgentTimeoutError.0")), "hello-world__aaaaaa7");
}

static void unscored_cells_are_missing_from_the_mean_and_named_in_the_coverage(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *job = fixture_read(&fixture, "result.json");
	const berth_json *fog = fixture_at(job, "stats.evals.oracle__harbour-set");
	assert_int_equal(berth_json_get_integer(fog, "n_trials"), 1);
	assert_int_equal(berth_json_get_integer(fog, "n_errors"), 1);
	assert_true(berth_json_as_number(fixture_at(fog, "metrics.0.mean")) == 1.0);
	const berth_json *fleet = fixture_at(job, "fleet.evals.oracle__harbour-set");
	assert_true(berth_json_as_number(berth_json_get(fleet, "coverage")) == 0.5);
	assert_true(berth_json_as_number(fixture_at(fleet, "mean_with_unscored_as_0.mean")) == 0.5);
	assert_true(berth_json_as_number(fixture_at(job, "fleet.coverage")) == 0.75);
	assert_int_equal(berth_json_as_integer(fixture_at(job, "fleet.n_quarantined")), 1);
}

static void several_reward_keys_give_a_mean_each_and_no_pass_at_k(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO(berth_json_cleanup) berth_json *job = fixture_read(&fixture, "result.json");
	const berth_json *eval = berth_json_get(fixture_at(job, "stats.evals"), "nop__quay-1__harbour-set");
	assert_true(berth_json_as_number(fixture_at(eval, "metrics.0.speed")) == 2.5);
	assert_true(berth_json_is(fixture_at(eval, "metrics.0.reward"), BERTH_JSON_REAL));
	assert_int_equal(berth_json_size(berth_json_get(eval, "pass_at_k")), 0);
}

static void a_second_writing_adds_only_what_is_missing(void **state)
{
	(void)state;
	WRITTEN(fixture);
	assert_int_equal(fixture.fetches, 7);
	BERTH_AUTO_FREE char *first = job_text(&fixture, "result.json");
	BERTH_AUTO_FREE char *lost = berth_format("%s/tide/fog__aaaaaa4", fixture.folder);
	BERTH_AUTO_FREE char *torn = berth_format("%s/tide/fog__aaaaaa5/result.json", fixture.folder);
	struct berth_error err;
	assert_ok(berth_remove_all(lost, &err), err);
	assert_ok(berth_file_write(torn, "{\"id\": ", 7, 0644, &err), err);
	struct berth_results *results = fixture_write(&fixture);
	assert_int_equal(berth_results_counts(results)->written, 2);
	berth_results_free(results);
	assert_int_equal(fixture.fetches, 9);
	BERTH_AUTO_FREE char *second = job_text(&fixture, "result.json");
	assert_string_equal(first, second);
	BERTH_AUTO(berth_json_cleanup) berth_json *mended = fixture_read(&fixture, "fog__aaaaaa5/result.json");
	assert_string_equal(berth_json_get_string(mended, "trial_name"), "fog__aaaaaa5");
}

static void a_blob_with_other_bytes_leaves_no_folder(void **state)
{
	(void)state;
	BERTH_AUTO(fixture_free) struct fixture fixture;
	fixture_make(&fixture);
	fixture.blob.data[700] ^= 1;
	struct berth_error err;
	struct berth_results *results =
		berth_results_open(fixture.folder, fixture.job, fixture.spec, fixture_blobs(&fixture), &err);
	assert_ok(results, err);
	assert_fails(
		berth_results_add(results, fixture.trials[0], &err), err, BERTH_ERROR_CORRUPT, "hello-world__aaaaaa2");
	berth_results_free(results);
	assert_false(job_has(&fixture, "hello-world__aaaaaa2"));
}

static void what_a_killed_writer_left_is_cleared(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO_FREE char *stale = berth_format("%s/tide/.berth-partial-Zz9aaa/agent", fixture.folder);
	struct berth_error err;
	assert_ok(berth_mkdir_all(stale, 0755, &err), err);
	berth_results_free(fixture_write(&fixture));
	assert_false(berth_file_exists(stale));
}

static void another_jobs_folder_is_refused_with_the_fix(void **state)
{
	(void)state;
	WRITTEN(fixture);
	berth_proto_set_string(&fixture.job->job_id, "ffffffffffffffffffffffffffffffff");
	struct berth_error err;
	assert_fails(berth_results_open(fixture.folder, fixture.job, fixture.spec, fixture_blobs(&fixture), &err), err,
		BERTH_ERROR_CONFLICT, "--jobs-dir");
}

static void two_writers_at_once_are_refused(void **state)
{
	(void)state;
	BERTH_AUTO(fixture_free) struct fixture fixture;
	fixture_make(&fixture);
	struct berth_results *first = fixture_write(&fixture);
	struct berth_error err;
	assert_fails(berth_results_open(fixture.folder, fixture.job, fixture.spec, fixture_blobs(&fixture), &err), err,
		BERTH_ERROR_CONFLICT, "another berth");
	berth_results_free(first);
}

static void a_name_that_leaves_the_folder_is_refused(void **state)
{
	(void)state;
	BERTH_AUTO(fixture_free) struct fixture fixture;
	fixture_make(&fixture);
	struct berth_error err;
	berth_proto_set_string(&fixture.trials[0]->trial_name, "../out");
	struct berth_results *results =
		berth_results_open(fixture.folder, fixture.job, fixture.spec, fixture_blobs(&fixture), &err);
	assert_ok(results, err);
	assert_fails(berth_results_add(results, fixture.trials[0], &err), err, BERTH_ERROR_INVALID, "../out");
	berth_results_free(results);
	berth_proto_set_string(&fixture.job->name, "..");
	assert_fails(berth_results_open(fixture.folder, fixture.job, fixture.spec, fixture_blobs(&fixture), &err), err,
		BERTH_ERROR_INVALID, "..");
}

static void a_running_job_has_no_end_and_no_folder_for_what_runs(void **state)
{
	(void)state;
	BERTH_AUTO(fixture_free) struct fixture fixture;
	fixture_make(&fixture);
	fixture.job->ended_at_ns = 0;
	fixture.trials[0]->state = BERTH__V1__TRIAL_STATE__TRIAL_RUNNING;
	fixture.trials[1]->state = BERTH__V1__TRIAL_STATE__TRIAL_CANCELLED;
	fixture.trials[1]->started_at_ns = 0;
	berth_proto_free(BERTH_STEAL(fixture.trials[1]->result));
	berth_results_free(fixture_write(&fixture));
	BERTH_AUTO(berth_json_cleanup) berth_json *job = fixture_read(&fixture, "result.json");
	assert_true(berth_json_is(berth_json_get(job, "finished_at"), BERTH_JSON_NULL));
	assert_int_equal(berth_json_as_integer(fixture_at(job, "stats.n_running_trials")), 1);
	assert_int_equal(berth_json_as_integer(fixture_at(job, "stats.n_cancelled_trials")), 1);
	assert_false(job_has(&fixture, "hello-world__aaaaaa2"));
	assert_false(job_has(&fixture, "hello-world__aaaaaa3"));
	assert_null(fixture_at(job, "stats.evals.nop__quay-1__adhoc.exception_stats.CancelledError"));
}

static void add_step(Berth__V1__TrialResult *result, const char *name, const char *rewards)
{
	Berth__V1__StepResult *step = berth_alloc(sizeof *step);
	berth__v1__step_result__init(step);
	berth_proto_set_string(&step->name, name);
	berth_proto_set_string(&step->rewards_json, rewards);
	step->agent_execution = berth_proto_clone(result->agent_execution);
	step->usage = berth_alloc(sizeof *step->usage);
	berth__v1__agent_usage__init(step->usage);
	step->usage->known = true;
	step->usage->input_tokens = 1000;
	step->usage->cost_nano_usd = 12300000;
	berth_proto_append(&result->n_steps, &result->steps, step);
}

static void steps_have_results_of_their_own_and_the_trial_has_no_agent_result(void **state)
{
	(void)state;
	BERTH_AUTO(fixture_free) struct fixture fixture;
	fixture_make(&fixture);
	add_step(fixture.trials[0]->result, "moor", "{\"reward\":1}");
	add_step(fixture.trials[0]->result, "unload", "");
	berth_results_free(fixture_write(&fixture));
	BERTH_AUTO(berth_json_cleanup) berth_json *trial = fixture_read(&fixture, "hello-world__aaaaaa2/result.json");
	assert_true(berth_json_is(berth_json_get(trial, "agent_result"), BERTH_JSON_NULL));
	assert_string_equal(berth_json_as_string(fixture_at(trial, "step_results.1.step_name")), "unload");
	assert_true(berth_json_is(fixture_at(trial, "step_results.1.verifier_result"), BERTH_JSON_NULL));
	assert_true(berth_json_as_number(fixture_at(trial, "step_results.0.agent_result.cost_usd")) == 0.0123);
	BERTH_AUTO(berth_json_cleanup) berth_json *job = fixture_read(&fixture, "result.json");
	assert_int_equal(berth_json_as_integer(fixture_at(job, "stats.n_input_tokens")), 2000);
	assert_true(berth_json_as_number(fixture_at(job, "stats.cost_usd")) == 0.0246);
}

// The reader is written in Python from the description of the folders, and shares no code with the writer.
static void an_independent_reader_takes_the_whole_folder(void **state)
{
	(void)state;
	WRITTEN(fixture);
	BERTH_AUTO_FREE char *reader = berth_test_data("tests/support/harbor_reader.py");
	BERTH_AUTO_FREE char *command =
		berth_format("/usr/bin/python3 -B '%s' '%s/tide' %d", reader, fixture.folder, FIXTURE_TRIALS);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	setenv("TZ", "UTC", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_trial_result_is_byte_for_byte_the_golden_one),
		cmocka_unit_test(a_trial_folder_has_its_name_and_what_the_trial_left),
		cmocka_unit_test(a_task_id_has_the_keys_of_one_kind_alone),
		cmocka_unit_test(a_trial_config_leaves_defaults_out_and_keeps_what_was_planned),
		cmocka_unit_test(every_time_inside_a_trial_ends_in_z_and_a_job_has_none_that_does),
		cmocka_unit_test(rewards_stay_as_the_verifier_wrote_them),
		cmocka_unit_test(an_exception_has_all_four_texts_and_a_file),
		cmocka_unit_test(a_score_that_did_not_count_is_no_outcome),
		cmocka_unit_test(a_quarantined_trial_says_which_hosts_failed_it),
		cmocka_unit_test(a_job_result_has_what_a_reader_demands),
		cmocka_unit_test(evals_are_kept_by_agent_model_and_data_set),
		cmocka_unit_test(unscored_cells_are_missing_from_the_mean_and_named_in_the_coverage),
		cmocka_unit_test(several_reward_keys_give_a_mean_each_and_no_pass_at_k),
		cmocka_unit_test(a_second_writing_adds_only_what_is_missing),
		cmocka_unit_test(a_blob_with_other_bytes_leaves_no_folder),
		cmocka_unit_test(what_a_killed_writer_left_is_cleared),
		cmocka_unit_test(another_jobs_folder_is_refused_with_the_fix),
		cmocka_unit_test(two_writers_at_once_are_refused),
		cmocka_unit_test(a_name_that_leaves_the_folder_is_refused),
		cmocka_unit_test(a_running_job_has_no_end_and_no_folder_for_what_runs),
		cmocka_unit_test(steps_have_results_of_their_own_and_the_trial_has_no_agent_result),
		cmocka_unit_test(an_independent_reader_takes_the_whole_folder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
