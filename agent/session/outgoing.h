// SPDX-License-Identifier: Apache-2.0
// What the agent has to say and has not sent: one batch. A greeting, a heartbeat and a result leave at once and take
// everything along; a lease's move and progress wait a moment for company, since each batch costs both sides a wake-up,
// a sync and a packet. All of it is in the outbox or volatile, so nothing is lost with it. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/v1/fleet.pb-c.h"

#define OUTGOING_MESSAGES_MAX 256
#define OUTGOING_SIZE_MAX     (1024 * 1024) // of a batch that holds more than one message
#define OUTGOING_WAIT_MS      5000

struct outgoing {
	Berth__V1__AgentBatch batch;
	size_t size;    // bytes
	int64_t due_ns; // boot clock, INT64_MAX: nothing waits
};

void outgoing_init(struct outgoing *outgoing);
void outgoing_clear(struct outgoing *outgoing);
// Takes the message. A trial's newer progress replaces the older one.
void outgoing_add(struct outgoing *outgoing, Berth__V1__AgentMessage *message, int64_t now_ns);
// True when the message has no room: what is there must leave first.
bool outgoing_is_full(const struct outgoing *outgoing, const Berth__V1__AgentMessage *message);
