// SPDX-License-Identifier: Apache-2.0
// What a ledger keeps of a core, in memory: the log, and the records of the newest whole checkpoint.
#pragma once

#include "common/base/buf.h"
#include "coordinator/core/core.h"

struct test_disk;

struct test_disk *test_disk_new(void);
void test_disk_free(struct test_disk *disk);
// A copy of the first `size` events, without records.
struct test_disk *test_disk_backup(const struct test_disk *disk, uint64_t size);
void test_disk_append(struct test_disk *disk, const void *packed, size_t size);
// Goes on with the checkpoint by at most `most` records, beginning one when none is under way.
void test_disk_write(struct test_disk *disk, struct berth_core *core, size_t most);
void test_disk_crash(struct test_disk *disk); // the checkpoint under way will never be whole
// A core from the records and the log after them; fails the test when it cannot be.
struct berth_core *test_disk_recover(struct test_disk *disk, const struct berth_core_config *config);
// A record of the newest whole checkpoint, NULL without one.
const void *test_disk_record(const struct test_disk *disk, const char *key, size_t *size);
// The packed event of this sequence; the disk's.
const struct berth_buf *test_disk_event(const struct test_disk *disk, uint64_t sequence);
uint64_t test_disk_last(const struct test_disk *disk); // event of the log
uint64_t test_disk_marker(const struct test_disk *disk);
