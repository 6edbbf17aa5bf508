// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/mem.h"
#include "coordinator/cli/output.h"

static size_t size_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	default:
		return 4;
	}
}

static berth_json *bytes_json(const ProtobufCBinaryData *bytes)
{
	BERTH_AUTO_FREE char *text = berth_alloc(2 * bytes->len + 1);
	berth_hex(bytes->data, bytes->len, text);
	return berth_json_string(text);
}

static berth_json *enum_json(const ProtobufCEnumDescriptor *type, int value)
{
	const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);
	return known ? berth_json_string(known->name) : berth_json_integer(value);
}

static berth_json *real_json(double value)
{
	return isfinite(value) ? berth_json_real(value) : berth_json_null();
}

static berth_json *value_json(const ProtobufCFieldDescriptor *field, const void *at)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		return berth_json_bool(*(const protobuf_c_boolean *)at);
	case PROTOBUF_C_TYPE_ENUM:
		return enum_json(field->descriptor, *(const int *)at);
	case PROTOBUF_C_TYPE_STRING:
		return berth_json_string(*(char *const *)at);
	case PROTOBUF_C_TYPE_BYTES:
		return bytes_json(at);
	case PROTOBUF_C_TYPE_MESSAGE:
		return cli_message_json(*(ProtobufCMessage *const *)at);
	case PROTOBUF_C_TYPE_DOUBLE:
		return real_json(*(const double *)at);
	case PROTOBUF_C_TYPE_FLOAT:
		return real_json(*(const float *)at);
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		return berth_json_integer(*(const uint32_t *)at);
	default:
		return berth_json_integer(size_of(field->type) == 8 ? *(const int64_t *)at : *(const int32_t *)at);
	}
}

static berth_json *list_json(const ProtobufCFieldDescriptor *field, const void *message)
{
	const char *start = (const char *)message;
	size_t count = *(const size_t *)(const void *)(start + field->quantifier_offset);
	const char *items = *(char *const *)(const void *)(start + field->offset);
	berth_json *list = berth_json_array();
	for (size_t i = 0; i < count; i++) {
		berth_json_append(list, value_json(field, items + i * size_of(field->type)));
	}
	return list;
}

berth_json *cli_message_json(const ProtobufCMessage *message)
{
	if (!message) {
		return berth_json_null();
	}
	berth_json *object = berth_json_object();
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		const char *start = (const char *)message;
		if (field->label == PROTOBUF_C_LABEL_REPEATED) {
			berth_json_set(object, field->name, list_json(field, message));
		} else if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
			   *(const uint32_t *)(const void *)(start + field->quantifier_offset) == field->id) {
			berth_json_set(object, field->name, value_json(field, start + field->offset));
		}
	}
	return object;
}

void cli_json_print(FILE *out, berth_json *value, bool one_line)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_json_write(value, one_line ? 0 : 2, &text);
	fprintf(out, "%s\n", berth_buf_text(&text));
	berth_json_free(value);
}

void cli_messages_print(FILE *out, void *messages, size_t count)
{
	berth_json *list = berth_json_array();
	for (size_t i = 0; i < count; i++) {
		berth_json_append(list, cli_message_json(((ProtobufCMessage **)messages)[i]));
	}
	cli_json_print(out, list, false);
}
