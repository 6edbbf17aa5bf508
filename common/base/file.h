// SPDX-License-Identifier: Apache-2.0
// Files: whole reads with a limit, atomic synced writes, trees. Any thread may call these; all block on the disk.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/buf.h"
#include "common/base/error.h"

// Appends the file's bytes to `out`. INVALID when it is larger than `size_max` or not a regular file (links are
// followed).
bool berth_file_read(const char *path, size_t size_max, struct berth_buf *out, struct berth_error *err);
// Writes a sibling temporary file, syncs it, renames it over `path` and syncs the folder: after a crash the file has
// its old content or the new one, whole.
bool berth_file_write(const char *path, const void *data, size_t size, mode_t mode, struct berth_error *err);
// The same without the syncs, for what means nothing after a crash of the machine.
bool berth_file_write_unsynced(const char *path, const void *data, size_t size, mode_t mode, struct berth_error *err);
bool berth_file_exists(const char *path);
bool berth_mkdir_all(const char *path, mode_t mode, struct berth_error *err);
// Removes a file or a whole tree, never following links. A path that does not exist is a success.
bool berth_remove_all(const char *path, struct berth_error *err);
bool berth_sync_dir(const char *path, struct berth_error *err);
// All of `size` bytes, over short writes and EINTR.
bool berth_write_all(int fd, const void *data, size_t size, struct berth_error *err);
// "a/b" of "a" and "b"; the caller frees. An absolute second part wins.
char *berth_path_join(const char *folder, const char *name);
// The last part of a path without trailing slashes; the caller frees.
char *berth_path_base(const char *path);
// True for a relative path without empty, "." or ".." parts, backslashes or control characters.
bool berth_path_is_safe(const char *path);
// Bytes free for unprivileged writers on the file system of `path`; -1 with err set when it cannot be asked.
int64_t berth_disk_free(const char *path, struct berth_error *err);
