// SPDX-License-Identifier: Apache-2.0
#include "common/task/jobfile.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/yaml.h"
#include "common/task/job_internal.h"

#define JOB_FILE_SIZE_MAX ((size_t)4 * 1024 * 1024)

// Failures that a further attempt would only repeat.
static const char *const never_retried[] = {"AgentTimeoutError", "VerifierTimeoutError", "RewardFileNotFoundError",
	"RewardFileEmptyError", "VerifierOutputParseError", "ApiUsageLimitError", "AgentSafetyRefusalError",
	"AgentAuthenticationError", "ModelNotFoundError"};

static struct berth_job *new_job(void)
{
	struct berth_job *job = berth_alloc(sizeof *job);
	*job = (struct berth_job){.jobs_dir = berth_strdup("jobs"),
		.n_attempts = 1,
		.timeout_multiplier = 1,
		.agent_timeout_multiplier = -1,
		.verifier_timeout_multiplier = -1,
		.agent_setup_timeout_multiplier = -1,
		.environment_build_timeout_multiplier = -1,
		.retry = {.wait_multiplier = 1, .min_wait_sec = 1, .max_wait_sec = 60},
		.environment_type = berth_strdup("docker"),
		.delete_environment = true,
		.cpu_policy = berth_strdup("auto"),
		.memory_policy = berth_strdup("auto"),
		.override_cpus = -1,
		.override_memory_mb = -1,
		.override_storage_mb = -1,
		.metrics = berth_json_array()};
	for (size_t i = 0; i < BERTH_COUNT(never_retried); i++) {
		berth_strings_add(&job->retry.exclude, never_retried[i]);
	}
	return job;
}

static bool has_suffix(const char *text, const char *suffix)
{
	size_t length = strlen(text), suffix_length = strlen(suffix);
	return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

static berth_json *parse_file(const char *file, berth_json **lines, struct berth_error *err)
{
	bool json = has_suffix(file, ".json");
	if (strncmp(file, "http://", 7) == 0 || strncmp(file, "https://", 8) == 0) {
		berth_fail(err, BERTH_ERROR_UNSUPPORTED, "%s: fetch the job file and give its path", file);
		return NULL;
	}
	if (!json && !has_suffix(file, ".yaml") && !has_suffix(file, ".yml")) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s: the name of a job file ends in .yaml, .yml or .json", file);
		return NULL;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_file_read(file, JOB_FILE_SIZE_MAX, &text, err)) {
		return NULL;
	}
	berth_json *tree = json ? berth_json_parse(text.data, text.size, file, err)
	                        : berth_yaml_parse_lines(berth_buf_text(&text), text.size, file, lines, err);
	if (tree && !berth_json_is(tree, BERTH_JSON_OBJECT)) {
		bool empty = berth_json_is(tree, BERTH_JSON_NULL);
		berth_json_free(tree);
		tree = empty ? berth_json_object() : NULL;
		if (!empty) {
			berth_fail(err, BERTH_ERROR_INVALID, "%s: a job file holds keys and values", file);
		}
	}
	return tree;
}

static bool read_job(const struct berth_job_flags *flags, struct berth_job *job, struct berth_error *err)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *lines = NULL;
	BERTH_AUTO(berth_json_cleanup)
	berth_json *tree = flags->config_file ? parse_file(flags->config_file, &lines, err) : berth_json_object();
	if (!tree) {
		return false;
	}
	berth_job_migrate(tree);
	if (!berth_job_apply_flags(tree, flags, err)) {
		return false;
	}
	const char *file = flags->config_file ? flags->config_file : "command line";
	struct berth_reading reading = {.file = file,
		.warning_file = file,
		.lines = lines,
		.misspelt_is_error = true,
		.warnings = &job->warnings,
		.err = err};
	if (!berth_job_read(&reading, tree, job) || !berth_job_expand(&reading, tree, job)) {
		return false;
	}
	job->config = berth_job_config(tree);
	return true;
}

bool berth_job_load(const struct berth_job_flags *flags, struct berth_job **job, struct berth_error *err)
{
	struct berth_job *loading = new_job();
	if (!read_job(flags, loading, err)) {
		berth_job_free(loading);
		return false;
	}
	*job = loading;
	return true;
}

static void free_agents(struct berth_job *job)
{
	for (size_t i = 0; i < job->agents_count; i++) {
		struct berth_job_agent *agent = &job->agents[i];
		free(agent->name);
		free(agent->import_path);
		free(agent->model_name);
		free(agent->concurrency_group);
		berth_json_free(agent->kwargs);
		berth_env_free(&agent->env);
		berth_strings_free(&agent->extra_allowed_hosts);
	}
	free(job->agents);
}

void berth_job_free(struct berth_job *job)
{
	if (!job) {
		return;
	}
	free(job->name);
	free(job->jobs_dir);
	berth_strings_free(&job->retry.include);
	berth_strings_free(&job->retry.exclude);
	free(job->environment_type);
	free(job->cpu_policy);
	free(job->memory_policy);
	berth_env_free(&job->environment_env);
	berth_env_free(&job->verifier_env);
	free_agents(job);
	berth_task_artifacts_free(&job->artifacts);
	berth_strings_free(&job->extra_instructions);
	for (size_t i = 0; i < job->tasks_count; i++) {
		free(job->tasks[i].path);
		free(job->tasks[i].source);
	}
	free(job->tasks);
	berth_json_free(job->metrics);
	berth_json_free(job->config);
	berth_strings_free(&job->warnings);
	free(job);
}
