// SPDX-License-Identifier: Apache-2.0
// Jobs: submitted once by client key, cancelled durably, ended when nothing of theirs is left to do.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

#define CLIENT_KEY_SIZE_MAX 128
#define ATTEMPTS_MAX        10000
// A host that breaks must not burn every run of a trial before its next heartbeat says that it takes none.
#define BROKEN_WAIT_MS     2000
#define BROKEN_DOUBLES_MAX 5

static struct job *job_of_key(const struct berth_core *core, const char *submitter, const char *client_key)
{
	size_t size = strlen(submitter) + 1 + strlen(client_key);
	BERTH_AUTO_FREE char *key = berth_alloc(size + 1);
	memcpy(key, submitter, strlen(submitter) + 1);
	memcpy(key + strlen(submitter) + 1, client_key, strlen(client_key));
	struct job *job = NULL;
	HASH_FIND(by_key, core->jobs_by_key, key, size, job);
	return job;
}

// The first task that no agent of the fleet, seen at least once, could ever hold.
static const Berth__V1__Task *unplaceable_task(const struct berth_core *core, const Berth__V1__JobSpec *spec)
{
	uint32_t cpus = 0;
	uint64_t memory_mb = 0;
	struct agent *agent, *next;
	HASH_ITER (hh, core->agents, agent, next) {
		cpus = agent->capacity.cpus > cpus ? agent->capacity.cpus : cpus;
		memory_mb = agent->capacity.memory_mb > memory_mb ? agent->capacity.memory_mb : memory_mb;
	}
	if (!cpus) {
		return NULL; // no agent was seen yet: the job waits for one
	}
	for (size_t i = 0; i < spec->n_tasks; i++) {
		uint32_t wants_cpus = spec->override_cpus > 0 ? (uint32_t)spec->override_cpus : spec->tasks[i]->cpus;
		uint64_t wants_mb =
			spec->override_memory_mb > 0 ? (uint64_t)spec->override_memory_mb : spec->tasks[i]->memory_mb;
		if (wants_cpus > cpus || wants_mb > memory_mb) {
			return spec->tasks[i];
		}
	}
	return NULL;
}

bool check_submit(const struct berth_core *core, const Berth__V1__SubmitJobRequest *submit, const char *disk_message,
	struct berth_error *err)
{
	const Berth__V1__JobSpec *spec = submit->spec;
	size_t key_size = strlen(submit->client_key);
	const Berth__V1__Task *task = NULL;
	if (key_size == 0 || key_size > CLIENT_KEY_SIZE_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "client_key must have 1 to %d bytes", CLIENT_KEY_SIZE_MAX);
	}
	if (!spec || !spec->n_tasks || !spec->n_agents || !spec->attempts) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a job needs at least one agent, one task and one attempt");
	}
	if (spec->attempts > ATTEMPTS_MAX ||
		(uint64_t)spec->attempts * spec->n_agents * spec->n_tasks > BERTH_JOB_CELLS_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a job has at most %d trials (and %d attempts): split it",
			BERTH_JOB_CELLS_MAX, ATTEMPTS_MAX);
	}
	if (strcmp(spec->environment_type, "docker") != 0) {
		return berth_fail(err, spec->budget[0] ? BERTH_ERROR_UNSUPPORTED : BERTH_ERROR_BUDGET,
			"environment type %s is paid for, and %s", spec->environment_type,
			spec->budget[0] ? "no agent of this fleet offers it: use docker"
					: "the job names no budget: give --budget and --phase");
	}
	if (disk_message) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED, "no new job is taken: %s", disk_message);
	}
	if ((task = unplaceable_task(core, spec))) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"task %s wants %u CPUs and %u MB, more than any agent of this fleet has: lower "
			"[environment].cpus or memory_mb, or add a larger host",
			task->name, task->cpus, task->memory_mb);
	}
	return true;
}

void decide_submit(const struct decision *decision)
{
	const struct berth_command *command = decision->command;
	const Berth__V1__SubmitJobRequest *submit = command->submit;
	const struct job *old = job_of_key(decision->core, command->actor, submit->client_key);
	if (old) {
		if (!berth_digest_equal(&old->request_digest, &command->request_digest)) {
			refuse(decision, BERTH_ERROR_CONFLICT,
				"client key %s was used for job %s with another content: use a key of its own for each "
				"job",
				submit->client_key, old->id);
		}
		memcpy(decision->outcome->job_id, old->id, BERTH_ID_SIZE);
		decision->outcome->existed = true;
		return;
	}
	int64_t quote_nano_usd = 0;
	if (!check_submit(decision->core, submit, command->disk_low ? command->disk_message : NULL,
		    &decision->outcome->error) ||
		!may_be_paid(
			decision->core, submit->spec, command->actor, &quote_nano_usd, &decision->outcome->error)) {
		return;
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_JOB_SUBMITTED);
	Berth__Store__V1__JobSubmitted *submitted = emit_part(decision, sizeof *submitted);
	berth__store__v1__job_submitted__init(submitted);
	submitted->job_id = emit_text(decision, command->job_id);
	submitted->client_key = emit_text(decision, submit->client_key);
	submitted->submitter = emit_text(decision, command->actor);
	submitted->spec = submit->spec;
	submitted->name_seed = emit_bytes(decision, command->name_seed, 16);
	submitted->request_digest = emit_bytes(decision, command->request_digest.bytes, BERTH_DIGEST_SIZE);
	submitted->secrets_digest = emit_bytes(decision, command->secrets_digest.bytes, BERTH_DIGEST_SIZE);
	size_t secrets = submit->secrets ? submit->secrets->n_secrets : 0;
	submitted->secret_names = emit_part(decision, secrets * sizeof *submitted->secret_names);
	submitted->n_secret_names = secrets;
	for (size_t i = 0; i < secrets; i++) {
		const Berth__V1__Secret *secret = submit->secrets->secrets[i];
		BERTH_AUTO_FREE char *name = berth_format("%s:%s", secret->scope, secret->name);
		submitted->secret_names[i] = emit_text(decision, name);
	}
	event->job_submitted = submitted;
	emit(decision, event);
	struct job *job = core_job(decision->core, command->job_id);
	limit_job(decision, job, quote_nano_usd);
	for (uint32_t i = 0; i < job->cells_count; i++) {
		job->cells[i].queued_boot_ns = decision->now.boot_ns;
	}
	memcpy(decision->outcome->job_id, command->job_id, BERTH_ID_SIZE);
}

void decide_cancel(const struct decision *decision)
{
	char id[BERTH_ID_SIZE];
	if (!berth_core_find_job(decision->core, decision->command->job_id, id, &decision->outcome->error)) {
		return;
	}
	struct job *job = core_job(decision->core, id);
	memcpy(decision->outcome->job_id, id, BERTH_ID_SIZE);
	if (job->state != BERTH__V1__JOB_STATE__JOB_RUNNING) {
		return; // cancelled already, or over: asking again changes nothing
	}
	for (uint32_t i = 0; i < job->cells_count; i++) {
		if (job->cells[i].agent) {
			struct berth_effect *revoke = effect_cell(decision, BERTH_EFFECT_REVOKE, &job->cells[i]);
			snprintf(revoke->reason, sizeof revoke->reason, "the job was cancelled");
		}
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_JOB_CANCEL_REQUESTED);
	Berth__Store__V1__JobCancelRequested *requested = emit_part(decision, sizeof *requested);
	berth__store__v1__job_cancel_requested__init(requested);
	requested->job_id = emit_text(decision, id);
	requested->reason = emit_text(decision, decision->command->reason);
	event->job_cancel_requested = requested;
	emit(decision, event);
	memcpy(effect(decision, BERTH_EFFECT_JOB_CHANGED)->job_id, id, BERTH_ID_SIZE);
	end_job_if_over(decision, job);
}

void end_job_if_over(const struct decision *decision, struct job *job)
{
	bool cancelled = job->state == BERTH__V1__JOB_STATE__JOB_CANCELLING;
	if (job->ended_at_ns || job->counts[BERTH__V1__TRIAL_STATE__TRIAL_QUEUED] ||
		job->counts[BERTH__V1__TRIAL_STATE__TRIAL_RUNNING] ||
		job->counts[BERTH__V1__TRIAL_STATE__TRIAL_BUDGET_BLOCKED] || (cancelled && job->open_leases)) {
		return;
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_JOB_ENDED);
	Berth__Store__V1__JobEnded *ended = emit_part(decision, sizeof *ended);
	berth__store__v1__job_ended__init(ended);
	ended->job_id = emit_text(decision, job->id);
	ended->state = cancelled ? BERTH__V1__JOB_STATE__JOB_CANCELLED : BERTH__V1__JOB_STATE__JOB_COMPLETED;
	event->job_ended = ended;
	emit(decision, event);
	memcpy(effect(decision, BERTH_EFFECT_DROP_SECRETS)->job_id, job->id, BERTH_ID_SIZE);
	memcpy(effect(decision, BERTH_EFFECT_JOB_CHANGED)->job_id, job->id, BERTH_ID_SIZE);
}

// Whether an exception's name is one that Harbor's policy runs again.
static bool is_retried(const Berth__V1__RetryPolicy *policy, const char *exception)
{
	for (size_t i = 0; i < policy->n_exclude_exceptions; i++) {
		if (strcmp(policy->exclude_exceptions[i], exception) == 0) {
			return false;
		}
	}
	if (!policy->has_include) {
		return true;
	}
	for (size_t i = 0; i < policy->n_include_exceptions; i++) {
		if (strcmp(policy->include_exceptions[i], exception) == 0) {
			return true;
		}
	}
	return false;
}

// Harbor's delay: min(min_wait * multiplier^attempt, max_wait).
int64_t retry_delay_ns(const Berth__V1__RetryPolicy *policy, uint32_t attempt)
{
	double delay = policy->min_wait_sec * pow(policy->wait_multiplier, attempt);
	if (!(delay < policy->max_wait_sec)) {
		delay = policy->max_wait_sec;
	}
	return delay > 0 ? (int64_t)(delay * (double)BERTH_NS_PER_S) : 0;
}

bool wants_retry(const struct cell *cell, const Berth__V1__TrialResult *result)
{
	const Berth__V1__RetryPolicy *policy = cell->job->spec->retry;
	return policy && result->exception && cell->retries < policy->max_retries &&
	       is_retried(policy, result->exception->type);
}

static int64_t broken_delay_ns(uint32_t failures)
{
	return (BROKEN_WAIT_MS << (failures < BROKEN_DOUBLES_MAX ? failures : BROKEN_DOUBLES_MAX)) * BERTH_NS_PER_MS;
}

static int64_t longest_delay_ns(const struct job *job)
{
	int64_t broken_ns = broken_delay_ns(BROKEN_DOUBLES_MAX);
	int64_t retry_ns = job->spec->retry ? (int64_t)(job->spec->retry->max_wait_sec * (double)BERTH_NS_PER_S) : 0;
	return retry_ns > broken_ns ? retry_ns : broken_ns;
}

void resume_waits(const struct decision *decision)
{
	struct job *job;
	struct cell *cell;
	DL_FOREACH2(decision->core->open_jobs, job, open_next)
	{
		for (uint32_t i = 0; job->cells && i < job->cells_count; i++) {
			job->cells[i].queued_boot_ns = decision->now.boot_ns;
		}
		DL_FOREACH (job->delayed, cell) {
			// Only the wall clock has outlived the restart, and it may have been set meanwhile.
			int64_t left_ns = cell->not_before_ns - decision->now.wall_ns;
			int64_t most_ns = longest_delay_ns(job);
			cell->due_boot_ns = decision->now.boot_ns + (left_ns < most_ns ? left_ns : most_ns);
			wake_at(decision->core, cell->due_boot_ns);
		}
	}
}

void unassign(const struct decision *decision, struct cell *cell, Berth__Store__V1__UnassignReason reason,
	const char *detail, const Berth__V1__TrialResult *result)
{
	struct job *job = cell->job;
	bool retry = reason == BERTH__STORE__V1__UNASSIGN_REASON__RETRY;
	bool refused = reason == BERTH__STORE__V1__UNASSIGN_REASON__BUDGET_REFUSED;
	bool restored = reason == BERTH__STORE__V1__UNASSIGN_REASON__RESTORED;
	// A run of the part that a restore lost may still be heard of, and goes before what failed.
	bool may_go_on = retry || restored || decision->core->resending;
	bool quarantined = refused || (!may_go_on && cell->failures + 1u >= decision->core->config.max_generations);
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_TRIAL_UNASSIGNED);
	Berth__Store__V1__TrialUnassigned *unassigned = emit_part(decision, sizeof *unassigned);
	berth__store__v1__trial_unassigned__init(unassigned);
	unassigned->trial = emit_part(decision, sizeof *unassigned->trial);
	berth__v1__trial_key__init(unassigned->trial);
	unassigned->trial->job_id = emit_text(decision, job->id);
	unassigned->trial->index = cell->index;
	unassigned->trial->generation = cell->generation;
	unassigned->reason = reason;
	unassigned->detail = emit_text(decision, detail);
	unassigned->result = (Berth__V1__TrialResult *)result;
	unassigned->next =
		quarantined ? BERTH__V1__TRIAL_STATE__TRIAL_QUARANTINED : BERTH__V1__TRIAL_STATE__TRIAL_QUEUED;
	if (retry) {
		unassigned->not_before_ns = decision->now.wall_ns + retry_delay_ns(job->spec->retry, cell->retries);
	} else if (reason == BERTH__STORE__V1__UNASSIGN_REASON__INFRASTRUCTURE && !quarantined) {
		unassigned->not_before_ns = decision->now.wall_ns + broken_delay_ns(cell->failures);
	}
	event->trial_unassigned = unassigned;
	emit(decision, event);
	cell->queued_boot_ns = decision->now.boot_ns;
	if (cell->delayed) {
		cell->due_boot_ns = decision->now.boot_ns + cell->not_before_ns - decision->now.wall_ns;
		wake_at(decision->core, cell->due_boot_ns);
	}
	effect_cell(decision, BERTH_EFFECT_TRIAL_CHANGED, cell);
	end_job_if_over(decision, job);
}
