// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/tar_internal.h"

struct scan {
	const char *folder;
	const struct berth_tar_options *options;
	struct berth_tar_tree *tree;
	size_t capacity;
};

static void close_dir(DIR **dir)
{
	if (*dir) {
		closedir(*dir);
	}
}

static bool add_entry(struct scan *scan, char *path, const struct stat *stat, char *link, struct berth_error *err)
{
	struct berth_tar_tree *tree = scan->tree;
	if (tree->count == scan->capacity) {
		scan->capacity = scan->capacity ? 2 * scan->capacity : 64;
		tree->entries = berth_realloc_array(tree->entries, scan->capacity, sizeof *tree->entries);
	}
	tree->entries[tree->count++] = (struct berth_tar_entry){path, *stat, link};
	if (tree->count > BERTH_TAR_ENTRIES_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s has more than %d entries: leave some out", scan->folder,
			BERTH_TAR_ENTRIES_MAX);
	}
	tree->content_size += S_ISREG(stat->st_mode) ? stat->st_size : 0;
	if (scan->options->content_size_max && tree->content_size > scan->options->content_size_max) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"%s holds more than the limit of %" PRId64 " bytes (passed at %s)", scan->folder,
			scan->options->content_size_max, path);
	}
	return true;
}

static char *read_link(const char *path, struct berth_error *err)
{
	char target[PATH_MAX];
	ssize_t size = readlink(path, target, sizeof target);
	if (size < 0 || (size_t)size == sizeof target) {
		berth_fail_errno(err, "cannot read the link %s", path);
		return NULL;
	}
	return berth_strndup(target, (size_t)size);
}

static bool scan_folder(struct scan *scan, const char *path, int depth, struct berth_error *err);

// Takes `path`.
static bool scan_one(struct scan *scan, char *path, int depth, struct berth_error *err)
{
	BERTH_AUTO_FREE char *owned = path;
	BERTH_AUTO_FREE char *full = berth_path_join(scan->folder, path);
	struct stat stat;
	if (lstat(full, &stat) != 0) {
		return berth_fail_errno(err, "cannot look at %s", full);
	}
	bool is_folder = S_ISDIR(stat.st_mode);
	if (scan->options->skip && scan->options->skip(scan->options->skip_context, path, is_folder)) {
		return true;
	}
	if (!is_folder && !S_ISREG(stat.st_mode) && !S_ISLNK(stat.st_mode)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"%s is a socket, FIFO or device: only files, folders and links can be sent", full);
	}
	char *link = NULL;
	if (S_ISLNK(stat.st_mode) && !(link = read_link(full, err))) {
		return false;
	}
	owned = NULL;
	return add_entry(scan, path, &stat, link, err) && (!is_folder || scan_folder(scan, path, depth + 1, err));
}

static bool scan_folder(struct scan *scan, const char *path, int depth, struct berth_error *err)
{
	BERTH_AUTO_FREE char *full = *path ? berth_path_join(scan->folder, path) : berth_strdup(scan->folder);
	if (depth > BERTH_TAR_DEPTH_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s is deeper than %d folders", full, BERTH_TAR_DEPTH_MAX);
	}
	BERTH_AUTO(close_dir) DIR *dir = opendir(full);
	if (!dir) {
		return berth_fail_errno(err, "cannot read the folder %s", full);
	}
	for (;;) {
		errno = 0;
		const struct dirent *found = readdir(dir);
		if (!found) {
			return errno == 0 || berth_fail_errno(err, "cannot read the folder %s", full);
		}
		if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0) {
			continue;
		}
		char *name = *path ? berth_format("%s/%s", path, found->d_name) : berth_strdup(found->d_name);
		if (!scan_one(scan, name, depth, err)) {
			return false;
		}
	}
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct berth_tar_entry *)a)->path, ((const struct berth_tar_entry *)b)->path);
}

static void widen_modes(struct berth_tar_tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		mode_t mode = tree->entries[i].stat.st_mode;
		if (!S_ISLNK(mode) && (mode & (S_IRWXG | S_IRWXO))) {
			return;
		}
	}
	for (size_t i = 0; i < tree->count; i++) {
		mode_t *mode = &tree->entries[i].stat.st_mode;
		mode_t bits = *mode & (S_IRUSR | S_IXUSR);
		*mode |= bits >> 3 | bits >> 6;
	}
}

bool berth_tar_tree_scan(const char *folder, const struct berth_tar_options *options, struct berth_tar_tree *tree,
	struct berth_error *err)
{
	*tree = (struct berth_tar_tree){0};
	struct scan scan = {.folder = folder, .options = options, .tree = tree};
	struct stat top;
	if (stat(folder, &top) != 0) {
		return berth_fail_errno(err, "cannot look at %s", folder);
	}
	if (!S_ISDIR(top.st_mode)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s is not a folder", folder);
	}
	// The folder itself stands first: its own mode counts for the widening, and a prefix stores it.
	if (!add_entry(&scan, berth_strdup(""), &top, NULL, err) || !scan_folder(&scan, "", 0, err)) {
		berth_tar_tree_free(tree);
		return false;
	}
	qsort(tree->entries, tree->count, sizeof *tree->entries, by_path);
	if (options->widen_private_modes) {
		widen_modes(tree);
	}
	return true;
}

void berth_tar_tree_free(struct berth_tar_tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		free(tree->entries[i].path);
		free(tree->entries[i].link);
	}
	free(tree->entries);
	*tree = (struct berth_tar_tree){0};
}
