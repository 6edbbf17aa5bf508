// SPDX-License-Identifier: Apache-2.0
// BlobService: runs on the blob port's own threads, which may wait for the disk.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/backups.h"
#include "coordinator/service/daemon.h"

#define FIND_MAX         10000
#define GET_CHUNK        (256 * 1024)
#define GET_UNSENT_BYTES (BERTH_BLOB_UNSENT_MAX / 3 * 2)

static bool digest_of(const Berth__V1__BlobRef *blob, struct berth_digest *digest, struct berth_error *err)
{
	if (!blob || blob->sha256.len != BERTH_DIGEST_SIZE || blob->size < 0 || blob->size > BERTH_BLOB_SIZE_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a blob is named by 32 bytes of SHA-256 and its size");
	}
	memcpy(digest->bytes, blob->sha256.data, BERTH_DIGEST_SIZE);
	return true;
}

static void find_missing(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__FindMissingRequest *request = (const Berth__V1__FindMissingRequest *)message;
	struct berth_error err;
	if (request->n_blobs > FIND_MAX) {
		berth_fail(&err, BERTH_ERROR_INVALID, "at most %d blobs can be asked for at once", FIND_MAX);
		berth_rpc_finish(call, &err);
		return;
	}
	Berth__V1__FindMissingResponse response = BERTH__V1__FIND_MISSING_RESPONSE__INIT;
	response.missing = berth_alloc((request->n_blobs + 1) * sizeof(*response.missing));
	bool ok = true;
	for (size_t i = 0; ok && i < request->n_blobs; i++) {
		struct berth_digest digest;
		ok = digest_of(request->blobs[i], &digest, &err);
		if (ok) {
			berth_blobs_pin(daemon->blobs, &digest);
			if (!berth_blobs_has(daemon->blobs, &digest, request->blobs[i]->size) &&
				!berth_ledger_has_blob(daemon->ledger, &digest)) {
				response.missing[response.n_missing++] = request->blobs[i];
			}
		}
	}
	berth_reply(call, ok ? &response : NULL, &err);
	free(response.missing);
}

// --- PutBlob ---

struct put {
	struct berth_blob_writer *writer;
	bool begun, existed;
};

static void put_begin(struct berth_rpc_call *call, void *context)
{
	(void)context;
	berth_rpc_call_set_data(call, berth_alloc(sizeof(struct put)));
	berth_rpc_read_next(call);
}

static void put_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__PutBlobRequest *request = (const Berth__V1__PutBlobRequest *)message;
	struct put *put = berth_rpc_call_data(call);
	struct berth_error err;
	bool ok = true;
	if (!put->begun) {
		struct berth_digest digest;
		put->begun = true;
		ok = digest_of(request->blob, &digest, &err) &&
		     berth_blob_writer_open(
			     daemon->blobs, &digest, request->blob->size, &put->writer, &put->existed, &err);
	} else if (request->blob) {
		ok = berth_fail(&err, BERTH_ERROR_INVALID, "only the first message of a put names the blob");
	}
	if (ok && put->existed) {
		// No need to send what is there; the bytes that are on their way are not read.
		Berth__V1__PutBlobResponse response = BERTH__V1__PUT_BLOB_RESPONSE__INIT;
		response.existed = true;
		berth_reply(call, &response, NULL);
		return;
	}
	if (ok && put->writer && request->chunk.len) {
		ok = berth_blob_writer_add(put->writer, request->chunk.data, request->chunk.len, &err);
	}
	if (!ok) {
		berth_rpc_finish(call, &err);
		return;
	}
	berth_rpc_read_next(call);
}

static void put_half_closed(struct berth_rpc_call *call, void *context)
{
	(void)context;
	struct put *put = berth_rpc_call_data(call);
	struct berth_error err;
	bool ok = put->begun || berth_fail(&err, BERTH_ERROR_INVALID, "a put starts with the blob's name");
	if (ok) {
		struct berth_blob_writer *writer = BERTH_STEAL(put->writer);
		ok = writer ? berth_blob_writer_finish(writer, &err)
		            : berth_fail(&err, BERTH_ERROR_INVALID, "the put had failed");
	}
	Berth__V1__PutBlobResponse response = BERTH__V1__PUT_BLOB_RESPONSE__INIT;
	berth_reply(call, ok ? &response : NULL, &err);
}

static void put_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled, (void)context;
	struct put *put = berth_rpc_call_data(call);
	berth_blob_writer_abort(put->writer);
	free(put);
}

// --- GetBlob ---

struct get {
	int fd;                 // of a file in the blob store, or
	struct berth_buf bytes; // all of a small blob in the ledger
	size_t at;              // in them
	uint8_t *chunk;
	bool over;
};

static ssize_t next_chunk(struct get *get)
{
	if (get->fd >= 0) {
		return read(get->fd, get->chunk, GET_CHUNK);
	}
	size_t left = get->bytes.size - get->at, size = left < GET_CHUNK ? left : GET_CHUNK;
	memcpy(get->chunk, get->bytes.data + get->at, size);
	get->at += size;
	return (ssize_t)size;
}

// Sends until the stream has enough, and goes on when it is writable again.
static void get_more(struct berth_rpc_call *call, void *context)
{
	(void)context;
	struct get *get = berth_rpc_call_data(call);
	struct berth_error err;
	while (get && !get->over && berth_rpc_send_queue_size(call) < GET_UNSENT_BYTES) {
		ssize_t size = next_chunk(get);
		Berth__V1__GetBlobResponse response = BERTH__V1__GET_BLOB_RESPONSE__INIT;
		response.chunk.data = get->chunk;
		response.chunk.len = size > 0 ? (size_t)size : 0;
		if (size > 0 && berth_rpc_send(call, &response.base, &err)) {
			continue;
		}
		if (size < 0) {
			berth_fail_errno(&err, "the blob can't be read");
		}
		berth_rpc_finish(call, size == 0 ? NULL : &err);
		get->over = true;
	}
}

static bool open_file(struct berth_daemon *daemon, const struct berth_digest *digest,
	const Berth__V1__GetBlobRequest *request, struct get *get, struct berth_error *err)
{
	get->fd = berth_blob_open_read(daemon->blobs, digest, request->blob->size, err);
	if (get->fd >= 0) {
		return lseek(get->fd, request->offset, SEEK_SET) >= 0 ||
		       berth_fail_errno(err, "the blob can't be read");
	}
	return false;
}

static bool open_small(struct berth_daemon *daemon, const struct berth_digest *digest,
	const Berth__V1__GetBlobRequest *request, struct get *get, struct berth_error *err)
{
	get->at = (size_t)request->offset;
	return berth_ledger_get_blob(daemon->ledger, digest, &get->bytes, err) &&
	       (get->bytes.size == (size_t)request->blob->size ||
		       berth_fail(err, BERTH_ERROR_CORRUPT, "the blob has %zu bytes, not %lld", get->bytes.size,
			       (long long)request->blob->size));
}

static void get_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__GetBlobRequest *request = (const Berth__V1__GetBlobRequest *)message;
	struct berth_error err;
	struct berth_digest digest;
	bool ok = digest_of(request->blob, &digest, &err);
	if (ok && (request->offset < 0 || request->offset > request->blob->size)) {
		ok = berth_fail(&err, BERTH_ERROR_INVALID, "the offset lies outside the blob");
	}
	if (!ok) {
		berth_rpc_finish(call, &err);
		return;
	}
	struct get *get = berth_alloc(sizeof *get);
	get->fd = -1;
	berth_rpc_call_set_data(call, get);
	ok = open_file(daemon, &digest, request, get, &err) ||
	     (err.code == BERTH_ERROR_NOT_FOUND && open_small(daemon, &digest, request, get, &err));
	if (!ok) {
		get->over = true;
		berth_rpc_finish(call, &err);
		return;
	}
	get->chunk = berth_alloc(GET_CHUNK);
	get_more(call, context);
}

static void read_backup_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct berth_error err;
	int fd = berth_backup_open(daemon->backups, (const Berth__V1__ReadBackupRequest *)message, &err);
	if (fd < 0) {
		berth_rpc_finish(call, &err);
		return;
	}
	struct get *get = berth_alloc(sizeof *get);
	get->fd = fd;
	get->chunk = berth_alloc(GET_CHUNK);
	berth_rpc_call_set_data(call, get);
	get_more(call, context);
}

static void get_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled, (void)context;
	struct get *get = berth_rpc_call_data(call);
	if (get) {
		berth_close_cleanup(&get->fd);
		berth_buf_free(&get->bytes);
		free(get->chunk);
		free(get);
	}
}

#define ANYONE_KNOWN (BERTH_ROLE_USER | BERTH_ROLE_OPERATOR | BERTH_ROLE_AGENT)

const struct berth_rpc_handler berth_blob_handlers[] = {
	{.method = "FindMissing", .roles = ANYONE_KNOWN, .message = find_missing},
	{.method = "PutBlob",
		.roles = ANYONE_KNOWN,
		.begin = put_begin,
		.message = put_message,
		.half_closed = put_half_closed,
		.ended = put_ended},
	{.method = "GetBlob", .roles = ANYONE_KNOWN, .message = get_message, .writable = get_more, .ended = get_ended},
	{.method = "ReadBackup",
		.roles = BERTH_ROLE_OPERATOR,
		.message = read_backup_message,
		.writable = get_more,
		.ended = get_ended},
};
const size_t berth_blob_handlers_count = BERTH_COUNT(berth_blob_handlers);
