// SPDX-License-Identifier: Apache-2.0
// Bidirectional streams straight on the gRPC library, all on one completion queue of one thread, so that the load costs
// less than what it loads.
#pragma once

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/rpc/rpc.h"

struct line;

enum line_event_kind {
	LINE_RECEIVED, // `received` is the caller's
	LINE_SENT,     // the next may be sent
	LINE_OVER,     // the server or the network ended it; nothing more comes
};

struct line_event {
	enum line_event_kind kind;
	void *owner;
	grpc_byte_buffer *received;
};

grpc_completion_queue *line_queue_new(void); // one a process
grpc_channel *line_channel_new(const char *address, const struct berth_rpc_tls *tls);
// Opens the stream and waits for its first message. `owner` comes back with its events.
struct line *line_open(grpc_completion_queue *queue, grpc_channel *channel, const char *path, void *owner);
// Takes the buffer. One send at a time: the next after LINE_SENT.
void line_send(struct line *line, grpc_byte_buffer *buffer);
// False when nothing happened before the deadline (boot clock), or for no reason. A receipt asks for the next message
// by itself.
bool line_next(grpc_completion_queue *queue, int64_t deadline_ns, struct line_event *event);
