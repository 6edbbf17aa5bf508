// SPDX-License-Identifier: Apache-2.0
// Writers: one a digest, into tmp, hashed on the way, in its place only when whole.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "coordinator/blob/blob_internal.h"

#define FILE_MODE 0400

struct berth_blob_writer {
	struct berth_blobs *blobs;
	struct berth_digest digest;
	int64_t size;
	int64_t written;
	int fd;
	char *temp;
	struct berth_hasher *hasher;
};

static int find_writing(const struct berth_blobs *blobs, const struct berth_digest *digest)
{
	for (int i = 0; i < blobs->writing_count; i++) {
		if (berth_digest_equal(&blobs->writing[i], digest)) {
			return i;
		}
	}
	return -1;
}

bool blob_has_writer(const struct berth_blobs *blobs, const struct berth_digest *digest)
{
	return find_writing(blobs, digest) >= 0;
}

// Waits for another writer of the digest, then takes its turn; false when there are too many writers.
static bool enter(struct berth_blobs *blobs, const struct berth_digest *digest, struct berth_error *err)
{
	pthread_mutex_lock(&blobs->lock);
	while (find_writing(blobs, digest) >= 0) {
		pthread_cond_wait(&blobs->writer_gone, &blobs->lock);
	}
	bool room = blobs->writing_count < BLOB_WRITERS_MAX;
	if (room) {
		blobs->writing[blobs->writing_count++] = *digest;
		blob_pin(blobs, digest, berth_boot_ns()); // until the event that names it
	}
	pthread_mutex_unlock(&blobs->lock);
	return room || berth_fail(err, BERTH_ERROR_EXHAUSTED, "%d blobs are being written already: try again later",
			       BLOB_WRITERS_MAX);
}

static void leave(struct berth_blobs *blobs, const struct berth_digest *digest)
{
	pthread_mutex_lock(&blobs->lock);
	int at = find_writing(blobs, digest);
	if (at >= 0) {
		blobs->writing[at] = blobs->writing[--blobs->writing_count];
	}
	pthread_cond_broadcast(&blobs->writer_gone);
	pthread_mutex_unlock(&blobs->lock);
}

static bool make_temp(struct berth_blob_writer *writer, struct berth_error *err)
{
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	writer->temp = berth_format("%s/tmp/%s", writer->blobs->folder, id);
	writer->fd = open(writer->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	if (writer->fd < 0) {
		return berth_fail_errno(err, "cannot make %s", writer->temp);
	}
	return true;
}

bool berth_blob_writer_open(struct berth_blobs *blobs, const struct berth_digest *digest, int64_t size,
	struct berth_blob_writer **writer, bool *existed, struct berth_error *err)
{
	if (size < 0 || size > BERTH_BLOB_SIZE_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a blob has 0 to %lld bytes, not %lld",
			(long long)BERTH_BLOB_SIZE_MAX, (long long)size);
	}
	if (!enter(blobs, digest, err)) {
		return false;
	}
	*writer = NULL;
	*existed = berth_blobs_has(blobs, digest, size);
	if (*existed) {
		leave(blobs, digest);
		return true;
	}
	struct berth_blob_writer *made = berth_alloc(sizeof *made);
	*made = (struct berth_blob_writer){.blobs = blobs, .digest = *digest, .size = size, .fd = -1};
	made->hasher = berth_hasher_new();
	if (!blob_disk_check(blobs, size, err) || !make_temp(made, err)) {
		berth_blob_writer_abort(made);
		return false;
	}
	*writer = made;
	return true;
}

bool berth_blob_writer_add(struct berth_blob_writer *writer, const void *data, size_t size, struct berth_error *err)
{
	if (size > BERTH_BLOB_CHUNK_MAX) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "a chunk has %zu bytes, more than %d", size, BERTH_BLOB_CHUNK_MAX);
	}
	if ((int64_t)size > writer->size - writer->written) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "the blob has more than the %lld bytes that were announced",
			(long long)writer->size);
	}
	if (!berth_write_all(writer->fd, data, size, err)) {
		return berth_error_wrap(err, "%s", writer->temp);
	}
	berth_hasher_add(writer->hasher, data, size);
	writer->written += (int64_t)size;
	return true;
}

static bool check_content(struct berth_blob_writer *writer, struct berth_error *err)
{
	if (writer->written != writer->size) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "the blob has %lld bytes, not the %lld that were announced",
			(long long)writer->written, (long long)writer->size);
	}
	struct berth_digest digest = berth_hasher_finish(BERTH_STEAL(writer->hasher));
	if (!berth_digest_equal(&digest, &writer->digest)) {
		char got[BERTH_DIGEST_TEXT_SIZE];
		char wanted[BERTH_DIGEST_TEXT_SIZE];
		berth_digest_text(&digest, got);
		berth_digest_text(&writer->digest, wanted);
		return berth_fail(err, BERTH_ERROR_CORRUPT, "the blob's digest is %s, not %s", got, wanted);
	}
	return true;
}

static bool put_in_place(struct berth_blob_writer *writer, struct berth_error *err)
{
	if (fsync(writer->fd) < 0) {
		return berth_fail_errno(err, "cannot sync %s", writer->temp);
	}
	BERTH_AUTO_FREE char *path = blob_path(writer->blobs, &writer->digest);
	if (rename(writer->temp, path) < 0) {
		return berth_fail_errno(err, "cannot rename to %s", path);
	}
	BERTH_AUTO_FREE char *folder = berth_strndup(path, (size_t)(strrchr(path, '/') - path));
	if (!berth_sync_dir(folder, err)) {
		unlink(path); // not known to be durable: not there
		return false;
	}
	return true;
}

bool berth_blob_writer_finish(struct berth_blob_writer *writer, struct berth_error *err)
{
	bool finished = check_content(writer, err) && put_in_place(writer, err);
	berth_blob_writer_abort(writer); // whatever is left of it; a renamed file has no temporary name any more
	return finished;
}

void berth_blob_writer_abort(struct berth_blob_writer *writer)
{
	if (!writer) {
		return;
	}
	if (writer->fd >= 0) {
		close(writer->fd);
		unlink(writer->temp);
	}
	berth_hasher_free(writer->hasher);
	leave(writer->blobs, &writer->digest);
	free(writer->temp);
	free(writer);
}
