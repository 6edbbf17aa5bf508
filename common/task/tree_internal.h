// SPDX-License-Identifier: Apache-2.0
// What lies in a folder, for hashing: sorted entries, links told apart, content digests.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/error.h"

#define BERTH_TREE_DEPTH_MAX 256
#define BERTH_TREE_FILES_MAX 200000

struct berth_tree_entry {
	char *name;
	bool is_folder, is_file; // of what a link points to
	bool is_link;
	uint64_t device, inode; // of what a link points to
};

struct berth_tree_folder {
	struct berth_tree_entry *entries; // by name
	size_t count;
};

// Dangling links are neither file nor folder.
bool berth_tree_list(const char *path, struct berth_tree_folder *folder, struct berth_error *err);
void berth_tree_folder_free(struct berth_tree_folder *folder);

// Every file below `path`, folders behind links left out, as paths relative to `path` under `prefix`. A folder that
// does not exist has none.
struct berth_tree_file {
	char *path; // prefix + relative
	bool is_link;
};
struct berth_tree_files {
	struct berth_tree_file *items; // by path
	size_t count;
};
bool berth_tree_files(const char *path, const char *prefix, struct berth_tree_files *files, struct berth_error *err);
void berth_tree_files_add(struct berth_tree_files *files, const char *path, bool is_link);
void berth_tree_files_sort(struct berth_tree_files *files);
void berth_tree_files_free(struct berth_tree_files *files);

// Feeds a file's bytes to the hasher; with `size_first`, their number before them as 4 bytes, the highest first.
bool berth_tree_hash_file(const char *path, bool size_first, struct berth_hasher *hasher, struct berth_error *err);
bool berth_tree_digest_file(const char *path, struct berth_digest *digest, struct berth_error *err);
