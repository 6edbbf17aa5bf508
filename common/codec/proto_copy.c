// SPDX-License-Identifier: Apache-2.0
// Copies, member by member along the descriptor: packing and unpacking again would cost some times as much.
#include "common/codec/proto_copy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/proto.h"

struct copying {
	void *(*take)(void *context, size_t size);
	void *context;
};

static void *copy_bytes(const struct copying *copying, const void *from, size_t size)
{
	return memcpy(copying->take(copying->context, size), from, size);
}

static void *copy_message(const struct copying *copying, const ProtobufCMessage *from);

// An empty text is nobody's, but in a list each is freed, which has no preset.
static void copy_text(const struct copying *copying, char **text, const char *preset)
{
	bool is_empty = !*text || !(*text)[0];
	*text = preset && is_empty ? (char *)preset : copy_bytes(copying, *text, strlen(*text) + 1);
}

static void copy_value(const struct copying *copying, ProtobufCType type, void *value, const char *preset)
{
	if (type == PROTOBUF_C_TYPE_STRING) {
		copy_text(copying, value, preset);
	} else if (type == PROTOBUF_C_TYPE_BYTES) {
		ProtobufCBinaryData *bytes = value;
		bytes->data = bytes->len ? copy_bytes(copying, bytes->data, bytes->len) : NULL;
	} else if (type == PROTOBUF_C_TYPE_MESSAGE) {
		ProtobufCMessage **message = value;
		*message = *message ? copy_message(copying, *message) : NULL;
	}
}

static size_t size_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return sizeof(uint64_t);
	default:
		return sizeof(uint32_t);
	}
}

static void copy_list(const struct copying *copying, const ProtobufCFieldDescriptor *field, size_t count, void *member)
{
	char **list = member;
	size_t size = size_of(field->type);
	*list = count ? copy_bytes(copying, *list, count * size) : NULL;
	for (size_t i = 0; i < count; i++) {
		copy_value(copying, field->type, *list + i * size, NULL);
	}
}

static void copy_unknown(const struct copying *copying, ProtobufCMessage *copy)
{
	size_t count = copy->n_unknown_fields;
	copy->unknown_fields =
		count ? copy_bytes(copying, copy->unknown_fields, count * sizeof *copy->unknown_fields) : NULL;
	for (size_t i = 0; i < count; i++) {
		ProtobufCMessageUnknownField *field = &copy->unknown_fields[i];
		field->data = field->len ? copy_bytes(copying, field->data, field->len) : NULL;
	}
}

static void *copy_message(const struct copying *copying, const ProtobufCMessage *from)
{
	const ProtobufCMessageDescriptor *type = from->descriptor;
	char *copy = copy_bytes(copying, from, type->sizeof_message);
	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];
		const void *quantifier = copy + field->quantifier_offset;
		if (field->label == PROTOBUF_C_LABEL_REPEATED) {
			copy_list(copying, field, *(const size_t *)quantifier, copy + field->offset);
		} else if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
			   *(const uint32_t *)quantifier == field->id) {
			copy_value(copying, field->type, copy + field->offset, protobuf_c_empty_string);
		}
	}
	copy_unknown(copying, (ProtobufCMessage *)copy);
	return copy;
}

void *proto_copy(const ProtobufCMessage *from, void *(*take)(void *context, size_t size), void *context)
{
	const struct copying copying = {take, context};
	return copy_message(&copying, from);
}

static void *take_alone(void *context, size_t size)
{
	(void)context;
	void *memory = malloc(size);
	if (!memory) {
		abort(); // as berth_alloc
	}
	return memory;
}

void *berth_proto_clone(const void *message)
{
	return message ? proto_copy(message, take_alone, NULL) : NULL;
}
