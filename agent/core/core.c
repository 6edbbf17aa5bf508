// SPDX-License-Identifier: Apache-2.0
// Handshake and heartbeats. Whom to obey is decided in `refusal` alone.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_internal.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define HEARTBEAT_MS_LEAST 10
#define HEARTBEAT_MS_MOST  60000
// So many heartbeats fit into a hold at least, whatever the coordinator asks for.
#define HEARTBEATS_A_HOLD 3
#define OUTBOX_FULL       "256 MiB of its reports are in no backup: run `berth ledger backup`"

static void take_incarnation(struct berth_agent_core *core, const Berth__V1__Incarnation *incarnation)
{
	bool is_signed = incarnation->signature.len == BERTH_SIGNATURE_SIZE;
	core->number = incarnation->number;
	memcpy(core->nonce, incarnation->nonce.data, AGENT_CORE_NONCE_SIZE);
	core->number_signature_size = is_signed ? BERTH_SIGNATURE_SIZE : 0;
	if (is_signed) {
		memcpy(core->number_signature, incarnation->signature.data, BERTH_SIGNATURE_SIZE);
	}
}

static void remember(struct berth_agent_core *core, const Berth__Store__V1__Obeyed *obeyed)
{
	const Berth__V1__Incarnation *incarnation = obeyed->incarnation;
	if (incarnation && incarnation->nonce.len == AGENT_CORE_NONCE_SIZE) {
		take_incarnation(core, incarnation);
	}
	agent_core_head_remember(core, obeyed->seen);
}

struct berth_agent_core *berth_agent_core_new(
	const struct berth_agent_core_config *config, const Berth__Store__V1__Obeyed *obeyed)
{
	struct berth_agent_core *core = berth_alloc(sizeof *core);
	core->fleet = berth_strdup(config->fleet);
	core->boot_id = berth_strdup(config->boot_id);
	core->daemon_id = berth_strdup(config->daemon_id);
	core->platform = berth_strdup(config->platform);
	core->version = berth_strdup(config->version);
	core->capacity = config->capacity;
	core->capabilities_count = config->capabilities_count;
	core->capabilities = berth_realloc_array(NULL, config->capabilities_count + 1, sizeof *core->capabilities);
	for (size_t i = 0; i < config->capabilities_count; i++) {
		core->capabilities[i] = berth_strdup(config->capabilities[i]);
	}
	if (config->ledger_key_size) {
		core->ledger_key = berth_memdup(config->ledger_key_der, config->ledger_key_size);
		core->ledger_key_size = config->ledger_key_size;
	}
	core->renewed_ns = INT64_MIN;
	core->accepting = true;
	core->trouble = berth_strdup("");
	if (obeyed) {
		remember(core, obeyed);
	}
	return core;
}

void berth_agent_core_free(struct berth_agent_core *core)
{
	if (!core) {
		return;
	}
	agent_core_trials_free(core);
	agent_core_outbox_free(core);
	for (size_t i = 0; i < core->capabilities_count; i++) {
		free(core->capabilities[i]);
	}
	free(core->capabilities);
	free(core->ledger_key);
	free(core->fleet);
	free(core->boot_id);
	free(core->daemon_id);
	free(core->platform);
	free(core->version);
	free(core->trouble);
	free(core);
}

void berth_agent_core_load_report(struct berth_agent_core *core, const Berth__V1__Report *report)
{
	agent_core_outbox_add(core, report);
}

void berth_agent_core_reported(
	struct berth_agent_core *core, const Berth__V1__Report *report, struct berth_agent_actions *actions)
{
	agent_core_outbox_add(core, report);
	if (core->stream == AGENT_CORE_OBEYING) {
		agent_core_outbox_send(core, actions);
	}
}

static Berth__V1__Incarnation incarnation_of(struct berth_agent_core *core)
{
	Berth__V1__Incarnation incarnation = BERTH__V1__INCARNATION__INIT;
	incarnation.number = core->number;
	if (core->number) {
		incarnation.nonce = (ProtobufCBinaryData){.data = core->nonce, .len = AGENT_CORE_NONCE_SIZE};
		incarnation.signature =
			(ProtobufCBinaryData){.data = core->number_signature, .len = core->number_signature_size};
	}
	return incarnation;
}

void berth_agent_core_stream_up(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions)
{
	(void)now_ns;
	Berth__V1__VersionRange protocol = BERTH__V1__VERSION_RANGE__INIT;
	protocol.least = BERTH_PROTOCOL_LEAST;
	protocol.most = BERTH_PROTOCOL_MOST;
	Berth__V1__Incarnation obeyed = incarnation_of(core);
	Berth__V1__LedgerHead seen = agent_core_head_seen(core);
	Berth__V1__Hello hello = BERTH__V1__HELLO__INIT;
	hello.protocol = &protocol;
	hello.capabilities = core->capabilities;
	hello.n_capabilities = core->capabilities_count;
	hello.boot_id = core->boot_id;
	hello.daemon_id = core->daemon_id;
	hello.platform = core->platform;
	hello.version = core->version;
	hello.capacity = &core->capacity;
	hello.obeyed = &obeyed;
	hello.seen = &seen;
	BERTH_AUTO_FREE Berth__V1__TrialKey **running = NULL;
	hello.n_running = agent_core_running_keys(core, &running);
	hello.running = running;
	hello.outbox_first = agent_core_outbox_first(core);
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
	message.hello = &hello;
	agent_core_send(actions, &message);
	core->stream = AGENT_CORE_GREETING;
}

void berth_agent_core_stream_down(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions)
{
	(void)now_ns;
	(void)actions;
	core->stream = AGENT_CORE_DOWN;
	core->acknowledged = 0;
	memset(core->heartbeats, 0, sizeof core->heartbeats);
	agent_core_outbox_stream_down(core);
}

// --- whom to obey ---
// Whether the ledger's key made it, as far as this agent can ask.
static bool is_authentic(const struct berth_agent_core *core, const Berth__V1__Incarnation *incarnation)
{
	const struct berth_incarnation name = {
		.fleet = core->fleet, .number = incarnation->number, .nonce = incarnation->nonce.data};
	return !core->ledger_key || berth_incarnation_verify(core->ledger_key, core->ledger_key_size, &name,
					    incarnation->signature.data, incarnation->signature.len, NULL);
}

static char *incarnation_refusal(const struct berth_agent_core *core, const Berth__V1__Incarnation *incarnation)
{
	if (!incarnation || !incarnation->number || incarnation->nonce.len != AGENT_CORE_NONCE_SIZE) {
		return berth_strdup("its Welcome names no incarnation");
	}
	if (incarnation->number < core->number) {
		return berth_format("its incarnation %" PRIu64 " is older than %" PRIu64
				    ", which this agent obeyed: stop the old coordinator",
			incarnation->number, core->number);
	}
	if (incarnation->number == core->number &&
		memcmp(incarnation->nonce.data, core->nonce, AGENT_CORE_NONCE_SIZE) != 0) {
		return berth_format("it is a twin of incarnation %" PRIu64
				    ", which this agent obeys: stop the one that was started from a copy",
			core->number);
	}
	if (incarnation->number > core->number && !is_authentic(core, incarnation)) {
		return berth_format("its incarnation %" PRIu64 " is not signed with the ledger key of this agent's "
				    "enrolment (ledger.pem)",
			incarnation->number);
	}
	return NULL;
}

static char *refusal(const struct berth_agent_core *core, const Berth__V1__Welcome *welcome)
{
	if (welcome->protocol < BERTH_PROTOCOL_LEAST || welcome->protocol > BERTH_PROTOCOL_MOST) {
		return berth_format("it speaks protocol %u and this agent %d to %d: install the same release on both",
			welcome->protocol, BERTH_PROTOCOL_LEAST, BERTH_PROTOCOL_MOST);
	}
	if (strcmp(welcome->fleet, core->fleet) != 0) {
		return berth_format("it is of the fleet \"%s\" and this agent of \"%s\"", welcome->fleet, core->fleet);
	}
	char *reason = incarnation_refusal(core, welcome->incarnation);
	if (reason) {
		return reason;
	}
	reason = agent_core_head_welcome_refusal(core, welcome);
	if (!reason && !welcome->hold_ms) {
		reason = berth_strdup("its Welcome gives no hold_ms");
	}
	return reason;
}

// --- what was seen ---
static void save(struct berth_agent_core *core, bool later, int64_t now_ns, struct berth_agent_actions *actions)
{
	Berth__V1__Incarnation incarnation = incarnation_of(core);
	Berth__V1__LedgerHead seen = agent_core_head_seen(core);
	Berth__Store__V1__Obeyed obeyed = BERTH__STORE__V1__OBEYED__INIT;
	obeyed.incarnation = &incarnation;
	obeyed.seen = &seen;
	struct berth_agent_action *action = agent_core_act(actions, BERTH_AGENT_SAVE_OBEYED);
	action->obeyed = berth_proto_clone(&obeyed);
	action->later = later;
	core->unsaved = false;
	core->saved_ns = now_ns;
}

static void save_when_due(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions)
{
	if (core->unsaved && now_ns - core->saved_ns >= AGENT_CORE_SAVE_NS) {
		save(core, true, now_ns, actions);
	}
}

// --- heartbeats ---
static void heartbeat(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions)
{
	Berth__V1__Heartbeat beat = BERTH__V1__HEARTBEAT__INIT;
	beat.sequence = ++core->heartbeat_sequence;
	BERTH_AUTO_FREE Berth__V1__TrialKey **running = NULL;
	beat.n_running = agent_core_running_keys(core, &running);
	beat.running = running;
	beat.disk_free_mb = core->disk_free_mb;
	bool full = core->outbox_size > BERTH_AGENT_OUTBOX_MAX;
	beat.accepting = core->accepting && !full;
	beat.trouble = full ? (char *)OUTBOX_FULL : core->trouble;
	beat.acknowledged = core->acknowledged;
	beat.outbox_first = agent_core_outbox_first(core);
	beat.outbox_last = agent_core_outbox_last(core);
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT;
	message.heartbeat = &beat;
	agent_core_send(actions, &message);
	core->heartbeats[beat.sequence % AGENT_CORE_HEARTBEATS_MAX] =
		(struct agent_core_heartbeat){.sequence = beat.sequence, .sent_ns = now_ns};
	core->heartbeat_due_ns = now_ns + (int64_t)core->heartbeat_ms * BERTH_NS_PER_MS;
}

static uint64_t pace_ms(const Berth__V1__Welcome *welcome)
{
	uint64_t most = welcome->hold_ms / HEARTBEATS_A_HOLD;
	uint64_t ms = welcome->heartbeat_ms < most ? welcome->heartbeat_ms : most;
	ms = ms < HEARTBEAT_MS_MOST ? ms : HEARTBEAT_MS_MOST;
	return ms > HEARTBEAT_MS_LEAST ? ms : HEARTBEAT_MS_LEAST;
}

// --- messages ---
static void obey(struct berth_agent_core *core, const Berth__V1__Welcome *welcome, int64_t now_ns,
	struct berth_agent_actions *actions)
{
	const Berth__V1__Incarnation *incarnation = welcome->incarnation;
	bool same = incarnation->number == core->number;
	core->stream = AGENT_CORE_OBEYING;
	if (agent_core_head_goes_back(core, welcome)) {
		agent_core_act(actions, BERTH_AGENT_RESTORED)->reason = berth_format(
			"it goes on from event %" PRIu64 ", and event %" PRIu64 " was seen; what is kept is sent again",
			welcome->restore->head->sequence, core->seen.sequence);
		agent_core_head_forget(core);
	}
	take_incarnation(core, incarnation);
	agent_core_head_see(core, welcome->head);
	if (!same || core->unsaved) {
		save(core, same, now_ns, actions);
	}
	// Whether backups are kept is said anew on each stream, by the first heartbeat that is answered.
	core->stable_known = false;
	core->hold_ms = welcome->hold_ms;
	core->heartbeat_ms = pace_ms(welcome);
	agent_core_trials_rehold(core);
	agent_core_outbox_welcome(core, welcome->applied_through, same);
	agent_core_outbox_send(core, actions);
	heartbeat(core, now_ns, actions);
	agent_core_trials_tell(core, actions);
}

static void welcomed(struct berth_agent_core *core, const Berth__V1__Welcome *welcome, int64_t now_ns,
	struct berth_agent_actions *actions)
{
	BERTH_AUTO_FREE char *reason = refusal(core, welcome);
	if (!reason && !agent_core_outbox_wrote(core, core->boot_id, welcome->applied_through)) {
		reason = berth_format("it has report %" PRIu64 " of this life, which was never written: another agent "
				      "uses this agent's certificate",
			welcome->applied_through);
	}
	if (reason) {
		agent_core_close(core, actions, "refused the coordinator: %s", reason);
		return;
	}
	obey(core, welcome, now_ns, actions);
}

static void heartbeat_acked(struct berth_agent_core *core, const Berth__V1__HeartbeatAck *ack, int64_t now_ns,
	struct berth_agent_actions *actions)
{
	BERTH_AUTO_FREE char *reason = agent_core_head_refusal(core, ack->head);
	if (reason) {
		agent_core_close(core, actions, "left the coordinator: %s", reason);
		return;
	}
	agent_core_head_see(core, ack->head);
	save_when_due(core, now_ns, actions);
	core->acknowledged = ack->sequence > core->acknowledged ? ack->sequence : core->acknowledged;
	const struct agent_core_heartbeat *sent = &core->heartbeats[ack->sequence % AGENT_CORE_HEARTBEATS_MAX];
	if (ack->sequence && sent->sequence == ack->sequence && sent->sent_ns > core->renewed_ns) {
		core->renewed_ns = sent->sent_ns;
		agent_core_trials_renew(core, sent->sent_ns);
	}
	core->stable_known = true;
	core->stable_through = ack->stable_through;
	core->keeps_reports = ack->keeps_reports;
	agent_core_outbox_drop(core, actions);
}

static void report_acked(
	struct berth_agent_core *core, const Berth__V1__ReportAck *ack, struct berth_agent_actions *actions)
{
	if (!agent_core_outbox_wrote(core, ack->boot_id, ack->through)) {
		agent_core_close(core, actions,
			"left the coordinator: it acknowledged report %" PRIu64 ", which was never written",
			ack->through);
		return;
	}
	agent_core_outbox_ack(core, ack->boot_id, ack->through);
	agent_core_outbox_drop(core, actions);
	agent_core_outbox_send(core, actions);
}

static void obeyed_message(struct berth_agent_core *core, const Berth__V1__CoordinatorMessage *message, int64_t now_ns,
	struct berth_agent_actions *actions)
{
	switch (message->body_case) {
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME:
		agent_core_close(core, actions, "left the coordinator: it sent a second Welcome on one stream");
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK:
		heartbeat_acked(core, message->heartbeat_ack, now_ns, actions);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK:
		report_acked(core, message->report_ack, actions);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT:
		agent_core_trials_assign(core, message->assignment, now_ns, actions);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_REVOKE:
		agent_core_trials_revoke(core, message->revoke, actions);
		break;
	default: // of a later protocol
		break;
	}
}

void berth_agent_core_message(struct berth_agent_core *core, const Berth__V1__CoordinatorMessage *message,
	int64_t now_ns, struct berth_agent_actions *actions)
{
	if (core->stream == AGENT_CORE_OBEYING) {
		obeyed_message(core, message, now_ns, actions);
	} else if (core->stream == AGENT_CORE_GREETING &&
		   message->body_case == BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME) {
		welcomed(core, message->welcome, now_ns, actions);
	}
}

void berth_agent_core_condition(
	struct berth_agent_core *core, bool accepting, const char *trouble, uint64_t disk_free_mb)
{
	core->accepting = accepting;
	free(core->trouble);
	core->trouble = berth_strdup(trouble ? trouble : "");
	core->disk_free_mb = disk_free_mb;
}

void berth_agent_core_tick(struct berth_agent_core *core, int64_t now_ns, struct berth_agent_actions *actions)
{
	save_when_due(core, now_ns, actions);
	agent_core_trials_tick(core, now_ns, actions);
	if (core->stream == AGENT_CORE_OBEYING && core->heartbeat_due_ns <= now_ns) {
		heartbeat(core, now_ns, actions);
	}
}

int64_t berth_agent_core_next_tick_ns(const struct berth_agent_core *core)
{
	int64_t next_ns = agent_core_trials_next_ns(core);
	if (core->stream == AGENT_CORE_OBEYING && core->heartbeat_due_ns < next_ns) {
		next_ns = core->heartbeat_due_ns;
	}
	if (core->unsaved && core->saved_ns + AGENT_CORE_SAVE_NS < next_ns) {
		next_ns = core->saved_ns + AGENT_CORE_SAVE_NS;
	}
	return next_ns;
}

bool berth_agent_core_in_session(const struct berth_agent_core *core)
{
	return core->stream == AGENT_CORE_OBEYING;
}

uint64_t berth_agent_core_heartbeat_ms(const struct berth_agent_core *core)
{
	return core->heartbeat_ms;
}

bool berth_agent_core_flushed(const struct berth_agent_core *core)
{
	return agent_core_outbox_first(core) == 0;
}

size_t berth_agent_core_in_flight(const struct berth_agent_core *core)
{
	return core->in_flight;
}
