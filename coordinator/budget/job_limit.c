// SPDX-License-Identifier: Apache-2.0
// A job's own limit: its quote, which it can't pass.
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/state.h"
#include "coordinator/budget/text.h"

static const char *job_limit_fault(const struct budget *budget, const char *job_id, int64_t limit)
{
	const struct account *account = find_sub(budget, ACCOUNT_JOB, job_id);
	int64_t most = budget->policy->job_limit_nano_usd;
	if (!text_is_name(job_id, SUB_LIMIT_NAME_MAX) || limit < 0) {
		return "the job or its limit has no sense";
	}
	if (account && (account->limited || account->open || account_exposure(account))) {
		return "the job is limited already, or has reserved";
	}
	return most > 0 && limit > most ? "it is above what the policy gives one job" : NULL;
}

bool berth_budget_decide_limit_job(const struct berth_budgets *budgets, const char *name, const char *job_id,
	int64_t limit_nano_usd, Berth__Store__V1__BudgetJobLimited **event, struct berth_budget_refusal *refusal)
{
	*event = NULL;
	*refusal = (struct berth_budget_refusal){0};
	const struct budget *budget = find_budget(budgets, name);
	if (!budget) {
		return refuse_budget(refusal, BERTH_BUDGET_UNKNOWN_BUDGET, "no budget is named %.64s", name);
	}
	const struct account *account = find_sub(budget, ACCOUNT_JOB, job_id);
	if (account && account->limited && account->limit == limit_nano_usd) {
		return true;
	}
	const char *fault = job_limit_fault(budget, job_id, limit_nano_usd);
	if (fault) {
		return refuse_budget(refusal, account ? BERTH_BUDGET_CONFLICT : BERTH_BUDGET_INVALID,
			"budget %s, job %.64s, limit %lld nano-USD: %s", name, job_id, (long long)limit_nano_usd,
			fault);
	}
	*event = berth_alloc(sizeof **event);
	berth__store__v1__budget_job_limited__init(*event);
	berth_proto_set_string(&(*event)->budget, name);
	berth_proto_set_string(&(*event)->job_id, job_id);
	(*event)->limit_nano_usd = limit_nano_usd;
	return true;
}

bool berth_budgets_apply_job_limited(
	struct berth_budgets *budgets, const Berth__Store__V1__BudgetJobLimited *limited, struct berth_error *err)
{
	struct budget *budget = find_budget(budgets, limited->budget);
	const char *fault =
		budget ? job_limit_fault(budget, limited->job_id, limited->limit_nano_usd) : "no such budget";
	if (fault) {
		return corrupt_budget(
			err, "limit of a job", "budget %.64s, job %.64s: %s", limited->budget, limited->job_id, fault);
	}
	struct account *account = make_sub(budget, ACCOUNT_JOB, limited->job_id);
	account->limited = true;
	account->limit = limited->limit_nano_usd;
	return true;
}
