// SPDX-License-Identifier: Apache-2.0
// Harbor's three hashes of a task folder. None of them sees modes or empty folders.
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/ignore_internal.h"
#include "common/task/task.h"
#include "common/task/tree_internal.h"

#define IGNORE_FILE_SIZE_MAX ((size_t)1024 * 1024)

// The folders from the root down to the one that is hashed, by which a link back up is told.
struct ancestor {
	const struct ancestor *above;
	uint64_t device, inode;
	int depth;
};

static bool folder_digest(const char *path, const struct ancestor *self, bool *empty, struct berth_digest *digest,
	struct berth_error *err);

// Appends the descriptor of one entry; *counts is false for a folder with nothing in it that counts.
static bool describe(const char *path, const struct berth_tree_entry *entry, const struct ancestor *parent,
	struct berth_buf *text, bool *counts, struct berth_error *err)
{
	struct berth_digest digest;
	bool empty = false;
	if (entry->is_folder) {
		struct ancestor self = {parent, entry->device, entry->inode, parent->depth + 1};
		for (const struct ancestor *above = parent; above; above = above->above) {
			if (above->device == self.device && above->inode == self.inode) {
				return berth_fail(err, BERTH_ERROR_INVALID,
					"%s: a link that leads back to a folder above it", path);
			}
		}
		if (!folder_digest(path, &self, &empty, &digest, err)) {
			return false;
		}
	} else if (!entry->is_file) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s: %s", path,
			entry->is_link ? "a link that leads nowhere" : "neither file nor folder");
	} else if (!berth_tree_digest_file(path, &digest, err)) {
		return false;
	}
	*counts = !empty;
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&digest, hex);
	berth_buf_printf(text, "%s:%s", entry->is_folder ? "dirhash" : "data", hex);
	berth_buf_add_byte(text, 0);
	berth_buf_printf(text, "name:%s", entry->name);
	return true;
}

static int compare_buffers(const void *a, const void *b)
{
	const struct berth_buf *first = a, *second = b;
	size_t shorter = first->size < second->size ? first->size : second->size;
	int order = memcmp(first->data, second->data, shorter);
	return order != 0 ? order : (first->size > second->size) - (first->size < second->size);
}

static void free_buffers(struct berth_buf **buffers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		berth_buf_free(&(*buffers)[i]);
	}
	free(*buffers);
}

static bool folder_digest(const char *path, const struct ancestor *self, bool *empty, struct berth_digest *digest,
	struct berth_error *err)
{
	BERTH_AUTO(berth_tree_folder_free) struct berth_tree_folder folder = {0};
	if (self->depth > BERTH_TREE_DEPTH_MAX) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED, "%s: folders nested too deep", path);
	}
	if (!berth_tree_list(path, &folder, err)) {
		return false;
	}
	struct berth_buf *descriptors = berth_alloc(folder.count * sizeof *descriptors + 1);
	size_t count = 0;
	for (size_t i = 0; i < folder.count; i++) {
		BERTH_AUTO_FREE char *inner = berth_path_join(path, folder.entries[i].name);
		bool counts = false;
		if (!describe(inner, &folder.entries[i], self, &descriptors[count], &counts, err)) {
			free_buffers(&descriptors, count + 1);
			return false;
		}
		if (counts) {
			count++;
		} else {
			berth_buf_free(&descriptors[count]);
		}
	}
	qsort(descriptors, count, sizeof *descriptors, compare_buffers);
	struct berth_hasher *hasher = berth_hasher_new();
	for (size_t i = 0; i < count; i++) {
		berth_hasher_add(hasher, "\0\0", i > 0 ? 2 : 0);
		berth_hasher_add(hasher, descriptors[i].data, descriptors[i].size);
	}
	*digest = berth_hasher_finish(hasher);
	*empty = count == 0;
	free_buffers(&descriptors, count);
	return true;
}

static bool hash_checksum(const struct berth_task *task, struct berth_digest *checksum, struct berth_error *err)
{
	bool empty;
	const struct ancestor root = {0};
	return folder_digest(task->folder, &root, &empty, checksum, err) &&
	       (!empty || berth_fail(err, BERTH_ERROR_INVALID, "%s: an empty folder has no checksum", task->folder));
}

static bool read_ignore(const struct berth_task *task, struct berth_ignore **ignore, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(task->folder, ".gitignore");
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_file_exists(path)) {
		*ignore = berth_ignore_new("__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n");
		return true;
	}
	if (!berth_file_read(path, IGNORE_FILE_SIZE_MAX, &text, err)) {
		return false;
	}
	*ignore = berth_ignore_new(berth_buf_text(&text));
	return true;
}

static bool hash_lock_files(const struct berth_task *task, const struct berth_ignore *ignore,
	const struct berth_tree_files *files, struct berth_hasher *hasher, struct berth_error *err)
{
	for (size_t i = 0; i < files->count; i++) {
		const char *relative = files->items[i].path;
		if (berth_ignore_matches(ignore, relative)) {
			continue;
		}
		BERTH_AUTO_FREE char *path = berth_path_join(task->folder, relative);
		struct berth_digest digest;
		if (!berth_tree_digest_file(path, &digest, err)) {
			return false;
		}
		char hex[BERTH_DIGEST_HEX_SIZE];
		berth_digest_hex(&digest, hex);
		berth_hasher_add(hasher, relative, strlen(relative) + 1);
		berth_hasher_add(hasher, hex, strlen(hex));
		berth_hasher_add(hasher, "\n", 1);
	}
	return true;
}

static bool hash_lock(const struct berth_task *task, struct berth_digest *lock, struct berth_error *err)
{
	static const char *const single[] = {"task.toml", "instruction.md", "README.md", "trajectory.json"};
	static const char *const folders[] = {"environment", "tests", "solution", "steps"};
	BERTH_AUTO(berth_tree_files_free) struct berth_tree_files files = {0};
	for (size_t i = 0; i < BERTH_COUNT(single); i++) {
		BERTH_AUTO_FREE char *path = berth_path_join(task->folder, single[i]);
		if (berth_file_exists(path)) {
			berth_tree_files_add(&files, single[i], false);
		}
	}
	for (size_t i = 0; i < BERTH_COUNT(folders); i++) {
		BERTH_AUTO_FREE char *path = berth_path_join(task->folder, folders[i]);
		BERTH_AUTO_FREE char *prefix = berth_format("%s/", folders[i]);
		if (!berth_tree_files(path, prefix, &files, err)) {
			return false;
		}
	}
	berth_tree_files_sort(&files);
	struct berth_ignore *ignore = NULL;
	if (!read_ignore(task, &ignore, err)) {
		return false;
	}
	struct berth_hasher *hasher = berth_hasher_new();
	bool hashed = hash_lock_files(task, ignore, &files, hasher, err);
	*lock = berth_hasher_finish(hasher);
	berth_ignore_free(ignore);
	return hashed;
}

// Whether a part of the path is one that environment hashes leave out.
static bool has_skipped_part(const char *path)
{
	static const char *const skipped[] = {".DS_Store", ".git", "__pycache__"};
	while (*path) {
		size_t length = strcspn(path, "/");
		for (size_t i = 0; i < BERTH_COUNT(skipped); i++) {
			if (strlen(skipped[i]) == length && strncmp(path, skipped[i], length) == 0) {
				return true;
			}
		}
		path += length + (path[length] == '/');
	}
	return false;
}

static bool hash_environment_files(
	const char *folder, struct berth_hasher *hasher, size_t *count, struct berth_error *err)
{
	BERTH_AUTO(berth_tree_files_free) struct berth_tree_files files = {0};
	if (!berth_tree_files(folder, "", &files, err)) {
		return false;
	}
	for (size_t i = 0; i < files.count; i++) {
		const char *relative = files.items[i].path;
		if (files.items[i].is_link || has_skipped_part(relative)) {
			continue;
		}
		size_t length = strlen(relative);
		const uint8_t bytes[] = {
			(uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length};
		BERTH_AUTO_FREE char *path = berth_path_join(folder, relative);
		berth_hasher_add(hasher, bytes, sizeof bytes);
		berth_hasher_add(hasher, relative, length);
		if (!berth_tree_hash_file(path, true, hasher, err)) {
			return false;
		}
		(*count)++;
	}
	return true;
}

static bool hash_environment(const struct berth_task *task, char id[static 33], struct berth_error *err)
{
	BERTH_AUTO_FREE char *folder = berth_path_join(task->folder, "environment");
	struct berth_hasher *hasher = berth_hasher_new();
	size_t count = 0;
	bool hashed = hash_environment_files(folder, hasher, &count, err);
	struct berth_digest digest = berth_hasher_finish(hasher);
	if (hashed && count == 0) {
		const char *stand_in = task->environment.docker_image ? task->environment.docker_image : "environment";
		digest = berth_sha256(stand_in, strlen(stand_in));
	}
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&digest, hex);
	memcpy(id, hex, 32);
	id[32] = 0;
	return hashed;
}

bool berth_task_hash(const struct berth_task *task, struct berth_task_hashes *hashes, struct berth_error *err)
{
	return hash_checksum(task, &hashes->checksum, err) && hash_lock(task, &hashes->lock_digest, err) &&
	       hash_environment(task, hashes->environment_id, err);
}
