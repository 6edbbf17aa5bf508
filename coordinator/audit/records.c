// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/records.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

struct record {
	char *key;
	struct berth_buf value;
};

struct records { // by key
	struct record *items;
	size_t count, capacity;
	size_t next; // to be met in the ledger
	struct berth_error *err;
	bool differ;
};

static void records_free(struct records *records)
{
	for (size_t i = 0; i < records->count; i++) {
		free(records->items[i].key);
		berth_buf_free(&records->items[i].value);
	}
	free(records->items);
}

static void take(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	(void)slot;
	struct records *records = context;
	if (records->count == records->capacity) {
		records->capacity = records->capacity ? 2 * records->capacity : 256;
		records->items = berth_realloc_array(records->items, records->capacity, sizeof *records->items);
	}
	struct record *record = &records->items[records->count++];
	*record = (struct record){.key = berth_strdup(key)};
	berth_buf_add(&record->value, value, size);
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct record *)a)->key, ((const struct record *)b)->key);
}

static bool differ(struct records *records, const char *key, const char *how)
{
	records->differ = true;
	return berth_fail(records->err, BERTH_ERROR_CORRUPT,
		"the stored record %s %s: restore the data folder from a backup", key, how);
}

static bool meet(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	(void)slot;
	struct records *records = context;
	const struct record *wanted = records->next < records->count ? &records->items[records->next] : NULL;
	int order = wanted ? strcmp(key, wanted->key) : -1;
	if (order < 0) {
		return differ(records, key, "is of nothing that the log made");
	}
	if (order > 0) {
		return differ(records, wanted->key, "is missing");
	}
	if (size != wanted->value.size || memcmp(value, wanted->value.data, size) != 0) {
		return differ(records, key, "is not what the log makes of it");
	}
	records->next++;
	return true;
}

bool audit_records(struct berth_core *core, struct berth_ledger *ledger, size_t *count, struct berth_error *err)
{
	BERTH_AUTO(records_free) struct records records = {.err = err};
	if (berth_core_checkpoint_begin(core)) {
		berth_core_checkpoint_take(core, SIZE_MAX, take, &records);
	}
	if (records.count) {
		qsort(records.items, records.count, sizeof *records.items, compare);
	}
	if (!berth_ledger_rows(ledger, "", NULL, meet, &records, err) || records.differ) {
		return false;
	}
	*count = records.count;
	return records.next == records.count || differ(&records, records.items[records.next].key, "is missing");
}
