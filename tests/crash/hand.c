// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/hand.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/merkle.h"

#define BEAT_EVERY_MS 100
#define PATIENCE_MS   60000
#define PROOF_MOST    (BERTH_MERKLE_LEVELS + 1)
#define ELAPSED_NS    BERTH_NS_PER_S

static bool is_gone(struct hand *hand, const char *what, const struct berth_error *err)
{
	port_is_gone(hand->port, what, err);
	return false;
}

static bool send_message(struct hand *hand, const Berth__V1__AgentMessage *message)
{
	struct berth_error err = {0};
	Berth__V1__AgentMessage *messages[] = {(Berth__V1__AgentMessage *)message};
	Berth__V1__AgentBatch batch = BERTH__V1__AGENT_BATCH__INIT;
	batch.messages = messages;
	batch.n_messages = 1;
	if (berth_rpc_stream_send(hand->stream, &batch.base, &err)) {
		return true;
	}
	berth_fail(&err, BERTH_ERROR_UNAVAILABLE, "the stream is over");
	return is_gone(hand, "a message to the session", &err);
}

static bool beat(struct hand *hand)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	Berth__V1__Heartbeat heartbeat = BERTH__V1__HEARTBEAT__INIT;
	Berth__V1__TrialKey *running[HAND_TRIALS_MOST];
	heartbeat.running = running;
	for (size_t i = 0; i < HAND_TRIALS_MOST; i++) {
		if (hand->trials[i].assignment && !hand->trials[i].ended) {
			running[heartbeat.n_running++] = hand->trials[i].assignment->trial;
		}
	}
	heartbeat.sequence = ++hand->beats;
	heartbeat.accepting = true;
	heartbeat.outbox_first = hand->outbox ? hand->outbox->message->report->sequence : 0;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT;
	message.heartbeat = &heartbeat;
	return send_message(hand, &message);
}

// --- the ledger's heads ---

static struct berth_head head_of(struct hand *hand, const Berth__V1__LedgerHead *head)
{
	struct berth_head taken = {.fleet = "quay", .size = head->sequence};
	if (head->sequence && (head->leaf_hash.len != BERTH_DIGEST_SIZE || head->root_hash.len != BERTH_DIGEST_SIZE)) {
		port_broken(hand->port, "head %llu has no leaf or root", (unsigned long long)head->sequence);
	}
	if (head->sequence) {
		memcpy(taken.leaf.bytes, head->leaf_hash.data, BERTH_DIGEST_SIZE);
		memcpy(taken.root.bytes, head->root_hash.data, BERTH_DIGEST_SIZE);
	}
	return taken;
}

static void see(struct hand *hand, const Berth__V1__LedgerHead *head)
{
	if (head && head->sequence > hand->seen.size) {
		hand->seen = head_of(hand, head);
	}
}

static void check_continues(struct hand *hand, const Berth__V1__Welcome *welcome)
{
	struct berth_head now = head_of(hand, welcome->head);
	struct berth_digest proof[PROOF_MOST];
	if (!hand->seen.size) {
		return;
	}
	if (now.size < hand->seen.size || welcome->n_consistency > PROOF_MOST ||
		welcome->seen_leaf_hash.len != BERTH_DIGEST_SIZE ||
		memcmp(welcome->seen_leaf_hash.data, hand->seen.leaf.bytes, BERTH_DIGEST_SIZE) != 0) {
		port_broken(hand->port,
			"event %llu was seen committed; life %u has %llu events, or another event there",
			(unsigned long long)hand->seen.size, hand->port->lives, (unsigned long long)now.size);
	}
	for (size_t i = 0; i < welcome->n_consistency; i++) {
		memcpy(proof[i].bytes, welcome->consistency[i].data, BERTH_DIGEST_SIZE);
	}
	if (!berth_merkle_verify_consistency(
		    hand->seen.size, &hand->seen.root, now.size, &now.root, proof, welcome->n_consistency)) {
		port_broken(hand->port, "the ledger of %llu events does not continue the one of %llu that was seen",
			(unsigned long long)now.size, (unsigned long long)hand->seen.size);
	}
	hand->heads++;
}

// --- what comes ---

static struct hand_trial *find(struct hand *hand, const Berth__V1__TrialKey *key)
{
	for (size_t i = 0; i < HAND_TRIALS_MOST; i++) {
		const Berth__V1__Assignment *assignment = hand->trials[i].assignment;
		if (assignment && assignment->trial->index == key->index &&
			assignment->trial->generation == key->generation &&
			strcmp(assignment->trial->job_id, key->job_id) == 0) {
			return &hand->trials[i];
		}
	}
	return NULL;
}

static void take_assignment(struct hand *hand, const Berth__V1__Assignment *assignment)
{
	if (find(hand, assignment->trial)) {
		return; // sent again
	}
	for (size_t i = 0; i < HAND_TRIALS_MOST; i++) {
		if (!hand->trials[i].assignment) {
			hand->trials[i] = (struct hand_trial){.assignment = berth_proto_clone(assignment)};
			return;
		}
	}
	port_broken(hand->port, "more than %d assignments for two slots", HAND_TRIALS_MOST);
}

static void take_ack(struct hand *hand, const Berth__V1__ReportAck *ack)
{
	if (ack->through > hand->reports) {
		port_broken(
			hand->port, "report %llu is acknowledged and was never sent", (unsigned long long)ack->through);
	}
	hand->acknowledged = ack->through > hand->acknowledged ? ack->through : hand->acknowledged;
	while (hand->outbox && hand->outbox->message->report->sequence <= hand->acknowledged) {
		struct hand_report *first = hand->outbox;
		hand->outbox = first->next;
		berth_proto_free(first->message);
		free(first);
	}
}

static void take(struct hand *hand, const Berth__V1__CoordinatorMessage *message)
{
	struct hand_trial *trial;
	switch (message->body_case) {
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK:
		take_ack(hand, message->report_ack);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT:
		take_assignment(hand, message->assignment);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_REVOKE:
		trial = find(hand, message->revoke->trial);
		if (trial) {
			trial->revoked = true;
		}
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK:
		see(hand, message->heartbeat_ack->head);
		break;
	default:
		break;
	}
}

// One batch, or a heartbeat when none comes.
static bool receive(struct hand *hand)
{
	struct berth_error err = {0};
	ProtobufCMessage *message = NULL;
	enum berth_rpc_received received =
		berth_rpc_stream_receive(hand->stream, &message, berth_within_ms(BEAT_EVERY_MS, NULL), &err);
	if (received == BERTH_RPC_FAILED && err.code == BERTH_ERROR_TIMEOUT) {
		return beat(hand);
	}
	if (received != BERTH_RPC_MESSAGE) {
		return is_gone(hand, "the session", &err);
	}
	const Berth__V1__CoordinatorBatch *batch = (const Berth__V1__CoordinatorBatch *)message;
	for (size_t i = 0; i < batch->n_messages; i++) {
		take(hand, batch->messages[i]);
	}
	berth_proto_free(message);
	return true;
}

// --- the session ---

void hand_leave(struct hand *hand)
{
	berth_rpc_stream_free(BERTH_STEAL(hand->stream));
}

static bool greet(struct hand *hand)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	Berth__V1__Hello hello = BERTH__V1__HELLO__INIT;
	Berth__V1__VersionRange range = BERTH__V1__VERSION_RANGE__INIT;
	Berth__V1__Capacity capacity = BERTH__V1__CAPACITY__INIT;
	Berth__V1__LedgerHead seen = BERTH__V1__LEDGER_HEAD__INIT;
	range.least = range.most = 1;
	capacity.cpus = capacity.slots = 2;
	capacity.memory_mb = 4096;
	hello.protocol = &range;
	hello.capacity = &capacity;
	hello.boot_id = (char *)BOOT;
	hello.outbox_first = hand->outbox ? hand->outbox->message->report->sequence : 0;
	if (hand->seen.size) {
		seen.sequence = hand->seen.size;
		seen.leaf_hash = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, hand->seen.leaf.bytes};
		seen.root_hash = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, hand->seen.root.bytes};
		hello.seen = &seen;
	}
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
	message.hello = &hello;
	return send_message(hand, &message);
}

static bool welcomed(struct hand *hand)
{
	struct berth_error err = {0};
	ProtobufCMessage *message = NULL;
	if (berth_rpc_stream_receive(hand->stream, &message, berth_within_ms(PATIENCE_MS, NULL), &err) !=
		BERTH_RPC_MESSAGE) {
		return is_gone(hand, "Hello", &err);
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__CoordinatorBatch *batch = (Berth__V1__CoordinatorBatch *)message;
	const Berth__V1__Welcome *welcome = batch->messages[0]->welcome;
	if (batch->messages[0]->body_case != BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME) {
		port_broken(hand->port, "the first message of a session is no Welcome");
	}
	if (welcome->applied_through < hand->acknowledged) {
		port_broken(hand->port, "report %llu was acknowledged, life %u has applied %llu",
			(unsigned long long)hand->acknowledged, hand->port->lives,
			(unsigned long long)welcome->applied_through);
	}
	hand->acks += hand->acknowledged > 0;
	check_continues(hand, welcome);
	see(hand, welcome->head);
	Berth__V1__ReportAck applied = BERTH__V1__REPORT_ACK__INIT;
	applied.through = welcome->applied_through;
	take_ack(hand, &applied);
	for (size_t i = 1; i < batch->n_messages; i++) {
		take(hand, batch->messages[i]);
	}
	return true;
}

bool hand_join(struct hand *hand)
{
	struct berth_error err = {0};
	hand_leave(hand);
	hand->stream = berth_rpc_stream_open(hand->port->quay.agent_main, &berth__v1__fleet_service__descriptor,
		"Session", berth_within_ms(PATIENCE_MS * 10, NULL), &err);
	if (!hand->stream) {
		return is_gone(hand, "the session", &err);
	}
	if (!greet(hand) || !welcomed(hand)) {
		return false;
	}
	for (const struct hand_report *report = hand->outbox; report; report = report->next) {
		if (!send_message(hand, report->message)) {
			return false;
		}
	}
	return beat(hand);
}

bool hand_take(struct hand *hand, const char *job, struct hand_trial **trial)
{
	struct berth_until until = berth_within_ms(PATIENCE_MS, NULL);
	for (;;) {
		for (size_t i = 0; i < HAND_TRIALS_MOST; i++) {
			struct hand_trial *each = &hand->trials[i];
			if (each->assignment && !each->ended && strcmp(each->assignment->trial->job_id, job) == 0) {
				*trial = each;
				return true;
			}
		}
		if (berth_until_over(until)) {
			port_broken(hand->port, "no trial of job %s is given within %d ms", job, PATIENCE_MS);
		}
		if (!receive(hand)) {
			return false;
		}
	}
}

bool hand_wait_revoked(struct hand *hand, const struct hand_trial *trial)
{
	struct berth_until until = berth_within_ms(PATIENCE_MS, NULL);
	while (!trial->revoked) {
		if (berth_until_over(until)) {
			port_broken(hand->port, "a trial of a cancelled job is not revoked within %d ms", PATIENCE_MS);
		}
		if (!receive(hand)) {
			return false;
		}
	}
	return true;
}

// --- reports ---

// The outbox has it before it is sent, so a failed send changes nothing: the caller joins and goes on behind it.
static bool report(struct hand *hand, Berth__V1__Report *body)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_REPORT;
	message.report = body;
	body->sequence = ++hand->reports;
	struct hand_report *kept = berth_alloc(sizeof *kept);
	kept->message = berth_proto_clone(&message);
	if (hand->outbox) {
		hand->outbox_last->next = kept;
	} else {
		hand->outbox = kept;
	}
	hand->outbox_last = kept;
	return send_message(hand, kept->message);
}

bool hand_move(struct hand *hand, const struct hand_trial *trial, Berth__V1__LeaseState to, Berth__V1__DeathProof proof)
{
	Berth__V1__Report body = BERTH__V1__REPORT__INIT;
	Berth__V1__LeaseMove move = BERTH__V1__LEASE_MOVE__INIT;
	move.lease_id = trial->assignment->leases[0]->lease_id;
	move.state = to;
	move.proof = proof;
	move.elapsed_ns = ELAPSED_NS;
	body.boot_id = (char *)BOOT;
	body.body_case = BERTH__V1__REPORT__BODY_LEASE;
	body.lease = &move;
	return report(hand, &body);
}

bool hand_done(struct hand *hand, struct hand_trial *trial, enum quay_honesty honesty)
{
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__Report *body = quay_done(&hand->port->quay, trial->assignment, honesty);
	trial->ended = true;
	return report(hand, body);
}

bool hand_flush(struct hand *hand)
{
	struct berth_until until = berth_within_ms(PATIENCE_MS, NULL);
	while (hand->outbox) {
		if (berth_until_over(until)) {
			port_broken(hand->port, "report %llu is not acknowledged within %d ms",
				(unsigned long long)hand->outbox->message->report->sequence, PATIENCE_MS);
		}
		if (!receive(hand)) {
			return false;
		}
	}
	return true;
}

void hand_forget(struct hand_trial *trial)
{
	berth_proto_free(trial->assignment);
	*trial = (struct hand_trial){0};
}

void hand_free(struct hand *hand)
{
	hand_leave(hand);
	for (size_t i = 0; i < HAND_TRIALS_MOST; i++) {
		hand_forget(&hand->trials[i]);
	}
	while (hand->outbox) {
		struct hand_report *first = hand->outbox;
		hand->outbox = first->next;
		berth_proto_free(first->message);
		free(first);
	}
}
