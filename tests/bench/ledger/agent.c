// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/bench/ledger/load.h"
#include <grpc/byte_buffer_reader.h>

#define UNACKNOWLEDGED_MAX 4096

struct ring ring_new(size_t item_size, size_t size)
{
	return (struct ring){.items = berth_alloc(item_size * size), .item_size = item_size, .size = size};
}

void ring_push(struct ring *ring, const void *item)
{
	if (ring->count == ring->size) {
		bench_fail("a queue of the load is full");
	}
	size_t at = (ring->head + ring->count++) % ring->size;
	memcpy((char *)ring->items + at * ring->item_size, item, ring->item_size);
}

const void *ring_first(const struct ring *ring)
{
	return ring->count ? (const char *)ring->items + ring->head * ring->item_size : NULL;
}

bool ring_pop(struct ring *ring, void *item)
{
	if (!ring->count) {
		return false;
	}
	memcpy(item, ring_first(ring), ring->item_size);
	ring->head = (ring->head + 1) % ring->size;
	ring->count--;
	return true;
}

bool ring_pop_any(struct ring *ring, void *item)
{
	if (!ring->count) {
		return false;
	}
	size_t at = (ring->head + (size_t)(drand48() * (double)ring->count)) % ring->size;
	char *items = ring->items;
	memcpy(item, items + at * ring->item_size, ring->item_size);
	memmove(items + at * ring->item_size, items + ring->head * ring->item_size, ring->item_size);
	ring->head = (ring->head + 1) % ring->size;
	ring->count--;
	return true;
}

void agent_open(struct load *load, struct agent *agent, uint32_t number)
{
	uint32_t slots = load->options.slots;
	agent->load = load;
	snprintf(agent->name, sizeof agent->name, "agent-%05u", number);
	berth_random_id(agent->boot);
	agent->credentials = operator_agent(&load->operator_, agent->name);
	agent->slots = berth_alloc(slots * sizeof *agent->slots);
	agent->outbox = ring_new(sizeof(struct planned), slots + 1);
	agent->unacknowledged = ring_new(sizeof(struct completion), slots + UNACKNOWLEDGED_MAX);
	agent->freed = ring_new(sizeof(int64_t), 2 * slots + UNACKNOWLEDGED_MAX);
	BERTH_AUTO_FREE char *address = berth_format("127.0.0.1:%d", load->options.port);
	struct berth_rpc_tls tls = credentials_tls(&agent->credentials);
	agent->channel = line_channel_new(address, &tls);
	agent->line = line_open(load->queue, agent->channel, "/berth.v1.FleetService/Session", agent);
	agent->sending = true;
	line_send(agent->line, report_hello(agent));
}

void agent_send(struct agent *agent)
{
	struct planned planned[LOAD_BATCH_MAX];
	size_t count = 0;
	if (agent->sending || agent->over) {
		return;
	}
	if (agent->beat_due) {
		agent->beat_due = false;
		agent->sending = true;
		agent->beat_ns = berth_boot_ns();
		line_send(agent->line, report_beat(agent));
		return;
	}
	if (agent->unacknowledged.count) {
		return; // as an agent does it: what ends meanwhile waits for the acknowledgement
	}
	while (count < agent->load->options.batch && ring_pop(&agent->outbox, &planned[count])) {
		count++;
	}
	if (!count) {
		return;
	}
	agent->sending = true;
	grpc_byte_buffer *buffer = report_completions(agent, planned, count);
	uint64_t each = agent->load->options.whole ? LOAD_MOVES_MAX + 1 : 2;
	for (size_t i = 0; i < count; i++) {
		struct slot *slot = &agent->slots[planned[i].slot];
		struct completion completion = {.through = agent->reports - each * (count - 1 - i),
			.index = slot->index,
			.began_ns = planned[i].began_ns};
		slot->busy = false;
		agent->load->trials[slot->index].sent = true;
		ring_push(&agent->unacknowledged, &completion);
		ring_push(&agent->freed, &planned[i].began_ns);
	}
	line_send(agent->line, buffer);
}

void agent_complete(struct agent *agent, uint32_t slot, int64_t began_ns)
{
	struct planned planned = {slot, began_ns};
	ring_push(&agent->outbox, &planned);
}

void agent_beat(struct agent *agent)
{
	agent->beat_due = !agent->silent;
	agent_send(agent);
}

static void take_ack(struct agent *agent, uint64_t through)
{
	struct load *load = agent->load;
	int64_t now_ns = berth_boot_ns();
	const struct completion *first;
	while ((first = ring_first(&agent->unacknowledged)) && first->through <= through) {
		load->trials[first->index].acknowledged = true;
		if (load->measuring) {
			load->completed++;
			histogram_add(&load->complete, now_ns - first->began_ns);
		}
		struct completion taken;
		ring_pop(&agent->unacknowledged, &taken);
	}
}

// The coordinator heard the agent's last heartbeat a little after it was sent, so what comes out is too long by that.
static void fall_silent(struct agent *agent, struct trial *trial)
{
	struct load *load = agent->load;
	if (trial->generation) {
		histogram_add(&load->regrant, berth_boot_ns() - trial->fenced_ns);
	} else {
		agent->silent = true;
		trial->fenced_ns = agent->beat_ns + load->options.fence_ms * BERTH_NS_PER_MS;
	}
}

static void take_assignment(struct agent *agent, const Berth__V1__Assignment *assignment)
{
	struct load *load = agent->load;
	uint32_t index = assignment->trial->index, free_slot = 0;
	while (free_slot < load->options.slots && agent->slots[free_slot].busy) {
		free_slot++;
	}
	if (free_slot == load->options.slots || index >= load->trials_count || assignment->n_leases != 1) {
		bench_fail("an assignment that does not fit: trial %u, %zu leases", index, assignment->n_leases);
	}
	struct slot *slot = &agent->slots[free_slot];
	slot->busy = true;
	slot->index = index;
	slot->generation = assignment->trial->generation;
	snprintf(slot->lease, sizeof slot->lease, "%s", assignment->leases[0]->lease_id);
	struct trial *trial = &load->trials[index];
	if (load->options.fence_ms) {
		fall_silent(agent, trial);
	} else {
		load->doubled += trial->generation != 0 || trial->acknowledged;
	}
	trial->generation = slot->generation;
	int64_t began_ns;
	bool known = ring_pop(&agent->freed, &began_ns);
	if (load->measuring) {
		load->granted++;
		if (known) {
			histogram_add(&load->grant, berth_boot_ns() - began_ns);
		}
	}
	if (!load->first_grant_ns) {
		load->first_grant_ns = berth_boot_ns();
	}
	load_holds(load, agent, free_slot);
}

static void take_message(struct agent *agent, const Berth__V1__CoordinatorMessage *message)
{
	struct load *load = agent->load;
	switch (message->body_case) {
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME:
		if (!load->options.beat_ms) {
			load->options.beat_ms = (int64_t)message->welcome->heartbeat_ms;
		}
		agent_beat(agent);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK:
		agent->beats_answered = message->heartbeat_ack->sequence;
		load->beats += load->measuring;
		load->ready += !agent->ready;
		agent->ready = true;
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK:
		take_ack(agent, message->report_ack->through);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT:
		take_assignment(agent, message->assignment);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_REVOKE:
		load->revoked++;
		break;
	default:
		break;
	}
}

struct arena {
	char *room;
	size_t used, size;
};

// Unpacked messages live until the next: their memory is taken in one piece.
static void *take_memory(void *context, size_t size)
{
	struct arena *arena = context;
	size_t at = arena->used;
	arena->used += (size + 15) / 16 * 16;
	if (arena->used > arena->size) {
		bench_fail("a message of the coordinator is larger than the load expects");
	}
	return arena->room + at;
}

static void leave_memory(void *context, void *memory)
{
	(void)context, (void)memory;
}

static void take_batch(struct agent *agent, grpc_byte_buffer *buffer)
{
	static struct arena arena = {.size = 64 * 1024 * 1024};
	ProtobufCAllocator allocator = {take_memory, leave_memory, &arena};
	arena.room = arena.room ? arena.room : berth_alloc(arena.size);
	arena.used = 0;
	grpc_byte_buffer_reader reader;
	grpc_byte_buffer_reader_init(&reader, buffer);
	grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
	Berth__V1__CoordinatorBatch *batch =
		berth__v1__coordinator_batch__unpack(&allocator, GRPC_SLICE_LENGTH(bytes), GRPC_SLICE_START_PTR(bytes));
	for (size_t i = 0; batch && i < batch->n_messages; i++) {
		take_message(agent, batch->messages[i]);
	}
	agent->load->messages += agent->load->measuring;
	grpc_slice_unref(bytes);
	grpc_byte_buffer_reader_destroy(&reader);
	grpc_byte_buffer_destroy(buffer);
}

void agent_event(struct agent *agent, struct line_event *event)
{
	switch (event->kind) {
	case LINE_RECEIVED:
		take_batch(agent, event->received);
		break;
	case LINE_SENT:
		agent->sending = false;
		break;
	case LINE_OVER:
		agent->over = true;
		agent->load->over++;
		return;
	}
	agent_send(agent);
}
