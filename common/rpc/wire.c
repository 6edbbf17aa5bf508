// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/rpc/depth.h"
#include "common/rpc/internal.h"

// What a message is in memory, by its packed bytes: 2.3 times in a session (and more for the smallest), 3.1 for a job.
#define UNPACKED_SHARE    3
#define UNPACKED_AT_LEAST 256

grpc_byte_buffer *berth_rpc_pack(const ProtobufCMessage *message, size_t room)
{
	struct berth_buf packed = {0};
	berth_buf_reserve(&packed, room);
	berth_proto_pack(message, &packed);
	grpc_slice slice = grpc.slice_new_with_user_data(packed.data, packed.size, free, packed.data);
	grpc_byte_buffer *buffer = grpc.raw_byte_buffer_create(&slice, 1);
	grpc.slice_unref(slice);
	return buffer;
}

static ProtobufCMessage *unpack(
	const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size, struct berth_arena **arena)
{
	if (!berth_rpc_depth_is_bounded(type, data, size)) {
		return NULL;
	}
	if (!arena) {
		return protobuf_c_message_unpack(type, NULL, size, data);
	}
	*arena = berth_arena_new(UNPACKED_AT_LEAST + size * UNPACKED_SHARE);
	return berth_proto_unpack_in(*arena, type, data, size);
}

ProtobufCMessage *berth_rpc_unpack(
	const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer, struct berth_arena **arena)
{
	size_t size = grpc.byte_buffer_length(buffer);
	grpc_byte_buffer_reader reader;
	if (size > BERTH_RPC_MESSAGE_SIZE_MAX || !grpc.byte_buffer_reader_init(&reader, buffer)) {
		return NULL;
	}
	ProtobufCMessage *message = NULL;
	grpc_slice *first = NULL;
	if (!grpc.byte_buffer_reader_peek(&reader, &first)) {
		message = unpack(type, (const uint8_t *)"", 0, arena);
	} else if (GRPC_SLICE_LENGTH(*first) == size) {
		message = unpack(type, GRPC_SLICE_START_PTR(*first), size, arena);
	} else {
		grpc.byte_buffer_reader_destroy(&reader);
		grpc.byte_buffer_reader_init(&reader, buffer);
		grpc_slice whole = grpc.byte_buffer_reader_readall(&reader);
		message = unpack(type, GRPC_SLICE_START_PTR(whole), size, arena);
		grpc.slice_unref(whole);
	}
	grpc.byte_buffer_reader_destroy(&reader);
	return message;
}

bool berth_rpc_slice_is(grpc_slice slice, const char *text)
{
	size_t length = strlen(text);
	return GRPC_SLICE_LENGTH(slice) == length && memcmp(GRPC_SLICE_START_PTR(slice), text, length) == 0;
}

char *berth_rpc_slice_text(grpc_slice slice)
{
	return berth_strndup((const char *)GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
}

gpr_timespec berth_rpc_deadline(int64_t deadline_ns)
{
	if (deadline_ns == BERTH_NO_DEADLINE_NS) {
		return gpr.inf_future(GPR_CLOCK_MONOTONIC);
	}
	int64_t left = deadline_ns - berth_boot_ns();
	return gpr.time_add(gpr.now(GPR_CLOCK_MONOTONIC), gpr.time_from_nanos(left > 0 ? left : 0, GPR_TIMESPAN));
}

int64_t berth_rpc_left_ms(gpr_timespec deadline)
{
	if (gpr.time_cmp(deadline, gpr.inf_future(deadline.clock_type)) == 0) {
		return INT64_MAX;
	}
	gpr_timespec left = gpr.time_sub(deadline, gpr.now(deadline.clock_type));
	int64_t ms = left.tv_sec * 1000 + left.tv_nsec / BERTH_NS_PER_MS;
	return ms > 0 ? ms : 0;
}

static bool reason_in(const grpc_metadata_array *trailers, char reason[static BERTH_RPC_NAME_MAX])
{
	reason[0] = 0;
	for (size_t i = 0; i < trailers->count; i++) {
		grpc_slice value = trailers->metadata[i].value;
		if (berth_rpc_slice_is(trailers->metadata[i].key, BERTH_RPC_DETAILS_KEY) &&
			berth_rpc_status_reason(GRPC_SLICE_START_PTR(value), GRPC_SLICE_LENGTH(value), reason)) {
			return true;
		}
	}
	return false;
}

void berth_rpc_status_error(grpc_status_code status, grpc_slice message, const grpc_metadata_array *trailers,
	const char *address, struct berth_error *err)
{
	char reason[BERTH_RPC_NAME_MAX];
	bool ours = reason_in(trailers, reason);
	enum berth_error_code code = berth_error_from_grpc(status, ours ? reason : NULL);
	size_t length = GRPC_SLICE_LENGTH(message);
	if (length == 0) {
		berth_fail(err, code, "the call ended with gRPC status %d and no message", (int)status);
	} else {
		int shown = length < BERTH_ERROR_MESSAGE_MAX ? (int)length : BERTH_ERROR_MESSAGE_MAX;
		berth_fail(err, code, "%.*s", shown, (const char *)GRPC_SLICE_START_PTR(message));
	}
	// A status without our details was made on this side, mostly because the other one was not reached.
	if (!ours && code == BERTH_ERROR_UNAVAILABLE) {
		berth_error_wrap(err, "%s", address);
	}
}
