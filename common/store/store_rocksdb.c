// SPDX-License-Identifier: Apache-2.0
#include "common/store/store_rocksdb.h"

#include "common/base/late.h"
#include "common/base/mem.h"

struct store_rocksdb rocksdb;

static const char *const names[] = {
#define X(name) "rocksdb_" #name,
	STORE_ROCKSDB_CALLS(X)
#undef X
};

// Makes this thread's counters, whose registration for the thread's end waits for the dynamic loader.
static void first_use(void)
{
	rocksdb.perfcontext_destroy(rocksdb.perfcontext_create());
}

static struct berth_late late = {
	.file = "librocksdb.so.7.8",
	.package = "librocksdb7.8",
	.names = names,
	.functions = &rocksdb,
	.count = BERTH_COUNT(names),
	.first_use = first_use,
};

bool store_rocksdb_load(struct berth_error *err)
{
	return berth_late_load(&late, err);
}
