// SPDX-License-Identifier: Apache-2.0
// The fake's blob store, in memory.
#include <stdlib.h>
#include <string.h>

#include "berth/v1/blob.pb-c.h"
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "tests/support/test.h"
#include "tests/unit/cli/fake_internal.h"

#define CHUNK_SIZE 1024

void fake_answer(struct berth_rpc_call *call, const void *message)
{
	berth_rpc_send(call, message, NULL);
	berth_rpc_finish(call, NULL);
}

void fake_refuse(struct berth_rpc_call *call, enum berth_error_code code, const char *text)
{
	struct berth_error err;
	berth_fail(&err, code, "%s", text);
	berth_rpc_finish(call, &err);
}

struct fake_blob *fake_find_blob(struct fake *fake, const Berth__V1__BlobRef *ref)
{
	for (size_t i = 0; i < fake->blobs_count; i++) {
		if (ref->sha256.len == 32 && memcmp(fake->blobs[i].sha256, ref->sha256.data, 32) == 0) {
			return &fake->blobs[i];
		}
	}
	return NULL;
}

static void find_missing(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct fake *fake = context;
	const Berth__V1__FindMissingRequest *request = (const Berth__V1__FindMissingRequest *)message;
	Berth__V1__FindMissingResponse response = BERTH__V1__FIND_MISSING_RESPONSE__INIT;
	Berth__V1__BlobRef *missing[FAKE_BLOBS_MAX];
	response.missing = missing;
	pthread_mutex_lock(&fake->lock);
	for (size_t i = 0; i < request->n_blobs && i < FAKE_BLOBS_MAX; i++) {
		if (!fake_find_blob(fake, request->blobs[i])) {
			missing[response.n_missing++] = request->blobs[i];
		}
	}
	pthread_mutex_unlock(&fake->lock);
	fake_answer(call, &response);
}

static void put_begin(struct berth_rpc_call *call, void *context)
{
	(void)context;
	berth_rpc_call_set_data(call, berth_alloc(sizeof(struct berth_buf)));
	berth_rpc_read_next(call);
}

static void put_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)context;
	const Berth__V1__PutBlobRequest *request = (const Berth__V1__PutBlobRequest *)message;
	struct berth_buf *bytes = berth_rpc_call_data(call);
	assert_true(request->chunk.len <= 1024 * 1024);
	assert_int_equal(bytes->size == 0 && request->chunk.len == 0, request->blob != NULL);
	berth_buf_add(bytes, request->chunk.data, request->chunk.len);
	berth_rpc_read_next(call);
}

static void put_end(struct berth_rpc_call *call, void *context)
{
	struct fake *fake = context;
	struct berth_buf *bytes = berth_rpc_call_data(call);
	Berth__V1__PutBlobResponse response = BERTH__V1__PUT_BLOB_RESPONSE__INIT;
	pthread_mutex_lock(&fake->lock);
	struct fake_blob *blob = &fake->blobs[fake->blobs_count++];
	struct berth_digest digest = berth_sha256(bytes->data, bytes->size);
	memcpy(blob->sha256, digest.bytes, sizeof blob->sha256);
	blob->bytes = *bytes;
	*bytes = (struct berth_buf){0};
	fake->puts++;
	pthread_mutex_unlock(&fake->lock);
	fake_answer(call, &response);
}

static void put_over(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	(void)context;
	struct berth_buf *bytes = berth_rpc_call_data(call);
	if (bytes) {
		berth_buf_free(bytes);
		free(bytes);
	}
}

static void get_blob(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct fake *fake = context;
	const Berth__V1__GetBlobRequest *request = (const Berth__V1__GetBlobRequest *)message;
	pthread_mutex_lock(&fake->lock);
	fake->gets++;
	struct fake_blob *blob = fake_find_blob(fake, request->blob);
	bool cut = fake->get_cuts > 0 && fake->get_cuts-- > 0;
	for (size_t at = (size_t)request->offset; blob && at < blob->bytes.size; at += CHUNK_SIZE) {
		size_t left = blob->bytes.size - at;
		BERTH_AUTO_FREE uint8_t *copy =
			berth_memdup(blob->bytes.data + at, left < CHUNK_SIZE ? left : CHUNK_SIZE);
		Berth__V1__GetBlobResponse response = BERTH__V1__GET_BLOB_RESPONSE__INIT;
		response.chunk = (ProtobufCBinaryData){left < CHUNK_SIZE ? left : CHUNK_SIZE, copy};
		copy[0] ^= fake->corrupt_blobs;
		berth_rpc_send(call, &response.base, NULL);
		if (cut) {
			break;
		}
	}
	pthread_mutex_unlock(&fake->lock);
	if (!blob) {
		fake_refuse(call, BERTH_ERROR_NOT_FOUND, "no such blob");
	} else if (cut) {
		fake_refuse(call, BERTH_ERROR_UNAVAILABLE, "cut");
	} else {
		berth_rpc_finish(call, NULL);
	}
}

const struct berth_rpc_handler FAKE_BLOB_HANDLERS[] = {
	{.method = "FindMissing", .roles = FAKE_ANYONE, .message = find_missing},
	{.method = "PutBlob",
		.roles = FAKE_ANYONE,
		.begin = put_begin,
		.message = put_message,
		.half_closed = put_end,
		.ended = put_over},
	{.method = "GetBlob", .roles = FAKE_ANYONE, .message = get_blob},
};
const size_t FAKE_BLOB_HANDLERS_COUNT = BERTH_COUNT(FAKE_BLOB_HANDLERS);
