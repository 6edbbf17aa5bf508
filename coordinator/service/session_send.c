// SPDX-License-Identifier: Apache-2.0
// What the engine decided for an agent, as messages on its stream. All on the engine's thread, after the sync.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/heads.h"
#include "coordinator/service/session_internal.h"

#define OUTGOING_SIZE_MAX (1024 * 1024) // of a batch that holds more than one message

// A reference to the call of a session, NULL when it is gone.
static struct berth_rpc_call *call_of(struct berth_daemon *daemon, uint64_t id)
{
	struct berth_rpc_call *call = NULL;
	struct session *session;
	pthread_mutex_lock(&daemon->sessions->lock);
	HASH_FIND(hh, daemon->sessions->by_id, &id, sizeof id, session);
	if (session) {
		call = berth_rpc_call_ref(session->call);
	}
	pthread_mutex_unlock(&daemon->sessions->lock);
	return call;
}

static void fill_head(const struct berth_daemon *daemon, Berth__V1__LedgerHead *head, struct berth_signed_head *storage)
{
	const struct berth_ledger_head newest = berth_ledger_head(daemon->ledger);
	berth_heads_fill(daemon->heads, &newest, storage, head);
}

struct assignment { // on its way out
	Berth__V1__CoordinatorMessage message;
	struct berth_core_assignment borrowed;
};

static void free_message(Berth__V1__CoordinatorMessage *message)
{
	if (message->body_case == BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT) {
		struct assignment *assignment = (struct assignment *)message;
		free(assignment->borrowed.message.trial_name);
		berth_proto_free(assignment->borrowed.message.secrets);
		free(assignment);
	} else {
		berth_proto_free(message);
	}
}

void session_await_flush(struct session *session)
{
	if (!session->pending) {
		session->pending = true;
		DL_APPEND2(session->daemon->sessions->pending, session, pending_prev, pending_next);
	}
}

void session_forget(struct session *session)
{
	if (session->pending) {
		session->pending = false;
		DL_DELETE2(session->daemon->sessions->pending, session, pending_prev, pending_next);
	}
	for (size_t i = 0; i < session->outgoing.n_messages; i++) {
		free_message(session->outgoing.messages[i]);
	}
	free(session->outgoing.messages);
	berth__v1__coordinator_batch__init(&session->outgoing);
	session->outgoing_size = 0;
}

// The next message is read after the answer to the last is sent, in this order: gRPC gives the window that the last one
// took back in a write of its own if a reader waits already, and along with the answer if none does.
static void flush(struct session *session, bool behind)
{
	struct berth_error err;
	berth_rpc_cork(session->call);
	if (session->outgoing.n_messages && !berth_rpc_send(session->call, &session->outgoing.base, &err)) {
		// A stream that can't take it is over for the agent: it comes back and is told again.
		berth_rpc_finish(session->call, &err);
	}
	session_forget(session);
	if (session->decided) {
		session->decided = false;
		berth_rpc_read_next(session->call);
	}
	berth_rpc_uncork(session->call, behind);
}

void session_flush(struct session *session)
{
	flush(session, false);
}

void berth_sessions_settled(struct berth_daemon *daemon)
{
	// One answer leaves soonest from here. Of many, the last would wait for all others and the next batch for the
	// last.
	struct session *first = daemon->sessions->pending;
	bool many = first && first->pending_next;
	while (daemon->sessions->pending) {
		flush(daemon->sessions->pending, many);
	}
}

// Takes the message. What one batch of the engine decided for an agent leaves as one batch.
static void send(struct session *session, Berth__V1__CoordinatorMessage *message)
{
	size_t size = berth__v1__coordinator_message__get_packed_size(message);
	if (session->outgoing.n_messages == BERTH_SESSION_BATCH_MAX ||
		(session->outgoing.n_messages && session->outgoing_size + size > OUTGOING_SIZE_MAX)) {
		session_flush(session);
	}
	session_await_flush(session);
	session->outgoing_size += size;
	berth_proto_append(&session->outgoing.n_messages, &session->outgoing.messages, message);
}

static void send_copy(struct session *session, const Berth__V1__CoordinatorMessage *message)
{
	send(session, berth_proto_clone(message));
}

// Why this ledger lacks what the agent saw; NULL: it holds it.
static const struct berth_core_restore *restore_for(const struct session *session, const struct berth_core *core)
{
	const Berth__V1__Incarnation obeyed = {.number = session->obeyed};
	return session->seen_held ? NULL : berth_core_restore_after(core, &obeyed, session->seen_sequence);
}

static void send_welcome(struct session *session, const struct berth_core *core, const struct berth_effect *effect)
{
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__Welcome welcome = BERTH__V1__WELCOME__INIT;
	Berth__V1__LedgerHead head;
	struct berth_signed_head storage;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	Berth__V1__Incarnation incarnation = berth_core_incarnation(core);
	const struct berth_daemon *daemon = session->daemon;
	berth_heads_sign_incarnation(daemon->heads, &incarnation, signature);
	fill_head(daemon, &head, &storage);
	welcome.protocol = 1;
	welcome.incarnation = &incarnation;
	welcome.head = &head;
	welcome.fleet = (char *)daemon->fleet;
	welcome.hold_ms = (uint64_t)daemon->hold_ms;
	welcome.heartbeat_ms = (uint64_t)daemon->heartbeat_ms;
	welcome.applied_through = effect->sequence;
	struct berth_digest leaf;
	struct berth_error err;
	if (session->seen_sequence && berth_ledger_leaf(daemon->ledger, session->seen_sequence, &leaf, &err)) {
		welcome.seen_leaf_hash.data = leaf.bytes;
		welcome.seen_leaf_hash.len = BERTH_DIGEST_SIZE;
	}
	Berth__V1__Restore said;
	struct berth_signed_restore signed_restore;
	const struct berth_core_restore *restore = restore_for(session, core);
	if (restore) {
		berth_heads_fill_restore(daemon->heads, restore, &signed_restore, &said);
		welcome.restore = &said;
	}
	struct berth_head_proof proof;
	uint64_t first = restore ? restore->size : session->seen_sequence;
	if (first && berth_heads_consistency(daemon->ledger, first, head.sequence, &proof, &err)) {
		welcome.consistency = proof.items;
		welcome.n_consistency = proof.count;
	}
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME;
	message.welcome = &welcome;
	send_copy(session, &message);
}

static void send_heartbeat_ack(
	struct session *session, const struct berth_core *core, const struct berth_effect *effect)
{
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__HeartbeatAck ack = BERTH__V1__HEARTBEAT_ACK__INIT;
	Berth__V1__LedgerHead head;
	struct berth_signed_head storage;
	fill_head(session->daemon, &head, &storage);
	ack.sequence = effect->sequence;
	ack.head = &head;
	bool keeps;
	ack.stable_through = berth_core_stable_through(core, session->agent, &keeps);
	ack.keeps_reports = keeps;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK;
	message.heartbeat_ack = &ack;
	send_copy(session, &message);
}

// A report is acknowledged with all before it, so of several acknowledgements the last is enough.
static bool extends_ack(const struct session *session, const struct berth_effect *effect)
{
	if (!session->outgoing.n_messages) {
		return false;
	}
	Berth__V1__CoordinatorMessage *last = session->outgoing.messages[session->outgoing.n_messages - 1];
	if (last->body_case != BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK ||
		strcmp(last->report_ack->boot_id, effect->boot_id) != 0) {
		return false;
	}
	last->report_ack->through = effect->sequence;
	return true;
}

static void send_report_ack(struct session *session, const struct berth_effect *effect)
{
	if (extends_ack(session, effect)) {
		return;
	}
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__ReportAck ack = BERTH__V1__REPORT_ACK__INIT;
	ack.boot_id = (char *)effect->boot_id;
	ack.through = effect->sequence;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK;
	message.report_ack = &ack;
	send_copy(session, &message);
}

static void refuse(struct session *session, const struct berth_effect *effect)
{
	struct berth_error err;
	berth_fail(&err, effect->code, "%s", effect->reason);
	session_flush(session);
	berth_rpc_finish(session->call, &err);
}

static void send_revoke(struct session *session, const struct berth_effect *effect)
{
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	Berth__V1__Revoke revoke = BERTH__V1__REVOKE__INIT;
	Berth__V1__TrialKey key = BERTH__V1__TRIAL_KEY__INIT;
	key.job_id = (char *)effect->job_id;
	key.index = effect->index;
	key.generation = effect->generation;
	revoke.trial = &key;
	revoke.reason = (char *)effect->reason;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_REVOKE;
	message.revoke = &revoke;
	send_copy(session, &message);
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
	const char *job_id = assignment->trial->job_id;
	char *without = daemon->sessions->without_secrets;
	if (strcmp(job_id, without) == 0) {
		return NULL;
	}
	if (!berth_ledger_get_secrets(daemon->ledger, job_id, &packed, &err)) {
		snprintf(without, BERTH_ID_SIZE, "%s", err.code == BERTH_ERROR_NOT_FOUND ? job_id : "");
		return NULL;
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

// Not cloned: what it points at in the core stands until it is sent, which is before the next decision.
static void send_assignment(struct session *session, const struct berth_core *core, const struct berth_effect *effect)
{
	struct assignment *assignment = berth_alloc(sizeof *assignment);
	Berth__V1__Assignment *message = &assignment->borrowed.message;
	if (!berth_core_assignment(core, effect->job_id, effect->index, effect->generation, &assignment->borrowed)) {
		free(assignment);
		return;
	}
	message->trial_name = berth_core_trial_name(core, effect->job_id, effect->index);
	message->secrets = secrets_of(session->daemon, message);
	session->had_secrets |= message->secrets != NULL;
	berth__v1__coordinator_message__init(&assignment->message);
	assignment->message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT;
	assignment->message.assignment = message;
	send(session, &assignment->message);
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
	struct session *session, *next;
	pthread_mutex_lock(&daemon->sessions->lock);
	HASH_ITER (hh, daemon->sessions->by_id, session, next) {
		if (session->had_secrets) {
			session->had_secrets = false;
			send_copy(session, &message);
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
	struct session *session = berth_rpc_call_data(call);
	switch (effect->kind) {
	case BERTH_EFFECT_WELCOME:
		send_welcome(session, core, effect);
		break;
	case BERTH_EFFECT_REFUSE:
		refuse(session, effect);
		break;
	case BERTH_EFFECT_HEARTBEAT_ACK:
		send_heartbeat_ack(session, core, effect);
		break;
	case BERTH_EFFECT_REPORT_ACK:
		send_report_ack(session, effect);
		break;
	case BERTH_EFFECT_ASSIGN:
		send_assignment(session, core, effect);
		break;
	case BERTH_EFFECT_REVOKE:
		send_revoke(session, effect);
		break;
	default:
		break;
	}
	berth_rpc_call_unref(call);
}
