// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/restored.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/json.h"

#define MARK          "restored.json"
#define MARK_SIZE_MAX 4096
#define MARK_MODE     0600

bool berth_restored_write(const char *data_folder, const struct berth_restored *restored, struct berth_error *err)
{
	char leaf[BERTH_DIGEST_HEX_SIZE], root[BERTH_DIGEST_HEX_SIZE];
	berth_hex(restored->leaf.bytes, BERTH_DIGEST_SIZE, leaf);
	berth_hex(restored->root.bytes, BERTH_DIGEST_SIZE, root);
	berth_json *mark = berth_json_object();
	berth_json_set(mark, "leaf", berth_json_string(leaf));
	berth_json_set(mark, "reason", berth_json_string(restored->reason));
	berth_json_set(mark, "root", berth_json_string(root));
	berth_json_set(mark, "size", berth_json_integer((int64_t)restored->size));
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_json_write(mark, 0, &text);
	berth_json_free(mark);
	BERTH_AUTO_FREE char *path = berth_path_join(data_folder, MARK);
	return berth_file_write(path, text.data, text.size, MARK_MODE, err);
}

bool berth_restored_read(const char *data_folder, struct berth_restored *restored, bool *found, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(data_folder, MARK);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	*restored = (struct berth_restored){0};
	*found = berth_file_exists(path);
	if (!*found) {
		return true;
	}
	if (!berth_file_read(path, MARK_SIZE_MAX, &text, err)) {
		return false;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *mark = berth_json_parse_unique(text.data, text.size, path, err);
	const char *leaf = mark ? berth_json_get_string(mark, "leaf") : NULL;
	const char *root = mark ? berth_json_get_string(mark, "root") : NULL;
	const char *reason = mark ? berth_json_get_string(mark, "reason") : NULL;
	int64_t size = mark ? berth_json_get_integer(mark, "size") : 0;
	if (!leaf || !root || !reason || size <= 0 || !berth_unhex(leaf, restored->leaf.bytes, BERTH_DIGEST_SIZE) ||
		!berth_unhex(root, restored->root.bytes, BERTH_DIGEST_SIZE)) {
		return berth_fail(err, BERTH_ERROR_CORRUPT,
			"%s does not say from which backup the folder was made: restore it again", path);
	}
	restored->size = (uint64_t)size;
	snprintf(restored->reason, sizeof restored->reason, "%s", reason);
	return true;
}

bool berth_restored_remove(const char *data_folder, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(data_folder, MARK);
	if (unlink(path) < 0 && errno != ENOENT) {
		return berth_fail_errno(err, "cannot remove %s", path);
	}
	return berth_sync_dir(data_folder, err);
}
