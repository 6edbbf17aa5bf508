// SPDX-License-Identifier: Apache-2.0
// FleetService but for the stream itself.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/sign.h"
#include "common/evidence/x509.h"
#include "coordinator/service/daemon.h"
#include "coordinator/service/heads.h"

#define AGENTS_LIMIT       10000
#define AGENT_TRIALS_LIMIT 1000
#define DAYS_DEFAULT       365
#define DAYS_MAX           3650

// --- Enroll ---

struct enrolment {
	struct berth_engine_request request;
	struct berth_daemon *daemon;
	struct berth_rpc_call *call;
	const Berth__V1__EnrollRequest *message;
	struct berth_arena *memory; // of the message
	char *certificate;
	char fingerprint[BERTH_DIGEST_HEX_SIZE];
	char key_id[BERTH_DIGEST_HEX_SIZE];
};

static void free_enrolment(struct enrolment *enrolment)
{
	berth_arena_free(enrolment->memory);
	berth_rpc_call_unref(enrolment->call);
	free(enrolment->certificate);
	free(enrolment);
}

static void enroll_done(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	(void)core;
	struct enrolment *enrolment = (struct enrolment *)request;
	Berth__V1__EnrollResponse response = BERTH__V1__ENROLL_RESPONSE__INIT;
	response.certificate_pem = enrolment->certificate;
	response.authority_pem = enrolment->daemon->authority;
	response.fleet = enrolment->daemon->fleet;
	response.ledger_key_pem = (char *)berth_heads_key_pem(enrolment->daemon->heads);
	berth_reply(enrolment->call, outcome->error.code == BERTH_ERROR_OK ? &response : NULL, &outcome->error);
	free_enrolment(enrolment);
}

static bool is_role_enrolled(const char *role)
{
	return strcmp(role, "agent") == 0 || strcmp(role, "user") == 0 || strcmp(role, "operator") == 0;
}

static bool prepare_enrolment(struct berth_daemon *daemon, struct enrolment *enrolment, struct berth_error *err)
{
	const Berth__V1__EnrollRequest *message = enrolment->message;
	bool is_agent = strcmp(message->role, "agent") == 0;
	if (!daemon->authority_key) {
		return berth_fail(err, BERTH_ERROR_UNSUPPORTED,
			"this coordinator has no authority key: start it with --authority-key, or issue the "
			"certificate elsewhere");
	}
	if (!is_role_enrolled(message->role)) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "role must be agent, user or operator, not %s", message->role);
	}
	if (is_agent && !message->signing_key_der.len) {
		return berth_fail(err, BERTH_ERROR_INVALID, "an agent needs a signing key");
	}
	if (message->days > DAYS_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a certificate lasts at most %d days", DAYS_MAX);
	}
	if (!berth_x509_issue(daemon->authority, daemon->authority_key, message->request_der.data,
		    message->request_der.len, message->role, message->name, NULL,
		    message->days ? (int)message->days : DAYS_DEFAULT, &enrolment->certificate, err)) {
		return false;
	}
	berth_signing_key_id(message->signing_key_der.data, message->signing_key_der.len, enrolment->key_id);
	return berth_x509_fingerprint(enrolment->certificate, enrolment->fingerprint, err);
}

static void enroll(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct berth_error err;
	struct enrolment *enrolment = berth_alloc(sizeof *enrolment);
	enrolment->daemon = daemon;
	enrolment->call = berth_rpc_call_ref(call);
	enrolment->message = (const Berth__V1__EnrollRequest *)message;
	enrolment->memory = berth_rpc_keep_message(call);
	bool ok = prepare_enrolment(daemon, enrolment, &err);
	if (ok) {
		struct berth_command *command = &enrolment->request.command;
		enrolment->request.done = enroll_done;
		enrolment->request.principal = *berth_rpc_call_principal(call);
		berth_actor(call, enrolment->request.actor);
		command->kind = BERTH_COMMAND_ENROLL;
		command->role = enrolment->message->role;
		command->name = enrolment->message->name;
		command->certificate_sha256 = enrolment->fingerprint;
		command->signing_key_id = enrolment->key_id;
		command->signing_key_der = enrolment->message->signing_key_der.data;
		command->signing_key_size = enrolment->message->signing_key_der.len;
		ok = berth_engine_post(daemon->engine, &enrolment->request, &err);
	}
	if (!ok) {
		berth_rpc_finish(call, &err);
		free_enrolment(enrolment);
	}
}

// --- questions ---

struct question {
	const char *name;
	Berth__V1__Agent **agents;
	Berth__V1__TrialKey **keys;
	Berth__V1__Trial **trials;
	size_t count, limit;
	char job_id[BERTH_ID_SIZE];
	bool ok;
	struct berth_error err;
};

static void ask_agents(const struct berth_core *core, void *context)
{
	struct question *question = context;
	question->agents = berth_alloc(AGENTS_LIMIT * sizeof(*question->agents));
	question->count = berth_core_agents(core, question->agents, AGENTS_LIMIT);
}

static void list_agents(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	struct berth_daemon *daemon = context;
	struct question question = {0};
	bool ok =
		berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_agents, &question, &question.err);
	Berth__V1__ListAgentsResponse *response = berth_alloc(sizeof *response);
	berth__v1__list_agents_response__init(response);
	response->agents = question.agents;
	response->n_agents = question.count;
	berth_reply(call, ok ? response : NULL, &question.err);
	berth_proto_free(response);
}

static void ask_agent(const struct berth_core *core, void *context)
{
	struct question *question = context;
	question->agents = berth_alloc(sizeof(*question->agents));
	question->agents[0] = berth_core_agent(core, question->name);
	question->ok = question->agents[0] != NULL;
	if (!question->ok) {
		berth_fail(&question->err, BERTH_ERROR_NOT_FOUND, "no agent is named %s: `berth agent list` shows them",
			question->name);
		return;
	}
	question->keys = berth_alloc(AGENT_TRIALS_LIMIT * sizeof(*question->keys));
	question->count = berth_core_agent_trials(core, question->name, question->keys, AGENT_TRIALS_LIMIT);
	question->trials = berth_alloc((question->count + 1) * sizeof(*question->trials));
	for (size_t i = 0; i < question->count; i++) {
		uint64_t sequence;
		question->trials[i] =
			berth_core_trial(core, question->keys[i]->job_id, question->keys[i]->index, NULL, &sequence);
		berth_proto_free(question->keys[i]);
	}
	free(question->keys);
}

static void get_agent(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct question question = {.name = ((const Berth__V1__GetAgentRequest *)message)->name};
	bool ok =
		berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_agent, &question, &question.err) &&
		question.ok;
	Berth__V1__GetAgentResponse *response = berth_alloc(sizeof *response);
	berth__v1__get_agent_response__init(response);
	response->agent = question.agents ? question.agents[0] : NULL;
	response->running = question.trials;
	response->n_running = question.count;
	berth_reply(call, ok ? response : NULL, &question.err);
	berth_proto_free(response);
	free(question.agents);
}

// --- ForgetAgent ---

struct forgetting {
	struct berth_engine_request request;
	struct berth_rpc_call *call;
	const Berth__V1__ForgetAgentRequest *message;
	struct berth_arena *memory; // of the message
	Berth__V1__ForgetAgentResponse *response;
};

static void free_forgetting(struct forgetting *forgetting)
{
	berth_rpc_call_unref(forgetting->call);
	berth_arena_free(forgetting->memory);
	berth_proto_free(forgetting->response);
	free(forgetting);
}

static void note_given_up(struct berth_engine_request *request, const struct berth_outcome *outcome)
{
	Berth__V1__ForgetAgentResponse *response = ((struct forgetting *)request)->response;
	for (size_t i = 0; i < outcome->events_count; i++) {
		const Berth__Store__V1__Event *event = outcome->events[i];
		if (event->body_case == BERTH__STORE__V1__EVENT__BODY_LEASE_MOVED) {
			berth_proto_append(&response->n_lease_ids, &response->lease_ids,
				berth_strdup(event->lease_moved->lease_id));
		} else if (event->body_case == BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED) {
			response->forfeited_nano_usd += event->budget_ended->ending->charged_nano_usd;
		}
	}
}

static void forget_done(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	(void)core;
	struct forgetting *forgetting = (struct forgetting *)request;
	bool ok = outcome->error.code == BERTH_ERROR_OK;
	berth_reply(forgetting->call, ok ? forgetting->response : NULL, &outcome->error);
	free_forgetting(forgetting);
}

static void forget_agent(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct berth_error err;
	struct forgetting *forgetting = berth_alloc(sizeof *forgetting);
	forgetting->call = berth_rpc_call_ref(call);
	forgetting->message = (const Berth__V1__ForgetAgentRequest *)message;
	forgetting->memory = berth_rpc_keep_message(call);
	forgetting->request.command.kind = BERTH_COMMAND_FORGET_AGENT;
	forgetting->request.command.agent = forgetting->message->name;
	forgetting->request.command.reason = forgetting->message->reason;
	forgetting->request.principal = *berth_rpc_call_principal(call);
	berth_actor(call, forgetting->request.actor);
	forgetting->response = berth_alloc(sizeof *forgetting->response);
	berth__v1__forget_agent_response__init(forgetting->response);
	forgetting->request.note = note_given_up;
	forgetting->request.done = forget_done;
	if (!berth_engine_post(daemon->engine, &forgetting->request, &err)) {
		berth_rpc_finish(call, &err);
		free_forgetting(forgetting);
	}
}

const struct berth_rpc_handler berth_fleet_handlers[] = {
	{.method = "Session",
		.roles = BERTH_ROLE_AGENT,
		.light = true,
		.begin = berth_session_begin,
		.message = berth_session_message,
		.half_closed = berth_session_half_closed,
		.ended = berth_session_ended},
	{.method = "Enroll", .roles = BERTH_ROLE_OPERATOR, .message = enroll},
	{.method = "ListAgents", .roles = BERTH_ROLE_USER | BERTH_ROLE_OPERATOR, .message = list_agents},
	{.method = "GetAgent", .roles = BERTH_ROLE_USER | BERTH_ROLE_OPERATOR, .message = get_agent},
	{.method = "ForgetAgent", .roles = BERTH_ROLE_OPERATOR, .message = forget_agent},
};
const size_t berth_fleet_handlers_count = BERTH_COUNT(berth_fleet_handlers);
