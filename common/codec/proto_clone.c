// SPDX-License-Identifier: Apache-2.0
// Copies, member by member.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"

static char *copy_text(const char *text)
{
	return text && text[0] ? berth_strdup(text) : (char *)protobuf_c_empty_string;
}

static void copy_bytes(ProtobufCBinaryData *bytes)
{
	bytes->data = bytes->len ? berth_memdup(bytes->data, bytes->len) : NULL;
}

static size_t item_size(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
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

static void own_member(ProtobufCType type, void *member)
{
	if (type == PROTOBUF_C_TYPE_STRING) {
		*(char **)member = copy_text(*(char **)member);
	} else if (type == PROTOBUF_C_TYPE_BYTES) {
		copy_bytes(member);
	} else if (type == PROTOBUF_C_TYPE_MESSAGE) {
		*(void **)member = berth_proto_clone(*(void **)member);
	}
}

// A list frees each of its texts, also one that is empty.
static void own_item(ProtobufCType type, void *item)
{
	if (type == PROTOBUF_C_TYPE_STRING) {
		*(char **)item = berth_strdup(*(char **)item);
	} else {
		own_member(type, item);
	}
}

static void own_list(const ProtobufCFieldDescriptor *field, void **items, size_t count)
{
	size_t size = item_size(field->type);
	*items = count ? berth_memdup(*items, count * size) : NULL;
	for (size_t i = 0; i < count; i++) {
		own_item(field->type, (char *)*items + i * size);
	}
}

static void own_field(const ProtobufCFieldDescriptor *field, char *message)
{
	void *member = message + field->offset;
	const void *quantifier = message + field->quantifier_offset;
	bool is_oneof = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		own_list(field, member, *(const size_t *)quantifier);
	} else if (!is_oneof || *(const uint32_t *)quantifier == field->id) {
		own_member(field->type, member);
	}
}

static void own_unknown(ProtobufCMessage *message)
{
	size_t size = message->n_unknown_fields * sizeof message->unknown_fields[0];
	message->unknown_fields = size ? berth_memdup(message->unknown_fields, size) : NULL;
	for (unsigned i = 0; i < message->n_unknown_fields; i++) {
		ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
		field->data = berth_memdup(field->data, field->len);
	}
}

void *berth_proto_clone(const void *message)
{
	if (!message) {
		return NULL;
	}
	const ProtobufCMessageDescriptor *type = ((const ProtobufCMessage *)message)->descriptor;
	ProtobufCMessage *copy = berth_memdup(message, type->sizeof_message);
	for (unsigned i = 0; i < type->n_fields; i++) {
		own_field(&type->fields[i], (char *)copy);
	}
	own_unknown(copy);
	return copy;
}
