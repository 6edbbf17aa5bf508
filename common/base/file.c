// SPDX-License-Identifier: Apache-2.0
#include "common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/digest.h"
#include "common/base/mem.h"

#define READ_CHUNK      65536
#define TREE_FDS_MAX    32
#define TEMP_NAME_BYTES 6

bool berth_file_read(const char *path, size_t size_max, struct berth_buf *out, struct berth_error *err)
{
	// O_NONBLOCK: opening a FIFO that someone planted must not hang.
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		return berth_fail_errno(err, "cannot read %s", path);
	}
	struct stat info;
	if (fstat(fd, &info) < 0) {
		return berth_fail_errno(err, "cannot read %s", path);
	}
	if (!S_ISREG(info.st_mode)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s is not a regular file", path);
	}
	size_t start = out->size;
	for (;;) {
		uint8_t *room = berth_buf_reserve(out, READ_CHUNK);
		ssize_t got = read(fd, room, READ_CHUNK);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			return berth_fail_errno(err, "cannot read %s", path);
		}
		if (got == 0) {
			return true;
		}
		out->size += (size_t)got;
		out->data[out->size] = 0;
		if (out->size - start > size_max) {
			return berth_fail(err, BERTH_ERROR_INVALID, "%s is larger than %zu bytes", path, size_max);
		}
	}
}

bool berth_write_all(int fd, const void *data, size_t size, struct berth_error *err)
{
	const uint8_t *bytes = data;
	while (size) {
		ssize_t put = write(fd, bytes, size);
		if (put < 0 && errno == EINTR) {
			continue;
		}
		if (put < 0) {
			return berth_fail_errno(err, "write failed");
		}
		bytes += put;
		size -= (size_t)put;
	}
	return true;
}

bool berth_sync_dir(const char *path, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0) {
		return berth_fail_errno(err, "cannot sync the folder %s", path);
	}
	return true;
}

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash) {
		return berth_strdup(".");
	}
	return slash == path ? berth_strdup("/") : berth_strndup(path, (size_t)(slash - path));
}

static bool write_new(
	const char *path, const void *data, size_t size, mode_t mode, bool synced, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0) {
		return berth_fail_errno(err, "cannot create %s", path);
	}
	if (!berth_write_all(fd, data, size, err)) {
		return berth_error_wrap(err, "%s", path);
	}
	if (fchmod(fd, mode) < 0 || (synced && fsync(fd) < 0)) {
		return berth_fail_errno(err, "cannot sync %s", path);
	}
	return true;
}

static bool replace(const char *path, const void *data, size_t size, mode_t mode, bool synced, struct berth_error *err)
{
	uint8_t random[TEMP_NAME_BYTES];
	char suffix[2 * TEMP_NAME_BYTES + 1];
	berth_random(random, sizeof random);
	berth_hex(random, sizeof random, suffix);
	BERTH_AUTO_FREE char *temp = berth_format("%s.%s.tmp", path, suffix);
	if (!write_new(temp, data, size, mode, synced, err)) {
		unlink(temp);
		return false;
	}
	if (rename(temp, path) < 0) {
		berth_fail_errno(err, "cannot rename to %s", path);
		unlink(temp);
		return false;
	}
	BERTH_AUTO_FREE char *folder = folder_of(path);
	return !synced || berth_sync_dir(folder, err);
}

bool berth_file_write(const char *path, const void *data, size_t size, mode_t mode, struct berth_error *err)
{
	return replace(path, data, size, mode, true, err);
}

bool berth_file_write_unsynced(const char *path, const void *data, size_t size, mode_t mode, struct berth_error *err)
{
	return replace(path, data, size, mode, false, err);
}

bool berth_file_exists(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0;
}

bool berth_mkdir_all(const char *path, mode_t mode, struct berth_error *err)
{
	BERTH_AUTO_FREE char *part = berth_strdup(path);
	for (char *at = part + 1; *part; at++) {
		char end = *at;
		if (end != '/' && end != 0) {
			continue;
		}
		*at = 0;
		struct stat info;
		if (mkdir(part, mode) < 0 && (errno != EEXIST || stat(part, &info) < 0 || !S_ISDIR(info.st_mode))) {
			return berth_fail_errno(err, "cannot make the folder %s", part);
		}
		*at = end;
		if (end == 0) {
			break;
		}
	}
	return true;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
	(void)info, (void)ftw;
	int status = kind == FTW_DP || kind == FTW_D || kind == FTW_DNR ? rmdir(path) : unlink(path);
	return status < 0 && errno != ENOENT ? -1 : 0;
}

bool berth_remove_all(const char *path, struct berth_error *err)
{
	if (nftw(path, remove_one, TREE_FDS_MAX, FTW_DEPTH | FTW_PHYS) < 0 && errno != ENOENT) {
		return berth_fail_errno(err, "cannot remove %s", path);
	}
	return true;
}

char *berth_path_join(const char *folder, const char *name)
{
	if (name[0] == '/' || folder[0] == 0) {
		return berth_strdup(name);
	}
	size_t length = strlen(folder);
	return berth_format("%s%s%s", folder, folder[length - 1] == '/' ? "" : "/", name);
}

char *berth_path_base(const char *path)
{
	size_t end = strlen(path);
	while (end > 1 && path[end - 1] == '/') {
		end--;
	}
	size_t start = end;
	while (start > 0 && path[start - 1] != '/') {
		start--;
	}
	return berth_strndup(path + start, end - start);
}

bool berth_path_is_safe(const char *path)
{
	if (path[0] == 0 || path[0] == '/') {
		return false;
	}
	const char *part = path;
	for (const char *at = path;; at++) {
		if (*at == '/' || *at == 0) {
			size_t length = (size_t)(at - part);
			if (length == 0 || (length == 1 && part[0] == '.') ||
				(length == 2 && part[0] == '.' && part[1] == '.')) {
				return false;
			}
			part = at + 1;
		} else if (*at == '\\' || (unsigned char)*at < 0x20 || *at == 0x7f) {
			return false;
		}
		if (*at == 0) {
			return true;
		}
	}
}

int64_t berth_disk_free(const char *path, struct berth_error *err)
{
	struct statvfs info;
	if (statvfs(path, &info) < 0) {
		berth_fail_errno(err, "cannot ask the free space of %s", path);
		return -1;
	}
	return (int64_t)info.f_bavail * (int64_t)info.f_frsize;
}
