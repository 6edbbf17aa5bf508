// SPDX-License-Identifier: Apache-2.0
#include "agent/session/transfer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/session/backoff.h"
#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define CHUNK_BYTES (128 * 1024)
#define SILENCE_MS  (30 * 1000) // a transfer that moves nothing for so long is begun again
#define PUT_MS      (60 * 60 * 1000)
#define SERVICE     (&berth__v1__blob_service__descriptor)

// What another attempt may mend: everything but an answer that will be the same.
static bool may_retry(const struct berth_error *failure)
{
	switch (failure->code) {
	case BERTH_ERROR_NOT_FOUND:
	case BERTH_ERROR_INVALID:
	case BERTH_ERROR_DENIED:
	case BERTH_ERROR_UNSUPPORTED:
	case BERTH_ERROR_CORRUPT:
		return false;
	default:
		return true;
	}
}

// --- get ---
static bool append(
	int fd, const Berth__V1__GetBlobResponse *response, int64_t *at, int64_t size, struct berth_error *err)
{
	if (*at + (int64_t)response->chunk.len > size) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "the coordinator sent more than the blob's %lld bytes",
			(long long)size);
	}
	*at += (int64_t)response->chunk.len;
	return berth_write_all(fd, response->chunk.data, response->chunk.len, err);
}

static bool receive_rest(struct berth_rpc_stream *stream, int fd, int64_t at, int64_t size, struct berth_until until,
	struct berth_error *err)
{
	while (at < size) {
		ProtobufCMessage *message = NULL;
		struct berth_until wait = berth_until_at_most_ms(until, SILENCE_MS);
		enum berth_rpc_received got = berth_rpc_stream_receive(stream, &message, wait, err);
		if (got == BERTH_RPC_END) {
			return berth_fail(err, BERTH_ERROR_IO, "the coordinator ended a blob early");
		}
		if (got == BERTH_RPC_FAILED) {
			return false;
		}
		bool appended = append(fd, (const Berth__V1__GetBlobResponse *)message, &at, size, err);
		berth_proto_free(message);
		if (!appended) {
			return false;
		}
	}
	return true;
}

static bool get_once(struct berth_rpc_channel *channel, const Berth__V1__BlobRef *blob, const char *path,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	struct stat info;
	if (fd < 0 || fstat(fd, &info) < 0) {
		return berth_fail_errno(err, "cannot write %s", path);
	}
	if (info.st_size > blob->size && ftruncate(fd, 0) < 0) {
		return berth_fail_errno(err, "cannot write %s", path);
	}
	int64_t at = info.st_size > blob->size ? 0 : info.st_size;
	if (at == blob->size) {
		return true;
	}
	struct berth_rpc_stream *stream = berth_rpc_stream_open(channel, SERVICE, "GetBlob", until, err);
	if (!stream) {
		return false;
	}
	Berth__V1__GetBlobRequest request = BERTH__V1__GET_BLOB_REQUEST__INIT;
	request.blob = (Berth__V1__BlobRef *)blob;
	request.offset = at;
	// A send that fails leaves its reason to receive.
	if (berth_rpc_stream_send(stream, &request.base, NULL)) {
		berth_rpc_stream_close_send(stream, NULL);
	}
	bool done = receive_rest(stream, fd, at, blob->size, until, err);
	berth_rpc_stream_free(stream);
	return done;
}

// --- put ---
static bool send_file(struct berth_rpc_stream *stream, const Berth__V1__BlobRef *blob, int fd, struct berth_error *err)
{
	BERTH_AUTO_FREE uint8_t *chunk = berth_alloc(CHUNK_BYTES);
	bool open = true, first = true;
	while (open) {
		ssize_t got = read(fd, chunk, CHUNK_BYTES);
		if (got < 0) {
			return berth_fail_errno(err, "cannot read a spooled result");
		}
		if (got == 0 && !first) {
			break;
		}
		Berth__V1__PutBlobRequest request = BERTH__V1__PUT_BLOB_REQUEST__INIT;
		request.blob = first ? (Berth__V1__BlobRef *)blob : NULL;
		request.chunk = (ProtobufCBinaryData){.data = chunk, .len = (size_t)got};
		first = false;
		open = berth_rpc_stream_send(stream, &request.base, NULL);
	}
	// A server that has the blob answers before it has read all: then a send fails and the answer tells.
	if (open) {
		berth_rpc_stream_close_send(stream, NULL);
	}
	return true;
}

static bool put_once(struct berth_rpc_channel *channel, const Berth__V1__BlobRef *blob, const char *path,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return berth_fail_errno(err, "cannot read %s", path);
	}
	struct berth_rpc_stream *stream =
		berth_rpc_stream_open(channel, SERVICE, "PutBlob", berth_until_at_most_ms(until, PUT_MS), err);
	if (!stream) {
		return false;
	}
	ProtobufCMessage *message = NULL;
	bool answered = send_file(stream, blob, fd, err);
	if (answered) {
		enum berth_rpc_received got =
			berth_rpc_stream_receive(stream, &message, berth_until_at_most_ms(until, PUT_MS), err);
		answered = got == BERTH_RPC_MESSAGE ||
		           (got == BERTH_RPC_END &&
				   berth_fail(err, BERTH_ERROR_IO, "the coordinator did not answer an upload"));
	}
	berth_proto_free(message);
	berth_rpc_stream_free(stream);
	return answered;
}

typedef bool transfer_once(struct berth_rpc_channel *channel, const Berth__V1__BlobRef *blob, const char *path,
	struct berth_until until, struct berth_error *err);

static bool repeat(transfer_once *once, const char *what, struct berth_rpc_channel *channel,
	const Berth__V1__BlobRef *blob, const char *path, struct berth_until until, struct berth_error *err)
{
	struct berth_error failure;
	for (unsigned attempt = 0; !once(channel, blob, path, until, &failure); attempt++) {
		if (berth_until_over(until)) {
			return berth_fail_until(until, err, what);
		}
		if (!may_retry(&failure)) {
			return berth_fail(err, failure.code, "%s: %s", what, failure.message);
		}
		if (attempt == 0) {
			berth_log_warn("a transfer was cut; trying again", "what=%s error=%s", berth_log_quote(what),
				berth_log_quote(failure.message));
		}
		if (!berth_sleep_ms(backoff_ms(attempt), until, NULL)) {
			return berth_fail_until(until, err, what);
		}
	}
	return true;
}

bool transfer_get(struct berth_rpc_channel *channel, const Berth__V1__BlobRef *blob, const char *path,
	struct berth_until until, struct berth_error *err)
{
	return repeat(get_once, "the fetch of a bundle", channel, blob, path, until, err);
}

bool transfer_put(struct berth_rpc_channel *channel, const Berth__V1__BlobRef *blob, const char *path,
	struct berth_until until, struct berth_error *err)
{
	return repeat(put_once, "the upload of a result", channel, blob, path, until, err);
}

bool transfer_digest_file(const char *path, struct berth_digest *digest, int64_t *size, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return berth_fail_errno(err, "cannot read %s", path);
	}
	BERTH_AUTO_FREE uint8_t *chunk = berth_alloc(CHUNK_BYTES);
	struct berth_hasher *hasher = berth_hasher_new();
	ssize_t got;
	*size = 0;
	while ((got = read(fd, chunk, CHUNK_BYTES)) > 0) {
		berth_hasher_add(hasher, chunk, (size_t)got);
		*size += got;
	}
	*digest = berth_hasher_finish(hasher);
	return got == 0 || berth_fail_errno(err, "cannot read %s", path);
}
