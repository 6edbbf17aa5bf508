// SPDX-License-Identifier: Apache-2.0
// FleetService.Session: an agent's stream. Its messages become commands, effects become messages; between the two is
// the engine, so nothing is sent that is not synced.
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/session_internal.h"

struct berth_sessions *berth_sessions_new(void)
{
	struct berth_sessions *sessions = berth_alloc(sizeof *sessions);
	pthread_mutex_init(&sessions->lock, NULL);
	return sessions;
}

void berth_sessions_free(struct berth_sessions *sessions)
{
	pthread_mutex_destroy(&sessions->lock);
	free(sessions);
}

void berth_session_begin(struct berth_rpc_call *call, void *context)
{
	struct berth_daemon *daemon = context;
	struct session *session = berth_alloc(sizeof *session);
	session->daemon = daemon;
	session->call = call;
	berth__v1__coordinator_batch__init(&session->outgoing);
	snprintf(session->agent, sizeof session->agent, "%s", berth_rpc_call_principal(call)->name);
	pthread_mutex_lock(&daemon->sessions->lock);
	session->id = ++daemon->sessions->last_id;
	HASH_ADD(hh, daemon->sessions->by_id, id, sizeof session->id, session);
	pthread_mutex_unlock(&daemon->sessions->lock);
	berth_rpc_call_set_data(call, session);
	berth_rpc_read_next(call);
}

struct arrived { // a message on its way through the engine
	struct berth_engine_request request;
	const Berth__V1__AgentMessage *message;
	struct arrivals *all;
};

struct arrivals {                    // what came together: posted as one, freed when the last is decided
	struct session *session;     // of `call`, which outlives it
	struct berth_rpc_call *call; // referenced
	struct berth_arena *memory;  // of the messages
	size_t undecided;
	struct arrived each[];
};

static struct arrivals *arrivals_new(struct session *session, size_t count)
{
	struct arrivals *all = berth_alloc(sizeof *all + count * sizeof all->each[0]);
	all->session = session;
	all->call = berth_rpc_call_ref(session->call);
	all->undecided = count;
	for (size_t i = 0; i < count; i++) {
		all->each[i].all = all;
		all->each[i].request.next = i + 1 < count ? &all->each[i + 1].request : NULL;
	}
	return all;
}

static void arrived_free(struct arrived *arrived)
{
	struct arrivals *all = arrived->all;
	if (--all->undecided == 0) {
		berth_arena_free(all->memory);
		berth_rpc_call_unref(all->call);
		free(all);
	}
}

static void arrived_done(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	struct arrived *arrived = (struct arrived *)request;
	struct session *session = arrived->all->session;
	if (outcome->error.code != BERTH_ERROR_OK) {
		berth_log_warn("session refused", "agent=%s code=%s reason=%s", session->agent,
			berth_error_name(outcome->error.code), berth_log_quote(outcome->error.message));
		session_flush(session);
		berth_rpc_finish(session->call, &outcome->error);
	} else if (request->command.kind == BERTH_COMMAND_HELLO) {
		const uint8_t *der;
		size_t size;
		if (berth_core_signing_key(core, session->agent, &der, &size)) {
			session->signing_key_der = berth_memdup(der, size);
			session->signing_key_size = size;
		}
	}
	if (arrived->all->undecided == 1) {
		session->decided = true;
		session_await_flush(session);
	}
	arrived_free(arrived);
}

static bool is_digest(const ProtobufCBinaryData *bytes, const struct berth_digest *digest)
{
	return bytes->len == BERTH_DIGEST_SIZE && memcmp(bytes->data, digest->bytes, BERTH_DIGEST_SIZE) == 0;
}

// On the engine's thread, which may wait for the disk.
static void look_up_seen(struct berth_engine_request *request)
{
	struct arrived *arrived = (struct arrived *)request;
	const Berth__V1__LedgerHead *seen = arrived->message->hello->seen;
	struct berth_ledger_head head;
	struct berth_error err;
	struct session *session = arrived->all->session;
	request->command.seen_held = session->seen_held =
		!seen || seen->sequence == 0 ||
		(berth_ledger_head_at(session->daemon->ledger, seen->sequence, &head, &err) &&
			is_digest(&seen->leaf_hash, &head.leaf) &&
			(!seen->root_hash.len || is_digest(&seen->root_hash, &head.root)));
}

static void fill_done(struct session *session, struct arrived *arrived)
{
	struct berth_engine_request *request = &arrived->request;
	const Berth__V1__TrialDone *done = arrived->message->report->done;
	const struct berth_signer signer = {.fleet = session->daemon->fleet,
		.agent = session->agent,
		.key_der = session->signing_key_der,
		.key_size = session->signing_key_size,
		.checked = &session->checked};
	request->command.evidence_fault = berth_evidence_fault(&signer, done);
	request->command.reward = berth_reward_number(done->result->rewards_json);
	if (done->folder.len) {
		const char *fault = berth_folder_fault(done, &request->blob_digest);
		request->blob = done->folder.data;
		request->blob_size = fault ? 0 : done->folder.len;
		request->command.evidence_fault = fault ? fault : request->command.evidence_fault;
	}
}

static bool fill_command(struct session *session, struct arrived *arrived, struct berth_error *err)
{
	struct berth_command *command = &arrived->request.command;
	const Berth__V1__AgentMessage *message = arrived->message;
	command->agent = session->agent;
	command->session = session->id;
	switch (message->body_case) {
	case BERTH__V1__AGENT_MESSAGE__BODY_HELLO:
		command->kind = BERTH_COMMAND_HELLO;
		command->hello = message->hello;
		session->seen_sequence = message->hello->seen ? message->hello->seen->sequence : 0;
		session->obeyed = message->hello->obeyed ? message->hello->obeyed->number : 0;
		arrived->request.prepare = look_up_seen;
		return true;
	case BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT:
		command->kind = BERTH_COMMAND_HEARTBEAT;
		command->heartbeat = message->heartbeat;
		return true;
	case BERTH__V1__AGENT_MESSAGE__BODY_REPORT:
		command->kind = BERTH_COMMAND_REPORT;
		command->report = message->report;
		if (message->report->body_case == BERTH__V1__REPORT__BODY_DONE && message->report->done->result) {
			fill_done(session, arrived);
		}
		return true;
	case BERTH__V1__AGENT_MESSAGE__BODY_PROGRESS:
		command->kind = BERTH_COMMAND_PROGRESS;
		command->progress = message->progress;
		return true;
	default:
		return berth_fail(err, BERTH_ERROR_UNSUPPORTED, "a message of a newer protocol");
	}
}

// The messages move on with the engine's requests.
static bool post(struct session *session, const Berth__V1__AgentBatch *batch, struct berth_error *err)
{
	struct arrivals *all = arrivals_new(session, batch->n_messages);
	all->memory = berth_rpc_keep_message(session->call);
	bool ok = true;
	for (size_t i = 0; i < batch->n_messages; i++) {
		struct arrived *arrived = &all->each[i];
		arrived->message = batch->messages[i];
		arrived->request.done = arrived_done;
		arrived->request.principal = *berth_rpc_call_principal(session->call);
		berth_actor(session->call, arrived->request.actor);
		ok = ok && fill_command(session, arrived, err);
	}
	ok = ok && berth_engine_post_all(session->daemon->engine, &all->each[0].request, batch->n_messages, err);
	for (size_t i = 0, count = ok ? 0 : batch->n_messages; i < count; i++) {
		arrived_free(&all->each[i]);
	}
	return ok;
}

static bool may_be_taken(const struct session *session, const Berth__V1__AgentBatch *batch, struct berth_error *err)
{
	if (batch->n_messages == 0 || batch->n_messages > BERTH_SESSION_BATCH_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a batch of a session holds 1 to %d messages, not %zu",
			BERTH_SESSION_BATCH_MAX, batch->n_messages);
	}
	for (size_t i = 0; i < batch->n_messages; i++) {
		bool is_hello = batch->messages[i]->body_case == BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
		if (is_hello == session->welcomed || (is_hello && batch->n_messages > 1)) {
			return berth_fail(
				err, BERTH_ERROR_INVALID, "a session starts with one Hello, alone, and has no other");
		}
	}
	return true;
}

void berth_session_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)context;
	struct session *session = berth_rpc_call_data(call);
	const Berth__V1__AgentBatch *batch = (const Berth__V1__AgentBatch *)message;
	struct berth_error err;
	bool ok = may_be_taken(session, batch, &err);
	session->welcomed = true;
	// Reading goes on when all of it is decided: by then the session is what a Hello made it.
	if (!ok || !post(session, batch, &err)) {
		berth_rpc_finish(call, &err);
	}
}

void berth_session_half_closed(struct berth_rpc_call *call, void *context)
{
	(void)context;
	berth_rpc_finish(call, NULL);
}

static void down_done(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	(void)core, (void)outcome;
	struct arrived *arrived = (struct arrived *)request;
	struct session *session = arrived->all->session;
	// Every earlier message of the session has been decided by now, and no later one can come.
	session_forget(session);
	arrived_free(arrived);
	free(session->signing_key_der);
	free(session);
}

void berth_session_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	struct berth_daemon *daemon = context;
	struct session *session = berth_rpc_call_data(call);
	pthread_mutex_lock(&daemon->sessions->lock);
	HASH_DEL(daemon->sessions->by_id, session);
	pthread_mutex_unlock(&daemon->sessions->lock);
	struct arrived *arrived = &arrivals_new(session, 1)->each[0];
	arrived->request.done = down_done;
	arrived->request.command.kind = BERTH_COMMAND_STREAM_DOWN;
	arrived->request.command.agent = session->agent;
	arrived->request.command.session = session->id;
	struct berth_error err;
	if (!berth_engine_post(daemon->engine, &arrived->request, &err)) {
		down_done(&arrived->request, NULL, NULL); // the engine has stopped: nothing else refers to the session
	}
}
