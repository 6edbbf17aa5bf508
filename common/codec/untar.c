// SPDX-License-Identifier: Apache-2.0
// Unpacks by descriptors: every part of a path is opened without following links, so that no entry, not even one that
// plays together with an earlier link, can reach outside the folder.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/tar_internal.h"
#include "common/codec/tar_libarchive.h"

#define READ_SIZE   (64 * 1024)
#define TRAILER_MAX (1024 * 1024) // zeros after the end mark: writers pad to their own block size

struct reader {
	struct archive *archive;
	struct berth_source source;
	const struct berth_untar_options *options;
	struct berth_error *err;
	const char *folder;
	int root;
	bool source_failed;
	bool any;         // an entry was seen
	bool into_single; // the first entry is a file, and single_file was asked for
	int64_t entries, content_size;
	char data[READ_SIZE];
};

static la_ssize_t get_block(struct archive *archive, void *context, const void **data)
{
	struct reader *reader = context;
	ssize_t got = reader->source.get(reader->source.context, reader->data, sizeof reader->data, reader->err);
	if (got < 0) {
		reader->source_failed = true;
		libarchive.set_error(archive, EIO, "the source failed");
		return -1;
	}
	*data = reader->data;
	return got;
}

static bool fail_damaged(struct reader *reader)
{
	if (reader->source_failed) {
		return false;
	}
	const char *text = libarchive.error_string(reader->archive);
	return berth_fail(
		reader->err, BERTH_ERROR_INVALID, "the tar stream is damaged: %s", text ? text : "no reason given");
}

static bool fail_leaves(struct reader *reader, const char *path)
{
	return berth_fail(
		reader->err, BERTH_ERROR_INVALID, "the tar entry %s would leave the folder %s", path, reader->folder);
}

// The path without "." and empty parts and without its leading `strip` parts; "" when nothing is left, NULL (err set)
// when it leads outside.
static char *inner_path(struct reader *reader, const char *path)
{
	size_t length = path ? strlen(path) : 0;
	if (!path || *path == '/' || length >= PATH_MAX) {
		fail_leaves(reader, path ? path : "without a name");
		return NULL;
	}
	BERTH_AUTO_FREE char *inner = berth_alloc(length + 2);
	size_t used = 0;
	int strip = reader->options->strip_parts;
	for (const char *part = path; *part;) {
		size_t size = strcspn(part, "/");
		if (size == 2 && memcmp(part, "..", 2) == 0) {
			fail_leaves(reader, path);
			return NULL;
		}
		if (size > 0 && !(size == 1 && *part == '.') && strip-- <= 0) {
			if (used) {
				inner[used++] = '/';
			}
			memcpy(inner + used, part, size);
			used += size;
		}
		part += size;
		part += *part == '/';
	}
	return BERTH_STEAL(inner);
}

// Opens the folder that holds the last part of `path`, and makes missing folders on the way. -1 with err set.
static int open_parent(struct reader *reader, const char *path, const char **last)
{
	BERTH_AUTO_CLOSE int at = fcntl(reader->root, F_DUPFD_CLOEXEC, 0);
	const char *part = path;
	for (const char *slash; at >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
		BERTH_AUTO_FREE char *name = berth_strndup(part, (size_t)(slash - part));
		if (mkdirat(at, name, 0755) != 0 && errno != EEXIST) {
			break;
		}
		int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0 && (errno == ENOTDIR || errno == ELOOP)) {
			berth_fail(reader->err, BERTH_ERROR_INVALID,
				"the tar entry %s would leave the folder %s: it goes through a link or a file", path,
				reader->folder);
			return -1;
		}
		close(at);
		at = next;
	}
	if (at < 0 || strchr(part, '/')) {
		berth_fail_errno(reader->err, "cannot make the folders of %s/%s", reader->folder, path);
		return -1;
	}
	*last = part;
	int opened = at;
	at = -1;
	return opened;
}

// A file or link in the way is replaced; a folder stays and makes the next step fail.
static void make_way(int at, const char *name)
{
	unlinkat(at, name, 0);
}

static bool count_content(struct reader *reader, const char *path, int64_t size)
{
	int64_t max = reader->options->content_size_max;
	if (size < 0 || (max && size > max - reader->content_size)) {
		return berth_fail(reader->err, BERTH_ERROR_INVALID,
			"the tar holds more than the limit of %" PRId64 " bytes (passed at %s)", max, path);
	}
	reader->content_size += size;
	return true;
}

// A sparse entry comes as pieces with holes between them; `size` bounds them all.
static bool copy_content(struct reader *reader, const char *path, int fd, int64_t size)
{
	for (;;) {
		const void *data;
		size_t got;
		la_int64_t offset;
		int status = libarchive.read_data_block(reader->archive, &data, &got, &offset);
		if (status == ARCHIVE_EOF) {
			break;
		}
		if (status < ARCHIVE_WARN) {
			return fail_damaged(reader);
		}
		if (offset < 0 || offset > size || (int64_t)got > size - offset) {
			return berth_fail(reader->err, BERTH_ERROR_INVALID,
				"the tar entry %s has more data than its header says", path);
		}
		if (lseek(fd, offset, SEEK_SET) < 0 || !berth_write_all(fd, data, got, reader->err)) {
			return berth_error_wrap(reader->err, "cannot write %s", path);
		}
	}
	return ftruncate(fd, size) == 0 || berth_fail_errno(reader->err, "cannot write %s", path);
}

// What the owner gets besides. Exact modes need none where the caller is root, who writes into read-only folders too.
static mode_t owner_bits(const struct reader *reader, mode_t bits)
{
	return reader->options->exact_modes && geteuid() == 0 ? 0 : bits;
}

static bool make_file(struct reader *reader, int at, const char *name, const char *path, struct archive_entry *entry)
{
	int64_t size = libarchive.entry_size(entry);
	if (!count_content(reader, path, size)) {
		return false;
	}
	make_way(at, name);
	BERTH_AUTO_CLOSE int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	mode_t mode = (libarchive.entry_perm(entry) & 01777) | owner_bits(reader, S_IRUSR | S_IWUSR);
	if (fd < 0 || fchmod(fd, mode) != 0) {
		return berth_fail_errno(reader->err, "cannot make the file %s", path);
	}
	return copy_content(reader, path, fd, size);
}

static bool make_folder(struct reader *reader, int at, const char *name, const char *path, struct archive_entry *entry)
{
	struct stat stat;
	if (fstatat(at, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(stat.st_mode)) {
		make_way(at, name);
	}
	mode_t kept = reader->options->exact_modes ? 03777 : 01777;
	mode_t mode = (libarchive.entry_perm(entry) & kept) | owner_bits(reader, S_IRWXU);
	if (mkdirat(at, name, 0700) != 0 && errno != EEXIST) {
		return berth_fail_errno(reader->err, "cannot make the folder %s", path);
	}
	BERTH_AUTO_CLOSE int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, mode) != 0) {
		return berth_fail_errno(reader->err, "cannot make the folder %s", path);
	}
	return true;
}

static bool make_symlink(struct reader *reader, int at, const char *name, const char *path, struct archive_entry *entry)
{
	const char *target = libarchive.entry_symlink(entry);
	make_way(at, name);
	if (!target || !*target || symlinkat(target, at, name) != 0) {
		return berth_fail_errno(reader->err, "cannot make the link %s", path);
	}
	return true;
}

static bool make_hardlink(struct reader *reader, int at, const char *name, const char *path, const char *target)
{
	BERTH_AUTO_FREE char *inner = inner_path(reader, target);
	if (!inner) {
		return false;
	}
	if (!*inner || reader->into_single) {
		return berth_fail(reader->err, BERTH_ERROR_INVALID,
			"the tar entry %s is a link to %s, which is not unpacked", path, target);
	}
	if (strcmp(inner, path) == 0) {
		return true;
	}
	const char *last;
	BERTH_AUTO_CLOSE int from = open_parent(reader, inner, &last);
	if (from < 0) {
		return false;
	}
	make_way(at, name);
	if (linkat(from, last, at, name, 0) != 0) {
		return berth_fail_errno(reader->err, "cannot link %s to %s", path, inner);
	}
	return true;
}

static bool make_entry(struct reader *reader, int at, const char *name, const char *path, struct archive_entry *entry)
{
	const char *hardlink = libarchive.entry_hardlink(entry);
	if (hardlink) {
		return make_hardlink(reader, at, name, path, hardlink);
	}
	switch (libarchive.entry_filetype(entry)) {
	case AE_IFREG:
		return make_file(reader, at, name, path, entry);
	case AE_IFDIR:
		return make_folder(reader, at, name, path, entry);
	case AE_IFLNK:
		return make_symlink(reader, at, name, path, entry);
	default:
		return true; // devices, FIFOs and sockets have no place among results
	}
}

static bool unpack_single(struct reader *reader, struct archive_entry *entry)
{
	const char *path = reader->options->single_file;
	const char *slash = strrchr(path, '/');
	BERTH_AUTO_FREE char *folder = slash ? berth_strndup(path, (size_t)(slash - path) + 1) : berth_strdup(".");
	if (!berth_mkdir_all(folder, 0755, reader->err)) {
		return false;
	}
	BERTH_AUTO_CLOSE int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0) {
		return berth_fail_errno(reader->err, "cannot open the folder %s", folder);
	}
	return make_entry(reader, at, slash ? slash + 1 : path, path, entry);
}

static bool unpack_entry(struct reader *reader, struct archive_entry *entry)
{
	const char *stored = libarchive.entry_pathname(entry);
	int64_t max = reader->options->entries_max;
	if (max && ++reader->entries > max) {
		return berth_fail(reader->err, BERTH_ERROR_INVALID,
			"the tar has more than the limit of %" PRId64 " entries", max);
	}
	BERTH_AUTO_FREE char *path = inner_path(reader, stored);
	if (!path) {
		return false;
	}
	if (reader->into_single) {
		return berth_fail(reader->err, BERTH_ERROR_INVALID, "the tar has more than the one file for %s: %s too",
			reader->options->single_file, stored);
	}
	bool first = !reader->any;
	reader->any = true;
	if (first && reader->options->single_file && libarchive.entry_filetype(entry) == AE_IFREG &&
		!libarchive.entry_hardlink(entry)) {
		reader->into_single = true;
		return unpack_single(reader, entry);
	}
	if (!*path) {
		return true; // the folder itself, or above what strip_parts keeps
	}
	const char *last;
	BERTH_AUTO_CLOSE int at = open_parent(reader, path, &last);
	return at >= 0 && make_entry(reader, at, last, path, entry);
}

// The writer at the other end of a pipe must not be cut off while it pads its last block.
static bool drain(struct reader *reader)
{
	for (int64_t rest = 0; rest <= TRAILER_MAX;) {
		ssize_t got =
			reader->source.get(reader->source.context, reader->data, sizeof reader->data, reader->err);
		if (got <= 0) {
			return got == 0;
		}
		rest += got;
	}
	return berth_fail(
		reader->err, BERTH_ERROR_INVALID, "more than %d bytes follow the end of the tar", TRAILER_MAX);
}

static bool unpack_all(struct reader *reader)
{
	for (;;) {
		struct archive_entry *entry;
		int status = libarchive.read_next_header(reader->archive, &entry);
		if (status == ARCHIVE_EOF) {
			return drain(reader);
		}
		// A WARN is a name that is no text in the C locale: its bytes are what is wanted.
		if (status < ARCHIVE_WARN) {
			return fail_damaged(reader);
		}
		if (!unpack_entry(reader, entry)) {
			return false;
		}
	}
}

bool berth_untar(struct berth_source source, const char *folder, const struct berth_untar_options *options,
	struct berth_error *err)
{
	static const struct berth_untar_options none = {0};
	if (!tar_libarchive_load(err) || !berth_mkdir_all(folder, 0755, err)) {
		return false;
	}
	BERTH_AUTO_CLOSE int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		return berth_fail_errno(err, "cannot open the folder %s", folder);
	}
	BERTH_AUTO(berth_tar_locale_leave) struct berth_tar_locale locale = berth_tar_locale_enter();
	BERTH_AUTO_FREE struct reader *reader = berth_alloc(sizeof *reader);
	*reader = (struct reader){.archive = libarchive.read_new(), .source = source, .folder = folder, .root = root};
	reader->options = options ? options : &none;
	reader->err = err;
	if (!reader->archive) {
		abort();
	}
	libarchive.read_support_format_tar(reader->archive);
	bool good = libarchive.read_open(reader->archive, reader, NULL, get_block, NULL) == ARCHIVE_OK
	                    ? unpack_all(reader)
	                    : fail_damaged(reader);
	libarchive.read_free(reader->archive);
	return good;
}
