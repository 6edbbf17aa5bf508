// SPDX-License-Identifier: Apache-2.0
// Backups and what follows from one that was restored: which reports agents may drop, who has to send again what came
// after it, and what an agent that never comes back leaves.
//
// After a restore nothing is assigned until every enrolled agent has resent or was given up: what they hold was paid
// for under limits that this ledger does not remember, and a trial of theirs must not begin twice.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

// --- backups ---

void decide_keep_reports(const struct decision *decision)
{
	if (decision->core->keeps_reports) {
		return;
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_REPORTS_KEPT);
	event->reports_kept = emit_part(decision, sizeof *event->reports_kept);
	berth__store__v1__reports_kept__init(event->reports_kept);
	emit(decision, event);
}

static bool is_covered(const struct berth_core *core, const Berth__V1__AppliedReports *applied)
{
	const struct agent *agent = core_agent(core, applied->agent);
	const struct boot *boot = agent ? core_boot(agent, applied->boot_id) : NULL;
	return boot && applied->through <= boot->applied_through;
}

void decide_backup_verified(const struct decision *decision)
{
	const Berth__V1__FinishBackupRequest *backup = decision->command->backup;
	const struct berth_core *core = decision->core;
	if (!decision->command->seen_held || !backup->head) {
		refuse(decision, BERTH_ERROR_INVALID,
			"the copy is not one of this ledger: its head is not an event of it");
		return;
	}
	for (size_t i = 0; i < backup->n_applied; i++) {
		if (!is_covered(core, backup->applied[i])) {
			refuse(decision, BERTH_ERROR_INVALID,
				"the copy has reports of agent %.64s that this ledger does not have",
				backup->applied[i]->agent);
			return;
		}
	}
	if (backup->head->sequence <= core->backup.size) {
		return; // an older copy, or the same one again, lets nobody drop more
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_BACKUP_VERIFIED);
	Berth__Store__V1__BackupVerified *verified = emit_part(decision, sizeof *verified);
	berth__store__v1__backup_verified__init(verified);
	verified->size = backup->head->sequence;
	verified->root_hash = emit_bytes(decision, backup->head->root_hash.data, backup->head->root_hash.len);
	for (size_t i = 0; i < backup->n_applied; i++) {
		const Berth__V1__AppliedReports *applied = backup->applied[i];
		// Of older lives nothing is announced: a backup with a report of this one has all of theirs.
		if (strcmp(core_agent(core, applied->agent)->boot_id, applied->boot_id) != 0) {
			continue;
		}
		Berth__Store__V1__StableReports *stable = emit_part(decision, sizeof *stable);
		berth__store__v1__stable_reports__init(stable);
		stable->agent = emit_text(decision, applied->agent);
		stable->boot_id = emit_text(decision, applied->boot_id);
		stable->through = applied->through;
		emit_append(decision, &verified->n_stable, &verified->stable, stable);
	}
	event->backup_verified = verified;
	emit(decision, event);
}

uint64_t berth_core_stable_through(const struct berth_core *core, const char *name, bool *keeps_reports)
{
	const struct agent *agent = core_agent(core, name);
	*keeps_reports = core->keeps_reports;
	return agent && strcmp(agent->stable.id, agent->boot_id) == 0 ? agent->stable.applied_through : 0;
}

size_t berth_core_unaware(const struct berth_core *core, const char **names, size_t limit)
{
	size_t count = 0;
	const struct agent *agent, *next;
	HASH_ITER (hh, core->agents, agent, next) {
		if (agent->session && !agent->keeps_reports && count++ < limit) {
			names[count - 1] = agent->name;
		}
	}
	return count;
}

static Berth__V1__AppliedReports *applied_of(const struct agent *agent, const struct boot *boot)
{
	Berth__V1__AppliedReports *applied = berth_alloc(sizeof *applied);
	berth__v1__applied_reports__init(applied);
	berth_proto_set_string(&applied->agent, agent->name);
	berth_proto_set_string(&applied->boot_id, boot->id);
	applied->through = boot->applied_through;
	return applied;
}

size_t berth_core_applied(const struct berth_core *core, Berth__V1__AppliedReports ***applied)
{
	size_t count = 0;
	const struct agent *agent, *next;
	const struct boot *boot;
	*applied = NULL;
	HASH_ITER (hh, core->agents, agent, next) {
		LL_FOREACH (agent->boots, boot) {
			berth_proto_append(&count, applied, applied_of(agent, boot));
		}
	}
	return count;
}

bool berth_core_backup(const struct berth_core *core, struct berth_core_backup *backup)
{
	*backup = core->backup;
	return core->backup.size != 0;
}

// --- restores ---

void begin_restored(const struct decision *decision)
{
	const struct berth_core_restored *restored = decision->command->restored;
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_LEDGER_RESTORED);
	Berth__Store__V1__LedgerRestored *body = emit_part(decision, sizeof *body);
	berth__store__v1__ledger_restored__init(body);
	body->size = restored->size;
	body->leaf_hash = emit_bytes(decision, restored->leaf.bytes, BERTH_DIGEST_SIZE);
	body->root_hash = emit_bytes(decision, restored->root.bytes, BERTH_DIGEST_SIZE);
	body->reason = emit_text(decision, restored->reason);
	event->ledger_restored = body;
	emit(decision, event);
}

const struct berth_core_restore *berth_core_restore_after(
	const struct berth_core *core, const Berth__V1__Incarnation *obeyed, uint64_t seen)
{
	uint64_t number = obeyed ? obeyed->number : 0;
	for (size_t i = 0; i < core->restores_count; i++) {
		if (core->restores[i].size < seen && number < core->restores[i].incarnation) {
			return &core->restores[i];
		}
	}
	return NULL;
}

size_t berth_core_restores(const struct berth_core *core, const struct berth_core_restore **restores)
{
	*restores = core->restores;
	return core->restores_count;
}

size_t berth_core_resending(const struct berth_core *core, const char **names, size_t limit)
{
	size_t count = 0;
	const struct agent *agent, *next;
	HASH_ITER (hh, core->agents, agent, next) {
		if (agent->resending && count++ < limit) {
			names[count - 1] = agent->name;
		}
	}
	return count;
}

// The lost part had incarnations too. Whoever obeys one of them obeys no lower number.
void raise_incarnation(const struct decision *decision, const struct agent *by)
{
	uint64_t obeyed = decision->command->hello->obeyed->number, mine = decision->core->incarnation_number;
	uint64_t number = (obeyed > mine ? obeyed : mine) + 1;
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_INCARNATION_RAISED);
	event->incarnation_raised = emit_part(decision, sizeof *event->incarnation_raised);
	berth__store__v1__incarnation_raised__init(event->incarnation_raised);
	event->incarnation_raised->number = number;
	emit(decision, event);
	const struct agent *agent, *next;
	HASH_ITER (hh, decision->core->agents, agent, next) {
		if (agent->session && agent != by) {
			struct berth_effect *old = effect_agent(decision, BERTH_EFFECT_REFUSE, agent);
			old->code = BERTH_ERROR_NOT_SERVING;
			snprintf(old->reason, sizeof old->reason,
				"the coordinator takes incarnation %llu, above one that agent %s obeyed: come back",
				(unsigned long long)number, by->name);
		}
	}
}

static struct cell *cell_of(const struct berth_core *core, const Berth__V1__Lease *lease)
{
	struct job *job = core_job(core, lease->job_id);
	bool open = job && !job->ended_at_ns && job->cells && lease->trial_index < job->cells_count;
	return open ? &job->cells[lease->trial_index] : NULL;
}

// The trial runs where the newest generation is, unless it is over.
static void make_way(const struct decision *decision, struct cell *cell, uint32_t generation)
{
	if (generation > cell->generation && cell->state == BERTH__V1__TRIAL_STATE__TRIAL_RUNNING) {
		char detail[BERTH_NOTE_DETAIL_SIZE];
		int size = snprintf(detail, sizeof detail, "generation %u was assigned after the backup", generation);
		if (cell->deferred) {
			snprintf(detail + size, sizeof detail - (size_t)size, "; its result, of event %llu, makes way",
				(unsigned long long)cell->deferred->deferred_at);
		}
		unassign(decision, cell, BERTH__STORE__V1__UNASSIGN_REASON__RESTORED, detail, NULL);
	}
}

struct grants { // what an agent says that it was given: leases of one run, and their reservations
	const Berth__V1__Lease *leases[BERTH_RESERVE_BATCH_MAX];
	const Berth__V1__Reservation *reservations[BERTH_RESERVE_BATCH_MAX];
	size_t count;
};

static void add_grant(struct grants *grants, const struct agent *agent, const Berth__V1__Lease *lease,
	const Berth__V1__Reservation *reservation)
{
	bool own = lease && strcmp(lease->agent, agent->name) == 0 &&
	           (!reservation || strcmp(reservation->reservation_id, lease->lease_id) == 0);
	if (own && grants->count < BERTH_RESERVE_BATCH_MAX) {
		grants->leases[grants->count] = lease;
		grants->reservations[grants->count++] = reservation;
	}
}

static bool is_of_same_run(const Berth__V1__Lease *a, const Berth__V1__Lease *b)
{
	return a->trial_index == b->trial_index && a->generation == b->generation && strcmp(a->job_id, b->job_id) == 0;
}

// All or nothing, and before anything else: a report counts as applied with its first event.
static bool reserve_again(const struct decision *decision, const struct grants *grants)
{
	struct berth_budget_reserve commands[BERTH_RESERVE_BATCH_MAX];
	Berth__V1__Reservation *rows[BERTH_RESERVE_BATCH_MAX] = {NULL};
	struct berth_budget_refusal refusal;
	size_t count = 0;
	for (size_t i = 0; i < grants->count; i++) {
		const Berth__V1__Reservation *held = grants->reservations[i];
		if (held) {
			commands[count++] = (struct berth_budget_reserve){.budget = held->budget,
				.reservation_id = held->reservation_id,
				.scope = held->scope,
				.meter_id = held->meter_id,
				.max_nano_usd = held->max_nano_usd,
				.job_id = held->job_id,
				.user = held->user};
		}
	}
	if (count && !berth_budget_decide_reserve(decision->core->budgets, commands, count, rows, &refusal)) {
		refuse(decision, BERTH_ERROR_BUDGET,
			"agent %s holds lease %.32s, begun after the backup, and it can't be accounted for: %s; make "
			"the budget as it was (`berth budget create` or `amend`), or give the agent up",
			decision->command->agent, decision->command->report->lease->lease_id, refusal.error.message);
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		if (rows[i]) {
			Berth__Store__V1__Event *event =
				emit_new(decision, BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED);
			event->budget_reserved = emit_part(decision, sizeof *event->budget_reserved);
			berth__store__v1__budget_reserved__init(event->budget_reserved);
			event->budget_reserved->reservation = emit_own(decision, rows[i]);
			emit(decision, event);
			effect_budget(decision, commands[i].budget);
		}
	}
	return true;
}

static void take_up_one(
	const struct decision *decision, const Berth__V1__Lease *held, const Berth__V1__Reservation *reservation)
{
	struct cell *cell = cell_of(decision->core, held);
	if (!cell || (held->generation > cell->generation && cell_is_over(cell))) {
		return; // a job that is lost, or ended without it: only its money counts
	}
	make_way(decision, cell, held->generation);
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_LEASE_TAKEN_UP);
	Berth__Store__V1__LeaseTakenUp *taken = emit_part(decision, sizeof *taken);
	berth__store__v1__lease_taken_up__init(taken);
	taken->lease = emit_copy(decision, held);
	taken->lease->state = BERTH__V1__LEASE_STATE__LEASE_CREATING;
	taken->lease->reservation_id = emit_text(decision, reservation ? held->lease_id : NULL);
	taken->boot_id = emit_text(decision, decision->command->report->boot_id);
	event->lease_taken_up = taken;
	emit(decision, event);
	effect_cell(decision, BERTH_EFFECT_TRIAL_CHANGED, cell);
}

bool take_up_lease(const struct decision *decision, const Berth__V1__LeaseMove *move, const struct lease **lease)
{
	const Berth__V1__Lease *held = move->lease;
	const struct agent *agent = core_agent(decision->core, decision->command->agent);
	struct grants grants = {.count = 0};
	*lease = NULL;
	if (!agent->resending || !held || strcmp(held->lease_id, move->lease_id) != 0) {
		return true;
	}
	add_grant(&grants, agent, held, move->reservation);
	for (size_t i = 0; grants.count && i < move->n_others; i++) {
		const Berth__V1__LeaseGrant *other = move->others[i];
		if (other->lease && is_of_same_run(other->lease, held) &&
			!core_lease(decision->core, other->lease->lease_id)) {
			add_grant(&grants, agent, other->lease, other->reservation);
		}
	}
	if (!reserve_again(decision, &grants)) {
		return false;
	}
	for (size_t i = 0; i < grants.count; i++) {
		take_up_one(decision, grants.leases[i], grants.reservations[i]);
	}
	*lease = core_lease(decision->core, move->lease_id);
	return true;
}

bool end_without_lease(const struct decision *decision, const Berth__V1__LeaseMove *move)
{
	const Berth__V1__Reservation *row = berth_budgets_reservation(decision->core->budgets, move->lease_id);
	if (!row || row->state != BERTH__V1__RESERVATION_STATE__RESERVED ||
		move->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED ||
		strcmp(row->scope->lane, decision->command->agent) != 0) {
		return false;
	}
	Berth__V1__Lease record = BERTH__V1__LEASE__INIT;
	record.lease_id = record.reservation_id = move->lease_id;
	const struct lease lease = {.record = &record};
	end_reservation(decision, &lease, move, BERTH__V1__LEASE_STATE__LEASE_ACTIVE);
	return true;
}

void end_resending(const struct decision *decision, struct agent *agent)
{
	const Berth__V1__Heartbeat *beat = decision->command->heartbeat;
	struct cell *cell, *next;
	DL_FOREACH_SAFE (agent->running, cell, next) {
		if (!is_listed_trial(beat->running, beat->n_running, cell)) {
			unassign(decision, cell, BERTH__STORE__V1__UNASSIGN_REASON__AGENT_RESTARTED,
				"its agent does not run it since the ledger was restored", NULL);
		}
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_AGENT_RESENT);
	event->agent_resent = emit_part(decision, sizeof *event->agent_resent);
	berth__store__v1__agent_resent__init(event->agent_resent);
	event->agent_resent->agent = emit_text(decision, agent->name);
	emit(decision, event);
	wake_at(decision->core, decision->now.boot_ns);
}

// --- giving up ---

static bool may_be_forgotten(const struct decision *decision, const struct agent *agent)
{
	int64_t left_ns = fenced_at_ns(decision->core, agent) - decision->now.boot_ns;
	if (agent->session) {
		refuse(decision, BERTH_ERROR_CONFLICT, "agent %s is in session: stop it first", agent->name);
	} else if ((agent->boot_id[0] || agent->resending) && left_ns > 0) {
		refuse(decision, BERTH_ERROR_CONFLICT,
			"what agent %s runs may still go on: its hold ends in %lld s at the latest; try again then",
			agent->name, (long long)(left_ns / BERTH_NS_PER_S) + 1);
	} else {
		return true;
	}
	return false;
}

static Berth__V1__LeaseMove give_up(const char *lease_id)
{
	Berth__V1__LeaseMove move = BERTH__V1__LEASE_MOVE__INIT;
	move.lease_id = (char *)lease_id;
	move.state = BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	move.proof = BERTH__V1__DEATH_PROOF__GIVEN_UP;
	return move;
}

static void give_up_leases(const struct decision *decision, const struct agent *agent)
{
	struct lease *lease, *next;
	HASH_ITER (hh, decision->core->leases, lease, next) {
		if (lease->agent == agent && lease_is_open(lease->record)) {
			const Berth__V1__LeaseMove move = give_up(lease->record->lease_id);
			move_lease(decision, lease, &move);
		}
	}
}

// Money that a restore found without its job.
static void give_up_money(const struct decision *decision)
{
	const struct berth_budgets *budgets = decision->core->budgets;
	const char **names;
	size_t count = berth_budgets_names(budgets, &names);
	for (size_t i = 0; i < count; i++) {
		const Berth__V1__Reservation **open;
		size_t opened = berth_budgets_reservations(budgets, names[i], true, NULL, SIZE_MAX, &open);
		char(*ids)[BERTH_RESERVATION_ID_MAX + 1] = berth_realloc_array(NULL, opened + 1, sizeof *ids);
		for (size_t j = 0; j < opened; j++) {
			bool own = strcmp(open[j]->scope->lane, decision->command->agent) == 0;
			snprintf(ids[j], sizeof ids[j], "%s", own ? open[j]->reservation_id : "");
		}
		for (size_t j = 0; j < opened; j++) {
			const Berth__V1__LeaseMove move = give_up(ids[j]);
			if (ids[j][0]) {
				end_without_lease(decision, &move);
			}
		}
		free(ids);
		free(open);
	}
	free(names);
}

void decide_forget_agent(const struct decision *decision)
{
	const struct berth_command *command = decision->command;
	struct agent *agent = core_agent(decision->core, command->agent);
	if (!agent || agent->forgotten) {
		refuse(decision, BERTH_ERROR_NOT_FOUND, "no agent %s is enrolled: `berth agent list` shows them",
			command->agent);
		return;
	}
	if (!may_be_forgotten(decision, agent)) {
		return;
	}
	struct cell *cell, *next;
	DL_FOREACH_SAFE (agent->running, cell, next) {
		unassign(decision, cell, BERTH__STORE__V1__UNASSIGN_REASON__HOLD_EXPIRED, "its agent was given up",
			NULL);
	}
	give_up_leases(decision, agent);
	give_up_money(decision);
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_AGENT_FORGOTTEN);
	event->agent_forgotten = emit_part(decision, sizeof *event->agent_forgotten);
	berth__store__v1__agent_forgotten__init(event->agent_forgotten);
	event->agent_forgotten->agent = emit_text(decision, command->agent);
	event->agent_forgotten->reason = emit_text(decision, command->reason);
	emit(decision, event);
	wake_at(decision->core, decision->now.boot_ns);
}
