// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/evidence/statement.h"
#include "common/evidence/trial_statement.h"
#include "tests/bench/ledger/load.h"

#define TASK_CHECKSUM "0000000000000000000000000000000000000000000000000000000000000000"

static grpc_byte_buffer *pack(const Berth__V1__AgentBatch *batch)
{
	grpc_slice slice = grpc_slice_malloc(berth__v1__agent_batch__get_packed_size(batch));
	berth__v1__agent_batch__pack(batch, GRPC_SLICE_START_PTR(slice));
	grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	return buffer;
}

static grpc_byte_buffer *pack_one(Berth__V1__AgentMessage *message)
{
	Berth__V1__AgentMessage *messages[] = {message};
	Berth__V1__AgentBatch batch = BERTH__V1__AGENT_BATCH__INIT;
	batch.messages = messages;
	batch.n_messages = 1;
	return pack(&batch);
}

grpc_byte_buffer *report_hello(const struct agent *agent)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	Berth__V1__Hello hello = BERTH__V1__HELLO__INIT;
	Berth__V1__VersionRange range = BERTH__V1__VERSION_RANGE__INIT;
	Berth__V1__Capacity capacity = BERTH__V1__CAPACITY__INIT;
	range.least = range.most = 1;
	capacity.cpus = capacity.slots = agent->load->options.slots;
	capacity.memory_mb = 1024 * (uint64_t)agent->load->options.slots;
	hello.protocol = &range;
	hello.capacity = &capacity;
	hello.boot_id = (char *)agent->boot;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
	message.hello = &hello;
	return pack_one(&message);
}

grpc_byte_buffer *report_beat(struct agent *agent)
{
	uint32_t slots = agent->load->options.slots;
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	Berth__V1__Heartbeat beat = BERTH__V1__HEARTBEAT__INIT;
	BERTH_AUTO_FREE Berth__V1__TrialKey *keys = berth_alloc(slots * sizeof *keys);
	BERTH_AUTO_FREE Berth__V1__TrialKey **running = berth_alloc(slots * sizeof(*running));
	for (uint32_t i = 0; i < slots; i++) {
		if (agent->slots[i].busy) {
			Berth__V1__TrialKey *key = &keys[beat.n_running];
			berth__v1__trial_key__init(key);
			key->job_id = agent->load->job;
			key->index = agent->slots[i].index;
			key->generation = agent->slots[i].generation;
			running[beat.n_running++] = key;
		}
	}
	beat.running = running;
	beat.sequence = ++agent->beats;
	beat.acknowledged = agent->beats_answered;
	beat.accepting = true;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT;
	message.heartbeat = &beat;
	return pack_one(&message);
}

// --- completions ---

struct cycle { // what the messages of one completion point into
	Berth__V1__AgentMessage message[LOAD_MOVES_MAX + 1];
	Berth__V1__Report report[LOAD_MOVES_MAX + 1];
	Berth__V1__LeaseMove move[LOAD_MOVES_MAX];
	Berth__V1__TrialDone done;
	Berth__V1__TrialKey key;
	Berth__V1__TrialResult result;
	Berth__V1__Evidence evidence;
	Berth__V1__Attestation attestation, *attestations[1];
	Berth__V1__LeaseReceipt receipt, *receipts[1];
	Berth__V1__Lease lease;
	struct berth_buf statement; // its memory serves the next
	struct berth_digest path[BERTH_STATEMENT_PATH_MAX];
};

static Berth__V1__Report *begin_report(struct agent *agent, struct cycle *cycle, size_t number)
{
	Berth__V1__AgentMessage *message = &cycle->message[number];
	Berth__V1__Report *report = &cycle->report[number];
	berth__v1__agent_message__init(message);
	berth__v1__report__init(report);
	message->body_case = BERTH__V1__AGENT_MESSAGE__BODY_REPORT;
	message->report = report;
	report->sequence = ++agent->reports;
	report->boot_id = agent->boot;
	return report;
}

static size_t add_moves(struct agent *agent, struct cycle *cycle, const struct slot *slot)
{
	static const Berth__V1__LeaseState all[] = {BERTH__V1__LEASE_STATE__LEASE_DISPATCHING,
		BERTH__V1__LEASE_STATE__LEASE_ACTIVE, BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED,
		BERTH__V1__LEASE_STATE__LEASE_RETIRED};
	bool whole = agent->load->options.whole;
	size_t count = whole ? BERTH_COUNT(all) : 1;
	for (size_t i = 0; i < count; i++) {
		Berth__V1__Report *report = begin_report(agent, cycle, i);
		Berth__V1__LeaseMove *move = &cycle->move[i];
		berth__v1__lease_move__init(move);
		move->lease_id = (char *)slot->lease;
		move->state = whole ? all[i] : BERTH__V1__LEASE_STATE__LEASE_RETIRED;
		if (i == count - 1) {
			move->proof =
				whole ? BERTH__V1__DEATH_PROOF__ABSENCE_SEEN : BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED;
			move->elapsed_ns = whole ? BERTH_NS_PER_MS : 0;
		}
		report->body_case = BERTH__V1__REPORT__BODY_LEASE;
		report->lease = move;
	}
	return count;
}

static void add_proofs(struct agent *agent, struct cycle *cycle, const struct slot *slot)
{
	static char digest_text[BERTH_DIGEST_TEXT_SIZE];
	if (!digest_text[0]) {
		struct berth_digest digest = berth_sha256("{}", 2);
		berth_digest_text(&digest, digest_text);
	}
	berth__v1__attestation__init(&cycle->attestation);
	berth__v1__lease_receipt__init(&cycle->receipt);
	berth__v1__lease__init(&cycle->lease);
	cycle->attestation.json = (char *)"{}";
	cycle->attestation.digest = digest_text;
	cycle->lease.lease_id = (char *)slot->lease;
	cycle->lease.job_id = agent->load->job;
	cycle->lease.trial_index = slot->index;
	cycle->lease.generation = slot->generation;
	cycle->lease.state = BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	cycle->receipt.lease = &cycle->lease;
	cycle->attestations[0] = &cycle->attestation;
	cycle->receipts[0] = &cycle->receipt;
	cycle->evidence.attestations = cycle->attestations;
	cycle->evidence.receipts = cycle->receipts;
	cycle->evidence.n_attestations = cycle->evidence.n_receipts = 1;
	cycle->result.outcome = BERTH__V1__OUTCOME__OUTCOME_SCORED;
	cycle->result.rewards_json = (char *)"{\"reward\":1}";
}

static void add_done(struct agent *agent, struct cycle *cycle, const struct slot *slot, size_t number)
{
	Berth__V1__Report *report = begin_report(agent, cycle, number);
	berth__v1__trial_done__init(&cycle->done);
	berth__v1__trial_key__init(&cycle->key);
	berth__v1__trial_result__init(&cycle->result);
	berth__v1__evidence__init(&cycle->evidence);
	cycle->key.job_id = agent->load->job;
	cycle->key.index = slot->index;
	cycle->key.generation = slot->generation;
	if (agent->load->options.whole) {
		add_proofs(agent, cycle, slot);
	} else {
		cycle->result.outcome = BERTH__V1__OUTCOME__OUTCOME_TASK;
	}
	const struct berth_trial_statement statement = {.fleet = "bench",
		.agent = agent->name,
		.task_checksum = TASK_CHECKSUM,
		.trial = &cycle->key,
		.result = &cycle->result};
	struct berth_error err;
	cycle->result.evidence = &cycle->evidence;
	berth_buf_reset(&cycle->statement);
	bench_must(berth_trial_statement_write(&statement, &cycle->statement, &err), &err);
	cycle->evidence.statement = (char *)cycle->statement.data;
	cycle->done.trial = &cycle->key;
	cycle->done.result = &cycle->result;
	report->body_case = BERTH__V1__REPORT__BODY_DONE;
	report->done = &cycle->done;
}

// Together, as an agent's store signs what it syncs together.
static void sign_all(struct agent *agent, struct cycle *cycles, size_t count)
{
	static uint8_t signature[BERTH_SIGNATURE_SIZE];
	struct berth_statement_group *group = berth_statement_group_new();
	struct berth_error err;
	for (size_t i = 0; i < count; i++) {
		berth_statement_group_add(group, cycles[i].statement.data, cycles[i].statement.size);
	}
	bench_must(berth_statement_group_sign(group, agent->load->operator_.signing, signature, &err), &err);
	for (size_t i = 0; i < count; i++) {
		Berth__V1__Evidence *evidence = &cycles[i].evidence;
		size_t hashes = berth_statement_group_path(group, i, cycles[i].path);
		evidence->signature = (ProtobufCBinaryData){sizeof signature, signature};
		evidence->path = (ProtobufCBinaryData){hashes * BERTH_DIGEST_SIZE, cycles[i].path[0].bytes};
		evidence->group_index = (uint32_t)i;
		evidence->group_size = (uint32_t)count;
	}
	berth_statement_group_free(group);
}

grpc_byte_buffer *report_completions(struct agent *agent, const struct planned *planned, size_t count)
{
	static struct cycle cycles[LOAD_BATCH_MAX];
	static Berth__V1__AgentMessage *messages[LOAD_BATCH_MAX * (LOAD_MOVES_MAX + 1)];
	Berth__V1__AgentBatch batch = BERTH__V1__AGENT_BATCH__INIT;
	batch.messages = messages;
	for (size_t i = 0; i < count; i++) {
		const struct slot *slot = &agent->slots[planned[i].slot];
		size_t moves = add_moves(agent, &cycles[i], slot);
		add_done(agent, &cycles[i], slot, moves);
		for (size_t j = 0; j <= moves; j++) {
			messages[batch.n_messages++] = &cycles[i].message[j];
		}
	}
	sign_all(agent, cycles, count);
	return pack(&batch);
}
