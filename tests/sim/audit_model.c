// SPDX-License-Identifier: Apache-2.0
// What the log says, event by event, and whether it may.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/sim/audit_internal.h"
#include "tests/sim/check.h"
#include "tests/sim/trial.h"

struct audit audit;

struct audit_job *audit_job(const char *id)
{
	struct audit_job *job = NULL;
	HASH_FIND_STR(audit.jobs, id, job);
	return job;
}

struct audit_lease *audit_lease(const char *id)
{
	struct audit_lease *lease = NULL;
	HASH_FIND_STR(audit.leases, id, lease);
	return lease;
}

static struct audit_boot *boot_of(const char *agent, const char *boot_id)
{
	char name[64];
	struct audit_boot *boot = NULL;
	snprintf(name, sizeof name, "%s/%s", agent, boot_id);
	HASH_FIND_STR(audit.boots, name, boot);
	if (!boot) {
		boot = berth_alloc(sizeof *boot);
		memcpy(boot->name, name, sizeof boot->name);
		HASH_ADD_STR(audit.boots, name, boot);
	}
	return boot;
}

uint64_t audit_applied(const char *agent, const char *boot_id)
{
	return boot_of(agent, boot_id)->applied;
}

void audit_forget(void)
{
	struct audit_job *job, *next_job;
	HASH_ITER (hh, audit.jobs, job, next_job) {
		HASH_DEL(audit.jobs, job);
		free(job->cells);
		free(job);
	}
	struct audit_lease *lease, *next_lease;
	HASH_ITER (hh, audit.leases, lease, next_lease) {
		HASH_DEL(audit.leases, lease);
		free(lease);
	}
	audit_money_forget();
	struct audit_boot *boot, *next_boot;
	HASH_ITER (hh, audit.boots, boot, next_boot) {
		HASH_DEL(audit.boots, boot);
		free(boot);
	}
	while (audit.incarnations) {
		struct audit_nonce *nonce = audit.incarnations;
		audit.incarnations = nonce->next;
		free(nonce);
	}
	audit = (struct audit){0};
}

// --- jobs and cells ---
static struct audit_cell *cell_of(const Berth__V1__TrialKey *key, struct audit_job **job)
{
	*job = key ? audit_job(key->job_id) : NULL;
	if (!*job || key->index >= (*job)->cells_count) {
		sim_violation("I14", "an event names a trial that no job has");
		return NULL;
	}
	return &(*job)->cells[key->index];
}

// Out of the numbers of those that run or wait.
static void leave(struct audit_job *job, struct audit_cell *cell)
{
	job->deferred -= cell->deferred_at != 0;
	cell->deferred_at = 0;
	job->running -= cell->state == AUDIT_RUNNING;
	job->fresh -= cell->state == AUDIT_QUEUED && !cell->generation;
	job->again -= cell->state == AUDIT_QUEUED && cell->generation;
}

static void set_over(struct audit_job *job, struct audit_cell *cell)
{
	leave(job, cell);
	job->over_count += cell->state != AUDIT_OVER;
	cell->state = AUDIT_OVER;
}

static void submitted(const Berth__Store__V1__JobSubmitted *event)
{
	if (audit_job(event->job_id)) {
		sim_violation("I14", "job %.8s is submitted twice", event->job_id);
		return;
	}
	struct audit_job *job = berth_alloc(sizeof *job);
	snprintf(job->id, sizeof job->id, "%s", event->job_id);
	job->cells_count = (uint32_t)(event->spec->attempts * event->spec->n_tasks * event->spec->n_agents);
	job->cells = berth_alloc(job->cells_count * sizeof *job->cells);
	job->fresh = job->cells_count;
	job->concurrent = event->spec->concurrent_trials;
	job->priority = event->spec->priority;
	job->paid = event->spec->budget[0];
	job->submitted_ns = audit.decided_ns;
	HASH_ADD_STR(audit.jobs, id, job);
}

static void cancel_requested(const Berth__Store__V1__JobCancelRequested *event)
{
	struct audit_job *job = audit_job(event->job_id);
	if (!job || job->ended || job->cancelling) {
		sim_violation("I12", "a job that does not run is cancelled");
		return;
	}
	job->cancelling = true;
	for (uint32_t i = 0; i < job->cells_count; i++) {
		set_over(job, &job->cells[i]);
	}
}

static void job_ended(const Berth__Store__V1__JobEnded *event)
{
	struct audit_job *job = audit_job(event->job_id);
	if (!job || job->ended) {
		sim_violation("I12", "a job ends that is not open");
	} else if (job->over_count != job->cells_count) {
		sim_violation(
			"I12", "job %.8s ends with %u of %u trials over", job->id, job->over_count, job->cells_count);
	} else if (job->cancelling && job->open_leases) {
		sim_violation("I12", "job %.8s is cancelled with %u open leases", job->id, job->open_leases);
	} else if ((event->state == BERTH__V1__JOB_STATE__JOB_CANCELLED) != job->cancelling) {
		sim_violation("I12", "job %.8s ends in another way than it was cancelled", job->id);
	}
	if (job) {
		job->ended = true;
	}
}

static void add_lease(struct audit_job *job, const Berth__V1__Lease *record)
{
	if (audit_lease(record->lease_id)) {
		sim_violation("P3", "lease %.8s is used twice", record->lease_id);
		return;
	}
	struct audit_lease *lease = berth_alloc(sizeof *lease);
	snprintf(lease->id, sizeof lease->id, "%s", record->lease_id);
	snprintf(lease->agent, sizeof lease->agent, "%s", record->agent);
	lease->job = job;
	lease->index = record->trial_index;
	lease->generation = record->generation;
	lease->state = BERTH__V1__LEASE_STATE__LEASE_CREATING;
	lease->paid = record->reservation_id[0];
	HASH_ADD_STR(audit.leases, id, lease);
	job->open_leases++;
}

static void assigned(const Berth__Store__V1__TrialAssigned *event)
{
	struct audit_job *job;
	struct audit_cell *cell = cell_of(event->trial, &job);
	if (!cell) {
		return;
	}
	if (job->ended || job->cancelling || cell->state != AUDIT_QUEUED) {
		sim_violation("I12", "trial %.8s/%u is assigned and does not wait", job->id, event->trial->index);
	}
	if (event->trial->generation != cell->generation + 1) {
		sim_violation("I2", "trial %.8s/%u goes from generation %u to %u", job->id, event->trial->index,
			cell->generation, event->trial->generation);
	}
	audit_fair_assigned(job, cell);
	leave(job, cell);
	cell->generation = event->trial->generation;
	cell->state = AUDIT_RUNNING;
	job->running++;
	sim_trace("log: %.8s/%u is assigned to %s, generation %u", job->id, event->trial->index, event->agent,
		cell->generation);
	snprintf(cell->agent, sizeof cell->agent, "%s", event->agent);
	for (size_t i = 0; i < event->n_leases; i++) {
		add_lease(job, event->leases[i]);
	}
	for (size_t i = 0; i < event->n_reservations; i++) {
		const Berth__V1__Reservation *row = event->reservations[i];
		audit_money_reserved(row, audit_lease(row->reservation_id));
	}
}

static void taken_up(const Berth__Store__V1__LeaseTakenUp *event)
{
	const Berth__V1__Lease *record = event->lease;
	struct audit_job *job = audit_job(record->job_id);
	if (!job || record->trial_index >= job->cells_count || !audit_was_lost(record->lease_id, record->agent) ||
		!audit_enrolled(record->agent)->resends) {
		sim_violation(
			"I7", "lease %.8s is taken up, and was not lost by an agent that resends", record->lease_id);
		return;
	}
	struct audit_cell *cell = &job->cells[record->trial_index];
	if (record->generation > cell->generation) {
		if (cell->state != AUDIT_QUEUED) {
			sim_violation(
				"I12", "trial %.8s/%u is taken up and does not wait", job->id, record->trial_index);
		}
		leave(job, cell);
		cell->generation = record->generation;
		cell->state = AUDIT_RUNNING;
		job->running++;
		snprintf(cell->agent, sizeof cell->agent, "%s", record->agent);
	}
	add_lease(job, record);
	sim_trace("log: lease %.8s of %s, %.8s/%u generation %u, is taken up", record->lease_id, record->agent, job->id,
		record->trial_index, record->generation);
}

static bool is_running(const Berth__V1__TrialKey *key, const struct audit_cell *cell, const char *what)
{
	if (cell->state == AUDIT_RUNNING && cell->generation == key->generation) {
		return true;
	}
	sim_violation("I2", "%s of generation %u of trial %.8s/%u, which is in generation %u%s", what, key->generation,
		key->job_id, key->index, cell->generation, cell->state == AUDIT_RUNNING ? "" : " and does not run");
	return false;
}

static void unassigned(const Berth__Store__V1__TrialUnassigned *event)
{
	struct audit_job *job;
	struct audit_cell *cell = cell_of(event->trial, &job);
	if (cell && is_running(event->trial, cell, "the loss")) {
		leave(job, cell);
		cell->state = AUDIT_QUEUED;
		cell->queued_ns = audit.decided_ns;
		job->again++;
		sim_trace("log: %.8s/%u generation %u is lost (%d: %s)", job->id, event->trial->index, cell->generation,
			(int)event->reason, event->detail);
		if (event->reason == BERTH__STORE__V1__UNASSIGN_REASON__HOLD_EXPIRED) {
			sim_runs_fenced(job->id, event->trial->index, cell->generation);
		}
		if (event->next != BERTH__V1__TRIAL_STATE__TRIAL_QUEUED) {
			set_over(job, cell);
		}
	}
}

static void check_truth(const Berth__Store__V1__TrialEnded *event, const Berth__Store__V1__Origin *origin,
	const struct audit_cell *cell)
{
	const Berth__V1__TrialKey *key = event->trial;
	const struct sim_run *run = sim_run_of(key->job_id, key->index, key->generation);
	if (!origin || strcmp(origin->agent, cell->agent) != 0) {
		sim_violation("P3", "a result of trial %.8s/%u comes from another agent than its own", key->job_id,
			key->index);
	} else if (!run || !run->finished || strcmp(run->agent, cell->agent) != 0) {
		sim_violation("P4", "trial %.8s/%u generation %u has a result and never came to an end", key->job_id,
			key->index, key->generation);
	} else if (event->state == BERTH__V1__TRIAL_STATE__TRIAL_SCORED &&
		   (run->outcome != BERTH__V1__OUTCOME__OUTCOME_SCORED ||
			   strcmp(run->rewards, event->result->rewards_json) != 0)) {
		sim_violation("P6", "trial %.8s/%u is scored %s, and its run came to outcome %d with %s", key->job_id,
			key->index, event->result->rewards_json, run->outcome, run->rewards);
	}
}

static void check_leases(const Berth__Store__V1__TrialEnded *event, const struct audit_job *job)
{
	const struct audit_lease *lease, *next;
	HASH_ITER (hh, audit.leases, lease, next) {
		if (event->state == BERTH__V1__TRIAL_STATE__TRIAL_SCORED && lease->job == job &&
			lease->index == event->trial->index && lease->generation == event->trial->generation &&
			lease->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
			sim_violation("P4", "trial %.8s/%u is scored and its lease %.8s is open", job->id,
				event->trial->index, lease->id);
		}
	}
}

static void result_deferred(const Berth__Store__V1__TrialEnded *event, const Berth__Store__V1__Event *record)
{
	struct audit_job *job;
	struct audit_cell *cell = cell_of(event->trial, &job);
	if (!cell || !is_running(event->trial, cell, "a result that waits")) {
		return;
	}
	if (!sim_audit_resends() || cell->deferred_at) {
		sim_violation("I5", "a result of trial %.8s/%u waits, and %s", job->id, event->trial->index,
			cell->deferred_at ? "so does another" : "nobody is to resend");
	}
	sim_trace("log: %.8s/%u generation %u has a result (%d) that waits", job->id, event->trial->index,
		cell->generation, (int)event->state);
	job->deferred += !cell->deferred_at;
	cell->deferred_at = record->sequence;
	check_truth(event, record->origin, cell);
}

static void trial_ended(const Berth__Store__V1__TrialEnded *event, const Berth__Store__V1__Origin *origin)
{
	struct audit_job *job;
	struct audit_cell *cell = cell_of(event->trial, &job);
	if (!cell || !is_running(event->trial, cell, "a result")) {
		return;
	}
	if (sim_audit_resends()) {
		sim_violation("P4", "a result of trial %.8s/%u counts while a newer run may be heard of", job->id,
			event->trial->index);
	}
	if (event->deferred_at != cell->deferred_at) {
		sim_violation("I5", "trial %.8s/%u has the result of event %llu, and that of %llu waits", job->id,
			event->trial->index, (unsigned long long)event->deferred_at,
			(unsigned long long)cell->deferred_at);
	} else if (!cell->deferred_at) {
		check_truth(event, origin, cell);
	}
	if (cell->ended) {
		sim_violation("I5", "trial %.8s/%u has two accepted results", job->id, event->trial->index);
	}
	cell->ended = true;
	sim_trace("log: %.8s/%u generation %u has its result (%d)", job->id, event->trial->index, cell->generation,
		(int)event->state);
	cell->scored = event->state == BERTH__V1__TRIAL_STATE__TRIAL_SCORED;
	set_over(job, cell);
	check_leases(event, job);
}

// --- leases ---
static void check_death(const struct audit_lease *lease)
{
	if (sim_docker_is_alive(lease->id)) {
		sim_violation("P2",
			"lease %.8s is retired (proof %d) and its container is alive "
			"or on its way",
			lease->id, (int)lease->proof);
	}
	bool denies = lease->proof == BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED ||
	              lease->proof == BERTH__V1__DEATH_PROOF__REJECTED;
	if (denies && sim_docker_was_asked(lease->id)) {
		sim_violation("I9",
			"lease %.8s is retired as never created (proof %d), and its "
			"create reached the Engine",
			lease->id, (int)lease->proof);
	}
}

static void lease_moved(const Berth__Store__V1__LeaseMoved *event)
{
	struct audit_lease *lease = audit_lease(event->lease_id);
	if (!lease) {
		sim_violation("I9", "lease %.8s moves and was never begun", event->lease_id);
		return;
	}
	if (lease->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		sim_violation("P3", "lease %.8s moves after it was retired", lease->id);
		return;
	}
	lease->state = event->state;
	lease->proof = event->proof;
	sim_trace("log: lease %.8s of %s, %.8s/%u generation %u, is %d (proof %d) %s", lease->id, lease->agent,
		lease->job->id, lease->index, lease->generation, (int)event->state, (int)event->proof, event->failure);
	if (event->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		lease->job->open_leases--;
		check_death(lease);
	}
}

// --- the rest ---
static void origin_of(const Berth__Store__V1__Origin *origin)
{
	struct audit_boot *boot = boot_of(origin->agent, origin->boot_id);
	if (origin->report_sequence != boot->applied && origin->report_sequence != boot->applied + 1) {
		sim_violation("I3", "report %llu of %s is applied after %llu",
			(unsigned long long)origin->report_sequence, boot->name, (unsigned long long)boot->applied);
	}
	boot->applied = origin->report_sequence;
}

static void coordinator_started(const Berth__Store__V1__CoordinatorStarted *event)
{
	if (event->number != audit.incarnation + 1) {
		sim_violation("P7", "incarnation %llu follows %llu", (unsigned long long)event->number,
			(unsigned long long)audit.incarnation);
	}
	audit.incarnation = event->number;
	audit.started_ns = audit.decided_ns;
	struct audit_nonce *nonce = berth_alloc(sizeof *nonce);
	memcpy(nonce->nonce, event->nonce.data, sizeof nonce->nonce);
	nonce->number = event->number;
	nonce->next = audit.incarnations;
	audit.incarnations = nonce;
}

struct audit_enrolled *audit_enrolled(const char *name)
{
	for (unsigned i = 0; i < audit.enrolled_count; i++) {
		if (strcmp(audit.enrolled[i].name, name) == 0) {
			return &audit.enrolled[i];
		}
	}
	return NULL;
}

static void agent_enrolled(const Berth__Store__V1__AgentEnrolled *event)
{
	struct audit_enrolled *enrolled = audit_enrolled(event->name);
	if (!enrolled) {
		enrolled = &audit.enrolled[audit.enrolled_count++];
		snprintf(enrolled->name, sizeof enrolled->name, "%s", event->name);
	}
	snprintf(enrolled->certificate, sizeof enrolled->certificate, "%s", event->certificate_sha256);
}

void audit_event(const Berth__Store__V1__Event *event)
{
	if (event->origin) {
		origin_of(event->origin);
	}
	switch (event->body_case) {
	case BERTH__STORE__V1__EVENT__BODY_COORDINATOR_STARTED:
		coordinator_started(event->coordinator_started);
		break;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_ENROLLED:
		agent_enrolled(event->agent_enrolled);
		break;
	case BERTH__STORE__V1__EVENT__BODY_JOB_SUBMITTED:
		submitted(event->job_submitted);
		break;
	case BERTH__STORE__V1__EVENT__BODY_JOB_CANCEL_REQUESTED:
		cancel_requested(event->job_cancel_requested);
		break;
	case BERTH__STORE__V1__EVENT__BODY_JOB_ENDED:
		job_ended(event->job_ended);
		break;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED:
		assigned(event->trial_assigned);
		break;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_UNASSIGNED:
		unassigned(event->trial_unassigned);
		break;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_ENDED:
		trial_ended(event->trial_ended, event->origin);
		break;
	case BERTH__STORE__V1__EVENT__BODY_RESULT_DEFERRED:
		result_deferred(event->result_deferred->ended, event);
		break;
	case BERTH__STORE__V1__EVENT__BODY_LEASE_MOVED:
		lease_moved(event->lease_moved);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED:
		audit_money_opened(event->budget_opened);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED:
		audit_money_amended(event->budget_amended);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED:
		audit_money_ended(event->budget_ended);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED:
		audit_money_appealed(event->budget_appealed);
		break;
	case BERTH__STORE__V1__EVENT__BODY_REPORT_SKIPPED:
		sim_trace("log: a report of %s is skipped: %s", event->origin ? event->origin->agent : "nobody",
			event->report_skipped->reason);
		break;
	case BERTH__STORE__V1__EVENT__BODY_LEASE_TAKEN_UP:
		taken_up(event->lease_taken_up);
		break;
	case BERTH__STORE__V1__EVENT__BODY_AGENT_RESENT:
		audit_resent(event->agent_resent);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED:
		audit_money_reserved_again(event->budget_reserved->reservation);
		break;
	case BERTH__STORE__V1__EVENT__BODY_INCARNATION_RAISED:
		audit.incarnation = event->incarnation_raised->number;
		break;
	default:
		break;
	}
}
