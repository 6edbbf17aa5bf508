// SPDX-License-Identifier: Apache-2.0
// libarchive's functions, loaded with the first archive: libarchive.read_new is its header's archive_read_new. It
// brings libraries of its own for formats that nothing here reads.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>

#include "common/base/error.h"

#define TAR_LIBARCHIVE_CALLS(X)                                                                                        \
	X(entry_copy_pathname)                                                                                         \
	X(entry_copy_symlink)                                                                                          \
	X(entry_filetype)                                                                                              \
	X(entry_free)                                                                                                  \
	X(entry_hardlink)                                                                                              \
	X(entry_new)                                                                                                   \
	X(entry_pathname)                                                                                              \
	X(entry_perm)                                                                                                  \
	X(entry_set_gid)                                                                                               \
	X(entry_set_mode)                                                                                              \
	X(entry_set_mtime)                                                                                             \
	X(entry_set_size)                                                                                              \
	X(entry_set_uid)                                                                                               \
	X(entry_size)                                                                                                  \
	X(entry_symlink)                                                                                               \
	X(error_string)                                                                                                \
	X(read_data_block)                                                                                             \
	X(read_free)                                                                                                   \
	X(read_new)                                                                                                    \
	X(read_next_header)                                                                                            \
	X(read_open)                                                                                                   \
	X(read_support_format_tar)                                                                                     \
	X(set_error)                                                                                                   \
	X(write_close)                                                                                                 \
	X(write_data)                                                                                                  \
	X(write_free)                                                                                                  \
	X(write_header)                                                                                                \
	X(write_new)                                                                                                   \
	X(write_open)                                                                                                  \
	X(write_set_bytes_in_last_block)                                                                               \
	X(write_set_bytes_per_block)                                                                                   \
	X(write_set_format_pax_restricted)

struct tar_libarchive {
#define X(name) __typeof__(archive_##name) *name;
	TAR_LIBARCHIVE_CALLS(X)
#undef X
};

extern struct tar_libarchive libarchive; // whole once tar_libarchive_load gave true

bool tar_libarchive_load(struct berth_error *err);
