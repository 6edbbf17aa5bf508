// SPDX-License-Identifier: Apache-2.0
// The agents oracle (runs the task's own solution) and nop (does nothing).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trial/internal.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define SETUP_TIMEOUT_SEC 360.0
#define SYNC_MS           60000

bool trial_agent_setup(struct trial *trial, struct trial_failure *failure)
{
	double base = trial->agent->override_setup_timeout_sec;
	bool immediate = false;
	berth_timeout_sec(base > 0 ? base : SETUP_TIMEOUT_SEC, 0, trial->spec->agent_setup_timeout_multiplier,
		trial->spec->timeout_multiplier, &immediate);
	trial->result->agent_setup = trial_phase_begin(trial, "agent_setup");
	trial_phase_end(trial->result->agent_setup);
	// Neither agent has anything to set up: only a limit of nothing can be missed.
	return !immediate || trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE, "AgentSetupTimeoutError",
				     "Agent setup timed out after 0 seconds");
}

static char *solution_folder(const struct trial *trial, const struct berth_task_step *step)
{
	return step ? berth_format("%s/steps/%s/solution", trial->task->folder, step->name)
	            : berth_path_join(trial->task->folder, "solution");
}

static bool solution_env(const struct trial *trial, struct berth_env *env, struct trial_failure *failure)
{
	berth_env_set(env, "DEBIAN_FRONTEND", "noninteractive");
	return trial_env_listed(trial, trial->agent->env_names, trial->agent->n_env_names, "agent/0",
		       "env of the agent", env, failure) &&
	       trial_env_declared(
		       trial, &trial->task->solution_env, "solution/0", "task.toml: solution.env", env, failure);
}

static const char *agent_user(const struct trial *trial, const struct berth_task_step *step)
{
	return step && step->agent.user ? step->agent.user : trial->task->agent.user;
}

static bool run_solution(struct trial *trial, const struct berth_task_step *step, const char *folder,
	const struct berth_env *env, int *exit_code, struct berth_until until, struct berth_error *err)
{
	const struct berth_put put = {.folder = folder, .target = "/solution", .executable = "solve.sh"};
	const struct trial_command command = {
		.command = "(/solution/solve.sh) > /logs/agent/oracle.txt 2>&1",
		.user = agent_user(trial, step),
		.env = env,
		.of_agent = true,
	};
	return trial->leases.runner->put(trial->environment, &put, 1, until, err) &&
	       trial_command(trial, &command, exit_code, until, err);
}

static bool run_oracle(struct trial *trial, const struct berth_task_step *step, int *exit_code,
	struct berth_until until, double timeout_sec, struct trial_failure *failure)
{
	BERTH_AUTO_FREE char *folder = solution_folder(trial, step);
	BERTH_AUTO_FREE char *script = berth_path_join(folder, "solve.sh");
	if (!berth_file_exists(script)) {
		return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_TASK, "FileNotFoundError",
			"Solution script not found: %s%s%s/solution/solve.sh", step ? "steps/" : "",
			step ? step->name : "", step ? "" : ".");
	}
	BERTH_AUTO(berth_env_free) struct berth_env env = {0};
	struct berth_error err = {0};
	if (!solution_env(trial, &env, failure)) {
		return false;
	}
	if (run_solution(trial, step, folder, &env, exit_code, until, &err)) {
		return true;
	}
	if (trial_timed_out(trial, &err)) {
		return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_TASK, "AgentTimeoutError",
			"Agent execution timed out after %g seconds", timeout_sec);
	}
	return trial_fail_error(failure, "RuntimeError", &err);
}

void trial_agent_sync(struct trial *trial, const char *agent_folder, struct berth_until until)
{
	struct berth_error err = {0};
	if (!trial->leases.runner->download(trial->environment, "/logs/agent", true, agent_folder, until, &err)) {
		trial_log(trial, "agent: its folder could not be brought out: %s", err.message);
	}
}

static void keep_exit_code(struct trial *trial, const char *agent_folder, int exit_code)
{
	BERTH_AUTO_FREE char *path = berth_path_join(agent_folder, "exit-code.txt");
	BERTH_AUTO_FREE char *text = berth_format("%d", exit_code);
	struct berth_error err = {0};
	if (!berth_file_write(path, text, strlen(text), 0644, &err)) {
		trial_log(trial, "agent: %s", err.message);
	}
}

bool trial_agent_run(struct trial *trial, const struct berth_task_step *step, const char *agent_folder,
	struct trial_failure *failure)
{
	double declared =
		step && step->agent.timeout_sec > 0 ? step->agent.timeout_sec : trial->task->agent.timeout_sec;
	double base = trial->agent->override_timeout_sec > 0 ? trial->agent->override_timeout_sec : declared;
	bool immediate = false;
	double timeout_sec = berth_timeout_sec(base, trial->agent->max_timeout_sec,
		trial->spec->agent_timeout_multiplier, trial->spec->timeout_multiplier, &immediate);
	struct berth_until until = trial_until(trial, timeout_sec, immediate);
	int exit_code = 0;
	bool good = true;
	if (immediate) {
		good = trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_TASK, "AgentTimeoutError",
			"Agent execution timed out after 0 seconds");
	} else if (strcmp(trial->agent->name, "oracle") == 0) {
		good = run_oracle(trial, step, &exit_code, until, timeout_sec, failure);
	}
	if (good) {
		trial_log(trial, "agent: ended with exit code %d", exit_code);
	} else {
		trial_log(trial, "agent: did not end by itself");
	}
	trial_agent_sync(trial, agent_folder, berth_within_ms(SYNC_MS, trial->cancel));
	if (good && exit_code != 0) {
		keep_exit_code(trial, agent_folder, exit_code);
	}
	return good;
}
