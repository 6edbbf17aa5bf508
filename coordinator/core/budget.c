// SPDX-License-Identifier: Apache-2.0
// Budgets as commands and questions of the service.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

static void refuse_money(const struct decision *decision, const struct berth_budget_refusal *refusal)
{
	refuse(decision, refusal->error.code, "%s", refusal->error.message);
}

void effect_budget(const struct decision *decision, const char *name)
{
	const struct berth_outcome *outcome = decision->outcome;
	size_t last = outcome->effects_count;
	while (last > 0 && outcome->effects[last - 1].kind != BERTH_EFFECT_BUDGET_CHANGED) {
		last--;
	}
	if (last > 0 && strcmp(outcome->effects[last - 1].budget, name) == 0) {
		return; // many runs of one decision are paid from one budget
	}
	struct berth_effect *changed = effect(decision, BERTH_EFFECT_BUDGET_CHANGED);
	berth_copy_text(changed->budget, sizeof changed->budget, name);
}

void decide_create_budget(const struct decision *decision)
{
	const Berth__V1__CreateBudgetRequest *request = decision->command->create_budget;
	struct berth_budget_refusal refusal;
	Berth__Store__V1__BudgetOpened *opened = NULL;
	if (!berth_budget_decide_open(decision->core->budgets, request, &opened, &refusal)) {
		refuse_money(decision, &refusal);
	} else if (opened) {
		Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED);
		event->budget_opened = emit_own(decision, opened);
		emit(decision, event);
	}
}

void decide_amend_budget(const struct decision *decision)
{
	const struct berth_command *command = decision->command;
	struct berth_budget_refusal refusal;
	Berth__Store__V1__BudgetAmended *amended = NULL;
	if (!berth_budget_decide_amend(
		    decision->core->budgets, command->amend_budget, command->signature_ok, &amended, &refusal)) {
		refuse_money(decision, &refusal);
	} else if (amended) {
		Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED);
		event->budget_amended = emit_own(decision, amended);
		emit(decision, event);
		effect_budget(decision, amended->name);
	}
}

Berth__V1__Budget *berth_core_budget(const struct berth_core *core, const char *name)
{
	Berth__V1__Budget *message = berth_budgets_get(core->budgets, name);
	const struct job *job;
	for (job = message && core->blocked_jobs ? core->open_jobs : NULL; job; job = job->open_next) {
		if (job->blocked_reason && strcmp(job->spec->budget, name) == 0) {
			message->blocked_trials += job_blocked(job);
		}
	}
	return message;
}

size_t berth_core_budgets(const struct berth_core *core, Berth__V1__Budget ***budgets)
{
	const char **names;
	size_t count = berth_budgets_names(core->budgets, &names);
	*budgets = berth_alloc((count + 1) * sizeof(**budgets));
	for (size_t i = 0; i < count; i++) {
		(*budgets)[i] = berth_core_budget(core, names[i]);
	}
	free(names);
	return count;
}

size_t berth_core_reservations(const struct berth_core *core, const char *budget, bool open_only, const char *after,
	size_t limit, Berth__V1__Reservation **reservations)
{
	const Berth__V1__Reservation **rows;
	size_t count = berth_budgets_reservations(core->budgets, budget, open_only, after, limit, &rows);
	for (size_t i = 0; i < count; i++) {
		reservations[i] = berth_proto_clone(rows[i]);
	}
	free(rows);
	return count;
}

bool berth_core_amendment_key(const struct berth_core *core, const char *key_id, const uint8_t **der, size_t *size)
{
	static const char role[] = "operator/";
	const struct person *person, *next;
	HASH_ITER (hh, core->people, person, next) {
		if (strncmp(person->name, role, sizeof role - 1) == 0 && person->signing_key_size &&
			strcmp(person->signing_key_id, key_id) == 0) {
			*der = person->signing_key_der;
			*size = person->signing_key_size;
			return true;
		}
	}
	return false;
}
