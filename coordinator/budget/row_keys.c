// SPDX-License-Identifier: Apache-2.0
// Which rows an event changes: for a writer of records that only writes what did.
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/budget/state.h"

struct visit {
	const struct berth_budgets *budgets;
	struct berth_budget_payer *payer;
	berth_budget_key_fn each;
	void *context;
};

// The parts, one after the other, as a key. Each event of a paid lease tells some, so nothing is formatted.
static void tell_parts(const struct visit *visit, const char *const *parts, size_t count)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf large = {0};
	char small[256];
	size_t size = 0;
	for (size_t i = 0; i < count; i++) {
		size += strlen(parts[i]);
	}
	char *key = size < sizeof small ? small : (char *)berth_buf_reserve(&large, size);
	char *at = key;
	for (size_t i = 0; i < count; i++) {
		at = stpcpy(at, parts[i]);
	}
	visit->each(visit->context, key);
}

#define TELL(visit, ...)                                                                                               \
	tell_parts(visit, (const char *const[]){__VA_ARGS__}, BERTH_COUNT(((const char *const[]){__VA_ARGS__})))

static const char *phase_of(const Berth__V1__Reservation *row)
{
	return row->scope ? row->scope->phase : "";
}

static bool is_payer(const struct berth_budget_payer *payer, const Berth__V1__Reservation *row)
{
	return payer && payer->budget[0] && strcmp(payer->job_id, row->job_id) == 0 &&
	       strcmp(payer->budget, row->budget) == 0 && strcmp(payer->phase, phase_of(row)) == 0 &&
	       strcmp(payer->user, row->user) == 0;
}

static bool fits(const char *text, size_t size)
{
	return strnlen(text, size) < size;
}

// Nobody, where a text is longer than is kept: his sums are told each time.
static void follow(struct berth_budget_payer *payer, const Berth__V1__Reservation *row)
{
	bool all_fit = fits(row->budget, sizeof payer->budget) && fits(phase_of(row), sizeof payer->phase) &&
	               fits(row->job_id, sizeof payer->job_id) && fits(row->user, sizeof payer->user);
	berth_copy_text(payer->budget, sizeof payer->budget, all_fit ? row->budget : "");
	berth_copy_text(payer->phase, sizeof payer->phase, phase_of(row));
	berth_copy_text(payer->job_id, sizeof payer->job_id, row->job_id);
	berth_copy_text(payer->user, sizeof payer->user, row->user);
}

static void tell_sums(const struct visit *visit, const Berth__V1__Reservation *row)
{
	TELL(visit, "budget/", row->budget); // a breach is its own
	TELL(visit, "budget_sum/", row->budget, "/total");
	TELL(visit, "budget_sum/", row->budget, "/phase/", phase_of(row));
	if (row->job_id[0]) {
		TELL(visit, "budget_sum/", row->budget, "/job/", row->job_id);
	}
	if (row->user[0]) {
		TELL(visit, "budget_sum/", row->budget, "/user/", row->user);
	}
}

static void tell_reservation(const struct visit *visit, const Berth__V1__Reservation *row)
{
	if (!is_payer(visit->payer, row)) {
		tell_sums(visit, row);
		if (visit->payer && visit->payer->follows) {
			follow(visit->payer, row);
		}
	}
	TELL(visit, "reservation/", row->reservation_id);
}

static void tell_opened(const struct visit *visit, const Berth__Store__V1__BudgetOpened *opened)
{
	TELL(visit, "budget/", opened->name);
	TELL(visit, "budget_sum/", opened->name, "/total");
	for (size_t i = 0; opened->policy && i < opened->policy->n_phase_limits; i++) {
		TELL(visit, "budget_sum/", opened->name, "/phase/", opened->policy->phase_limits[i]->phase);
	}
}

static void tell_amended(const struct visit *visit, const Berth__Store__V1__BudgetAmended *amended)
{
	TELL(visit, "budget/", amended->name);
	for (size_t i = 0; i < amended->n_sub_limits; i++) {
		const Berth__V1__SubLimit *sub = amended->sub_limits[i];
		TELL(visit, "budget_sum/", amended->name, sub->job_id[0] ? "/job/" : "/user/",
			sub->job_id[0] ? sub->job_id : sub->user);
	}
}

void berth_budgets_keys(const struct berth_budgets *budgets, const Berth__Store__V1__Event *event,
	struct berth_budget_payer *payer, berth_budget_key_fn each, void *context)
{
	const struct visit visit = {budgets, payer, each, context};
	const Berth__V1__Reservation *row = NULL;
	switch (event->body_case) {
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED:
		tell_opened(&visit, event->budget_opened);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED:
		tell_amended(&visit, event->budget_amended);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_JOB_LIMITED:
		TELL(&visit, "budget_sum/", event->budget_job_limited->budget, "/job/",
			event->budget_job_limited->job_id);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED:
		row = event->budget_reserved->reservation;
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED:
		row = berth_budgets_reservation(budgets, event->budget_ended->reservation_id);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED:
		row = event->budget_appealed->forfeited;
		break;
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED:
		for (size_t i = 0; i < event->trial_assigned->n_reservations; i++) {
			tell_reservation(&visit, event->trial_assigned->reservations[i]);
		}
		break;
	default:
		break;
	}
	if (row) {
		tell_reservation(&visit, row);
	}
}
