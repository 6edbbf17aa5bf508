// SPDX-License-Identifier: Apache-2.0
// What the tar writer, its tree scan and the reader share.
#pragma once

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/codec/tar.h"

#define BERTH_TAR_ENTRIES_MAX 1000000
#define BERTH_TAR_DEPTH_MAX   128

// Under a UTF-8 locale libarchive rewrites names to their composed form; under "C" their bytes stay as they are.
struct berth_tar_locale {
	locale_t plain, before;
};
struct berth_tar_locale berth_tar_locale_enter(void);
void berth_tar_locale_leave(struct berth_tar_locale *locale); // for BERTH_AUTO

struct berth_tar_entry {
	char *path; // relative to the folder; "" for the folder itself
	struct stat stat;
	char *link; // target of a symbolic link
};

struct berth_tar_tree {
	struct berth_tar_entry *entries; // sorted by path
	size_t count;
	int64_t content_size;
};

// Lists what is below `folder`, checked against the options, with modes as they shall be stored.
bool berth_tar_tree_scan(const char *folder, const struct berth_tar_options *options, struct berth_tar_tree *tree,
	struct berth_error *err);
void berth_tar_tree_free(struct berth_tar_tree *tree);
