// SPDX-License-Identifier: Apache-2.0
#include "coordinator/blob/blob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "coordinator/blob/blob_internal.h"

#define FOLDER_MODE       0700
#define PREFIXES          256
#define PREFIX_DIGITS_MAX 3 // with the NUL

char *blob_path(const struct berth_blobs *blobs, const struct berth_digest *digest)
{
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(digest, hex);
	return berth_format("%s/%.2s/%s", blobs->folder, hex, hex);
}

bool blob_disk_check(const struct berth_blobs *blobs, int64_t size, struct berth_error *err)
{
	if (blobs->disk_free_min_bytes <= 0) {
		return true;
	}
	int64_t available = berth_disk_free(blobs->folder, err);
	if (available < 0) {
		return false;
	}
	if (available < blobs->disk_free_min_bytes || available - blobs->disk_free_min_bytes < size) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED,
			"the disk of %s has %lld bytes free and a blob of %lld must leave %lld: remove other files or "
			"sweep",
			blobs->folder, (long long)available, (long long)size, (long long)blobs->disk_free_min_bytes);
	}
	return true;
}

static void see_prefixes(const struct berth_blobs *blobs, bool seen[static PREFIXES])
{
	DIR *folder = opendir(blobs->folder);
	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		uint8_t prefix;
		if (berth_unhex(entry->d_name, &prefix, 1)) {
			seen[prefix] = true;
		}
	}
	if (folder) {
		closedir(folder);
	}
}

// Every folder is made at the start: a put then has one folder to sync, its own. One that is there already may not be
// synced yet: the start that made it may have been killed.
static bool make_folders(const struct berth_blobs *blobs, struct berth_error *err)
{
	BERTH_AUTO_FREE char *unfinished = berth_path_join(blobs->folder, "tmp");
	if (!berth_remove_all(unfinished, err) || !berth_mkdir_all(unfinished, FOLDER_MODE, err)) {
		return false;
	}
	bool seen[PREFIXES] = {0};
	see_prefixes(blobs, seen);
	for (unsigned i = 0; i < PREFIXES; i++) {
		if (seen[i]) {
			continue;
		}
		char name[PREFIX_DIGITS_MAX];
		const uint8_t byte = (uint8_t)i;
		berth_hex(&byte, 1, name);
		BERTH_AUTO_FREE char *path = berth_path_join(blobs->folder, name);
		if (mkdir(path, FOLDER_MODE) < 0 && errno != EEXIST) {
			return berth_fail_errno(err, "cannot make the folder %s", path);
		}
	}
	return berth_sync_dir(blobs->folder, err);
}

struct berth_blobs *berth_blobs_open(const char *folder, int64_t disk_free_min_bytes, struct berth_error *err)
{
	struct berth_blobs *blobs = berth_alloc(sizeof *blobs);
	blobs->folder = berth_strdup(folder);
	blobs->disk_free_min_bytes = disk_free_min_bytes;
	blobs->pins = berth_alloc(BLOB_PINS_MAX * sizeof *blobs->pins);
	pthread_mutex_init(&blobs->lock, NULL);
	pthread_cond_init(&blobs->writer_gone, NULL);
	if (!berth_mkdir_all(folder, FOLDER_MODE, err) || !make_folders(blobs, err)) {
		berth_error_wrap(err, "blobs");
		berth_blobs_close(blobs);
		return NULL;
	}
	return blobs;
}

void berth_blobs_close(struct berth_blobs *blobs)
{
	if (blobs) {
		pthread_cond_destroy(&blobs->writer_gone);
		pthread_mutex_destroy(&blobs->lock);
		free(blobs->pins);
		free(blobs->folder);
		free(blobs);
	}
}

bool berth_blobs_has(struct berth_blobs *blobs, const struct berth_digest *digest, int64_t size)
{
	BERTH_AUTO_FREE char *path = blob_path(blobs, digest);
	struct stat info;
	return stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == size;
}

int berth_blob_open_read(
	struct berth_blobs *blobs, const struct berth_digest *digest, int64_t size, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = blob_path(blobs, digest);
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat info;
	if (fd < 0 || fstat(fd, &info) < 0) {
		berth_fail_errno(err, "cannot open the blob %s", path);
		return -1;
	}
	if (info.st_size != size) {
		berth_fail(err, BERTH_ERROR_CORRUPT, "the blob %s has %lld bytes, not %lld", path,
			(long long)info.st_size, (long long)size);
		return -1;
	}
	int opened = fd;
	fd = -1;
	return opened;
}
