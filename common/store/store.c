// SPDX-License-Identifier: Apache-2.0
#include "common/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store_internal.h"

#define FOLDER_MODE    0700
#define DEFAULT_FAMILY "default"

static enum berth_error_code code_of(const char *reason)
{
	if (strstr(reason, "No space left")) {
		return BERTH_ERROR_EXHAUSTED;
	}
	if (strncmp(reason, "Corruption", strlen("Corruption")) == 0) {
		return BERTH_ERROR_CORRUPT;
	}
	return BERTH_ERROR_IO;
}

bool store_fail(struct berth_error *err, char *reason, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *what = berth_vformat(format, args);
	va_end(args);
	enum berth_error_code code = code_of(reason);
	berth_fail(err, code, "%s: %s%s", what, reason,
		code == BERTH_ERROR_EXHAUSTED ? " (remove other files from the disk, then start again)" : "");
	rocksdb.free(reason);
	return false;
}

static bool open_families(struct berth_store *store, const char *const *names, struct berth_error *err)
{
	const char *all[STORE_FAMILIES_MAX + 1];
	const rocksdb_options_t *options[STORE_FAMILIES_MAX + 1];
	int count = 0;
	for (; names[count]; count++) {
		if (count == STORE_FAMILIES_MAX) {
			return berth_fail(
				err, BERTH_ERROR_INVALID, "a store has at most %d families", STORE_FAMILIES_MAX);
		}
		all[count] = names[count];
		options[count] = store->options;
	}
	all[count] = DEFAULT_FAMILY;
	options[count] = store->options;
	char *reason = NULL;
	store->db = rocksdb.open_column_families(
		store->options, store->folder, count + 1, all, options, store->families, &reason);
	if (reason) {
		store->db = NULL;
		return store_fail(err, reason, "cannot open the store %s", store->folder);
	}
	store->family_count = count;
	return true;
}

struct berth_store *berth_store_open(
	const char *folder, const struct berth_store_options *options, struct berth_error *err)
{
	if (!store_rocksdb_load(err) || !berth_mkdir_all(folder, FOLDER_MODE, err)) {
		return NULL;
	}
	struct berth_store *store = berth_alloc(sizeof *store);
	store->folder = berth_strdup(folder);
	store->disk_free_min_bytes = options->disk_free_min_bytes;
	store->commit_free_min_bytes =
		options->commit_free_min_bytes ? options->commit_free_min_bytes : options->disk_free_min_bytes;
	store->lock_fd = store_lock(folder, err);
	// Space is asked before RocksDB is: on a full disk its open may abort the process.
	if (store->lock_fd < 0 || !store_disk_check(folder, options->disk_free_min_bytes, 0, err) ||
		!store_ballast_make(folder, options->ballast_bytes, options->disk_free_min_bytes, err)) {
		berth_store_close(store);
		return NULL;
	}
	store_tune(store, options->cut_tail);
	if (!open_families(store, options->families, err)) {
		berth_store_close(store);
		return NULL;
	}
	return store;
}

void berth_store_close(struct berth_store *store)
{
	if (!store) {
		return;
	}
	if (store->poisoned) {
		// After a failed write RocksDB's own close may abort, and could write what was refused. The process is
		// about to end: what is left open, the lock as well, goes with it.
		return;
	}
	if (store->db) {
		for (int i = 0; i <= store->family_count; i++) {
			rocksdb.column_family_handle_destroy(store->families[i]);
		}
		rocksdb.close(store->db);
	}
	store_tune_free(store);
	berth_close_cleanup(&store->lock_fd); // last: the next process may come in now
	free(store->folder);
	free(store);
}

void berth_store_release_ballast(struct berth_store *store)
{
	store_ballast_remove(store->folder);
}

bool berth_store_disk_ok(struct berth_store *store, struct berth_error *err)
{
	return store_disk_check(store->folder, store->disk_free_min_bytes, 0, err);
}

bool berth_store_checkpoint(struct berth_store *store, const char *folder, struct berth_error *err)
{
	rmdir(folder); // RocksDB makes it itself; one with something in it stays and is refused below
	if (berth_file_exists(folder)) {
		return berth_fail(err, BERTH_ERROR_CONFLICT, "%s is not an empty folder: name another one", folder);
	}
	char *reason = NULL;
	rocksdb_checkpoint_t *checkpoint = rocksdb.checkpoint_object_create(store->db, &reason);
	if (!reason) {
		rocksdb.checkpoint_create(checkpoint, folder, 0, &reason);
		rocksdb.checkpoint_object_destroy(checkpoint);
	}
	return !reason || store_fail(err, reason, "cannot copy %s to %s", store->folder, folder);
}
