// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/submission.h"

#define MB (1024 * 1024)

// What Berth's agents can run.
static const char *const AGENTS[] = {"oracle", "nop"};

static bool check_agent(const struct berth_job_agent *agent, struct berth_error *err)
{
	if (agent->import_path) {
		return berth_fail(err, BERTH_ERROR_UNSUPPORTED,
			"agent %s: Berth cannot import Python agents; it runs oracle and nop", agent->import_path);
	}
	for (size_t i = 0; i < BERTH_COUNT(AGENTS); i++) {
		if (strcmp(agent->name, AGENTS[i]) == 0) {
			return true;
		}
	}
	const char *nearest = cli_nearest(agent->name, AGENTS, BERTH_COUNT(AGENTS));
	return berth_fail(err, BERTH_ERROR_INVALID, "-a/--agent or agents[].name: there is no agent \"%s\"; %s%s",
		agent->name, nearest ? "did you mean " : "there are oracle and nop", nearest ? nearest : "");
}

static void add_text(size_t *count, char ***list, const char *text)
{
	berth_proto_append(count, list, berth_strdup(text));
}

static void add_texts(size_t *count, char ***list, const struct berth_strings *texts)
{
	for (size_t i = 0; i < texts->count; i++) {
		add_text(count, list, texts->items[i]);
	}
}

static bool add_agent(Berth__V1__JobSpec *spec, const struct berth_job_agent *given, struct berth_error *err)
{
	if (!check_agent(given, err)) {
		return false;
	}
	Berth__V1__AgentConfig *agent = berth_alloc(sizeof *agent);
	berth__v1__agent_config__init(agent);
	berth_proto_append(&spec->n_agents, &spec->agents, agent);
	berth_proto_set_string(&agent->name, given->name);
	berth_proto_set_string(&agent->model_name, given->model_name);
	if (berth_json_size(given->kwargs) > 0) {
		BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
		if (!berth_json_write_canonical(given->kwargs, &text, err)) {
			return berth_error_wrap(err, "--ak or agents[].kwargs");
		}
		berth_proto_set_string(&agent->kwargs_json, berth_buf_text(&text));
	}
	agent->override_timeout_sec = given->override_timeout_sec;
	agent->override_setup_timeout_sec = given->override_setup_timeout_sec;
	agent->max_timeout_sec = given->max_timeout_sec;
	agent->n_concurrent = (uint32_t)given->n_concurrent;
	return true;
}

static Berth__V1__RetryPolicy *retry_of(const struct berth_job_retry *given)
{
	Berth__V1__RetryPolicy *retry = berth_alloc(sizeof *retry);
	berth__v1__retry_policy__init(retry);
	retry->max_retries = (uint32_t)given->max_retries;
	retry->has_include = given->has_include;
	add_texts(&retry->n_include_exceptions, &retry->include_exceptions, &given->include);
	add_texts(&retry->n_exclude_exceptions, &retry->exclude_exceptions, &given->exclude);
	retry->wait_multiplier = given->wait_multiplier;
	retry->min_wait_sec = given->min_wait_sec;
	retry->max_wait_sec = given->max_wait_sec;
	return retry;
}

static void add_artifacts(Berth__V1__JobSpec *spec, const struct berth_task_artifacts *given)
{
	for (size_t i = 0; i < given->count; i++) {
		Berth__V1__Artifact *artifact = berth_alloc(sizeof *artifact);
		berth__v1__artifact__init(artifact);
		berth_proto_set_string(&artifact->source, given->items[i].source);
		berth_proto_set_string(&artifact->destination, given->items[i].destination);
		berth_proto_set_string(&artifact->service, given->items[i].service);
		add_texts(&artifact->n_exclude, &artifact->exclude, &given->items[i].exclude);
		berth_proto_append(&spec->n_artifacts, &spec->artifacts, artifact);
	}
}

// With a client key of the user's, submitting again must give the same name too.
static void set_name(const struct cli *cli, const struct berth_job *job, Berth__V1__JobSpec *spec)
{
	const char *key = cli_args_text(&cli->args, CLI_FLAG_CLIENT_KEY);
	if (job->name) {
		berth_proto_set_string(&spec->name, job->name);
	} else if (key && berth_path_is_safe(key) && !strchr(key, '/') && key[0] != '.') {
		berth_proto_set_string(&spec->name, key);
	} else {
		time_t now = time(NULL);
		struct tm parts;
		char text[64];
		localtime_r(&now, &parts);
		strftime(text, sizeof text, "%Y-%m-%d__%H-%M-%S", &parts);
		berth_proto_set_string(&spec->name, text);
	}
}

// berth_job_load has redacted it already.
static void set_config(const struct berth_job *job, Berth__V1__JobSpec *spec)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *config = berth_json_copy(job->config);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_json_set(config, "job_name", berth_json_string(spec->name));
	berth_json_write(config, 0, &text);
	berth_proto_set_string(&spec->config_json, berth_buf_text(&text));
}

static bool set_fleet_flags(const struct cli *cli, Berth__V1__JobSpec *spec, struct berth_error *err)
{
	const char *leftovers = cli_args_text(&cli->args, CLI_FLAG_LEFTOVERS);
	const char *budget = cli_args_text(&cli->args, CLI_FLAG_BUDGET);
	const char *phase = cli_args_text(&cli->args, CLI_FLAG_PHASE);
	int64_t priority = 0;
	if (!budget != !phase) {
		return berth_fail(err, BERTH_ERROR_INVALID, "--budget and --phase go together: --%s is missing",
			budget ? "phase" : "budget");
	}
	if (!cli_args_integer(&cli->args, CLI_FLAG_PRIORITY, 1, 100, &priority, err)) {
		return false;
	}
	spec->priority = (int32_t)priority;
	spec->leftovers = leftovers && strcmp(leftovers, "kill") == 0 ? BERTH__V1__LEFTOVERS__LEFTOVERS_KILL
	                                                              : BERTH__V1__LEFTOVERS__LEFTOVERS_KEEP;
	berth_proto_set_string(&spec->budget, budget);
	berth_proto_set_string(&spec->phase, phase);
	return true;
}

bool cli_spec_fill(
	const struct cli *cli, const struct berth_job *job, Berth__V1__JobSpec *spec, struct berth_error *err)
{
	set_name(cli, job, spec);
	for (size_t i = 0; i < job->agents_count; i++) {
		if (!add_agent(spec, &job->agents[i], err)) {
			return false;
		}
	}
	spec->attempts = (uint32_t)job->n_attempts;
	spec->concurrent_trials = (uint32_t)job->n_concurrent_trials;
	spec->retry = retry_of(&job->retry);
	spec->timeout_multiplier = job->timeout_multiplier;
	spec->agent_timeout_multiplier = job->agent_timeout_multiplier;
	spec->verifier_timeout_multiplier = job->verifier_timeout_multiplier;
	spec->agent_setup_timeout_multiplier = job->agent_setup_timeout_multiplier;
	spec->environment_build_timeout_multiplier = job->environment_build_timeout_multiplier;
	berth_proto_set_string(&spec->environment_type, job->environment_type);
	spec->force_build = job->force_build;
	spec->override_cpus = job->override_cpus;
	spec->override_memory_mb = job->override_memory_mb;
	spec->override_storage_mb = job->override_storage_mb;
	spec->verifier_override_timeout_sec = job->verifier_override_timeout_sec;
	spec->verifier_max_timeout_sec = job->verifier_max_timeout_sec;
	spec->verifier_disable = job->verifier_disable;
	add_artifacts(spec, &job->artifacts);
	add_texts(&spec->n_extra_instructions, &spec->extra_instructions, &job->extra_instructions);
	set_config(job, spec);
	return set_fleet_flags(cli, spec, err);
}

static uint32_t declared(int64_t value)
{
	return value < 0 ? 0 : (uint32_t)value;
}

// For tasks in steps the sum of theirs: what placement and leases must reckon with. 0: a step has none.
static void set_timeouts(Berth__V1__Task *task, const struct berth_task *given)
{
	task->agent_timeout_sec = given->agent.timeout_sec;
	task->verifier_timeout_sec = given->verifier.timeout_sec;
	task->build_timeout_sec = given->environment.build_timeout_sec;
	bool bounded = true;
	for (size_t i = 0; i < given->steps_count; i++) {
		const struct berth_task_step *step = &given->steps[i];
		double own = step->agent.timeout_sec > 0 ? step->agent.timeout_sec : given->agent.timeout_sec;
		task->agent_timeout_sec = (i ? task->agent_timeout_sec : 0) + own;
		task->verifier_timeout_sec = (i ? task->verifier_timeout_sec : 0) + step->verifier.timeout_sec;
		bounded = bounded && own > 0;
	}
	task->agent_timeout_sec = bounded ? task->agent_timeout_sec : 0;
}

bool cli_spec_add_task(Berth__V1__JobSpec *spec, const struct berth_job_task *given, const struct berth_task *task,
	struct berth_error *err)
{
	struct berth_task_hashes hashes;
	char hex[BERTH_DIGEST_HEX_SIZE], digest[BERTH_DIGEST_TEXT_SIZE];
	if (!berth_task_hash(task, &hashes, err)) {
		return false;
	}
	Berth__V1__Task *made = berth_alloc(sizeof *made);
	berth__v1__task__init(made);
	berth_proto_append(&spec->n_tasks, &spec->tasks, made);
	berth_digest_hex(&hashes.checksum, hex);
	berth_digest_text(&hashes.lock_digest, digest);
	berth_proto_set_string(&made->base_name, task->base_name);
	berth_proto_set_string(&made->name, task->name);
	berth_proto_set_string(&made->path, given->path);
	berth_proto_set_string(&made->source, given->source);
	berth_proto_set_string(&made->checksum, hex);
	berth_proto_set_string(&made->lock_digest, digest);
	berth_proto_set_string(&made->environment_id, hashes.environment_id);
	berth_proto_set_string(&made->environment_name, task->short_name);
	berth_proto_set_string(&made->network_mode, berth_network_mode_name(task->environment.network.mode));
	made->cpus = declared(task->environment.cpus);
	made->memory_mb = declared(task->environment.memory_mb);
	made->storage_mb = declared(task->environment.storage_mb);
	set_timeouts(made, task);
	made->compose = task->has_compose;
	made->separate_verifier = berth_task_verifier_mode(task, NULL) == BERTH_VERIFIER_SEPARATE;
	for (size_t i = 0; i < task->steps_count; i++) {
		add_text(&made->n_steps, &made->steps, task->steps[i].name);
		made->separate_verifier |= berth_task_verifier_mode(task, &task->steps[i]) == BERTH_VERIFIER_SEPARATE;
	}
	return true;
}

bool cli_task_size_check(const char *folder, int64_t size_max, struct berth_error *err)
{
	char *roots[] = {(char *)folder, NULL};
	FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	if (!walk) {
		return berth_fail_errno(err, "cannot list %s", folder);
	}
	int64_t size = 0;
	for (FTSENT *entry; (entry = fts_read(walk));) {
		size += entry->fts_info == FTS_F ? (int64_t)entry->fts_statp->st_size : 0;
	}
	fts_close(walk);
	if (size <= size_max) {
		return true;
	}
	return berth_fail(err, BERTH_ERROR_INVALID,
		"task folder %s holds %.1f MB, more than the %.1f MB of --task-size-limit; move out what the task does "
		"not need, or raise the limit",
		folder, (double)size / MB, (double)size_max / MB);
}
