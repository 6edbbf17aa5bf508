// SPDX-License-Identifier: Apache-2.0
// One call on the server: its batches, its send queue and its end.
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/rpc/details.h"
#include "common/rpc/server_internal.h"

#define SENT_ROOM_MAX ((size_t)64 * 1024)

static void queue_clear(struct berth_rpc_call *call)
{
	while (call->queue) {
		struct berth_rpc_queued *first = call->queue;
		call->queue = first->next;
		grpc.byte_buffer_destroy(first->buffer);
		free(first);
	}
	call->queue_last = NULL;
	call->queue_size = 0;
}

// The slices of the headers belong to gRPC's call; this copy lives as long as ours.
static char *copy_metadata(const grpc_metadata_array *array)
{
	size_t size = 1;
	for (size_t i = 0; i < array->count; i++) {
		size += GRPC_SLICE_LENGTH(array->metadata[i].key) + GRPC_SLICE_LENGTH(array->metadata[i].value) + 2;
	}
	char *copy = berth_alloc(size);
	char *at = copy;
	for (size_t i = 0; i < array->count; i++) {
		grpc_slice pair[] = {array->metadata[i].key, array->metadata[i].value};
		for (size_t j = 0; j < BERTH_COUNT(pair); j++) {
			// A binary value ends at its first zero byte.
			size_t length =
				strnlen((const char *)GRPC_SLICE_START_PTR(pair[j]), GRPC_SLICE_LENGTH(pair[j]));
			memcpy(at, GRPC_SLICE_START_PTR(pair[j]), length);
			at += length + 1;
		}
	}
	return copy;
}

struct berth_rpc_call *berth_rpc_call_new(struct berth_rpc_server *server, struct berth_rpc_accept *accept)
{
	struct berth_rpc_call *call = berth_alloc(sizeof *call);
	atomic_init(&call->references, 1);
	call->server = server;
	call->served = accept->served;
	call->deadline = accept->served ? accept->deadline : accept->details.deadline;
	call->call = accept->call;
	call->metadata = copy_metadata(&accept->metadata);
	char *peer = grpc.call_get_peer(accept->call);
	call->peer = berth_strdup(peer);
	gpr.free(peer);
	pthread_mutex_init(&call->lock, NULL);
	call->read_tag = (struct berth_rpc_tag){BERTH_RPC_TAG_READ, call};
	call->write_tag = (struct berth_rpc_tag){BERTH_RPC_TAG_WRITE, call};
	call->close_tag = (struct berth_rpc_tag){BERTH_RPC_TAG_CLOSE, call};
	call->status_message = grpc.empty_slice();
	call->status_details = grpc.empty_slice();
	return call;
}

struct berth_rpc_call *berth_rpc_call_ref(struct berth_rpc_call *call)
{
	atomic_fetch_add(&call->references, 1);
	return call;
}

void berth_rpc_call_unref(struct berth_rpc_call *call)
{
	if (atomic_fetch_sub(&call->references, 1) > 1) {
		return;
	}
	queue_clear(call);
	grpc.slice_unref(call->status_message);
	grpc.slice_unref(call->status_details);
	pthread_mutex_destroy(&call->lock);
	free(call->metadata);
	free(call->peer);
	free(call);
}

void berth_rpc_call_start(struct berth_rpc_call *call, struct berth_rpc_tag *tag, const grpc_op *ops, size_t count)
{
	BERTH_HAND_OVER(tag);
	grpc_call_error error = grpc.call_start_batch(call->call, ops, count, tag, NULL);
	if (error != GRPC_CALL_OK) {
		// Only a batch that breaks gRPC's rules is refused: a fault of this file, and its completion would
		// never come.
		berth_log_error("a batch was refused by gRPC", "error=%s", grpc.call_error_to_string(error));
		abort();
	}
	call->batches++;
}

void berth_rpc_call_read(struct berth_rpc_call *call)
{
	if (call->corked || call->closed || call->reading || call->read_ended || call->inbox ||
		call->reads_wanted == 0) {
		return;
	}
	call->reads_wanted--;
	call->reading = true;
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received};
	berth_rpc_call_start(call, &call->read_tag, &op, 1);
}

static bool answers_once(const struct berth_rpc_call *call)
{
	return !call->served || call->served->method.kind == BERTH_RPC_UNARY ||
	       call->served->method.kind == BERTH_RPC_CLIENT_STREAM;
}

static grpc_op status_op(struct berth_rpc_call *call)
{
	grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
	op.data.send_status_from_server.status = (grpc_status_code)berth_error_grpc_status(call->error.code);
	if (call->error.code == BERTH_ERROR_OK) {
		return op;
	}
	BERTH_AUTO_FREE uint8_t *details = NULL;
	size_t size = 0;
	berth_rpc_status_details(&call->error, &details, &size);
	call->status_message = grpc.slice_from_copied_string(call->error.message);
	call->status_details = grpc.slice_from_copied_buffer((const char *)details, size);
	call->trailer.key = grpc.slice_from_static_string(BERTH_RPC_DETAILS_KEY);
	call->trailer.value = call->status_details;
	op.data.send_status_from_server.trailing_metadata_count = 1;
	op.data.send_status_from_server.trailing_metadata = &call->trailer;
	op.data.send_status_from_server.status_details = &call->status_message;
	return op;
}

// One batch is in flight at a time, with one message at most. The last message and the status share theirs, and what
// answers once waits for it, so that such an answer is one batch.
void berth_rpc_call_flush(struct berth_rpc_call *call)
{
	struct berth_rpc_queued *first = call->queue;
	bool last = call->finishing && (!first || !first->next);
	if (call->corked || call->closed || call->writing || call->status_sent || (!first && !last) ||
		(answers_once(call) && !last)) {
		return;
	}
	grpc_op ops[3];
	size_t count = 0;
	if (!call->headers_sent) {
		ops[count++] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
		call->headers_sent = true;
	}
	if (first) {
		ops[count++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = first->buffer};
	}
	if (last) {
		ops[count++] = status_op(call);
		call->status_sent = true;
	}
	call->writing = true;
	berth_rpc_call_start(call, &call->write_tag, ops, count);
}

static bool fail_over(const struct berth_rpc_call *call, struct berth_error *err)
{
	return berth_fail(err, BERTH_ERROR_CANCELLED, "the call of %s is over", call->peer);
}

// Takes the buffer when it succeeds.
static bool enqueue(struct berth_rpc_call *call, const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer,
	struct berth_error *err)
{
	if (call->closed || call->finishing) {
		return fail_over(call, err);
	}
	if (type != call->served->method.output) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s answers with %s, not with %s",
			call->served->method.path, call->served->method.output->name, type->name);
	}
	if (answers_once(call) && call->sent > 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s answers with one message", call->served->method.path);
	}
	size_t charge = grpc.byte_buffer_length(buffer) + BERTH_RPC_MESSAGE_OVERHEAD;
	if (call->queue && call->queue_size + charge > call->server->send_queue_size_max) {
		call->queue_high = true;
		return berth_fail(err, BERTH_ERROR_EXHAUSTED,
			"%s reads too slowly: %zu bytes wait to be sent, and %zu are allowed", call->peer,
			call->queue_size, call->server->send_queue_size_max);
	}
	struct berth_rpc_queued *queued = berth_alloc(sizeof *queued);
	*queued = (struct berth_rpc_queued){.buffer = buffer, .size = charge};
	if (call->queue) {
		call->queue_last->next = queued;
	} else {
		call->queue = queued;
	}
	call->queue_last = queued;
	call->queue_size += charge;
	call->queue_high |= call->queue_size > call->server->send_queue_size_max / 2;
	call->sent++;
	berth_rpc_call_flush(call);
	return true;
}

bool berth_rpc_send(struct berth_rpc_call *call, const ProtobufCMessage *message, struct berth_error *err)
{
	// One message of a stream is mostly about as long as the one before.
	size_t before = atomic_load_explicit(&call->sent_size, memory_order_relaxed);
	grpc_byte_buffer *buffer =
		berth_rpc_pack(message, before < SENT_ROOM_MAX ? before + before / 8 : SENT_ROOM_MAX);
	size_t size = grpc.byte_buffer_length(buffer);
	atomic_store_explicit(&call->sent_size, size, memory_order_relaxed);
	if (size > BERTH_RPC_MESSAGE_SIZE_MAX) {
		grpc.byte_buffer_destroy(buffer);
		return berth_fail(err, BERTH_ERROR_INVALID, "a %s of %zu bytes is longer than a message may be (%d)",
			message->descriptor->name, size, BERTH_RPC_MESSAGE_SIZE_MAX);
	}
	pthread_mutex_lock(&call->lock);
	bool sent = enqueue(call, message->descriptor, buffer, err);
	pthread_mutex_unlock(&call->lock);
	if (!sent) {
		grpc.byte_buffer_destroy(buffer);
	}
	return sent;
}

size_t berth_rpc_send_queue_size(const struct berth_rpc_call *call)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&call->lock; // locking leaves the call as it was
	pthread_mutex_lock(lock);
	size_t size = call->queue_size;
	pthread_mutex_unlock(lock);
	return size;
}

void berth_rpc_read_next(struct berth_rpc_call *call)
{
	pthread_mutex_lock(&call->lock);
	if (!call->closed && call->served->method.kind != BERTH_RPC_UNARY &&
		call->served->method.kind != BERTH_RPC_SERVER_STREAM) {
		call->reads_wanted++;
		berth_rpc_call_read(call);
	}
	pthread_mutex_unlock(&call->lock);
}

void berth_rpc_cork(struct berth_rpc_call *call)
{
	pthread_mutex_lock(&call->lock);
	call->corked = true;
	pthread_mutex_unlock(&call->lock);
}

void berth_rpc_call_uncork(struct berth_rpc_call *call)
{
	pthread_mutex_lock(&call->lock);
	call->corked = false;
	berth_rpc_call_flush(call);
	berth_rpc_call_read(call);
	pthread_mutex_unlock(&call->lock);
}

void berth_rpc_uncork(struct berth_rpc_call *call, bool behind)
{
	bool is_left = false;
	if (behind) {
		pthread_mutex_lock(&call->lock);
		is_left = !call->closed && call->server->writer; // of a call that is not closed the server stands
		if (is_left) {
			berth_rpc_writer_add(call->server->writer, call);
		}
		pthread_mutex_unlock(&call->lock);
	}
	if (!is_left) {
		berth_rpc_call_uncork(call);
	}
}

void berth_rpc_call_finish(struct berth_rpc_call *call, const struct berth_error *error)
{
	if (call->closed || call->finishing) {
		return;
	}
	call->finishing = true;
	if (error && error->code != BERTH_ERROR_OK) {
		call->error = *error;
		berth_rpc_text_clean(call->error.message);
	} else if (answers_once(call) && call->sent == 0) {
		berth_fail(
			&call->error, BERTH_ERROR_INTERNAL, "%s ended without its response", call->served->method.path);
	}
	if (answers_once(call) && call->error.code != BERTH_ERROR_OK) {
		queue_clear(call);
	}
	berth_rpc_call_flush(call);
}

void berth_rpc_finish(struct berth_rpc_call *call, const struct berth_error *error)
{
	pthread_mutex_lock(&call->lock);
	berth_rpc_call_finish(call, error);
	pthread_mutex_unlock(&call->lock);
}

static void read_completed(struct berth_rpc_call *call, bool success)
{
	call->reading = false;
	call->inbox = BERTH_STEAL(call->received);
	if (call->inbox) {
		call->events |= BERTH_RPC_EVENT_MESSAGE;
	} else if (success && !call->closed && !grpc.call_failed_before_recv_message(call->call)) {
		call->read_ended = true;
		call->events |= BERTH_RPC_EVENT_HALF_CLOSED;
	}
}

static void write_completed(struct berth_rpc_call *call, bool success)
{
	call->writing = false;
	struct berth_rpc_queued *first = call->queue;
	if (first) {
		call->queue = first->next;
		call->queue_size -= first->size;
		grpc.byte_buffer_destroy(first->buffer);
		free(first);
	}
	if (!success || call->closed) {
		// The peer is gone; the close that follows tells the handler.
		queue_clear(call);
		return;
	}
	if (call->queue_high && !call->finishing && call->queue_size <= call->server->send_queue_size_max / 2) {
		call->queue_high = false;
		call->events |= BERTH_RPC_EVENT_WRITABLE;
	}
	berth_rpc_call_flush(call);
}

void berth_rpc_call_completed(struct berth_rpc_call *call, enum berth_rpc_tag_type type, bool success)
{
	pthread_mutex_lock(&call->lock);
	call->batches--;
	if (type == BERTH_RPC_TAG_READ) {
		read_completed(call, success);
	} else if (type == BERTH_RPC_TAG_WRITE) {
		write_completed(call, success);
	} else {
		call->closed = true;
	}
	if (call->closed && call->batches == 0) {
		call->events |= BERTH_RPC_EVENT_ENDED;
	}
	berth_rpc_call_unlock(call);
}
