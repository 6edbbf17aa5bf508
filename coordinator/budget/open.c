// SPDX-License-Identifier: Apache-2.0
// A budget begins. Its policy and the digest stay as they were opened.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/state.h"
#include "coordinator/budget/text.h"

// A name stands in row keys and in messages: no slash, no space.
static bool is_budget_name(const char *name)
{
	return strlen(name) <= BERTH_BUDGET_NAME_MAX && text_is_dotted(name, BERTH_BUDGET_NAME_MAX);
}

bool berth_budget_decide_open(const struct berth_budgets *budgets, const Berth__V1__CreateBudgetRequest *request,
	Berth__Store__V1__BudgetOpened **event, struct berth_budget_refusal *refusal)
{
	*event = NULL;
	*refusal = (struct berth_budget_refusal){0};
	if (!is_budget_name(request->name) || !request->policy) {
		return refuse_budget(refusal, BERTH_BUDGET_INVALID,
			"a budget needs a policy and a name of 1 to %d of a-z 0-9 _ . - that starts with a letter",
			BERTH_BUDGET_NAME_MAX);
	}
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__BudgetPolicy *policy = berth_proto_clone(request->policy);
	berth_policy_sort(policy);
	struct berth_error err = {0};
	struct berth_tariffs *tariffs = berth_tariffs_new(policy, &err);
	berth_tariffs_free(tariffs);
	struct berth_digest digest;
	if (!tariffs || !berth_policy_digest(policy, &digest, &err)) {
		return refuse_budget(refusal, BERTH_BUDGET_INVALID, "budget %s: %s", request->name, err.message);
	}
	char text[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&digest, text);
	const struct budget *there = find_budget(budgets, request->name);
	if (there) {
		return strcmp(there->digest, text) == 0 ||
		       refuse_budget(refusal, BERTH_BUDGET_CONFLICT,
			       "budget %s exists with another policy: amend its limits, or take another name",
			       request->name);
	}
	if (berth_budgets_count(budgets) >= BERTH_BUDGETS_MAX) {
		return refuse_budget(
			refusal, BERTH_BUDGET_INVALID, "a fleet has at most %d budgets", BERTH_BUDGETS_MAX);
	}
	*event = berth_alloc(sizeof **event);
	berth__store__v1__budget_opened__init(*event);
	berth_proto_set_string(&(*event)->name, request->name);
	berth_proto_set_string(&(*event)->policy_digest, text);
	(*event)->policy = BERTH_STEAL(policy);
	return true;
}

bool berth_budgets_apply_opened(
	struct berth_budgets *budgets, const Berth__Store__V1__BudgetOpened *opened, struct berth_error *err)
{
	struct berth_digest digest;
	struct berth_error why = {0};
	char text[BERTH_DIGEST_TEXT_SIZE] = "";
	if (!is_budget_name(opened->name) || !opened->policy || find_budget(budgets, opened->name)) {
		return corrupt_budget(err, "opened budget", "%.64s: no name or policy, or opened twice", opened->name);
	}
	if (berth_policy_digest(opened->policy, &digest, &why)) {
		berth_digest_text(&digest, text);
	}
	if (strcmp(text, opened->policy_digest) != 0 || !make_budget(budgets, opened->name, opened->policy, &why)) {
		return corrupt_budget(err, "opened budget", "%s: %s", opened->name,
			why.code ? why.message : "the digest is not its policy's");
	}
	return true;
}
