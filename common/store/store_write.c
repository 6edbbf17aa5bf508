// SPDX-License-Identifier: Apache-2.0
// Batches: everything that changes a store.
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/store/store_internal.h"

#define BATCH_KEEP_BYTES (1024 * 1024) // a batch that grew beyond gives its memory back

struct berth_store_batch {
	struct berth_store *store;
	rocksdb_writebatch_t *writes;
};

struct berth_store_batch *berth_store_batch_new(struct berth_store *store)
{
	struct berth_store_batch *batch = berth_alloc(sizeof *batch);
	batch->store = store;
	batch->writes = rocksdb.writebatch_create();
	return batch;
}

void berth_store_batch_put(struct berth_store_batch *batch, int family, const void *key, size_t key_size,
	const void *value, size_t value_size)
{
	rocksdb.writebatch_put_cf(batch->writes, store_family(batch->store, family), key, key_size, value, value_size);
}

void berth_store_batch_delete(struct berth_store_batch *batch, int family, const void *key, size_t key_size)
{
	rocksdb.writebatch_delete_cf(batch->writes, store_family(batch->store, family), key, key_size);
}

size_t berth_store_batch_count(const struct berth_store_batch *batch)
{
	return (size_t)rocksdb.writebatch_count(batch->writes);
}

void berth_store_batch_free(struct berth_store_batch *batch)
{
	if (batch) {
		rocksdb.writebatch_destroy(batch->writes);
		free(batch);
	}
}

static void empty(struct berth_store_batch *batch, size_t size)
{
	if (size <= BATCH_KEEP_BYTES) {
		rocksdb.writebatch_clear(batch->writes);
		return;
	}
	rocksdb.writebatch_destroy(batch->writes);
	batch->writes = rocksdb.writebatch_create();
}

static bool poison(struct berth_store *store, char *reason, struct berth_error *err)
{
	store_fail(&store->poison, reason, "cannot write to %s", store->folder);
	store->poisoned = true;
	return berth_fail(err, store->poison.code, "%s", store->poison.message);
}

bool berth_store_writable(const struct berth_store *store, struct berth_error *err)
{
	return !store->poisoned || berth_fail(err, store->poison.code, "%s", store->poison.message);
}

static bool write_batch(struct berth_store *store, struct berth_store_batch *batch,
	const rocksdb_writeoptions_t *options, struct berth_error *err)
{
	if (!berth_store_writable(store, err)) {
		return false;
	}
	size_t size = 0;
	rocksdb.writebatch_data(batch->writes, &size);
	if (!store_disk_check(store->folder, store->commit_free_min_bytes, (int64_t)size, err)) {
		return false; // nothing was sent: the batch is whole and may be tried again
	}
	char *reason = NULL;
	rocksdb.write(store->db, options, batch->writes, &reason);
	if (reason) {
		return poison(store, reason, err);
	}
	empty(batch, size);
	return true;
}

bool berth_store_commit(struct berth_store *store, struct berth_store_batch *batch, struct berth_error *err)
{
	return write_batch(store, batch, store->synced_write, err);
}

bool berth_store_write(struct berth_store *store, struct berth_store_batch *batch, struct berth_error *err)
{
	return write_batch(store, batch, store->plain_write, err);
}
