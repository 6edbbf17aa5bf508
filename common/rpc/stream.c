// SPDX-License-Identifier: Apache-2.0
// One thread may send while another receives: each plucks its own tags from the call's queue, and batches that only
// send need no lock against batches that only receive.
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/rpc/client_internal.h"

#define WAIT_SLICE_MS 50 // how late a wait may see a cancel token that is not the call's own

struct berth_rpc_stream {
	struct berth_rpc_channel *channel;
	const struct berth_rpc_method *method;
	struct berth_until until;
	grpc_completion_queue *queue;
	grpc_call *call;
	struct berth_cancel_hook hook;
	char open_tag, send_tag, receive_tag, status_tag; // their addresses are the tags

	// The sending thread's.
	bool send_closed;

	// The receiving thread's.
	bool receiving, ended;
	grpc_byte_buffer *received;
	grpc_metadata_array headers, trailers;
	grpc_status_code status;
	grpc_slice message;
};

static void start(struct berth_rpc_stream *stream, const grpc_op *ops, size_t count, char *tag)
{
	BERTH_HAND_OVER(tag);
	if (grpc.call_start_batch(stream->call, ops, count, tag, NULL) != GRPC_CALL_OK) {
		abort(); // a batch that breaks gRPC's rules
	}
}

static grpc_event pluck_until(struct berth_rpc_stream *stream, char *tag, gpr_timespec deadline)
{
	grpc_event event = grpc.completion_queue_pluck(stream->queue, tag, deadline, NULL);
	BERTH_TAKE_OVER(tag);
	return event;
}

static bool pluck(struct berth_rpc_stream *stream, char *tag)
{
	return pluck_until(stream, tag, gpr.inf_future(GPR_CLOCK_MONOTONIC)).success != 0;
}

static void cancel_call(void *context)
{
	grpc.call_cancel(context, NULL);
}

struct berth_rpc_stream *berth_rpc_stream_open(struct berth_rpc_channel *channel,
	const ProtobufCServiceDescriptor *service, const char *name, struct berth_until until, struct berth_error *err)
{
	const struct berth_rpc_channel_method *method = berth_rpc_channel_find(channel, service, name, err);
	if (!method) {
		return NULL;
	}
	if (method->method.kind == BERTH_RPC_UNARY) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s is no stream", method->method.path);
		return NULL;
	}
	if (berth_until_over(until)) {
		berth_fail_until(until, err, method->method.path);
		return NULL;
	}
	struct berth_rpc_stream *stream = berth_alloc(sizeof *stream);
	stream->channel = channel;
	stream->method = &method->method;
	stream->until = until;
	stream->message = grpc.empty_slice();
	stream->queue = berth_rpc_channel_take_queue(channel);
	stream->call = berth_rpc_channel_call(channel, method, stream->queue, until.deadline_ns);
	grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
	start(stream, &open, 1, &stream->open_tag);
	// The headers carry nothing of ours; they are taken together with the status.
	grpc_op end[] = {
		{.op = GRPC_OP_RECV_INITIAL_METADATA,
			.data.recv_initial_metadata.recv_initial_metadata = &stream->headers},
		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
			.data.recv_status_on_client = {.trailing_metadata = &stream->trailers,
				.status = &stream->status,
				.status_details = &stream->message}},
	};
	start(stream, end, BERTH_COUNT(end), &stream->status_tag);
	stream->hook = (struct berth_cancel_hook){.run = cancel_call, .context = stream->call};
	if (until.cancel) {
		berth_cancel_hook(until.cancel, &stream->hook);
	}
	return stream;
}

static bool fail_over(const struct berth_rpc_stream *stream, struct berth_error *err)
{
	return berth_fail(err, BERTH_ERROR_UNAVAILABLE, "%s: the call is over", stream->method->path);
}

bool berth_rpc_stream_send(struct berth_rpc_stream *stream, const ProtobufCMessage *message, struct berth_error *err)
{
	if (!berth_rpc_request_check(stream->method, message, err)) {
		return false;
	}
	if (stream->send_closed) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s: the sending side is closed", stream->method->path);
	}
	grpc_byte_buffer *buffer = berth_rpc_pack(message, 0);
	grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer};
	start(stream, &op, 1, &stream->send_tag);
	bool sent = pluck(stream, &stream->send_tag);
	grpc.byte_buffer_destroy(buffer);
	return sent || fail_over(stream, err);
}

bool berth_rpc_stream_close_send(struct berth_rpc_stream *stream, struct berth_error *err)
{
	if (stream->send_closed) {
		return true;
	}
	stream->send_closed = true;
	grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
	start(stream, &op, 1, &stream->send_tag);
	return pluck(stream, &stream->send_tag) || fail_over(stream, err);
}

// False when the wait is over first; the batch stays in flight.
static bool pluck_within(struct berth_rpc_stream *stream, char *tag, struct berth_until wait)
{
	bool foreign = wait.cancel && wait.cancel != stream->until.cancel;
	for (;;) {
		struct berth_until slice = foreign ? berth_until_at_most_ms(wait, WAIT_SLICE_MS) : wait;
		if (pluck_until(stream, tag, berth_rpc_deadline(slice.deadline_ns)).type == GRPC_OP_COMPLETE) {
			return true;
		}
		if (berth_until_over(wait)) {
			return false;
		}
	}
}

static enum berth_rpc_received take_end(struct berth_rpc_stream *stream, struct berth_error *err)
{
	if (!stream->ended) {
		pluck(stream, &stream->status_tag);
		stream->ended = true;
	}
	if (stream->status == GRPC_STATUS_OK) {
		return BERTH_RPC_END;
	}
	if (stream->status == GRPC_STATUS_CANCELLED && stream->until.cancel &&
		berth_cancel_fired(stream->until.cancel)) {
		berth_fail_until(stream->until, err, stream->method->path);
	} else {
		berth_rpc_status_error(stream->status, stream->message, &stream->trailers,
			berth_rpc_channel_address(stream->channel), err);
	}
	return BERTH_RPC_FAILED;
}

enum berth_rpc_received berth_rpc_stream_receive(
	struct berth_rpc_stream *stream, ProtobufCMessage **message, struct berth_until wait, struct berth_error *err)
{
	if (stream->ended) {
		return take_end(stream, err);
	}
	if (!stream->receiving) {
		grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &stream->received};
		start(stream, &op, 1, &stream->receive_tag);
		stream->receiving = true;
	}
	if (!pluck_within(stream, &stream->receive_tag, wait)) {
		berth_fail_until(wait, err, stream->method->path);
		return BERTH_RPC_FAILED;
	}
	stream->receiving = false;
	grpc_byte_buffer *buffer = BERTH_STEAL(stream->received);
	if (!buffer) {
		return take_end(stream, err);
	}
	*message = berth_rpc_unpack(stream->method->output, buffer, NULL);
	grpc.byte_buffer_destroy(buffer);
	if (*message) {
		return BERTH_RPC_MESSAGE;
	}
	berth_rpc_stream_cancel(stream);
	berth_fail(err, BERTH_ERROR_INTERNAL, "%s: the server's message is no %s", stream->method->path,
		stream->method->output->name);
	return BERTH_RPC_FAILED;
}

void berth_rpc_stream_cancel(struct berth_rpc_stream *stream)
{
	grpc.call_cancel(stream->call, NULL);
}

void berth_rpc_stream_free(struct berth_rpc_stream *stream)
{
	if (!stream) {
		return;
	}
	berth_cancel_unhook(&stream->hook);
	if (!stream->ended) {
		berth_rpc_stream_cancel(stream);
		pluck(stream, &stream->status_tag);
	}
	if (stream->receiving) {
		pluck(stream, &stream->receive_tag);
	}
	pluck(stream, &stream->open_tag);
	grpc.byte_buffer_destroy(stream->received);
	grpc.slice_unref(stream->message);
	grpc.metadata_array_destroy(&stream->headers);
	grpc.metadata_array_destroy(&stream->trailers);
	grpc.call_unref(stream->call);
	berth_rpc_channel_give_queue(stream->channel, stream->queue);
	free(stream);
}
