// SPDX-License-Identifier: Apache-2.0
// Objects from their records: the state as it was at a checkpoint. Of jobs that are sealed only the job itself comes
// back, so that history costs a start nothing but its list of jobs.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

struct loading {
	struct berth_core *core;
	const struct berth_core_records *records;
	struct job *job; // whose trials and leases are read
	struct berth_error *err;
	bool failed;
};

static bool broken(struct loading *loading, const char *key, const char *what)
{
	loading->failed = true;
	return berth_fail(loading->err, BERTH_ERROR_CORRUPT, "record %s: %s", key, what);
}

static void *unpack(struct loading *loading, const ProtobufCMessageDescriptor *type, const char *key, const void *value,
	size_t size)
{
	void *message = berth_proto_unpack(type, value, size, key, loading->err);
	loading->failed |= message == NULL;
	return message;
}

static bool take_restores(struct loading *loading, const char *key, const Berth__Store__V1__CoordinatorRow *row)
{
	struct berth_core *core = loading->core;
	core->keeps_reports = row->keeps_reports;
	if (row->backup) {
		core->backup = (struct berth_core_backup){
			.size = row->backup->size, .verified_at_ns = row->backup->verified_at_ns};
		snprintf(core->backup.operator, sizeof core->backup.operator, "%s", row->backup->operator_);
		if (row->backup->root_hash.len != BERTH_DIGEST_SIZE) {
			return broken(loading, key, "a backup without a root");
		}
		memcpy(core->backup.root.bytes, row->backup->root_hash.data, BERTH_DIGEST_SIZE);
	}
	for (size_t i = 0; i < row->n_restores; i++) {
		const Berth__Store__V1__RestoreRow *taken = row->restores[i];
		if (taken->leaf_hash.len != BERTH_DIGEST_SIZE || taken->root_hash.len != BERTH_DIGEST_SIZE) {
			return broken(loading, key, "a restore without its head");
		}
		struct berth_core_restore restore = {.size = taken->size, .incarnation = taken->incarnation};
		memcpy(restore.leaf.bytes, taken->leaf_hash.data, BERTH_DIGEST_SIZE);
		memcpy(restore.root.bytes, taken->root_hash.data, BERTH_DIGEST_SIZE);
		core_add_restore(core, &restore);
	}
	return true;
}

static bool take_coordinator(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct loading *loading = context;
	struct berth_core *core = loading->core;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__CoordinatorRow *row =
		unpack(loading, &berth__store__v1__coordinator_row__descriptor, key, value, size);
	if (!row) {
		return false;
	}
	if (row->incarnation_nonce.len != sizeof core->incarnation_nonce) {
		return broken(loading, key, "its incarnation has no nonce of 16 bytes");
	}
	if (strcmp(row->fleet, core->fleet) != 0) {
		loading->failed = true;
		return berth_fail(loading->err, BERTH_ERROR_INVALID,
			"this ledger belongs to the fleet %s, not to %s: start with its own data folder", row->fleet,
			core->fleet);
	}
	core->recorded.slot = (uint8_t)slot;
	core->last_sequence = row->last_sequence;
	core->recorded_at_ns = row->recorded_at_ns;
	core->incarnation_number = row->incarnation_number;
	memcpy(core->incarnation_nonce, row->incarnation_nonce.data, sizeof core->incarnation_nonce);
	return take_restores(loading, key, row);
}

static void take_boots(struct agent *agent, const Berth__Store__V1__AgentRow *row)
{
	for (size_t i = 0; i < row->n_boots; i++) {
		struct boot *boot = berth_alloc(sizeof *boot);
		snprintf(boot->id, sizeof boot->id, "%s", row->boots[i]->boot_id);
		boot->applied_through = row->boots[i]->applied_through;
		LL_APPEND(agent->boots, boot);
	}
}

static bool take_agent(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct loading *loading = context;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__AgentRow *row = unpack(loading, &berth__store__v1__agent_row__descriptor, key, value, size);
	if (!row) {
		return false;
	}
	struct agent *agent = berth_alloc(sizeof *agent);
	snprintf(agent->name, sizeof agent->name, "%s", row->name);
	snprintf(agent->certificate_sha256, sizeof agent->certificate_sha256, "%s", row->certificate_sha256);
	agent->signing_key_der = berth_memdup(row->signing_key_der.data, row->signing_key_der.len);
	agent->signing_key_size = row->signing_key_der.len;
	berth__v1__capacity__init(&agent->capacity);
	if (row->boot_id[0]) {
		snprintf(agent->boot_id, sizeof agent->boot_id, "%s", row->boot_id);
		agent->daemon_id = berth_strdup(row->daemon_id);
		agent->platform = berth_strdup(row->platform);
		agent->version = berth_strdup(row->version);
	}
	if (row->capacity) {
		agent->capacity.cpus = row->capacity->cpus;
		agent->capacity.memory_mb = row->capacity->memory_mb;
		agent->capacity.disk_mb = row->capacity->disk_mb;
		agent->capacity.slots = row->capacity->slots;
	}
	agent->recorded.slot = (uint8_t)slot;
	take_boots(agent, row);
	if (row->stable) {
		snprintf(agent->stable.id, sizeof agent->stable.id, "%s", row->stable->boot_id);
		agent->stable.applied_through = row->stable->applied_through;
	}
	agent->forgotten = row->forgotten;
	agent->hold_ms = row->hold_ms;
	agent->resending = row->resending;
	loading->core->resending += row->resending;
	HASH_ADD_STR(loading->core->agents, name, agent);
	return true;
}

static bool take_person(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct loading *loading = context;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__PersonRow *row = unpack(loading, &berth__store__v1__person_row__descriptor, key, value, size);
	if (!row) {
		return false;
	}
	struct person *person = berth_alloc(sizeof *person);
	snprintf(person->name, sizeof person->name, "%s", row->name);
	snprintf(person->certificate_sha256, sizeof person->certificate_sha256, "%s", row->certificate_sha256);
	snprintf(person->signing_key_id, sizeof person->signing_key_id, "%s", row->signing_key_id);
	person->signing_key_der = berth_memdup(row->signing_key_der.data, row->signing_key_der.len);
	person->signing_key_size = row->signing_key_der.len;
	person->recorded.slot = (uint8_t)slot;
	HASH_ADD_STR(loading->core->people, name, person);
	return true;
}

static bool take_job(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct loading *loading = context;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__JobRow *row = unpack(loading, &berth__store__v1__job_row__descriptor, key, value, size);
	if (!row) {
		return false;
	}
	struct job *job = berth_alloc(sizeof *job);
	if (strlen(row->job_id) != BERTH_ID_SIZE - 1 || row->name_seed.len != sizeof job->name_seed ||
		row->request_digest.len != BERTH_DIGEST_SIZE || row->n_counts != BERTH_COUNT(job->counts) ||
		!row->agents || !row->tasks || row->trials > BERTH_JOB_CELLS_MAX) {
		free(job);
		return broken(loading, key, "a job without sense");
	}
	memcpy(job->id, row->job_id, BERTH_ID_SIZE);
	job->name = berth_strdup(row->name);
	job->client_key = berth_strdup(row->client_key);
	job->submitter = berth_strdup(row->submitter);
	job->reason = row->reason[0] ? berth_strdup(row->reason) : NULL;
	memcpy(job->name_seed, row->name_seed.data, sizeof job->name_seed);
	memcpy(job->request_digest.bytes, row->request_digest.data, BERTH_DIGEST_SIZE);
	job->state = row->state;
	job->submitted_at_ns = row->submitted_at_ns;
	job->ended_at_ns = row->ended_at_ns;
	job->sequence = row->sequence;
	job->agents_count = row->agents;
	job->tasks_count = row->tasks;
	job->cells_count = row->trials;
	job->errored = row->errored;
	job->reward_sum = row->reward_sum;
	memcpy(job->counts, row->counts, sizeof job->counts);
	job->sealed_at = row->sealed_at;
	job->forfeits = row->forfeits;
	job->recorded.slot = (uint8_t)slot;
	core_add_job(loading->core, job);
	return true;
}

void rows_take_trial(struct cell *cell, const Berth__Store__V1__TrialRow *row)
{
	cell->generation = row->generation;
	cell->state = (uint8_t)row->state;
	cell->failures = (uint8_t)row->failures;
	cell->retries = row->retries;
	cell->errored = row->errored;
	cell->reward = row->reward;
	cell->result_sequence = row->result_sequence;
	cell->assigned_at_ns = row->assigned_at_ns;
	cell->not_before_ns = row->not_before_ns;
	for (size_t i = 0; i < row->n_notes; i++) {
		struct note *note = berth_alloc(sizeof *note);
		note->generation = row->notes[i]->generation;
		note->reason = row->notes[i]->reason;
		snprintf(note->detail, sizeof note->detail, "%s", row->notes[i]->detail);
		LL_APPEND(cell->notes, note);
	}
}

static bool take_trial(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct loading *loading = context;
	struct job *job = loading->job;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__TrialRow *row = unpack(loading, &berth__store__v1__trial_row__descriptor, key, value, size);
	if (!row) {
		return false;
	}
	if (row->index >= job->cells_count || row->state <= BERTH__V1__TRIAL_STATE__TRIAL_STATE_UNSPECIFIED ||
		(size_t)row->state >= BERTH_COUNT(job->counts)) {
		return broken(loading, key, "a trial that its job does not have");
	}
	struct cell *cell = &job->cells[row->index];
	rows_take_trial(cell, row);
	cell->last_agent = core_agent(loading->core, row->agent);
	cell->recorded.slot = (uint8_t)slot;
	if (cell->state == BERTH__V1__TRIAL_STATE__TRIAL_RUNNING) {
		if (!cell->last_agent || !job->spec) {
			return broken(loading, key, "a trial that runs nowhere");
		}
		if (row->deferred) {
			core_defer(loading->core, cell, berth_proto_clone(row->deferred));
		} else {
			core_hold(cell, cell->last_agent);
		}
	}
	return true;
}

static bool take_lease(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct loading *loading = context;
	struct lease *lease = berth_alloc(sizeof *lease);
	lease->job = loading->job;
	lease->recorded.slot = (uint8_t)slot;
	lease->record = unpack(loading, &berth__v1__lease__descriptor, key, value, size);
	lease->agent = lease->record ? core_agent(loading->core, lease->record->agent) : NULL;
	bool sane = lease->agent && lease->record->trial_index < lease->job->cells_count;
	if (!sane || lease_is_settled(lease)) {
		bool unpacked = lease->record != NULL;
		berth_proto_free(lease->record);
		free(lease);
		return sane || (unpacked && broken(loading, key, "a lease of nobody"));
	}
	core_add_lease(loading->core, lease);
	return true;
}

static bool take_money(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct loading *loading = context;
	bool ok = money_rows_load(loading->core, key, slot, value, size, loading->err);
	loading->failed |= !ok;
	return ok;
}

static bool load_reservations(struct loading *loading, const char *job_id)
{
	BERTH_AUTO_FREE char *prefix = berth_format("reservation/%s/", job_id);
	const struct berth_core_records *records = loading->records;
	return records->scan(records->context, prefix, take_money, loading, loading->err) && !loading->failed;
}

static void queue_cells(struct job *job)
{
	// What was taken back goes first, as when it was.
	for (int fresh = 0; fresh < 2; fresh++) {
		for (uint32_t i = 0; i < job->cells_count; i++) {
			struct cell *cell = &job->cells[i];
			if (cell->state != BERTH__V1__TRIAL_STATE__TRIAL_QUEUED || (cell->generation == 0) != fresh) {
				continue;
			}
			if (cell->not_before_ns) {
				cell->delayed = true;
				DL_APPEND(job->delayed, cell);
			} else {
				queue_push(&job->ready, i);
			}
		}
	}
}

static bool load_open_job(struct loading *loading, struct job *job)
{
	const struct berth_core_records *records = loading->records;
	loading->job = job;
	if (!job->ended_at_ns) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__JobSpec *spec = records->spec(records->context, job->sequence, loading->err);
		job->spec = berth_proto_compact(spec);
		if (!job->spec) {
			loading->failed = true;
			return false;
		}
		if (job->spec->n_agents != job->agents_count || job->spec->n_tasks != job->tasks_count) {
			return broken(loading, job->id, "a job whose event has another size");
		}
		if (!price_job(loading->core, job->spec, &job->prices, loading->err)) {
			loading->failed = true;
			return false;
		}
	}
	core_make_cells(job);
	BERTH_AUTO_FREE char *trials = berth_format("trial/%s/", job->id);
	BERTH_AUTO_FREE char *leases = berth_format("lease/%s/", job->id);
	if (!records->scan(records->context, trials, take_trial, loading, loading->err) || loading->failed ||
		!records->scan(records->context, leases, take_lease, loading, loading->err) || loading->failed) {
		return false;
	}
	if (job->ended_at_ns) {
		free(job->ready.items);
		job->ready = (struct queue){0};
	} else if (job->state == BERTH__V1__JOB_STATE__JOB_RUNNING) {
		queue_cells(job);
		loading->core->place_wanted = true;
	}
	return true;
}

static int by_sequence(const void *a, const void *b)
{
	const struct job *one = *(const struct job *const *)a, *other = *(const struct job *const *)b;
	return (one->sequence > other->sequence) - (one->sequence < other->sequence);
}

// The list is in the order of submission, records are in that of ids.
static void sort_jobs(struct berth_core *core)
{
	size_t count = HASH_CNT(by_id, core->jobs_by_id), at = 0;
	BERTH_AUTO_FREE struct job **all = berth_realloc_array(NULL, count + 1, sizeof(*all));
	struct job *job;
	DL_FOREACH (core->jobs, job) {
		all[at++] = job;
	}
	qsort(all, count, sizeof(*all), by_sequence);
	core->jobs = core->open_jobs = NULL;
	for (size_t i = 0; i < count; i++) {
		DL_APPEND(core->jobs, all[i]);
		if (!all[i]->ended_at_ns) {
			DL_APPEND2(core->open_jobs, all[i], open_prev, open_next);
		}
	}
}

bool berth_core_load(struct berth_core *core, const struct berth_core_records *records, struct berth_error *err)
{
	struct loading loading = {.core = core, .records = records, .err = err};
	static const struct {
		const char *prefix;
		berth_core_record_visit *take;
	} kinds[] = {{"coordinator", take_coordinator}, {"agent/", take_agent}, {"person/", take_person},
		{"job/", take_job}, {"budget/", take_money}, {"budget_sum/", take_money},
		{"reservation/-/", take_money}};
	for (size_t i = 0; i < BERTH_COUNT(kinds); i++) {
		if (!records->scan(records->context, kinds[i].prefix, kinds[i].take, &loading, err) || loading.failed) {
			return false;
		}
	}
	sort_jobs(core);
	struct job *job;
	DL_FOREACH (core->jobs, job) {
		if ((!job->sealed_at || job->forfeits) && !load_reservations(&loading, job->id)) {
			return false;
		}
		if (!job->sealed_at && !load_open_job(&loading, job)) {
			return false;
		}
	}
	return berth_budgets_loaded(core->budgets, err);
}
