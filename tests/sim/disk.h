// SPDX-License-Identifier: Apache-2.0
// Disks: what common/store keeps in RocksDB, kept here, with the same contract. A commit is whole and synced or has not
// happened; what was written without a sync is lost with the power, from some point on; nothing is lost when only the
// process dies. A disk outlives the processes that open it, and can be copied.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/sched.h"

struct sim_disk;

struct sim_entry {
	uint8_t *key, *value;
	size_t key_size, value_size;
};

struct sim_disk_faults {
	int64_t sync_ns_least, sync_ns_most;
	unsigned stall_per_mille;   // a sync that takes 10 s
	unsigned crash_per_mille;   // the process dies around a commit
	unsigned failure_per_mille; // a sync fails, and what became of the batch is not known
};

void sim_disks_begin(uint64_t seed);
void sim_disks_end(void); // forgets every disk
// The disk of a folder, made when missing.
struct sim_disk *sim_disk_of(const char *folder);
struct sim_disk_faults *sim_disk_faults(void);
// Of all disks: called in the committing thread when a batch is on the disk.
void sim_disks_on_synced(void (*synced)(struct sim_disk *disk));
// The process that had it open has died; with the power, what was not synced is gone from some point on.
void sim_disk_crash(struct sim_disk *disk, bool power);
void sim_disk_copy(const struct sim_disk *from, struct sim_disk *to);
const char *sim_disk_folder(const struct sim_disk *disk);

// F11: below its watermark, or (`full`) to the ballast: nothing is opened, and when it is full nothing is written
// before the ballast is given back.
void sim_disk_set_low(struct sim_disk *disk, bool low, bool full);

size_t sim_disk_unsynced(const struct sim_disk *disk); // changes that the power could still take

// --- a look at what is on it now ---
int64_t sim_disk_asked_ns(const struct sim_disk *disk); // when the newest commit began, which may have stalled
size_t sim_disk_count(const struct sim_disk *disk, int family);
const struct sim_entry *sim_disk_entry(const struct sim_disk *disk, int family, size_t at);
const struct sim_entry *sim_disk_find(const struct sim_disk *disk, int family, const void *key, size_t key_size);
// Changes one bit of a value: what a reader must notice.
void sim_disk_flip(struct sim_disk *disk, int family, size_t at, size_t bit);
// F9: what was meant for `from` is at `to` as well; what was written at `at` is not there.
void sim_disk_misdirect(struct sim_disk *disk, int family, size_t from, size_t to);
void sim_disk_lose(struct sim_disk *disk, int family, size_t at);
