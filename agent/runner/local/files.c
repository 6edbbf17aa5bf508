// SPDX-License-Identifier: Apache-2.0
// Folders into a container and out of it, by the Engine's archive calls: nothing inside the container takes part.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/runner/local/internal.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define TAR_BLOCK    512
#define TAR_END_SIZE (2 * TAR_BLOCK)
#define NAME_MAX_TAR 99

int local_spool(struct berth_error *err)
{
	const char *folder = getenv("TMPDIR");
	BERTH_AUTO_FREE char *path = berth_format("%s/berth-spool-XXXXXX", folder && *folder ? folder : "/tmp");
	int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		berth_fail_errno(err, "cannot make a temporary file %s", path);
		return -1;
	}
	unlink(path);
	return fd;
}

static bool rewind_spool(int fd, struct berth_error *err)
{
	return lseek(fd, 0, SEEK_SET) == 0 || berth_fail_errno(err, "cannot rewind a temporary file");
}

// An entry without content, in the oldest form that every tar reader knows.
static bool write_bare_entry(int fd, const char *name, char type, mode_t mode, struct berth_error *err)
{
	if (strlen(name) > NAME_MAX_TAR) {
		return berth_fail(err, BERTH_ERROR_INVALID, "the path /%s is too long", name);
	}
	char block[TAR_BLOCK] = {0};
	memcpy(block, name, strlen(name));
	snprintf(block + 100, 8, "%07o", (unsigned)mode);
	snprintf(block + 108, 8, "%07o", 0U);
	snprintf(block + 116, 8, "%07o", 0U);
	snprintf(block + 124, 12, "%011o", 0U);
	snprintf(block + 136, 12, "%011o", 0U);
	block[156] = type;
	memcpy(block + 257, "ustar\00000", 8);
	memset(block + 148, ' ', 8);
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof block; i++) {
		sum += (unsigned char)block[i];
	}
	snprintf(block + 148, 7, "%06o", sum);
	return berth_write_all(fd, block, sizeof block, err);
}

// Takes the end mark of the archive off, so that more entries can follow.
static bool drop_end(int fd, struct berth_error *err)
{
	off_t size = lseek(fd, 0, SEEK_END);
	if (size < TAR_END_SIZE || ftruncate(fd, size - TAR_END_SIZE) != 0 || lseek(fd, 0, SEEK_END) < 0) {
		return berth_fail_errno(err, "cannot join archives in a temporary file");
	}
	return true;
}

static bool write_executable(int fd, const struct berth_put *put, const char *prefix, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(put->folder, put->executable);
	struct stat stat_of;
	if (stat(path, &stat_of) != 0 || (stat_of.st_mode & 0111) == 0111) {
		return true;
	}
	BERTH_AUTO_FREE char *name = berth_format("%s/%s", prefix, put->executable);
	mode_t readable = (stat_of.st_mode & 0077) ? 0 : 0444;
	return berth_tar_write_file(path, name, (stat_of.st_mode & 07777) | 0111 | readable, berth_sink_fd(&fd), err) &&
	       drop_end(fd, err);
}

// A file in a folder's place makes the Engine remove the whole folder, and a folder in a file's place the file.
static bool write_put(int fd, const struct berth_put *put, struct berth_error *err)
{
	const char *name = put->target + strspn(put->target, "/");
	if (put->fresh && !write_bare_entry(fd, name, '0', 0600, err)) {
		return false;
	}
	if (!put->folder) {
		return write_bare_entry(fd, name, '5', 0777, err);
	}
	const struct berth_tar_options options = {.prefix = name, .widen_private_modes = true};
	return berth_tar_write_folder(put->folder, &options, berth_sink_fd(&fd), err) && drop_end(fd, err) &&
	       (!put->executable || write_executable(fd, put, name, err));
}

// The parents get an entry where they are well known, so that they are open to everyone on every Engine.
static bool write_parents(int fd, const struct berth_put *puts, size_t count, struct berth_error *err)
{
	for (size_t i = 0; i < count; i++) {
		if (strncmp(puts[i].target, "/logs/", 6) == 0) {
			return write_bare_entry(fd, "logs", '5', 0755, err);
		}
	}
	return true;
}

bool local_put(struct berth_environment *environment, const struct berth_put *puts, size_t count,
	struct berth_until until, struct berth_error *err)
{
	static const char end[TAR_END_SIZE];
	BERTH_AUTO_CLOSE int fd = local_spool(err);
	if (fd < 0 || !write_parents(fd, puts, count, err)) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		if (!write_put(fd, &puts[i], err)) {
			return false;
		}
	}
	if (!berth_write_all(fd, end, sizeof end, err) || !rewind_spool(fd, err)) {
		return false;
	}
	return berth_docker_archive_put(
		       environment->local->docker, environment->id, "/", berth_source_fd(&fd), until, err) ||
	       local_explain(environment, err);
}

static bool send_folder(struct berth_environment *environment, const char *folder, const char *into, const char *prefix,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = local_spool(err);
	const struct berth_tar_options options = {.prefix = prefix, .widen_private_modes = true};
	return fd >= 0 && berth_tar_write_folder(folder, &options, berth_sink_fd(&fd), err) && rewind_spool(fd, err) &&
	       berth_docker_archive_put(
		       environment->local->docker, environment->id, into, berth_source_fd(&fd), until, err);
}

bool local_upload(struct berth_environment *environment, const char *folder, const char *target,
	struct berth_until until, struct berth_error *err)
{
	// A target that exists keeps its owner and mode, and may be a link; only a missing one is made.
	struct berth_error failure = {0};
	if (send_folder(environment, folder, target, NULL, until, &failure)) {
		return true;
	}
	if (failure.code == BERTH_ERROR_NOT_FOUND) {
		const char *prefix = target + strspn(target, "/");
		return send_folder(environment, folder, "/", prefix, until, err) || local_explain(environment, err);
	}
	berth_fail(err, failure.code, "%s", failure.message);
	return local_explain(environment, err);
}

bool local_download(struct berth_environment *environment, const char *source, bool is_folder, const char *path,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = local_spool(err);
	// With "/." a link to a folder is followed, as a copy of its content has to.
	BERTH_AUTO_FREE char *from = is_folder ? berth_format("%s/.", source) : berth_strdup(source);
	if (fd < 0 || !berth_docker_archive_get(
			      environment->local->docker, environment->id, from, berth_sink_fd(&fd), until, err)) {
		return false;
	}
	const struct berth_untar_options options = {
		.strip_parts = 0,
		.single_file = is_folder ? NULL : path,
		.content_size_max = LOCAL_COPY_SIZE_MAX,
		.entries_max = LOCAL_COPY_ENTRIES_MAX,
	};
	if (!is_folder) {
		const char *slash = strrchr(path, '/');
		BERTH_AUTO_FREE char *parent = slash ? berth_strndup(path, (size_t)(slash - path)) : berth_strdup(".");
		return rewind_spool(fd, err) && berth_mkdir_all(parent, 0755, err) &&
		       berth_untar(berth_source_fd(&fd), parent, &options, err);
	}
	return rewind_spool(fd, err) && berth_mkdir_all(path, 0755, err) &&
	       berth_untar(berth_source_fd(&fd), path, &options, err);
}
