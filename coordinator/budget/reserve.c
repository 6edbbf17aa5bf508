// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/charge.h"
#include "coordinator/budget/state.h"
#include "coordinator/budget/text.h"

#define SCOPE_TEXT_MAX 256

static bool is_optional_name(const char *text)
{
	return !text[0] || text_is_name(text, SCOPE_TEXT_MAX);
}

static bool check_texts(const Berth__V1__Reservation *row, struct berth_budget_refusal *refusal)
{
	const Berth__V1__Scope *scope = row->scope;
	if (!text_is_id(row->reservation_id, BERTH_RESERVATION_ID_MAX)) {
		return refuse_budget(refusal, BERTH_BUDGET_INVALID,
			"a reservation id is 1 to %d letters, digits and _ . : -", BERTH_RESERVATION_ID_MAX);
	}
	if (!scope || !text_is_name(scope->phase, SCOPE_TEXT_MAX) || !text_is_name(scope->category, SCOPE_TEXT_MAX) ||
		!text_is_name(scope->run_id, SCOPE_TEXT_MAX)) {
		return refuse_budget(refusal, BERTH_BUDGET_INVALID,
			"reservation %s: its scope needs phase, category and run_id, trimmed and not blank",
			row->reservation_id);
	}
	if (!is_optional_name(scope->lane) || !is_optional_name(scope->arm) || !is_optional_name(row->job_id) ||
		!is_optional_name(row->user)) {
		return refuse_budget(refusal, BERTH_BUDGET_INVALID,
			"reservation %s: lane, arm, job and user are trimmed and at most %d bytes, or empty",
			row->reservation_id, SCOPE_TEXT_MAX);
	}
	return true;
}

// What it must hold; 0 for a slice of tokens, which holds what it asks for.
static bool exact_max(
	const Berth__V1__Meter *meter, const Berth__V1__Reservation *row, int64_t *nano_usd, struct berth_error *err)
{
	if (row->input_token_ceiling < 0 || row->output_token_ceiling < 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a token ceiling is negative");
	}
	bool has_ceilings = row->input_token_ceiling || row->output_token_ceiling;
	if (meter->kind_case == BERTH__V1__METER__KIND_TIMED) {
		return !has_ceilings ? berth_charge_ceiling(meter->timed, nano_usd, err)
		                     : berth_fail(err, BERTH_ERROR_INVALID, "a timed meter has no token ceilings");
	}
	*nano_usd = 0;
	return !has_ceilings ||
	       berth_charge_tokens(meter->tokens, row->input_token_ceiling, row->output_token_ceiling, nano_usd, err);
}

static const Berth__V1__Meter *meter_of(
	const struct budget *budget, const Berth__V1__Reservation *row, struct berth_budget_refusal *refusal)
{
	if (!budget) {
		refuse_budget(refusal, BERTH_BUDGET_UNKNOWN_BUDGET, "no budget is named %.64s", row->budget);
		return NULL;
	}
	if (!find_phase(budget, row->scope->phase)) {
		refuse_budget(refusal, BERTH_BUDGET_UNKNOWN_PHASE, "budget %s has no phase %.128s", budget->name,
			row->scope->phase);
		return NULL;
	}
	const Berth__V1__Meter *meter = berth_tariffs_find(budget->tariffs, row->meter_id);
	if (!meter) {
		refuse_budget(refusal, BERTH_BUDGET_UNKNOWN_METER,
			"budget %s has no meter %.128s, and none of its rates gives it", budget->name, row->meter_id);
	}
	return meter;
}

bool check_reservation(
	const struct budget *budget, const Berth__V1__Reservation *row, struct berth_budget_refusal *refusal)
{
	if (!check_texts(row, refusal)) {
		return false;
	}
	const Berth__V1__Meter *meter = meter_of(budget, row, refusal);
	if (!meter) {
		return false;
	}
	int64_t exact;
	struct berth_error err = {0};
	if (!exact_max(meter, row, &exact, &err)) {
		return refuse_budget(
			refusal, BERTH_BUDGET_INVALID, "reservation %s: %s", row->reservation_id, err.message);
	}
	if (row->max_nano_usd < 1) {
		return refuse_budget(
			refusal, BERTH_BUDGET_INVALID, "reservation %s holds nothing", row->reservation_id);
	}
	if (exact && row->max_nano_usd != exact) {
		return refuse_budget(refusal, BERTH_BUDGET_NOT_EXACT,
			"reservation %s holds %lld nano-USD, and the exact maximum of meter %s is %lld",
			row->reservation_id, (long long)row->max_nano_usd, row->meter_id, (long long)exact);
	}
	return true;
}

static Berth__V1__Reservation *new_row(const struct berth_budgets *budgets, const struct berth_budget_reserve *command)
{
	Berth__V1__Reservation *row = berth_alloc(sizeof *row);
	berth__v1__reservation__init(row);
	berth_proto_set_string(&row->reservation_id, command->reservation_id);
	berth_proto_set_string(&row->budget, command->budget);
	row->scope = berth_proto_clone(command->scope);
	berth_proto_set_string(&row->meter_id, command->meter_id);
	berth_proto_set_string(&row->job_id, command->job_id);
	berth_proto_set_string(&row->user, command->user);
	row->input_token_ceiling = command->input_token_ceiling;
	row->output_token_ceiling = command->output_token_ceiling;
	row->max_nano_usd = command->max_nano_usd;
	row->state = BERTH__V1__RESERVATION_STATE__RESERVED;
	const struct budget *budget = find_budget(budgets, row->budget);
	const Berth__V1__Meter *meter = budget ? berth_tariffs_find(budget->tariffs, row->meter_id) : NULL;
	int64_t exact;
	if (row->max_nano_usd == 0 && meter && exact_max(meter, row, &exact, NULL)) {
		row->max_nano_usd = exact;
	}
	return row;
}

static bool same_reservation(const Berth__V1__Reservation *a, const Berth__V1__Reservation *b)
{
	return same_text(a->budget, b->budget) && same_text(a->meter_id, b->meter_id) &&
	       a->max_nano_usd == b->max_nano_usd && same_message(a->scope, b->scope) &&
	       same_text(a->job_id, b->job_id) && same_text(a->user, b->user) &&
	       a->input_token_ceiling == b->input_token_ceiling && a->output_token_ceiling == b->output_token_ceiling;
}

static bool refuse_breached(const struct budget *budget, struct berth_budget_refusal *refusal)
{
	return refuse_budget(refusal, BERTH_BUDGET_BREACHED,
		"budget %s is breached: a provider confirmed cost above a reservation, and it grants nothing more; "
		"open another budget",
		budget->name);
}

static struct want want_of(const Berth__V1__Reservation *row)
{
	return (struct want){row->budget, row->scope->phase, row->job_id, row->user, row->max_nano_usd};
}

// *repeat: it is there already, with the same payload.
static bool decide_one(const struct berth_budgets *budgets, const Berth__V1__Reservation *row,
	const Berth__V1__Reservation *prior, const struct want *taken, size_t taken_count, bool *repeat,
	struct berth_budget_refusal *refusal)
{
	const struct budget *budget = find_budget(budgets, row->budget);
	if (!check_reservation(budget, row, refusal)) {
		return false;
	}
	const Berth__V1__Reservation *there = row_of(budgets, row->reservation_id, prior);
	if (there) {
		*repeat = same_reservation(there, row);
		return *repeat || refuse_budget(refusal, BERTH_BUDGET_CONFLICT,
					  "reservation %s exists with another payload", row->reservation_id);
	}
	if (budget->breached) {
		return refuse_breached(budget, refusal);
	}
	struct want want = want_of(row);
	return has_room(budget, &want, taken, taken_count, refusal);
}

bool berth_budget_decide_reserve(const struct berth_budgets *budgets, const struct berth_budget_reserve *commands,
	size_t count, Berth__V1__Reservation **rows, struct berth_budget_refusal *refusal)
{
	*refusal = (struct berth_budget_refusal){0};
	struct want taken[BERTH_RESERVE_BATCH_MAX];
	size_t taken_count = 0;
	bool fine = count <= BERTH_RESERVE_BATCH_MAX ||
	            refuse_budget(refusal, BERTH_BUDGET_INVALID, "more than %d reservations in one step",
			    BERTH_RESERVE_BATCH_MAX);
	size_t made = 0;
	for (; fine && made < count; made++) {
		const struct berth_budget_reserve *command = &commands[made];
		rows[made] = new_row(budgets, command);
		refusal->index = made;
		for (size_t i = 0; i < made && fine; i++) {
			fine = !same_text(command->reservation_id, commands[i].reservation_id) ||
			       refuse_budget(refusal, BERTH_BUDGET_INVALID, "reservation %s is asked for twice",
				       command->reservation_id);
		}
		bool repeat = false;
		fine = fine && decide_one(budgets, rows[made], command->prior, taken, taken_count, &repeat, refusal);
		if (fine && repeat) {
			berth_proto_free(rows[made]);
			rows[made] = NULL;
		} else if (fine) {
			taken[taken_count++] = want_of(rows[made]);
		}
	}
	for (size_t i = 0; i < made && !fine; i++) {
		berth_proto_free(rows[i]);
		rows[i] = NULL;
	}
	return fine;
}

bool berth_budgets_apply_reserved(
	struct berth_budgets *budgets, const Berth__V1__Reservation *reserved, int64_t at_ns, struct berth_error *err)
{
	const char *what = "reservation";
	struct budget *budget = find_budget(budgets, reserved->budget);
	struct berth_budget_refusal refusal = {0};
	if (!check_reservation(budget, reserved, &refusal)) {
		return corrupt_budget(err, what, "%s", refusal.error.message);
	}
	if (reserved->state != BERTH__V1__RESERVATION_STATE__RESERVED || reserved->ending || reserved->ended_at_ns) {
		return corrupt_budget(err, what, "%s begins ended", reserved->reservation_id);
	}
	if (find_reservation(budgets, reserved->reservation_id)) {
		return corrupt_budget(err, what, "%s is reserved twice", reserved->reservation_id);
	}
	struct want want = want_of(reserved);
	if (budget->breached || !has_room(budget, &want, NULL, 0, &refusal)) {
		return corrupt_budget(err, what, "%s was granted against %s", reserved->reservation_id,
			budget->breached ? "a breached budget" : refusal.error.message);
	}
	struct reservation *reservation = link_reservation(budgets, budget, berth_proto_clone(reserved));
	reservation->row->reserved_at_ns = at_ns;
	for (size_t i = 0; i < ACCOUNT_KINDS; i++) {
		if (reservation->accounts[i]) {
			reservation->accounts[i]->reserved += reserved->max_nano_usd;
			reservation->accounts[i]->open++;
		}
	}
	return true;
}
