// SPDX-License-Identifier: Apache-2.0
// A forfeit gives way to the receipt of its own lease. The start of the agent's clock is lost with a forfeit, so that
// the coordinator's time from the reservation to the retirement is charged: never less than what was used.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/charge.h"
#include "coordinator/budget/state.h"
#include "coordinator/budget/text.h"

typedef Berth__V1__ReservationEnding ending_t;

static bool refuse_proof(struct berth_budget_refusal *refusal, const char *id, const char *why)
{
	return refuse_budget(refusal, BERTH_BUDGET_NOT_PROVEN, "reservation %s stays forfeited: %s", id, why);
}

static bool is_never(Berth__V1__DeathProof proof)
{
	return proof == BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED || proof == BERTH__V1__DEATH_PROOF__REJECTED;
}

static const char *fault_of(const struct budget *budget, const Berth__V1__Meter *meter,
	const struct berth_budget_appeal *command, const Berth__V1__Reservation *row)
{
	const Berth__V1__Lease *lease = command->lease;
	if (!text_is_digest(command->receipt_digest)) {
		return "the digest of the receipt is missing";
	}
	if (!lease || strcmp(lease->lease_id, row->reservation_id) != 0) {
		return "the receipt is of another lease";
	}
	if (lease->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED || lease->retired_at_ns < row->reserved_at_ns) {
		return "its lease is not retired";
	}
	if (meter->kind_case != BERTH__V1__METER__KIND_TIMED) {
		return "tokens have no lease that could prove anything";
	}
	if (is_never(lease->proof)) {
		return budget->policy->forfeit_undispatched ? "the policy forfeits what was not dispatched" : NULL;
	}
	return lease->proof == BERTH__V1__DEATH_PROOF__ABSENCE_SEEN
	               ? NULL
	               : "the receipt does not say that the resource was seen gone";
}

static bool fill(const Berth__V1__Meter *meter, const struct berth_budget_appeal *command,
	const Berth__V1__Reservation *row, ending_t *ending, struct berth_error *err)
{
	ending->proof = command->lease->proof;
	berth_proto_set_string(&ending->failure_type, row->ending->failure_type);
	berth_proto_set_string(&ending->receipt_digest, command->receipt_digest);
	if (is_never(ending->proof)) {
		ending->state = BERTH__V1__RESERVATION_STATE__RELEASED;
		return true;
	}
	ending->usage = berth_alloc(sizeof *ending->usage);
	berth__v1__usage__init(ending->usage);
	berth_proto_set_string(&ending->usage->unit, "billing_second");
	ending->usage->elapsed_ns = command->lease->retired_at_ns - row->reserved_at_ns;
	return berth_charge_billed(meter->timed, ending->usage->elapsed_ns, &ending->usage->quantity, err) &&
	       price_ending(meter, row, ending, err);
}

// The ending without what only an appeal has is one like any other, and gives money back.
static bool check_appeal(const Berth__V1__Meter *meter, const Berth__V1__Reservation *row, const ending_t *ending,
	struct berth_error *err)
{
	BERTH_AUTO(berth_proto_cleanup) ending_t *plain = berth_proto_clone(ending);
	berth_proto_set_string(&plain->failure_type, NULL);
	berth_proto_set_string(&plain->receipt_digest, NULL);
	int64_t billed = 0;
	if (ending->state == BERTH__V1__RESERVATION_STATE__SETTLED) {
		plain->proof = BERTH__V1__DEATH_PROOF__DEATH_PROOF_UNSPECIFIED;
		if (ending->proof != BERTH__V1__DEATH_PROOF__ABSENCE_SEEN || !ending->usage ||
			meter->kind_case != BERTH__V1__METER__KIND_TIMED ||
			!berth_charge_billed(meter->timed, ending->usage->elapsed_ns, &billed, err) ||
			billed != ending->usage->quantity) {
			return berth_fail(err, BERTH_ERROR_CORRUPT, "an appeal bills the whole time to a proven death");
		}
	}
	return text_is_digest(ending->receipt_digest) && same_text(ending->failure_type, row->ending->failure_type) &&
	                       ending->state != BERTH__V1__RESERVATION_STATE__FORFEITED &&
	                       ending->charged_nano_usd < row->max_nano_usd
	               ? check_ending(meter, row, plain, err)
	               : berth_fail(err, BERTH_ERROR_CORRUPT, "an appeal that proves or returns nothing");
}

bool berth_budget_decide_appeal(const struct berth_budgets *budgets, const struct berth_budget_appeal *command,
	Berth__Store__V1__BudgetAppealed **event, struct berth_budget_refusal *refusal)
{
	*event = NULL;
	*refusal = (struct berth_budget_refusal){0};
	const Berth__V1__Reservation *row = row_of(budgets, command->reservation_id, command->prior);
	const struct budget *budget = row ? find_budget(budgets, row->budget) : NULL;
	const Berth__V1__Meter *meter = budget ? berth_tariffs_find(budget->tariffs, row->meter_id) : NULL;
	if (!meter) {
		return refuse_budget(refusal, BERTH_BUDGET_UNKNOWN_RESERVATION, "no reservation has the id %.128s",
			command->reservation_id);
	}
	if (row->state != BERTH__V1__RESERVATION_STATE__FORFEITED) {
		return (row->ending && row->ending->receipt_digest[0] &&
			       same_text(row->ending->receipt_digest, command->receipt_digest)) ||
		       refuse_budget(refusal, BERTH_BUDGET_CONFLICT, "reservation %s is not forfeited",
			       command->reservation_id);
	}
	const char *fault = fault_of(budget, meter, command, row);
	if (fault) {
		return refuse_proof(refusal, row->reservation_id, fault);
	}
	BERTH_AUTO(berth_proto_cleanup) ending_t *ending = new_ending(BERTH__V1__RESERVATION_STATE__SETTLED);
	struct berth_error err = {0};
	if (!fill(meter, command, row, ending, &err) || !check_appeal(meter, row, ending, &err)) {
		return refuse_proof(
			refusal, row->reservation_id, "its death was proven too late to give anything back");
	}
	*event = berth_alloc(sizeof **event);
	berth__store__v1__budget_appealed__init(*event);
	(*event)->forfeited = berth_proto_clone(row);
	(*event)->ending = BERTH_STEAL(ending);
	return true;
}

static bool check_forfeited(const struct berth_budgets *budgets, const struct budget *budget,
	const Berth__V1__Reservation *row, struct berth_error *err)
{
	struct berth_budget_refusal refusal = {0};
	if (!check_reservation(budget, row, &refusal)) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "%s", refusal.error.message);
	}
	const struct account *const accounts[ACCOUNT_KINDS] = {
		[ACCOUNT_TOTAL] = &budget->total,
		[ACCOUNT_PHASE] = find_phase(budget, row->scope->phase),
		[ACCOUNT_JOB] = find_sub(budget, ACCOUNT_JOB, row->job_id),
		[ACCOUNT_USER] = find_sub(budget, ACCOUNT_USER, row->user),
	};
	bool counted = !(row->job_id[0] && !accounts[ACCOUNT_JOB]) && !(row->user[0] && !accounts[ACCOUNT_USER]);
	for (size_t i = 0; i < ACCOUNT_KINDS; i++) {
		counted &= !accounts[i] || accounts[i]->forfeited >= row->max_nano_usd;
	}
	if (!counted || row->state != BERTH__V1__RESERVATION_STATE__FORFEITED || !row->ending ||
		row->ending->state != row->state) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "it is not forfeited");
	}
	const struct reservation *there = find_reservation(budgets, row->reservation_id);
	if (there && !same_message(there->row, row)) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "its row differs from the one in force");
	}
	return check_ending(berth_tariffs_find(budget->tariffs, row->meter_id), row, row->ending, err);
}

bool berth_budgets_apply_appealed(struct berth_budgets *budgets, const Berth__Store__V1__BudgetAppealed *appealed,
	int64_t at_ns, struct berth_error *err)
{
	const Berth__V1__Reservation *row = appealed->forfeited;
	struct budget *budget = row ? find_budget(budgets, row->budget) : NULL;
	struct berth_error why = {0};
	if (!row || !appealed->ending || !check_forfeited(budgets, budget, row, &why) ||
		!check_appeal(berth_tariffs_find(budget->tariffs, row->meter_id), row, appealed->ending, &why)) {
		return corrupt_budget(err, "appeal", "%s", why.message);
	}
	int64_t used_ns = appealed->ending->usage ? appealed->ending->usage->elapsed_ns : 0;
	if (at_ns < row->ended_at_ns || used_ns > at_ns - row->reserved_at_ns ||
		(appealed->ending->state == BERTH__V1__RESERVATION_STATE__RELEASED &&
			budget->policy->forfeit_undispatched)) {
		return corrupt_budget(err, "appeal", "%s: against the policy, or of another time", row->reservation_id);
	}
	struct reservation *reservation = find_reservation(budgets, row->reservation_id);
	if (reservation) {
		DL_DELETE(budgets->ended, reservation);
	} else {
		reservation = link_reservation(budgets, budget, berth_proto_clone(row));
		budgets->ended_count++;
	}
	add_ending(reservation, row->ending, -1);
	add_ending(reservation, appealed->ending, 1);
	berth_proto_free(reservation->row->ending);
	reservation->row->ending = berth_proto_clone(appealed->ending);
	reservation->row->state = appealed->ending->state;
	reservation->row->ended_at_ns = at_ns;
	DL_APPEND(budgets->ended, reservation);
	return true;
}
