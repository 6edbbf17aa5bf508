// SPDX-License-Identifier: Apache-2.0
// What the agent has to say and has not sent: one batch. A greeting and a heartbeat leave at once and take everything
// along; a result does so unless reports are on their way: then it waits for their acknowledgement, so that an agent
// whose trials end faster than the coordinator answers says more at a time and not more often. A lease's move and
// progress wait a moment for company. Each batch costs both sides a wake-up, a sync and a packet. All of it is in the
// outbox or volatile, so nothing is lost with it. One thread.
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
	size_t reports; // among the messages
	bool has_result;
};

void outgoing_init(struct outgoing *outgoing);
void outgoing_clear(struct outgoing *outgoing);
// Takes the message. A trial's newer progress replaces the older one.
void outgoing_add(struct outgoing *outgoing, Berth__V1__AgentMessage *message, int64_t now_ns);
// True when it is due. `in_flight` counts the reports that are not acknowledged, with those that are in here.
bool outgoing_leaves(const struct outgoing *outgoing, size_t in_flight, int64_t now_ns);
// True when the message has no room: what is there must leave first.
bool outgoing_is_full(const struct outgoing *outgoing, const Berth__V1__AgentMessage *message);
