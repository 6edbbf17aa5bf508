// SPDX-License-Identifier: Apache-2.0
#include "common/task/tree_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/mem.h"

#define CHUNK_SIZE ((size_t)64 * 1024)

static void close_folder(DIR **folder)
{
	if (*folder) {
		closedir(*folder);
	}
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct berth_tree_entry *)a)->name, ((const struct berth_tree_entry *)b)->name);
}

static void add_entry(struct berth_tree_folder *folder, int fd, const char *name)
{
	struct stat link, target;
	bool exists = fstatat(fd, name, &link, AT_SYMLINK_NOFOLLOW) == 0;
	bool leads = exists && fstatat(fd, name, &target, 0) == 0;
	folder->entries = berth_grow_array(folder->entries, folder->count, sizeof *folder->entries);
	folder->entries[folder->count++] = (struct berth_tree_entry){
		.name = berth_strdup(name),
		.is_folder = leads && S_ISDIR(target.st_mode),
		.is_file = leads && S_ISREG(target.st_mode),
		.is_link = exists && S_ISLNK(link.st_mode),
		.device = leads ? target.st_dev : 0,
		.inode = leads ? target.st_ino : 0,
	};
}

bool berth_tree_list(const char *path, struct berth_tree_folder *folder, struct berth_error *err)
{
	BERTH_AUTO(close_folder) DIR *open_folder = opendir(path);
	if (!open_folder) {
		return berth_fail_errno(err, "%s", path);
	}
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(open_folder);
		if (!entry) {
			break;
		}
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
			continue;
		}
		if (folder->count == BERTH_TREE_FILES_MAX) {
			return berth_fail(
				err, BERTH_ERROR_EXHAUSTED, "%s: more than %d entries", path, BERTH_TREE_FILES_MAX);
		}
		add_entry(folder, dirfd(open_folder), entry->d_name);
	}
	if (errno != 0) {
		return berth_fail_errno(err, "%s", path);
	}
	if (folder->count > 0) {
		qsort(folder->entries, folder->count, sizeof *folder->entries, compare_entries);
	}
	return true;
}

void berth_tree_folder_free(struct berth_tree_folder *folder)
{
	for (size_t i = 0; i < folder->count; i++) {
		free(folder->entries[i].name);
	}
	free(folder->entries);
	*folder = (struct berth_tree_folder){0};
}

void berth_tree_files_add(struct berth_tree_files *files, const char *path, bool is_link)
{
	files->items = berth_grow_array(files->items, files->count, sizeof *files->items);
	files->items[files->count++] = (struct berth_tree_file){.path = berth_strdup(path), .is_link = is_link};
}

static bool collect(
	const char *path, const char *prefix, int depth, struct berth_tree_files *files, struct berth_error *err)
{
	BERTH_AUTO(berth_tree_folder_free) struct berth_tree_folder folder = {0};
	if (depth > BERTH_TREE_DEPTH_MAX) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED, "%s: folders nested too deep", path);
	}
	if (!berth_tree_list(path, &folder, err)) {
		return false;
	}
	for (size_t i = 0; i < folder.count; i++) {
		const struct berth_tree_entry *entry = &folder.entries[i];
		BERTH_AUTO_FREE char *inner = berth_path_join(path, entry->name);
		BERTH_AUTO_FREE char *relative = berth_format("%s%s", prefix, entry->name);
		if (entry->is_file) {
			if (files->count == BERTH_TREE_FILES_MAX) {
				return berth_fail(err, BERTH_ERROR_EXHAUSTED, "%s: more than %d files", path,
					BERTH_TREE_FILES_MAX);
			}
			berth_tree_files_add(files, relative, entry->is_link);
		} else if (entry->is_folder && !entry->is_link) {
			BERTH_AUTO_FREE char *below = berth_format("%s/", relative);
			if (!collect(inner, below, depth + 1, files, err)) {
				return false;
			}
		}
	}
	return true;
}

static int compare_files(const void *a, const void *b)
{
	return strcmp(((const struct berth_tree_file *)a)->path, ((const struct berth_tree_file *)b)->path);
}

void berth_tree_files_sort(struct berth_tree_files *files)
{
	if (files->count > 0) {
		qsort(files->items, files->count, sizeof *files->items, compare_files);
	}
}

bool berth_tree_files(const char *path, const char *prefix, struct berth_tree_files *files, struct berth_error *err)
{
	if (berth_file_exists(path) && !collect(path, prefix, 0, files, err)) {
		return false;
	}
	berth_tree_files_sort(files);
	return true;
}

void berth_tree_files_free(struct berth_tree_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		free(files->items[i].path);
	}
	free(files->items);
	*files = (struct berth_tree_files){0};
}

bool berth_tree_hash_file(const char *path, bool size_first, struct berth_hasher *hasher, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat stat;
	if (fd < 0 || fstat(fd, &stat) != 0) {
		return berth_fail_errno(err, "%s", path);
	}
	if (!S_ISREG(stat.st_mode) || stat.st_size > UINT32_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s: no regular file below 4 GiB", path);
	}
	uint64_t left = (uint64_t)stat.st_size;
	if (size_first) {
		const uint8_t bytes[] = {
			(uint8_t)(left >> 24), (uint8_t)(left >> 16), (uint8_t)(left >> 8), (uint8_t)left};
		berth_hasher_add(hasher, bytes, sizeof bytes);
	}
	BERTH_AUTO_FREE uint8_t *chunk = berth_alloc(CHUNK_SIZE);
	while (left > 0) {
		ssize_t got = read(fd, chunk, left < CHUNK_SIZE ? left : CHUNK_SIZE);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got <= 0) {
			return got < 0 ? berth_fail_errno(err, "%s", path)
			               : berth_fail(err, BERTH_ERROR_CONFLICT, "%s: changed while it was read", path);
		}
		berth_hasher_add(hasher, chunk, (size_t)got);
		left -= (uint64_t)got;
	}
	return true;
}

bool berth_tree_digest_file(const char *path, struct berth_digest *digest, struct berth_error *err)
{
	struct berth_hasher *hasher = berth_hasher_new();
	if (!berth_tree_hash_file(path, false, hasher, err)) {
		berth_hasher_free(hasher);
		return false;
	}
	*digest = berth_hasher_finish(hasher);
	return true;
}
