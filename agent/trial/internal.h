// SPDX-License-Identifier: Apache-2.0
// One running trial, as its phases share it. One thread.
#pragma once

#include "agent/trial/redact.h"
#include "agent/trial/trial.h"
#include "common/task/reward.h"
#include "common/task/task.h"

// What ended a phase: Harbor's exception, and whose doing it was.
struct trial_failure {
	const char *type; // Harbor's class name; NULL: none
	char *message;
	char *phase;
	Berth__V1__Outcome outcome;
	int64_t at_ns;
};
void trial_failure_free(struct trial_failure *failure);
// Fills an empty failure; the first one stays. Always false.
bool trial_fail(struct trial_failure *failure, Berth__V1__Outcome outcome, const char *type, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
// From an error of a runner: CANCELLED is CancelledError, INVALID is the task's doing, everything else is the
// infrastructure's; `type` names the exception.
bool trial_fail_error(struct trial_failure *failure, const char *type, const struct berth_error *err);
// The failures after which Harbor verifies all the same.
bool trial_failure_continues(const struct trial_failure *failure);
Berth__V1__TrialException *trial_failure_message(const struct trial_failure *failure);

struct trial_lease {
	Berth__V1__Lease *record; // as the agent last made it durable
	bool used;                // given to the driver: it ends it
};

struct trial {
	const struct berth_trial_host *host;
	const struct berth_trial_input *input;
	const Berth__V1__Assignment *assignment;
	const Berth__V1__JobSpec *spec;
	const Berth__V1__AgentConfig *agent;
	struct berth_cancel *cancel;
	Berth__V1__TrialResult *result;
	int log, build_log; // descriptors; -1: none
	const char *phase;  // the running one, for failures and the log
	struct redactor redactor;
	struct berth_task *task;

	struct berth_lease_driver leases; // the host's, with every move kept in `lease_records`
	struct trial_lease *lease_records;
	size_t leases_count;
	struct trial_lease *environment_lease;

	struct berth_env environment_env;
	char *context_folder, *session_id;
	struct berth_environment_plan plan;
	char *resource_id;
	struct berth_environment *environment; // NULL unless open
	berth_json *attestation;

	bool unproven;     // something may run on: nothing that follows counts
	bool outputs_kept; // agent folder and artifacts are on this host
	berth_json *rewards;
	const char *leftovers;
};

// Where the files of a trial, or of one step, go.
struct trial_folders {
	char *agent, *verifier, *artifacts;
};

// --- trial.c ---
void trial_log(struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trial_tell(const struct trial *trial, const char *phase); // to the host alone
// Names the running phase to the host and the log, and starts its timer.
Berth__V1__Phase *trial_phase_begin(struct trial *trial, const char *phase);
void trial_phase_end(Berth__V1__Phase *timer);
// The end of a phase of `timeout_sec` from now (0: TRIAL_TIMEOUT_SEC_MAX), or at once.
struct berth_until trial_until(const struct trial *trial, double timeout_sec, bool immediate);
#define TRIAL_TIMEOUT_SEC_MAX (24.0 * 3600)
struct trial_folders trial_folders_make(const struct trial *trial, const char *step, struct trial_failure *failure);
void trial_folders_free(struct trial_folders *folders);

// --- check.c ---
// What is asked for and not supported, or not given: found before anything is created.
bool trial_check(struct trial *trial, struct trial_failure *failure);

// --- environment.c ---
bool trial_environment_start(struct trial *trial, struct trial_failure *failure);
bool trial_healthcheck(struct trial *trial, const struct berth_task_healthcheck *check, struct trial_failure *failure);

// --- command.c ---
struct trial_command {
	const char *command, *user, *workdir;
	const struct berth_env *env;
	bool (*output)(void *context, const void *data, size_t size);
	void *context;
	bool of_agent; // what it leaves is subject to the job's policy
};
// Remembers in `unproven` when the command's end is not proven.
bool trial_command(struct trial *trial, const struct trial_command *command, int *exit_code, struct berth_until until,
	struct berth_error *err);
// True when `until` passed by its deadline, not by the trial's cancel: then `err` is a timeout of that phase.
bool trial_timed_out(const struct trial *trial, const struct berth_error *err);

// --- secrets.c ---
const char *trial_secret(const struct trial *trial, const char *scope, const char *name);
// Sets each name of `declared` in `env` to the value that came for it. ValueError names the first one that lacks it.
bool trial_env_declared(const struct trial *trial, const struct berth_env *declared, const char *scope,
	const char *where, struct berth_env *env, struct trial_failure *failure);
// The same for names that the job lists.
bool trial_env_listed(const struct trial *trial, char *const *names, size_t count, const char *scope, const char *where,
	struct berth_env *env, struct trial_failure *failure);

// Whether every value that the trial will need has come.
bool trial_check_env(const struct trial *trial, struct trial_failure *failure);

// --- agent_oracle.c ---
bool trial_agent_setup(struct trial *trial, struct trial_failure *failure);
// `step` NULL for single-step tasks. Brings /logs/agent out whatever happened.
bool trial_agent_run(struct trial *trial, const struct berth_task_step *step, const char *agent_folder,
	struct trial_failure *failure);
void trial_agent_sync(struct trial *trial, const char *agent_folder, struct berth_until until);

// --- artifacts.c ---
// Collect hooks, then every artifact, as well as it goes; artifacts/manifest.json says what came.
void trial_collect(struct trial *trial, const struct berth_task_step *step, const char *artifacts_folder,
	struct berth_until until);

// --- verify.c ---
// True with *rewards set. False with failure.
bool trial_verify(struct trial *trial, const struct berth_task_step *step, const char *verifier_folder,
	berth_json **rewards, struct trial_failure *failure);

// --- steps.c ---
bool trial_steps(struct trial *trial, struct trial_failure *failure);

// --- result.c ---
void trial_result(struct trial *trial, const struct trial_failure *failure);
// Whose doing the end was: cleanup and unproven ends outrank everything, then the failure, then the rewards.
Berth__V1__Outcome trial_outcome(
	bool unproven, bool leases_ended, const struct trial_failure *failure, const berth_json *rewards);

// --- evidence.c ---
bool trial_evidence(struct trial *trial, struct berth_error *err);
