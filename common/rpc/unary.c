// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/rpc/client_internal.h"

// All that one unary call is: a batch of six operations, whose completion is also the end of the call.
struct exchange {
	grpc_call *call;
	grpc_metadata_array headers, trailers;
	grpc_byte_buffer *response;
	grpc_status_code status;
	grpc_slice message;
};

static void cancel_call(void *context)
{
	grpc.call_cancel(context, NULL);
}

static void run(struct exchange *exchange, grpc_completion_queue *queue, grpc_byte_buffer *request)
{
	grpc_op ops[] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request},
		{.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
		{.op = GRPC_OP_RECV_INITIAL_METADATA,
			.data.recv_initial_metadata.recv_initial_metadata = &exchange->headers},
		{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &exchange->response},
		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
			.data.recv_status_on_client = {.trailing_metadata = &exchange->trailers,
				.status = &exchange->status,
				.status_details = &exchange->message}},
	};
	BERTH_HAND_OVER(exchange);
	if (grpc.call_start_batch(exchange->call, ops, BERTH_COUNT(ops), exchange, NULL) != GRPC_CALL_OK) {
		abort(); // a batch that breaks gRPC's rules
	}
	grpc.completion_queue_pluck(queue, exchange, gpr.inf_future(GPR_CLOCK_MONOTONIC), NULL);
	BERTH_TAKE_OVER(exchange);
}

static bool result(struct berth_rpc_channel *channel, const struct exchange *exchange,
	const struct berth_rpc_method *method, struct berth_until until, ProtobufCMessage **response,
	struct berth_error *err)
{
	if (exchange->status == GRPC_STATUS_CANCELLED && until.cancel && berth_cancel_fired(until.cancel)) {
		return berth_fail_until(until, err, method->path);
	}
	if (exchange->status != GRPC_STATUS_OK) {
		berth_rpc_status_error(exchange->status, exchange->message, &exchange->trailers,
			berth_rpc_channel_address(channel), err);
		return false;
	}
	*response = exchange->response ? berth_rpc_unpack(method->output, exchange->response, NULL) : NULL;
	if (!*response) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "%s: the server's answer is no %s", method->path,
			method->output->name);
	}
	return true;
}

bool berth_rpc_unary(struct berth_rpc_channel *channel, const ProtobufCServiceDescriptor *service, const char *name,
	const ProtobufCMessage *request, ProtobufCMessage **response, struct berth_until until, struct berth_error *err)
{
	const struct berth_rpc_channel_method *method = berth_rpc_channel_find(channel, service, name, err);
	if (!method || !berth_rpc_request_check(&method->method, request, err)) {
		return false;
	}
	if (method->method.kind != BERTH_RPC_UNARY) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s is a stream", method->method.path);
	}
	if (berth_until_over(until)) {
		return berth_fail_until(until, err, method->method.path);
	}
	grpc_completion_queue *queue = berth_rpc_channel_take_queue(channel);
	struct exchange exchange = {.call = berth_rpc_channel_call(channel, method, queue, until.deadline_ns),
		.message = grpc.empty_slice()};
	grpc_byte_buffer *bytes = berth_rpc_pack(request, 0);
	struct berth_cancel_hook hook = {.run = cancel_call, .context = exchange.call};
	if (until.cancel) {
		berth_cancel_hook(until.cancel, &hook);
	}
	run(&exchange, queue, bytes);
	berth_cancel_unhook(&hook);
	bool done = result(channel, &exchange, &method->method, until, response, err);
	grpc.byte_buffer_destroy(bytes);
	grpc.byte_buffer_destroy(exchange.response);
	grpc.slice_unref(exchange.message);
	grpc.metadata_array_destroy(&exchange.headers);
	grpc.metadata_array_destroy(&exchange.trailers);
	grpc.call_unref(exchange.call);
	berth_rpc_channel_give_queue(channel, queue);
	return done;
}
