// SPDX-License-Identifier: Apache-2.0
// Folders as tar streams and back. The writer is deterministic: the same tree gives the same bytes on every host.
//
// A sink takes bytes in order; a source gives them (0 at the end, negative on failure with err set).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

struct berth_sink {
	bool (*put)(void *context, const void *data, size_t size, struct berth_error *err);
	void *context;
};

struct berth_source {
	ssize_t (*get)(void *context, void *data, size_t size, struct berth_error *err);
	void *context;
};

struct berth_tar_options {
	// Where folder/. lands inside the archive: NULL or "" for the archive's root, else a relative path without
	// "..".
	const char *prefix;
	// When no entry has a bit for group or others (a checkout made under umask 077), everyone gets the owner's read
	// and execute bits, so that a task's other users can read it.
	bool widen_private_modes;
	// Refused with INVALID, named, above this many bytes of content; 0 for no limit.
	int64_t content_size_max;
	// True to leave an entry out (a folder with all that is in it). `path` is relative to the folder. NULL keeps
	// all.
	bool (*skip)(void *context, const char *path, bool is_folder);
	void *skip_context;
};

// Writes the tree below `folder` as a POSIX (pax) tar: entries sorted by path, owner 0:0, mtime 0, modes kept (with
// setuid, setgid and sticky), symbolic links kept as links, empty folders kept; sockets, FIFOs and devices are refused.
bool berth_tar_write_folder(
	const char *folder, const struct berth_tar_options *options, struct berth_sink sink, struct berth_error *err);
// The same for one file, stored as `name` with the given mode.
bool berth_tar_write_file(
	const char *path, const char *name, mode_t mode, struct berth_sink sink, struct berth_error *err);
bool berth_tar_write_bytes(
	const void *data, size_t size, const char *name, mode_t mode, struct berth_sink sink, struct berth_error *err);

struct berth_untar_options {
	// Modes as they were stored, for what is packed again (a task's bundle): read-only stays read-only, and folders
	// keep setgid. Files never get setuid or setgid, which would be in force on this host.
	bool exact_modes;
	// Leading path parts dropped from each entry; entries that have no more are skipped.
	int strip_parts;
	// An archive whose only entry is a file, written to this path itself (for copies of one file); NULL otherwise.
	const char *single_file;
	int64_t content_size_max; // INVALID above this many bytes of content; 0 for no limit
	int64_t entries_max;      // likewise for the number of entries; 0 for no limit
};

// Unpacks below `folder` (made if missing), as whoever calls: owners are not restored, and without exact_modes modes
// are without setuid and setgid, and folders and files are always readable and writable for the owner. An entry that
// would leave `folder` (absolute, "..", through a link) is refused with INVALID; devices and FIFOs are skipped; links
// are kept as links.
bool berth_untar(struct berth_source source, const char *folder, const struct berth_untar_options *options,
	struct berth_error *err);

// Sinks and sources in common use. The descriptor stays the caller's.
struct berth_sink berth_sink_fd(const int *fd);
struct berth_source berth_source_fd(const int *fd);
struct berth_buf;
struct berth_sink berth_sink_buf(struct berth_buf *buf);
struct berth_memory {
	const uint8_t *data;
	size_t size;
};
struct berth_source berth_source_memory(struct berth_memory *rest); // advances *rest
