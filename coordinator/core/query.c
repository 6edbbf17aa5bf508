// SPDX-License-Identifier: Apache-2.0
// What the service asks: copies of the state as messages.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

#define PREFIX_MIN 6

bool berth_core_find_job(
	const struct berth_core *core, const char *text, char job_id[static BERTH_ID_SIZE], struct berth_error *err)
{
	const struct job *exact = core_job(core, text), *job, *found = exact;
	unsigned matches = exact ? 1 : 0;
	size_t length = strlen(text);
	if (!exact) {
		DL_FOREACH (core->jobs, job) {
			bool prefix = length >= PREFIX_MIN && strncmp(job->id, text, length) == 0;
			if (prefix || strcmp(job->name, text) == 0) {
				found = job;
				matches++;
			}
		}
	}
	if (matches == 0) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND, "no job is %s: `berth job list` shows them", text);
	}
	if (matches > 1) {
		return berth_fail(
			err, BERTH_ERROR_CONFLICT, "%u jobs are %s: give more digits of the id", matches, text);
	}
	memcpy(job_id, found->id, BERTH_ID_SIZE);
	return true;
}

static void name_open_leases(const struct berth_core *core, const struct job *wanted, Berth__V1__Job *message)
{
	if (wanted->state != BERTH__V1__JOB_STATE__JOB_CANCELLING || !wanted->open_leases) {
		return;
	}
	const struct lease *lease, *next;
	HASH_ITER (hh, core->leases, lease, next) {
		if (lease->job == wanted && lease_is_open(lease->record) &&
			message->n_open_leases < BERTH_OPEN_LEASES_NAMED_MAX) {
			berth_proto_append(
				&message->n_open_leases, &message->open_leases, berth_strdup(lease->record->lease_id));
		}
	}
}

Berth__V1__Job *berth_core_job(const struct berth_core *core, const char *job_id)
{
	const struct job *job = core_job(core, job_id);
	if (!job) {
		return NULL;
	}
	Berth__V1__Job *message = berth_alloc(sizeof *message);
	berth__v1__job__init(message);
	berth_proto_set_string(&message->job_id, job->id);
	berth_proto_set_string(&message->name, job->name);
	berth_proto_set_string(&message->submitter, job->submitter);
	berth_proto_set_string(&message->reason, job->reason);
	berth_proto_set_string(&message->blocked_reason, job->blocked_reason);
	message->state = job->state;
	message->submitted_at_ns = job->submitted_at_ns;
	message->ended_at_ns = job->ended_at_ns;
	message->counts = berth_alloc(sizeof *message->counts);
	berth__v1__job_counts__init(message->counts);
	message->counts->total = job->cells_count;
	message->counts->budget_blocked = job_blocked(job);
	message->counts->queued = job->counts[BERTH__V1__TRIAL_STATE__TRIAL_QUEUED] - message->counts->budget_blocked;
	message->counts->running = job->counts[BERTH__V1__TRIAL_STATE__TRIAL_RUNNING];
	message->counts->scored = job->counts[BERTH__V1__TRIAL_STATE__TRIAL_SCORED];
	message->counts->unscored = job->counts[BERTH__V1__TRIAL_STATE__TRIAL_UNSCORED];
	message->counts->quarantined = job->counts[BERTH__V1__TRIAL_STATE__TRIAL_QUARANTINED];
	message->counts->cancelled = job->counts[BERTH__V1__TRIAL_STATE__TRIAL_CANCELLED];
	message->counts->errored = job->errored;
	message->counts->reward_sum = job->reward_sum;
	name_open_leases(core, job, message);
	return message;
}

uint64_t berth_core_job_sequence(const struct berth_core *core, const char *job_id)
{
	const struct job *job = core_job(core, job_id);
	return job ? job->sequence : 0;
}

uint32_t berth_core_job_cells(const struct berth_core *core, const char *job_id)
{
	const struct job *job = core_job(core, job_id);
	return job ? job->cells_count : 0;
}

bool berth_core_job_is_over(const struct berth_core *core, const char *job_id)
{
	const struct job *job = core_job(core, job_id);
	return job && job->ended_at_ns;
}

size_t berth_core_jobs(const struct berth_core *core, const char *before, size_t limit, Berth__V1__Job **jobs)
{
	if (!core->jobs) {
		return 0;
	}
	const struct job *start = before ? core_job(core, before) : NULL;
	size_t count = 0;
	// utlist keeps the tail in head->prev, and the head's own prev is not NULL: stop after the head.
	const struct job *job = start ? start : core->jobs->prev;
	if (start && start == core->jobs) {
		return 0;
	}
	for (job = start ? start->prev : job; count < limit; job = job->prev) {
		jobs[count++] = berth_core_job(core, job->id);
		if (job == core->jobs) {
			break;
		}
	}
	return count;
}

static const char *reason_text(Berth__Store__V1__UnassignReason reason)
{
	const ProtobufCEnumValue *value =
		protobuf_c_enum_descriptor_get_value(&berth__store__v1__unassign_reason__descriptor, (int)reason);
	return value ? value->name : "?";
}

static Berth__V1__Trial *trial_message(
	const struct cell *cell, const Berth__V1__JobSpec *spec, uint64_t *result_sequence)
{
	Berth__V1__Trial *message = berth_alloc(sizeof *message);
	berth__v1__trial__init(message);
	message->key = berth_alloc(sizeof *message->key);
	berth__v1__trial_key__init(message->key);
	berth_proto_set_string(&message->key->job_id, cell->job->id);
	message->key->index = cell->index;
	message->key->generation = cell->generation;
	BERTH_AUTO_FREE char *name = cell_name(cell, spec);
	berth_proto_set_string(&message->trial_name, name);
	message->agent = cell_agent(cell);
	message->task = cell_task(cell);
	message->attempt = cell_attempt(cell);
	message->state = cell->state;
	if (cell_is_blocked(cell)) {
		message->state = BERTH__V1__TRIAL_STATE__TRIAL_BUDGET_BLOCKED;
		berth_proto_set_string(&message->blocked_reason, cell->job->blocked_reason);
	}
	message->started_at_ns = cell->assigned_at_ns;
	berth_proto_set_string(&message->agent_host, cell->last_agent ? cell->last_agent->name : NULL);
	berth_proto_set_string(&message->phase, cell->deferred ? "awaiting_agents" : cell->phase);
	const struct note *note;
	LL_FOREACH (cell->notes, note) {
		char *text = berth_format(
			"generation %u: %s: %s", note->generation, reason_text(note->reason), note->detail);
		berth_proto_append(&message->n_notes, &message->notes, text);
	}
	*result_sequence = cell->result_sequence;
	return message;
}

Berth__V1__Trial *berth_core_trial(const struct berth_core *core, const char *job_id, uint32_t index,
	const Berth__V1__JobSpec *spec, uint64_t *result_sequence)
{
	const struct job *job = core_job(core, job_id);
	if (!job || !job->cells || index >= job->cells_count) {
		return NULL;
	}
	return trial_message(&job->cells[index], job->spec ? job->spec : spec, result_sequence);
}

bool berth_core_is_forgotten(const struct berth_core *core, const char *job_id)
{
	const struct job *job = core_job(core, job_id);
	return job && !job->cells;
}

Berth__V1__Trial *berth_core_recorded_trial(const Berth__Store__V1__JobRow *recorded,
	const Berth__Store__V1__TrialRow *row, const Berth__V1__JobSpec *spec, uint64_t *result_sequence)
{
	struct job job = {.agents_count = recorded->agents, .tasks_count = recorded->tasks};
	snprintf(job.id, sizeof job.id, "%s", recorded->job_id);
	if (recorded->name_seed.len == sizeof job.name_seed) {
		memcpy(job.name_seed, recorded->name_seed.data, sizeof job.name_seed);
	}
	struct cell cell = {.job = &job, .index = row->index};
	rows_take_trial(&cell, row);
	Berth__V1__Trial *message = trial_message(&cell, spec, result_sequence);
	berth_proto_set_string(&message->agent_host, row->agent);
	core_free_notes(&cell);
	return message;
}

bool berth_core_assignment(const struct berth_core *core, const char *job_id, uint32_t index, uint32_t generation,
	struct berth_core_assignment *assignment)
{
	const struct job *job = core_job(core, job_id);
	const struct cell *cell = job && job->cells && index < job->cells_count ? &job->cells[index] : NULL;
	if (!cell || !cell->agent || cell->generation != generation) {
		return false;
	}
	Berth__V1__Assignment *message = &assignment->message;
	berth__v1__assignment__init(message);
	berth__v1__trial_key__init(&assignment->trial);
	assignment->trial.job_id = cell->job->id;
	assignment->trial.index = index;
	assignment->trial.generation = generation;
	// Only this trial's agent and task, without copying a spec of thousands.
	assignment->spec = *job->spec;
	assignment->spec.n_agents = assignment->spec.n_tasks = 1;
	assignment->spec.agents = &job->spec->agents[cell_agent(cell)];
	assignment->spec.tasks = &job->spec->tasks[cell_task(cell)];
	assignment->spec.config_json = (char *)protobuf_c_empty_string;
	message->trial = &assignment->trial;
	message->spec = &assignment->spec;
	message->attempt = cell_attempt(cell);
	message->agent = cell_agent(cell);
	message->task = cell_task(cell);
	message->leases = assignment->leases;
	message->reservations = assignment->reservations;
	const struct lease *lease;
	LL_FOREACH2(cell->leases, lease, next_of_cell)
	{
		assignment->leases[message->n_leases++] = lease->record;
		const Berth__V1__Reservation *row =
			berth_budgets_reservation(core->budgets, lease->record->reservation_id);
		if (row) {
			assignment->reservations[message->n_reservations++] = (Berth__V1__Reservation *)row;
		}
	}
	return true;
}

char *berth_core_trial_name(const struct berth_core *core, const char *job_id, uint32_t index)
{
	const struct job *job = core_job(core, job_id);
	return job && job->cells && index < job->cells_count ? cell_name(&job->cells[index], job->spec) : NULL;
}

static Berth__V1__Agent *agent_message(const struct agent *agent)
{
	Berth__V1__Agent *message = berth_alloc(sizeof *message);
	berth__v1__agent__init(message);
	berth_proto_set_string(&message->name, agent->name);
	berth_proto_set_string(&message->boot_id, agent->boot_id);
	berth_proto_set_string(&message->daemon_id, agent->daemon_id);
	berth_proto_set_string(&message->platform, agent->platform);
	berth_proto_set_string(&message->version, agent->version);
	berth_proto_set_string(&message->trouble, agent->trouble);
	message->capacity = berth_proto_clone(agent->boot_id[0] ? &agent->capacity : NULL);
	message->running = agent->running_count;
	message->open_leases = agent->open_leases;
	message->resending = agent->resending;
	message->accepting = agent->accepting && agent->session;
	message->seen_at_ns = agent->seen_at_ns;
	if (!agent->boot_id[0]) {
		message->state = BERTH__V1__AGENT_STATE__AGENT_ENROLLED;
	} else if (agent->lost) {
		message->state = BERTH__V1__AGENT_STATE__AGENT_LOST;
	} else {
		message->state =
			agent->session ? BERTH__V1__AGENT_STATE__AGENT_UP : BERTH__V1__AGENT_STATE__AGENT_SILENT;
	}
	return message;
}

static int compare_agents(const void *a, const void *b)
{
	return strcmp((*(Berth__V1__Agent *const *)a)->name, (*(Berth__V1__Agent *const *)b)->name);
}

size_t berth_core_agents(const struct berth_core *core, Berth__V1__Agent **agents, size_t limit)
{
	size_t count = 0;
	struct agent *agent, *next;
	HASH_ITER (hh, core->agents, agent, next) {
		if (count < limit && !agent->forgotten) {
			agents[count++] = agent_message(agent);
		}
	}
	qsort(agents, count, sizeof(*agents), compare_agents);
	return count;
}

Berth__V1__Agent *berth_core_agent(const struct berth_core *core, const char *name)
{
	const struct agent *agent = core_agent(core, name);
	return agent && !agent->forgotten ? agent_message(agent) : NULL;
}

size_t berth_core_agent_trials(
	const struct berth_core *core, const char *name, Berth__V1__TrialKey **keys, size_t limit)
{
	const struct agent *agent = core_agent(core, name);
	size_t count = 0;
	const struct cell *cell;
	DL_FOREACH (agent ? agent->running : NULL, cell) {
		if (count == limit) {
			break;
		}
		Berth__V1__TrialKey *key = berth_alloc(sizeof *key);
		berth__v1__trial_key__init(key);
		berth_proto_set_string(&key->job_id, cell->job->id);
		key->index = cell->index;
		key->generation = cell->generation;
		keys[count++] = key;
	}
	return count;
}

const char *berth_core_certificate(const struct berth_core *core, const char *role, const char *name)
{
	if (strcmp(role, "agent") == 0) {
		const struct agent *agent = core_agent(core, name);
		return agent ? agent->certificate_sha256 : NULL;
	}
	char key[2 * BERTH_NAME_SIZE];
	snprintf(key, sizeof key, "%s/%s", role, name);
	const struct person *person = NULL;
	HASH_FIND_STR(core->people, key, person);
	return person ? person->certificate_sha256 : NULL;
}

bool berth_core_signing_key(const struct berth_core *core, const char *agent, const uint8_t **der, size_t *size)
{
	const struct agent *known = core_agent(core, agent);
	if (!known || !known->signing_key_size) {
		return false;
	}
	*der = known->signing_key_der;
	*size = known->signing_key_size;
	return true;
}
