// SPDX-License-Identifier: Apache-2.0
#include "common/codec/tar.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/tar_internal.h"
#include "common/codec/tar_libarchive.h"

#define BLOCK_SIZE (64 * 1024)

struct writer {
	struct archive *archive;
	struct berth_sink sink;
	struct berth_error *err;
	bool sink_failed; // then err holds the sink's own reason
};

static la_ssize_t put_block(struct archive *archive, void *context, const void *data, size_t size)
{
	(void)archive;
	struct writer *writer = context;
	if (writer->sink_failed || !writer->sink.put(writer->sink.context, data, size, writer->err)) {
		writer->sink_failed = true;
		return -1;
	}
	return (la_ssize_t)size;
}

// What libarchive refused; a WARN (a name that is no text in the C locale) is none.
static bool check(struct writer *writer, int status, const char *name)
{
	if (status >= ARCHIVE_WARN) {
		return true;
	}
	if (writer->sink_failed) {
		return false;
	}
	return berth_fail(writer->err, BERTH_ERROR_INVALID, "cannot store %s in a tar: %s", name,
		libarchive.error_string(writer->archive));
}

static bool writer_open(struct writer *writer, struct berth_sink sink, struct berth_error *err)
{
	if (!tar_libarchive_load(err)) {
		return false;
	}
	*writer = (struct writer){.archive = libarchive.write_new(), .sink = sink, .err = err};
	if (!writer->archive) {
		abort();
	}
	libarchive.write_set_format_pax_restricted(writer->archive);
	libarchive.write_set_bytes_per_block(writer->archive, BLOCK_SIZE);
	libarchive.write_set_bytes_in_last_block(writer->archive, 512);
	libarchive.write_open(writer->archive, writer, NULL, put_block, NULL);
	return true;
}

static bool writer_finish(struct writer *writer, bool good)
{
	if (good) {
		good = check(writer, libarchive.write_close(writer->archive), "the end");
	} else {
		writer->sink_failed = true; // nothing more goes out: what follows a fault is no archive
	}
	libarchive.write_free(writer->archive);
	return good;
}

static bool write_header(struct writer *writer, const char *name, mode_t mode, int64_t size, const char *link)
{
	struct archive_entry *entry = libarchive.entry_new();
	libarchive.entry_copy_pathname(entry, name);
	libarchive.entry_set_mode(entry, mode);
	libarchive.entry_set_size(entry, S_ISREG(mode) ? size : 0);
	libarchive.entry_set_mtime(entry, 0, 0);
	libarchive.entry_set_uid(entry, 0);
	libarchive.entry_set_gid(entry, 0);
	if (link) {
		libarchive.entry_copy_symlink(entry, link);
	}
	bool good = check(writer, libarchive.write_header(writer->archive, entry), name);
	libarchive.entry_free(entry);
	return good;
}

static bool write_data(struct writer *writer, const char *name, const void *data, size_t size)
{
	return size == 0 ||
	       check(writer, libarchive.write_data(writer->archive, data, size) < 0 ? ARCHIVE_FATAL : ARCHIVE_OK, name);
}

// The header promised `size` bytes: a file that has shrunk meanwhile cannot be stored.
static bool write_content(struct writer *writer, const char *path, int fd, int64_t size)
{
	BERTH_AUTO_FREE char *data = berth_alloc(BLOCK_SIZE);
	while (size > 0) {
		ssize_t got = read(fd, data, size < BLOCK_SIZE ? (size_t)size : BLOCK_SIZE);
		if (got < 0) {
			return berth_fail_errno(writer->err, "cannot read %s", path);
		}
		if (got == 0) {
			return berth_fail(writer->err, BERTH_ERROR_CONFLICT,
				"%s became shorter while it was read: try again when it is still", path);
		}
		if (!write_data(writer, path, data, (size_t)got)) {
			return false;
		}
		size -= got;
	}
	return true;
}

static int open_regular(const char *path, int flags, int64_t *size, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
	struct stat stat;
	if (fd < 0 || fstat(fd, &stat) != 0) {
		berth_fail_errno(err, "cannot read %s", path);
		return -1;
	}
	if (!S_ISREG(stat.st_mode)) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s is not a regular file", path);
		return -1;
	}
	*size = stat.st_size;
	int opened = fd;
	fd = -1;
	return opened;
}

static bool write_entry(struct writer *writer, const char *folder, const char *prefix, struct berth_tar_entry *entry)
{
	const char *slash = *prefix && *entry->path ? "/" : "";
	BERTH_AUTO_FREE char *name = berth_format("%s%s%s", prefix, slash, entry->path);
	mode_t mode = entry->stat.st_mode;
	if (!*name) {
		return true; // the archive's root is the receiver's own
	}
	if (!S_ISREG(mode)) {
		return write_header(writer, name, mode, 0, entry->link);
	}
	BERTH_AUTO_FREE char *path = berth_path_join(folder, entry->path);
	int64_t size;
	BERTH_AUTO_CLOSE int fd = open_regular(path, O_NOFOLLOW, &size, writer->err);
	if (fd < 0) {
		return false;
	}
	if (size != entry->stat.st_size) {
		return berth_fail(writer->err, BERTH_ERROR_CONFLICT,
			"%s changed while its folder was read: try again when it is still", path);
	}
	return write_header(writer, name, mode, size, NULL) && write_content(writer, path, fd, size);
}

// "a/b" of "./a//b/"; NULL where a part is "..", or the path is absolute.
static char *clean_prefix(const char *prefix)
{
	BERTH_AUTO_FREE char *clean = berth_alloc(strlen(prefix) + 2);
	if (*prefix == '/') {
		return NULL;
	}
	for (const char *part = prefix; *part;) {
		size_t size = strcspn(part, "/");
		if (size == 2 && memcmp(part, "..", 2) == 0) {
			return NULL;
		}
		if (size > 0 && !(size == 1 && *part == '.')) {
			if (*clean) {
				strcat(clean, "/");
			}
			strncat(clean, part, size);
		}
		part += size;
		part += *part == '/';
	}
	return BERTH_STEAL(clean);
}

bool berth_tar_write_folder(
	const char *folder, const struct berth_tar_options *options, struct berth_sink sink, struct berth_error *err)
{
	static const struct berth_tar_options none = {0};
	options = options ? options : &none;
	const char *wanted = options->prefix ? options->prefix : "";
	BERTH_AUTO_FREE char *prefix = clean_prefix(wanted);
	if (!prefix) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"the prefix \"%s\" is absolute or has \"..\": it must stay in the archive", wanted);
	}
	BERTH_AUTO(berth_tar_tree_free) struct berth_tar_tree tree;
	if (!berth_tar_tree_scan(folder, options, &tree, err)) {
		return false;
	}
	BERTH_AUTO(berth_tar_locale_leave) struct berth_tar_locale locale = berth_tar_locale_enter();
	struct writer writer;
	if (!writer_open(&writer, sink, err)) {
		return false;
	}
	bool good = true;
	for (size_t i = 0; good && i < tree.count; i++) {
		good = write_entry(&writer, folder, prefix, &tree.entries[i]);
	}
	return writer_finish(&writer, good);
}

bool berth_tar_write_file(
	const char *path, const char *name, mode_t mode, struct berth_sink sink, struct berth_error *err)
{
	int64_t size;
	BERTH_AUTO_CLOSE int fd = open_regular(path, 0, &size, err);
	if (fd < 0) {
		return false;
	}
	BERTH_AUTO(berth_tar_locale_leave) struct berth_tar_locale locale = berth_tar_locale_enter();
	struct writer writer;
	if (!writer_open(&writer, sink, err)) {
		return false;
	}
	bool good = write_header(&writer, name, S_IFREG | (mode & 07777), size, NULL) &&
	            write_content(&writer, path, fd, size);
	return writer_finish(&writer, good);
}

bool berth_tar_write_bytes(
	const void *data, size_t size, const char *name, mode_t mode, struct berth_sink sink, struct berth_error *err)
{
	BERTH_AUTO(berth_tar_locale_leave) struct berth_tar_locale locale = berth_tar_locale_enter();
	struct writer writer;
	if (!writer_open(&writer, sink, err)) {
		return false;
	}
	bool good = write_header(&writer, name, S_IFREG | (mode & 07777), (int64_t)size, NULL) &&
	            write_data(&writer, name, data, size);
	return writer_finish(&writer, good);
}
