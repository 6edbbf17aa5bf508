// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/jobfile.h"
#include "tests/support/test.h"
#include "tests/unit/task/folder.h"

struct fixture {
	char *folder, *file, *dataset;
	struct berth_job_flags flags;
	struct berth_job *job;
};

// A dataset of three tasks, one broken one and one folder that is none, and a job file with "DATA" for its path.
static void set_up(struct fixture *fixture, const char *name, const char *text)
{
	*fixture = (struct fixture){.folder = berth_test_folder(), .flags = berth_job_flags_none()};
	fixture->dataset = berth_path_join(fixture->folder, "dataset");
	static const char *const tasks[] = {"chess-two", "chess-one", "go-gpu", "broken"};
	for (size_t i = 0; i < BERTH_COUNT(tasks); i++) {
		BERTH_AUTO_FREE char *task = berth_path_join(fixture->dataset, tasks[i]);
		test_write(task, "task.toml", strcmp(tasks[i], "broken") == 0 ? "cpus =" : "");
		test_write(task, "instruction.md", "x");
		test_write(task, "environment/Dockerfile", "FROM scratch\n");
		test_write(task, "tests/test.sh", "");
	}
	test_write(fixture->dataset, "docs/readme.txt", "no task");
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	for (const char *at = text; text && *at;) {
		const char *mark = strstr(at, "DATA");
		berth_buf_add(&out, at, mark ? (size_t)(mark - at) : strlen(at));
		berth_buf_add_text(&out, mark ? fixture->dataset : "");
		at = mark ? mark + 4 : at + strlen(at);
	}
	fixture->file = berth_path_join(fixture->folder, name);
	test_write(fixture->folder, name, berth_buf_text(&out));
	fixture->flags.config_file = text ? fixture->file : NULL;
}

static void tear_down(struct fixture *fixture)
{
	berth_job_free(fixture->job);
	berth_job_flags_free(&fixture->flags);
	free(fixture->folder);
	free(fixture->file);
	free(fixture->dataset);
}

static struct berth_job *load(struct fixture *fixture)
{
	struct berth_error err;
	assert_ok(berth_job_load(&fixture->flags, &fixture->job, &err), err);
	return fixture->job;
}

static void assert_refused(const char *text, enum berth_error_code code, const char *part)
{
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yaml", text);
	struct berth_error err;
	assert_fails(berth_job_load(&fixture.flags, &fixture.job, &err), err, code, part);
}

static const char *base_of(const struct berth_job *job, size_t index)
{
	return strrchr(job->tasks[index].path, '/') + 1;
}

static void legacy_files_are_migrated(void **state)
{
	(void)state;
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yaml",
		"jobs_dir: jobs\nn_attempts: 1\ntimeout_multiplier: 1.0\n"
		"orchestrator: {type: local, n_concurrent_trials: 4, quiet: false, retry: {max_retries: 2, "
	        "exclude_exceptions: "
		"[AgentTimeoutError]}}\n"
		"environment: {type: docker, force_build: true, delete: true, env: [\"FOO=bar=baz\"]}\n"
		"agents: [{name: oracle}]\ndatasets: [{path: DATA}]\nplugins: [x]\n");
	const struct berth_job *job = load(&fixture);
	assert_int_equal(job->n_concurrent_trials, 4);
	assert_int_equal(job->retry.max_retries, 2);
	assert_int_equal(job->retry.exclude.count, 1);
	assert_string_equal(job->retry.exclude.items[0], "AgentTimeoutError");
	assert_true(job->force_build && job->delete_environment && !job->quiet);
	assert_string_equal(berth_env_get(&job->environment_env, "FOO"), "bar=baz");
	assert_string_equal(job->agents[0].name, "oracle");
	assert_int_equal(job->tasks_count, 3);
	assert_string_equal(base_of(job, 0), "chess-one");
	assert_string_equal(base_of(job, 1), "chess-two");
	assert_string_equal(job->tasks[2].source, "dataset");
	assert_int_equal(job->warnings.count, 1);
	assert_non_null(strstr(job->warnings.items[0], "broken is left out: "));
}

static const char current[] =
	"job_name: tb2-sonnet\njobs_dir: out\nn_attempts: 5\nn_concurrent_trials: 32\nagent_timeout_multiplier: 2.0\n"
	"retry: {max_retries: 3, include_exceptions: [RuntimeError, EnvironmentStartTimeoutError, ApiRateLimitError], "
	"wait_multiplier: 2, min_wait_sec: 5, max_wait_sec: 120}\n"
	"environment: {type: e2b, cpu_enforcement_policy: auto, override_memory_mb: 4096, env: {HF_TOKEN: "
        "\"${HF_TOKEN}\"}, kwargs: {}}\n"
	"verifier: {override_timeout_sec: 900, env: {OPENAI_API_KEY: \"sk-abcdefghij\", PIN_KEY: short}}\n"
	"agents:\n"
	"  - {name: pi, model_name: anthropic/claude-sonnet-4-5, n_concurrent: 8, kwargs: {thinking: high}, env: "
        "{ANTHROPIC_API_KEY: "
	"\"${ANTHROPIC_API_KEY}\"}}\n"
	"  - {import_path: \"my_pkg.agent:MyAgent\", model_name: openai/gpt-5, max_timeout_sec: 1800}\n"
	"datasets:\n  - {path: DATA, task_names: [\"chess-*\"], exclude_task_names: [\"*-two\"], n_tasks: 20}\n"
	"tasks:\n  - {path: DATA/go-gpu}\n"
	"artifacts: [/app/out.json, {source: /app/logs, destination: logs, exclude: [\"*.bin\"]}]\n"
	"metrics: [{type: mean}]\n";

static void current_files_are_read_whole(void **state)
{
	(void)state;
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yaml", current);
	const struct berth_job *job = load(&fixture);
	assert_string_equal(job->name, "tb2-sonnet");
	assert_string_equal(job->jobs_dir, "out");
	assert_int_equal(job->n_attempts, 5);
	assert_true(job->agent_timeout_multiplier == 2 && job->verifier_timeout_multiplier < 0);
	assert_true(job->retry.has_include && job->retry.include.count == 3);
	assert_int_equal(job->retry.exclude.count, 9);
	assert_true(job->retry.min_wait_sec == 5);
	assert_string_equal(job->environment_type, "e2b");
	assert_int_equal(job->override_memory_mb, 4096);
	assert_int_equal(job->override_cpus, -1);
	assert_string_equal(berth_env_get(&job->environment_env, "HF_TOKEN"), "${HF_TOKEN}");
	assert_true(job->verifier_override_timeout_sec == 900);
	assert_int_equal(job->agents_count, 2);
	assert_int_equal(job->agents[0].n_concurrent, 8);
	assert_string_equal(berth_json_get_string(job->agents[0].kwargs, "thinking"), "high");
	assert_null(job->agents[1].name);
	assert_string_equal(job->agents[1].import_path, "my_pkg.agent:MyAgent");
	assert_int_equal(job->tasks_count, 2);
	assert_string_equal(base_of(job, 0), "go-gpu");
	assert_null(job->tasks[0].source);
	assert_string_equal(base_of(job, 1), "chess-one");
	assert_int_equal(job->artifacts.count, 2);
	assert_string_equal(job->artifacts.items[1].destination, "logs");
	assert_string_equal(berth_json_get_string(berth_json_at(job->metrics, 0), "type"), "mean");
}

static void the_kept_configuration_leaves_out_defaults_and_masks_secrets(void **state)
{
	(void)state;
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yaml", current);
	setenv("PIN_KEY", "other", 1);
	const berth_json *config = load(&fixture)->config;
	const berth_json *environment = berth_json_get(config, "environment");
	assert_null(berth_json_get(environment, "cpu_enforcement_policy"));
	assert_null(berth_json_get(environment, "kwargs"));
	assert_string_equal(berth_json_get_string(environment, "type"), "e2b");
	assert_string_equal(berth_json_get_string(berth_json_get(environment, "env"), "HF_TOKEN"), "${HF_TOKEN}");
	const berth_json *env = berth_json_get(berth_json_get(config, "verifier"), "env");
	assert_string_equal(berth_json_get_string(env, "OPENAI_API_KEY"), "sk-a****hij");
	assert_string_equal(berth_json_get_string(env, "PIN_KEY"), "****");
	assert_null(berth_json_get(config, "quiet"));
	assert_int_equal(berth_json_get_integer(config, "n_concurrent_trials"), 32);
	assert_int_equal(berth_json_size(berth_json_get(config, "agents")), 2);
	// The job itself keeps the value.
	assert_string_equal(berth_env_get(&fixture.job->verifier_env, "OPENAI_API_KEY"), "sk-abcdefghij");
	berth_job_free(BERTH_STEAL(fixture.job));
	setenv("PIN_KEY", "short", 1);
	config = load(&fixture)->config;
	env = berth_json_get(berth_json_get(config, "verifier"), "env");
	assert_string_equal(berth_json_get_string(env, "PIN_KEY"), "${PIN_KEY}");
}

static void flags_win_over_the_file(void **state)
{
	(void)state;
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yaml", current);
	struct berth_job_flags *flags = &fixture.flags;
	flags->path = fixture.dataset;
	flags->job_name = "mine";
	flags->environment_type = "docker";
	flags->n_attempts = 2;
	flags->n_concurrent_trials = 8;
	flags->max_retries = 0;
	flags->n_tasks = 1;
	flags->delete_environment = 0;
	flags->disable_verification = 1;
	flags->override_cpus = 3;
	flags->timeout_multiplier = 1.5;
	berth_strings_add(&flags->agents, "nop");
	berth_strings_add(&flags->agents, "pkg:Agent");
	berth_strings_add(&flags->models, "a/x");
	berth_strings_add(&flags->models, "a/y");
	berth_strings_add(&flags->agent_kwargs, "depth=1.10");
	berth_strings_add(&flags->agent_env, "K=v=w");
	berth_strings_add(&flags->verifier_env, "V=1");
	berth_strings_add(&flags->environment_env, "E=2");
	berth_strings_add(&flags->exclude, "chess-one");
	berth_strings_add(&flags->artifacts, "/only");
	berth_strings_add(&flags->retry_exclude, "RuntimeError");
	berth_strings_add(&flags->extra_instructions, "Be brief.");
	BERTH_AUTO_FREE char *extra = berth_path_join(fixture.folder, "extra.md");
	test_write(fixture.folder, "extra.md", "From a file.");
	berth_strings_add(&flags->extra_instruction_paths, extra);
	const struct berth_job *job = load(&fixture);
	assert_string_equal(job->name, "mine");
	assert_string_equal(job->environment_type, "docker");
	assert_true(job->n_attempts == 2 && job->n_concurrent_trials == 8 && job->retry.max_retries == 0);
	assert_true(!job->delete_environment && job->verifier_disable && job->override_cpus == 3);
	assert_true(job->timeout_multiplier == 1.5);
	assert_int_equal(job->agents_count, 4);
	assert_string_equal(job->agents[1].name, "nop");
	assert_string_equal(job->agents[1].model_name, "a/y");
	assert_string_equal(job->agents[2].import_path, "pkg:Agent");
	assert_true(berth_json_as_number(berth_json_get(job->agents[3].kwargs, "depth")) == 1.1);
	assert_string_equal(berth_env_get(&job->agents[3].env, "K"), "v=w");
	assert_string_equal(berth_env_get(&job->verifier_env, "V"), "1");
	assert_string_equal(berth_env_get(&job->environment_env, "E"), "2");
	assert_string_equal(berth_env_get(&job->environment_env, "HF_TOKEN"), "${HF_TOKEN}");
	assert_int_equal(job->tasks_count, 1);
	assert_string_equal(base_of(job, 0), "chess-two");
	assert_int_equal(job->artifacts.count, 1);
	assert_string_equal(job->retry.exclude.items[0], "RuntimeError");
	assert_int_equal(job->extra_instructions.count, 2);
	assert_string_equal(job->extra_instructions.items[0], "From a file.");
	assert_string_equal(job->extra_instructions.items[1], "Be brief.");
}

static void models_alone_go_with_the_files_only_agent(void **state)
{
	(void)state;
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yml", "agents: [{name: pi, env: {A: b}}]\ndatasets: [{path: DATA}]\n");
	berth_strings_add(&fixture.flags.models, "m/1");
	berth_strings_add(&fixture.flags.models, "m/2");
	const struct berth_job *job = load(&fixture);
	assert_int_equal(job->agents_count, 2);
	assert_string_equal(job->agents[1].name, "pi");
	assert_string_equal(job->agents[1].model_name, "m/2");
	assert_string_equal(berth_env_get(&job->agents[1].env, "A"), "b");
}

static void a_path_alone_is_a_job(void **state)
{
	(void)state;
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yaml", NULL);
	BERTH_AUTO_FREE char *task = berth_path_join(fixture.dataset, "chess-one");
	fixture.flags.path = task;
	const struct berth_job *job = load(&fixture);
	assert_int_equal(job->tasks_count, 1);
	assert_null(job->tasks[0].source);
	assert_string_equal(job->agents[0].name, "oracle");
	assert_int_equal(job->n_concurrent_trials, 0);
	assert_null(job->name);
	assert_string_equal(job->jobs_dir, "jobs");
	assert_string_equal(job->cpu_policy, "auto");
	assert_true(job->delete_environment && !job->retry.has_include);
	assert_int_equal(berth_json_size(job->config), 1);
}

static void json_job_files_are_read_too(void **state)
{
	(void)state;
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.json", "{\"datasets\": [{\"path\": \"DATA\"}], \"n_attempts\": 2.0, \"custom\": 1}");
	const struct berth_job *job = load(&fixture);
	assert_int_equal(job->n_attempts, 2);
	BERTH_AUTO_FREE char *warning = berth_format("%s: custom is an unknown key and has no effect", fixture.file);
	assert_string_equal(job->warnings.items[0], warning);
}

static void unknown_keys_are_warned_of_and_misspelt_ones_refused(void **state)
{
	(void)state;
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yaml", "datasets:\n  - path: DATA\nagents:\n  - name: nop\n    flavour: mint\n");
	const struct berth_job *job = load(&fixture);
	BERTH_AUTO_FREE char *warning =
		berth_format("%s:5: agents[0].flavour is an unknown key and has no effect", fixture.file);
	assert_string_equal(job->warnings.items[0], warning);
	assert_refused("datasets: [{path: DATA}]\n\nn_atempts: 3\n", BERTH_ERROR_INVALID,
		"job.yaml:3: n_atempts is an unknown key: write n_attempts");
	assert_refused("datasets: [{path: DATA}]\nretry: {max_retrys: 3}\n", BERTH_ERROR_INVALID,
		"retry.max_retrys is an unknown key: write max_retries");
}

static void what_can_not_be_done_is_unsupported_by_name(void **state)
{
	(void)state;
	static const char *const rows[][2] = {{"datasets:\n  - {name: terminal-bench, version: \"2.0\"}\n",
						      "job.yaml:2: datasets[0].name is not supported here"},
		{"tasks: [{git_url: \"https://example.org/r.git\", path: t}]\n",
			"tasks[0].git_url is not supported here"},
		{"datasets: [{path: DATA, registry: {name: x, url: y}}]\n",
			"datasets[0].registry_url is not supported"},
		{"environment: {type: modal}\n",
			"environment.type is \"modal\", which is not supported: write docker or e2b"},
		{"environment: {import_path: \"a:B\"}\n", "environment.import_path is not supported"},
		{"environment: {mounts_json: [{type: bind}]}\n", "environment.mounts is not supported"},
		{"agents: [{name: pi, skills: [x]}]\n", "agents[0].skills is not supported"},
		{"source_jobs: [x]\n", "source_jobs is not supported"},
		{"verifier: {import_path: \"a:B\"}\n", "verifier.import_path"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		assert_refused(rows[i][0], BERTH_ERROR_UNSUPPORTED, rows[i][1]);
	}
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yaml",
		"datasets: [{path: DATA}]\nsource_jobs: []\nenvironment: {mounts: null, override_gpus: 0, "
	        "extra_allowed_hosts: []}\n");
	load(&fixture);
}

static void wrong_values_name_file_line_key_and_fix(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{"n_attempts: 1.5\n", "job.yaml:1: n_attempts must be a whole number, not 1.5: write n_attempts: 2"},
		{"n_attempts: 0\n", "n_attempts must be above 0"},
		{"n_concurrent_trials: 0\n", "n_concurrent_trials must be above 0"},
		{"job_name: ../x\n", "job_name must be the name of one folder"},
		{"job_name: 5\n", "job_name must be text, not 5: write job_name: \"5\""},
		{"agents: {name: x}\n", "agents must be a list"}, {"agents: [x]\n", "agents[0] must be a table"},
		{"environment: {env: [\"NOEQUALS\"]}\n", "environment.env must be a table"},
		{"environment: x\n", "environment must be a table"},
		{"n_concurrent_trials: 2\nagents:\n  - {name: x, n_concurrent: 3}\n",
			"job.yaml:3: agents[0] has n_concurrent 3 above"},
		{"metrics: [{type: median}]\n", "write mean, sum, min or max"},
		{"- 1\n", "a job file holds keys and values"}, {"a: [\n", "job.yaml:2:"},
		{"", "no task is left to run"}, {"tasks: [{}]\n", "tasks[0] needs a path"},
		{"tasks: [{path: DATA/docs}]\n", "task.toml"},
		{"datasets: [{path: DATA/docs}]\n", "is neither a task nor a folder of tasks"},
		{"datasets: [{path: DATA/nowhere}]\n", "DATA"},
		{"datasets: [{path: DATA, task_names: [\"chess-*\", \"dame\"]}]\n", "no task is named \"dame\""},
		{"datasets: [{path: DATA, exclude_task_names: [\"*\"]}]\n", "no task is left to run"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		if (strcmp(rows[i][1], "DATA") == 0) {
			assert_refused(rows[i][0], BERTH_ERROR_NOT_FOUND, "nowhere");
		} else if (strcmp(rows[i][1], "task.toml") == 0) {
			assert_refused(rows[i][0], BERTH_ERROR_NOT_FOUND, rows[i][1]);
		} else {
			assert_refused(rows[i][0], BERTH_ERROR_INVALID, rows[i][1]);
		}
	}
}

static void kwargs_are_split_and_read_as_harbor_reads_them(void **state)
{
	(void)state;
	static const char *const rows[][3] = {{"k=1", "k", "1"}, {"k=1.10", "k", "1.1"}, {"k=true", "k", "true"},
		{"k=True", "k", "true"}, {"k=False", "k", "false"}, {"k=None", "k", "null"}, {"k=[1,2]", "k", "[1, 2]"},
		{"k={\"a\":1}", "k", "{\"a\": 1}"}, {"k=abc", "k", "\"abc\""}, {"k=\"abc\"", "k", "\"abc\""},
		{"k=", "k", "\"\""}, {" k = v=w ", "k", "\"v=w\""}, {"=x", "", "\"x\""},
		{"version=\"1.10\"", "version", "\"1.10\""}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		BERTH_AUTO_FREE char *key = NULL;
		BERTH_AUTO(berth_json_cleanup) berth_json *value = NULL;
		BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
		struct berth_error err;
		assert_ok(berth_kwarg_parse(rows[i][0], &key, &value, &err), err);
		berth_json_write(value, 0, &out);
		assert_string_equal(key, rows[i][1]);
		assert_string_equal(berth_buf_text(&out), rows[i][2]);
	}
	struct berth_error err;
	char *key;
	berth_json *value;
	assert_fails(berth_kwarg_parse("k", &key, &value, &err), err, BERTH_ERROR_INVALID, "write key=value");
}

static void flags_that_choose_among_tasks_need_a_dataset(void **state)
{
	(void)state;
	BERTH_AUTO(tear_down) struct fixture fixture;
	set_up(&fixture, "job.yaml", NULL);
	BERTH_AUTO_FREE char *task = berth_path_join(fixture.dataset, "chess-one");
	fixture.flags.path = task;
	fixture.flags.n_tasks = 2;
	struct berth_error err;
	assert_fails(
		berth_job_load(&fixture.flags, &fixture.job, &err), err, BERTH_ERROR_INVALID, "-i, -x and -l choose");
	fixture.flags.config_file = "https://example.org/job.yaml";
	assert_fails(
		berth_job_load(&fixture.flags, &fixture.job, &err), err, BERTH_ERROR_UNSUPPORTED, "fetch the job file");
	fixture.flags.config_file = "job.txt";
	assert_fails(berth_job_load(&fixture.flags, &fixture.job, &err), err, BERTH_ERROR_INVALID, "ends in .yaml");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(legacy_files_are_migrated),
	cmocka_unit_test(current_files_are_read_whole),
	cmocka_unit_test(the_kept_configuration_leaves_out_defaults_and_masks_secrets),
	cmocka_unit_test(flags_win_over_the_file),
	cmocka_unit_test(models_alone_go_with_the_files_only_agent),
	cmocka_unit_test(a_path_alone_is_a_job),
	cmocka_unit_test(json_job_files_are_read_too),
	cmocka_unit_test(unknown_keys_are_warned_of_and_misspelt_ones_refused),
	cmocka_unit_test(what_can_not_be_done_is_unsupported_by_name),
	cmocka_unit_test(wrong_values_name_file_line_key_and_fix),
	cmocka_unit_test(kwargs_are_split_and_read_as_harbor_reads_them),
	cmocka_unit_test(flags_that_choose_among_tasks_need_a_dataset),
};

BERTH_TEST_MAIN(tests)
