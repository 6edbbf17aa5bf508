// SPDX-License-Identifier: Apache-2.0
// A folder of ordered key-value families that survives crashes: RocksDB, opened by one process at a time.
//
// Crash-only. A write that returns false leaves its outcome unknown (the reference library may have kept it), so after
// one the store refuses every later write: the owner ends the process. Reads are thread-safe, writes have one thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"

struct berth_store;
struct berth_store_batch;

struct berth_store_options {
	const char *const *families;   // names, NULL-terminated; made when missing
	int64_t disk_free_min_bytes;   // below it open is refused with EXHAUSTED; 0: no watermark
	int64_t commit_free_min_bytes; // below it commit is, too; 0: as disk_free_min_bytes
	int64_t ballast_bytes;         // size of a file that holds space free for an orderly end; 0: none
	// Drop everything from the first damage of the log on. Only for an open that was refused as CORRUPT after a
	// power cut: a file system that gives no order to data and size may leave zeros or old bytes where a write that
	// was never synced would be. The caller must know otherwise that nothing committed is missing.
	bool cut_tail;
};

// Makes the folder when missing. CONFLICT when another process has it (an flock on FOLDER/LOCK.berth besides RocksDB's
// own). CORRUPT when the log is damaged before its end; a tail that was cut short is dropped. EXHAUSTED below the
// watermark: the message says how much is free, how much is needed, and what to do.
struct berth_store *berth_store_open(
	const char *folder, const struct berth_store_options *options, struct berth_error *err);
// NULL is allowed. A store whose write has failed stays open and locked until the process ends.
void berth_store_close(struct berth_store *store);
// Makes room for an orderly end on a full disk: removes the ballast file.
void berth_store_release_ballast(struct berth_store *store);

struct berth_store_batch *berth_store_batch_new(struct berth_store *store);
void berth_store_batch_put(struct berth_store_batch *batch, int family, const void *key, size_t key_size,
	const void *value, size_t value_size);
void berth_store_batch_delete(struct berth_store_batch *batch, int family, const void *key, size_t key_size);
size_t berth_store_batch_count(const struct berth_store_batch *batch);
void berth_store_batch_free(struct berth_store_batch *batch); // NULL is allowed
// Writes all of it or nothing, synced to the disk before it returns, and empties the batch. Below the watermark it is
// EXHAUSTED before anything was sent: the batch stays whole and may be tried again.
bool berth_store_commit(struct berth_store *store, struct berth_store_batch *batch, struct berth_error *err);
// The same without the sync: a crash of the machine may lose it, and keeps what was committed before. What is committed
// later is never there without it.
bool berth_store_write(struct berth_store *store, struct berth_store_batch *batch, struct berth_error *err);

// False with the first failed write's error after one.
bool berth_store_writable(const struct berth_store *store, struct berth_error *err);
// EXHAUSTED below the watermark; any thread.
bool berth_store_disk_ok(struct berth_store *store, struct berth_error *err);

// Appends the value to `value`. False with NOT_FOUND for a missing key.
bool berth_store_get(struct berth_store *store, int family, const void *key, size_t key_size, struct berth_buf *value,
	struct berth_error *err);
// Visits keys >= `from` that start with `prefix`, in order, until visit returns false. False only on a read error.
bool berth_store_scan(struct berth_store *store, int family, const void *prefix, size_t prefix_size, const void *from,
	size_t from_size,
	bool (*visit)(void *context, const void *key, size_t key_size, const void *value, size_t value_size),
	void *context, struct berth_error *err);
// The greatest key of a family; false with NOT_FOUND for an empty one.
bool berth_store_last(
	struct berth_store *store, int family, struct berth_buf *key, struct berth_buf *value, struct berth_error *err);
// A copy as of now, in an empty or missing folder on the same file system.
bool berth_store_checkpoint(struct berth_store *store, const char *folder, struct berth_error *err);
