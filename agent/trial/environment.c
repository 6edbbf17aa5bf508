// SPDX-License-Identifier: Apache-2.0
// From the assignment to a running, healthy environment.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trial/internal.h"
#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"

static bool put_build_log(void *context, const void *data, size_t size, struct berth_error *err)
{
	struct trial *trial = context;
	if (trial->build_log < 0) {
		BERTH_AUTO_FREE char *path = berth_path_join(trial->input->work_folder, "build.log");
		trial->build_log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		if (trial->build_log < 0) {
			return berth_fail_errno(err, "cannot write %s", path);
		}
	}
	return berth_write_all(trial->build_log, data, size, err);
}

static int64_t in_force(int64_t override, int64_t declared)
{
	return override > 0 ? override : declared;
}

static bool make_plan(struct trial *trial, struct trial_failure *failure)
{
	const struct berth_task *task = trial->task;
	if (!trial->environment_lease) {
		return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE, "RuntimeError",
			"the assignment has no lease for the task's environment");
	}
	if (!trial_env_declared(trial, &task->environment.env, "environment/0", "task.toml: environment.env",
		    &trial->environment_env, failure) ||
		!trial_env_listed(trial, trial->spec->environment_env_names, trial->spec->n_environment_env_names,
			"environment", "environment.env of the job", &trial->environment_env, failure)) {
		return false;
	}
	trial->context_folder = berth_path_join(task->folder, "environment");
	trial->session_id = berth_format("%s__env", trial->assignment->trial_name);
	enum berth_network_mode network = task->environment.network.mode;
	trial->plan = (struct berth_environment_plan){
		.lease_id = trial->environment_lease->record->lease_id,
		.role = BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT,
		.job_id = trial->assignment->trial->job_id,
		.trial_index = trial->assignment->trial->index,
		.generation = trial->assignment->trial->generation,
		.session_id = trial->session_id,
		.environment_name = task->short_name,
		.environment = &task->environment,
		.context_folder = trial->context_folder,
		.has_dockerfile = task->has_dockerfile,
		.force_build = trial->spec->force_build,
		.cpus = in_force(trial->spec->override_cpus, task->environment.cpus),
		.memory_mb = in_force(trial->spec->override_memory_mb, task->environment.memory_mb),
		.env = &trial->environment_env,
		.network = network == BERTH_NETWORK_UNSET ? BERTH_NETWORK_PUBLIC : network,
	};
	return true;
}

static bool create_and_open(struct trial *trial, struct berth_until until, struct berth_error *err)
{
	struct berth_runner *runner = trial->leases.runner;
	struct berth_sink log = {put_build_log, trial};
	trial_tell(trial, "build");
	trial_log(trial, "image: preparing");
	if (!runner->prepare(runner, &trial->plan, log, until, err)) {
		return false;
	}
	trial_tell(trial, "environment_setup");
	trial_log(trial, "container: creating under lease %s", trial->plan.lease_id);
	trial->environment_lease->used = true;
	struct berth_created created = {0};
	if (!berth_lease_create(&trial->leases, &trial->plan, &created, until, err)) {
		return false;
	}
	trial->resource_id = created.resource_id;
	trial_log(trial, "container: starting %.12s", trial->resource_id);
	trial->environment = runner->open(runner, &trial->plan, trial->resource_id, until, err);
	if (!trial->environment) {
		return false;
	}
	trial->attestation = runner->attest(trial->environment, until, err);
	return trial->attestation != NULL;
}

bool trial_environment_start(struct trial *trial, struct trial_failure *failure)
{
	if (!make_plan(trial, failure)) {
		return false;
	}
	bool immediate = false;
	double timeout_sec = berth_timeout_sec(trial->task->environment.build_timeout_sec, 0,
		trial->spec->environment_build_timeout_multiplier, trial->spec->timeout_multiplier, &immediate);
	struct berth_until until = trial_until(trial, timeout_sec, immediate);
	trial->result->environment_setup = trial_phase_begin(trial, "environment_setup");
	struct berth_error err = {0};
	bool good = create_and_open(trial, until, &err);
	trial_phase_end(trial->result->environment_setup);
	if (good) {
		return true;
	}
	if (trial_timed_out(trial, &err)) {
		return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE, "EnvironmentStartTimeoutError",
			"Environment start timed out after %g seconds: %s", timeout_sec, err.message);
	}
	return trial_fail_error(failure, "RuntimeError", &err);
}

// One probe. True: it said something, *healthy what.
static bool probe(
	struct trial *trial, const struct berth_task_healthcheck *check, bool *healthy, struct trial_failure *failure)
{
	struct berth_error err = {0};
	// Harbor gives a probe whole seconds.
	long long seconds = (long long)check->timeout_sec;
	struct berth_until until = trial_until(trial, (double)seconds, seconds <= 0);
	const struct trial_command command = {.command = check->command};
	int exit_code;
	if (trial_command(trial, &command, &exit_code, until, &err)) {
		*healthy = exit_code == 0;
		return true;
	}
	if (trial_timed_out(trial, &err)) {
		return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_TASK, "RuntimeError",
			"Command timed out after %lld seconds (healthcheck)", seconds);
	}
	return trial_fail_error(failure, "RuntimeError", &err);
}

static bool pause_sec(struct trial *trial, double seconds, struct trial_failure *failure)
{
	struct berth_error err = {0};
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = trial->cancel};
	return berth_sleep_ms((int64_t)(seconds * 1000), until, &err) ||
	       trial_fail_error(failure, "RuntimeError", &err);
}

bool trial_healthcheck(struct trial *trial, const struct berth_task_healthcheck *check, struct trial_failure *failure)
{
	if (!check->command) {
		return true;
	}
	trial_log(trial, "healthcheck: waiting");
	int64_t lenient_until_ns = berth_boot_ns() + (int64_t)(check->start_period_sec * (double)BERTH_NS_PER_S);
	for (int64_t failures = 0;;) {
		bool healthy;
		if (!probe(trial, check, &healthy, failure)) {
			return false;
		}
		if (healthy) {
			return true;
		}
		bool lenient = berth_boot_ns() < lenient_until_ns;
		failures += lenient ? 0 : 1;
		if (!lenient && failures >= check->retries) {
			return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_TASK, "HealthcheckError",
				"Healthcheck failed after %lld consecutive retries: %s", (long long)check->retries,
				check->command);
		}
		if (!pause_sec(trial, lenient ? check->start_interval_sec : check->interval_sec, failure)) {
			return false;
		}
	}
}
