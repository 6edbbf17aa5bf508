// SPDX-License-Identifier: Apache-2.0
// common/rpc/client.h.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/sim/net_internal.h"

#define BREAK_NS INT64_C(20000000) // until the other end of a cancelled call knows

struct berth_rpc_stream {
	struct sim_stream *stream;
	struct berth_error error; // of its end
	bool ended;
};

struct berth_rpc_stream *berth_rpc_stream_open(struct berth_rpc_channel *channel,
	const ProtobufCServiceDescriptor *service, const char *method, struct berth_until until,
	struct berth_error *err)
{
	(void)until, (void)err;
	struct berth_rpc_stream *call = berth_alloc(sizeof *call);
	call->stream = sim_stream_new(channel, service->name, method);
	return call;
}

bool berth_rpc_stream_send(struct berth_rpc_stream *call, const ProtobufCMessage *message, struct berth_error *err)
{
	struct sim_stream *stream = call->stream;
	if (stream->ends[SIM_CLIENT].over || sim_self()->dead) {
		return berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the call is over");
	}
	if (sim_net.watch.from_agent && stream->principal.role == BERTH_ROLE_AGENT) {
		sim_net.watch.from_agent(stream->principal.name, message);
	}
	struct sim_item *item = berth_alloc(sizeof *item);
	item->message = berth_proto_clone(message);
	sim_stream_send(stream, SIM_SERVER, item);
	return true;
}

bool berth_rpc_stream_close_send(struct berth_rpc_stream *call, struct berth_error *err)
{
	(void)err;
	struct sim_item *item = berth_alloc(sizeof *item);
	item->ends = true;
	sim_stream_send(call->stream, SIM_SERVER, item);
	return true;
}

static struct sim_item *next_item(struct berth_rpc_stream *call, struct berth_until wait)
{
	struct sim_end *end = &call->stream->ends[SIM_CLIENT];
	while (!end->arrived && !end->over && !berth_until_over(wait)) {
		sim_wait(end, wait.deadline_ns);
	}
	struct sim_item *item = end->arrived;
	if (item) {
		DL_DELETE(end->arrived, item);
	}
	return item;
}

enum berth_rpc_received berth_rpc_stream_receive(
	struct berth_rpc_stream *call, ProtobufCMessage **message, struct berth_until wait, struct berth_error *err)
{
	struct sim_item *item = next_item(call, wait);
	if (!item) {
		if (call->stream->ends[SIM_CLIENT].over) {
			berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the connection is gone");
		} else {
			berth_fail_until(wait, err, "receive");
		}
		return BERTH_RPC_FAILED;
	}
	*message = BERTH_STEAL(item->message);
	bool ends = item->ends;
	struct berth_error error = item->error;
	free(item);
	if (!ends) {
		return BERTH_RPC_MESSAGE;
	}
	sim_stream_end(call->stream, SIM_CLIENT);
	if (error.code == BERTH_ERROR_OK) {
		return BERTH_RPC_END;
	}
	*err = error;
	return BERTH_RPC_FAILED;
}

void berth_rpc_stream_cancel(struct berth_rpc_stream *call)
{
	// The other end learns of it as of any break.
	sim_stream_break(call->stream, 0, BREAK_NS);
	sim_stream_end(call->stream, SIM_CLIENT);
}

void berth_rpc_stream_free(struct berth_rpc_stream *call)
{
	if (call) {
		berth_rpc_stream_cancel(call);
		sim_stream_release(call->stream);
		free(call);
	}
}

bool berth_rpc_unary(struct berth_rpc_channel *channel, const ProtobufCServiceDescriptor *service, const char *method,
	const ProtobufCMessage *request, ProtobufCMessage **response, struct berth_until until, struct berth_error *err)
{
	struct berth_rpc_stream *call = berth_rpc_stream_open(channel, service, method, until, err);
	bool ok = berth_rpc_stream_send(call, request, err) &&
	          berth_rpc_stream_receive(call, response, until, err) == BERTH_RPC_MESSAGE;
	berth_rpc_stream_free(call);
	return ok;
}
