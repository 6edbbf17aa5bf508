// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ledger/line.h"

#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/mem.h"

#define MESSAGE_BYTES (16 * 1024 * 1024)

enum tag_kind { TAG_OPENED, TAG_READ, TAG_WRITE, TAG_STATUS };

struct tag {
	enum tag_kind kind;
	struct line *line;
};

struct line {
	grpc_call *call;
	void *owner;
	struct tag opened, read, write, status_tag;
	grpc_byte_buffer *incoming, *outgoing;
	grpc_metadata_array headers, trailers;
	grpc_status_code status;
	grpc_slice message;
	bool over;
};

grpc_completion_queue *line_queue_new(void)
{
	return grpc_completion_queue_create_for_next(NULL);
}

grpc_channel *line_channel_new(const char *address, const struct berth_rpc_tls *tls)
{
	grpc_arg args[] = {
		{.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, .value.integer = 1},
		{.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_HTTP2_BDP_PROBE, .value.integer = 0},
		{.type = GRPC_ARG_INTEGER,
			.key = (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
			.value.integer = MESSAGE_BYTES},
	};
	grpc_channel_args list = {BERTH_COUNT(args), args};
	grpc_channel_credentials *credentials;
	if (tls) {
		grpc_ssl_pem_key_cert_pair pair = {tls->key, tls->certificate};
		credentials = grpc_ssl_credentials_create_ex(tls->authority, &pair, NULL, NULL);
	} else {
		credentials = grpc_insecure_credentials_create();
	}
	grpc_channel *channel = grpc_channel_create(address, credentials, &list);
	grpc_channel_credentials_release(credentials);
	return channel;
}

static void start(struct line *line, const grpc_op *ops, size_t count, struct tag *tag)
{
	if (grpc_call_start_batch(line->call, ops, count, tag, NULL) != GRPC_CALL_OK) {
		abort();
	}
}

static void read_next(struct line *line)
{
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &line->incoming};
	start(line, &op, 1, &line->read);
}

struct line *line_open(grpc_completion_queue *queue, grpc_channel *channel, const char *path, void *owner)
{
	struct line *line = berth_alloc(sizeof *line);
	line->owner = owner;
	line->message = grpc_empty_slice();
	line->opened = (struct tag){TAG_OPENED, line};
	line->read = (struct tag){TAG_READ, line};
	line->write = (struct tag){TAG_WRITE, line};
	line->status_tag = (struct tag){TAG_STATUS, line};
	line->call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
		grpc_slice_from_static_string(path), NULL, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
	start(line, &open, 1, &line->opened);
	grpc_op end[] = {
		{.op = GRPC_OP_RECV_INITIAL_METADATA,
			.data.recv_initial_metadata.recv_initial_metadata = &line->headers},
		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
			.data.recv_status_on_client = {.trailing_metadata = &line->trailers,
				.status = &line->status,
				.status_details = &line->message}},
	};
	start(line, end, BERTH_COUNT(end), &line->status_tag);
	read_next(line);
	return line;
}

void line_send(struct line *line, grpc_byte_buffer *buffer)
{
	line->outgoing = buffer;
	grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer};
	start(line, &op, 1, &line->write);
}

// What the completion of a tag means to the owner; false: nothing.
static bool take(struct tag *tag, bool success, struct line_event *event)
{
	struct line *line = tag->line;
	event->owner = line->owner;
	switch (tag->kind) {
	case TAG_READ:
		event->kind = LINE_RECEIVED;
		event->received = BERTH_STEAL(line->incoming);
		if (event->received) {
			read_next(line);
		}
		return event->received != NULL;
	case TAG_WRITE:
		event->kind = LINE_SENT;
		grpc_byte_buffer_destroy(BERTH_STEAL(line->outgoing));
		return success;
	case TAG_STATUS:
		event->kind = LINE_OVER;
		return true;
	default:
		return false;
	}
}

static gpr_timespec at(int64_t deadline_ns)
{
	int64_t left_ns = deadline_ns - berth_boot_ns();
	return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left_ns > 0 ? left_ns : 0, GPR_TIMESPAN));
}

bool line_next(grpc_completion_queue *queue, int64_t deadline_ns, struct line_event *event)
{
	for (;;) {
		grpc_event found = grpc_completion_queue_next(queue, at(deadline_ns), NULL);
		if (found.type != GRPC_OP_COMPLETE) {
			return false;
		}
		if (take(found.tag, found.success != 0, event)) {
			return true;
		}
	}
}
