// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define OTHERS_MODE_MASK 077
#define OWNER_MODE       0600
#define MODE_MASK        07777

static bool check_private(const char *path, const struct stat *info, size_t size_max, struct berth_error *err)
{
	if (!S_ISREG(info->st_mode)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s is not a regular file", path);
	}
	if (info->st_mode & OTHERS_MODE_MASK) {
		return berth_fail(err, BERTH_ERROR_DENIED,
			"%s holds a key and has mode %04o, which lets others in: run chmod 600 %s", path,
			info->st_mode & MODE_MASK, path);
	}
	if (info->st_size < 0 || (uint64_t)info->st_size > size_max) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s is larger than %zu bytes", path, size_max);
	}
	return true;
}

bool berth_private_file_read(const char *path, size_t size_max, struct berth_buf *out, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat info;
	if (fd < 0 || fstat(fd, &info) < 0) {
		return berth_fail_errno(err, "cannot read %s", path);
	}
	if (!check_private(path, &info, size_max, err)) {
		return false;
	}
	// All room at once: a buffer that grows leaves unwiped copies behind.
	size_t size = (size_t)info.st_size;
	berth_buf_reserve(out, size + 1);
	for (size_t done = 0; done < size;) {
		ssize_t got = read(fd, out->data + out->size, size - done);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			return berth_fail_errno(err, "cannot read %s", path);
		}
		if (got == 0) {
			return berth_fail(err, BERTH_ERROR_INVALID, "%s shrank while it was read", path);
		}
		done += (size_t)got;
		out->size += (size_t)got;
		out->data[out->size] = 0;
	}
	return true;
}

static bool link_in_place(const char *temp, const char *path, struct berth_error *err)
{
	// link, not rename: it never replaces a key that another process has just made and may be using.
	if (link(temp, path) < 0 && errno != EEXIST) {
		return berth_fail_errno(err, "cannot make %s", path);
	}
	return true;
}

bool berth_private_file_make(const char *path, const void *data, size_t size, struct berth_error *err)
{
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	BERTH_AUTO_FREE char *temp = berth_format("%s.%s.new", path, id);
	if (!berth_file_write(temp, data, size, OWNER_MODE, err)) {
		return false;
	}
	bool linked = link_in_place(temp, path, err);
	unlink(temp);
	if (!linked) {
		return false;
	}
	const char *slash = strrchr(path, '/');
	BERTH_AUTO_FREE char *folder = slash ? berth_strndup(path, (size_t)(slash - path) + 1) : berth_strdup(".");
	return berth_sync_dir(folder, err);
}

void berth_private_buf_free(struct berth_buf *buf)
{
	if (buf->data) {
		OPENSSL_cleanse(buf->data, buf->capacity);
	}
	berth_buf_free(buf);
}
