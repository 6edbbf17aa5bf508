// SPDX-License-Identifier: Apache-2.0
// The state digest: SHA-256 over the records in key order. What is volatile, or only says when a cell may run again,
// has no record; replaying the log from its first event, or from a checkpoint, gives the same digest.
#include <stdlib.h>
#include <string.h>

#include "coordinator/core/state.h"

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->key, ((const struct row *)b)->key);
}

struct berth_digest berth_core_digest(const struct berth_core *core)
{
	struct rows rows = {0};
	rows_all(core, &rows);
	qsort(rows.items, rows.count, sizeof *rows.items, compare);
	struct berth_hasher *hasher = berth_hasher_new();
	for (size_t i = 0; i < rows.count; i++) {
		berth_hasher_add(hasher, rows.items[i].key, strlen(rows.items[i].key) + 1);
		berth_hasher_add(hasher, rows.items[i].value.data, rows.items[i].value.size);
	}
	rows_clear(&rows);
	return berth_hasher_finish(hasher);
}
