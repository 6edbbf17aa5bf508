// SPDX-License-Identifier: Apache-2.0
// BudgetService of the fake: the real authority behind it, and one reservation to show.
#include <string.h>

#include "berth/v1/budget.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/sign.h"
#include "tests/unit/cli/fake_internal.h"

static void create_budget(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct fake *fake = context;
	const Berth__V1__CreateBudgetRequest *request = (const Berth__V1__CreateBudgetRequest *)message;
	Berth__Store__V1__BudgetOpened *opened = NULL;
	Berth__V1__CreateBudgetResponse response = BERTH__V1__CREATE_BUDGET_RESPONSE__INIT;
	struct berth_budget_refusal refusal;
	struct berth_error err;
	if (!berth_budget_decide_open(fake->budgets, request, &opened, &refusal)) {
		fake_refuse(call, refusal.error.code, refusal.error.message);
		return;
	}
	if (opened) {
		berth_budgets_apply_opened(fake->budgets, opened, &err);
		berth_proto_free(opened);
	}
	response.budget = berth_budgets_get(fake->budgets, request->name);
	fake_answer(call, &response);
	berth_proto_free(response.budget);
}

static bool is_signed(const struct fake *fake, const Berth__V1__AmendBudgetRequest *request)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Budget *budget = berth_budgets_get(fake->budgets, request->name);
	char key_id[BERTH_DIGEST_HEX_SIZE];
	berth_signing_key_id(fake->signing_key.data, fake->signing_key.size, key_id);
	return budget && strcmp(key_id, request->key_id) == 0 &&
	       berth_budget_amendment_text(budget->policy_digest, request, &text, NULL) &&
	       berth_verify(fake->signing_key.data, fake->signing_key.size, BERTH_AMENDMENT_TYPE, text.data, text.size,
		       request->signature.data, request->signature.len, NULL);
}

static void amend_budget(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct fake *fake = context;
	const Berth__V1__AmendBudgetRequest *request = (const Berth__V1__AmendBudgetRequest *)message;
	Berth__Store__V1__BudgetAmended *amended = NULL;
	Berth__V1__AmendBudgetResponse response = BERTH__V1__AMEND_BUDGET_RESPONSE__INIT;
	struct berth_budget_refusal refusal;
	struct berth_error err;
	if (!berth_budget_decide_amend(fake->budgets, request, is_signed(fake, request), &amended, &refusal)) {
		fake_refuse(call, refusal.error.code, refusal.error.message);
		return;
	}
	if (amended) {
		berth_budgets_apply_amended(fake->budgets, amended, &err);
		berth_proto_free(amended);
	}
	response.budget = berth_budgets_get(fake->budgets, request->name);
	fake_answer(call, &response);
	berth_proto_free(response.budget);
}

static void list_budgets(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	struct fake *fake = context;
	const char **names;
	size_t count = berth_budgets_names(fake->budgets, &names);
	Berth__V1__ListBudgetsResponse *response = berth_alloc(sizeof *response);
	berth__v1__list_budgets_response__init(response);
	for (size_t i = 0; i < count; i++) {
		berth_proto_append(
			&response->n_budgets, &response->budgets, berth_budgets_get(fake->budgets, names[i]));
	}
	fake_answer(call, response);
	berth_proto_free(response);
	berth_free_cleanup(&names);
}

static void get_budget(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const struct fake *fake = context;
	Berth__V1__GetBudgetResponse response = BERTH__V1__GET_BUDGET_RESPONSE__INIT;
	response.budget = berth_budgets_get(fake->budgets, ((const Berth__V1__GetBudgetRequest *)message)->name);
	if (response.budget) {
		fake_answer(call, &response);
	} else {
		fake_refuse(call, BERTH_ERROR_NOT_FOUND, "no budget is named so");
	}
	berth_proto_free(response.budget);
}

static void watch_budget(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct fake *fake = context;
	Berth__V1__GetBudgetResponse update = BERTH__V1__GET_BUDGET_RESPONSE__INIT;
	update.budget = berth_budgets_get(fake->budgets, ((const Berth__V1__GetBudgetRequest *)message)->name);
	if (!update.budget) {
		fake_refuse(call, BERTH_ERROR_NOT_FOUND, "no budget is named so");
		return;
	}
	berth_rpc_send(call, &update.base, NULL);
	update.budget->totals->reserved_nano_usd = 5000000;
	berth_rpc_send(call, &update.base, NULL);
	berth_proto_free(update.budget);
	if (fake->on_budget_watch) {
		berth_cancel_fire(fake->on_budget_watch);
	} else {
		fake_refuse(call, BERTH_ERROR_DENIED, "enough");
	}
}

static void list_reservations(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)context;
	const Berth__V1__ListReservationsRequest *request = (const Berth__V1__ListReservationsRequest *)message;
	Berth__V1__ListReservationsResponse response = BERTH__V1__LIST_RESERVATIONS_RESPONSE__INIT;
	Berth__V1__Reservation row = BERTH__V1__RESERVATION__INIT, *rows[] = {&row};
	Berth__V1__ReservationEnding ending = BERTH__V1__RESERVATION_ENDING__INIT;
	// One a page, and the forfeited one only for those who want all.
	bool first = !*request->after_reservation_id;
	row.reservation_id = (char *)(first ? "aaaa" : "bbbb");
	row.budget = request->budget;
	row.meter_id = (char *)"local.task_environment.c1.m512.t3600";
	row.max_nano_usd = 45000;
	row.state = first ? BERTH__V1__RESERVATION_STATE__RESERVED : BERTH__V1__RESERVATION_STATE__FORFEITED;
	row.ending = first ? NULL : &ending;
	ending.charged_nano_usd = 45000;
	ending.failure_type = (char *)"CreateUnknown";
	response.reservations = rows;
	response.n_reservations = first || (!request->open_only && strcmp(request->after_reservation_id, "aaaa") == 0);
	fake_answer(call, &response);
}

const struct berth_rpc_handler FAKE_BUDGET_HANDLERS[] = {
	{.method = "CreateBudget", .roles = FAKE_ANYONE, .message = create_budget},
	{.method = "AmendBudget", .roles = FAKE_ANYONE, .message = amend_budget},
	{.method = "ListBudgets", .roles = FAKE_ANYONE, .message = list_budgets},
	{.method = "GetBudget", .roles = FAKE_ANYONE, .message = get_budget},
	{.method = "WatchBudget", .roles = FAKE_ANYONE, .message = watch_budget},
	{.method = "ListReservations", .roles = FAKE_ANYONE, .message = list_reservations},
};
const size_t FAKE_BUDGET_HANDLERS_COUNT = BERTH_COUNT(FAKE_BUDGET_HANDLERS);
