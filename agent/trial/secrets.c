// SPDX-License-Identifier: Apache-2.0
// Values of environment tables. They come with the assignment, never from this host's environment.
#include <string.h>

#include "agent/trial/internal.h"
#include "common/base/mem.h"

const char *trial_secret(const struct trial *trial, const char *scope, const char *name)
{
	const Berth__V1__SecretSet *set = trial->assignment->secrets;
	for (size_t i = 0; set && i < set->n_secrets; i++) {
		if (strcmp(set->secrets[i]->scope, scope) == 0 && strcmp(set->secrets[i]->name, name) == 0) {
			return set->secrets[i]->value;
		}
	}
	return NULL;
}

bool trial_env_listed(const struct trial *trial, char *const *names, size_t count, const char *scope, const char *where,
	struct berth_env *env, struct trial_failure *failure)
{
	for (size_t i = 0; i < count; i++) {
		const char *value = trial_secret(trial, scope, names[i]);
		if (!value) {
			return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_CONFIGURATION, "ValueError",
				"%s names the variable %s, and no value came for it: set it where the job is submitted",
				where, names[i]);
		}
		berth_env_set(env, names[i], value);
	}
	return true;
}

bool trial_env_declared(const struct trial *trial, const struct berth_env *declared, const char *scope,
	const char *where, struct berth_env *env, struct trial_failure *failure)
{
	return trial_env_listed(trial, declared->names, declared->count, scope, where, env, failure);
}

static bool check_steps(const struct trial *trial, struct berth_env *env, struct trial_failure *failure)
{
	for (size_t i = 0; i < trial->task->steps_count; i++) {
		const struct berth_task_step *step = &trial->task->steps[i];
		BERTH_AUTO_FREE char *scope = berth_format("verifier/0/%s", step->name);
		if (!trial_env_declared(
			    trial, &step->verifier.env, scope, "task.toml: steps.verifier.env", env, failure)) {
			return false;
		}
	}
	return true;
}

bool trial_check_env(const struct trial *trial, struct trial_failure *failure)
{
	const struct berth_task *task = trial->task;
	const Berth__V1__JobSpec *spec = trial->spec;
	BERTH_AUTO(berth_env_free) struct berth_env env = {0};
	bool oracle = strcmp(trial->agent->name, "oracle") == 0;
	return trial_env_declared(
		       trial, &task->environment.env, "environment/0", "task.toml: environment.env", &env, failure) &&
	       trial_env_listed(trial, spec->environment_env_names, spec->n_environment_env_names, "environment",
		       "environment.env of the job", &env, failure) &&
	       trial_env_declared(trial, &task->verifier.env, "verifier/0", "task.toml: verifier.env", &env, failure) &&
	       check_steps(trial, &env, failure) &&
	       trial_env_listed(trial, spec->verifier_env_names, spec->n_verifier_env_names, "verifier",
		       "verifier.env of the job", &env, failure) &&
	       trial_env_listed(trial, trial->agent->env_names, trial->agent->n_env_names, "agent/0",
		       "env of the agent", &env, failure) &&
	       (!oracle || trial_env_declared(
				   trial, &task->solution_env, "solution/0", "task.toml: solution.env", &env, failure));
}
