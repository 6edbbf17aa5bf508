// SPDX-License-Identifier: Apache-2.0
// From a new request to the handler: admission, and the order in which a call's events are told.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rpc/server_internal.h"

static bool reads_itself(const struct berth_rpc_call *call)
{
	return call->served->method.kind == BERTH_RPC_UNARY || call->served->method.kind == BERTH_RPC_SERVER_STREAM;
}

// The principal is filled for every call that may begin.
static bool authorize(struct berth_rpc_call *call, struct berth_error *err)
{
	unsigned roles = call->served->handler.roles;
	call->principal.role = BERTH_ROLE_ANYONE;
	if (call->server->peers && !berth_rpc_peers_identify(call->server->peers, call->call, &call->principal, err) &&
		(err->code != BERTH_ERROR_UNAUTHENTICATED || !(roles & BERTH_ROLE_ANYONE))) {
		return false;
	}
	if (roles & (call->principal.role | BERTH_ROLE_ANYONE)) {
		return true;
	}
	return berth_fail(err, BERTH_ERROR_DENIED, "%s is not for the role %s", call->served->method.path,
		berth_rpc_role_name(call->principal.role));
}

static bool admit(struct berth_rpc_call *call, bool in_bounds, struct berth_error *err)
{
	if (!call->served) {
		return berth_fail(err, BERTH_ERROR_UNSUPPORTED, "the server does not know this method");
	}
	if (!call->served->handled) {
		return berth_fail(
			err, BERTH_ERROR_UNSUPPORTED, "the server does not serve %s", call->served->method.path);
	}
	if (!in_bounds) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED, "the server has %d calls running; try again later",
			BERTH_RPC_LIVE_CALLS_MAX);
	}
	return authorize(call, err);
}

void berth_rpc_call_accepted(struct berth_rpc_call *call, grpc_byte_buffer *payload)
{
	struct berth_error err = {0};
	bool admitted = admit(call, berth_rpc_server_admit(call->server), &err);
	pthread_mutex_lock(&call->lock);
	grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &call->cancelled};
	berth_rpc_call_start(call, &call->close_tag, &op, 1);
	if (admitted && reads_itself(call) && !payload) {
		// Cancelled, too long (gRPC has answered then), or half-closed with nothing in it.
		admitted = berth_fail(
			&err, BERTH_ERROR_INVALID, "%s needs one request message", call->served->method.path);
	}
	if (admitted) {
		call->events = BERTH_RPC_EVENT_BEGIN;
		if (reads_itself(call)) {
			call->inbox = BERTH_STEAL(payload);
			call->events |= BERTH_RPC_EVENT_MESSAGE;
		}
	} else {
		call->silent = true;
		berth_rpc_call_finish(call, &err);
	}
	grpc.byte_buffer_destroy(payload);
	berth_rpc_call_unlock(call);
}

static unsigned take_event(struct berth_rpc_call *call)
{
	unsigned event = call->events & -call->events; // the lowest bit
	call->events &= ~event;
	return event;
}

static void tell_message(struct berth_rpc_call *call, grpc_byte_buffer *buffer)
{
	const struct berth_rpc_served *served = call->served;
	ProtobufCMessage *message = berth_rpc_unpack(served->method.input, buffer, &call->arena);
	grpc.byte_buffer_destroy(buffer);
	if (message) {
		served->handler.message(call, message, served->context);
	} else {
		struct berth_error err;
		berth_fail(&err, BERTH_ERROR_INVALID, "%s: the bytes are no %s", served->method.path,
			served->method.input->name);
		berth_rpc_finish(call, &err);
	}
	berth_arena_free(BERTH_STEAL(call->arena));
}

struct berth_arena *berth_rpc_keep_message(struct berth_rpc_call *call)
{
	return BERTH_STEAL(call->arena);
}

// Nothing touches the call after this but those who hold a reference.
static void end(struct berth_rpc_call *call)
{
	struct berth_rpc_server *server = call->server;
	if (!call->silent && call->served->handler.ended) {
		call->served->handler.ended(call, call->cancelled != 0, call->served->context);
	}
	pthread_mutex_lock(&call->lock);
	grpc_call *ended = BERTH_STEAL(call->call);
	pthread_mutex_unlock(&call->lock);
	grpc.call_unref(ended);
	berth_rpc_call_unref(call);
	berth_rpc_server_leave(server);
}

static void tell(struct berth_rpc_call *call, enum berth_rpc_event event, grpc_byte_buffer *inbox)
{
	const struct berth_rpc_served *served = call->served;
	if (event == BERTH_RPC_EVENT_MESSAGE) {
		tell_message(call, inbox);
	} else if (event == BERTH_RPC_EVENT_BEGIN && served->handler.begin) {
		served->handler.begin(call, served->context);
	} else if (event == BERTH_RPC_EVENT_HALF_CLOSED && served->handler.half_closed) {
		served->handler.half_closed(call, served->context);
	} else if (event == BERTH_RPC_EVENT_WRITABLE && served->handler.writable) {
		served->handler.writable(call, served->context);
	}
}

void berth_rpc_call_tell(struct berth_rpc_call *call)
{
	pthread_mutex_lock(&call->lock);
	unsigned event = 0;
	while ((event = take_event(call)) && event != BERTH_RPC_EVENT_ENDED) {
		grpc_byte_buffer *inbox = event == BERTH_RPC_EVENT_MESSAGE ? BERTH_STEAL(call->inbox) : NULL;
		if (event == BERTH_RPC_EVENT_MESSAGE) {
			berth_rpc_call_read(call);
		}
		pthread_mutex_unlock(&call->lock);
		tell(call, event, inbox);
		pthread_mutex_lock(&call->lock);
	}
	if (!event) {
		call->on_strand = false;
	}
	pthread_mutex_unlock(&call->lock);
	if (event == BERTH_RPC_EVENT_ENDED) {
		end(call);
	}
}

void berth_rpc_call_unlock(struct berth_rpc_call *call)
{
	// Decided under the lock: once it is given back, the thread that has the strand may tell the end and free the
	// call.
	bool light = !call->served || call->served->handler.light;
	struct berth_rpc_pool *pool = light ? NULL : call->server->pool;
	bool add = call->events && !call->on_strand;
	call->on_strand |= add;
	pthread_mutex_unlock(&call->lock);
	if (add && pool) {
		berth_rpc_pool_add(pool, call);
	} else if (add) {
		berth_rpc_call_tell(call);
	}
}
