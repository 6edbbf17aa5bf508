// SPDX-License-Identifier: Apache-2.0
// Reads: any thread.
#include <string.h>

#include "common/store/store_internal.h"

bool berth_store_get(struct berth_store *store, int family, const void *key, size_t key_size, struct berth_buf *value,
	struct berth_error *err)
{
	char *reason = NULL;
	rocksdb_pinnableslice_t *found = rocksdb.get_pinned_cf(
		store->db, store->point_read, store_family(store, family), key, key_size, &reason);
	if (reason) {
		return store_fail(err, reason, "cannot read %s", store->folder);
	}
	if (!found) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND, "no such key in %s", store->folder);
	}
	size_t size = 0;
	const char *data = rocksdb.pinnableslice_value(found, &size);
	berth_buf_add(value, data, size);
	rocksdb.pinnableslice_destroy(found);
	return true;
}

static bool end_of_walk(struct berth_store *store, rocksdb_iterator_t *at, struct berth_error *err)
{
	char *reason = NULL;
	rocksdb.iter_get_error(at, &reason);
	rocksdb.iter_destroy(at);
	return !reason || store_fail(err, reason, "cannot read %s", store->folder);
}

static bool comes_before(const void *a, size_t a_size, const void *b, size_t b_size)
{
	int order = a_size && b_size ? memcmp(a, b, a_size < b_size ? a_size : b_size) : 0;
	return order < 0 || (order == 0 && a_size < b_size);
}

bool berth_store_scan(struct berth_store *store, int family, const void *prefix, size_t prefix_size, const void *from,
	size_t from_size,
	bool (*visit)(void *context, const void *key, size_t key_size, const void *value, size_t value_size),
	void *context, struct berth_error *err)
{
	bool from_prefix = comes_before(from, from_size, prefix, prefix_size);
	const char *start = from_prefix ? prefix : from;
	size_t start_size = from_prefix ? prefix_size : from_size;
	rocksdb_iterator_t *at = rocksdb.create_iterator_cf(store->db, store->scan_read, store_family(store, family));
	for (rocksdb.iter_seek(at, start_size ? start : "", start_size); rocksdb.iter_valid(at);
		rocksdb.iter_next(at)) {
		size_t key_size = 0;
		size_t value_size = 0;
		const char *key = rocksdb.iter_key(at, &key_size);
		if (key_size < prefix_size || (prefix_size && memcmp(key, prefix, prefix_size) != 0)) {
			break;
		}
		const char *value = rocksdb.iter_value(at, &value_size);
		if (!visit(context, key, key_size, value, value_size)) {
			break;
		}
	}
	return end_of_walk(store, at, err);
}

bool berth_store_last(
	struct berth_store *store, int family, struct berth_buf *key, struct berth_buf *value, struct berth_error *err)
{
	rocksdb_iterator_t *at = rocksdb.create_iterator_cf(store->db, store->scan_read, store_family(store, family));
	rocksdb.iter_seek_to_last(at);
	bool found = rocksdb.iter_valid(at);
	if (found) {
		size_t size = 0;
		const char *data = rocksdb.iter_key(at, &size);
		berth_buf_add(key, data, size);
		data = rocksdb.iter_value(at, &size);
		berth_buf_add(value, data, size);
	}
	if (!end_of_walk(store, at, err)) {
		return false;
	}
	return found || berth_fail(err, BERTH_ERROR_NOT_FOUND, "a family of %s is empty", store->folder);
}
