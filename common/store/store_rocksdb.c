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

// What an open begins with and would wait with for the dynamic loader: this thread's counters, which are registered for
// the thread's end, and the threads that flush and compact.
static void first_use(void)
{
	rocksdb.perfcontext_destroy(rocksdb.perfcontext_create());
	rocksdb_env_t *env = rocksdb.create_default_env();
	rocksdb.env_set_background_threads(env, STORE_COMPACTING_THREADS);
	rocksdb.env_set_high_priority_background_threads(env, STORE_FLUSHING_THREADS);
	rocksdb.env_destroy(env); // only this handle of it
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
