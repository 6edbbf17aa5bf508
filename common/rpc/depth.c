// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/depth.h"

#define VARINT_SIZE_MAX 10

struct cursor {
	const uint8_t *at, *end;
};

static bool take_varint(struct cursor *cursor, uint64_t *value)
{
	*value = 0;
	for (int i = 0; i < VARINT_SIZE_MAX && cursor->at < cursor->end; i++) {
		uint8_t byte = *cursor->at++;
		*value |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (byte < 0x80) {
			return true;
		}
	}
	return false;
}

static bool skip(struct cursor *cursor, uint64_t size)
{
	if (size > (uint64_t)(cursor->end - cursor->at)) {
		return false;
	}
	cursor->at += size;
	return true;
}

static const ProtobufCMessageDescriptor *message_type(const ProtobufCMessageDescriptor *type, uint64_t number)
{
	const ProtobufCFieldDescriptor *field =
		number <= UINT32_MAX ? protobuf_c_message_descriptor_get_field(type, (unsigned)number) : NULL;
	return field && field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;
}

static bool is_bounded(const ProtobufCMessageDescriptor *type, struct cursor cursor, int depth);

// The field behind `key`: false when it is malformed; *deep when it goes too far down.
static bool take_field(
	const ProtobufCMessageDescriptor *type, uint64_t key, struct cursor *cursor, int depth, bool *deep)
{
	uint64_t value = 0;
	switch (key & 7) {
	case PROTOBUF_C_WIRE_TYPE_VARINT:
		return take_varint(cursor, &value);
	case PROTOBUF_C_WIRE_TYPE_64BIT:
		return skip(cursor, 8);
	case PROTOBUF_C_WIRE_TYPE_32BIT:
		return skip(cursor, 4);
	case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
		break;
	default:
		return false;
	}
	if (!take_varint(cursor, &value)) {
		return false;
	}
	struct cursor inside = {.at = cursor->at};
	if (!skip(cursor, value)) {
		return false;
	}
	inside.end = cursor->at;
	const ProtobufCMessageDescriptor *inner = message_type(type, key >> 3);
	*deep = inner && !is_bounded(inner, inside, depth + 1);
	return true;
}

static bool is_bounded(const ProtobufCMessageDescriptor *type, struct cursor cursor, int depth)
{
	if (depth > BERTH_RPC_DEPTH_MAX) {
		return false;
	}
	bool deep = false;
	uint64_t key = 0;
	while (!deep && cursor.at < cursor.end && take_varint(&cursor, &key) &&
		take_field(type, key, &cursor, depth, &deep)) {
	}
	return !deep;
}

bool berth_rpc_depth_is_bounded(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size)
{
	return is_bounded(type, (struct cursor){data, data + size}, 0);
}
