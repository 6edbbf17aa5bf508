// SPDX-License-Identifier: Apache-2.0
#include "agent/trial/internal.h"
#include "common/base/cancel.h"

bool trial_command(struct trial *trial, const struct trial_command *command, int *exit_code, struct berth_until until,
	struct berth_error *err)
{
	struct berth_runner *runner = trial->host->leases.runner;
	const struct berth_exec exec = {
		.command = command->command,
		.user = command->user,
		.workdir = command->workdir,
		.env = command->env,
		.output = command->output,
		.context = command->context,
		.end_leftovers = command->of_agent && trial->spec->leftovers == BERTH__V1__LEFTOVERS__LEFTOVERS_KILL,
	};
	struct berth_exec_end end = {0};
	struct berth_error failure = {0};
	bool good = runner->exec(trial->environment, &exec, &end, until, &failure);
	if (command->of_agent && end.leftovers) {
		trial->leftovers = end.leftovers;
	}
	*exit_code = end.exit_code;
	if (good) {
		return true;
	}
	if (failure.code == BERTH_ERROR_INTERNAL) {
		trial->unproven = true;
	}
	return berth_fail(err, failure.code, "%s", failure.message);
}

bool trial_timed_out(const struct trial *trial, const struct berth_error *err)
{
	return err->code == BERTH_ERROR_TIMEOUT && !(trial->cancel && berth_cancel_fired(trial->cancel));
}
