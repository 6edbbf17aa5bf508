// SPDX-License-Identifier: Apache-2.0
// Reports of agents: applied once by (agent, boot, sequence); lease moves by the table of states, results by the table
// of acceptance rules.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

static void skip(const struct decision *decision, const char *reason)
{
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_REPORT_SKIPPED);
	event->report_skipped = emit_part(decision, sizeof *event->report_skipped);
	berth__store__v1__report_skipped__init(event->report_skipped);
	event->report_skipped->reason = emit_text(decision, reason);
	emit(decision, event);
}

void move_lease(const struct decision *decision, const struct lease *lease, const Berth__V1__LeaseMove *move)
{
	Berth__V1__LeaseState from = lease->record->state;
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_LEASE_MOVED);
	Berth__Store__V1__LeaseMoved *moved = emit_part(decision, sizeof *moved);
	berth__store__v1__lease_moved__init(moved);
	moved->lease_id = emit_text(decision, move->lease_id);
	moved->state = move->state;
	moved->resource_id = emit_text(decision, move->resource_id);
	moved->provider_expiry_at_ns = move->provider_expiry_at_ns;
	moved->expected_end_at_ns = move->expected_end_at_ns;
	moved->proof = move->proof;
	moved->failure = emit_text(decision, move->failure);
	event->lease_moved = moved;
	emit(decision, event);
	if (move->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		end_reservation(decision, lease, move, from);
		pace_end(decision->core, move->lease_id, decision->now);
	}
	if (lease->job->state == BERTH__V1__JOB_STATE__JOB_CANCELLING) {
		end_job_if_over(decision, lease->job);
	}
}

static void report_lease(const struct decision *decision, const Berth__V1__LeaseMove *move)
{
	if (move->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED && appeal_forfeit(decision, move)) {
		return;
	}
	const struct lease *lease = core_lease(decision->core, move->lease_id);
	if (!lease && !take_up_lease(decision, move, &lease)) {
		return;
	}
	if (!lease) {
		if (!end_without_lease(decision, move)) {
			skip(decision, "no such lease");
		}
		return;
	}
	if (strcmp(lease->agent->name, decision->command->agent) != 0) {
		skip(decision, "the lease belongs to another agent");
		return;
	}
	const char *fault = lease_move_fault(lease->record, move, decision->now.wall_ns);
	if (fault) {
		skip(decision, fault);
		return;
	}
	move_lease(decision, lease, move);
}

// --- acceptance ---

struct candidate {
	const struct decision *decision;
	const Berth__V1__TrialResult *result;
	struct cell *cell;
};

static const char *current_generation(const struct candidate *candidate)
{
	const struct cell *cell = candidate->cell;
	const struct berth_command *command = candidate->decision->command;
	const Berth__V1__TrialKey *key = command->report->done->trial;
	bool own = cell->agent && strcmp(cell->agent->name, command->agent) == 0;
	return own && cell->generation == key->generation ? NULL : "the trial is not this agent's (any more)";
}

// A failure of the infrastructure proves nothing and scores nothing: its own reason is worth more than missing
// evidence.
static bool is_infrastructure(const struct candidate *candidate)
{
	return candidate->result->outcome == BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE;
}

static const char *evidence_verifies(const struct candidate *candidate)
{
	return is_infrastructure(candidate) ? NULL : candidate->decision->command->evidence_fault;
}

// Money and hosts are only free once every environment of the trial is proven dead.
static const char *leases_are_retired(const struct candidate *candidate)
{
	const struct lease *lease;
	if (is_infrastructure(candidate)) {
		return NULL;
	}
	LL_FOREACH2(candidate->cell->leases, lease, next_of_cell)
	{
		if (lease_is_open(lease->record)) {
			return "a lease of the trial is not retired";
		}
	}
	return NULL;
}

static const char *scored_has_rewards(const struct candidate *candidate)
{
	bool scored = candidate->result->outcome == BERTH__V1__OUTCOME__OUTCOME_SCORED;
	return scored && !candidate->result->rewards_json[0] ? "scored without rewards" : NULL;
}

static const char *scored_is_attested(const struct candidate *candidate)
{
	const Berth__V1__Evidence *evidence = candidate->result->evidence;
	bool scored = candidate->result->outcome == BERTH__V1__OUTCOME__OUTCOME_SCORED;
	return scored && (!evidence || !evidence->n_attestations || !evidence->n_receipts)
	               ? "scored without attestation or receipt"
	               : NULL;
}

static const char *outcome_is_known(const struct candidate *candidate)
{
	Berth__V1__Outcome outcome = candidate->result->outcome;
	return outcome > BERTH__V1__OUTCOME__OUTCOME_UNSPECIFIED && outcome <= BERTH__V1__OUTCOME__OUTCOME_CANCELLED
	               ? NULL
	               : "the outcome is none that this version knows";
}

// In order: the first that fails decides. `fences` rules drop the result and touch nothing; the others make it a
// failure of the infrastructure, so the cell is run again.
static const struct rule {
	const char *name;
	const char *(*fault)(const struct candidate *candidate);
	bool fences;
} rules[] = {
	{"current-generation", current_generation, true},
	{"outcome-known", outcome_is_known, false},
	{"evidence-verifies", evidence_verifies, false},
	{"leases-retired", leases_are_retired, false},
	{"scored-has-rewards", scored_has_rewards, false},
	{"scored-is-attested", scored_is_attested, false},
};

static void drop_result(const struct candidate *candidate, const struct rule *rule, const char *fault)
{
	Berth__Store__V1__Event *event = emit_new(candidate->decision, BERTH__STORE__V1__EVENT__BODY_RESULT_REFUSED);
	Berth__Store__V1__ResultRefused *refused = emit_part(candidate->decision, sizeof *refused);
	berth__store__v1__result_refused__init(refused);
	refused->trial = candidate->decision->command->report->done->trial;
	refused->rule = emit_text(candidate->decision, rule->name);
	refused->detail = emit_text(candidate->decision, fault);
	refused->folder = candidate->result->folder;
	event->result_refused = refused;
	emit(candidate->decision, event);
}

static void accept_result(const struct candidate *candidate)
{
	const Berth__V1__TrialResult *result = candidate->result;
	struct cell *cell = candidate->cell;
	Berth__Store__V1__TrialEnded *ended = emit_part(candidate->decision, sizeof *ended);
	berth__store__v1__trial_ended__init(ended);
	ended->trial = candidate->decision->command->report->done->trial;
	ended->result = (Berth__V1__TrialResult *)result;
	ended->reward = candidate->decision->command->reward;
	switch (result->outcome) {
	case BERTH__V1__OUTCOME__OUTCOME_SCORED:
		ended->state = BERTH__V1__TRIAL_STATE__TRIAL_SCORED;
		break;
	default:
		ended->state = BERTH__V1__TRIAL_STATE__TRIAL_UNSCORED;
	}
	if (candidate->decision->core->resending) {
		defer_result(candidate->decision, cell, ended);
		return;
	}
	Berth__Store__V1__Event *event = emit_new(candidate->decision, BERTH__STORE__V1__EVENT__BODY_TRIAL_ENDED);
	event->trial_ended = ended;
	emit(candidate->decision, event);
	effect_cell(candidate->decision, BERTH_EFFECT_TRIAL_CHANGED, cell);
	end_job_if_over(candidate->decision, cell->job);
}

static void lose_result(const struct candidate *candidate, const char *rule, const char *fault)
{
	char detail[BERTH_NOTE_DETAIL_SIZE];
	snprintf(detail, sizeof detail, "%s: %s", rule, fault);
	unassign(candidate->decision, candidate->cell, BERTH__STORE__V1__UNASSIGN_REASON__INFRASTRUCTURE, detail,
		candidate->result);
}

static void report_done(const struct decision *decision, const Berth__V1__TrialDone *done)
{
	struct candidate candidate = {
		.decision = decision, .result = done->result, .cell = core_cell(decision->core, done->trial)};
	if (!candidate.cell || !candidate.result) {
		skip(decision, "no such trial");
		return;
	}
	for (size_t i = 0; i < BERTH_COUNT(rules); i++) {
		const char *fault = rules[i].fault(&candidate);
		if (fault && rules[i].fences) {
			drop_result(&candidate, &rules[i], fault);
			return;
		}
		if (fault) {
			lose_result(&candidate, rules[i].name, fault);
			return;
		}
	}
	if (is_infrastructure(&candidate)) {
		const Berth__V1__TrialException *exception = done->result->exception;
		lose_result(&candidate, exception ? exception->type : "infrastructure",
			exception ? exception->message : "no reason given");
	} else if (done->result->outcome == BERTH__V1__OUTCOME__OUTCOME_CANCELLED) {
		// Of a job that is cancelled nothing runs any more. This one was stopped by its agent's coordinator,
		// which goes on from a backup and knew nothing of it before it was taken up: it runs again.
		unassign(decision, candidate.cell, BERTH__STORE__V1__UNASSIGN_REASON__RESTORED,
			"it was stopped before this ledger knew of it", done->result);
	} else if (wants_retry(candidate.cell, done->result)) {
		unassign(decision, candidate.cell, BERTH__STORE__V1__UNASSIGN_REASON__RETRY,
			done->result->exception->type, done->result);
	} else {
		accept_result(&candidate);
	}
}

void decide_report(const struct decision *decision)
{
	const struct berth_command *command = decision->command;
	const Berth__V1__Report *report = command->report;
	struct agent *agent = core_agent(decision->core, command->agent);
	if (!agent || agent->session != command->session || strlen(report->boot_id) != BERTH_ID_SIZE - 1) {
		refuse(decision, BERTH_ERROR_FENCED, "this is not the session of agent %s", command->agent);
		return;
	}
	const struct boot *boot = core_boot(agent, report->boot_id);
	uint64_t applied = boot ? boot->applied_through : 0;
	if (report->sequence > applied + 1) {
		refuse(decision, BERTH_ERROR_FENCED,
			"agent %s sent report %llu of its life %.8s, but %llu is missing%s", agent->name,
			(unsigned long long)report->sequence, report->boot_id, (unsigned long long)applied + 1,
			agent->resending ? ": a newer backup covered it; restore that one, or give the agent up" : "");
		return;
	}
	if (report->sequence == applied + 1) {
		struct decision origin = *decision;
		origin.from_report = true;
		if (report->body_case == BERTH__V1__REPORT__BODY_LEASE) {
			report_lease(&origin, report->lease);
		} else if (report->body_case == BERTH__V1__REPORT__BODY_DONE) {
			report_done(&origin, report->done);
		} else {
			skip(&origin, "a report of a newer version");
		}
		if (decision->outcome->error.code != BERTH_ERROR_OK) {
			// What came behind it waits too: reports of the agent's next life say what became of this
			// one's.
			agent->session = 0;
			agent->ready = false;
			return;
		}
	}
	struct berth_effect *ack = effect_agent(decision, BERTH_EFFECT_REPORT_ACK, agent);
	memcpy(ack->boot_id, report->boot_id, BERTH_ID_SIZE);
	ack->sequence = report->sequence > applied ? report->sequence : applied;
}
