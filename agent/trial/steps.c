// SPDX-License-Identifier: Apache-2.0
// A task of several steps in one container: each with its own files, agent run, artifacts and verdict. What fails in a
// step is the step's exception; the trial itself has none.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/trial/internal.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define SETUP_MS   (360 * 1000)
#define COLLECT_MS (15 * 60 * 1000)
#define RESET_MS   (60 * 1000)

static bool is_folder(const char *path)
{
	struct stat stat_of;
	return stat(path, &stat_of) == 0 && S_ISDIR(stat_of.st_mode);
}

// The container goes on; its log folders start anew, as their copies on the host do in Harbor.
static bool reset_logs(struct trial *trial, struct trial_failure *failure)
{
	static const struct berth_put logs[] = {
		{.target = "/logs/agent", .fresh = true},
		{.target = "/logs/artifacts", .fresh = true},
	};
	struct berth_error err = {0};
	return trial->leases.runner->put(
		       trial->environment, logs, BERTH_COUNT(logs), berth_within_ms(RESET_MS, trial->cancel), &err) ||
	       trial_fail_error(failure, "RuntimeError", &err);
}

static bool run_setup(struct trial *trial, const struct berth_task_step *step, const char *workdir,
	struct berth_until until, struct trial_failure *failure)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf line = {0};
	berth_buf_printf(&line, "bash '%s/setup.sh'", workdir);
	const struct trial_command command = {
		.command = berth_buf_text(&line),
		.user = step->agent.user ? step->agent.user : trial->task->agent.user,
	};
	struct berth_error err = {0};
	int exit_code = 0;
	if (!trial_command(trial, &command, &exit_code, until, &err)) {
		return trial_timed_out(trial, &err)
		               ? trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_TASK, "RuntimeError",
					 "Step setup.sh timed out after %d seconds", SETUP_MS / 1000)
		               : trial_fail_error(failure, "RuntimeError", &err);
	}
	return exit_code == 0 || trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_TASK, "RuntimeError",
					 "Step setup.sh failed with exit code %d", exit_code);
}

static bool lay_workdir(struct trial *trial, const struct berth_task_step *step, struct trial_failure *failure)
{
	BERTH_AUTO_FREE char *folder = berth_format("%s/steps/%s/workdir", trial->task->folder, step->name);
	if (!is_folder(folder)) {
		return true;
	}
	const char *workdir = trial->leases.runner->workdir(trial->environment);
	struct berth_until until = berth_within_ms(SETUP_MS, trial->cancel);
	struct berth_error err = {0};
	if (!trial->leases.runner->upload(trial->environment, folder, workdir, until, &err)) {
		return trial_fail_error(failure, "RuntimeError", &err);
	}
	BERTH_AUTO_FREE char *setup = berth_path_join(folder, "setup.sh");
	return !berth_file_exists(setup) || run_setup(trial, step, workdir, until, failure);
}

static bool prepare_step(
	struct trial *trial, const struct berth_task_step *step, bool first, struct trial_failure *failure)
{
	return (first || reset_logs(trial, failure)) && lay_workdir(trial, step, failure) &&
	       trial_healthcheck(trial, &step->healthcheck, failure);
}

// What stops the whole trial, whatever the step's verdict would be.
static bool ends_trial(const struct trial *trial, const struct trial_failure *failure)
{
	return trial->unproven || failure->outcome == BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE ||
	       failure->outcome == BERTH__V1__OUTCOME__OUTCOME_CANCELLED;
}

static void run_step(struct trial *trial, const struct berth_task_step *step, const struct trial_folders *folders,
	Berth__V1__StepResult *result, berth_json **rewards, struct trial_failure *failure)
{
	trial->outputs_kept = false;
	result->agent_execution = trial_phase_begin(trial, "agent_execution");
	trial_agent_run(trial, step, folders->agent, failure);
	trial_phase_end(result->agent_execution);
	if (ends_trial(trial, failure)) {
		return;
	}
	trial_collect(trial, step, folders->artifacts, berth_within_ms(COLLECT_MS, trial->cancel));
	trial->outputs_kept = true;
	if (trial->spec->verifier_disable) {
		return;
	}
	result->verifier = trial_phase_begin(trial, "verifier");
	struct trial_failure verdict = {0};
	if (!trial_verify(trial, step, folders->verifier, rewards, &verdict)) {
		bool outranks = ends_trial(trial, &verdict);
		if (!failure->type || outranks) {
			trial_failure_free(failure);
			*failure = verdict;
			verdict = (struct trial_failure){0};
		}
	}
	trial_failure_free(&verdict);
	trial_phase_end(result->verifier);
}

// True when the next step may run.
static bool one_step(struct trial *trial, size_t index, berth_json **rewards, struct trial_failure *trial_failure)
{
	const struct berth_task_step *step = &trial->task->steps[index];
	trial_log(trial, "step %s", step->name);
	Berth__V1__StepResult *result = berth_alloc(sizeof *result);
	berth__v1__step_result__init(result);
	berth_proto_set_string(&result->name, step->name);
	berth_proto_append(&trial->result->n_steps, &trial->result->steps, result);
	BERTH_AUTO(trial_failure_free) struct trial_failure failure = {0};
	BERTH_AUTO(trial_folders_free) struct trial_folders folders = trial_folders_make(trial, step->name, &failure);
	if (!failure.type && prepare_step(trial, step, index == 0, &failure)) {
		run_step(trial, step, &folders, result, rewards, &failure);
	}
	if (failure.type) {
		trial_log(trial, "step %s: %s: %s", step->name, failure.type, failure.message);
		failure.phase = berth_format("step %s, %s", step->name, trial->phase);
	}
	if (ends_trial(trial, &failure)) {
		*trial_failure = failure;
		failure = (struct trial_failure){0};
		return false;
	}
	result->exception = trial_failure_message(&failure);
	if (*rewards) {
		BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
		berth_json_write(*rewards, 0, &text);
		berth_proto_set_string(&result->rewards_json, berth_buf_text(&text));
	}
	bool stuck = failure.type && !*rewards;
	return !stuck && (trial->spec->verifier_disable || berth_reward_meets(step, *rewards));
}

bool trial_steps(struct trial *trial, struct trial_failure *failure)
{
	size_t count = trial->task->steps_count, run = 0;
	berth_json **rewards = berth_alloc(count * sizeof *rewards);
	for (bool next = true; next && run < count; run++) {
		next = one_step(trial, run, &rewards[run], failure);
	}
	trial->rewards = failure->type ? NULL
	                               : berth_reward_aggregate(
						 trial->task->reward_strategy, (const berth_json *const *)rewards, run);
	for (size_t i = 0; i < count; i++) {
		berth_json_free(rewards[i]);
	}
	free(rewards);
	return !failure->type;
}
