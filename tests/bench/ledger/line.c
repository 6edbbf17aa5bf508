// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ledger/line.h"

#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/mem.h"

#define MESSAGE_BYTES (16 * 1024 * 1024)

// The queue's own deadlines are whole milliseconds: a nearer one is kept by a thread.
#define NEAR_NS (20 * BERTH_NS_PER_MS)

enum tag_kind { TAG_OPENED, TAG_READ, TAG_WRITE, TAG_STATUS, TAG_WAKE };

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

// What was read from last: it is read from again when its owner is done with the message and has answered, so that
// gRPC sends the window back along with the answer and not in a write of its own.
static struct line *taken;

static struct {
	pthread_t thread;
	pthread_mutex_t lock; // guards what follows
	pthread_cond_t changed;
	int64_t at_ns; // boot clock, 0: nothing to wait for
	bool posted;   // its tag is in the queue
	grpc_call *call;
	struct tag tag;
} waker = {.lock = PTHREAD_MUTEX_INITIALIZER, .tag = {.kind = TAG_WAKE}};

static struct timespec monotonic_in(int64_t ns)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	ns += at.tv_nsec;
	return (struct timespec){at.tv_sec + ns / BERTH_NS_PER_S, ns % BERTH_NS_PER_S};
}

// An empty batch comes out of its queue at once.
static void *wake_when_due(void *context)
{
	(void)context;
	pthread_mutex_lock(&waker.lock);
	for (;;) {
		int64_t left_ns = waker.at_ns ? waker.at_ns - berth_boot_ns() : 0;
		if (!waker.at_ns || waker.posted) {
			pthread_cond_wait(&waker.changed, &waker.lock);
		} else if (left_ns > 0) {
			struct timespec at = monotonic_in(left_ns);
			pthread_cond_timedwait(&waker.changed, &waker.lock, &at);
		} else {
			waker.at_ns = 0;
			waker.posted = true;
			grpc_call_start_batch(waker.call, NULL, 0, &waker.tag, NULL);
		}
	}
	return NULL;
}

static void wake_at(int64_t at_ns)
{
	pthread_mutex_lock(&waker.lock);
	if (!waker.at_ns || at_ns < waker.at_ns) {
		waker.at_ns = at_ns;
		pthread_cond_signal(&waker.changed);
	}
	pthread_mutex_unlock(&waker.lock);
}

static void woken(void)
{
	pthread_mutex_lock(&waker.lock);
	waker.posted = false;
	pthread_cond_signal(&waker.changed);
	pthread_mutex_unlock(&waker.lock);
}

grpc_completion_queue *line_queue_new(void)
{
	grpc_init();
	grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
	grpc_channel *nowhere = grpc_lame_client_channel_create("nowhere", GRPC_STATUS_UNAVAILABLE, "");
	waker.call = grpc_channel_create_call(nowhere, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
		grpc_slice_from_static_string("/wake"), NULL, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&waker.changed, &attr);
	pthread_create(&waker.thread, NULL, wake_when_due, NULL);
	return queue;
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
	event->owner = line ? line->owner : NULL;
	switch (tag->kind) {
	case TAG_READ:
		event->kind = LINE_RECEIVED;
		event->received = BERTH_STEAL(line->incoming);
		taken = event->received ? line : NULL;
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
	if (taken) {
		read_next(BERTH_STEAL(taken));
	}
	if (deadline_ns - berth_boot_ns() < NEAR_NS) {
		wake_at(deadline_ns);
	}
	for (;;) {
		grpc_event found = grpc_completion_queue_next(queue, at(deadline_ns), NULL);
		if (found.type == GRPC_OP_COMPLETE && found.tag == &waker.tag) {
			woken();
			return false;
		}
		if (found.type != GRPC_OP_COMPLETE) {
			return false;
		}
		if (take(found.tag, found.success != 0, event)) {
			return true;
		}
	}
}
