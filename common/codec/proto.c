// SPDX-License-Identifier: Apache-2.0
#include "common/codec/proto.h"

#include <stdlib.h>

#include "common/base/mem.h"

void *berth_proto_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t size, const char *what,
	struct berth_error *err)
{
	void *message = protobuf_c_message_unpack(type, NULL, size, data);
	if (!message) {
		berth_fail(err, BERTH_ERROR_CORRUPT, "%s is no %s", what, type->name);
	}
	return message;
}

static void *take(void *arena, size_t size)
{
	return berth_arena_take(arena, size);
}

static void give_back(void *arena, void *part)
{
	berth_arena_give_back(arena, part);
}

void *berth_proto_unpack_in(
	struct berth_arena *arena, const ProtobufCMessageDescriptor *type, const void *data, size_t size)
{
	ProtobufCAllocator allocator = {.alloc = take, .free = give_back, .allocator_data = arena};
	return protobuf_c_message_unpack(type, &allocator, size, data);
}

void berth_proto_free(void *message)
{
	if (message) {
		protobuf_c_message_free_unpacked(message, NULL);
	}
}

void berth_proto_cleanup(void *pointer_to_message)
{
	berth_proto_free(*(void **)pointer_to_message);
}

void berth_proto_set_string(char **field, const char *text)
{
	if (*field != protobuf_c_empty_string) {
		free(*field);
	}
	*field = text && text[0] ? berth_strdup(text) : (char *)protobuf_c_empty_string;
}

void berth_proto_set_bytes(ProtobufCBinaryData *field, const void *data, size_t size)
{
	free(field->data);
	field->len = size;
	field->data = size ? berth_memdup(data, size) : NULL;
}

void berth_proto_append(size_t *count, void *pointer_to_list, void *message)
{
	void ***list = pointer_to_list;
	*list = berth_realloc_array(*list, *count + 1, sizeof **list);
	(*list)[(*count)++] = message;
}
