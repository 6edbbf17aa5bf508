// SPDX-License-Identifier: Apache-2.0
// Packing in one pass. The library's own way asks every message for its size once for each message around it; here a
// message is written behind room for its length, which is guessed, and moved when the guess was wrong: one byte, in a
// list what the item before needed, and around nearly all of a large message what that needs. Proto3 alone, and the
// bytes are the library's.
#include <stdlib.h>
#include <string.h>

#include "common/codec/proto.h"

#define VARINT_SIZE_MAX 10
#define TAG_SIZE_MAX    5

static uint8_t *room(struct berth_buf *out, size_t size)
{
	return out->capacity - out->size > size ? out->data + out->size : berth_buf_reserve(out, size);
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7) {
		*at++ = (uint8_t)(value | 0x80);
	}
	*at++ = (uint8_t)value;
	return at;
}

static size_t varint_size(uint64_t value)
{
	size_t size = 1;
	for (; value >= 0x80; value >>= 7) {
		size++;
	}
	return size;
}

static uint8_t *put_tag(uint8_t *at, uint32_t id, unsigned wire_type)
{
	return put_varint(at, (uint64_t)id << 3 | wire_type);
}

static void put_bytes(struct berth_buf *out, uint32_t id, const void *data, size_t size)
{
	uint8_t *at = room(out, TAG_SIZE_MAX + VARINT_SIZE_MAX + size);
	at = put_varint(put_tag(at, id, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED), size);
	if (size) {
		memcpy(at, data, size);
	}
	out->size = (size_t)(at - out->data) + size;
}

// What was written from `start` on gets its length in front, for which `guess` bytes are left. What it needed.
static size_t put_length(struct berth_buf *out, size_t start, size_t guess)
{
	size_t size = out->size - start, needed = varint_size(size), front = start - guess;
	if (needed != guess) {
		room(out, needed);
		memmove(out->data + front + needed, out->data + start, size);
		out->size = front + needed + size;
	}
	put_varint(out->data + front, size);
	return needed;
}

static size_t begin_length(struct berth_buf *out, uint32_t id, size_t guess)
{
	uint8_t *at = put_tag(room(out, TAG_SIZE_MAX + guess), id, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED);
	out->size = (size_t)(at - out->data) + guess;
	return out->size;
}

static void put_message(struct berth_buf *out, const ProtobufCMessage *message, size_t expected);

static size_t put_nested(
	struct berth_buf *out, uint32_t id, const ProtobufCMessage *message, size_t guess, size_t expected)
{
	size_t start = begin_length(out, id, guess);
	put_message(out, message, expected);
	return put_length(out, start, guess);
}

static size_t scalar_size(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	default:
		return 4;
	}
}

static uint64_t load(ProtobufCType type, const void *member)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
		return *(const uint64_t *)member;
	case PROTOBUF_C_TYPE_UINT32:
		return *(const uint32_t *)member;
	case PROTOBUF_C_TYPE_BOOL:
		return *(const protobuf_c_boolean *)member != 0;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_ENUM:
		return (uint64_t)(int64_t) * (const int32_t *)member; // a negative one has ten bytes
	default:
		abort(); // a type that no message of ours has
	}
}

// Without its tag.
static uint8_t *put_scalar(uint8_t *at, ProtobufCType type, const void *member)
{
	if (type == PROTOBUF_C_TYPE_DOUBLE) {
		memcpy(at, member, sizeof(double)); // in the machine's order, which is the wire's
		return at + sizeof(double);
	}
	return put_varint(at, load(type, member));
}

static void put_tagged(struct berth_buf *out, const ProtobufCFieldDescriptor *field, const void *member)
{
	bool is_double = field->type == PROTOBUF_C_TYPE_DOUBLE;
	uint8_t *at = room(out, TAG_SIZE_MAX + VARINT_SIZE_MAX);
	at = put_tag(at, field->id, is_double ? PROTOBUF_C_WIRE_TYPE_64BIT : PROTOBUF_C_WIRE_TYPE_VARINT);
	out->size = (size_t)(put_scalar(at, field->type, member) - out->data);
}

static void put_list(struct berth_buf *out, const ProtobufCFieldDescriptor *field, const void *items, size_t count)
{
	if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE) {
		size_t guess = 1;
		for (size_t i = 0; i < count; i++) {
			const void *item = ((const void *const *)items)[i];
			if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
				guess = put_nested(out, field->id, item, guess, 0);
			} else {
				put_bytes(out, field->id, item, strlen(item));
			}
		}
		return;
	}
	if (field->type == PROTOBUF_C_TYPE_BYTES) {
		for (size_t i = 0; i < count; i++) {
			const ProtobufCBinaryData *item = (const ProtobufCBinaryData *)items + i;
			put_bytes(out, field->id, item->data, item->len);
		}
		return;
	}
	bool is_packed = field->flags & PROTOBUF_C_FIELD_FLAG_PACKED;
	size_t start = is_packed ? begin_length(out, field->id, 1) : 0;
	for (size_t i = 0; i < count; i++) {
		const char *item = (const char *)items + i * scalar_size(field->type);
		if (is_packed) {
			out->size = (size_t)(put_scalar(room(out, VARINT_SIZE_MAX), field->type, item) - out->data);
		} else {
			put_tagged(out, field, item);
		}
	}
	if (is_packed) {
		put_length(out, start, 1);
	}
}

// `chosen`: of a oneof, whose member goes out also when it is 0 or empty.
static void put_single(
	struct berth_buf *out, const ProtobufCFieldDescriptor *field, const void *member, bool chosen, size_t expected)
{
	if (field->type == PROTOBUF_C_TYPE_STRING) {
		const char *text = *(char *const *)member;
		if (text && (text[0] || (chosen && text != field->default_value))) {
			put_bytes(out, field->id, text, strlen(text));
		}
	} else if (field->type == PROTOBUF_C_TYPE_BYTES) {
		const ProtobufCBinaryData *bytes = member;
		if (bytes->len || chosen) {
			put_bytes(out, field->id, bytes->data, bytes->len);
		}
	} else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
		const ProtobufCMessage *message = *(ProtobufCMessage *const *)member;
		if (message) {
			put_nested(out, field->id, message, varint_size(expected), expected);
		}
	} else {
		bool is_zero = field->type == PROTOBUF_C_TYPE_DOUBLE ? *(const double *)member == 0
		                                                     : load(field->type, member) == 0;
		if (!is_zero || chosen) {
			put_tagged(out, field, member);
		}
	}
}

static void put_field(
	struct berth_buf *out, const ProtobufCFieldDescriptor *field, const char *message, size_t expected)
{
	const void *member = message + field->offset;
	const void *quantifier = message + field->quantifier_offset;
	if (field->label != PROTOBUF_C_LABEL_REPEATED && field->label != PROTOBUF_C_LABEL_NONE) {
		abort(); // of proto2
	}
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		size_t count = *(const size_t *)quantifier;
		if (count) {
			put_list(out, field, *(const void *const *)member, count);
		}
	} else if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)) {
		put_single(out, field, member, false, expected);
	} else if (*(const uint32_t *)quantifier == field->id) {
		put_single(out, field, member, true, expected);
	}
}

static void put_message(struct berth_buf *out, const ProtobufCMessage *message, size_t expected)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;
	for (unsigned i = 0; i < type->n_fields; i++) {
		put_field(out, &type->fields[i], (const char *)message, expected);
	}
	for (unsigned i = 0; i < message->n_unknown_fields; i++) {
		const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
		uint8_t *at = put_tag(room(out, TAG_SIZE_MAX + field->len), field->tag, field->wire_type);
		memcpy(at, field->data, field->len);
		out->size = (size_t)(at - out->data) + field->len;
	}
}

void berth_proto_pack_large(const void *message, size_t expected, struct berth_buf *out)
{
	berth_buf_reserve(out, expected + 1);
	put_message(out, message, expected);
	out->data[out->size] = 0;
}

void berth_proto_pack(const void *message, struct berth_buf *out)
{
	berth_proto_pack_large(message, 0, out);
}
