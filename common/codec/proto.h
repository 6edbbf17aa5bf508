// SPDX-License-Identifier: Apache-2.0
// What protobuf-c leaves to its users: copies, packing into our buffers, setting strings.
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/error.h"

// A deep copy; free with protobuf_c_message_free_unpacked. NULL for NULL.
void *berth_proto_clone(const void *message);
// A copy in a few pieces of memory, for a message of many parts that stays as it is: nothing of it may be set or freed
// but the whole, by berth_proto_compact_free. NULL for NULL.
void *berth_proto_compact(const void *message);
void berth_proto_compact_free(void *message); // NULL is allowed
// A copy in an arena. NULL for NULL.
void *berth_proto_copy_in(struct berth_arena *arena, const void *message);
// Appends the packed bytes.
void berth_proto_pack(const void *message, struct berth_buf *out);
// The same without moving bytes around, where it is known about how many they are and that most are of one part. 0:
// few.
void berth_proto_pack_large(const void *message, size_t expected, struct berth_buf *out);
// SHA-256 of the packed bytes, which are never in memory as a whole; and how many they are (NULL: it does not matter).
struct berth_digest berth_proto_sha256(const void *message, size_t *size);
// CORRUPT with `what` when the bytes are not such a message.
void *berth_proto_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t size, const char *what,
	struct berth_error *err);
// The same with all its parts in an arena: nothing of it may be set or freed. NULL when the bytes are no such message.
void *berth_proto_unpack_in(
	struct berth_arena *arena, const ProtobufCMessageDescriptor *type, const void *data, size_t size);
void berth_proto_free(void *message);               // NULL is allowed
void berth_proto_cleanup(void *pointer_to_message); // for BERTH_AUTO
// Replaces a string field of an owned message by a copy.
void berth_proto_set_string(char **field, const char *text);
void berth_proto_set_bytes(ProtobufCBinaryData *field, const void *data, size_t size);
// Appends an owned message to a repeated field of an owned message.
void berth_proto_append(size_t *count, void *pointer_to_list, void *message);
