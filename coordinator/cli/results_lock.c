// SPDX-License-Identifier: Apache-2.0
#include "common/base/mem.h"
#include "coordinator/cli/results_internal.h"

#define TRIAL_LOCK_VERSION 2
#define JOB_LOCK_VERSION   3
// Whose layout this is, and that Harbor itself did not write it.
#define HARBOR_VERSION     "0.22.0+berth"
#define CONCURRENT_DEFAULT 4 // what a missing n_concurrent_trials means to a reader

static berth_json *without_nulls(const berth_json *object)
{
	berth_json *kept = berth_json_object();
	void *cursor = NULL;
	const char *key;
	berth_json *value;
	while (berth_json_next(object, &cursor, &key, &value)) {
		if (!berth_json_is(value, BERTH_JSON_NULL)) {
			berth_json_set(kept, key, berth_json_copy(value));
		}
	}
	return kept;
}

static berth_json *task_lock(const Berth__V1__Task *task)
{
	berth_json *lock = berth_json_object();
	berth_json_set(lock, "name", berth_json_string(task ? task->name : ""));
	berth_json_set(lock, "type", berth_json_string("local"));
	berth_json_set(lock, "digest", berth_json_string(task ? task->lock_digest : ""));
	if (task && *task->source) {
		berth_json_set(lock, "source", berth_json_string(task->source));
	}
	berth_json_set(lock, "path", berth_json_string(task ? task->path : ""));
	return lock;
}

static void copy_key(berth_json *to, const berth_json *from, const char *key)
{
	const berth_json *value = berth_json_get(from, key);
	if (value && !berth_json_is(value, BERTH_JSON_NULL)) {
		berth_json_set(to, key, berth_json_copy(value));
	}
}

berth_json *results_trial_lock(const struct results_job *job, const Berth__V1__Trial *trial)
{
	static const char *const KEYS[] = {"install_only", "timeout_multiplier", "agent_timeout_multiplier",
		"verifier_timeout_multiplier", "agent_setup_timeout_multiplier",
		"environment_build_timeout_multiplier"};
	const Berth__V1__Task *task = results_task(job, trial);
	BERTH_AUTO(berth_json_cleanup) berth_json *config = results_trial_config(job, trial);
	berth_json *lock = berth_json_object();
	berth_json_set(lock, "schema_version", berth_json_integer(TRIAL_LOCK_VERSION));
	berth_json_set(lock, "task", task_lock(task));
	for (size_t i = 0; i < BERTH_COUNT(KEYS); i++) {
		copy_key(lock, config, KEYS[i]);
	}
	berth_json_set(lock, "agent", without_nulls(berth_json_get(config, "agent")));
	berth_json_set(lock, "bridge_inputs", berth_json_object());
	berth_json_set(lock, "skills", berth_json_array());
	berth_json_set(lock, "environment", without_nulls(berth_json_get(config, "environment")));
	berth_json *verifier = without_nulls(berth_json_get(config, "verifier"));
	berth_json_set(verifier, "environment_mode",
		berth_json_string(task && task->separate_verifier ? "separate" : "shared"));
	berth_json_set(lock, "verifier", verifier);
	return lock;
}

static berth_json *texts(char *const *items, size_t count)
{
	berth_json *list = berth_json_array();
	for (size_t i = 0; i < count; i++) {
		berth_json_append(list, berth_json_string(items[i]));
	}
	return list;
}

static berth_json *retry_lock(const Berth__V1__RetryPolicy *retry)
{
	static const Berth__V1__RetryPolicy none = BERTH__V1__RETRY_POLICY__INIT;
	const Berth__V1__RetryPolicy *policy = retry ? retry : &none;
	berth_json *lock = berth_json_object();
	berth_json_set(lock, "max_retries", berth_json_integer(policy->max_retries));
	if (policy->has_include) {
		berth_json_set(
			lock, "include_exceptions", texts(policy->include_exceptions, policy->n_include_exceptions));
	}
	berth_json_set(lock, "exclude_exceptions", texts(policy->exclude_exceptions, policy->n_exclude_exceptions));
	berth_json_set(lock, "wait_multiplier", berth_json_real(policy->wait_multiplier));
	berth_json_set(lock, "min_wait_sec", berth_json_real(policy->min_wait_sec));
	berth_json_set(lock, "max_wait_sec", berth_json_real(policy->max_wait_sec));
	return lock;
}

berth_json *results_job_lock(const struct results_job *job, berth_json *trials)
{
	berth_json *harbor = berth_json_object();
	berth_json_set(harbor, "version", berth_json_string(HARBOR_VERSION));
	berth_json_set(harbor, "is_editable", berth_json_bool(false));
	uint32_t concurrent = job->spec->concurrent_trials;
	berth_json *lock = berth_json_object();
	berth_json_set(lock, "schema_version", berth_json_integer(JOB_LOCK_VERSION));
	berth_json_set(lock, "created_at", results_time_utc(job->job->submitted_at_ns));
	berth_json_set(lock, "harbor", harbor);
	berth_json_set(lock, "n_concurrent_trials", berth_json_integer(concurrent ? concurrent : CONCURRENT_DEFAULT));
	berth_json_set(lock, "retry", retry_lock(job->spec->retry));
	berth_json_set(lock, "trials", trials);
	return lock;
}
