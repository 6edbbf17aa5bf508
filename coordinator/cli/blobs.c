// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "berth/v1/blob.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/link.h"

#define IDLE_MS 60000 // a chunk takes no longer

bool cli_blob_is_missing(struct cli_link *link, const Berth__V1__BlobRef *blob, bool *missing, struct berth_error *err)
{
	Berth__V1__FindMissingRequest request = BERTH__V1__FIND_MISSING_REQUEST__INIT;
	Berth__V1__BlobRef *blobs[] = {(Berth__V1__BlobRef *)blob};
	request.n_blobs = 1;
	request.blobs = blobs;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__FindMissingResponse *response = cli_call_blobs(link, "FindMissing", &request, err);
	*missing = response && response->n_missing > 0;
	return response != NULL;
}

static void free_stream(struct berth_rpc_stream **stream)
{
	berth_rpc_stream_free(*stream);
}

static struct berth_rpc_stream *open_stream(struct cli_link *link, const char *method, struct berth_error *err)
{
	struct berth_rpc_channel *channel = cli_blob_channel(link, err);
	return channel ? berth_rpc_stream_open(channel, &berth__v1__blob_service__descriptor, method,
				 (struct berth_until){BERTH_NO_DEADLINE_NS, link->cancel}, err)
	               : NULL;
}

struct download {
	const char *method;
	const ProtobufCMessage *request;
	int64_t *offset; // in the request; moved with what has come
	struct berth_sink sink;
	bool sink_failed;
};

static bool get_rest(struct cli_link *link, struct download *download, struct berth_error *err)
{
	BERTH_AUTO(free_stream) struct berth_rpc_stream *stream = open_stream(link, download->method, err);
	if (!stream) {
		return false;
	}
	// A send that fails is explained by the receive.
	if (berth_rpc_stream_send(stream, download->request, err)) {
		berth_rpc_stream_close_send(stream, NULL);
	}
	for (;;) {
		BERTH_AUTO(berth_proto_cleanup) ProtobufCMessage *message = NULL;
		enum berth_rpc_received received =
			berth_rpc_stream_receive(stream, &message, berth_within_ms(IDLE_MS, link->cancel), err);
		if (received != BERTH_RPC_MESSAGE) {
			return received == BERTH_RPC_END;
		}
		link->reached = true;
		const ProtobufCBinaryData *chunk = &((Berth__V1__GetBlobResponse *)message)->chunk;
		if (!download->sink.put(download->sink.context, chunk->data, chunk->len, err)) {
			download->sink_failed = true;
			return false;
		}
		*download->offset += (int64_t)chunk->len;
	}
}

static bool get_all(struct cli_link *link, struct download *download, struct berth_error *err)
{
	struct cli_away away = {0};
	for (;;) {
		int64_t before = *download->offset;
		if (get_rest(link, download, err)) {
			return true;
		}
		if (*download->offset > before) {
			away = (struct cli_away){0};
		}
		if (download->sink_failed || !cli_away_wait(link, &away, err)) {
			return berth_error_wrap(
				err, "blob port %s", link->blobs_address ? link->blobs_address : "not known");
		}
	}
}

bool cli_blob_get(
	struct cli_link *link, const Berth__V1__BlobRef *blob, struct berth_sink sink, struct berth_error *err)
{
	Berth__V1__GetBlobRequest request = BERTH__V1__GET_BLOB_REQUEST__INIT;
	request.blob = (Berth__V1__BlobRef *)blob;
	struct download download = {"GetBlob", &request.base, &request.offset, sink, false};
	return get_all(link, &download, err);
}

bool cli_backup_get(
	struct cli_link *link, const char *backup_id, const char *path, struct berth_sink sink, struct berth_error *err)
{
	Berth__V1__ReadBackupRequest request = BERTH__V1__READ_BACKUP_REQUEST__INIT;
	request.backup_id = (char *)backup_id;
	request.path = (char *)path;
	struct download download = {"ReadBackup", &request.base, &request.offset, sink, false};
	return get_all(link, &download, err);
}

static bool send_chunks(
	struct berth_rpc_stream *stream, const Berth__V1__BlobRef *blob, int fd, bool *sent, struct berth_error *err)
{
	BERTH_AUTO_FREE uint8_t *chunk = berth_alloc(CLI_CHUNK_SIZE);
	Berth__V1__PutBlobRequest first = BERTH__V1__PUT_BLOB_REQUEST__INIT;
	first.blob = (Berth__V1__BlobRef *)blob;
	*sent = berth_rpc_stream_send(stream, &first.base, err);
	for (int64_t offset = 0; *sent && offset < blob->size;) {
		ssize_t size = pread(fd, chunk, CLI_CHUNK_SIZE, offset);
		if (size <= 0) {
			return berth_fail_errno(err, "cannot read the packed task again");
		}
		Berth__V1__PutBlobRequest request = BERTH__V1__PUT_BLOB_REQUEST__INIT;
		request.chunk = (ProtobufCBinaryData){(size_t)size, chunk};
		*sent = berth_rpc_stream_send(stream, &request.base, err);
		offset += size;
	}
	if (*sent) {
		berth_rpc_stream_close_send(stream, NULL);
	}
	return true;
}

static bool put_once(struct cli_link *link, const Berth__V1__BlobRef *blob, int fd, struct berth_error *err)
{
	BERTH_AUTO(free_stream) struct berth_rpc_stream *stream = open_stream(link, "PutBlob", err);
	BERTH_AUTO(berth_proto_cleanup) ProtobufCMessage *message = NULL;
	bool sent = false;
	if (!stream || !send_chunks(stream, blob, fd, &sent, err)) {
		return false;
	}
	switch (berth_rpc_stream_receive(stream, &message, berth_within_ms(IDLE_MS, link->cancel), err)) {
	case BERTH_RPC_MESSAGE:
		link->reached = true;
		return true;
	case BERTH_RPC_END:
		return berth_fail(err, BERTH_ERROR_INTERNAL, "the store ended PutBlob without an answer");
	case BERTH_RPC_FAILED:
		break;
	}
	return false;
}

bool cli_blob_put(struct cli_link *link, const Berth__V1__BlobRef *blob, int fd, struct berth_error *err)
{
	struct cli_away away = {0};
	while (!put_once(link, blob, fd, err)) {
		if (!cli_away_wait(link, &away, err)) {
			return berth_error_wrap(
				err, "blob port %s", link->blobs_address ? link->blobs_address : "not known");
		}
	}
	return true;
}
