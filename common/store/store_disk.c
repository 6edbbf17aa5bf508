// SPDX-License-Identifier: Apache-2.0
// The folder around RocksDB: its lock, the free-space watermark, the ballast.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store_internal.h"

#define LOCK_NAME    "LOCK.berth"
#define BALLAST_NAME "ballast.berth"
#define FILE_MODE    0600

int store_lock(const char *folder, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, LOCK_NAME);
	BERTH_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
	if (fd < 0) {
		berth_fail_errno(err, "cannot open %s", path);
		return -1;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK) {
			berth_fail(err, BERTH_ERROR_CONFLICT,
				"%s is in use by another process: stop it first (fuser %s names it)", folder, path);
		} else {
			berth_fail_errno(err, "cannot lock %s", path);
		}
		return -1;
	}
	int locked = fd;
	fd = -1;
	return locked;
}

bool store_disk_check(const char *folder, int64_t free_min_bytes, int64_t more, struct berth_error *err)
{
	if (free_min_bytes <= 0) {
		return true;
	}
	int64_t available = berth_disk_free(folder, err);
	if (available < 0) {
		return false;
	}
	if (available < free_min_bytes || available - free_min_bytes < more) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED,
			"the disk of %s has %lld bytes free and needs %lld: remove other files from it or make it "
			"larger",
			folder, (long long)available, (long long)(free_min_bytes + more));
	}
	return true;
}

static int64_t file_blocks_bytes(int fd)
{
	struct stat info;
	const int64_t block = 512;
	return fstat(fd, &info) < 0 ? 0 : (int64_t)info.st_blocks * block;
}

static bool allocate(const char *path, int64_t size, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
	if (fd < 0) {
		return berth_fail_errno(err, "cannot make %s", path);
	}
	if (file_blocks_bytes(fd) >= size && ftruncate(fd, size) == 0) {
		return true;
	}
	int status = posix_fallocate(fd, 0, size);
	if (status != 0) {
		unlink(path);
	}
	if (status != 0 && status != ENOSPC) {
		errno = status;
		return berth_fail_errno(err, "cannot reserve %lld bytes in %s", (long long)size, path);
	}
	return true;
}

bool store_ballast_make(const char *folder, int64_t size, int64_t free_min_bytes, struct berth_error *err)
{
	if (size <= 0) {
		store_ballast_remove(folder);
		return true;
	}
	BERTH_AUTO_FREE char *path = berth_path_join(folder, BALLAST_NAME);
	if (!berth_file_exists(path)) {
		int64_t available = berth_disk_free(folder, err);
		if (available < 0) {
			return false;
		}
		if (available - size < free_min_bytes) {
			return true;
		}
	}
	return allocate(path, size, err);
}

void store_ballast_remove(const char *folder)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, BALLAST_NAME);
	unlink(path);
}
