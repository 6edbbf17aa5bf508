// SPDX-License-Identifier: Apache-2.0
// Which rows an event changes: for a writer of records that only writes what did.
#include <stdarg.h>

#include "common/base/mem.h"
#include "coordinator/budget/state.h"

struct visit {
	const struct berth_budgets *budgets;
	berth_budget_key_fn each;
	void *context;
};

__attribute__((format(printf, 2, 3))) static void tell(const struct visit *visit, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *key = berth_vformat(format, args);
	va_end(args);
	visit->each(visit->context, key);
}

static void tell_reservation(const struct visit *visit, const Berth__V1__Reservation *row)
{
	tell(visit, "budget/%s", row->budget); // a breach is its own
	tell(visit, "budget_sum/%s/total", row->budget);
	tell(visit, "budget_sum/%s/phase/%s", row->budget, row->scope ? row->scope->phase : "");
	if (row->job_id[0]) {
		tell(visit, "budget_sum/%s/job/%s", row->budget, row->job_id);
	}
	if (row->user[0]) {
		tell(visit, "budget_sum/%s/user/%s", row->budget, row->user);
	}
	tell(visit, "reservation/%s", row->reservation_id);
}

static void tell_opened(const struct visit *visit, const Berth__Store__V1__BudgetOpened *opened)
{
	tell(visit, "budget/%s", opened->name);
	tell(visit, "budget_sum/%s/total", opened->name);
	for (size_t i = 0; opened->policy && i < opened->policy->n_phase_limits; i++) {
		tell(visit, "budget_sum/%s/phase/%s", opened->name, opened->policy->phase_limits[i]->phase);
	}
}

static void tell_amended(const struct visit *visit, const Berth__Store__V1__BudgetAmended *amended)
{
	tell(visit, "budget/%s", amended->name);
	for (size_t i = 0; i < amended->n_sub_limits; i++) {
		const Berth__V1__SubLimit *sub = amended->sub_limits[i];
		tell(visit, "budget_sum/%s/%s/%s", amended->name, sub->job_id[0] ? "job" : "user",
			sub->job_id[0] ? sub->job_id : sub->user);
	}
}

void berth_budgets_keys(const struct berth_budgets *budgets, const Berth__Store__V1__Event *event,
	berth_budget_key_fn each, void *context)
{
	const struct visit visit = {budgets, each, context};
	const Berth__V1__Reservation *row = NULL;
	switch (event->body_case) {
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED:
		tell_opened(&visit, event->budget_opened);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED:
		tell_amended(&visit, event->budget_amended);
		break;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_JOB_LIMITED:
		tell(&visit, "budget_sum/%s/job/%s", event->budget_job_limited->budget,
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
