// SPDX-License-Identifier: Apache-2.0
// Records of the durable state, and checkpoints of them. A checkpoint is the state as it was at one event, handed out
// in portions while the state goes on: what changes before its turn is packed first, as it still is.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

typedef Berth__Store__V1__Event event_t;

// --- records ---
struct row *rows_add(struct rows *rows, char *key)
{
	if (rows->count == rows->capacity) {
		rows->capacity = rows->capacity ? 2 * rows->capacity : 16;
		rows->items = berth_realloc_array(rows->items, rows->capacity, sizeof *rows->items);
	}
	rows->items[rows->count] = (struct row){.key = key};
	return &rows->items[rows->count++];
}

static void clear_row(struct row *row)
{
	free(row->key);
	berth_buf_free(&row->value);
}

void rows_clear(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		clear_row(&rows->items[i]);
	}
	free(rows->items);
	*rows = (struct rows){0};
}

static void add_coordinator(struct rows *rows, const struct berth_core *core)
{
	Berth__Store__V1__CoordinatorRow row = BERTH__STORE__V1__COORDINATOR_ROW__INIT;
	row.last_sequence = core->last_sequence;
	row.recorded_at_ns = core->recorded_at_ns;
	row.fleet = (char *)core->fleet;
	row.incarnation_number = core->incarnation_number;
	row.incarnation_nonce =
		(ProtobufCBinaryData){sizeof core->incarnation_nonce, (uint8_t *)core->incarnation_nonce};
	row.keeps_reports = core->keeps_reports;
	Berth__Store__V1__BackupRow backup = BERTH__STORE__V1__BACKUP_ROW__INIT;
	if (core->backup.size) {
		backup.size = core->backup.size;
		backup.root_hash = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, (uint8_t *)core->backup.root.bytes};
		backup.verified_at_ns = core->backup.verified_at_ns;
		backup.operator_ = (char *)core->backup.operator;
		row.backup = &backup;
	}
	BERTH_AUTO_FREE Berth__Store__V1__RestoreRow *restores =
		berth_alloc((core->restores_count + 1) * sizeof *restores);
	BERTH_AUTO_FREE Berth__Store__V1__RestoreRow **list = berth_alloc((core->restores_count + 1) * sizeof *list);
	for (size_t i = 0; i < core->restores_count; i++) {
		const struct berth_core_restore *restore = &core->restores[i];
		berth__store__v1__restore_row__init(&restores[i]);
		restores[i].size = restore->size;
		restores[i].leaf_hash = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, (uint8_t *)restore->leaf.bytes};
		restores[i].root_hash = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, (uint8_t *)restore->root.bytes};
		restores[i].incarnation = restore->incarnation;
		list[i] = &restores[i];
	}
	row.restores = list;
	row.n_restores = core->restores_count;
	berth_proto_pack(&row, &rows_add(rows, berth_strdup("coordinator"))->value);
}

static void add_agent(struct rows *rows, const struct agent *agent)
{
	Berth__Store__V1__AgentRow *row = berth_alloc(sizeof *row);
	berth__store__v1__agent_row__init(row);
	berth_proto_set_string(&row->name, agent->name);
	berth_proto_set_string(&row->certificate_sha256, agent->certificate_sha256);
	berth_proto_set_bytes(&row->signing_key_der, agent->signing_key_der, agent->signing_key_size);
	berth_proto_set_string(&row->boot_id, agent->boot_id);
	berth_proto_set_string(&row->daemon_id, agent->daemon_id);
	berth_proto_set_string(&row->platform, agent->platform);
	berth_proto_set_string(&row->version, agent->version);
	row->capacity = berth_proto_clone(agent->boot_id[0] ? &agent->capacity : NULL);
	const struct boot *boot;
	LL_FOREACH (agent->boots, boot) {
		Berth__Store__V1__BootRow *applied = berth_alloc(sizeof *applied);
		berth__store__v1__boot_row__init(applied);
		berth_proto_set_string(&applied->boot_id, boot->id);
		applied->applied_through = boot->applied_through;
		berth_proto_append(&row->n_boots, &row->boots, applied);
	}
	if (agent->stable.id[0]) {
		row->stable = berth_alloc(sizeof *row->stable);
		berth__store__v1__boot_row__init(row->stable);
		berth_proto_set_string(&row->stable->boot_id, agent->stable.id);
		row->stable->applied_through = agent->stable.applied_through;
	}
	row->resending = agent->resending;
	row->forgotten = agent->forgotten;
	row->hold_ms = agent->hold_ms;
	berth_proto_pack(row, &rows_add(rows, berth_format("agent/%s", agent->name))->value);
	berth_proto_free(row);
}

static void add_person(struct rows *rows, const struct person *person)
{
	Berth__Store__V1__PersonRow row = BERTH__STORE__V1__PERSON_ROW__INIT;
	row.name = (char *)person->name;
	row.certificate_sha256 = (char *)person->certificate_sha256;
	row.signing_key_id = (char *)person->signing_key_id;
	row.signing_key_der = (ProtobufCBinaryData){person->signing_key_size, person->signing_key_der};
	berth_proto_pack(&row, &rows_add(rows, berth_format("person/%s", person->name))->value);
}

static void add_job(struct rows *rows, const struct job *job)
{
	Berth__Store__V1__JobRow row = BERTH__STORE__V1__JOB_ROW__INIT;
	row.job_id = (char *)job->id;
	row.name = job->name;
	row.client_key = job->client_key;
	row.submitter = job->submitter;
	row.reason = job->reason ? job->reason : row.reason;
	row.name_seed = (ProtobufCBinaryData){sizeof job->name_seed, (uint8_t *)job->name_seed};
	row.request_digest = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, (uint8_t *)job->request_digest.bytes};
	row.state = job->state;
	row.submitted_at_ns = job->submitted_at_ns;
	row.ended_at_ns = job->ended_at_ns;
	row.sequence = job->sequence;
	row.agents = job->agents_count;
	row.tasks = job->tasks_count;
	row.trials = job->cells_count;
	row.errored = job->errored;
	row.reward_sum = job->reward_sum;
	row.counts = (uint32_t *)job->counts;
	row.n_counts = BERTH_COUNT(job->counts);
	row.sealed_at = job->sealed_at;
	row.forfeits = job->forfeits;
	berth_proto_pack(&row, &rows_add(rows, berth_format("job/%s", job->id))->value);
}

Berth__Store__V1__TrialRow *rows_trial(const struct cell *cell)
{
	Berth__Store__V1__TrialRow *row = berth_alloc(sizeof *row);
	berth__store__v1__trial_row__init(row);
	row->index = cell->index;
	row->generation = cell->generation;
	row->state = cell->state;
	row->failures = cell->failures;
	row->retries = cell->retries;
	row->errored = cell->errored;
	row->reward = cell->reward;
	row->result_sequence = cell->result_sequence;
	row->assigned_at_ns = cell->assigned_at_ns;
	row->not_before_ns = cell->not_before_ns;
	berth_proto_set_string(&row->agent, cell->last_agent ? cell->last_agent->name : NULL);
	const struct note *note;
	LL_FOREACH (cell->notes, note) {
		Berth__Store__V1__NoteRow *copy = berth_alloc(sizeof *copy);
		berth__store__v1__note_row__init(copy);
		copy->generation = note->generation;
		copy->reason = note->reason;
		berth_proto_set_string(&copy->detail, note->detail);
		berth_proto_append(&row->n_notes, &row->notes, copy);
	}
	row->deferred = berth_proto_clone(cell->deferred);
	return row;
}

static void add_trial(struct rows *rows, const struct cell *cell)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__Store__V1__TrialRow *row = rows_trial(cell);
	berth_proto_pack(row, &rows_add(rows, berth_format("trial/%s/%08x", cell->job->id, cell->index))->value);
}

static void add_lease(struct rows *rows, const struct lease *lease)
{
	berth_proto_pack(lease->record,
		&rows_add(rows, berth_format("lease/%s/%s", lease->job->id, lease->record->lease_id))->value);
}

static void add_object(struct rows *rows, struct row_ref ref)
{
	switch (ref.kind) {
	case ROW_AGENT:
		add_agent(rows, ref.object);
		break;
	case ROW_PERSON:
		add_person(rows, ref.object);
		break;
	case ROW_JOB:
		add_job(rows, ref.object);
		break;
	case ROW_TRIAL:
		add_trial(rows, ref.object);
		break;
	case ROW_LEASE:
		add_lease(rows, ref.object);
		break;
	case ROW_MONEY:
		money_rows_add(rows, ref.object);
		break;
	}
}

void rows_all(const struct berth_core *core, struct rows *rows)
{
	add_coordinator(rows, core);
	const struct agent *agent, *next_agent;
	HASH_ITER (hh, core->agents, agent, next_agent) {
		add_agent(rows, agent);
	}
	const struct person *person, *next_person;
	HASH_ITER (hh, core->people, person, next_person) {
		add_person(rows, person);
	}
	const struct job *job;
	DL_FOREACH (core->jobs, job) {
		add_job(rows, job);
		for (uint32_t i = 0; !job->sealed_at && i < job->cells_count; i++) {
			if (job->cells[i].generation || cell_is_over(&job->cells[i])) {
				add_trial(rows, &job->cells[i]);
			}
		}
	}
	const struct lease *lease, *next_lease;
	HASH_ITER (hh, core->leases, lease, next_lease) {
		if (!lease_is_settled(lease)) {
			add_lease(rows, lease);
		}
	}
	money_rows_all(core, rows);
}

// --- what changed ---
static struct recorded *recorded_of(struct row_ref ref)
{
	switch (ref.kind) {
	case ROW_AGENT:
		return &((struct agent *)ref.object)->recorded;
	case ROW_PERSON:
		return &((struct person *)ref.object)->recorded;
	case ROW_JOB:
		return &((struct job *)ref.object)->recorded;
	case ROW_TRIAL:
		return &((struct cell *)ref.object)->recorded;
	case ROW_MONEY:
		return &((struct money_row *)ref.object)->recorded;
	default:
		return &((struct lease *)ref.object)->recorded;
	}
}

// The record goes to the place where the newest one is not: that one counts until the checkpoint is whole.
static void record(struct rows *rows, struct row_ref ref)
{
	struct recorded *recorded = recorded_of(ref);
	add_object(rows, ref);
	recorded->slot ^= 1;
	rows->items[rows->count - 1].slot = recorded->slot;
	recorded->changed_in = 0;
}

// Its turn in the checkpoint that is under way has not come.
static bool awaits_turn(const struct berth_core *core, struct row_ref ref)
{
	return core->checkpoint_at && recorded_of(ref)->changed_in == core->epoch - 1;
}

void rows_touch(struct berth_core *core, enum row_kind kind, void *object)
{
	struct row_ref ref = {kind, object};
	if (!object || recorded_of(ref)->changed_in == core->epoch) {
		return;
	}
	if (awaits_turn(core, ref)) {
		record(&core->early, ref);
	}
	recorded_of(ref)->changed_in = core->epoch;
	struct row_refs *changed = &core->changed;
	if (changed->count == changed->capacity) {
		changed->capacity = changed->capacity ? 2 * changed->capacity : 64;
		changed->items = berth_realloc_array(changed->items, changed->capacity, sizeof *changed->items);
	}
	changed->items[changed->count++] = ref;
}

static void touch_cell(struct berth_core *core, struct cell *cell)
{
	if (!cell) {
		return;
	}
	rows_touch(core, ROW_TRIAL, cell);
	rows_touch(core, ROW_JOB, cell->job);
	// Whether a retired lease is settled depends on its cell.
	struct lease *lease;
	LL_FOREACH2(cell->leases, lease, next_of_cell)
	{
		rows_touch(core, ROW_LEASE, lease);
	}
}

static void touch_lease(struct berth_core *core, const char *lease_id)
{
	struct lease *lease = core_lease(core, lease_id);
	rows_touch(core, ROW_LEASE, lease);
	rows_touch(core, ROW_JOB, lease ? lease->job : NULL);
}

static void touch_open_cells(struct berth_core *core, struct job *job)
{
	for (uint32_t i = 0; job && job->cells && i < job->cells_count; i++) {
		if (!cell_is_over(&job->cells[i])) {
			touch_cell(core, &job->cells[i]);
		}
	}
	rows_touch(core, ROW_JOB, job);
}

static void touch_enrolled(struct berth_core *core, const Berth__Store__V1__AgentEnrolled *enrolled)
{
	if (strcmp(enrolled->role, "agent") == 0) {
		rows_touch(core, ROW_AGENT, core_agent(core, enrolled->name));
		return;
	}
	char name[2 * BERTH_NAME_SIZE];
	snprintf(name, sizeof name, "%s/%s", enrolled->role, enrolled->name);
	struct person *person = NULL;
	HASH_FIND_STR(core->people, name, person);
	rows_touch(core, ROW_PERSON, person);
}

// Its forfeits are counted.
static void touch_payer(struct berth_core *core, const Berth__V1__Reservation *row)
{
	rows_touch(core, ROW_JOB, row ? core_job(core, row->job_id) : NULL);
}

static void touch_taken_up(struct berth_core *core, const Berth__V1__Lease *lease)
{
	struct job *job = lease ? core_job(core, lease->job_id) : NULL;
	if (job && job->cells && lease->trial_index < job->cells_count) {
		touch_cell(core, &job->cells[lease->trial_index]);
		touch_lease(core, lease->lease_id);
	}
}

static void touch_deferred(struct berth_core *core, const Berth__Store__V1__TrialEnded *ended)
{
	touch_cell(core, core_cell(core, ended ? ended->trial : NULL));
}

static void touch_booted(struct berth_core *core, struct agent *agent)
{
	rows_touch(core, ROW_AGENT, agent);
	struct lease *lease;
	DL_FOREACH (agent ? agent->fresh : NULL, lease) {
		rows_touch(core, ROW_LEASE, lease);
	}
}

static void touch_agents(struct berth_core *core)
{
	struct agent *agent, *next;
	HASH_ITER (hh, core->agents, agent, next) {
		rows_touch(core, ROW_AGENT, agent);
	}
}

static void touch_stable(struct berth_core *core, const Berth__Store__V1__BackupVerified *verified)
{
	for (size_t i = 0; i < verified->n_stable; i++) {
		rows_touch(core, ROW_AGENT, core_agent(core, verified->stable[i]->agent));
	}
}

static void touch_by_body(struct berth_core *core, const event_t *event)
{
	switch (event->body_case) {
	case BERTH__STORE__V1__EVENT__BODY_AGENT_ENROLLED:
		touch_enrolled(core, event->agent_enrolled);
		break;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_BOOTED:
		touch_booted(core, core_agent(core, event->agent_booted->agent));
		break;
	case BERTH__STORE__V1__EVENT__BODY_JOB_SUBMITTED:
		rows_touch(core, ROW_JOB, core_job(core, event->job_submitted->job_id));
		break;
	case BERTH__STORE__V1__EVENT__BODY_JOB_CANCEL_REQUESTED:
		touch_open_cells(core, core_job(core, event->job_cancel_requested->job_id));
		break;
	case BERTH__STORE__V1__EVENT__BODY_JOB_ENDED:
		rows_touch(core, ROW_JOB, core_job(core, event->job_ended->job_id));
		break;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED:
		touch_cell(core, core_cell(core, event->trial_assigned->trial));
		break;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_UNASSIGNED:
		touch_cell(core, core_cell(core, event->trial_unassigned->trial));
		break;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_ENDED:
		touch_cell(core, core_cell(core, event->trial_ended->trial));
		break;
	case BERTH__STORE__V1__EVENT__BODY_RESULT_DEFERRED:
		touch_deferred(core, event->result_deferred->ended);
		break;
	case BERTH__STORE__V1__EVENT__BODY_LEASE_TAKEN_UP:
		touch_taken_up(core, event->lease_taken_up->lease);
		break;
	case BERTH__STORE__V1__EVENT__BODY_LEDGER_RESTORED:
		touch_agents(core);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BACKUP_VERIFIED:
		touch_stable(core, event->backup_verified);
		break;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_HOLD:
		rows_touch(core, ROW_AGENT, core_agent(core, event->agent_hold->agent));
		break;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_RESENT:
		rows_touch(core, ROW_AGENT, core_agent(core, event->agent_resent->agent));
		break;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_FORGOTTEN:
		rows_touch(core, ROW_AGENT, core_agent(core, event->agent_forgotten->agent));
		break;
	case BERTH__STORE__V1__EVENT__BODY_LEASE_MOVED:
		touch_lease(core, event->lease_moved->lease_id);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED:
		touch_payer(core, berth_budgets_reservation(core->budgets, event->budget_ended->reservation_id));
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED:
		touch_payer(core, event->budget_appealed->forfeited);
		break;
	default:
		break;
	}
}

void rows_touch_event(struct berth_core *core, const event_t *event)
{
	if (event->origin) {
		rows_touch(core, ROW_AGENT, core_agent(core, event->origin->agent));
	}
	// What an assignment's money is before it matters to a checkpoint that is under way alone.
	if (event->body_case != BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED || core->checkpoint_at) {
		money_rows_touch(core, event, false);
	}
	touch_by_body(core, event);
}

void rows_touch_made(struct berth_core *core, const event_t *event)
{
	switch (event->body_case) {
	case BERTH__STORE__V1__EVENT__BODY_LEASE_MOVED:
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED:
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_ENDED:
		return; // the commonest change what was there, and make nothing
	default:
		money_rows_touch(core, event, true);
		touch_by_body(core, event);
	}
}

// --- checkpoints ---
size_t berth_core_changed(const struct berth_core *core)
{
	return core->changed.count;
}

bool berth_core_checkpoint_begin(struct berth_core *core)
{
	if (core->checkpoint_at || !core->last_sequence) {
		return false;
	}
	struct row_refs spare = core->writing;
	core->writing = core->changed;
	core->changed = spare;
	core->changed.count = 0;
	core->writing_at = 0;
	core->epoch++;
	core->checkpoint_at = core->last_sequence;
	add_coordinator(&core->early, core);
	core->recorded.slot ^= 1;
	core->early.items[core->early.count - 1].slot = core->recorded.slot;
	return true;
}

static bool has_more(const struct berth_core *core)
{
	return core->early.count || core->writing_at < core->writing.count;
}

static void hand_over(struct row *row, berth_core_row_sink *sink, void *context)
{
	sink(context, row->key, row->slot, row->value.data, row->value.size);
	clear_row(row);
}

uint64_t berth_core_checkpoint_take(struct berth_core *core, size_t most, berth_core_row_sink *sink, void *context)
{
	for (; most && core->early.count; most--) {
		hand_over(&core->early.items[--core->early.count], sink, context);
	}
	for (; most && core->writing_at < core->writing.count; most--) {
		struct row_ref ref = core->writing.items[core->writing_at++];
		if (awaits_turn(core, ref)) {
			struct rows one = {0};
			record(&one, ref);
			hand_over(&one.items[0], sink, context);
			free(one.items);
		}
	}
	return core->checkpoint_at && !has_more(core) ? core->checkpoint_at : 0;
}

// A retired lease that nothing asks for any more: its trial has gone on or is over.
bool lease_is_settled(const struct lease *lease)
{
	if (lease_is_open(lease->record)) {
		return false;
	}
	if (!lease->job->cells) {
		return true;
	}
	const struct cell *cell = &lease->job->cells[lease->record->trial_index];
	return lease->record->generation < cell->generation || cell_is_over(cell);
}

static void forget_lease(struct berth_core *core, struct lease *lease)
{
	if (lease->recorded.changed_in || !lease_is_settled(lease)) {
		return;
	}
	struct cell *cell = &lease->job->cells[lease->record->trial_index];
	if (lease->record->generation == cell->generation) {
		LL_DELETE2(cell->leases, lease, next_of_cell);
	}
	HASH_DEL(core->leases, lease);
	berth_proto_free(lease->record);
	free(lease);
}

static void forget_jobs(struct berth_core *core)
{
	size_t kept = 0;
	for (size_t i = 0; i < core->sealed_count; i++) {
		struct job *job = core->sealed[i];
		if (job->sealed_at > core->checkpoint_at) {
			core->sealed[kept++] = job;
		} else {
			core_forget_cells(job);
		}
	}
	core->sealed_count = kept;
}

void berth_core_checkpoint_end(struct berth_core *core)
{
	for (size_t i = 0; i < core->writing.count; i++) {
		struct row_ref ref = core->writing.items[i];
		if (ref.kind == ROW_LEASE) {
			forget_lease(core, ref.object);
		} else if (ref.kind == ROW_MONEY) {
			money_rows_forget(core, ref.object);
		}
	}
	forget_jobs(core);
	core->writing.count = 0;
	core->writing_at = 0;
	core->checkpoint_at = 0;
}

void rows_free(struct berth_core *core)
{
	free(core->changed.items);
	free(core->writing.items);
	rows_clear(&core->early);
	money_rows_free(core);
	free(core->sealed);
}
