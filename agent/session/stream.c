// SPDX-License-Identifier: Apache-2.0
// Connects, receives, and connects again. The stream is the driver's to send on until it says that it let go.
#include <stdlib.h>

#include "agent/session/backoff.h"
#include "agent/session/session_internal.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define RECEIVE_SLICE_MS    200
#define GREETING_SILENCE_MS 15000 // until the first Welcome has said how often something comes

static struct berth_rpc_stream *connect_stream(struct session *session, struct berth_error *err)
{
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS};
	return berth_rpc_stream_open(
		session->options.coordinator, &berth__v1__fleet_service__descriptor, "Session", until, err);
}

// Takes the batch.
static void post_all(struct session *session, Berth__V1__CoordinatorBatch *batch)
{
	for (size_t i = 0; i < batch->n_messages; i++) {
		session_post(&session->queue,
			(struct session_event){.kind = SESSION_MESSAGE, .message = BERTH_STEAL(batch->messages[i])});
	}
	batch->n_messages = 0;
	berth_proto_free(batch);
}

// Until the stream is over, has said nothing for too long, or the session closes. err says why.
static void receive_all(struct session *session, struct berth_rpc_stream *stream, struct berth_error *err)
{
	int64_t heard_ns = berth_boot_ns();
	for (;;) {
		ProtobufCMessage *message = NULL;
		enum berth_rpc_received got = berth_rpc_stream_receive(
			stream, &message, berth_within_ms(RECEIVE_SLICE_MS, session->close), err);
		int64_t now_ns = berth_boot_ns();
		if (got == BERTH_RPC_MESSAGE) {
			heard_ns = now_ns;
			post_all(session, (Berth__V1__CoordinatorBatch *)message);
		} else if (got == BERTH_RPC_END) {
			berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the coordinator ended the session");
			return;
		} else if (berth_cancel_fired(session->close)) {
			return;
		} else if (err->code != BERTH_ERROR_TIMEOUT) {
			return;
		} else if (now_ns - heard_ns > atomic_load(&session->silence_ms) * BERTH_NS_PER_MS) {
			berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the coordinator was silent for three heartbeats");
			return;
		}
	}
}

static void hand_back(struct session *session, struct berth_rpc_stream *stream)
{
	// A driver that waits in a send is let go by this.
	berth_rpc_stream_cancel(stream);
	session_post(&session->queue, (struct session_event){.kind = SESSION_STREAM_DOWN});
	pthread_mutex_lock(&session->lock);
	while (session->stream_in_use) {
		pthread_cond_wait(&session->changed, &session->lock);
	}
	pthread_mutex_unlock(&session->lock);
	berth_rpc_stream_free(stream);
}

// True when the coordinator was obeyed on this stream.
static bool run_stream(struct session *session, struct berth_error *err)
{
	struct berth_rpc_stream *stream = connect_stream(session, err);
	if (!stream) {
		return false;
	}
	atomic_store(&session->silence_ms, GREETING_SILENCE_MS);
	pthread_mutex_lock(&session->lock);
	session->stream_in_use = true;
	pthread_mutex_unlock(&session->lock);
	session_post(&session->queue, (struct session_event){.kind = SESSION_STREAM_UP, .stream = stream});
	receive_all(session, stream, err);
	bool welcomed = atomic_load(&session->welcomed);
	hand_back(session, stream);
	return welcomed;
}

void *session_streamer(void *context)
{
	struct session *session = context;
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = session->close};
	unsigned attempt = 0;
	while (!berth_until_over(until)) {
		struct berth_error err = {0};
		attempt = run_stream(session, &err) ? 0 : attempt + 1;
		if (berth_until_over(until)) {
			break;
		}
		if (attempt < 2) {
			berth_log_warn("no session; connecting again", "error=%s", berth_log_quote(err.message));
		}
		berth_sleep_ms(backoff_ms(attempt), until, NULL);
	}
	return NULL;
}
