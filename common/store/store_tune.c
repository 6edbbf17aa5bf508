// SPDX-License-Identifier: Apache-2.0
// RocksDB set up for many small synced writes of one thread, in a process that stays small while it is idle.
#include "common/store/store_internal.h"

#define KIB 1024
#define MIB (1024 * KIB)

#define CACHE_BYTES             (4 * MIB)
#define MEMTABLE_BYTES          (4 * MIB) // of one family
#define MEMTABLES_BYTES         (8 * MIB) // of all
#define ARENA_BLOCK_BYTES       (64 * KIB)
#define WAL_TOTAL_BYTES         (32 * MIB) // what an open replays at most
#define TABLE_FILE_BYTES        (32 * MIB)
#define BLOCK_BYTES             (16 * KIB)
#define BLOOM_BITS              10
#define OPEN_FILES_MAX          128
#define OPENING_THREADS         1
#define MANIFEST_BYTES          (4 * MIB)
#define MANIFEST_PREALLOC_BYTES (64 * KIB)
#define INFO_LOG_BYTES          (256 * KIB)
#define INFO_LOGS               2
#define INFO_LOG_WARN           2
#define TABLE_SYNC_BYTES        (1 * MIB)

static void tune_tables(struct berth_store *store)
{
	rocksdb_block_based_table_options_t *tables = rocksdb.block_based_options_create();
	store->cache = rocksdb.cache_create_lru(CACHE_BYTES);
	rocksdb.block_based_options_set_block_cache(tables, store->cache);
	rocksdb.block_based_options_set_block_size(tables, BLOCK_BYTES);
	rocksdb.block_based_options_set_cache_index_and_filter_blocks(tables, 1);
	rocksdb.block_based_options_set_filter_policy(tables, rocksdb.filterpolicy_create_bloom_full(BLOOM_BITS));
	rocksdb.options_set_block_based_table_factory(store->options, tables);
	rocksdb.block_based_options_destroy(tables);
}

static void tune_wal(rocksdb_options_t *options, bool cut_tail)
{
	// The tail that a crash tore off is cut; damage before it refuses to open. Point-in-time recovery would drop
	// everything after the damage without a word. It rules out log recycling, whose stale bytes look like damage.
	rocksdb.options_set_wal_recovery_mode(
		options, cut_tail ? rocksdb_point_in_time_recovery : rocksdb_tolerate_corrupted_tail_records_recovery);
	rocksdb.options_set_recycle_log_file_num(options, 0);
	rocksdb.options_set_max_total_wal_size(options, WAL_TOTAL_BYTES);
	// One writer thread: no hand-over between writers to be made fast.
	rocksdb.options_set_allow_concurrent_memtable_write(options, 0);
	rocksdb.options_set_enable_write_thread_adaptive_yield(options, 0);
}

static void tune_memory(rocksdb_options_t *options)
{
	rocksdb.options_set_write_buffer_size(options, MEMTABLE_BYTES);
	rocksdb.options_set_db_write_buffer_size(options, MEMTABLES_BYTES);
	rocksdb.options_set_arena_block_size(options, ARENA_BLOCK_BYTES);
	rocksdb.options_set_target_file_size_base(options, TABLE_FILE_BYTES);
	rocksdb.options_set_max_open_files(options, OPEN_FILES_MAX);
	rocksdb.options_set_max_file_opening_threads(options, OPENING_THREADS);
	rocksdb.options_set_max_background_jobs(options, STORE_COMPACTING_THREADS + STORE_FLUSHING_THREADS);
	rocksdb.options_set_bytes_per_sync(options, TABLE_SYNC_BYTES);
	rocksdb.options_set_compression(options, rocksdb_lz4_compression);
}

static void tune_chatter(rocksdb_options_t *options)
{
	rocksdb.options_set_info_log_level(options, INFO_LOG_WARN);
	rocksdb.options_set_max_log_file_size(options, INFO_LOG_BYTES);
	rocksdb.options_set_keep_log_file_num(options, INFO_LOGS);
	rocksdb.options_set_stats_dump_period_sec(options, 0);
	rocksdb.options_set_stats_persist_period_sec(options, 0);
	rocksdb.options_set_skip_stats_update_on_db_open(options, 1);
	rocksdb.options_set_max_manifest_file_size(options, MANIFEST_BYTES);
	rocksdb.options_set_manifest_preallocation_size(options, MANIFEST_PREALLOC_BYTES);
}

void store_tune(struct berth_store *store, bool cut_tail)
{
	store->options = rocksdb.options_create();
	rocksdb.options_set_create_if_missing(store->options, 1);
	rocksdb.options_set_create_missing_column_families(store->options, 1);
	rocksdb.options_set_paranoid_checks(store->options, 1);
	tune_tables(store);
	tune_wal(store->options, cut_tail);
	tune_memory(store->options);
	tune_chatter(store->options);
	store->synced_write = rocksdb.writeoptions_create();
	rocksdb.writeoptions_set_sync(store->synced_write, 1);
	store->plain_write = rocksdb.writeoptions_create();
	store->point_read = rocksdb.readoptions_create();
	store->scan_read = rocksdb.readoptions_create();
	rocksdb.readoptions_set_fill_cache(store->scan_read, 0); // a walk must not push out what points need
}

void store_tune_free(struct berth_store *store)
{
	if (store->options) {
		rocksdb.readoptions_destroy(store->scan_read);
		rocksdb.readoptions_destroy(store->point_read);
		rocksdb.writeoptions_destroy(store->synced_write);
		rocksdb.writeoptions_destroy(store->plain_write);
		rocksdb.options_destroy(store->options);
		rocksdb.cache_destroy(store->cache);
	}
}
