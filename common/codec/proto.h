// SPDX-License-Identifier: Apache-2.0
// What protobuf-c leaves to its users: copies, packing into our buffers, setting strings.
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/error.h"

// A deep copy; free with protobuf_c_message_free_unpacked. NULL for NULL.
void *berth_proto_clone(const void *message);
// Appends the packed bytes.
void berth_proto_pack(const void *message, struct berth_buf *out);
// CORRUPT with `what` when the bytes are not such a message.
void *berth_proto_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t size, const char *what,
	struct berth_error *err);
void berth_proto_free(void *message);		    // NULL is allowed
void berth_proto_cleanup(void *pointer_to_message); // for BERTH_AUTO
// Replaces a string field of an owned message by a copy.
void berth_proto_set_string(char **field, const char *text);
void berth_proto_set_bytes(ProtobufCBinaryData *field, const void *data, size_t size);
// Appends an owned message to a repeated field of an owned message.
void berth_proto_append(size_t *count, void *pointer_to_list, void *message);
