// SPDX-License-Identifier: Apache-2.0
// FleetService.Session: an agent's stream. Its messages become commands, effects become messages; between the two is
// the engine, so nothing is sent that is not synced.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/daemon.h"

struct session {
	struct berth_daemon *daemon;
	struct berth_rpc_call *call;
	char agent[BERTH_RPC_NAME_MAX];
	uint64_t id;
	bool welcomed;
	uint64_t seen_sequence;   // of its Hello
	bool had_secrets;         // its stream may still hold some in its buffers; the engine\'s thread only
	uint8_t *signing_key_der; // set before the first message after Hello is taken
	size_t signing_key_size;
	struct session *prev, *next;
};

struct berth_sessions {
	pthread_mutex_t lock;
	struct session *list;
	uint64_t last_id;
};

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
	snprintf(session->agent, sizeof session->agent, "%s", berth_rpc_call_principal(call)->name);
	pthread_mutex_lock(&daemon->sessions->lock);
	session->id = ++daemon->sessions->last_id;
	DL_APPEND(daemon->sessions->list, session);
	pthread_mutex_unlock(&daemon->sessions->lock);
	berth_rpc_call_set_data(call, session);
	berth_rpc_read_next(call);
}

// A reference to the call of a session, NULL when it is gone.
static struct berth_rpc_call *call_of(struct berth_daemon *daemon, uint64_t id)
{
	struct berth_rpc_call *call = NULL;
	struct session *session;
	pthread_mutex_lock(&daemon->sessions->lock);
	DL_FOREACH (daemon->sessions->list, session) {
		if (session->id == id) {
			call = berth_rpc_call_ref(session->call);
			break;
		}
	}
	pthread_mutex_unlock(&daemon->sessions->lock);
	return call;
}

struct arrived { // a message on its way through the engine
	struct berth_engine_request request;
	struct berth_daemon *daemon;
	struct berth_rpc_call *call; // referenced
	Berth__V1__AgentMessage *message;
	char agent[BERTH_RPC_NAME_MAX];
	bool is_hello;
	struct session *session; // of `call`, which outlives it
};

static void free_arrived(struct arrived *arrived)
{
	berth_rpc_call_unref(arrived->call);
	berth_proto_free(arrived->message);
	free(arrived);
}

static void arrived_done(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	struct arrived *arrived = (struct arrived *)request;
	if (outcome->error.code != BERTH_ERROR_OK) {
		berth_log_warn("session refused", "agent=%s code=%s reason=%s", arrived->agent,
			berth_error_name(outcome->error.code), berth_log_quote(outcome->error.message));
		berth_rpc_finish(arrived->call, &outcome->error);
	} else if (arrived->is_hello) {
		const uint8_t *der;
		size_t size;
		if (berth_core_signing_key(core, arrived->agent, &der, &size)) {
			arrived->session->signing_key_der = berth_memdup(der, size);
			arrived->session->signing_key_size = size;
		}
		// The next message is read only now, so the session above is whole when it comes.
		berth_rpc_read_next(arrived->call);
	}
	free_arrived(arrived);
}

static bool is_seen_held(struct berth_daemon *daemon, const Berth__V1__LedgerHead *seen)
{
	if (!seen || seen->sequence == 0) {
		return true;
	}
	struct berth_digest leaf;
	struct berth_error err;
	return berth_ledger_leaf(daemon->ledger, seen->sequence, &leaf, &err) &&
	       seen->leaf_hash.len == BERTH_DIGEST_SIZE &&
	       memcmp(seen->leaf_hash.data, leaf.bytes, BERTH_DIGEST_SIZE) == 0;
}

static bool fill_command(struct session *session, struct arrived *arrived, struct berth_error *err)
{
	struct berth_command *command = &arrived->request.command;
	const Berth__V1__AgentMessage *message = arrived->message;
	command->agent = arrived->agent;
	command->session = session->id;
	switch (message->body_case) {
	case BERTH__V1__AGENT_MESSAGE__BODY_HELLO:
		command->kind = BERTH_COMMAND_HELLO;
		command->hello = message->hello;
		session->seen_sequence = message->hello->seen ? message->hello->seen->sequence : 0;
		command->seen_held = is_seen_held(session->daemon, message->hello->seen);
		return true;
	case BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT:
		command->kind = BERTH_COMMAND_HEARTBEAT;
		command->heartbeat = message->heartbeat;
		return true;
	case BERTH__V1__AGENT_MESSAGE__BODY_REPORT:
		command->kind = BERTH_COMMAND_REPORT;
		command->report = message->report;
		if (message->report->body_case == BERTH__V1__REPORT__BODY_DONE && message->report->done->result) {
			command->evidence_fault = berth_evidence_fault(session->signing_key_der,
				session->signing_key_size, session->agent, message->report->done);
			command->reward = berth_reward_number(message->report->done->result->rewards_json);
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

void berth_session_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct session *session = berth_rpc_call_data(call);
	struct berth_error err;
	struct arrived *arrived = berth_alloc(sizeof *arrived);
	arrived->daemon = daemon;
	arrived->session = session;
	arrived->call = berth_rpc_call_ref(call);
	arrived->message = berth_proto_clone(message);
	memcpy(arrived->agent, session->agent, sizeof arrived->agent);
	arrived->request.done = arrived_done;
	arrived->request.principal = *berth_rpc_call_principal(call);
	berth_actor(call, arrived->request.actor);
	arrived->is_hello = arrived->message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
	bool ok = arrived->is_hello != session->welcomed ||
	          berth_fail(&err, BERTH_ERROR_INVALID, "a session starts with one Hello and has no other");
	ok = ok && fill_command(session, arrived, &err) && berth_engine_post(daemon->engine, &arrived->request, &err);
	if (!ok) {
		berth_rpc_finish(call, &err);
		free_arrived(arrived);
		return;
	}
	if (!session->welcomed) {
		session->welcomed = true;
		return; // reading goes on when the Hello is decided
	}
	berth_rpc_read_next(call);
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
	// Every earlier message of the session has been decided by now, and no later one can come.
	free(arrived->session->signing_key_der);
	free(arrived->session);
	free_arrived(arrived);
}

void berth_session_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	struct berth_daemon *daemon = context;
	struct session *session = berth_rpc_call_data(call);
	pthread_mutex_lock(&daemon->sessions->lock);
	DL_DELETE(daemon->sessions->list, session);
	pthread_mutex_unlock(&daemon->sessions->lock);
	struct arrived *arrived = berth_alloc(sizeof *arrived);
	arrived->call = berth_rpc_call_ref(call);
	arrived->session = session;
	memcpy(arrived->agent, session->agent, sizeof arrived->agent);
	arrived->request.done = down_done;
	arrived->request.command.kind = BERTH_COMMAND_STREAM_DOWN;
	arrived->request.command.agent = arrived->agent;
	arrived->request.command.session = session->id;
	struct berth_error err;
	if (!berth_engine_post(daemon->engine, &arrived->request, &err)) {
		down_done(&arrived->request, NULL, NULL); // the engine has stopped: nothing else refers to the session
	}
}

// --- effects to messages ---

static void fill_head(struct berth_daemon *daemon, Berth__V1__LedgerHead *head, struct berth_ledger_head *storage)
{
	*storage = berth_ledger_head(daemon->ledger);
	berth__v1__ledger_head__init(head);
	head->sequence = storage->sequence;
	head->leaf_hash.data = storage->leaf.bytes;
	head->leaf_hash.len = BERTH_DIGEST_SIZE;
}

static void send(struct berth_rpc_call *call, const Berth__V1__CoordinatorMessage *message)
{
	struct berth_error err;
	if (!berth_rpc_send(call, &message->base, &err)) {
		// A stream that can't take it is over for the agent: it comes back and is told again.
		berth_rpc_finish(call, &err);
	}
}

static void send_welcome(struct berth_daemon *daemon, struct berth_rpc_call *call, const struct berth_core *core,
	const struct berth_effect *effect)
{
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__Welcome welcome = BERTH__V1__WELCOME__INIT;
	Berth__V1__LedgerHead head;
	struct berth_ledger_head storage;
	Berth__V1__Incarnation incarnation = berth_core_incarnation(core);
	fill_head(daemon, &head, &storage);
	welcome.protocol = 1;
	welcome.incarnation = &incarnation;
	welcome.head = &head;
	welcome.fleet = daemon->fleet;
	welcome.hold_ms = (uint64_t)daemon->hold_ms;
	welcome.heartbeat_ms = (uint64_t)daemon->heartbeat_ms;
	welcome.applied_through = effect->sequence;
	const struct session *session = berth_rpc_call_data(call);
	struct berth_digest leaf;
	struct berth_error err;
	if (session->seen_sequence && berth_ledger_leaf(daemon->ledger, session->seen_sequence, &leaf, &err)) {
		welcome.seen_leaf_hash.data = leaf.bytes;
		welcome.seen_leaf_hash.len = BERTH_DIGEST_SIZE;
	}
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME;
	message.welcome = &welcome;
	send(call, &message);
}

static void send_heartbeat_ack(
	struct berth_daemon *daemon, struct berth_rpc_call *call, const struct berth_effect *effect)
{
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__HeartbeatAck ack = BERTH__V1__HEARTBEAT_ACK__INIT;
	Berth__V1__LedgerHead head;
	struct berth_ledger_head storage;
	fill_head(daemon, &head, &storage);
	ack.sequence = effect->sequence;
	ack.head = &head;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK;
	message.heartbeat_ack = &ack;
	send(call, &message);
}

static void send_report_ack(struct berth_rpc_call *call, const struct berth_effect *effect)
{
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__ReportAck ack = BERTH__V1__REPORT_ACK__INIT;
	ack.boot_id = (char *)effect->boot_id;
	ack.through = effect->sequence;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK;
	message.report_ack = &ack;
	send(call, &message);
}

static void send_revoke(struct berth_rpc_call *call, const struct berth_effect *effect)
{
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__Revoke revoke = BERTH__V1__REVOKE__INIT;
	Berth__V1__TrialKey key = BERTH__V1__TRIAL_KEY__INIT;
	key.job_id = (char *)effect->job_id;
	key.index = effect->index;
	key.generation = effect->generation;
	revoke.trial = &key;
	revoke.reason = (char *)effect->error.message;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_REVOKE;
	message.revoke = &revoke;
	send(call, &message);
}

// Whether a secret of the set is one that a trial of this agent config and task may use; its scope is narrowed to index
// 0 as the assignment's spec is.
static bool narrow_scope(Berth__V1__Secret *secret, uint32_t agent, uint32_t task)
{
	static const struct {
		const char *prefix;
		bool by_agent;
	} scopes[] = {{"agent/", true}, {"solution/", false}, {"verifier/", false}, {"environment/", false}};
	for (size_t i = 0; i < BERTH_COUNT(scopes); i++) {
		size_t length = strlen(scopes[i].prefix);
		if (strncmp(secret->scope, scopes[i].prefix, length) != 0) {
			continue;
		}
		char *end;
		unsigned long index = strtoul(secret->scope + length, &end, 10);
		if (index != (scopes[i].by_agent ? agent : task)) {
			return false;
		}
		BERTH_AUTO_FREE char *scope = berth_format("%s0%s", scopes[i].prefix, end);
		berth_proto_set_string(&secret->scope, scope);
		return true;
	}
	// Of the whole job; a scope that this version does not know goes to no trial.
	return strcmp(secret->scope, "verifier") == 0 || strcmp(secret->scope, "environment") == 0;
}

static Berth__V1__SecretSet *secrets_of(struct berth_daemon *daemon, const Berth__V1__Assignment *assignment)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	struct berth_error err;
	if (!berth_ledger_get_secrets(daemon->ledger, assignment->trial->job_id, &packed, &err)) {
		return NULL; // the job brought none
	}
	Berth__V1__SecretSet *set = berth_proto_unpack(
		&berth__v1__secret_set__descriptor, packed.data, packed.size, "the job's secret set", &err);
	explicit_bzero(packed.data, packed.size);
	size_t kept = 0;
	for (size_t i = 0; set && i < set->n_secrets; i++) {
		if (narrow_scope(set->secrets[i], assignment->agent, assignment->task)) {
			set->secrets[kept++] = set->secrets[i];
		} else {
			berth_proto_free(set->secrets[i]);
		}
	}
	if (set) {
		set->n_secrets = kept;
	}
	return set;
}

static void send_assignment(struct berth_daemon *daemon, struct berth_rpc_call *call, const struct berth_core *core,
	const struct berth_effect *effect)
{
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__Assignment *assignment = berth_alloc(sizeof *assignment);
	berth__v1__assignment__init(assignment);
	if (berth_core_assignment(core, effect->job_id, effect->index, effect->generation, assignment)) {
		struct session *session = berth_rpc_call_data(call);
		assignment->secrets = secrets_of(daemon, assignment);
		session->had_secrets |= assignment->secrets != NULL;
		message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT;
		message.assignment = assignment;
		send(call, &message);
	}
	berth_proto_free(assignment);
}

// The transport keeps the newest bytes that it encrypted, until as many others have passed.
#define PADDING_SIZE (64 * 1024)

void berth_sessions_scrub(struct berth_daemon *daemon)
{
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__Padding padding = BERTH__V1__PADDING__INIT;
	BERTH_AUTO_FREE uint8_t *zeros = berth_alloc(PADDING_SIZE);
	padding.zeros = (ProtobufCBinaryData){PADDING_SIZE, zeros};
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_PADDING;
	message.padding = &padding;
	struct session *session;
	pthread_mutex_lock(&daemon->sessions->lock);
	DL_FOREACH (daemon->sessions->list, session) {
		if (session->had_secrets) {
			session->had_secrets = false;
			send(session->call, &message);
		}
	}
	pthread_mutex_unlock(&daemon->sessions->lock);
}

void berth_session_effect(struct berth_daemon *daemon, const struct berth_core *core, const struct berth_effect *effect)
{
	struct berth_rpc_call *call = call_of(daemon, effect->session);
	if (!call) {
		return; // the agent is away; it is told when it is back
	}
	switch (effect->kind) {
	case BERTH_EFFECT_WELCOME:
		send_welcome(daemon, call, core, effect);
		break;
	case BERTH_EFFECT_REFUSE:
		berth_rpc_finish(call, &effect->error);
		break;
	case BERTH_EFFECT_HEARTBEAT_ACK:
		send_heartbeat_ack(daemon, call, effect);
		break;
	case BERTH_EFFECT_REPORT_ACK:
		send_report_ack(call, effect);
		break;
	case BERTH_EFFECT_ASSIGN:
		send_assignment(daemon, call, core, effect);
		break;
	case BERTH_EFFECT_REVOKE:
		send_revoke(call, effect);
		break;
	default:
		break;
	}
	berth_rpc_call_unref(call);
}
