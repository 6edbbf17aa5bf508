// SPDX-License-Identifier: Apache-2.0
// Inside common/store only.
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/store/store.h"
#include "common/store/store_rocksdb.h"

#define STORE_FAMILIES_MAX 32

struct berth_store {
	char *folder;
	int lock_fd;
	int64_t disk_free_min_bytes, commit_free_min_bytes;
	rocksdb_options_t *options; // the families' too: all are tuned alike
	rocksdb_cache_t *cache;
	rocksdb_writeoptions_t *synced_write;
	rocksdb_writeoptions_t *plain_write;
	rocksdb_readoptions_t *point_read;
	rocksdb_readoptions_t *scan_read;
	rocksdb_t *db;
	int family_count; // without RocksDB's own "default", which is the last handle
	rocksdb_column_family_handle_t *families[STORE_FAMILIES_MAX + 1];
	bool poisoned;
	struct berth_error poison; // of the write that failed first
};

void store_tune(struct berth_store *store, bool cut_tail);
void store_tune_free(struct berth_store *store);

// Takes the flock of the folder, or CONFLICT.
int store_lock(const char *folder, struct berth_error *err);
// EXHAUSTED when less than the watermark and `more` bytes are free.
bool store_disk_check(const char *folder, int64_t free_min_bytes, int64_t more, struct berth_error *err);
// Makes the ballast file where it leaves the watermark's room; a disk that is too full for it is not an error.
bool store_ballast_make(const char *folder, int64_t size, int64_t free_min_bytes, struct berth_error *err);
void store_ballast_remove(const char *folder);

// Fills err from RocksDB's text, which it frees. Always false.
bool store_fail(struct berth_error *err, char *reason, const char *format, ...) __attribute__((format(printf, 3, 4)));

static inline rocksdb_column_family_handle_t *store_family(struct berth_store *store, int family)
{
	assert(family >= 0 && family < store->family_count);
	return store->families[family];
}
