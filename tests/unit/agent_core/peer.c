// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent_core/peer.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/codec/proto.h"

void peer_open(struct peer *peer, uint32_t slots, const Berth__Store__V1__Obeyed *obeyed)
{
	static const char *const capabilities[] = {"local"};
	struct berth_agent_core_config config = {
		.fleet = PEER_FLEET,
		.boot_id = PEER_BOOT,
		.daemon_id = "daemon",
		.platform = "linux/amd64",
		.version = "1",
		.capacity = BERTH__V1__CAPACITY__INIT,
		.capabilities = capabilities,
		.capabilities_count = 1,
	};
	config.capacity.slots = slots;
	memset(peer, 0, sizeof *peer);
	peer->core = berth_agent_core_new(&config, obeyed);
	peer->now_ns = S(100);
}

void peer_close(struct peer *peer)
{
	berth_agent_actions_clear(&peer->actions);
	berth_agent_core_free(peer->core);
}

static struct berth_agent_actions *fresh(struct peer *peer)
{
	berth_agent_actions_clear(&peer->actions);
	return &peer->actions;
}

void peer_stream_up(struct peer *peer)
{
	berth_agent_core_stream_up(peer->core, peer->now_ns, fresh(peer));
}

void peer_stream_down(struct peer *peer)
{
	berth_agent_core_stream_down(peer->core, peer->now_ns, fresh(peer));
}

void peer_tick(struct peer *peer, int64_t now_ns)
{
	peer->now_ns = now_ns;
	berth_agent_core_tick(peer->core, now_ns, fresh(peer));
}

static void receive(struct peer *peer, Berth__V1__CoordinatorMessage *message)
{
	berth_agent_core_message(peer->core, message, peer->now_ns, fresh(peer));
}

uint8_t peer_leaf_of(uint64_t sequence)
{
	return (uint8_t)(1 + sequence % 250);
}

void peer_welcome(struct peer *peer, const struct peer_welcome *w)
{
	uint8_t nonce[16], head_leaf[32], seen_leaf[32];
	memset(nonce, w->nonce, sizeof nonce);
	memset(head_leaf, w->head_leaf ? w->head_leaf : peer_leaf_of(w->head), sizeof head_leaf);
	memset(seen_leaf, w->seen_leaf ? w->seen_leaf : peer_leaf_of(w->seen), sizeof seen_leaf);
	Berth__V1__Incarnation incarnation = BERTH__V1__INCARNATION__INIT;
	incarnation.number = w->number;
	incarnation.nonce = (ProtobufCBinaryData){.data = nonce, .len = sizeof nonce};
	Berth__V1__LedgerHead head = BERTH__V1__LEDGER_HEAD__INIT;
	head.sequence = w->head;
	head.leaf_hash = (ProtobufCBinaryData){.data = head_leaf, .len = w->head ? sizeof head_leaf : 0};
	Berth__V1__Welcome welcome = BERTH__V1__WELCOME__INIT;
	welcome.protocol = w->protocol ? w->protocol : 1;
	welcome.incarnation = &incarnation;
	welcome.head = &head;
	welcome.seen_leaf_hash = (ProtobufCBinaryData){.data = seen_leaf, .len = w->seen ? sizeof seen_leaf : 0};
	welcome.fleet = (char *)(w->fleet ? w->fleet : PEER_FLEET);
	welcome.hold_ms = w->hold_ms ? w->hold_ms : PEER_HOLD_MS;
	welcome.heartbeat_ms = PEER_BEAT_MS;
	welcome.applied_through = w->applied_through;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME;
	message.welcome = &welcome;
	receive(peer, &message);
}

void peer_heartbeat_ack(struct peer *peer, uint64_t sequence, uint64_t at, uint8_t leaf, uint64_t stable_through)
{
	uint8_t bytes[32];
	memset(bytes, leaf ? leaf : peer_leaf_of(at), sizeof bytes);
	Berth__V1__LedgerHead head = BERTH__V1__LEDGER_HEAD__INIT;
	head.sequence = at;
	head.leaf_hash = (ProtobufCBinaryData){.data = bytes, .len = sizeof bytes};
	Berth__V1__HeartbeatAck ack = BERTH__V1__HEARTBEAT_ACK__INIT;
	ack.sequence = sequence;
	ack.head = &head;
	ack.stable_through = stable_through;
	ack.keeps_reports = peer->keeps_reports || stable_through;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK;
	message.heartbeat_ack = &ack;
	receive(peer, &message);
}

void peer_report_ack(struct peer *peer, const char *boot_id, uint64_t through)
{
	Berth__V1__ReportAck ack = BERTH__V1__REPORT_ACK__INIT;
	ack.boot_id = (char *)boot_id;
	ack.through = through;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK;
	message.report_ack = &ack;
	receive(peer, &message);
}

static Berth__V1__TrialKey key_of(const char *job_id, uint32_t index, uint32_t generation)
{
	Berth__V1__TrialKey key = BERTH__V1__TRIAL_KEY__INIT;
	key.job_id = (char *)job_id;
	key.index = index;
	key.generation = generation;
	return key;
}

void peer_assign(struct peer *peer, const char *job_id, uint32_t index, uint32_t generation)
{
	Berth__V1__TrialKey key = key_of(job_id, index, generation);
	Berth__V1__Assignment assignment = BERTH__V1__ASSIGNMENT__INIT;
	assignment.trial = &key;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT;
	message.assignment = &assignment;
	receive(peer, &message);
}

void peer_revoke(struct peer *peer, const char *job_id, uint32_t index, uint32_t generation)
{
	Berth__V1__TrialKey key = key_of(job_id, index, generation);
	Berth__V1__Revoke revoke = BERTH__V1__REVOKE__INIT;
	revoke.trial = &key;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_REVOKE;
	message.revoke = &revoke;
	receive(peer, &message);
}

void peer_ended(struct peer *peer, const char *job_id, uint32_t index, uint32_t generation)
{
	Berth__V1__TrialKey key = key_of(job_id, index, generation);
	berth_agent_core_trial_ended(peer->core, &key);
}

static Berth__V1__Report move_of(Berth__V1__LeaseMove *move, const char *boot_id, uint64_t sequence)
{
	Berth__V1__Report report = BERTH__V1__REPORT__INIT;
	report.sequence = sequence;
	report.boot_id = (char *)boot_id;
	report.body_case = BERTH__V1__REPORT__BODY_LEASE;
	report.lease = move;
	return report;
}

void peer_reported(struct peer *peer, uint64_t sequence)
{
	Berth__V1__LeaseMove move = BERTH__V1__LEASE_MOVE__INIT;
	Berth__V1__Report report = move_of(&move, PEER_BOOT, sequence);
	berth_agent_core_reported(peer->core, &report, fresh(peer));
}

void peer_load(struct peer *peer, const char *boot_id, uint64_t sequence)
{
	Berth__V1__LeaseMove move = BERTH__V1__LEASE_MOVE__INIT;
	Berth__V1__Report report = move_of(&move, boot_id, sequence);
	berth_agent_core_load_report(peer->core, &report);
}

void peer_reported_done(struct peer *peer, uint64_t sequence, const char *job_id, uint32_t index, uint32_t generation)
{
	Berth__V1__TrialKey key = key_of(job_id, index, generation);
	Berth__V1__TrialDone done = BERTH__V1__TRIAL_DONE__INIT;
	done.trial = &key;
	Berth__V1__Report report = BERTH__V1__REPORT__INIT;
	report.sequence = sequence;
	report.boot_id = (char *)PEER_BOOT;
	report.body_case = BERTH__V1__REPORT__BODY_DONE;
	report.done = &done;
	berth_agent_core_reported(peer->core, &report, fresh(peer));
}

void peer_in_session(struct peer *peer)
{
	peer_stream_up(peer);
	peer_welcome(peer, &(struct peer_welcome){.number = 1, .nonce = 7, .head = 5});
	assert_true(berth_agent_core_in_session(peer->core));
}

size_t peer_count(const struct peer *peer, enum berth_agent_action_kind kind)
{
	size_t count = 0;
	for (size_t i = 0; i < peer->actions.count; i++) {
		count += peer->actions.items[i].kind == kind;
	}
	return count;
}

const struct berth_agent_action *peer_action(const struct peer *peer, enum berth_agent_action_kind kind, size_t n)
{
	for (size_t i = 0; i < peer->actions.count; i++) {
		if (peer->actions.items[i].kind == kind && n-- == 0) {
			return &peer->actions.items[i];
		}
	}
	fail_msg("no such action of kind %d; there are: %s", (int)kind, peer_trace(peer));
	return NULL;
}

static void trace_message(struct berth_buf *text, const Berth__V1__AgentMessage *message)
{
	switch (message->body_case) {
	case BERTH__V1__AGENT_MESSAGE__BODY_HELLO:
		berth_buf_add_text(text, "H");
		break;
	case BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT:
		berth_buf_add_text(text, "B");
		break;
	case BERTH__V1__AGENT_MESSAGE__BODY_PROGRESS:
		berth_buf_add_text(text, "P");
		break;
	default:
		berth_buf_printf(text, "%c:%d", message->report->boot_id[15], (int)message->report->sequence);
		break;
	}
}

static void trace_action(struct berth_buf *text, const struct berth_agent_action *action)
{
	switch (action->kind) {
	case BERTH_AGENT_SEND:
		trace_message(text, action->message);
		break;
	case BERTH_AGENT_SAVE_OBEYED:
		berth_buf_add_text(text, "S");
		break;
	case BERTH_AGENT_RESTORED:
		berth_buf_add_text(text, "R");
		break;
	case BERTH_AGENT_CLOSE:
		berth_buf_add_text(text, "C");
		break;
	case BERTH_AGENT_START:
		berth_buf_printf(
			text, "+%u.%u", action->assignment->trial->index, action->assignment->trial->generation);
		break;
	case BERTH_AGENT_STOP:
		berth_buf_printf(text, "-%u.%u", action->trial->index, action->trial->generation);
		break;
	case BERTH_AGENT_DROP_REPORTS:
		berth_buf_printf(text, "D%c:%d", action->boot_id[15], (int)action->through);
		break;
	}
}

// One text for each thing that a test may compare at once, valid until the next call.
static const char *keep(struct berth_buf *text)
{
	static char kept[4096];
	snprintf(kept, sizeof kept, "%s", berth_buf_text(text));
	return kept;
}

const char *peer_trace(const struct peer *peer)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	for (size_t i = 0; i < peer->actions.count; i++) {
		berth_buf_add_text(&text, i ? " " : "");
		trace_action(&text, &peer->actions.items[i]);
	}
	return keep(&text);
}

const char *peer_running(const struct peer *peer)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	for (size_t i = peer->actions.count; i-- > 0;) {
		const Berth__V1__AgentMessage *message = peer->actions.items[i].message;
		if (!message || message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_REPORT) {
			continue;
		}
		bool hello = message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
		size_t count = hello ? message->hello->n_running : message->heartbeat->n_running;
		Berth__V1__TrialKey **keys = hello ? message->hello->running : message->heartbeat->running;
		for (size_t k = 0; k < count; k++) {
			berth_buf_printf(&text, "%s%u.%u", k ? " " : "", keys[k]->index, keys[k]->generation);
		}
		break;
	}
	return keep(&text);
}
