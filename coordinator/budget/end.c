// SPDX-License-Identifier: Apache-2.0
// Settle, forfeit, release: the one end of an open reservation.
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/charge.h"
#include "coordinator/budget/money.h"
#include "coordinator/budget/state.h"
#include "coordinator/budget/text.h"

typedef Berth__V1__ReservationEnding ending_t;
typedef Berth__Store__V1__BudgetEnded ended_t;

static const char *const state_names[] = {"unknown", "open", "settled", "forfeited", "breached", "released"};

const Berth__V1__Reservation *row_of(
	const struct berth_budgets *budgets, const char *id, const Berth__V1__Reservation *prior)
{
	const struct reservation *reservation = find_reservation(budgets, id);
	if (reservation) {
		return reservation->row;
	}
	// Open ones are always in memory: a row that says so is stale.
	bool usable = prior && prior->state != BERTH__V1__RESERVATION_STATE__RESERVED && prior->ending &&
	              strcmp(prior->reservation_id, id) == 0;
	return usable ? prior : NULL;
}

static const Berth__V1__Reservation *find_row(const struct berth_budgets *budgets, const char *id,
	const Berth__V1__Reservation *prior, struct berth_budget_refusal *refusal)
{
	*refusal = (struct berth_budget_refusal){0};
	const Berth__V1__Reservation *row = row_of(budgets, id, prior);
	if (!row) {
		refuse_budget(refusal, BERTH_BUDGET_UNKNOWN_RESERVATION, "no reservation has the id %.128s", id);
	}
	return row;
}

static bool refuse_ended(const Berth__V1__Reservation *row, struct berth_budget_refusal *refusal)
{
	size_t state = (size_t)row->state < BERTH_COUNT(state_names) ? (size_t)row->state : 0;
	bool forfeited = row->state == BERTH__V1__RESERVATION_STATE__FORFEITED;
	return refuse_budget(refusal, BERTH_BUDGET_CONFLICT, "reservation %s is %s already, with another payload%s",
		row->reservation_id, state_names[state],
		forfeited ? ": only the receipt of a retired lease appeals a forfeit" : "");
}

static ended_t *new_ended(const Berth__V1__Reservation *row, ending_t *ending)
{
	ended_t *ended = berth_alloc(sizeof *ended);
	berth__store__v1__budget_ended__init(ended);
	berth_proto_set_string(&ended->reservation_id, row->reservation_id);
	berth_proto_set_string(&ended->budget, row->budget);
	ended->ending = ending;
	return ended;
}

static bool is_same_settle(const ending_t *ending, const struct berth_budget_settle *command)
{
	const Berth__V1__Usage *usage = ending->usage;
	return usage && !ending->receipt_digest[0] && usage->elapsed_ns == command->elapsed_ns &&
	       usage->input_tokens == command->input_tokens && usage->output_tokens == command->output_tokens &&
	       !usage->provider_confirmed == !command->provider_confirmed &&
	       same_message(ending->provenance, command->provenance);
}

// An agent's duration is believed up to what the coordinator saw pass.
static int64_t bounded_ns(const struct berth_budget_settle *command)
{
	int64_t bound;
	if (command->elapsed_bound_ns <= 0 ||
		__builtin_add_overflow(command->elapsed_bound_ns, BERTH_BUDGET_SKEW_SECONDS * BERTH_NS_PER_S, &bound)) {
		return command->elapsed_ns;
	}
	return command->elapsed_ns < bound ? command->elapsed_ns : bound;
}

static bool fill_usage(const Berth__V1__Meter *meter, const struct berth_budget_settle *command,
	Berth__V1__Usage *usage, struct berth_error *err)
{
	bool timed = meter->kind_case == BERTH__V1__METER__KIND_TIMED;
	if (timed ? command->input_tokens || command->output_tokens : command->elapsed_ns != 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "meter %s is settled in %s alone", meter->meter_id,
			timed ? "time" : "tokens");
	}
	if (command->input_tokens < 0 || command->output_tokens < 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a token count is negative");
	}
	berth_proto_set_string(&usage->unit, timed ? "billing_second" : "token");
	usage->elapsed_ns = command->elapsed_ns;
	usage->input_tokens = command->input_tokens;
	usage->output_tokens = command->output_tokens;
	usage->provider_confirmed = command->provider_confirmed;
	return command->elapsed_ns < 0
	               ? berth_fail(err, BERTH_ERROR_INVALID, "a duration is negative")
	               : !timed || berth_charge_billed(meter->timed, bounded_ns(command), &usage->quantity, err);
}

static bool overrun_fits(const struct budget *budget, const ending_t *ending, struct berth_error *err)
{
	int64_t sum;
	return berth_money_add(budget->total.overrun, ending->overrun_nano_usd, &sum, err);
}

bool berth_budget_decide_settle(const struct berth_budgets *budgets, const struct berth_budget_settle *command,
	ended_t **event, struct berth_budget_refusal *refusal)
{
	*event = NULL;
	const Berth__V1__Reservation *row = find_row(budgets, command->reservation_id, command->prior, refusal);
	if (!row) {
		return false;
	}
	if (row->ending) {
		return is_same_settle(row->ending, command) || refuse_ended(row, refusal);
	}
	const struct reservation *reservation = find_reservation(budgets, row->reservation_id);
	BERTH_AUTO(berth_proto_cleanup) ending_t *ending = new_ending(BERTH__V1__RESERVATION_STATE__SETTLED);
	ending->usage = berth_alloc(sizeof *ending->usage);
	berth__v1__usage__init(ending->usage);
	ending->provenance = berth_proto_clone(command->provenance);
	struct berth_error err = {0};
	if (!fill_usage(reservation->meter, command, ending->usage, &err) ||
		!price_ending(reservation->meter, row, ending, &err) ||
		!check_ending(reservation->meter, row, ending, &err) ||
		!overrun_fits(reservation->budget, ending, &err)) {
		return refuse_budget(
			refusal, BERTH_BUDGET_INVALID, "reservation %s: %s", row->reservation_id, err.message);
	}
	*event = new_ended(row, BERTH_STEAL(ending));
	return true;
}

bool berth_budget_decide_forfeit(const struct berth_budgets *budgets, const char *reservation_id,
	const char *failure_type, const Berth__V1__Reservation *prior, ended_t **event,
	struct berth_budget_refusal *refusal)
{
	*event = NULL;
	const Berth__V1__Reservation *row = find_row(budgets, reservation_id, prior, refusal);
	if (!row) {
		return false;
	}
	if (row->ending) {
		// An appeal keeps the failure type of the forfeit that it replaced.
		return (row->ending->failure_type[0] && same_text(row->ending->failure_type, failure_type)) ||
		       refuse_ended(row, refusal);
	}
	if (!text_is_failure_type(failure_type)) {
		return refuse_budget(refusal, BERTH_BUDGET_INVALID,
			"reservation %s: a failure type is a code of 1 to 64 letters, digits and _", reservation_id);
	}
	ending_t *ending = new_ending(BERTH__V1__RESERVATION_STATE__FORFEITED);
	ending->charged_nano_usd = row->max_nano_usd;
	berth_proto_set_string(&ending->failure_type, failure_type);
	*event = new_ended(row, ending);
	return true;
}

bool berth_budget_decide_release(const struct berth_budgets *budgets, const char *reservation_id,
	Berth__V1__DeathProof proof, const Berth__V1__Reservation *prior, ended_t **event,
	struct berth_budget_refusal *refusal)
{
	*event = NULL;
	const Berth__V1__Reservation *row = find_row(budgets, reservation_id, prior, refusal);
	if (!row) {
		return false;
	}
	bool never = proof == BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED;
	if (!never && proof != BERTH__V1__DEATH_PROOF__REJECTED) {
		return refuse_budget(refusal, BERTH_BUDGET_NOT_PROVEN,
			"reservation %s: only a create that was never dispatched or was rejected gives its money back",
			reservation_id);
	}
	const struct budget *budget = find_budget(budgets, row->budget);
	if (budget && budget->policy->forfeit_undispatched) {
		return berth_budget_decide_forfeit(budgets, reservation_id,
			never ? "PreDispatchFailure" : "CreateRejected", prior, event, refusal);
	}
	if (row->ending) {
		bool same = row->ending->state == BERTH__V1__RESERVATION_STATE__RELEASED &&
		            row->ending->proof == proof && !row->ending->receipt_digest[0];
		return same || refuse_ended(row, refusal);
	}
	ending_t *ending = new_ending(BERTH__V1__RESERVATION_STATE__RELEASED);
	ending->proof = proof;
	*event = new_ended(row, ending);
	return true;
}

bool berth_budgets_apply_ended(
	struct berth_budgets *budgets, const ended_t *ended, int64_t at_ns, struct berth_error *err)
{
	struct reservation *reservation = find_reservation(budgets, ended->reservation_id);
	if (!reservation || reservation->row->ending) {
		return corrupt_budget(err, "end of a reservation", "%.128s is %s", ended->reservation_id,
			reservation ? "ended already" : "not known");
	}
	const ending_t *ending = ended->ending;
	struct budget *budget = reservation->budget;
	struct berth_error why = {0};
	if (!same_text(ended->budget, budget->name) || at_ns < reservation->row->reserved_at_ns) {
		berth_fail(&why, BERTH_ERROR_CORRUPT, "another budget, or an end before its start");
	} else if (check_ending(reservation->meter, reservation->row, ending, &why) &&
		   overrun_fits(budget, ending, &why) && ending->state == BERTH__V1__RESERVATION_STATE__RELEASED &&
		   budget->policy->forfeit_undispatched) {
		berth_fail(&why, BERTH_ERROR_CORRUPT, "the policy forfeits what was not dispatched");
	}
	if (why.code) {
		return corrupt_budget(err, "end of a reservation", "%s: %s", ended->reservation_id, why.message);
	}
	for (size_t i = 0; i < ACCOUNT_KINDS; i++) {
		if (reservation->accounts[i]) {
			reservation->accounts[i]->reserved -= reservation->row->max_nano_usd;
			reservation->accounts[i]->open--;
		}
	}
	add_ending(reservation, ending, 1);
	budget->breached |= ending->state == BERTH__V1__RESERVATION_STATE__BREACHED;
	reservation->row->state = ending->state;
	reservation->row->ending = berth_proto_clone(ending);
	reservation->row->ended_at_ns = at_ns;
	DL_APPEND(budgets->ended, reservation);
	budgets->ended_count++;
	return true;
}
