// SPDX-License-Identifier: Apache-2.0
// One trial's folder: made beside its place under a hidden name, synced, and moved there in one step.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "coordinator/cli/results_internal.h"

#define PARTIAL_PREFIX ".berth-partial-"
#define JSON_INDENT    4

bool results_file_write(const char *folder, const char *name, const berth_json *value, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	berth_json_write(value, JSON_INDENT, &text);
	// A trial's own file of this name does not stand in the way.
	struct stat info;
	if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode) && !berth_remove_all(path, err)) {
		return false;
	}
	return berth_file_write(path, text.data, text.size, 0644, err);
}

struct spool {
	int fd;
	struct berth_hasher *hasher;
	int64_t size, size_max;
};

static bool spool_put(void *context, const void *data, size_t size, struct berth_error *err)
{
	struct spool *spool = context;
	if ((int64_t)size > spool->size_max - spool->size) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "the blob is longer than the %lld bytes of its name",
			(long long)spool->size_max);
	}
	spool->size += (int64_t)size;
	berth_hasher_add(spool->hasher, data, size);
	return berth_write_all(spool->fd, data, size, err);
}

int results_fetch(
	const char *folder, const Berth__V1__BlobRef *blob, struct berth_results_blobs blobs, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_format("%s/" PARTIAL_PREFIX "blob-XXXXXX", folder);
	BERTH_AUTO_CLOSE int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		berth_fail_errno(err, "cannot make a file in %s", folder);
		return -1;
	}
	unlink(path);
	struct spool spool = {.fd = fd, .hasher = berth_hasher_new(), .size_max = blob->size};
	bool fetched = blobs.fetch(blobs.context, blob, (struct berth_sink){spool_put, &spool}, err);
	struct berth_digest digest = berth_hasher_finish(spool.hasher);
	if (!fetched) {
		return -1;
	}
	if (blob->sha256.len != BERTH_DIGEST_SIZE || memcmp(blob->sha256.data, digest.bytes, BERTH_DIGEST_SIZE) != 0 ||
		spool.size != blob->size) {
		char hex[BERTH_DIGEST_HEX_SIZE];
		berth_digest_hex(&digest, hex);
		berth_fail(err, BERTH_ERROR_CORRUPT,
			"the blob's bytes are not the ones its digest names (got %lld bytes, sha256 %s); try again, "
			"and "
			"when it stays so the blob store is damaged",
			(long long)spool.size, hex);
		return -1;
	}
	if (lseek(fd, 0, SEEK_SET) < 0) {
		berth_fail_errno(err, "cannot read the blob again");
		return -1;
	}
	int kept = fd;
	fd = -1;
	return kept;
}

static bool unpack(const char *job_folder, const char *partial, const Berth__V1__BlobRef *blob,
	struct berth_results_blobs blobs, struct berth_error *err)
{
	if (!blob || blob->size == 0) {
		return true;
	}
	BERTH_AUTO_CLOSE int fd = results_fetch(job_folder, blob, blobs, err);
	const struct berth_untar_options options = {
		.content_size_max = BERTH_RESULTS_FOLDER_SIZE_MAX, .entries_max = BERTH_RESULTS_FOLDER_FILES_MAX};
	return fd >= 0 && berth_untar(berth_source_fd(&fd), partial, &options, err);
}

static bool sync_path(const char *path, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fsync(fd) < 0) {
		return berth_fail_errno(err, "cannot sync %s", path);
	}
	return true;
}

static bool sync_tree(char *folder, struct berth_error *err)
{
	char *const roots[] = {folder, NULL};
	FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	if (!walk) {
		return berth_fail_errno(err, "cannot list %s", folder);
	}
	bool ok = true;
	FTSENT *entry;
	while (ok && (entry = fts_read(walk))) {
		if (entry->fts_info == FTS_F || entry->fts_info == FTS_DP) {
			ok = sync_path(entry->fts_path, err);
		}
	}
	fts_close(walk);
	return ok;
}

static bool write_exception(const char *folder, const Berth__V1__TrialException *exception, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "exception.txt");
	struct stat info;
	if (!exception || lstat(path, &info) == 0) {
		return true;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (*exception->traceback) {
		berth_buf_printf(&text, "%s\n", exception->traceback);
	}
	berth_buf_printf(&text, "%s: %s\n", exception->type, exception->message);
	return berth_file_write(path, text.data, text.size, 0644, err);
}

static bool move_into_place(const char *partial, const char *place, struct berth_error *err)
{
	if (rename(partial, place) == 0) {
		return true;
	}
	if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) {
		return berth_fail_errno(err, "cannot move the finished folder to %s", place);
	}
	// Something unfinished is there: it goes where this was made, and is removed.
	if (renameat2(AT_FDCWD, partial, AT_FDCWD, place, RENAME_EXCHANGE) != 0) {
		return berth_fail_errno(err, "cannot replace %s", place);
	}
	return berth_remove_all(partial, err);
}

static bool fill(const char *job_folder, char *partial, const Berth__V1__BlobRef *blob,
	struct berth_results_blobs blobs, const struct results_trial_files *files, struct berth_error *err)
{
	return unpack(job_folder, partial, blob, blobs, err) && write_exception(partial, files->exception, err) &&
	       results_file_write(partial, "config.json", files->config, err) &&
	       results_file_write(partial, "lock.json", files->lock, err) &&
	       results_file_write(partial, "result.json", files->result, err) && sync_tree(partial, err);
}

bool results_folder_write(const char *job_folder, const char *name, const Berth__V1__BlobRef *blob,
	struct berth_results_blobs blobs, const struct results_trial_files *files, struct berth_error *err)
{
	BERTH_AUTO_FREE char *partial = berth_format("%s/" PARTIAL_PREFIX "XXXXXX", job_folder);
	BERTH_AUTO_FREE char *place = berth_path_join(job_folder, name);
	if (!mkdtemp(partial)) {
		return berth_fail_errno(err, "cannot make a folder in %s", job_folder);
	}
	chmod(partial, 0755);
	if (!fill(job_folder, partial, blob, blobs, files, err) || !move_into_place(partial, place, err)) {
		berth_remove_all(partial, NULL);
		return berth_error_wrap(err, "trial %s", name);
	}
	return berth_sync_dir(job_folder, err);
}

bool results_folder_clean(const char *job_folder, struct berth_error *err)
{
	DIR *folder = opendir(job_folder);
	if (!folder) {
		return berth_fail_errno(err, "cannot list %s", job_folder);
	}
	bool ok = true;
	struct dirent *entry;
	while (ok && (entry = readdir(folder))) {
		if (strncmp(entry->d_name, PARTIAL_PREFIX, strlen(PARTIAL_PREFIX)) == 0) {
			BERTH_AUTO_FREE char *path = berth_path_join(job_folder, entry->d_name);
			ok = berth_remove_all(path, err);
		}
	}
	closedir(folder);
	return ok;
}
