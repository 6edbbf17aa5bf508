// SPDX-License-Identifier: Apache-2.0
// Calls from threads that wait. Every call takes a deadline and a cancel token; both end it at the server as well.
//
// A channel is thread-safe and connects by itself. A stream may have one thread that sends and one that receives;
// berth_rpc_stream_cancel may come from any.
#pragma once

#include "common/base/clock.h"
#include "common/rpc/rpc.h"

struct berth_rpc_channel;
struct berth_rpc_stream;

struct berth_rpc_channel_options {
	const char *address;             // "host:port" or "unix:/path"
	const struct berth_rpc_tls *tls; // NULL: plain text
	const char *server_name; // expected in the server's certificate, when it differs from the address's host
	const void *descriptor_set;
	size_t descriptor_set_size;
	int64_t keepalive_ms;     // ping interval while calls run; 0: 20,000
	int64_t reconnect_ms_max; // longest pause between attempts to connect; 0: 5,000
};

struct berth_rpc_channel *berth_rpc_channel_new(
	const struct berth_rpc_channel_options *options, struct berth_error *err);
void berth_rpc_channel_free(struct berth_rpc_channel *channel); // after its calls; NULL is allowed

// One request, one response (*response: free with protobuf_c_message_free_unpacked). Fails with the server's error:
// code from the status and its details' reason, message as the server wrote it.
bool berth_rpc_unary(struct berth_rpc_channel *channel, const ProtobufCServiceDescriptor *service, const char *method,
	const ProtobufCMessage *request, ProtobufCMessage **response, struct berth_until until,
	struct berth_error *err);

// Opens a call of any streaming kind. `until` bounds the whole call.
struct berth_rpc_stream *berth_rpc_stream_open(struct berth_rpc_channel *channel,
	const ProtobufCServiceDescriptor *service, const char *method, struct berth_until until,
	struct berth_error *err);
// Returns when the message is handed to the transport. False when the call is over: receive tells why.
bool berth_rpc_stream_send(struct berth_rpc_stream *stream, const ProtobufCMessage *message, struct berth_error *err);
bool berth_rpc_stream_close_send(struct berth_rpc_stream *stream, struct berth_error *err);

enum berth_rpc_received { BERTH_RPC_MESSAGE, BERTH_RPC_END, BERTH_RPC_FAILED };
// MESSAGE: *message is the caller's. END: the server ended with OK. FAILED: err has its status. A `wait` that passes
// without a message fails with TIMEOUT or CANCELLED and leaves the stream as it was: call again.
enum berth_rpc_received berth_rpc_stream_receive(
	struct berth_rpc_stream *stream, ProtobufCMessage **message, struct berth_until wait, struct berth_error *err);
void berth_rpc_stream_cancel(struct berth_rpc_stream *stream);
// Cancels what still runs and waits for its end (the transport's, not the server's). NULL is allowed.
void berth_rpc_stream_free(struct berth_rpc_stream *stream);
