// SPDX-License-Identifier: Apache-2.0
// Walks by descriptors and follows no link: what a container left must not lead anywhere else on this host.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/trial/redact.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define LOOK_SIZE      8192 // a NUL in the first bytes tells a binary file
#define CHUNK_SIZE     (256 * 1024)
#define JSON_SIZE_MAX  (16 * 1024 * 1024)
#define DEPTH_MAX      128
#define TEMPORARY_NAME ".berth-redacted"

static bool is_text(int fd)
{
	char head[LOOK_SIZE];
	ssize_t got = pread(fd, head, sizeof head, 0);
	return got > 0 && !memchr(head, 0, (size_t)got);
}

// Reads `fd` in pieces that overlap by what a value may need, and hands each redacted piece on. *found: some value was.
static bool stream(const struct redactor *redactor, int fd, int out, bool *found, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf window = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf clean = {0};
	for (off_t at = 0;;) {
		ssize_t got = pread(fd, berth_buf_reserve(&window, CHUNK_SIZE), CHUNK_SIZE, at);
		if (got < 0) {
			return berth_fail_errno(err, "cannot read");
		}
		window.size += (size_t)got;
		at += got;
		size_t done = redact_window(redactor, window.data, window.size, got == 0, &clean, found);
		if (out < 0 ? *found : clean.size > 0 && !berth_write_all(out, clean.data, clean.size, err)) {
			return out < 0;
		}
		berth_buf_reset(&clean);
		berth_buf_consume(&window, done);
		if (got == 0) {
			return true;
		}
	}
}

// A file with the same name and mode, whole or not at all: from `clean`, or streamed from `fd` where that is NULL.
static bool replace(const struct redactor *redactor, int folder, const char *name, int fd,
	const struct berth_buf *clean, struct berth_error *err)
{
	struct stat stat_of;
	unlinkat(folder, TEMPORARY_NAME, 0);
	BERTH_AUTO_CLOSE int out = openat(folder, TEMPORARY_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0 || fstat(fd, &stat_of) != 0) {
		return berth_fail_errno(err, "cannot write beside %s", name);
	}
	bool found = false;
	if (!(clean ? berth_write_all(out, clean->data, clean->size, err) : stream(redactor, fd, out, &found, err))) {
		unlinkat(folder, TEMPORARY_NAME, 0);
		return berth_error_wrap(err, "%s", name);
	}
	if (fchmod(out, stat_of.st_mode & 07777) != 0 || renameat(folder, TEMPORARY_NAME, folder, name) != 0) {
		return berth_fail_errno(err, "cannot replace %s", name);
	}
	return true;
}

static bool has_suffix(const char *name, const char *suffix)
{
	size_t size = strlen(name), end = strlen(suffix);
	return size > end && strcmp(name + size - end, suffix) == 0;
}

// True when the file was JSON and is dealt with.
static bool redact_json_file(
	const struct redactor *redactor, int folder, const char *name, int fd, bool *good, struct berth_error *err)
{
	struct stat stat_of;
	if (!has_suffix(name, ".json") || fstat(fd, &stat_of) != 0 || stat_of.st_size > JSON_SIZE_MAX) {
		return false;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf clean = {0};
	size_t size = (size_t)stat_of.st_size;
	if (pread(fd, berth_buf_reserve(&text, size), size, 0) != (ssize_t)size) {
		return false;
	}
	text.size = size;
	bool changed;
	if (!redact_json(redactor, text.data, text.size, &clean, &changed)) {
		return false;
	}
	*good = !changed || replace(redactor, folder, name, fd, &clean, err);
	return true;
}

static bool redact_file(const struct redactor *redactor, int folder, const char *name, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		return berth_fail_errno(err, "cannot read %s", name);
	}
	bool good = true, found = false;
	if (!is_text(fd) || redact_json_file(redactor, folder, name, fd, &good, err)) {
		return good;
	}
	return stream(redactor, fd, -1, &found, err) && (!found || replace(redactor, folder, name, fd, NULL, err));
}

static bool walk(const struct redactor *redactor, int parent, const char *name, int depth, struct berth_error *err);

static bool redact_entry(
	const struct redactor *redactor, int folder, const char *name, int depth, struct berth_error *err)
{
	struct stat stat_of;
	if (fstatat(folder, name, &stat_of, AT_SYMLINK_NOFOLLOW) != 0) {
		return berth_fail_errno(err, "cannot look at %s", name);
	}
	if (S_ISDIR(stat_of.st_mode)) {
		return walk(redactor, folder, name, depth + 1, err);
	}
	return !S_ISREG(stat_of.st_mode) || redact_file(redactor, folder, name, err);
}

static bool walk(const struct redactor *redactor, int parent, const char *name, int depth, struct berth_error *err)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 || depth > DEPTH_MAX ? NULL : fdopendir(fd);
	if (!dir) {
		berth_fail_errno(err, "cannot read the folder %s", name);
		if (fd >= 0) {
			close(fd);
		}
		return false;
	}
	bool good = true;
	for (const struct dirent *found; (found = readdir(dir));) {
		if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0) {
			continue;
		}
		struct berth_error failure = {0};
		if (!redact_entry(redactor, fd, found->d_name, depth, &failure) && good) {
			good = berth_fail(err, failure.code, "%s/%s", name, failure.message);
		}
	}
	closedir(dir);
	return good;
}

bool redact_folder(const struct redactor *redactor, const char *folder, struct berth_error *err)
{
	return redactor->count == 0 || walk(redactor, AT_FDCWD, folder, 0, err);
}
