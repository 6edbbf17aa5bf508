// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/session/fake_blobs.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/mem.h"

#define CHUNK_BYTES 4096

struct putting {
	uint8_t digest[32];
	struct berth_buf bytes;
};

struct fake_blob *fake_blob(struct fake *fake, const Berth__V1__BlobRef *ref)
{
	for (size_t i = 0; i < fake->blobs_count; i++) {
		if (ref->sha256.len == 32 && memcmp(fake->blobs[i].digest, ref->sha256.data, 32) == 0) {
			return &fake->blobs[i];
		}
	}
	return NULL;
}

void fake_keep_blob(struct fake *fake, const uint8_t digest[static 32], struct berth_buf *bytes)
{
	uint8_t *copy = berth_memdup(digest, 32);
	Berth__V1__BlobRef ref = BERTH__V1__BLOB_REF__INIT;
	ref.sha256 = (ProtobufCBinaryData){.data = copy, .len = 32};
	if (!fake_blob(fake, &ref)) {
		struct fake_blob *blob = &fake->blobs[fake->blobs_count++];
		memcpy(blob->digest, digest, 32);
		blob->bytes = *bytes;
		memset(bytes, 0, sizeof *bytes);
	}
	free(copy);
}

static bool is_refusing(struct fake *fake, struct berth_rpc_call *call)
{
	pthread_mutex_lock(&fake->lock);
	bool refusing = fake->refuse_blobs;
	pthread_mutex_unlock(&fake->lock);
	if (refusing) {
		struct berth_error err;
		berth_fail(&err, BERTH_ERROR_UNAVAILABLE, "the blob store is away");
		berth_rpc_finish(call, &err);
	}
	return refusing;
}

static void put_begin(struct berth_rpc_call *call, void *context)
{
	if (!is_refusing(context, call)) {
		berth_rpc_call_set_data(call, berth_alloc(sizeof(struct putting)));
		berth_rpc_read_next(call);
	}
}

static void put_message(struct berth_rpc_call *call, const ProtobufCMessage *base, void *context)
{
	(void)context;
	struct putting *putting = berth_rpc_call_data(call);
	const Berth__V1__PutBlobRequest *request = (const Berth__V1__PutBlobRequest *)base;
	if (request->blob && request->blob->sha256.len == 32) {
		memcpy(putting->digest, request->blob->sha256.data, 32);
	}
	berth_buf_add(&putting->bytes, request->chunk.data, request->chunk.len);
	berth_rpc_read_next(call);
}

static void put_half_closed(struct berth_rpc_call *call, void *context)
{
	struct fake *fake = context;
	struct putting *putting = berth_rpc_call_data(call);
	struct berth_digest digest = berth_sha256(putting->bytes.data, putting->bytes.size);
	if (memcmp(digest.bytes, putting->digest, 32) != 0) {
		struct berth_error err;
		berth_fail(&err, BERTH_ERROR_INVALID, "these bytes have another digest");
		berth_rpc_finish(call, &err);
		return;
	}
	pthread_mutex_lock(&fake->lock);
	fake->puts++;
	fake_keep_blob(fake, putting->digest, &putting->bytes);
	pthread_mutex_unlock(&fake->lock);
	Berth__V1__PutBlobResponse response = BERTH__V1__PUT_BLOB_RESPONSE__INIT;
	berth_rpc_send(call, &response.base, NULL);
	berth_rpc_finish(call, NULL);
}

static void put_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	(void)context;
	struct putting *putting = berth_rpc_call_data(call);
	if (putting) {
		berth_buf_free(&putting->bytes);
		free(putting);
	}
}

static void send_blob(struct fake *fake, struct berth_rpc_call *call, const struct fake_blob *blob, size_t at)
{
	size_t end = blob->bytes.size;
	if (fake->cut_get_after && end > at + fake->cut_get_after) {
		end = at + fake->cut_get_after;
	}
	while (at < end) {
		size_t size = end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES;
		BERTH_AUTO_FREE uint8_t *chunk = berth_memdup(blob->bytes.data + at, size);
		chunk[0] ^= fake->corrupt_gets;
		Berth__V1__GetBlobResponse response = BERTH__V1__GET_BLOB_RESPONSE__INIT;
		response.chunk = (ProtobufCBinaryData){.data = chunk, .len = size};
		berth_rpc_send(call, &response.base, NULL);
		at += size;
	}
	struct berth_error err;
	berth_fail(&err, BERTH_ERROR_UNAVAILABLE, "the connection was cut");
	berth_rpc_finish(call, end < blob->bytes.size ? &err : NULL);
}

static void get_message(struct berth_rpc_call *call, const ProtobufCMessage *base, void *context)
{
	struct fake *fake = context;
	const Berth__V1__GetBlobRequest *request = (const Berth__V1__GetBlobRequest *)base;
	if (is_refusing(fake, call)) {
		return;
	}
	pthread_mutex_lock(&fake->lock);
	fake->gets++;
	if ((uint64_t)request->offset > fake->gets_from) {
		fake->gets_from = (uint64_t)request->offset;
	}
	struct fake_blob *blob = fake_blob(fake, request->blob);
	if (blob) {
		send_blob(fake, call, blob, (size_t)request->offset);
	}
	pthread_mutex_unlock(&fake->lock);
	if (!blob) {
		struct berth_error err;
		berth_fail(&err, BERTH_ERROR_NOT_FOUND, "no such blob");
		berth_rpc_finish(call, &err);
	}
}

const struct berth_rpc_handler FAKE_BLOB_HANDLERS[] = {
	{.method = "PutBlob",
		.roles = BERTH_ROLE_ANYONE,
		.begin = put_begin,
		.message = put_message,
		.half_closed = put_half_closed,
		.ended = put_ended},
	{.method = "GetBlob", .roles = BERTH_ROLE_ANYONE, .message = get_message},
};
const size_t FAKE_BLOB_HANDLERS_COUNT = BERTH_COUNT(FAKE_BLOB_HANDLERS);
