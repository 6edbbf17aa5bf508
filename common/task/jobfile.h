// SPDX-License-Identifier: Apache-2.0
// Harbor job configurations (YAML or JSON, and the flags of `harbor run`) as one checked structure, and the tasks and
// trials that they stand for. Legacy dialects (orchestrator:) are read as Harbor 0.22 reads them.
#pragma once

#include "common/base/error.h"
#include "common/codec/json.h"
#include "common/task/task.h"

struct berth_job_agent {
	char *name; // "oracle", "nop", ...
	char *import_path;
	char *model_name;
	int64_t n_concurrent; // 0: none
	char *concurrency_group;
	double override_timeout_sec, override_setup_timeout_sec, max_timeout_sec; // 0: none
	berth_json *kwargs;							  // object
	struct berth_env env;
	struct berth_strings extra_allowed_hosts;
};

struct berth_job_retry {
	int64_t max_retries;
	bool has_include;
	struct berth_strings include, exclude;
	double wait_multiplier, min_wait_sec, max_wait_sec;
};

struct berth_job_task { // one task folder of the job
	char *path;	// as given
	char *source;	// dataset name, or NULL
};

struct berth_job {
	char *name; // NULL: the caller names it by local time
	char *jobs_dir;
	int64_t n_attempts, n_concurrent_trials; // n_concurrent_trials 0: not given
	double timeout_multiplier;
	double agent_timeout_multiplier, verifier_timeout_multiplier, agent_setup_timeout_multiplier,
		environment_build_timeout_multiplier; // below 0: not given
	bool debug, quiet, install_only;
	struct berth_job_retry retry;
	char *environment_type; // "docker" or "e2b"
	bool force_build, delete_environment;
	char *cpu_policy, *memory_policy;				// "auto", ...
	int64_t override_cpus, override_memory_mb, override_storage_mb; // -1: none
	struct berth_env environment_env;
	double verifier_override_timeout_sec, verifier_max_timeout_sec; // 0: none
	bool verifier_disable;
	struct berth_env verifier_env;
	struct berth_job_agent *agents;
	size_t agents_count;
	struct berth_task_artifacts artifacts;
	struct berth_strings extra_instructions;
	struct berth_job_task
		*tasks; // expanded and filtered, in the order that they run in (sorted by path inside a dataset)
	size_t tasks_count;
	berth_json *metrics; // list, as given
	berth_json *config;  // the whole configuration as Harbor's config.json would hold it (defaults left out)
	struct berth_strings warnings; // unknown keys, by file, line where known, and key
};

// Values that command-line flags put over the file's, in Harbor's own names. Members that are NULL, 0 or -1 as noted
// above were not given.
struct berth_job_flags {
	const char *config_file;
	const char *path; // -p: task or dataset folder
	const char *job_name, *jobs_dir, *environment_type;
	int64_t n_attempts, n_concurrent_trials, max_retries, n_tasks; // 0 (max_retries -1): not given
	double timeout_multiplier, agent_timeout_multiplier, verifier_timeout_multiplier,
		agent_setup_timeout_multiplier,
		environment_build_timeout_multiplier; // below 0: not given
	struct berth_strings agents, models, agent_kwargs, agent_env, verifier_env, environment_env, include, exclude,
		artifacts, retry_include, retry_exclude, extra_instructions, extra_instruction_paths;
	int force_build, delete_environment, disable_verification;	// -1: not given, else 0 or 1
	int64_t override_cpus, override_memory_mb, override_storage_mb; // -1: not given
};

// Flags with nothing given.
struct berth_job_flags berth_job_flags_none(void);
void berth_job_flags_free(struct berth_job_flags *flags);

// Loads the file (if any), puts the flags over it, expands datasets into task folders. INVALID names the file, key and
// fix; what the file asks for and Berth can't do (git tasks, registries, unknown environment types) is UNSUPPORTED and
// named. A misspelt key is INVALID when it is within two edits of a known one, with the known one as the fix, else a
// warning.
bool berth_job_load(const struct berth_job_flags *flags, struct berth_job **job, struct berth_error *err);
void berth_job_free(struct berth_job *job); // NULL is allowed

// `--ak k=v`: split at the first "=", both sides stripped; the value is JSON, else True, False or None, else text.
bool berth_kwarg_parse(const char *text, char **key, berth_json **value, struct berth_error *err);
