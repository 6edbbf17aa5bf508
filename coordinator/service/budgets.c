// SPDX-License-Identifier: Apache-2.0
// BudgetService but for WatchBudget.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/sign.h"
#include "coordinator/budget/budget.h"
#include "coordinator/service/daemon.h"

#define RESERVATIONS_LIMIT 1000

// --- CreateBudget, AmendBudget ---

struct change {
	struct berth_engine_request request;
	struct berth_daemon *daemon;
	struct berth_rpc_call *call;
	const void *message;
	struct berth_arena *memory; // of the message
};

static void free_change(struct change *change)
{
	berth_arena_free(change->memory);
	berth_rpc_call_unref(change->call);
	free(change);
}

static void post_change(struct change *change)
{
	struct berth_error err;
	change->request.principal = *berth_rpc_call_principal(change->call);
	berth_actor(change->call, change->request.actor);
	if (!berth_engine_post(change->daemon->engine, &change->request, &err)) {
		berth_rpc_finish(change->call, &err);
		free_change(change);
	}
}

static struct change *new_change(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct change *change = berth_alloc(sizeof *change);
	change->daemon = context;
	change->call = berth_rpc_call_ref(call);
	change->message = message;
	change->memory = berth_rpc_keep_message(call);
	return change;
}

static void create_done(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	struct change *change = (struct change *)request;
	Berth__V1__CreateBudgetResponse response = BERTH__V1__CREATE_BUDGET_RESPONSE__INIT;
	bool ok = outcome->error.code == BERTH_ERROR_OK;
	response.budget = ok ? berth_core_budget(core, request->command.create_budget->name) : NULL;
	berth_reply(change->call, ok ? &response : NULL, &outcome->error);
	berth_proto_free(response.budget);
	free_change(change);
}

static void create_budget(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct change *change = new_change(call, message, context);
	change->request.done = create_done;
	change->request.command.kind = BERTH_COMMAND_CREATE_BUDGET;
	change->request.command.create_budget = change->message;
	post_change(change);
}

// Engine's thread: key and policy are those in force when the amendment is decided.
static void verify_amendment(struct berth_engine_request *request)
{
	const struct change *change = (const struct change *)request;
	const struct berth_core *core = change->daemon->core;
	const Berth__V1__AmendBudgetRequest *amend = change->message;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Budget *budget = berth_core_budget(core, amend->name);
	const uint8_t *key;
	size_t key_size;
	request->command.signature_ok = budget && berth_core_amendment_key(core, amend->key_id, &key, &key_size) &&
	                                berth_budget_amendment_text(budget->policy_digest, amend, &text, NULL) &&
	                                berth_verify(key, key_size, BERTH_AMENDMENT_TYPE, text.data, text.size,
						amend->signature.data, amend->signature.len, NULL);
}

static void amend_done(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	struct change *change = (struct change *)request;
	Berth__V1__AmendBudgetResponse response = BERTH__V1__AMEND_BUDGET_RESPONSE__INIT;
	bool ok = outcome->error.code == BERTH_ERROR_OK;
	response.budget = ok ? berth_core_budget(core, request->command.amend_budget->name) : NULL;
	berth_reply(change->call, ok ? &response : NULL, &outcome->error);
	berth_proto_free(response.budget);
	free_change(change);
}

static void amend_budget(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct change *change = new_change(call, message, context);
	change->request.done = amend_done;
	change->request.prepare = verify_amendment;
	change->request.command.kind = BERTH_COMMAND_AMEND_BUDGET;
	change->request.command.amend_budget = change->message;
	post_change(change);
}

// --- questions ---

struct question {
	const Berth__V1__ListReservationsRequest *request;
	const char *name, *after;
	Berth__V1__Budget **budgets;
	Berth__V1__Reservation **reservations;
	size_t count, limit;
	struct berth_error err;
};

static bool fail_unknown(const char *name, struct berth_error *err)
{
	return berth_fail(err, BERTH_ERROR_NOT_FOUND, "no budget is named %s: `berth budget list` shows them", name);
}

static void ask_budgets(const struct berth_core *core, void *context)
{
	struct question *question = context;
	question->count = berth_core_budgets(core, &question->budgets);
}

static void list_budgets(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	struct berth_daemon *daemon = context;
	struct question question = {0};
	bool ok =
		berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_budgets, &question, &question.err);
	Berth__V1__ListBudgetsResponse *response = berth_alloc(sizeof *response);
	berth__v1__list_budgets_response__init(response);
	response->budgets = question.budgets;
	response->n_budgets = question.count;
	berth_reply(call, ok ? response : NULL, &question.err);
	berth_proto_free(response);
}

static void ask_budget(const struct berth_core *core, void *context)
{
	struct question *question = context;
	question->budgets[0] = berth_core_budget(core, question->name);
}

static void get_budget(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	Berth__V1__GetBudgetResponse response = BERTH__V1__GET_BUDGET_RESPONSE__INIT;
	struct question question = {
		.name = ((const Berth__V1__GetBudgetRequest *)message)->name, .budgets = &response.budget};
	bool ok = berth_engine_ask(
			  daemon->engine, berth_rpc_call_principal(call), ask_budget, &question, &question.err) &&
	          (response.budget || fail_unknown(question.name, &question.err));
	berth_reply(call, ok ? &response : NULL, &question.err);
	berth_proto_free(response.budget);
}

static void ask_reservations(const struct berth_core *core, void *context)
{
	struct question *question = context;
	Berth__V1__Budget *budget = berth_core_budget(core, question->name);
	if (!budget) {
		fail_unknown(question->name, &question->err);
		return;
	}
	berth_proto_free(budget);
	question->reservations = berth_alloc(question->limit * sizeof(*question->reservations));
	question->count = berth_core_reservations(core, question->name, question->request->open_only, question->after,
		question->limit, question->reservations);
}

static void list_reservations(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__ListReservationsRequest *request = (const Berth__V1__ListReservationsRequest *)message;
	struct question question = {.request = request,
		.name = request->budget,
		.after = request->after_reservation_id[0] ? request->after_reservation_id : NULL,
		.limit = request->limit && request->limit < RESERVATIONS_LIMIT ? request->limit : RESERVATIONS_LIMIT};
	bool ok = berth_engine_ask(
			  daemon->engine, berth_rpc_call_principal(call), ask_reservations, &question, &question.err) &&
	          question.reservations;
	// Those that have ended and can't be appealed are records only.
	ok = ok && (request->open_only || berth_read_reservations(daemon, question.name, question.after, question.limit,
						  question.reservations, &question.count, &question.err));
	Berth__V1__ListReservationsResponse *response = berth_alloc(sizeof *response);
	berth__v1__list_reservations_response__init(response);
	response->reservations = question.reservations;
	response->n_reservations = question.count;
	berth_reply(call, ok ? response : NULL, &question.err);
	berth_proto_free(response);
}

#define ANYONE_KNOWN (BERTH_ROLE_USER | BERTH_ROLE_OPERATOR)

const struct berth_rpc_handler berth_budget_handlers[] = {
	{.method = "CreateBudget", .roles = BERTH_ROLE_OPERATOR, .message = create_budget},
	{.method = "AmendBudget", .roles = BERTH_ROLE_OPERATOR, .message = amend_budget},
	{.method = "ListBudgets", .roles = ANYONE_KNOWN, .message = list_budgets},
	{.method = "GetBudget", .roles = ANYONE_KNOWN, .message = get_budget},
	{.method = "WatchBudget",
		.roles = ANYONE_KNOWN,
		.message = berth_budget_watch_message,
		.ended = berth_budget_watch_ended},
	{.method = "ListReservations", .roles = ANYONE_KNOWN, .message = list_reservations},
};
const size_t berth_budget_handlers_count = BERTH_COUNT(berth_budget_handlers);
