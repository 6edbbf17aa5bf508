// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/job_internal.h"

struct berth_job_flags berth_job_flags_none(void)
{
	return (struct berth_job_flags){.max_retries = -1,
		.timeout_multiplier = -1,
		.agent_timeout_multiplier = -1,
		.verifier_timeout_multiplier = -1,
		.agent_setup_timeout_multiplier = -1,
		.environment_build_timeout_multiplier = -1,
		.force_build = -1,
		.delete_environment = -1,
		.disable_verification = -1,
		.override_cpus = -1,
		.override_memory_mb = -1,
		.override_storage_mb = -1};
}

void berth_job_flags_free(struct berth_job_flags *flags)
{
	struct berth_strings *lists[] = {&flags->agents, &flags->models, &flags->agent_kwargs, &flags->agent_env,
		&flags->verifier_env, &flags->environment_env, &flags->include, &flags->exclude, &flags->artifacts,
		&flags->retry_include, &flags->retry_exclude, &flags->extra_instructions,
		&flags->extra_instruction_paths};
	for (size_t i = 0; i < BERTH_COUNT(lists); i++) {
		berth_strings_free(lists[i]);
	}
}

static void set_text(berth_json *object, const char *key, const char *text)
{
	if (text) {
		berth_json_set(object, key, berth_json_string(text));
	}
}

static void set_integer(berth_json *object, const char *key, int64_t value, int64_t not_given)
{
	if (value != not_given) {
		berth_json_set(object, key, berth_json_integer(value));
	}
}

static void set_number(berth_json *object, const char *key, double value)
{
	if (value >= 0) {
		berth_json_set(object, key, berth_json_real(value));
	}
}

static berth_json *list_of(const struct berth_strings *texts)
{
	berth_json *list = berth_json_array();
	for (size_t i = 0; i < texts->count; i++) {
		berth_json_append(list, berth_json_string(texts->items[i]));
	}
	return list;
}

static void set_list(berth_json *object, const char *key, const struct berth_strings *texts)
{
	if (texts->count > 0) {
		berth_json_set(object, key, list_of(texts));
	}
}

// Adds "K=V" texts to the object's env.
static bool add_env(berth_json *holder, const struct berth_strings *texts, const char *flag, struct berth_error *err)
{
	for (size_t i = 0; i < texts->count; i++) {
		const char *text = texts->items[i], *equals = strchr(text, '=');
		if (!equals || equals == text) {
			return berth_fail(err, BERTH_ERROR_INVALID, "%s \"%s\": write NAME=VALUE", flag, text);
		}
		BERTH_AUTO_FREE char *name = berth_strndup(text, (size_t)(equals - text));
		berth_json *env = berth_job_object(holder, "env");
		if (!berth_json_is(env, BERTH_JSON_OBJECT)) {
			return true; // the reader names the file's mistake
		}
		berth_json_set(env, name, berth_json_string(equals + 1));
	}
	return true;
}

// One agent for each pair of name and model. Models alone go with the file's agent, when it has just one.
static void set_agents(berth_json *tree, const struct berth_job_flags *flags)
{
	if (flags->agents.count == 0 && flags->models.count == 0) {
		return;
	}
	const berth_json *old = berth_json_get(tree, "agents");
	bool keep = flags->agents.count == 0 && berth_json_is(old, BERTH_JSON_ARRAY) && berth_json_size(old) == 1 &&
	            berth_json_is(berth_json_at(old, 0), BERTH_JSON_OBJECT);
	berth_json *agents = berth_json_array();
	for (size_t i = 0; i == 0 || i < flags->agents.count; i++) {
		for (size_t k = 0; k == 0 || k < flags->models.count; k++) {
			berth_json *agent = keep ? berth_json_copy(berth_json_at(old, 0)) : berth_json_object();
			const char *name = flags->agents.count > 0 ? flags->agents.items[i] : NULL;
			set_text(agent, name && strchr(name, ':') ? "import_path" : "name", name);
			set_text(agent, "model_name", flags->models.count > 0 ? flags->models.items[k] : NULL);
			berth_json_append(agents, agent);
		}
	}
	berth_json_set(tree, "agents", agents);
}

static bool add_agent_options(berth_json *tree, const struct berth_job_flags *flags, struct berth_error *err)
{
	if (flags->agent_kwargs.count == 0 && flags->agent_env.count == 0) {
		return true;
	}
	if (berth_json_size(berth_json_get(tree, "agents")) == 0) {
		berth_json *agents = berth_json_array();
		berth_json_append(agents, berth_json_object());
		berth_json_set(tree, "agents", agents);
	}
	const berth_json *agents = berth_json_get(tree, "agents");
	for (size_t i = 0; i < berth_json_size(agents); i++) {
		berth_json *agent = berth_json_at(agents, i);
		if (!berth_json_is(agent, BERTH_JSON_OBJECT)) {
			return true; // the reader names the file's mistake
		}
		for (size_t k = 0; k < flags->agent_kwargs.count; k++) {
			BERTH_AUTO_FREE char *key = NULL;
			berth_json *value = NULL;
			if (!berth_kwarg_parse(flags->agent_kwargs.items[k], &key, &value, err)) {
				return berth_error_wrap(err, "--ak");
			}
			berth_json *kwargs = berth_job_object(agent, "kwargs");
			if (berth_json_is(kwargs, BERTH_JSON_OBJECT)) {
				berth_json_set(kwargs, key, value);
			} else {
				berth_json_free(value);
			}
		}
		if (!add_env(agent, &flags->agent_env, "--ae", err)) {
			return false;
		}
	}
	return true;
}

// -p replaces the file's tasks and datasets; -i, -x and -l go to every dataset.
static bool set_data(berth_json *tree, const struct berth_job_flags *flags, struct berth_error *err)
{
	bool filtered = flags->include.count > 0 || flags->exclude.count > 0 || flags->n_tasks != 0;
	if (flags->path) {
		bool is_task = berth_task_is_folder(flags->path);
		berth_json *entry = berth_json_object(), *list = berth_json_array();
		set_text(entry, "path", flags->path);
		berth_json_append(list, entry);
		berth_json_remove(tree, is_task ? "datasets" : "tasks");
		berth_json_set(tree, is_task ? "tasks" : "datasets", list);
	}
	const berth_json *datasets = berth_json_get(tree, "datasets");
	if (filtered && berth_json_size(datasets) == 0) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"-i, -x and -l choose among the tasks of a dataset, and there is none: give -p a folder of "
		        "task folders");
	}
	for (size_t i = 0; filtered && i < berth_json_size(datasets); i++) {
		berth_json *dataset = berth_json_at(datasets, i);
		if (berth_json_is(dataset, BERTH_JSON_OBJECT)) {
			set_list(dataset, "task_names", &flags->include);
			set_list(dataset, "exclude_task_names", &flags->exclude);
			set_integer(dataset, "n_tasks", flags->n_tasks, 0);
		}
	}
	return true;
}

static void set_top(berth_json *tree, const struct berth_job_flags *flags)
{
	set_text(tree, "job_name", flags->job_name);
	set_text(tree, "jobs_dir", flags->jobs_dir);
	set_integer(tree, "n_attempts", flags->n_attempts, 0);
	set_integer(tree, "n_concurrent_trials", flags->n_concurrent_trials, 0);
	set_number(tree, "timeout_multiplier", flags->timeout_multiplier);
	set_number(tree, "agent_timeout_multiplier", flags->agent_timeout_multiplier);
	set_number(tree, "verifier_timeout_multiplier", flags->verifier_timeout_multiplier);
	set_number(tree, "agent_setup_timeout_multiplier", flags->agent_setup_timeout_multiplier);
	set_number(tree, "environment_build_timeout_multiplier", flags->environment_build_timeout_multiplier);
	set_list(tree, "artifacts", &flags->artifacts);
	set_list(tree, "extra_instructions", &flags->extra_instructions);
	set_list(tree, "extra_instruction_paths", &flags->extra_instruction_paths);
}

static bool set_retry(berth_json *tree, const struct berth_job_flags *flags)
{
	if (flags->max_retries == -1 && flags->retry_include.count == 0 && flags->retry_exclude.count == 0) {
		return true;
	}
	berth_json *retry = berth_job_object(tree, "retry");
	if (berth_json_is(retry, BERTH_JSON_OBJECT)) {
		set_integer(retry, "max_retries", flags->max_retries, -1);
		set_list(retry, "include_exceptions", &flags->retry_include);
		set_list(retry, "exclude_exceptions", &flags->retry_exclude);
	}
	return true;
}

static bool set_environment(berth_json *tree, const struct berth_job_flags *flags, struct berth_error *err)
{
	berth_json *environment = berth_job_object(tree, "environment");
	if (!berth_json_is(environment, BERTH_JSON_OBJECT)) {
		return true; // the reader names the file's mistake
	}
	set_text(environment, "type", flags->environment_type);
	set_integer(environment, "override_cpus", flags->override_cpus, -1);
	set_integer(environment, "override_memory_mb", flags->override_memory_mb, -1);
	set_integer(environment, "override_storage_mb", flags->override_storage_mb, -1);
	if (flags->force_build >= 0) {
		berth_json_set(environment, "force_build", berth_json_bool(flags->force_build));
	}
	if (flags->delete_environment >= 0) {
		berth_json_set(environment, "delete", berth_json_bool(flags->delete_environment));
	}
	return add_env(environment, &flags->environment_env, "--environment-env", err);
}

static bool set_verifier(berth_json *tree, const struct berth_job_flags *flags, struct berth_error *err)
{
	berth_json *verifier = berth_job_object(tree, "verifier");
	if (!berth_json_is(verifier, BERTH_JSON_OBJECT)) {
		return true; // the reader names the file's mistake
	}
	if (flags->disable_verification >= 0) {
		berth_json_set(verifier, "disable", berth_json_bool(flags->disable_verification));
	}
	return add_env(verifier, &flags->verifier_env, "--ve", err);
}

bool berth_job_apply_flags(berth_json *tree, const struct berth_job_flags *flags, struct berth_error *err)
{
	set_top(tree, flags);
	set_agents(tree, flags);
	return set_retry(tree, flags) && set_environment(tree, flags, err) && set_verifier(tree, flags, err) &&
	       add_agent_options(tree, flags, err) && set_data(tree, flags, err);
}
