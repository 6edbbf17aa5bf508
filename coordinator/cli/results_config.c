// SPDX-License-Identifier: Apache-2.0
// A trial's configuration in Harbor's own keys and their order. What the job's configuration gives goes over Harbor's
// defaults, and what the job's specification says goes over both.
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "coordinator/cli/results_internal.h"

enum kind { PLAIN, SECONDS }; // SECONDS: a number that Harbor holds as a float

struct field {
	const char *key;
	const char *standard; // JSON; NULL: the key is left out unless it is given
	enum kind kind;
};

static const struct field AGENT_FIELDS[] = {
	{"name", "null", PLAIN},
	{"import_path", "null", PLAIN},
	{"model_name", "null", PLAIN},
	{"n_concurrent", "null", PLAIN},
	{"concurrency_group", "null", PLAIN},
	{"skills", "[]", PLAIN},
	{"override_timeout_sec", "null", SECONDS},
	{"override_setup_timeout_sec", "null", SECONDS},
	{"max_timeout_sec", "null", SECONDS},
	{"resume_trajectory", "false", PLAIN},
	{"load_trajectory", "null", PLAIN},
	{"extra_allowed_hosts", "[]", PLAIN},
	{"include_logs", NULL, PLAIN},
	{"exclude_logs", NULL, PLAIN},
	{"kwargs", "{}", PLAIN},
	{"env", NULL, PLAIN},
	{"mcp_servers", "[]", PLAIN},
};

static const struct field ENVIRONMENT_FIELDS[] = {
	{"type", "\"docker\"", PLAIN},
	{"import_path", "null", PLAIN},
	{"force_build", "false", PLAIN},
	{"delete", "true", PLAIN},
	{"cpu_enforcement_policy", "\"auto\"", PLAIN},
	{"memory_enforcement_policy", "\"auto\"", PLAIN},
	{"override_cpus", "null", PLAIN},
	{"override_memory_mb", "null", PLAIN},
	{"override_storage_mb", "null", PLAIN},
	{"override_gpus", "null", PLAIN},
	{"override_tpu", "null", PLAIN},
	{"mounts", "null", PLAIN},
	{"extra_docker_compose", "[]", PLAIN},
	{"env", NULL, PLAIN},
	{"kwargs", "{}", PLAIN},
	{"extra_allowed_hosts", "[]", PLAIN},
};

static const struct field VERIFIER_FIELDS[] = {
	{"override_timeout_sec", "null", SECONDS},
	{"max_timeout_sec", "null", SECONDS},
	{"include_logs", NULL, PLAIN},
	{"exclude_logs", NULL, PLAIN},
	{"env", NULL, PLAIN},
	{"import_path", NULL, PLAIN},
	{"kwargs", NULL, PLAIN},
	{"disable", "false", PLAIN},
};

static const struct field TASK_FIELDS[] = {
	{"path", "null", PLAIN},
	{"git_url", "null", PLAIN},
	{"git_commit_id", "null", PLAIN},
	{"name", "null", PLAIN},
	{"ref", "null", PLAIN},
	{"overwrite", "false", PLAIN},
	{"download_dir", "null", PLAIN},
	{"source", "null", PLAIN},
};

static const struct field TRIAL_FIELDS[] = {
	{"task", "{}", PLAIN},
	{"trial_name", "\"\"", PLAIN},
	{"trials_dir", "\"trials\"", PLAIN},
	{"install_only", "false", PLAIN},
	{"timeout_multiplier", "1.0", SECONDS},
	{"agent_timeout_multiplier", "null", SECONDS},
	{"verifier_timeout_multiplier", "null", SECONDS},
	{"agent_setup_timeout_multiplier", "null", SECONDS},
	{"environment_build_timeout_multiplier", "null", SECONDS},
	{"agent", "{}", PLAIN},
	{"user_agent", "null", PLAIN},
	{"environment", "{}", PLAIN},
	{"verifier", "{}", PLAIN},
	{"artifacts", "[]", PLAIN},
	{"extra_instruction_paths", "[]", PLAIN},
	{"extra_instructions", "[]", PLAIN},
	{"job_id", "null", PLAIN},
	{"source_trial", "null", PLAIN},
};

static berth_json *standard_of(const struct field *field)
{
	return field->standard ? berth_json_parse(field->standard, strlen(field->standard), field->key, NULL) : NULL;
}

static berth_json *value_of(const struct field *field, const berth_json *given)
{
	const berth_json *value = berth_json_get(given, field->key);
	if (!value) {
		return standard_of(field);
	}
	if (!field->standard && berth_json_size(value) == 0 && !berth_json_as_string(value)) {
		return NULL; // an empty table says no more than a missing one
	}
	if (field->kind == SECONDS && berth_json_is(value, BERTH_JSON_INTEGER)) {
		return berth_json_real(berth_json_as_number(value));
	}
	return berth_json_copy(value);
}

static berth_json *filled(const struct field *fields, size_t count, const berth_json *given)
{
	berth_json *object = berth_json_object();
	for (size_t i = 0; i < count; i++) {
		berth_json *value = value_of(&fields[i], given);
		if (value) {
			berth_json_set(object, fields[i].key, value);
		}
	}
	return object;
}

// The members that differ from their defaults.
static berth_json *shortened(const struct field *fields, size_t count, const berth_json *full)
{
	berth_json *object = berth_json_object();
	for (size_t i = 0; i < count; i++) {
		const berth_json *value = berth_json_get(full, fields[i].key);
		BERTH_AUTO(berth_json_cleanup) berth_json *standard = standard_of(&fields[i]);
		if (value && !(standard && berth_json_equal(value, standard))) {
			berth_json_set(object, fields[i].key, berth_json_copy(value));
		}
	}
	return object;
}

static void set_text(berth_json *object, const char *key, const char *text)
{
	if (text && *text) {
		berth_json_set(object, key, berth_json_string(text));
	}
}

static berth_json *agent_config(const struct results_job *job, const Berth__V1__Trial *trial)
{
	const berth_json *agents = berth_json_get(job->config, "agents");
	berth_json *agent = filled(AGENT_FIELDS, BERTH_COUNT(AGENT_FIELDS),
		berth_json_size(agents) == job->spec->n_agents ? berth_json_at(agents, trial->agent) : NULL);
	if (trial->agent < job->spec->n_agents) {
		set_text(agent, "name", job->spec->agents[trial->agent]->name);
		set_text(agent, "model_name", job->spec->agents[trial->agent]->model_name);
	}
	return agent;
}

static berth_json *environment_config(const struct results_job *job)
{
	berth_json *environment =
		filled(ENVIRONMENT_FIELDS, BERTH_COUNT(ENVIRONMENT_FIELDS), berth_json_get(job->config, "environment"));
	set_text(environment, "type", job->spec->environment_type);
	berth_json_set(environment, "force_build", berth_json_bool(job->spec->force_build));
	return environment;
}

static berth_json *verifier_config(const struct results_job *job)
{
	berth_json *verifier =
		filled(VERIFIER_FIELDS, BERTH_COUNT(VERIFIER_FIELDS), berth_json_get(job->config, "verifier"));
	berth_json_set(verifier, "disable", berth_json_bool(job->spec->verifier_disable));
	return verifier;
}

static berth_json *task_config(const struct results_job *job, const Berth__V1__Trial *trial)
{
	berth_json *task = filled(TASK_FIELDS, BERTH_COUNT(TASK_FIELDS), NULL);
	const Berth__V1__Task *given = results_task(job, trial);
	berth_json_set(task, "path", berth_json_string(given ? given->path : ""));
	set_text(task, "source", given ? given->source : NULL);
	return task;
}

static void set_multiplier(berth_json *config, const char *key, double value)
{
	if (value >= 0) {
		berth_json_set(config, key, berth_json_real(value));
	}
}

berth_json *results_trial_config(const struct results_job *job, const Berth__V1__Trial *trial)
{
	const Berth__V1__JobSpec *spec = job->spec;
	berth_json *config = filled(TRIAL_FIELDS, BERTH_COUNT(TRIAL_FIELDS), job->config);
	berth_json_set(config, "task", task_config(job, trial));
	berth_json_set(config, "trial_name", berth_json_string(trial->trial_name));
	berth_json_set(config, "trials_dir", berth_json_string(job->trials_dir));
	if (spec->timeout_multiplier > 0) {
		berth_json_set(config, "timeout_multiplier", berth_json_real(spec->timeout_multiplier));
	}
	set_multiplier(config, "agent_timeout_multiplier", spec->agent_timeout_multiplier);
	set_multiplier(config, "verifier_timeout_multiplier", spec->verifier_timeout_multiplier);
	set_multiplier(config, "agent_setup_timeout_multiplier", spec->agent_setup_timeout_multiplier);
	set_multiplier(config, "environment_build_timeout_multiplier", spec->environment_build_timeout_multiplier);
	berth_json_set(config, "agent", agent_config(job, trial));
	berth_json_set(config, "environment", environment_config(job));
	berth_json_set(config, "verifier", verifier_config(job));
	berth_json_set(config, "job_id", berth_json_string(job->uuid));
	return config;
}

berth_json *results_trial_config_short(const struct results_job *job, const Berth__V1__Trial *trial)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *full = results_trial_config(job, trial);
	berth_json_set(full, "task", shortened(TASK_FIELDS, BERTH_COUNT(TASK_FIELDS), berth_json_get(full, "task")));
	berth_json_set(
		full, "agent", shortened(AGENT_FIELDS, BERTH_COUNT(AGENT_FIELDS), berth_json_get(full, "agent")));
	berth_json_set(full, "environment",
		shortened(ENVIRONMENT_FIELDS, BERTH_COUNT(ENVIRONMENT_FIELDS), berth_json_get(full, "environment")));
	berth_json_set(full, "verifier",
		shortened(VERIFIER_FIELDS, BERTH_COUNT(VERIFIER_FIELDS), berth_json_get(full, "verifier")));
	return shortened(TRIAL_FIELDS, BERTH_COUNT(TRIAL_FIELDS), full);
}
