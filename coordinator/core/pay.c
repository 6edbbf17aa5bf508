// SPDX-License-Identifier: Apache-2.0
// The money of leases: reserved in the event that begins them, ended in the batch that retires them. A run that finds
// no room waits, volatile like every queue, until money of its budget comes back or a limit is amended.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

#define DURATION_UNKNOWN "DurationUnknown" // dead for certain, and charged in full: an appeal would say nothing new

// --- reserving ---

void limit_job(const struct decision *decision, const struct job *job, int64_t quote_nano_usd)
{
	const struct berth_budgets *budgets = decision->core->budgets;
	Berth__V1__BudgetTotals totals;
	if (!quote_nano_usd) {
		return;
	}
	// The policy's limit of one job stands where it is lower.
	berth_budgets_totals(budgets, job->spec->budget, NULL, job->id, NULL, &totals);
	bool lower = totals.limit_nano_usd >= 0 && totals.limit_nano_usd < quote_nano_usd;
	struct berth_budget_refusal refusal;
	Berth__Store__V1__BudgetJobLimited *limited = NULL;
	if (berth_budget_decide_limit_job(budgets, job->spec->budget, job->id,
		    lower ? totals.limit_nano_usd : quote_nano_usd, &limited, &refusal) &&
		limited) {
		Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_BUDGET_JOB_LIMITED);
		event->budget_job_limited = emit_own(decision, limited);
		emit(decision, event);
	}
}

bool reserve_run(const struct decision *decision, const struct cell *cell, const struct run_plan *plan,
	Berth__Store__V1__TrialAssigned *assigned, struct berth_budget_refusal *refusal)
{
	const struct job *job = cell->job;
	struct berth_budget_reserve commands[RUN_LEASES_MAX];
	Berth__V1__Scope scopes[RUN_LEASES_MAX];
	Berth__V1__Reservation *rows[RUN_LEASES_MAX] = {NULL};
	size_t count = 0;
	for (size_t i = 0; i < plan->count; i++) {
		if (!plan->leases[i].meter_id[0]) {
			continue;
		}
		Berth__V1__Lease *lease = assigned->leases[i];
		berth__v1__scope__init(&scopes[count]);
		scopes[count].phase = job->spec->phase;
		scopes[count].category = (char *)berth_resource_role(lease->role);
		scopes[count].run_id = (char *)job->id;
		scopes[count].lane = lease->agent; // whose receipt an appeal needs
		commands[count] = (struct berth_budget_reserve){.budget = job->spec->budget,
			.reservation_id = lease->lease_id,
			.scope = &scopes[count],
			.meter_id = plan->leases[i].meter_id,
			.job_id = job->id,
			.user = job->submitter};
		lease->reservation_id = emit_text(decision, lease->lease_id);
		count++;
	}
	if (count && !berth_budget_decide_reserve(decision->core->budgets, commands, count, rows, refusal)) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		emit_append(decision, &assigned->n_reservations, &assigned->reservations, emit_own(decision, rows[i]));
	}
	return true;
}

static void block(const struct decision *decision, struct cell *cell, const char *reason)
{
	struct job *job = cell->job;
	int64_t price = cell_price(cell);
	if (!job->blocked_reason) {
		job->unpayable_nano_usd = price;
		decision->core->blocked_jobs++;
	} else if (price < job->unpayable_nano_usd) {
		job->unpayable_nano_usd = price;
	}
	free(job->blocked_reason);
	job->blocked_reason = berth_strdup(reason);
	effect_cell(decision, BERTH_EFFECT_TRIAL_CHANGED, cell);
	effect_budget(decision, job->spec->budget);
}

void refuse_run(const struct decision *decision, struct cell *cell, const struct berth_budget_refusal *refusal)
{
	if (berth_budget_waits(refusal->reason)) {
		block(decision, cell, refusal->error.message);
	} else {
		unassign(decision, cell, BERTH__STORE__V1__UNASSIGN_REASON__BUDGET_REFUSED, refusal->error.message,
			NULL);
	}
}

void forget_blocked(struct berth_core *core, struct job *job)
{
	core->blocked_jobs -= job->blocked_reason != NULL;
	free(job->blocked_reason);
	job->blocked_reason = NULL;
}

void unblock_jobs(struct berth_core *core, const char *budget)
{
	struct job *job;
	for (job = core->blocked_jobs ? core->open_jobs : NULL; job; job = job->open_next) {
		if (job->blocked_reason && strcmp(job->spec->budget, budget) == 0) {
			forget_blocked(core, job);
			core->place_wanted = true;
		}
	}
}

// --- ending ---

static void emit_ended(const struct decision *decision, Berth__Store__V1__BudgetEnded *ended)
{
	if (!ended) {
		return;
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED);
	event->budget_ended = emit_own(decision, ended);
	emit(decision, event);
	effect_budget(decision, ended->budget);
}

static int64_t own_elapsed_ns(const struct decision *decision, const struct lease *lease)
{
	return lease->begun_boot_ns ? decision->now.boot_ns - lease->begun_boot_ns : 0;
}

// The agent's duration; where it is not known, the coordinator's time since the assignment, which is never less. Across
// a restart of both there is none: a wall clock may have been set back.
static bool settle(const struct decision *decision, const struct lease *lease, const Berth__V1__LeaseMove *move,
	Berth__Store__V1__BudgetEnded **ended)
{
	const struct berth_core *core = decision->core;
	struct berth_budget_refusal refusal;
	struct berth_budget_settle command = {.reservation_id = lease->record->reservation_id,
		.elapsed_ns = move->elapsed_ns,
		.elapsed_bound_ns = own_elapsed_ns(decision, lease)};
	if (command.elapsed_ns == 0) {
		command.elapsed_ns = command.elapsed_bound_ns;
	}
	return berth_budget_decide_settle(core->budgets, &command, ended, &refusal);
}

static const char *failure_of(Berth__V1__LeaseState from, Berth__V1__DeathProof proof)
{
	if (proof == BERTH__V1__DEATH_PROOF__GIVEN_UP) {
		return "OrphanedLease";
	}
	return from == BERTH__V1__LEASE_STATE__LEASE_DISPATCHING ? "CreateUnknown" : "CleanupUnknown";
}

void end_reservation(const struct decision *decision, const struct lease *lease, const Berth__V1__LeaseMove *move,
	Berth__V1__LeaseState from)
{
	const struct berth_budgets *budgets = decision->core->budgets;
	const char *id = lease->record->reservation_id;
	Berth__Store__V1__BudgetEnded *ended = NULL;
	struct berth_budget_refusal refusal;
	if (!id[0]) {
		return;
	}
	switch (move->proof) {
	case BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED:
	case BERTH__V1__DEATH_PROOF__REJECTED:
		berth_budget_decide_release(budgets, id, move->proof, NULL, &ended, &refusal);
		break;
	case BERTH__V1__DEATH_PROOF__ABSENCE_SEEN:
		if (!move->elapsed_ns && !lease->begun_boot_ns) {
			berth_budget_decide_forfeit(budgets, id, DURATION_UNKNOWN, NULL, &ended, &refusal);
		} else if (!settle(decision, lease, move, &ended)) {
			// A duration that can't be priced is no usage.
			berth_budget_decide_forfeit(budgets, id, "UsageInvalid", NULL, &ended, &refusal);
		}
		break;
	default:
		berth_budget_decide_forfeit(budgets, id, failure_of(from, move->proof), NULL, &ended, &refusal);
	}
	emit_ended(decision, ended);
}

// --- appeals ---

bool may_be_appealed(const Berth__V1__Reservation *row)
{
	const char *failure = row->ending ? row->ending->failure_type : "";
	return row->state == BERTH__V1__RESERVATION_STATE__FORFEITED && strcmp(failure, "PreDispatchFailure") != 0 &&
	       strcmp(failure, "CreateRejected") != 0 && strcmp(failure, DURATION_UNKNOWN) != 0;
}

static Berth__V1__Lease late_receipt(const struct decision *decision, const Berth__V1__LeaseMove *move)
{
	const struct berth_core *core = decision->core;
	Berth__V1__Lease lease = BERTH__V1__LEASE__INIT;
	lease.lease_id = move->lease_id;
	lease.state = move->state;
	lease.proof = move->proof;
	// As the event will say.
	lease.retired_at_ns =
		decision->now.wall_ns > core->recorded_at_ns ? decision->now.wall_ns : core->recorded_at_ns;
	return lease;
}

bool appeal_forfeit(const struct decision *decision, const Berth__V1__LeaseMove *move)
{
	const struct berth_budgets *budgets = decision->core->budgets;
	const Berth__V1__Reservation *row = berth_budgets_reservation(budgets, move->lease_id);
	if (!row || !may_be_appealed(row) || strcmp(row->scope->lane, decision->command->agent) != 0) {
		return false;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	char digest_text[BERTH_DIGEST_TEXT_SIZE];
	berth_proto_pack(decision->command->report, &packed);
	struct berth_digest digest = berth_sha256(packed.data, packed.size);
	berth_digest_text(&digest, digest_text);
	Berth__V1__Lease lease = late_receipt(decision, move);
	struct berth_budget_appeal command = {
		.reservation_id = move->lease_id, .lease = &lease, .receipt_digest = digest_text};
	Berth__Store__V1__BudgetAppealed *appealed = NULL;
	struct berth_budget_refusal refusal;
	if (!berth_budget_decide_appeal(budgets, &command, &appealed, &refusal) || !appealed) {
		return false;
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED);
	event->budget_appealed = emit_own(decision, appealed);
	emit(decision, event);
	effect_budget(decision, appealed->forfeited->budget);
	return true;
}
