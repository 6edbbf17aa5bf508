// SPDX-License-Identifier: Apache-2.0
// RocksDB's functions, loaded with the first store: rocksdb.write is its header's rocksdb_write.
#pragma once

#include <rocksdb/c.h>
#include <stdbool.h>

#include "common/base/error.h"

// Of the process, for all its stores.
#define STORE_COMPACTING_THREADS 1
#define STORE_FLUSHING_THREADS   1

#define STORE_ROCKSDB_CALLS(X)                                                                                         \
	X(block_based_options_create)                                                                                  \
	X(block_based_options_destroy)                                                                                 \
	X(block_based_options_set_block_cache)                                                                         \
	X(block_based_options_set_block_size)                                                                          \
	X(block_based_options_set_cache_index_and_filter_blocks)                                                       \
	X(block_based_options_set_filter_policy)                                                                       \
	X(cache_create_lru)                                                                                            \
	X(cache_destroy)                                                                                               \
	X(checkpoint_create)                                                                                           \
	X(checkpoint_object_create)                                                                                    \
	X(checkpoint_object_destroy)                                                                                   \
	X(close)                                                                                                       \
	X(column_family_handle_destroy)                                                                                \
	X(create_default_env)                                                                                          \
	X(create_iterator_cf)                                                                                          \
	X(env_destroy)                                                                                                 \
	X(env_set_background_threads)                                                                                  \
	X(env_set_high_priority_background_threads)                                                                    \
	X(filterpolicy_create_bloom_full)                                                                              \
	X(free)                                                                                                        \
	X(get_pinned_cf)                                                                                               \
	X(iter_destroy)                                                                                                \
	X(iter_get_error)                                                                                              \
	X(iter_key)                                                                                                    \
	X(iter_next)                                                                                                   \
	X(iter_seek)                                                                                                   \
	X(iter_seek_to_last)                                                                                           \
	X(iter_valid)                                                                                                  \
	X(iter_value)                                                                                                  \
	X(open_column_families)                                                                                        \
	X(options_create)                                                                                              \
	X(options_destroy)                                                                                             \
	X(options_set_allow_concurrent_memtable_write)                                                                 \
	X(options_set_arena_block_size)                                                                                \
	X(options_set_block_based_table_factory)                                                                       \
	X(options_set_bytes_per_sync)                                                                                  \
	X(options_set_compression)                                                                                     \
	X(options_set_create_if_missing)                                                                               \
	X(options_set_create_missing_column_families)                                                                  \
	X(options_set_db_write_buffer_size)                                                                            \
	X(options_set_enable_write_thread_adaptive_yield)                                                              \
	X(options_set_info_log_level)                                                                                  \
	X(options_set_keep_log_file_num)                                                                               \
	X(options_set_manifest_preallocation_size)                                                                     \
	X(options_set_max_background_jobs)                                                                             \
	X(options_set_max_file_opening_threads)                                                                        \
	X(options_set_max_log_file_size)                                                                               \
	X(options_set_max_manifest_file_size)                                                                          \
	X(options_set_max_open_files)                                                                                  \
	X(options_set_max_total_wal_size)                                                                              \
	X(options_set_paranoid_checks)                                                                                 \
	X(options_set_recycle_log_file_num)                                                                            \
	X(options_set_skip_stats_update_on_db_open)                                                                    \
	X(options_set_stats_dump_period_sec)                                                                           \
	X(options_set_stats_persist_period_sec)                                                                        \
	X(options_set_target_file_size_base)                                                                           \
	X(options_set_wal_recovery_mode)                                                                               \
	X(options_set_write_buffer_size)                                                                               \
	X(perfcontext_create)                                                                                          \
	X(perfcontext_destroy)                                                                                         \
	X(pinnableslice_destroy)                                                                                       \
	X(pinnableslice_value)                                                                                         \
	X(readoptions_create)                                                                                          \
	X(readoptions_destroy)                                                                                         \
	X(readoptions_set_fill_cache)                                                                                  \
	X(write)                                                                                                       \
	X(writebatch_clear)                                                                                            \
	X(writebatch_count)                                                                                            \
	X(writebatch_create)                                                                                           \
	X(writebatch_data)                                                                                             \
	X(writebatch_delete_cf)                                                                                        \
	X(writebatch_destroy)                                                                                          \
	X(writebatch_put_cf)                                                                                           \
	X(writeoptions_create)                                                                                         \
	X(writeoptions_destroy)                                                                                        \
	X(writeoptions_set_sync)

struct store_rocksdb {
#define X(name) __typeof__(rocksdb_##name) *name;
	STORE_ROCKSDB_CALLS(X)
#undef X
};

extern struct store_rocksdb rocksdb; // whole once store_rocksdb_load gave true

bool store_rocksdb_load(struct berth_error *err);
