// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>

#include "common/base/mem.h"
#include "coordinator/budget/money.h"
#include "coordinator/budget/state.h"

static const struct {
	enum berth_error_code code;
	bool waits;
} reasons[] = {
#define X(name, error, wait) [BERTH_BUDGET_##name] = {BERTH_ERROR_##error, wait},
	BERTH_BUDGET_REASONS(X)
#undef X
};

bool berth_budget_waits(enum berth_budget_reason reason)
{
	return reasons[reason].waits;
}

bool refuse_budget(struct berth_budget_refusal *refusal, enum berth_budget_reason reason, const char *format, ...)
{
	refusal->reason = reason;
	refusal->error.code = reasons[reason].code;
	va_list args;
	va_start(args, format);
	vsnprintf(refusal->error.message, sizeof refusal->error.message, format, args);
	va_end(args);
	return false;
}

bool corrupt_budget(struct berth_error *err, const char *what, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *text = berth_vformat(format, args);
	va_end(args);
	return berth_fail(err, BERTH_ERROR_CORRUPT, "%s: %s", what, text);
}

static const char *owner_of(enum account_kind kind, const struct want *want)
{
	const char *const owners[] = {"", want->phase, want->job_id, want->user};
	return owners[kind];
}

static bool refuse_room(const struct budget *budget, enum account_kind kind, const struct want *want, int64_t taken,
	struct berth_budget_refusal *refusal)
{
	static const char *const nouns[] = {"the hard limit", "phase ", "job ", "user "};
	char amount[BERTH_MONEY_TEXT_SIZE], left[BERTH_MONEY_TEXT_SIZE], limit[BERTH_MONEY_TEXT_SIZE],
		settled[BERTH_MONEY_TEXT_SIZE], reserved[BERTH_MONEY_TEXT_SIZE], forfeited[BERTH_MONEY_TEXT_SIZE],
		before[BERTH_MONEY_TEXT_SIZE];
	const Berth__V1__BudgetTotals *sums = &refusal->sums;
	refusal->wanted_nano_usd = want->amount;
	berth_money_format(want->amount, amount);
	berth_money_format(sums->remaining_nano_usd, left);
	berth_money_format(sums->limit_nano_usd, limit);
	berth_money_format(sums->settled_nano_usd, settled);
	berth_money_format(sums->reserved_nano_usd, reserved);
	berth_money_format(sums->forfeited_nano_usd, forfeited);
	berth_money_format(taken, before);
	return refuse_budget(refusal, (enum berth_budget_reason)(BERTH_BUDGET_HARD_LIMIT + kind),
		"budget %s, %s%.128s: %s USD is wanted and %s of %s USD is left (settled %s, reserved %s, forfeited "
		"%s%s%s): it waits for open work to end, or amend the limit with `berth budget amend %s`",
		budget->name, nouns[kind], owner_of(kind, want), amount, left, limit, settled, reserved, forfeited,
		taken ? ", asked for in the same step " : "", taken ? before : "", budget->name);
}

static bool shares(enum account_kind kind, const struct want *a, const struct want *b)
{
	return same_text(a->budget, b->budget) && same_text(owner_of(kind, a), owner_of(kind, b));
}

static struct account *account_of(const struct budget *budget, enum account_kind kind, const struct want *want)
{
	switch (kind) {
	case ACCOUNT_TOTAL:
		return (struct account *)&budget->total;
	case ACCOUNT_PHASE:
		return find_phase(budget, want->phase);
	default:
		return find_sub(budget, kind, owner_of(kind, want));
	}
}

bool has_room(const struct budget *budget, const struct want *want, const struct want *taken, size_t taken_count,
	struct berth_budget_refusal *refusal)
{
	for (enum account_kind kind = ACCOUNT_TOTAL; kind < ACCOUNT_KINDS; kind++) {
		const char *owner = owner_of(kind, want);
		if (kind >= ACCOUNT_JOB && (!owner || !owner[0])) {
			continue;
		}
		const struct account *account = account_of(budget, kind, want);
		int64_t limit = account_limit(budget, kind, account), before = 0;
		for (size_t i = 0; i < taken_count; i++) {
			// Each was admitted under this limit, so that their sum stays below it.
			before += shares(kind, want, &taken[i]) ? taken[i].amount : 0;
		}
		account_totals(limit, account, &refusal->sums);
		if (limit >= 0 && want->amount > refusal->sums.remaining_nano_usd - before) {
			return refuse_room(budget, kind, want, before, refusal);
		}
	}
	berth__v1__budget_totals__init(&refusal->sums);
	return true;
}
