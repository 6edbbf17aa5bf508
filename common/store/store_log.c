// SPDX-License-Identifier: Apache-2.0
// The logs of earlier runs. RocksDB turns them into tables whenever it opens: many small files, each synced, for what
// is often one record. Few and small ones are kept as logs instead.
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store_internal.h"

#define LOG_ENDING     ".log"
#define KEPT_LOGS_MAX  4
#define KEPT_BYTES_MAX ((off_t)256 * 1024) // of all

static bool is_log(const char *name)
{
	size_t size = strlen(name), ending = strlen(LOG_ENDING);
	return size > ending && strcmp(name + size - ending, LOG_ENDING) == 0;
}

// What was read is written over itself: a sync that failed in an earlier run leaves pages that no later one would
// write.
static bool write_again(int fd, off_t size)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf content = {0};
	berth_buf_reserve(&content, (size_t)size);
	return pread(fd, content.data, (size_t)size, 0) == size && pwrite(fd, content.data, (size_t)size, 0) == size &&
	       fdatasync(fd) == 0;
}

static bool make_durable(int folder, const char *name, off_t *bytes_left)
{
	BERTH_AUTO_CLOSE int fd = openat(folder, name, O_RDWR | O_CLOEXEC);
	struct stat info;
	if (fd < 0 || fstat(fd, &info) < 0 || info.st_size > *bytes_left) {
		return false;
	}
	*bytes_left -= info.st_size;
	return info.st_size == 0 || write_again(fd, info.st_size);
}

bool store_logs_make_durable(const char *folder)
{
	DIR *dir = opendir(folder);
	int logs = 0;
	off_t bytes_left = KEPT_BYTES_MAX;
	bool ok = dir;
	for (struct dirent *entry; ok && (entry = readdir(dir));) {
		ok = !is_log(entry->d_name) ||
		     (++logs <= KEPT_LOGS_MAX && make_durable(dirfd(dir), entry->d_name, &bytes_left));
	}
	if (dir) {
		closedir(dir);
	}
	return ok;
}
