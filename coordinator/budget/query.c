// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/charge.h"
#include "coordinator/budget/state.h"

size_t berth_budgets_count(const struct berth_budgets *budgets)
{
	return HASH_COUNT(budgets->by_name);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t berth_budgets_names(const struct berth_budgets *budgets, const char ***list)
{
	size_t count = 0;
	*list = berth_alloc((berth_budgets_count(budgets) + 1) * sizeof(**list));
	const struct budget *budget, *next;
	HASH_ITER (hh, budgets->by_name, budget, next) {
		(*list)[count++] = budget->name;
	}
	qsort(*list, count, sizeof(**list), compare_texts);
	return count;
}

static Berth__V1__BudgetTotals *new_totals(const struct account *account)
{
	Berth__V1__BudgetTotals *totals = berth_alloc(sizeof *totals);
	account_totals(account->limit, account, totals);
	return totals;
}

Berth__V1__Budget *berth_budgets_get(const struct berth_budgets *budgets, const char *name)
{
	const struct budget *budget = find_budget(budgets, name);
	if (!budget) {
		return NULL;
	}
	Berth__V1__Budget *message = berth_alloc(sizeof *message);
	berth__v1__budget__init(message);
	berth_proto_set_string(&message->name, budget->name);
	berth_proto_set_string(&message->policy_digest, budget->digest);
	message->policy = berth_proto_clone(budget->policy);
	message->totals = new_totals(&budget->total);
	message->breached = budget->breached;
	message->amendments = budget->amendments;
	message->open_reservations = budget->total.open;
	for (size_t i = 0; i < budget->phases_count; i++) {
		Berth__V1__Budget__ByPhaseEntry *entry = berth_alloc(sizeof *entry);
		berth__v1__budget__by_phase_entry__init(entry);
		berth_proto_set_string(&entry->key, budget->phases[i].name);
		entry->value = new_totals(&budget->phases[i]);
		berth_proto_append(&message->n_by_phase, &message->by_phase, entry);
	}
	return message;
}

const Berth__V1__Reservation *berth_budgets_reservation(const struct berth_budgets *budgets, const char *id)
{
	const struct reservation *reservation = find_reservation(budgets, id);
	return reservation ? reservation->row : NULL;
}

static int compare_rows(const void *a, const void *b)
{
	return strcmp((*(const Berth__V1__Reservation *const *)a)->reservation_id,
		(*(const Berth__V1__Reservation *const *)b)->reservation_id);
}

size_t berth_budgets_reservations(const struct berth_budgets *budgets, const char *budget, bool open_only,
	const char *after, size_t limit, const Berth__V1__Reservation ***list)
{
	size_t count = 0;
	*list = berth_alloc((HASH_COUNT(budgets->by_id) + 1) * sizeof(**list));
	const struct reservation *reservation, *next;
	HASH_ITER (hh, budgets->by_id, reservation, next) {
		const Berth__V1__Reservation *row = reservation->row;
		if (strcmp(row->budget, budget) == 0 && !(open_only && row->ending) &&
			(!after || strcmp(row->reservation_id, after) > 0)) {
			(*list)[count++] = row;
		}
	}
	qsort(*list, count, sizeof(**list), compare_rows);
	return count < limit ? count : limit;
}

const Berth__V1__Meter *berth_budgets_meter(
	const struct berth_budgets *budgets, const char *budget, const char *meter_id)
{
	const struct budget *found = find_budget(budgets, budget);
	return found ? berth_tariffs_find(found->tariffs, meter_id) : NULL;
}

bool berth_budgets_ceiling(const struct berth_budgets *budgets, const char *budget, const char *meter_id,
	int64_t *nano_usd, struct berth_error *err)
{
	const Berth__V1__Meter *meter = berth_budgets_meter(budgets, budget, meter_id);
	if (!meter || meter->kind_case != BERTH__V1__METER__KIND_TIMED) {
		return berth_fail(err, BERTH_ERROR_BUDGET, "budget %.64s has no timed meter %.128s", budget, meter_id);
	}
	return berth_charge_ceiling(meter->timed, nano_usd, err);
}

const Berth__V1__Rate *berth_budgets_rate(const struct berth_budgets *budgets, const char *budget, const char *backend,
	const char *role, int64_t cpu_count, int64_t memory_mb)
{
	const struct budget *found = find_budget(budgets, budget);
	for (size_t i = 0; found && i < found->policy->n_rates; i++) {
		const Berth__V1__Rate *rate = found->policy->rates[i];
		if (rate->cpu_count == cpu_count && rate->memory_mb == memory_mb &&
			strcmp(rate->backend, backend) == 0 && strcmp(rate->role, role) == 0) {
			return rate;
		}
	}
	return NULL;
}

bool berth_budgets_prices(const struct berth_budgets *budgets, const char *budget, const char *backend)
{
	const struct budget *found = find_budget(budgets, budget);
	for (size_t i = 0; found && i < found->policy->n_rates; i++) {
		if (strcmp(found->policy->rates[i]->backend, backend) == 0) {
			return true;
		}
	}
	return false;
}

bool berth_budgets_is_breached(const struct berth_budgets *budgets, const char *budget)
{
	const struct budget *found = find_budget(budgets, budget);
	return found && found->breached;
}

bool berth_budgets_totals(const struct berth_budgets *budgets, const char *name, const char *phase, const char *job_id,
	const char *user, Berth__V1__BudgetTotals *totals)
{
	const struct budget *budget = find_budget(budgets, name);
	if (!budget) {
		return false;
	}
	enum account_kind kind = phase ? ACCOUNT_PHASE : job_id ? ACCOUNT_JOB : user ? ACCOUNT_USER : ACCOUNT_TOTAL;
	const struct account *account = phase    ? find_phase(budget, phase)
	                                : job_id ? find_sub(budget, kind, job_id)
	                                : user   ? find_sub(budget, kind, user)
	                                         : &budget->total;
	if (!account && phase) {
		return false;
	}
	account_totals(account_limit(budget, kind, account), account, totals);
	return true;
}

Berth__V1__Reservation *berth_budgets_forget(struct berth_budgets *budgets, const char *id)
{
	struct reservation *reservation = id ? find_reservation(budgets, id) : budgets->ended;
	if (!reservation || !reservation->row->ending) {
		return NULL;
	}
	DL_DELETE(budgets->ended, reservation);
	budgets->ended_count--;
	Berth__V1__Reservation *row = reservation->row;
	unlink_reservation(budgets, reservation);
	return row;
}

size_t berth_budgets_open_count(const struct berth_budgets *budgets)
{
	return HASH_COUNT(budgets->by_id) - budgets->ended_count;
}

size_t berth_budgets_ended_count(const struct berth_budgets *budgets)
{
	return budgets->ended_count;
}
