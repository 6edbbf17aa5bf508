// SPDX-License-Identifier: Apache-2.0
// What unary calls and streams need of their channel.
#pragma once

#include "common/base/cancel.h"
#include "common/rpc/client.h"
#include "common/rpc/internal.h"

struct berth_rpc_channel_method {
	struct berth_rpc_method method;
	void *registered;
};

// NOT_FOUND or CONFLICT when the descriptor set and the program differ.
const struct berth_rpc_channel_method *berth_rpc_channel_find(struct berth_rpc_channel *channel,
	const ProtobufCServiceDescriptor *service, const char *method, struct berth_error *err);
const char *berth_rpc_channel_address(const struct berth_rpc_channel *channel);
// A queue to pluck from, for one call at a time; given back when every tag was plucked.
grpc_completion_queue *berth_rpc_channel_take_queue(struct berth_rpc_channel *channel);
void berth_rpc_channel_give_queue(struct berth_rpc_channel *channel, grpc_completion_queue *queue);
grpc_call *berth_rpc_channel_call(struct berth_rpc_channel *channel, const struct berth_rpc_channel_method *method,
	grpc_completion_queue *queue, int64_t deadline_ns);
// Checks a request before it is packed.
bool berth_rpc_request_check(
	const struct berth_rpc_method *method, const ProtobufCMessage *request, struct berth_error *err);
