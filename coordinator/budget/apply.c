// SPDX-License-Identifier: Apache-2.0
#include "coordinator/budget/state.h"

static bool apply_assigned(struct berth_budgets *budgets, const Berth__Store__V1__Event *event, struct berth_error *err)
{
	const Berth__Store__V1__TrialAssigned *assigned = event->trial_assigned;
	for (size_t i = 0; i < assigned->n_reservations; i++) {
		if (!berth_budgets_apply_reserved(budgets, assigned->reservations[i], event->recorded_at_ns, err)) {
			return false;
		}
	}
	return true;
}

bool berth_budgets_apply(struct berth_budgets *budgets, const Berth__Store__V1__Event *event, struct berth_error *err)
{
	int64_t at_ns = event->recorded_at_ns;
	switch (event->body_case) {
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED:
		return berth_budgets_apply_opened(budgets, event->budget_opened, err);
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED:
		return berth_budgets_apply_amended(budgets, event->budget_amended, err);
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_JOB_LIMITED:
		return berth_budgets_apply_job_limited(budgets, event->budget_job_limited, err);
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED:
		return event->budget_reserved->reservation
		               ? berth_budgets_apply_reserved(budgets, event->budget_reserved->reservation, at_ns, err)
		               : corrupt_budget(err, "reservation", "there is none in its event");
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED:
		return berth_budgets_apply_ended(budgets, event->budget_ended, at_ns, err);
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED:
		return berth_budgets_apply_appealed(budgets, event->budget_appealed, at_ns, err);
	case BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED:
		return apply_assigned(budgets, event, err);
	default:
		return true;
	}
}
