// SPDX-License-Identifier: Apache-2.0
// What this agent can't do, or was not given, is said before anything is created: by file, key, and what to change.
#include <string.h>

#include "agent/trial/internal.h"

#define CONFIGURATION BERTH__V1__OUTCOME__OUTCOME_CONFIGURATION

static bool check_environment(const struct berth_task *task, struct trial_failure *failure)
{
	const struct berth_task_environment *environment = &task->environment;
	if (environment->os && strcmp(environment->os, "linux") != 0) {
		return trial_fail(failure, CONFIGURATION, "RuntimeError",
			"task.toml: environment.os = \"%s\": this runner has Linux containers only", environment->os);
	}
	if (environment->gpus > 0) {
		return trial_fail(failure, CONFIGURATION, "RuntimeError",
			"task.toml: environment.gpus = %lld: this runner has no GPUs", (long long)environment->gpus);
	}
	if (environment->has_tpu) {
		return trial_fail(
			failure, CONFIGURATION, "RuntimeError", "task.toml: environment.tpu: this runner has no TPUs");
	}
	if (environment->network.mode == BERTH_NETWORK_ALLOWLIST) {
		return trial_fail(failure, CONFIGURATION, "ValueError",
			"task.toml: environment.network_mode = \"allowlist\": this runner has \"public\" and "
			"\"no-network\"");
	}
	if (task->has_compose) {
		return trial_fail(failure, CONFIGURATION, "ServiceOperationsUnsupportedError",
			"environment/docker-compose.yaml: this runner starts one container: describe it in "
			"environment/Dockerfile");
	}
	return true;
}

static enum berth_network_mode baseline(const struct berth_task *task)
{
	enum berth_network_mode mode = task->environment.network.mode;
	return mode == BERTH_NETWORK_UNSET ? BERTH_NETWORK_PUBLIC : mode;
}

// A phase may name the network that it has anyway; another one would have to be switched while the container runs.
static bool check_network(const struct berth_task *task, const struct berth_task_network *network, const char *where,
	const char *table, struct trial_failure *failure)
{
	if (network->mode == BERTH_NETWORK_UNSET || network->mode == baseline(task)) {
		return true;
	}
	return trial_fail(failure, CONFIGURATION, "ValueError",
		"task.toml: %s%s.network_mode differs from environment.network_mode: this runner keeps one network for "
		"the whole trial",
		where, table);
}

static bool check_artifacts(
	const struct berth_task_artifacts *artifacts, const char *where, struct trial_failure *failure)
{
	for (size_t i = 0; i < artifacts->count; i++) {
		const char *service = artifacts->items[i].service;
		if (service && strcmp(service, "main") != 0) {
			return trial_fail(failure, CONFIGURATION, "ServiceOperationsUnsupportedError",
				"task.toml: %sartifacts: %s is of the service %s: this runner has main only", where,
				artifacts->items[i].source, service);
		}
	}
	return true;
}

static bool check_verifier(const struct berth_task *task, const struct berth_task_step *step,
	const struct berth_task_verifier *verifier, const char *where, struct trial_failure *failure)
{
	if (berth_task_verifier_mode(task, step) == BERTH_VERIFIER_SEPARATE) {
		return trial_fail(failure, CONFIGURATION, "ValueError",
			"task.toml: %sverifier.environment_mode = \"separate\": this runner verifies in the agent's "
			"container (\"shared\")",
			where);
	}
	for (size_t i = 0; i < verifier->collect_count; i++) {
		const char *service = verifier->collect[i].service;
		if (service && strcmp(service, "main") != 0) {
			return trial_fail(failure, CONFIGURATION, "ServiceOperationsUnsupportedError",
				"task.toml: %sverifier.collect: a hook is of the service %s: this runner has main only",
				where, service);
		}
	}
	return check_network(task, &verifier->network, where, "verifier", failure);
}

static bool check_step(const struct berth_task *task, const struct berth_task_step *step, struct trial_failure *failure)
{
	return check_verifier(task, step, &step->verifier, "steps.", failure) &&
	       check_network(task, &step->agent.network, "steps.", "agent", failure) &&
	       check_artifacts(&step->artifacts, "steps.", failure);
}

static bool check_job(const struct trial *trial, struct trial_failure *failure)
{
	const char *name = trial->agent->name;
	if (strcmp(name, "oracle") != 0 && strcmp(name, "nop") != 0) {
		return trial_fail(failure, CONFIGURATION, "ValueError",
			"agent %s is not one that this fleet runs: use oracle or nop", name);
	}
	for (size_t i = 0; i < trial->spec->n_artifacts; i++) {
		const char *service = trial->spec->artifacts[i]->service;
		if (*service && strcmp(service, "main") != 0) {
			return trial_fail(failure, CONFIGURATION, "ServiceOperationsUnsupportedError",
				"artifacts of the job: %s is of the service %s: this runner has main only",
				trial->spec->artifacts[i]->source, service);
		}
	}
	return true;
}

bool trial_check(struct trial *trial, struct trial_failure *failure)
{
	const struct berth_task *task = trial->task;
	if (!check_job(trial, failure) || !check_environment(task, failure) ||
		!check_verifier(task, NULL, &task->verifier, "", failure) ||
		!check_network(task, &task->agent.network, "", "agent", failure) ||
		!check_artifacts(&task->artifacts, "", failure)) {
		return false;
	}
	for (size_t i = 0; i < task->steps_count; i++) {
		if (!check_step(task, &task->steps[i], failure)) {
			return false;
		}
	}
	return trial_check_env(trial, failure);
}
