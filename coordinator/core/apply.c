// SPDX-License-Identifier: Apache-2.0
// The only code that changes durable state, with apply_fleet.c and apply_restore.c. A published event's rule never
// changes.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

typedef Berth__Store__V1__Event event_t;

bool corrupt_event(const event_t *event, struct berth_error *err, const char *what)
{
	return berth_fail(err, BERTH_ERROR_CORRUPT, "event %llu: %s", (unsigned long long)event->sequence, what);
}

static void set_state(struct cell *cell, Berth__V1__TrialState state)
{
	cell->job->counts[cell->state]--;
	cell->state = (uint8_t)state;
	cell->job->counts[state]++;
}

static bool apply_coordinator_started(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__CoordinatorStarted *started = event->coordinator_started;
	if (started->number != core->incarnation_number + 1 || started->nonce.len != sizeof core->incarnation_nonce) {
		return corrupt_event(event, err, "incarnation number or nonce does not follow");
	}
	if (strcmp(started->fleet, core->fleet) != 0) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"this ledger belongs to the fleet %s, not to %s: start with its own data folder",
			started->fleet, core->fleet);
	}
	core->incarnation_number = started->number;
	memcpy(core->incarnation_nonce, started->nonce.data, sizeof core->incarnation_nonce);
	return true;
}

static bool apply_job_submitted(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__JobSubmitted *submitted = event->job_submitted;
	const Berth__V1__JobSpec *spec = submitted->spec;
	bool sane = spec && spec->n_agents && spec->n_tasks && spec->attempts && submitted->name_seed.len == 16 &&
	            submitted->request_digest.len == BERTH_DIGEST_SIZE &&
	            strlen(submitted->job_id) == BERTH_ID_SIZE - 1 && !core_job(core, submitted->job_id) &&
	            (uint64_t)spec->n_agents * spec->n_tasks * spec->attempts <= BERTH_JOB_CELLS_MAX;
	int64_t *prices;
	if (!sane || !price_job(core, spec, &prices, NULL)) {
		return corrupt_event(event, err, "job without sense");
	}
	struct job *job = berth_alloc(sizeof *job);
	job->prices = prices;
	memcpy(job->id, submitted->job_id, BERTH_ID_SIZE);
	job->name = berth_strdup(spec->name);
	job->client_key = berth_strdup(submitted->client_key);
	job->submitter = berth_strdup(submitted->submitter);
	job->spec = berth_proto_compact(spec);
	memcpy(job->name_seed, submitted->name_seed.data, sizeof job->name_seed);
	memcpy(job->request_digest.bytes, submitted->request_digest.data, BERTH_DIGEST_SIZE);
	job->state = BERTH__V1__JOB_STATE__JOB_RUNNING;
	job->submitted_at_ns = event->recorded_at_ns;
	job->sequence = event->sequence;
	job->agents_count = (uint32_t)spec->n_agents;
	job->tasks_count = (uint32_t)spec->n_tasks;
	job->cells_count = spec->attempts * job->tasks_count * job->agents_count;
	job->counts[BERTH__V1__TRIAL_STATE__TRIAL_QUEUED] = job->cells_count;
	core_make_cells(job);
	for (uint32_t i = 0; i < job->cells_count; i++) {
		queue_push(&job->ready, i);
	}
	core_add_job(core, job);
	core->place_wanted = true;
	return true;
}

void core_hold(struct cell *cell, struct agent *agent)
{
	cell->agent = cell->last_agent = agent;
	DL_APPEND(agent->running, cell);
	agent->running_count++;
	agent->running_cpus += cell_cpus(cell);
	agent->running_memory_mb += cell_memory_mb(cell);
	cell->job->running_cpus += cell_cpus(cell);
	cell->job->agent_running[cell_agent(cell)]++;
}

void core_release(struct berth_core *core, struct cell *cell)
{
	struct agent *agent = cell->agent;
	core_drop_deferred(core, cell);
	if (!agent) {
		return;
	}
	DL_DELETE(agent->running, cell);
	agent->running_count--;
	agent->running_cpus -= cell_cpus(cell);
	agent->running_memory_mb -= cell_memory_mb(cell);
	cell->job->running_cpus -= cell_cpus(cell);
	cell->job->agent_running[cell_agent(cell)]--;
	cell->agent = NULL;
	cell->sent_session = 0;
	cell->unlisted_beat = 0;
	cell->phase[0] = 0;
	core->place_wanted = true;
}

static bool apply_job_cancel_requested(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	struct job *job = core_job(core, event->job_cancel_requested->job_id);
	if (!job || job->state != BERTH__V1__JOB_STATE__JOB_RUNNING) {
		return corrupt_event(event, err, "cancel of a job that does not run");
	}
	job->state = BERTH__V1__JOB_STATE__JOB_CANCELLING;
	job->reason = berth_strdup(event->job_cancel_requested->reason);
	for (uint32_t i = 0; i < job->cells_count; i++) {
		struct cell *cell = &job->cells[i];
		if (!cell_is_over(cell)) {
			core_release(core, cell);
			set_state(cell, BERTH__V1__TRIAL_STATE__TRIAL_CANCELLED);
		}
	}
	job->ready.count = 0;
	forget_blocked(core, job);
	struct cell *cell;
	DL_FOREACH (job->delayed, cell) {
		cell->delayed = false;
	}
	job->delayed = NULL;
	return true;
}

static bool apply_job_ended(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	struct job *job = core_job(core, event->job_ended->job_id);
	if (!job || job->ended_at_ns) {
		return corrupt_event(event, err, "end of a job that is not open");
	}
	job->state = event->job_ended->state;
	job->ended_at_ns = event->recorded_at_ns;
	DL_DELETE2(core->open_jobs, job, open_prev, open_next);
	berth_proto_compact_free(job->spec);
	job->spec = NULL;
	free(job->ready.items);
	job->ready = (struct queue){0};
	free(job->prices);
	job->prices = NULL;
	forget_blocked(core, job);
	return true;
}

void core_add_lease(struct berth_core *core, struct lease *lease)
{
	const Berth__V1__Lease *record = lease->record;
	struct cell *cell = &lease->job->cells[record->trial_index];
	if (record->generation == cell->generation) {
		LL_PREPEND2(cell->leases, lease, next_of_cell);
	}
	if (record->state == BERTH__V1__LEASE_STATE__LEASE_CREATING) {
		DL_APPEND(lease->agent->fresh, lease);
	}
	if (lease_is_open(record)) {
		lease->job->open_leases++;
		lease->agent->open_leases++;
	}
	HASH_ADD_KEYPTR(hh, core->leases, record->lease_id, strlen(record->lease_id), lease);
}

static bool begin_lease(
	struct berth_core *core, struct cell *cell, struct agent *agent, const Berth__V1__Lease *record, int64_t now_ns)
{
	bool paid = record->reservation_id[0] != 0;
	const Berth__V1__Reservation *reservation =
		paid ? berth_budgets_reservation(core->budgets, record->reservation_id) : NULL;
	if (!record->lease_id[0] || core_lease(core, record->lease_id) ||
		(paid && (!reservation || strcmp(record->reservation_id, record->lease_id) != 0))) {
		return false;
	}
	struct lease *lease = berth_alloc(sizeof *lease);
	lease->record = berth_proto_clone(record);
	lease->record->created_at_ns = now_ns;
	lease->job = cell->job;
	lease->agent = agent;
	core_add_lease(core, lease);
	return true;
}

// A cell waits in the ready queue, or for its time; a replay finds it in the second where the live core had already
// promoted it, which is no event.
static bool unqueue(struct job *job, struct cell *cell)
{
	cell->not_before_ns = 0;
	if (cell->delayed) {
		cell->delayed = false;
		DL_DELETE(job->delayed, cell);
		return true;
	}
	for (uint32_t i = 0; i < job->ready.count; i++) {
		if (queue_at(&job->ready, i) == cell->index) {
			queue_remove(&job->ready, i);
			return true;
		}
	}
	return false;
}

static bool apply_trial_assigned(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__TrialAssigned *assigned = event->trial_assigned;
	struct cell *cell = core_cell(core, assigned->trial);
	struct agent *agent = core_agent(core, assigned->agent);
	if (!cell || !agent || cell->state != BERTH__V1__TRIAL_STATE__TRIAL_QUEUED ||
		assigned->trial->generation != cell->generation + 1 || !unqueue(cell->job, cell)) {
		return corrupt_event(event, err, "assignment of a trial that does not wait");
	}
	if (!berth_budgets_apply(core->budgets, event, err)) {
		return false;
	}
	cell->generation++;
	cell->assigned_at_ns = event->recorded_at_ns;
	set_state(cell, BERTH__V1__TRIAL_STATE__TRIAL_RUNNING);
	core_hold(cell, agent);
	cell->leases = NULL;
	size_t paid = 0;
	for (size_t i = 0; i < assigned->n_leases; i++) {
		if (!begin_lease(core, cell, agent, assigned->leases[i], event->recorded_at_ns)) {
			return corrupt_event(event, err, "a lease whose id was used before, or that is not paid for");
		}
		paid += assigned->leases[i]->reservation_id[0] != 0;
	}
	if (paid != assigned->n_reservations) {
		return corrupt_event(event, err, "money that is reserved for no lease");
	}
	return true;
}

static bool apply_lease_taken_up(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__V1__Lease *lease = event->lease_taken_up->lease;
	struct job *job = lease ? core_job(core, lease->job_id) : NULL;
	struct agent *agent = lease ? core_agent(core, lease->agent) : NULL;
	if (!job || !job->spec || lease->trial_index >= job->cells_count || !agent || !agent->resending) {
		return corrupt_event(event, err, "a lease of a job or agent that is not there was taken up");
	}
	struct cell *cell = &job->cells[lease->trial_index];
	if (lease->generation > cell->generation) {
		if (cell->state != BERTH__V1__TRIAL_STATE__TRIAL_QUEUED || !unqueue(job, cell)) {
			return corrupt_event(event, err, "a trial that does not wait was taken up");
		}
		cell->generation = lease->generation;
		uint32_t failures = lease->failures < UINT8_MAX ? lease->failures : UINT8_MAX;
		cell->retries = lease->retries > cell->retries ? lease->retries : cell->retries;
		cell->failures = failures > cell->failures ? (uint8_t)failures : cell->failures;
		cell->assigned_at_ns = event->recorded_at_ns;
		set_state(cell, BERTH__V1__TRIAL_STATE__TRIAL_RUNNING);
		core_hold(cell, agent);
		cell->leases = NULL;
	}
	return begin_lease(core, cell, agent, lease, event->recorded_at_ns) ||
	       corrupt_event(event, err, "a lease whose id was used before, or that is not paid for");
}

static void requeue(struct berth_core *core, struct cell *cell, int64_t not_before_ns)
{
	cell->not_before_ns = not_before_ns;
	if (not_before_ns) {
		cell->delayed = true;
		DL_APPEND(cell->job->delayed, cell);
	} else {
		queue_push_front(&cell->job->ready, cell->index);
		core->place_wanted = true;
	}
}

static void add_note(struct cell *cell, const Berth__Store__V1__TrialUnassigned *unassigned)
{
	struct note *note = berth_alloc(sizeof *note);
	note->generation = unassigned->trial->generation;
	note->reason = unassigned->reason;
	snprintf(note->detail, sizeof note->detail, "%s", unassigned->detail);
	LL_APPEND(cell->notes, note);
}

static bool apply_trial_unassigned(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__TrialUnassigned *unassigned = event->trial_unassigned;
	struct cell *cell = core_cell(core, unassigned->trial);
	bool waits = unassigned->reason == BERTH__STORE__V1__UNASSIGN_REASON__BUDGET_REFUSED;
	if (!cell || unassigned->trial->generation != cell->generation ||
		cell->state != (waits ? BERTH__V1__TRIAL_STATE__TRIAL_QUEUED : BERTH__V1__TRIAL_STATE__TRIAL_RUNNING) ||
		(waits && !unqueue(cell->job, cell))) {
		return corrupt_event(event, err, "a trial that does not run lost its agent");
	}
	core_release(core, cell);
	add_note(cell, unassigned);
	set_state(cell, unassigned->next);
	if (unassigned->reason == BERTH__STORE__V1__UNASSIGN_REASON__RETRY) {
		cell->retries++;
	} else if (unassigned->reason != BERTH__STORE__V1__UNASSIGN_REASON__RESTORED) {
		cell->failures += cell->failures < UINT8_MAX;
	}
	if (unassigned->result) {
		cell->result_sequence = event->sequence;
	}
	if (unassigned->next == BERTH__V1__TRIAL_STATE__TRIAL_QUEUED) {
		requeue(core, cell, unassigned->not_before_ns);
	}
	return true;
}

static bool apply_trial_ended(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__TrialEnded *ended = event->trial_ended;
	struct cell *cell = core_cell(core, ended->trial);
	if (!cell || cell->state != BERTH__V1__TRIAL_STATE__TRIAL_RUNNING ||
		ended->trial->generation != cell->generation || !ended->result ||
		ended->deferred_at != (cell->deferred ? cell->deferred->deferred_at : 0)) {
		return corrupt_event(event, err, "result for a trial that does not run, or waits for another");
	}
	core_release(core, cell);
	set_state(cell, ended->state);
	cell->result_sequence = event->sequence;
	cell->reward = ended->reward;
	cell->errored = ended->result->exception != NULL;
	cell->job->errored += cell->errored;
	if (ended->state == BERTH__V1__TRIAL_STATE__TRIAL_SCORED) {
		cell->job->reward_sum += ended->reward;
	}
	return true;
}

static bool apply_lease_moved(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__LeaseMoved *moved = event->lease_moved;
	struct lease *lease = core_lease(core, moved->lease_id);
	if (!lease || !lease_may_move(lease->record->state, moved->state, moved->proof)) {
		return corrupt_event(event, err, "lease move that is not allowed");
	}
	Berth__V1__Lease *record = lease->record;
	if (record->state == BERTH__V1__LEASE_STATE__LEASE_CREATING) {
		DL_DELETE(lease->agent->fresh, lease);
	}
	record->state = moved->state;
	if (moved->resource_id[0]) {
		berth_proto_set_string(&record->resource_id, moved->resource_id);
	}
	// The provider's expiry is fixed once; the expected end is what was observed last.
	if (!record->provider_expiry_at_ns) {
		record->provider_expiry_at_ns = moved->provider_expiry_at_ns;
	}
	if (moved->expected_end_at_ns) {
		record->expected_end_at_ns = moved->expected_end_at_ns;
	}
	bool failed = moved->state == BERTH__V1__LEASE_STATE__LEASE_CLEANUP_FAILED;
	berth_proto_set_string(&record->failure, failed ? moved->failure : NULL);
	if (moved->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		record->proof = moved->proof;
		record->retired_at_ns = event->recorded_at_ns;
		lease->job->open_leases--;
		lease->agent->open_leases--;
	}
	return true;
}

static const char *budget_of(const event_t *event)
{
	switch (event->body_case) {
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED:
		return event->budget_amended->name;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED:
		return event->budget_ended->budget;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED:
		return event->budget_appealed->forfeited->budget;
	default:
		return NULL;
	}
}

static void count_forfeits(struct berth_core *core, const event_t *event)
{
	bool ended = event->body_case == BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED;
	const Berth__V1__Reservation *row = NULL;
	if (ended) {
		row = berth_budgets_reservation(core->budgets, event->budget_ended->reservation_id);
		row = may_be_appealed(row) ? row : NULL;
	} else if (event->body_case == BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED) {
		row = event->budget_appealed->forfeited;
	}
	struct job *job = row ? core_job(core, row->job_id) : NULL;
	if (job) {
		job->forfeits = ended ? job->forfeits + 1 : job->forfeits - 1;
	}
}

static bool apply_budget(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	if (!berth_budgets_apply(core->budgets, event, err)) {
		return false;
	}
	count_forfeits(core, event);
	if (budget_of(event)) {
		unblock_jobs(core, budget_of(event));
	}
	return true;
}

static bool apply_nothing(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	(void)core, (void)event, (void)err;
	return true; // ResultRefused and ReportSkipped only say that a report was applied, and why it counted for
	             // nothing
}

static bool apply_origin(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__Origin *origin = event->origin;
	struct agent *agent = core_agent(core, origin->agent);
	if (!agent || strlen(origin->boot_id) != BERTH_ID_SIZE - 1) {
		return corrupt_event(event, err, "report of an unknown agent");
	}
	struct boot *boot = core_boot(agent, origin->boot_id);
	if (!boot) {
		boot = berth_alloc(sizeof *boot);
		memcpy(boot->id, origin->boot_id, BERTH_ID_SIZE);
		LL_APPEND(agent->boots, boot);
	}
	// A report may decide more than one event; each carries the same origin.
	if (origin->report_sequence != boot->applied_through && origin->report_sequence != boot->applied_through + 1) {
		return corrupt_event(event, err, "report out of its order");
	}
	boot->applied_through = origin->report_sequence;
	return true;
}

static struct job *job_of_event(const struct berth_core *core, const event_t *event)
{
	if (event->body_case == BERTH__STORE__V1__EVENT__BODY_JOB_ENDED) {
		return core_job(core, event->job_ended->job_id);
	}
	if (event->body_case == BERTH__STORE__V1__EVENT__BODY_LEASE_MOVED) {
		return core_lease(core, event->lease_moved->lease_id)->job;
	}
	return NULL;
}

// An ended job whose last lease is retired never changes again.
static void seal_if_over(struct berth_core *core, struct job *job, uint64_t sequence)
{
	if (!job || !job->ended_at_ns || job->open_leases || job->sealed_at) {
		return;
	}
	job->sealed_at = sequence;
	if (core->sealed_count == core->sealed_capacity) {
		core->sealed_capacity = core->sealed_capacity ? 2 * core->sealed_capacity : 16;
		core->sealed = berth_realloc_array(core->sealed, core->sealed_capacity, sizeof(*core->sealed));
	}
	core->sealed[core->sealed_count++] = job;
}

typedef bool (*apply_fn)(struct berth_core *, const event_t *, struct berth_error *);

static apply_fn apply_of(Berth__Store__V1__Event__BodyCase body)
{
	switch (body) {
	case BERTH__STORE__V1__EVENT__BODY_COORDINATOR_STARTED:
		return apply_coordinator_started;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_ENROLLED:
		return apply_agent_enrolled;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_BOOTED:
		return apply_agent_booted;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_HOLD:
		return apply_agent_hold;
	case BERTH__STORE__V1__EVENT__BODY_JOB_SUBMITTED:
		return apply_job_submitted;
	case BERTH__STORE__V1__EVENT__BODY_JOB_CANCEL_REQUESTED:
		return apply_job_cancel_requested;
	case BERTH__STORE__V1__EVENT__BODY_JOB_ENDED:
		return apply_job_ended;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED:
		return apply_trial_assigned;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_UNASSIGNED:
		return apply_trial_unassigned;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_ENDED:
		return apply_trial_ended;
	case BERTH__STORE__V1__EVENT__BODY_LEASE_MOVED:
		return apply_lease_moved;
	case BERTH__STORE__V1__EVENT__BODY_RESULT_REFUSED:
	case BERTH__STORE__V1__EVENT__BODY_REPORT_SKIPPED:
		return apply_nothing;
	case BERTH__STORE__V1__EVENT__BODY_LEDGER_RESTORED:
		return apply_ledger_restored;
	case BERTH__STORE__V1__EVENT__BODY_INCARNATION_RAISED:
		return apply_incarnation_raised;
	case BERTH__STORE__V1__EVENT__BODY_LEASE_TAKEN_UP:
		return apply_lease_taken_up;
	case BERTH__STORE__V1__EVENT__BODY_RESULT_DEFERRED:
		return apply_result_deferred;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_RESENT:
		return apply_agent_resent;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_FORGOTTEN:
		return apply_agent_forgotten;
	case BERTH__STORE__V1__EVENT__BODY_REPORTS_KEPT:
		return apply_reports_kept;
	case BERTH__STORE__V1__EVENT__BODY_BACKUP_VERIFIED:
		return apply_backup_verified;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED:
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED:
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_JOB_LIMITED:
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED:
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED:
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED:
		return apply_budget;
	default:
		return NULL;
	}
}

bool berth_core_apply(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err)
{
	if (event->sequence != core->last_sequence + 1) {
		return corrupt_event(event, err, "sequence does not follow");
	}
	if (event->recorded_at_ns < core->recorded_at_ns) {
		return corrupt_event(event, err, "time goes back");
	}
	apply_fn apply = apply_of(event->body_case);
	if (!apply) {
		return corrupt_event(event, err, "an event of a newer version: start the version that wrote it");
	}
	rows_touch_event(core, event);
	if (event->origin && !apply_origin(core, event, err)) {
		return false;
	}
	if (!apply(core, event, err)) {
		return false;
	}
	rows_touch_made(core, event);
	seal_if_over(core, job_of_event(core, event), event->sequence);
	core->last_sequence = event->sequence;
	core->recorded_at_ns = event->recorded_at_ns;
	return true;
}
