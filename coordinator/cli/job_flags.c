// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/submission.h"

#include <stddef.h>
#include <stdint.h>

#include "common/base/mem.h"

#define AT(member) offsetof(struct berth_job_flags, member)

static const struct {
	enum cli_flag_id flag;
	size_t offset;
} TEXTS[] =
	{
		{CLI_FLAG_CONFIG, AT(config_file)},
		{CLI_FLAG_PATH, AT(path)},
		{CLI_FLAG_JOB_NAME, AT(job_name)},
		{CLI_FLAG_JOBS_DIR, AT(jobs_dir)},
		{CLI_FLAG_ENVIRONMENT, AT(environment_type)},
},
  LISTS[] =
	  {
		  {CLI_FLAG_AGENT, AT(agents)},
		  {CLI_FLAG_MODEL, AT(models)},
		  {CLI_FLAG_AGENT_KWARG, AT(agent_kwargs)},
		  {CLI_FLAG_AGENT_ENV, AT(agent_env)},
		  {CLI_FLAG_VERIFIER_ENV, AT(verifier_env)},
		  {CLI_FLAG_ENVIRONMENT_ENV, AT(environment_env)},
		  {CLI_FLAG_INCLUDE, AT(include)},
		  {CLI_FLAG_EXCLUDE, AT(exclude)},
		  {CLI_FLAG_ARTIFACT, AT(artifacts)},
		  {CLI_FLAG_RETRY_INCLUDE, AT(retry_include)},
		  {CLI_FLAG_RETRY_EXCLUDE, AT(retry_exclude)},
		  {CLI_FLAG_EXTRA_INSTRUCTION, AT(extra_instructions)},
		  {CLI_FLAG_EXTRA_INSTRUCTION_PATH, AT(extra_instruction_paths)},
},
  NUMBERS[] = {
	  {CLI_FLAG_TIMEOUT_MULTIPLIER, AT(timeout_multiplier)},
	  {CLI_FLAG_AGENT_MULTIPLIER, AT(agent_timeout_multiplier)},
	  {CLI_FLAG_VERIFIER_MULTIPLIER, AT(verifier_timeout_multiplier)},
	  {CLI_FLAG_SETUP_MULTIPLIER, AT(agent_setup_timeout_multiplier)},
	  {CLI_FLAG_BUILD_MULTIPLIER, AT(environment_build_timeout_multiplier)},
};

static const struct {
	enum cli_flag_id flag;
	size_t offset;
	int64_t least, most;
} INTEGERS[] = {
	{CLI_FLAG_N_ATTEMPTS, AT(n_attempts), 1, 100000},
	{CLI_FLAG_N_CONCURRENT, AT(n_concurrent_trials), 1, 1000000},
	{CLI_FLAG_MAX_RETRIES, AT(max_retries), 0, 1000},
	{CLI_FLAG_N_TASKS, AT(n_tasks), 1, INT32_MAX},
	{CLI_FLAG_CPUS, AT(override_cpus), 1, 4096},
	{CLI_FLAG_MEMORY, AT(override_memory_mb), 1, INT32_MAX},
	{CLI_FLAG_STORAGE, AT(override_storage_mb), 1, INT32_MAX},
};

static const struct {
	enum cli_flag_id flag;
	size_t offset;
	int value;
} SWITCHES[] = {
	{CLI_FLAG_FORCE_BUILD, AT(force_build), 1},
	{CLI_FLAG_NO_FORCE_BUILD, AT(force_build), 0},
	{CLI_FLAG_DELETE, AT(delete_environment), 1},
	{CLI_FLAG_NO_DELETE, AT(delete_environment), 0},
	{CLI_FLAG_DISABLE_VERIFICATION, AT(disable_verification), 1},
};

static void *member(struct berth_job_flags *flags, size_t offset)
{
	return (char *)flags + offset;
}

static void read_value(struct berth_job_flags *flags, const struct cli_value *value)
{
	for (size_t i = 0; i < BERTH_COUNT(TEXTS); i++) {
		if (TEXTS[i].flag == value->flag) {
			*(const char **)member(flags, TEXTS[i].offset) = value->text;
		}
	}
	for (size_t i = 0; i < BERTH_COUNT(LISTS); i++) {
		if (LISTS[i].flag == value->flag) {
			berth_strings_add(member(flags, LISTS[i].offset), value->text);
		}
	}
	for (size_t i = 0; i < BERTH_COUNT(SWITCHES); i++) {
		if (SWITCHES[i].flag == value->flag) {
			*(int *)member(flags, SWITCHES[i].offset) = SWITCHES[i].value;
		}
	}
}

bool cli_job_flags_read(const struct cli_args *args, struct berth_job_flags *flags, struct berth_error *err)
{
	*flags = berth_job_flags_none();
	for (size_t i = 0; i < args->values_count; i++) {
		read_value(flags, &args->values[i]);
	}
	for (size_t i = 0; i < BERTH_COUNT(NUMBERS); i++) {
		if (!cli_args_number(args, NUMBERS[i].flag, member(flags, NUMBERS[i].offset), err)) {
			return false;
		}
	}
	for (size_t i = 0; i < BERTH_COUNT(INTEGERS); i++) {
		if (!cli_args_integer(args, INTEGERS[i].flag, INTEGERS[i].least, INTEGERS[i].most,
			    member(flags, INTEGERS[i].offset), err)) {
			return false;
		}
	}
	return true;
}
