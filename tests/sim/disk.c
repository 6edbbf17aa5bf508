// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/disk.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/store/store.h"

#define FAMILIES_MAX 8
#define STALL_NS     INT64_C(10000000000)

struct table {
	struct sim_entry *entries; // by key
	size_t count, capacity;
};

struct change {
	int family;
	struct sim_entry entry; // value NULL: deleted
};

struct undo { // of what was written and not synced: the batch number and what stood before
	uint64_t batch;
	struct change before;
};

struct sim_disk {
	char *folder;
	struct table tables[FAMILIES_MAX];
	struct undo *undo;
	size_t undo_count;
	uint64_t batches;
	int64_t asked_ns;         // when the newest commit that is done began
	struct berth_store *open; // whose lock it is
	bool low, full;
	struct sim_disk *next;
};

struct berth_store_batch {
	struct berth_store *store;
	struct change *changes;
	size_t count;
};

struct berth_store {
	struct sim_disk *disk;
	struct sim_process *process;
	bool poisoned, has_no_ballast;
	struct berth_store_batch *syncing; // a commit that is under way
};

static struct {
	struct sim_random random;
	struct sim_disk *list;
	struct sim_disk_faults faults;
	void (*synced)(struct sim_disk *disk);
} disks;

// --- tables ---
static int compare(const void *a, size_t a_size, const void *b, size_t b_size)
{
	int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
	return order ? order : a_size < b_size ? -1 : a_size > b_size;
}

static size_t place_of(const struct table *table, const void *key, size_t size)
{
	size_t low = 0, high = table->count;
	if (high && compare(table->entries[high - 1].key, table->entries[high - 1].key_size, key, size) < 0) {
		return high; // logs grow at their end
	}
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct sim_entry *entry = &table->entries[middle];
		if (compare(entry->key, entry->key_size, key, size) < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static bool is_at(const struct table *table, size_t at, const void *key, size_t size)
{
	return at < table->count && table->entries[at].key_size == size &&
	       memcmp(table->entries[at].key, key, size) == 0;
}

static struct sim_entry copy_of(const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct sim_entry entry = {.key_size = key_size, .value_size = value_size};
	entry.key = berth_memdup(key, key_size ? key_size : 1);
	if (value) {
		entry.value = berth_alloc(value_size + 1);
		memcpy(entry.value, value, value_size);
	}
	return entry;
}

static void free_entry(struct sim_entry *entry)
{
	free(entry->key);
	free(entry->value);
}

static void put(struct table *table, const struct sim_entry *entry)
{
	size_t at = place_of(table, entry->key, entry->key_size);
	bool stands = is_at(table, at, entry->key, entry->key_size);
	if (stands) {
		free_entry(&table->entries[at]);
	}
	if (!entry->value) {
		if (stands) {
			table->count--;
			memmove(&table->entries[at], &table->entries[at + 1],
				(table->count - at) * sizeof *table->entries);
		}
		return;
	}
	if (!stands) {
		table->entries = berth_grow_array(table->entries, table->count, sizeof *table->entries);
		memmove(&table->entries[at + 1], &table->entries[at], (table->count - at) * sizeof *table->entries);
		table->count++;
	}
	table->entries[at] = copy_of(entry->key, entry->key_size, entry->value, entry->value_size);
}

// --- disks ---
void sim_disks_begin(uint64_t seed)
{
	disks.random = sim_random_stream(seed, SIM_STREAM_DISK);
	disks.faults = (struct sim_disk_faults){.sync_ns_least = 100000, .sync_ns_most = 5000000};
}

static void clear(struct sim_disk *disk)
{
	for (size_t i = 0; i < disk->undo_count; i++) {
		free_entry(&disk->undo[i].before.entry);
	}
	free(disk->undo);
	disk->undo = NULL;
	disk->undo_count = 0;
	for (int family = 0; family < FAMILIES_MAX; family++) {
		struct table *table = &disk->tables[family];
		for (size_t i = 0; i < table->count; i++) {
			free_entry(&table->entries[i]);
		}
		free(table->entries);
		*table = (struct table){0};
	}
}

void sim_disks_end(void)
{
	while (disks.list) {
		struct sim_disk *disk = disks.list;
		LL_DELETE(disks.list, disk);
		clear(disk);
		free(disk->folder);
		free(disk);
	}
}

struct sim_disk *sim_disk_of(const char *folder)
{
	struct sim_disk *disk;
	LL_FOREACH (disks.list, disk) {
		if (strcmp(disk->folder, folder) == 0) {
			return disk;
		}
	}
	disk = berth_alloc(sizeof *disk);
	disk->folder = berth_strdup(folder);
	LL_PREPEND(disks.list, disk);
	return disk;
}

const char *sim_disk_folder(const struct sim_disk *disk)
{
	return disk->folder;
}

struct sim_disk_faults *sim_disk_faults(void)
{
	return &disks.faults;
}

void sim_disks_on_synced(void (*synced)(struct sim_disk *disk))
{
	disks.synced = synced;
}

static void forget_undo(struct sim_disk *disk)
{
	for (size_t i = 0; i < disk->undo_count; i++) {
		free_entry(&disk->undo[i].before.entry);
	}
	disk->undo_count = 0;
}

static void apply(struct sim_disk *disk, const struct berth_store_batch *batch, bool synced)
{
	disk->batches++;
	for (size_t i = 0; i < batch->count; i++) {
		const struct change *change = &batch->changes[i];
		struct table *table = &disk->tables[change->family];
		if (!synced) {
			size_t at = place_of(table, change->entry.key, change->entry.key_size);
			bool stands = is_at(table, at, change->entry.key, change->entry.key_size);
			const struct sim_entry *old = stands ? &table->entries[at] : NULL;
			disk->undo = berth_grow_array(disk->undo, disk->undo_count, sizeof *disk->undo);
			disk->undo[disk->undo_count++] = (struct undo){.batch = disk->batches,
				.before = {
					change->family, copy_of(change->entry.key, change->entry.key_size,
								old ? old->value : NULL, old ? old->value_size : 0)}};
		}
		put(table, &change->entry);
	}
	if (synced) {
		forget_undo(disk);
	}
}

static void lose_unsynced(struct sim_disk *disk)
{
	if (!disk->undo_count) {
		return;
	}
	uint64_t first = disk->undo[0].batch;
	uint64_t keep = first + sim_random_below(&disks.random, disk->batches - first + 2);
	while (disk->undo_count && disk->undo[disk->undo_count - 1].batch >= keep) {
		struct undo *undo = &disk->undo[--disk->undo_count];
		put(&disk->tables[undo->before.family], &undo->before.entry);
		free_entry(&undo->before.entry);
	}
	forget_undo(disk);
}

void sim_disk_crash(struct sim_disk *disk, bool power)
{
	struct berth_store *store = disk->open;
	disk->open = NULL;
	// A batch on its way to the disk is there whole, with all before it, or not at all.
	if (store && store->syncing && sim_random_chance(&disks.random, 500)) {
		apply(disk, store->syncing, true);
	} else if (power) {
		lose_unsynced(disk);
	}
}

void sim_disk_copy(const struct sim_disk *from, struct sim_disk *to)
{
	clear(to);
	for (int family = 0; family < FAMILIES_MAX; family++) {
		for (size_t i = 0; i < from->tables[family].count; i++) {
			put(&to->tables[family], &from->tables[family].entries[i]);
		}
	}
}

size_t sim_disk_unsynced(const struct sim_disk *disk)
{
	return disk->undo_count;
}

int64_t sim_disk_asked_ns(const struct sim_disk *disk)
{
	return disk->asked_ns;
}

size_t sim_disk_count(const struct sim_disk *disk, int family)
{
	return disk->tables[family].count;
}

const struct sim_entry *sim_disk_entry(const struct sim_disk *disk, int family, size_t at)
{
	return &disk->tables[family].entries[at];
}

const struct sim_entry *sim_disk_find(const struct sim_disk *disk, int family, const void *key, size_t key_size)
{
	const struct table *table = &disk->tables[family];
	size_t at = place_of(table, key, key_size);
	return is_at(table, at, key, key_size) ? &table->entries[at] : NULL;
}

void sim_disk_flip(struct sim_disk *disk, int family, size_t at, size_t bit)
{
	struct sim_entry *entry = &disk->tables[family].entries[at];
	entry->value[bit / 8 % entry->value_size] ^= (uint8_t)(1u << bit % 8);
}

void sim_disk_misdirect(struct sim_disk *disk, int family, size_t from, size_t to)
{
	struct sim_entry *entries = disk->tables[family].entries;
	struct sim_entry moved =
		copy_of(entries[to].key, entries[to].key_size, entries[from].value, entries[from].value_size);
	free_entry(&entries[to]);
	entries[to] = moved;
}

void sim_disk_lose(struct sim_disk *disk, int family, size_t at)
{
	struct sim_entry lost = disk->tables[family].entries[at];
	struct sim_entry deleted = copy_of(lost.key, lost.key_size, NULL, 0);
	put(&disk->tables[family], &deleted);
	free_entry(&deleted);
}

void sim_disk_set_low(struct sim_disk *disk, bool low, bool full)
{
	disk->low = low;
	disk->full = full;
}

// --- common/store/store.h ---
static bool is_cut(const struct berth_store *store)
{
	return store->process && store->process->dead;
}

struct berth_store *berth_store_open(
	const char *folder, const struct berth_store_options *options, struct berth_error *err)
{
	(void)options;
	struct sim_disk *disk = sim_disk_of(folder);
	if (disk->open && !is_cut(disk->open)) {
		berth_fail(err, BERTH_ERROR_CONFLICT, "%s is open in another process", folder);
		return NULL;
	}
	if (disk->low) {
		berth_fail(err, BERTH_ERROR_EXHAUSTED, "%s is on a disk below its watermark", folder);
		return NULL;
	}
	struct berth_store *store = berth_alloc(sizeof *store);
	store->disk = disk;
	store->process = sim_self();
	disk->open = store;
	return store;
}

void berth_store_close(struct berth_store *store)
{
	if (store && store->disk->open == store) {
		store->disk->open = NULL;
	}
	free(store);
}

void berth_store_release_ballast(struct berth_store *store)
{
	store->has_no_ballast = true;
}

struct berth_store_batch *berth_store_batch_new(struct berth_store *store)
{
	struct berth_store_batch *batch = berth_alloc(sizeof *batch);
	batch->store = store;
	return batch;
}

static void add_change(struct berth_store_batch *batch, int family, struct sim_entry entry)
{
	batch->changes = berth_grow_array(batch->changes, batch->count, sizeof *batch->changes);
	batch->changes[batch->count++] = (struct change){family, entry};
}

void berth_store_batch_put(struct berth_store_batch *batch, int family, const void *key, size_t key_size,
	const void *value, size_t value_size)
{
	add_change(batch, family, copy_of(key, key_size, value_size ? value : "", value_size));
}

void berth_store_batch_delete(struct berth_store_batch *batch, int family, const void *key, size_t key_size)
{
	add_change(batch, family, copy_of(key, key_size, NULL, 0));
}

size_t berth_store_batch_count(const struct berth_store_batch *batch)
{
	return batch->count;
}

static void empty(struct berth_store_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		free_entry(&batch->changes[i].entry);
	}
	free(batch->changes);
	batch->changes = NULL;
	batch->count = 0;
}

void berth_store_batch_free(struct berth_store_batch *batch)
{
	if (batch) {
		empty(batch);
		free(batch);
	}
}

static bool dies_here(const struct berth_store *store)
{
	if (store->process && sim_random_chance(&disks.random, disks.faults.crash_per_mille)) {
		sim_process_die(store->process);
	}
	return is_cut(store);
}

static bool fail_sync(struct berth_store *store, struct berth_store_batch *batch, struct berth_error *err)
{
	store->poisoned = true;
	if (sim_random_chance(&disks.random, 500)) {
		apply(store->disk, batch, true);
	}
	empty(batch);
	return berth_fail(err, BERTH_ERROR_INTERNAL, "cannot write to %s: Input/output error", store->disk->folder);
}

bool berth_store_commit(struct berth_store *store, struct berth_store_batch *batch, struct berth_error *err)
{
	if (!berth_store_writable(store, err)) {
		return false;
	}
	if (store->disk->full && !store->has_no_ballast && !is_cut(store)) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED, "%s is on a full disk", store->disk->folder);
	}
	int64_t asked_ns = sim_now();
	if (!dies_here(store)) {
		store->syncing = batch;
		bool stalls = sim_random_chance(&disks.random, disks.faults.stall_per_mille);
		sim_sleep_ns(stalls ? STALL_NS
				    : sim_random_between(
					      &disks.random, disks.faults.sync_ns_least, disks.faults.sync_ns_most));
		store->syncing = NULL;
	}
	if (is_cut(store)) {
		empty(batch);
		return true;
	}
	if (sim_random_chance(&disks.random, disks.faults.failure_per_mille)) {
		return fail_sync(store, batch, err);
	}
	apply(store->disk, batch, true);
	empty(batch);
	store->disk->asked_ns = asked_ns;
	if (disks.synced) {
		disks.synced(store->disk);
	}
	dies_here(store);
	return true;
}

bool berth_store_write(struct berth_store *store, struct berth_store_batch *batch, struct berth_error *err)
{
	if (!berth_store_writable(store, err)) {
		return false;
	}
	if (!is_cut(store)) {
		apply(store->disk, batch, false);
	}
	empty(batch);
	return true;
}

bool berth_store_writable(const struct berth_store *store, struct berth_error *err)
{
	return !store->poisoned ||
	       berth_fail(err, BERTH_ERROR_INTERNAL, "an earlier write to %s failed", store->disk->folder);
}

bool berth_store_disk_ok(struct berth_store *store, struct berth_error *err)
{
	return !store->disk->low ||
	       berth_fail(err, BERTH_ERROR_EXHAUSTED, "%s is on a disk below its watermark", store->disk->folder);
}

bool berth_store_get(struct berth_store *store, int family, const void *key, size_t key_size, struct berth_buf *value,
	struct berth_error *err)
{
	const struct sim_entry *entry = sim_disk_find(store->disk, family, key, key_size);
	if (!entry) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND, "no such key in %s", store->disk->folder);
	}
	berth_buf_add(value, entry->value, entry->value_size);
	return true;
}

bool berth_store_scan(struct berth_store *store, int family, const void *prefix, size_t prefix_size, const void *from,
	size_t from_size,
	bool (*visit)(void *context, const void *key, size_t key_size, const void *value, size_t value_size),
	void *context, struct berth_error *err)
{
	(void)err;
	const struct table *table = &store->disk->tables[family];
	bool later = from && compare(from, from_size, prefix ? prefix : "", prefix_size) > 0;
	size_t at = later ? place_of(table, from, from_size) : prefix_size ? place_of(table, prefix, prefix_size) : 0;
	for (; at < table->count; at++) {
		const struct sim_entry *entry = &table->entries[at];
		if (entry->key_size < prefix_size || (prefix_size && memcmp(entry->key, prefix, prefix_size) != 0) ||
			!visit(context, entry->key, entry->key_size, entry->value, entry->value_size)) {
			break;
		}
	}
	return true;
}

bool berth_store_last(
	struct berth_store *store, int family, struct berth_buf *key, struct berth_buf *value, struct berth_error *err)
{
	const struct table *table = &store->disk->tables[family];
	if (!table->count) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND, "%s has nothing", store->disk->folder);
	}
	const struct sim_entry *entry = &table->entries[table->count - 1];
	berth_buf_add(key, entry->key, entry->key_size);
	berth_buf_add(value, entry->value, entry->value_size);
	return true;
}

bool berth_store_checkpoint(struct berth_store *store, const char *folder, struct berth_error *err)
{
	sim_disk_copy(store->disk, sim_disk_of(folder));
	return berth_mkdir_all(folder, 0700, err); // whose files are listed
}
