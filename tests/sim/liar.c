// SPDX-License-Identifier: Apache-2.0
// F34: an agent that was enrolled and lies. It speaks the protocol as far as it must to be heard, and says of other
// agents' trials and leases whatever comes to its mind, and of whom it obeys. It takes no trials.
#include <stdlib.h>
#include <string.h>

#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/sim/audit.h"
#include "tests/sim/check.h"
#include "tests/sim/world.h"

#define LIAR_LINK   (SIM_LINKS_MAX - 3)
#define BATCH_MOST  4
#define BATCHES     12 // on a stream, at most
#define PAUSE_MS    3000
#define LISTEN_MS   50
#define TEXT_SIZE   200
#define ODD_NUMBERS 8

static struct {
	struct sim_random random;
	struct sim_host host;
	struct berth_cancel *stop;
	char boot_id[33];
	uint64_t sequence; // of the newest report that the coordinator has
	char lease_id[33], text[TEXT_SIZE + 1];
	Berth__V1__TrialKey trial;
} liar;

static int64_t odd_number(void)
{
	static const int64_t numbers[ODD_NUMBERS] = {0, 1, -1, INT64_MAX, INT64_MIN, 1000000000, UINT32_MAX, 7};
	return numbers[sim_random_below(&liar.random, ODD_NUMBERS)];
}

static char *odd_text(void)
{
	size_t size = (size_t)sim_random_below(&liar.random, TEXT_SIZE + 1);
	memset(liar.text, sim_random_chance(&liar.random, 500) ? 'x' : '/', size);
	liar.text[size] = 0;
	return liar.text;
}

static bool send(struct berth_rpc_stream *stream, Berth__V1__AgentMessage **messages, size_t count)
{
	Berth__V1__AgentBatch batch = BERTH__V1__AGENT_BATCH__INIT;
	struct berth_error err;
	batch.messages = messages;
	batch.n_messages = count;
	return berth_rpc_stream_send(stream, &batch.base, &err);
}

static void make_up_a_coordinator(Berth__V1__Incarnation *obeyed)
{
	static uint8_t nonce[16], signature[64];
	nonce[0] = signature[0] = (uint8_t)sim_random_below(&liar.random, 256);
	obeyed->number = (uint64_t)odd_number();
	obeyed->nonce =
		(ProtobufCBinaryData){.data = nonce, .len = sim_random_chance(&liar.random, 950) ? sizeof nonce : 3};
	obeyed->signature = (ProtobufCBinaryData){
		.data = signature, .len = sim_random_chance(&liar.random, 500) ? sizeof signature : 0};
}

static bool greet(struct berth_rpc_stream *stream)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT, *messages = &message;
	Berth__V1__Hello hello = BERTH__V1__HELLO__INIT;
	Berth__V1__VersionRange range = BERTH__V1__VERSION_RANGE__INIT;
	Berth__V1__TrialKey *running = &liar.trial;
	range.least = range.most = sim_random_chance(&liar.random, 950) ? 1 : (uint32_t)odd_number();
	hello.protocol = &range;
	hello.boot_id = liar.boot_id;
	hello.version = odd_text();
	if (sim_audit_pick(&liar.random, &liar.trial, liar.lease_id) && sim_random_chance(&liar.random, 500)) {
		hello.running = &running;
		hello.n_running = 1;
	}
	Berth__V1__Incarnation obeyed = BERTH__V1__INCARNATION__INIT;
	if (sim_random_chance(&liar.random, 200)) {
		make_up_a_coordinator(&obeyed);
		hello.obeyed = &obeyed;
	}
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
	message.hello = &hello;
	return send(stream, &messages, 1);
}

// --- one lie ---
static void about_a_lease(Berth__V1__Report *report, Berth__V1__LeaseMove *move)
{
	report->body_case = BERTH__V1__REPORT__BODY_LEASE;
	report->lease = move;
	move->lease_id = sim_random_chance(&liar.random, 900) ? liar.lease_id : odd_text();
	move->proof = (Berth__V1__DeathProof)sim_random_below(&liar.random, 8);
	move->elapsed_ns = odd_number();
	if (sim_random_chance(&liar.random, 500)) {
		move->state = BERTH__V1__LEASE_STATE__LEASE_RETIRED; // the lie that would pay, and nothing odd about it
		return;
	}
	move->state = (Berth__V1__LeaseState)sim_random_below(&liar.random, 9);
	move->provider_expiry_at_ns = odd_number();
	move->expected_end_at_ns = odd_number();
}

static void about_a_trial(Berth__V1__Report *report, Berth__V1__TrialDone *done, Berth__V1__TrialResult *result)
{
	report->body_case = BERTH__V1__REPORT__BODY_DONE;
	report->done = done;
	done->trial = sim_random_chance(&liar.random, 950) ? &liar.trial : NULL;
	done->result = sim_random_chance(&liar.random, 950) ? result : NULL;
	result->outcome = (Berth__V1__Outcome)sim_random_below(&liar.random, 8);
	result->rewards_json = (char *)"{\"reward\": 1.0}";
	liar.trial.generation += sim_random_chance(&liar.random, 200);
	liar.trial.index = sim_random_chance(&liar.random, 50) ? (uint32_t)odd_number() : liar.trial.index;
}

static bool report(struct berth_rpc_stream *stream)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT, *messages = &message;
	Berth__V1__Report body = BERTH__V1__REPORT__INIT;
	Berth__V1__LeaseMove move = BERTH__V1__LEASE_MOVE__INIT;
	Berth__V1__TrialDone done = BERTH__V1__TRIAL_DONE__INIT;
	Berth__V1__TrialResult result = BERTH__V1__TRIAL_RESULT__INIT;
	body.boot_id = sim_random_chance(&liar.random, 950) ? liar.boot_id : odd_text();
	body.sequence = sim_random_chance(&liar.random, 900) ? ++liar.sequence : (uint64_t)odd_number();
	switch (sim_random_below(&liar.random, 5)) {
	case 0:
	case 1:
		about_a_lease(&body, &move);
		break;
	case 2:
	case 3:
		about_a_trial(&body, &done, &result);
		break;
	default:
		break; // a report of a newer version
	}
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_REPORT;
	message.report = &body;
	return send(stream, &messages, 1);
}

static bool beat(struct berth_rpc_stream *stream)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT, *messages[BATCH_MOST];
	Berth__V1__Heartbeat heartbeat = BERTH__V1__HEARTBEAT__INIT;
	Berth__V1__TrialKey *running = &liar.trial;
	heartbeat.sequence = (uint64_t)odd_number();
	heartbeat.acknowledged = (uint64_t)odd_number();
	heartbeat.outbox_first = (uint64_t)odd_number();
	heartbeat.outbox_last = (uint64_t)odd_number();
	heartbeat.accepting = true;
	heartbeat.running = &running;
	heartbeat.n_running = sim_random_below(&liar.random, 2);
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT;
	message.heartbeat = &heartbeat;
	Berth__V1__Progress progress = BERTH__V1__PROGRESS__INIT;
	if (sim_random_chance(&liar.random, 300)) {
		progress.trial = &liar.trial;
		progress.phase = odd_text();
		message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_PROGRESS;
		message.progress = &progress;
	} else if (sim_random_chance(&liar.random, 50)) {
		message.body_case = BERTH__V1__AGENT_MESSAGE__BODY__NOT_SET;
	}
	size_t count = (size_t)sim_random_between(&liar.random, 1, BATCH_MOST);
	for (size_t i = 0; i < count; i++) {
		messages[i] = &message;
	}
	return send(stream, messages, count);
}

// --- the process ---
// A report that is not the next one is not believed whatever it says, so a liar keeps count.
static void count(const Berth__V1__CoordinatorMessage *message)
{
	if (message->body_case == BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME) {
		liar.sequence = message->welcome->applied_through;
	} else if (message->body_case == BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK) {
		liar.sequence = message->report_ack->through;
	}
}

static void listen(struct berth_rpc_stream *stream)
{
	ProtobufCMessage *message = NULL;
	struct berth_error err;
	while (berth_rpc_stream_receive(stream, &message, berth_within_ms(LISTEN_MS, liar.stop), &err) ==
		BERTH_RPC_MESSAGE) {
		const Berth__V1__CoordinatorBatch *batch = (const Berth__V1__CoordinatorBatch *)message;
		for (size_t i = 0; i < batch->n_messages; i++) {
			count(batch->messages[i]);
		}
		berth_proto_free(BERTH_STEAL(message));
	}
}

static void talk(struct berth_rpc_channel *channel, struct berth_until until)
{
	struct berth_error err;
	struct berth_rpc_stream *stream =
		berth_rpc_stream_open(channel, &berth__v1__fleet_service__descriptor, "Session", until, &err);
	bool heard = greet(stream);
	listen(stream);
	for (int i = 0; heard && i < BATCHES; i++) {
		int64_t pause_ms = sim_random_between(&liar.random, 1, PAUSE_MS);
		if (!berth_sleep_ms(pause_ms, until, NULL)) {
			break;
		}
		if (sim_audit_pick(&liar.random, &liar.trial, liar.lease_id)) {
			heard = sim_random_chance(&liar.random, 700) ? report(stream) : beat(stream);
		}
		listen(stream);
	}
	berth_rpc_stream_free(stream);
}

static void run(struct sim_process *process)
{
	(void)process;
	struct berth_rpc_channel *channel =
		sim_net_channel(&sim_world.user_address, LIAR_LINK, BERTH_ROLE_AGENT, "mallory", NULL);
	liar.stop = berth_cancel_new(NULL);
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = liar.stop};
	while (berth_sleep_ms(PAUSE_MS, until, NULL)) {
		if (sim_audit_is_enrolled("mallory", "")) {
			talk(channel, until);
		}
	}
	berth_cancel_free(BERTH_STEAL(liar.stop));
}

static void stop(struct sim_process *process)
{
	(void)process;
	if (liar.stop) {
		berth_cancel_fire(liar.stop);
	}
}

static void died(struct sim_process *process)
{
	sim_net_process_died(process);
}

void sim_liar_begin(void)
{
	struct sim_process *process = &sim_world.liar;
	if (process->main || sim_world.backs_up) {
		return; // one is enough
	}
	memset(&liar, 0, sizeof liar);
	liar.random = sim_random_stream(sim_world.seed, SIM_STREAM_LIAR);
	liar.host = sim_world.user_host;
	berth__v1__trial_key__init(&liar.trial);
	snprintf(liar.boot_id, sizeof liar.boot_id, "%032d", 1);
	snprintf(process->name, sizeof process->name, "liar");
	process->host = &liar.host;
	process->main = run;
	process->stop = stop;
	process->died = died;
	sim_process_begin(process);
	sim_coordinator_look(&sim_world.coordinator);
}

void sim_liar_end(void)
{
	struct sim_process *process = &sim_world.liar;
	if (!process->dead && process->threads_count) {
		sim_process_die(process);
	}
}
