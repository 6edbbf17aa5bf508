// SPDX-License-Identifier: Apache-2.0
// The parts of a server: accepts (armed requests), calls, their strand on the pool, and health.
//
// Locks: a call's lock guards its state and orders its batches; the server's lock guards the count of live calls and
// the way to the end; the pool's lock its queue; the health's lock its watches. Only health holds two: its own, then a
// call's.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "common/rpc/internal.h"
#include "common/rpc/server.h"

#define BERTH_RPC_LIVE_CALLS_MAX   16384 // more are answered RESOURCE_EXHAUSTED
#define BERTH_RPC_STREAMS_MAX      2048  // calls at once on one connection
#define BERTH_RPC_ARMED_UNARY      64
#define BERTH_RPC_ARMED_STREAM     16
#define BERTH_RPC_SEND_QUEUE_MAX   (16 * 1024 * 1024)
#define BERTH_RPC_MESSAGE_OVERHEAD 64 // charged to the send queue for each message, so that empty ones count as well
#define BERTH_RPC_THREADS_MAX      64

// Every batch and every armed request has a tag; it is reused only after its completion was seen.
enum berth_rpc_tag_type {
	BERTH_RPC_TAG_ACCEPT,
	BERTH_RPC_TAG_SHUTDOWN,
	BERTH_RPC_TAG_READ,
	BERTH_RPC_TAG_WRITE,
	BERTH_RPC_TAG_CLOSE,
};

struct berth_rpc_tag {
	enum berth_rpc_tag_type type;
	void *owner; // struct berth_rpc_accept, _server or _call
};

struct berth_rpc_served {
	struct berth_rpc_method method;
	struct berth_rpc_handler handler; // roles 0: none, the method answers UNIMPLEMENTED
	bool handled;
	void *context;
	void *registered;
};

// One armed request. served NULL: the one for methods that the server does not know.
struct berth_rpc_accept {
	struct berth_rpc_tag tag;
	struct berth_rpc_server *server;
	const struct berth_rpc_served *served;
	grpc_call *call;
	gpr_timespec deadline;
	grpc_metadata_array metadata;
	grpc_byte_buffer *payload;
	grpc_call_details details;
};

// What waits to be told to the handler, told in this order; ENDED is the last ever.
enum berth_rpc_event {
	BERTH_RPC_EVENT_BEGIN = 1 << 0,
	BERTH_RPC_EVENT_MESSAGE = 1 << 1,
	BERTH_RPC_EVENT_HALF_CLOSED = 1 << 2,
	BERTH_RPC_EVENT_WRITABLE = 1 << 3,
	BERTH_RPC_EVENT_ENDED = 1 << 4,
};

struct berth_rpc_queued {
	struct berth_rpc_queued *next;
	grpc_byte_buffer *buffer;
	size_t size;
};

struct berth_rpc_call {
	atomic_int references;
	struct berth_rpc_server *server;       // not after the end
	const struct berth_rpc_served *served; // not after the end
	gpr_timespec deadline;
	struct berth_rpc_principal principal;
	char *peer;
	char *metadata; // key, NUL, value, NUL, ..., NUL
	_Atomic(void *) data;

	atomic_size_t sent_size; // of the message that was packed last

	pthread_mutex_t lock; // guards what follows
	grpc_call *call;      // NULL after the end
	int batches;          // started and not completed
	struct berth_rpc_tag read_tag, write_tag, close_tag;
	bool silent; // refused before it began: no callbacks

	unsigned events;             // berth_rpc_event bits to be told
	struct berth_arena *arena;   // of the message that is being told, on the strand alone
	bool on_strand;              // a thread of the pool has it or will get it
	struct berth_rpc_call *next; // in the pool's queue (guarded by the pool)

	unsigned reads_wanted;
	bool reading, read_ended;
	grpc_byte_buffer *received; // by the read in flight
	grpc_byte_buffer *inbox;    // for EVENT_MESSAGE

	struct berth_rpc_queued *queue, *queue_last;
	size_t queue_size;
	bool queue_high; // was above half of its bound, or refused a message
	unsigned sent;   // messages taken by berth_rpc_send
	bool writing, headers_sent, finishing, status_sent;
	struct berth_error error; // for the status
	grpc_slice status_message, status_details;
	grpc_metadata trailer;

	bool corked;  // neither reads nor writes begin
	bool is_left; // in the writer's queue (guarded by the writer, as is the next)
	struct berth_rpc_call *next_corked;

	int cancelled; // written by gRPC
	bool closed;   // the end came, and nothing is started any more
};

struct berth_rpc_pool;
struct berth_rpc_writer;
struct berth_rpc_health;

struct berth_rpc_server {
	grpc_server *server;
	grpc_completion_queue *queue; // the poller's
	struct berth_rpc_served *served;
	size_t served_count;
	struct berth_rpc_accept *accepts;
	size_t accepts_count;
	struct berth_rpc_pool *pool;     // NULL: callbacks on the poller
	struct berth_rpc_writer *writer; // NULL: who uncorks writes
	struct berth_rpc_health *health;
	struct berth_rpc_peers *peers; // NULL without TLS
	size_t send_queue_size_max;
	int port;
	struct berth_rpc_tag shutdown_tag;

	pthread_mutex_t lock; // guards what follows
	pthread_cond_t changed;
	bool stopping, shut_down;
	size_t live; // calls
	int armed;   // requests
};

// server.c: what the poller does with a completion.
void berth_rpc_server_completed(struct berth_rpc_tag *tag, bool success);
// server_stop.c. The server has ended (live and armed are 0), or it is one that never listened.
void berth_rpc_server_free(struct berth_rpc_server *server);
// Counts one call; false when it is one too many. Each is left once, after its end.
bool berth_rpc_server_admit(struct berth_rpc_server *server);
void berth_rpc_server_leave(struct berth_rpc_server *server);

// call.c: takes what the accept received. The call lives until its end was told.
struct berth_rpc_call *berth_rpc_call_new(struct berth_rpc_server *server, struct berth_rpc_accept *accept);
void berth_rpc_call_accepted(struct berth_rpc_call *call, grpc_byte_buffer *payload);
void berth_rpc_call_completed(struct berth_rpc_call *call, enum berth_rpc_tag_type type, bool success);
void berth_rpc_call_start(struct berth_rpc_call *call, struct berth_rpc_tag *tag, const grpc_op *ops, size_t count);
void berth_rpc_call_read(struct berth_rpc_call *call);  // starts a read where one is wanted and possible
void berth_rpc_call_flush(struct berth_rpc_call *call); // starts a write where one is due and possible
void berth_rpc_call_finish(struct berth_rpc_call *call, const struct berth_error *error);
void berth_rpc_call_uncork(struct berth_rpc_call *call); // takes the call's lock

// call_events.c: gives back the call's lock and has its events told, on the pool or, without one, right here (then only
// the poller may call it).
void berth_rpc_call_unlock(struct berth_rpc_call *call);
void berth_rpc_call_tell(struct berth_rpc_call *call); // the pool's work

// pool.c
struct berth_rpc_pool *berth_rpc_pool_start(int threads, struct berth_error *err);
void berth_rpc_pool_add(struct berth_rpc_pool *pool, struct berth_rpc_call *call);
void berth_rpc_pool_stop(struct berth_rpc_pool *pool); // after its last call; NULL is allowed

// writer.c: the call is uncorked on the writer's thread. With the call's lock.
struct berth_rpc_writer *berth_rpc_writer_start(struct berth_error *err);
void berth_rpc_writer_add(struct berth_rpc_writer *writer, struct berth_rpc_call *call);
void berth_rpc_writer_stop(struct berth_rpc_writer *writer); // after its last call; NULL is allowed

// health.c
#define BERTH_RPC_HEALTH_METHODS 2
struct berth_rpc_health *berth_rpc_health_new(const struct berth_rpc_server_options *options);
void berth_rpc_health_free(struct berth_rpc_health *health);
// A service to be served with berth_rpc_health_set; handlers has room for BERTH_RPC_HEALTH_METHODS.
struct berth_rpc_service berth_rpc_health_service(struct berth_rpc_health *health, struct berth_rpc_handler *handlers);
void berth_rpc_health_set_serving(struct berth_rpc_health *health, bool serving);
void berth_rpc_health_stop(struct berth_rpc_health *health); // ends the watches
