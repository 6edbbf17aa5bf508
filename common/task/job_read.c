// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/job_internal.h"
#include "common/task/task_internal.h"

// A key that Harbor knows and Berth can't serve: refused unless it is empty, false or null.
static bool refuse(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	(void)member;
	bool empty = berth_json_is(value, BERTH_JSON_ARRAY) || berth_json_is(value, BERTH_JSON_OBJECT)
	                     ? berth_json_size(value) == 0
	                     : berth_json_is(value, BERTH_JSON_BOOL) && !berth_json_as_bool(value);
	if (empty || (berth_json_is(value, BERTH_JSON_INTEGER) && berth_json_as_integer(value) == 0)) {
		return true;
	}
	berth_schema_fail(reading, path, "is not supported here: take it out");
	if (reading->err) {
		reading->err->code = BERTH_ERROR_UNSUPPORTED;
	}
	return false;
}

// A key whose effect is small: said, not refused.
static bool pass_over(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	(void)member;
	bool container = berth_json_is(value, BERTH_JSON_ARRAY) || berth_json_is(value, BERTH_JSON_OBJECT);
	if (!container || berth_json_size(value) > 0) {
		berth_schema_warn(reading, path, "has no effect here");
	}
	return true;
}

static bool read_type(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	const char *text;
	if (!berth_schema_text(reading, path, value, &text)) {
		return false;
	}
	if (strcmp(text, "docker") != 0 && strcmp(text, "e2b") != 0) {
		berth_schema_fail(reading, path, "is \"%s\", which is not supported: write docker or e2b", text);
		if (reading->err) {
			reading->err->code = BERTH_ERROR_UNSUPPORTED;
		}
		return false;
	}
	free(*(char **)member);
	*(char **)member = berth_strdup(text);
	return true;
}

static bool read_excluded(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	struct berth_strings *list = member;
	berth_strings_free(list); // the defaults
	for (size_t i = 0; berth_json_is(value, BERTH_JSON_ARRAY) && i < berth_json_size(value); i++) {
		const char *text;
		if (!berth_schema_text(reading, path, berth_json_at(value, i), &text)) {
			return false;
		}
		berth_strings_add(list, text);
	}
	return berth_json_is(value, BERTH_JSON_ARRAY) ||
	       berth_schema_fail(reading, path, "must be a list of exception names");
}

static bool read_metrics(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	static const char *const known[] = {"mean", "sum", "min", "max"};
	berth_json **metrics = member;
	if (!berth_json_is(value, BERTH_JSON_ARRAY)) {
		return berth_schema_fail(reading, path, "must be a list of metrics: write [{type: mean}]");
	}
	for (size_t i = 0; i < berth_json_size(value); i++) {
		const char *type = berth_json_get_string(berth_json_at(value, i), "type");
		bool fits = false;
		for (size_t k = 0; k < BERTH_COUNT(known); k++) {
			fits |= type && strcmp(type, known[k]) == 0;
		}
		if (!fits) {
			BERTH_AUTO_FREE char *inner = berth_format("%s.%zu", path, i);
			return berth_schema_fail(
				reading, inner, "has the type \"%s\": write mean, sum, min or max", type ? type : "");
		}
	}
	berth_json_free(*metrics);
	*metrics = berth_json_copy(value);
	return true;
}

static const char *const policies[] = {"auto", "limit", "request", "guarantee", "ignore", NULL};

#define JOB(member)   offsetof(struct berth_job, member)
#define RETRY(member) offsetof(struct berth_job_retry, member)
BERTH_TABLE(retry_table, struct berth_job_retry,
	{.key = "max_retries", .kind = BERTH_FIELD_INTEGER, .offset = RETRY(max_retries)},
	{.key = "include_exceptions", .kind = BERTH_FIELD_STRINGS, .offset = RETRY(include)},
	{.key = "exclude_exceptions", .kind = BERTH_FIELD_CUSTOM, .offset = RETRY(exclude), .read = read_excluded},
	{.key = "wait_multiplier", .kind = BERTH_FIELD_NUMBER, .offset = RETRY(wait_multiplier)},
	{.key = "min_wait_sec", .kind = BERTH_FIELD_NUMBER, .offset = RETRY(min_wait_sec)},
	{.key = "max_wait_sec", .kind = BERTH_FIELD_NUMBER, .offset = RETRY(max_wait_sec)})
}
;

BERTH_TABLE(environment_table, struct berth_job,
	{.key = "type", .kind = BERTH_FIELD_CUSTOM, .offset = JOB(environment_type), .read = read_type},
	{.key = "import_path", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "force_build", .kind = BERTH_FIELD_BOOL, .offset = JOB(force_build)},
	{.key = "delete", .kind = BERTH_FIELD_BOOL, .offset = JOB(delete_environment)},
	{.key = "cpu_enforcement_policy", .kind = BERTH_FIELD_WORD, .offset = JOB(cpu_policy), .choices = policies},
	{.key = "memory_enforcement_policy",
		.kind = BERTH_FIELD_WORD,
		.offset = JOB(memory_policy),
		.choices = policies},
	{.key = "override_cpus", .kind = BERTH_FIELD_INTEGER, .offset = JOB(override_cpus)},
	{.key = "override_memory_mb", .kind = BERTH_FIELD_INTEGER, .offset = JOB(override_memory_mb)},
	{.key = "override_storage_mb", .kind = BERTH_FIELD_INTEGER, .offset = JOB(override_storage_mb)},
	{.key = "override_gpus", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "override_tpu", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "mounts", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "extra_docker_compose", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "env", .kind = BERTH_FIELD_ENV, .offset = JOB(environment_env)},
	{.key = "kwargs", .kind = BERTH_FIELD_CUSTOM, .read = pass_over},
	{.key = "extra_allowed_hosts", .kind = BERTH_FIELD_CUSTOM, .read = refuse})
}
;

BERTH_TABLE(verifier_table, struct berth_job,
	{.key = "override_timeout_sec", .kind = BERTH_FIELD_NUMBER, .offset = JOB(verifier_override_timeout_sec)},
	{.key = "max_timeout_sec", .kind = BERTH_FIELD_NUMBER, .offset = JOB(verifier_max_timeout_sec)},
	{.key = "include_logs", .kind = BERTH_FIELD_CUSTOM, .read = pass_over},
	{.key = "exclude_logs", .kind = BERTH_FIELD_CUSTOM, .read = pass_over},
	{.key = "env", .kind = BERTH_FIELD_ENV, .offset = JOB(verifier_env)},
	{.key = "import_path", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "kwargs", .kind = BERTH_FIELD_CUSTOM, .read = pass_over},
	{.key = "disable", .kind = BERTH_FIELD_BOOL, .offset = JOB(verifier_disable)})
}
;

static void agent_defaults(void *members)
{
	((struct berth_job_agent *)members)->kwargs = berth_json_object();
}

#define AGENT(member) offsetof(struct berth_job_agent, member)
BERTH_TABLE(agent_table, struct berth_job_agent, {.key = "name", .kind = BERTH_FIELD_TEXT, .offset = AGENT(name)},
	{.key = "import_path", .kind = BERTH_FIELD_TEXT, .offset = AGENT(import_path)},
	{.key = "model_name", .kind = BERTH_FIELD_TEXT, .offset = AGENT(model_name)},
	{.key = "n_concurrent", .kind = BERTH_FIELD_INTEGER, .offset = AGENT(n_concurrent), .positive = true},
	{.key = "concurrency_group", .kind = BERTH_FIELD_TEXT, .offset = AGENT(concurrency_group)},
	{.key = "override_timeout_sec", .kind = BERTH_FIELD_NUMBER, .offset = AGENT(override_timeout_sec)},
	{.key = "override_setup_timeout_sec", .kind = BERTH_FIELD_NUMBER, .offset = AGENT(override_setup_timeout_sec)},
	{.key = "max_timeout_sec", .kind = BERTH_FIELD_NUMBER, .offset = AGENT(max_timeout_sec)},
	{.key = "kwargs", .kind = BERTH_FIELD_TREE, .offset = AGENT(kwargs)},
	{.key = "env", .kind = BERTH_FIELD_ENV, .offset = AGENT(env)},
	{.key = "extra_allowed_hosts", .kind = BERTH_FIELD_STRINGS, .offset = AGENT(extra_allowed_hosts)},
	{.key = "skills", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "mcp_servers", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "resume_trajectory", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "load_trajectory", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "include_logs", .kind = BERTH_FIELD_CUSTOM, .read = pass_over},
	{.key = "exclude_logs", .kind = BERTH_FIELD_CUSTOM, .read = pass_over}),
	.defaults = agent_defaults
}
;

BERTH_TABLE(job_table, struct berth_job, {.key = "job_name", .kind = BERTH_FIELD_TEXT, .offset = JOB(name)},
	{.key = "jobs_dir", .kind = BERTH_FIELD_TEXT, .offset = JOB(jobs_dir)},
	{.key = "n_attempts", .kind = BERTH_FIELD_INTEGER, .offset = JOB(n_attempts), .positive = true},
	{.key = "install_only", .kind = BERTH_FIELD_BOOL, .offset = JOB(install_only)},
	{.key = "timeout_multiplier", .kind = BERTH_FIELD_NUMBER, .offset = JOB(timeout_multiplier)},
	{.key = "agent_timeout_multiplier", .kind = BERTH_FIELD_NUMBER, .offset = JOB(agent_timeout_multiplier)},
	{.key = "verifier_timeout_multiplier", .kind = BERTH_FIELD_NUMBER, .offset = JOB(verifier_timeout_multiplier)},
	{.key = "agent_setup_timeout_multiplier",
		.kind = BERTH_FIELD_NUMBER,
		.offset = JOB(agent_setup_timeout_multiplier)},
	{.key = "environment_build_timeout_multiplier",
		.kind = BERTH_FIELD_NUMBER,
		.offset = JOB(environment_build_timeout_multiplier)},
	{.key = "debug", .kind = BERTH_FIELD_BOOL, .offset = JOB(debug)},
	{.key = "n_concurrent_trials",
		.kind = BERTH_FIELD_INTEGER,
		.offset = JOB(n_concurrent_trials),
		.positive = true},
	{.key = "quiet", .kind = BERTH_FIELD_BOOL, .offset = JOB(quiet)},
	{.key = "retry", .kind = BERTH_FIELD_TABLE, .offset = JOB(retry), .table = &retry_table},
	{.key = "environment", .kind = BERTH_FIELD_TABLE, .table = &environment_table},
	{.key = "verifier", .kind = BERTH_FIELD_TABLE, .table = &verifier_table},
	{.key = "metrics", .kind = BERTH_FIELD_CUSTOM, .offset = JOB(metrics), .read = read_metrics},
	{.key = "agents",
		.kind = BERTH_FIELD_LIST,
		.offset = JOB(agents),
		.count_offset = JOB(agents_count),
		.table = &agent_table},
	{.key = "user_agent", .kind = BERTH_FIELD_CUSTOM, .read = refuse},
	{.key = "datasets", .kind = BERTH_FIELD_IGNORED}, // job_expand.c
	{.key = "tasks", .kind = BERTH_FIELD_IGNORED},
	{.key = "artifacts", .kind = BERTH_FIELD_CUSTOM, .offset = JOB(artifacts), .read = berth_task_read_artifacts},
	{.key = "extra_instruction_paths", .kind = BERTH_FIELD_STRINGS, .offset = BERTH_NO_STORE},
	{.key = "extra_instructions", .kind = BERTH_FIELD_STRINGS, .offset = BERTH_NO_STORE},
	{.key = "source_jobs", .kind = BERTH_FIELD_CUSTOM, .read = refuse})
}
;

static bool check_agents(struct berth_reading *reading, struct berth_job *job)
{
	for (size_t i = 0; i < job->agents_count; i++) {
		struct berth_job_agent *agent = &job->agents[i];
		BERTH_AUTO_FREE char *path = berth_format("agents.%zu", i);
		if (agent->name && !agent->import_path && strchr(agent->name, ':')) {
			agent->import_path = BERTH_STEAL(agent->name);
		}
		if (!agent->name && !agent->import_path) {
			agent->name = berth_strdup("oracle");
		}
		if (job->n_concurrent_trials > 0 && agent->n_concurrent > job->n_concurrent_trials) {
			return berth_schema_fail(reading, path, "has n_concurrent %lld above n_concurrent_trials %lld",
				(long long)agent->n_concurrent, (long long)job->n_concurrent_trials);
		}
	}
	if (job->agents_count == 0) {
		free(job->agents);
		job->agents = berth_alloc(sizeof *job->agents);
		agent_defaults(job->agents);
		job->agents->name = berth_strdup("oracle");
		job->agents_count = 1;
	}
	return true;
}

// Texts of files first, then those written into the configuration.
static bool read_instructions(struct berth_reading *reading, const berth_json *tree, struct berth_job *job)
{
	const berth_json *paths = berth_json_get(tree, "extra_instruction_paths");
	const berth_json *texts = berth_json_get(tree, "extra_instructions");
	for (size_t i = 0; i < berth_json_size(paths); i++) {
		BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
		const char *path = berth_json_as_string(berth_json_at(paths, i));
		if (!berth_file_read(path, BERTH_TASK_FILE_SIZE_MAX, &text, reading->err)) {
			return berth_error_wrap(reading->err, "extra instruction");
		}
		berth_strings_add(&job->extra_instructions, berth_buf_text(&text));
	}
	for (size_t i = 0; i < berth_json_size(texts); i++) {
		berth_strings_add(&job->extra_instructions, berth_json_as_string(berth_json_at(texts, i)));
	}
	return true;
}

bool berth_job_read(struct berth_reading *reading, const berth_json *tree, struct berth_job *job)
{
	if (!berth_schema_read(reading, &job_table, "", tree, job)) {
		return false;
	}
	job->retry.has_include =
		berth_json_is(berth_json_get(berth_json_get(tree, "retry"), "include_exceptions"), BERTH_JSON_ARRAY);
	if (job->name && (!berth_path_is_safe(job->name) || strchr(job->name, '/'))) {
		return berth_schema_fail(reading, "job_name", "must be the name of one folder, not \"%s\"", job->name);
	}
	return check_agents(reading, job) && read_instructions(reading, tree, job);
}
