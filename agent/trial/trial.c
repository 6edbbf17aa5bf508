// SPDX-License-Identifier: Apache-2.0
// The lifecycle, top to bottom: load, check, start, agent, artifacts, verifier, end, result.
#include "agent/trial/trial.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trial/internal.h"
#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define COLLECT_MS (15 * 60 * 1000)
#define SALVAGE_MS (30 * 1000) // for the outputs of a trial that broke off

void trial_log(struct trial *trial, const char *format, ...)
{
	char at[BERTH_TIME_TEXT_SIZE];
	berth_time_harbor(berth_wall_ns(), at);
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *text = berth_vformat(format, args);
	va_end(args);
	for (char *end = text; (end = strpbrk(end, "\r\n"));) {
		*end = ' ';
	}
	BERTH_AUTO_FREE char *line = berth_format("%s %s\n", at, text);
	if (trial->log >= 0) {
		berth_write_all(trial->log, line, strlen(line), NULL); // a log that can't be written stops nothing
	}
}

void trial_tell(const struct trial *trial, const char *phase)
{
	if (trial->host->phase) {
		trial->host->phase(trial->host->context, phase);
	}
}

Berth__V1__Phase *trial_phase_begin(struct trial *trial, const char *phase)
{
	trial->phase = phase;
	trial_tell(trial, phase);
	trial_log(trial, "%s: begins", phase);
	Berth__V1__Phase *timer = berth_alloc(sizeof *timer);
	berth__v1__phase__init(timer);
	timer->started_at_ns = berth_wall_ns();
	return timer;
}

void trial_phase_end(Berth__V1__Phase *timer)
{
	timer->finished_at_ns = berth_wall_ns();
}

struct berth_until trial_until(const struct trial *trial, double timeout_sec, bool immediate)
{
	double seconds = immediate ? 0 : timeout_sec > 0 ? timeout_sec : TRIAL_TIMEOUT_SEC_MAX;
	seconds = seconds > TRIAL_TIMEOUT_SEC_MAX ? TRIAL_TIMEOUT_SEC_MAX : seconds;
	return berth_within_ms((int64_t)(seconds * 1000), trial->cancel);
}

struct trial_folders trial_folders_make(const struct trial *trial, const char *step, struct trial_failure *failure)
{
	BERTH_AUTO_FREE char *base = step ? berth_format("%s/steps/%s", trial->input->work_folder, step)
	                                  : berth_strdup(trial->input->work_folder);
	struct trial_folders folders = {
		.agent = berth_path_join(base, "agent"),
		.verifier = berth_path_join(base, "verifier"),
		.artifacts = berth_path_join(base, "artifacts"),
	};
	struct berth_error err = {0};
	if (!berth_mkdir_all(folders.agent, 0755, &err) || !berth_mkdir_all(folders.verifier, 0755, &err) ||
		!berth_mkdir_all(folders.artifacts, 0755, &err)) {
		err.code = BERTH_ERROR_IO;
		trial_fail_error(failure, "RuntimeError", &err);
	}
	return folders;
}

void trial_folders_free(struct trial_folders *folders)
{
	free(folders->agent);
	free(folders->verifier);
	free(folders->artifacts);
	*folders = (struct trial_folders){0};
}

// --- leases ---

static struct trial_lease *find_lease(struct trial *trial, const char *lease_id)
{
	for (size_t i = 0; i < trial->leases_count; i++) {
		if (strcmp(trial->lease_records[i].record->lease_id, lease_id) == 0) {
			return &trial->lease_records[i];
		}
	}
	return NULL;
}

// Passes the mark on, and keeps what became durable for the receipts.
static bool keep_mark(void *context, const Berth__V1__LeaseMove *move, struct berth_error *err)
{
	struct trial *trial = context;
	const struct berth_lease_book *book = &trial->host->leases.book;
	if (!book->mark(book->context, move, err)) {
		return false;
	}
	struct trial_lease *lease = find_lease(trial, move->lease_id);
	if (!lease) {
		return true;
	}
	lease->record->state = move->state;
	if (*move->resource_id) {
		berth_proto_set_string(&lease->record->resource_id, move->resource_id);
	}
	if (move->expected_end_at_ns) {
		lease->record->expected_end_at_ns = move->expected_end_at_ns;
	}
	if (!lease->record->provider_expiry_at_ns) { // fixed once
		lease->record->provider_expiry_at_ns = move->provider_expiry_at_ns;
	}
	if (move->proof) {
		lease->record->proof = move->proof;
	}
	berth_proto_set_string(&lease->record->failure, move->failure);
	return true;
}

static void take_leases(struct trial *trial)
{
	size_t count = trial->assignment->n_leases;
	trial->leases = (struct berth_lease_driver){
		.runner = trial->host->leases.runner, .book = {.mark = keep_mark, .context = trial}};
	trial->lease_records = berth_alloc((count + 1) * sizeof *trial->lease_records);
	trial->leases_count = count;
	for (size_t i = 0; i < count; i++) {
		trial->lease_records[i].record = berth_proto_clone(trial->assignment->leases[i]);
		bool fits = trial->assignment->leases[i]->role == BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT;
		if (fits && !trial->environment_lease) {
			trial->environment_lease = &trial->lease_records[i];
		}
	}
}

static void end_lease(struct trial *trial, struct trial_lease *lease)
{
	struct berth_error err = {0};
	const char *lease_id = lease->record->lease_id;
	if (lease->record->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		return;
	}
	bool good = lease->used ? berth_lease_retire(&trial->leases, lease_id,
					  berth_within_ms(BERTH_RETIRE_DEADLINE_MS, NULL), &err)
	                        : berth_lease_drop(&trial->leases, lease_id, &err);
	trial_log(trial, good ? "lease %s: ended%s%s" : "lease %s: %s%s", lease_id, good ? "" : err.message, "");
}

// Only what is active was left by a driver for us; a create that failed has ended its lease as far as it goes.
static bool is_ours_to_end(const struct trial_lease *lease)
{
	return !lease->used || lease->record->state == BERTH__V1__LEASE_STATE__LEASE_ACTIVE;
}

static void end_leases(struct trial *trial)
{
	trial->leases.runner->close(trial->environment);
	trial->environment = NULL;
	free(trial_phase_begin(trial, "cleanup"));
	for (size_t i = 0; i < trial->leases_count; i++) {
		if (is_ours_to_end(&trial->lease_records[i])) {
			end_lease(trial, &trial->lease_records[i]);
		}
	}
}

// --- the phases ---

static bool run_verifier(struct trial *trial, const char *folder, struct trial_failure *failure)
{
	trial->result->verifier = trial_phase_begin(trial, "verifier");
	// The first exception stays the trial's, and a verifier that fails for the infrastructure still outranks it.
	struct trial_failure verdict = {0};
	bool good = trial_verify(trial, NULL, folder, &trial->rewards, &verdict);
	trial_phase_end(trial->result->verifier);
	if (!good && (!failure->type || verdict.outcome != BERTH__V1__OUTCOME__OUTCOME_TASK)) {
		trial_failure_free(failure);
		*failure = verdict;
		verdict = (struct trial_failure){0};
	}
	trial_failure_free(&verdict);
	return good;
}

static void run_single(struct trial *trial, const struct trial_folders *folders, struct trial_failure *failure)
{
	trial->result->agent_execution = trial_phase_begin(trial, "agent_execution");
	trial_agent_run(trial, NULL, folders->agent, failure);
	trial_phase_end(trial->result->agent_execution);
	if (trial->unproven || !trial_failure_continues(failure)) {
		return;
	}
	trial_collect(trial, NULL, folders->artifacts, berth_within_ms(COLLECT_MS, trial->cancel));
	trial->outputs_kept = true;
	if (!trial->spec->verifier_disable && !trial->unproven) {
		run_verifier(trial, folders->verifier, failure);
	}
}

// What the agent left behind is evidence, also of a trial that broke off. One that was stopped is no longer this
// host's: nobody will see its result, and its container must be dead before another host may begin.
static void salvage(struct trial *trial, const struct trial_folders *folders)
{
	if (!trial->environment || trial->outputs_kept || trial->task->steps_count > 0) {
		return;
	}
	struct berth_until until = berth_within_ms(SALVAGE_MS, trial->cancel);
	trial_agent_sync(trial, folders->agent, until);
	trial_collect(trial, NULL, folders->artifacts, until);
}

static bool load(struct trial *trial, struct trial_failure *failure)
{
	struct berth_error err = {0};
	if (trial->spec->n_agents != 1 || !trial->agent) {
		return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE, "RuntimeError",
			"the assignment names %zu agents and not one", trial->spec->n_agents);
	}
	if (!berth_task_load(trial->input->task_folder, trial->spec->verifier_disable, &trial->task, &err)) {
		bool of_task = err.code == BERTH_ERROR_INVALID || err.code == BERTH_ERROR_NOT_FOUND;
		return trial_fail(failure,
			of_task ? BERTH__V1__OUTCOME__OUTCOME_CONFIGURATION
				: BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE,
			"ValueError", "%s", err.message);
	}
	for (size_t i = 0; i < trial->task->warnings.count; i++) {
		trial_log(trial, "warning: %s", trial->task->warnings.items[i]);
	}
	return true;
}

static void run_phases(struct trial *trial, struct trial_failure *failure)
{
	if (!load(trial, failure) || !trial_check(trial, failure)) {
		return;
	}
	BERTH_AUTO(trial_folders_free) struct trial_folders folders = {0};
	bool stepwise = trial->task->steps_count > 0;
	if (!stepwise) {
		folders = trial_folders_make(trial, NULL, failure);
	}
	if (!failure->type && trial_environment_start(trial, failure) &&
		trial_healthcheck(trial, &trial->task->environment.healthcheck, failure) &&
		trial_agent_setup(trial, failure)) {
		if (stepwise) {
			trial_steps(trial, failure);
		} else {
			run_single(trial, &folders, failure);
		}
	}
	salvage(trial, &folders);
}

// --- begin and end ---

static void begin(struct trial *trial)
{
	trial->spec = trial->assignment->spec;
	trial->agent = trial->spec->n_agents > 0 ? trial->spec->agents[0] : NULL;
	BERTH_AUTO_FREE char *path = berth_path_join(trial->input->work_folder, "trial.log");
	trial->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	const Berth__V1__SecretSet *secrets = trial->assignment->secrets;
	for (size_t i = 0; secrets && i < secrets->n_secrets; i++) {
		if (secrets->secrets[i]->sensitive) {
			redactor_add(&trial->redactor, secrets->secrets[i]->value);
		}
	}
	trial->result->trial = berth_alloc(sizeof *trial->result->trial);
	berth__v1__phase__init(trial->result->trial);
	trial->result->trial->started_at_ns = berth_wall_ns();
	trial_log(
		trial, "trial %s: generation %u", trial->assignment->trial_name, trial->assignment->trial->generation);
	take_leases(trial);
}

// A failure that came of a cancel is the cancel, whatever broke first on the way.
static void judge_cancel(struct trial *trial, struct trial_failure *failure)
{
	if (failure->type && !trial_failure_continues(failure) && trial->cancel && berth_cancel_fired(trial->cancel) &&
		failure->outcome == BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE) {
		trial_failure_free(failure);
		trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_CANCELLED, "CancelledError", "the trial was cancelled");
	}
}

static void void_result(struct trial *trial, const char *what, const struct berth_error *err)
{
	trial->result->outcome = BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE;
	berth_proto_set_string(&trial->result->rewards_json, "");
	trial_log(trial, "%s: %s", what, err->message);
}

static void finish(struct trial *trial, struct trial_failure *failure)
{
	judge_cancel(trial, failure);
	if (failure->type && !failure->phase) {
		failure->phase = berth_strdup(trial->phase);
	}
	if (failure->type) {
		trial_log(trial, "%s: %s", failure->type, failure->message);
	}
	end_leases(trial);
	trial_result(trial, failure);
	trial->result->trial->finished_at_ns = berth_wall_ns();
	// A folder that may still hold secrets, or a result that proves nothing, must not count.
	struct berth_error err = {0};
	if (!redact_folder(&trial->redactor, trial->input->work_folder, &err)) {
		void_result(trial, "redaction", &err);
	}
	if (!trial_evidence(trial, &err)) {
		void_result(trial, "evidence", &err);
	}
	const ProtobufCEnumValue *outcome =
		protobuf_c_enum_descriptor_get_value(&berth__v1__outcome__descriptor, (int)trial->result->outcome);
	trial_log(trial, "ended: %s %s", outcome->name, trial->result->rewards_json);
}

static void release(struct trial *trial)
{
	for (size_t i = 0; i < trial->leases_count; i++) {
		berth_proto_free(trial->lease_records[i].record);
	}
	free(trial->lease_records);
	berth_env_free(&trial->environment_env);
	free(trial->context_folder);
	free(trial->session_id);
	free(trial->resource_id);
	berth_json_free(trial->attestation);
	berth_json_free(trial->rewards);
	redactor_free(&trial->redactor);
	berth_task_free(trial->task);
	berth_close_cleanup(&trial->log);
	berth_close_cleanup(&trial->build_log);
}

void berth_trial_run(const struct berth_trial_host *host, const struct berth_trial_input *input,
	struct berth_cancel *cancel, Berth__V1__TrialResult *result)
{
	struct trial trial = {
		.host = host,
		.input = input,
		.assignment = input->assignment,
		.cancel = cancel,
		.result = result,
		.log = -1,
		.build_log = -1,
		.phase = "begin",
	};
	BERTH_AUTO(trial_failure_free) struct trial_failure failure = {0};
	begin(&trial);
	run_phases(&trial, &failure);
	finish(&trial, &failure);
	release(&trial);
}
