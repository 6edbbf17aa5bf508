// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/codec/proto.h"

struct hashing {
	ProtobufCBuffer base; // what protobuf-c appends to
	struct berth_hasher *hasher;
	size_t filled, passed;
	uint8_t bytes[16 * 1024]; // most parts are a byte or two
};

static void hash_more(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
	struct hashing *hashing = (struct hashing *)buffer;
	if (size > sizeof hashing->bytes - hashing->filled) {
		berth_hasher_add(hashing->hasher, hashing->bytes, hashing->filled);
		hashing->passed += hashing->filled;
		hashing->filled = 0;
	}
	if (size > sizeof hashing->bytes) {
		berth_hasher_add(hashing->hasher, data, size);
		hashing->passed += size;
		return;
	}
	if (size) { // an empty part may be nowhere
		memcpy(hashing->bytes + hashing->filled, data, size);
		hashing->filled += size;
	}
}

struct berth_digest berth_proto_sha256(const void *message, size_t *size)
{
	struct hashing hashing = {.base = {hash_more}, .hasher = berth_hasher_new()};
	protobuf_c_message_pack_to_buffer(message, &hashing.base);
	berth_hasher_add(hashing.hasher, hashing.bytes, hashing.filled);
	if (size) {
		*size = hashing.passed + hashing.filled;
	}
	explicit_bzero(hashing.bytes, sizeof hashing.bytes);
	return berth_hasher_finish(hashing.hasher);
}
