// SPDX-License-Identifier: Apache-2.0
// A gRPC server on gRPC Core's C API, driven by callbacks.
//
// Threads. All servers of a process share one completion-queue thread. With threads == 0 every callback runs on it and
// must not block: it hands work over and returns. With threads == N, callbacks run on a pool of N threads (but those of
// a light method), may block, and those of one call never run at the same time. berth_rpc_send, _read_next, _finish,
// _cork, _uncork, _ref and _unref may be called from any thread.
//
// Life of a call: [begin] -> message* -> [half_closed] -> ended. `ended` comes exactly once, last, for every call that
// had a callback; after it the call stays valid memory while someone holds a reference, and sends to it fail.
// `half_closed` comes for the kinds whose client streams, once a read that was asked for meets the end. `ended` with
// `cancelled` means that the client did not get the status: it cancelled, its deadline passed, or the line broke.
// A principal whose role is not in the handler's mask never reaches a callback (PERMISSION_DENIED names both).
#pragma once

#include "common/base/arena.h"
#include "common/rpc/rpc.h"

struct berth_rpc_server;
struct berth_rpc_call;

struct berth_rpc_handler {
	const char *method; // as in the .proto: "SubmitJob"
	unsigned roles;     // enum berth_rpc_role bits
	bool light; // its callbacks never wait: they run on the completion-queue thread even where there is a pool
	// All but `message` may be NULL. The message is one piece, of which nothing may be set or freed; it ends when
	// the callback returns, unless that keeps it.
	void (*begin)(struct berth_rpc_call *call, void *context);
	void (*message)(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context);
	void (*half_closed)(struct berth_rpc_call *call, void *context); // the client sends no more
	void (*writable)(struct berth_rpc_call *call, void *context);    // the send queue fell below half its bound
	void (*ended)(struct berth_rpc_call *call, bool cancelled, void *context);
};

struct berth_rpc_service {
	const ProtobufCServiceDescriptor *descriptor;
	const struct berth_rpc_handler *handlers;
	size_t handlers_count; // methods of the service without a handler answer UNIMPLEMENTED
	void *context;
};

struct berth_rpc_server_options {
	const char *address;             // "host:port", port 0 for any; "unix:/path"
	const struct berth_rpc_tls *tls; // NULL: plain text, every caller is BERTH_ROLE_ANYONE
	bool tls_checked;                // by berth_rpc_tls_check, and not again
	const struct berth_rpc_service *services;
	size_t services_count;
	const void *descriptor_set; // serialized FileDescriptorSet that has every service
	size_t descriptor_set_size;
	int threads;                // callbacks: 0 on the completion-queue thread, else a pool of this many
	size_t send_queue_size_max; // bytes a call may have unsent before berth_rpc_send refuses; 0: 16 MiB
	bool writer;                // has a thread that begins what was uncorked `behind`
	int64_t keepalive_ms;       // ping interval on idle connections; 0: 20,000
	const char *fleet;          // principals of another trust domain are refused; NULL takes any
};

// Binds without SO_REUSEPORT and starts. CONFLICT when the address is taken. Serves grpc.health.v1.Health (Check and
// Watch) besides, NOT_SERVING for "" and each service until berth_rpc_server_set_serving.
struct berth_rpc_server *berth_rpc_server_start(
	const struct berth_rpc_server_options *options, struct berth_error *err);
// Its two halves, for a start that has other things to do in between: the first binds and listens, so that a client
// that comes early waits, and no call is taken before the second.
struct berth_rpc_server *berth_rpc_server_listen(
	const struct berth_rpc_server_options *options, struct berth_error *err);
void berth_rpc_server_begin(struct berth_rpc_server *server);
int berth_rpc_server_port(const struct berth_rpc_server *server);
// Health of "" and every service. Watchers are told.
void berth_rpc_server_set_serving(struct berth_rpc_server *server, bool serving);
// Takes no new call, gives running ones `grace_ms`, cancels the rest, waits for every `ended`, frees the server. Not
// from a callback.
void berth_rpc_server_stop(struct berth_rpc_server *server, int64_t grace_ms);

// In a `message` callback, once: the message stays, in this arena, until the caller frees that.
struct berth_arena *berth_rpc_keep_message(struct berth_rpc_call *call);

const struct berth_rpc_principal *berth_rpc_call_principal(const struct berth_rpc_call *call);
// The first value of a request header, or NULL; valid while the call is.
const char *berth_rpc_call_metadata(const struct berth_rpc_call *call, const char *key);
const char *berth_rpc_call_peer(const struct berth_rpc_call *call);
// Milliseconds until the client's deadline; INT64_MAX when it set none.
int64_t berth_rpc_call_left_ms(const struct berth_rpc_call *call);
void berth_rpc_call_set_data(struct berth_rpc_call *call, void *data);
void *berth_rpc_call_data(const struct berth_rpc_call *call);
struct berth_rpc_call *berth_rpc_call_ref(struct berth_rpc_call *call);
void berth_rpc_call_unref(struct berth_rpc_call *call);

// Queues one response message (packed at once, so the caller keeps it). False with CANCELLED when the call is over,
// with EXHAUSTED when its queue is full (a slow reader: the caller drops it or waits for `writable`), with INVALID for
// a message of the wrong type, above BERTH_RPC_MESSAGE_SIZE_MAX, or second where the method answers once. A single
// message above the bound of the queue is taken when nothing else waits. Each is charged a little more than its size.
bool berth_rpc_send(struct berth_rpc_call *call, const ProtobufCMessage *message, struct berth_error *err);
size_t berth_rpc_send_queue_size(const struct berth_rpc_call *call);
// Flow control of streams from the client: after `begin` nothing is read; each call asks for one more message. For
// unary and server-streaming methods the one message is read by the server itself.
void berth_rpc_read_next(struct berth_rpc_call *call);
// Between the two, what is sent, read and finished is only noted; then it begins in one go, first the sends, then the
// read. Most of what a small message costs is gRPC's beginning to send it: encryption and the system call. `behind`
// leaves that to the server's writer thread (options.writer), for a caller who has more to do than to wait for it.
void berth_rpc_cork(struct berth_rpc_call *call);
void berth_rpc_uncork(struct berth_rpc_call *call, bool behind);
// Ends the call after what is queued, with OK (error NULL) or the error's status, message and details. Once; later
// calls do nothing.
void berth_rpc_finish(struct berth_rpc_call *call, const struct berth_error *error);
