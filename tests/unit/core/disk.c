// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/core/disk.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"

struct record {
	char *key;
	unsigned slot;
	struct berth_buf value;
};

struct records {
	struct record *items;
	size_t count;
};

struct test_disk {
	struct records whole, pending;
	uint64_t marker;
	struct berth_buf *log;
	size_t log_count;
};

struct test_disk *test_disk_new(void)
{
	return berth_alloc(sizeof(struct test_disk));
}

static void clear(struct records *records)
{
	for (size_t i = 0; i < records->count; i++) {
		free(records->items[i].key);
		berth_buf_free(&records->items[i].value);
	}
	free(records->items);
	*records = (struct records){0};
}

void test_disk_free(struct test_disk *disk)
{
	clear(&disk->whole);
	clear(&disk->pending);
	for (size_t i = 0; i < disk->log_count; i++) {
		berth_buf_free(&disk->log[i]);
	}
	free(disk->log);
	free(disk);
}

void test_disk_append(struct test_disk *disk, const void *packed, size_t size)
{
	disk->log = berth_realloc_array(disk->log, disk->log_count + 1, sizeof *disk->log);
	disk->log[disk->log_count] = (struct berth_buf){0};
	berth_buf_add(&disk->log[disk->log_count++], packed, size);
}

struct test_disk *test_disk_backup(const struct test_disk *disk, uint64_t size)
{
	struct test_disk *copy = test_disk_new();
	for (uint64_t i = 0; i < size; i++) {
		test_disk_append(copy, disk->log[i].data, disk->log[i].size);
	}
	return copy;
}

static struct record *find(const struct records *records, const char *key)
{
	for (size_t i = 0; i < records->count; i++) {
		if (strcmp(records->items[i].key, key) == 0) {
			return &records->items[i];
		}
	}
	return NULL;
}

static void put(struct records *records, const char *key, unsigned slot, const void *value, size_t size)
{
	struct record *record = find(records, key);
	if (!record) {
		records->items = berth_realloc_array(records->items, records->count + 1, sizeof *records->items);
		record = &records->items[records->count++];
		*record = (struct record){.key = berth_strdup(key)};
	}
	record->slot = slot;
	berth_buf_reset(&record->value);
	berth_buf_add(&record->value, value, size);
}

static void take(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct test_disk *disk = context;
	const struct record *whole = find(&disk->whole, key);
	assert_null(find(&disk->pending, key));     // a record has its turn once in a checkpoint
	assert_true(!whole || whole->slot != slot); // and leaves the one before it alone
	put(&disk->pending, key, slot, value, size);
}

void test_disk_write(struct test_disk *disk, struct berth_core *core, size_t most)
{
	berth_core_checkpoint_begin(core);
	uint64_t marker = berth_core_checkpoint_take(core, most, take, disk);
	if (marker) {
		for (size_t i = 0; i < disk->pending.count; i++) {
			const struct record *record = &disk->pending.items[i];
			put(&disk->whole, record->key, record->slot, record->value.data, record->value.size);
		}
		clear(&disk->pending);
		disk->marker = marker;
		berth_core_checkpoint_end(core);
	}
}

void test_disk_crash(struct test_disk *disk)
{
	clear(&disk->pending);
}

static bool scan(
	void *context, const char *prefix, berth_core_record_visit *visit, void *visitor, struct berth_error *err)
{
	(void)err;
	struct test_disk *disk = context;
	for (size_t i = 0; i < disk->whole.count; i++) {
		const struct record *record = &disk->whole.items[i];
		if (strncmp(record->key, prefix, strlen(prefix)) == 0 &&
			!visit(visitor, record->key, record->slot, record->value.data, record->value.size)) {
			break;
		}
	}
	return true;
}

static Berth__Store__V1__Event *event_at(struct test_disk *disk, uint64_t sequence)
{
	struct berth_error err;
	const struct berth_buf *packed = &disk->log[sequence - 1];
	Berth__Store__V1__Event *event =
		berth_proto_unpack(&berth__store__v1__event__descriptor, packed->data, packed->size, "event", &err);
	assert_ok(event != NULL, err);
	return event;
}

static Berth__V1__JobSpec *spec_at(void *context, uint64_t sequence, struct berth_error *err)
{
	(void)err;
	Berth__Store__V1__Event *event = event_at(context, sequence);
	Berth__V1__JobSpec *spec = BERTH_STEAL(event->job_submitted->spec);
	berth_proto_free(event);
	return spec;
}

struct berth_core *test_disk_recover(struct test_disk *disk, const struct berth_core_config *config)
{
	struct berth_core *core = berth_core_new(config);
	struct berth_error err = {0};
	const struct berth_core_records records = {.scan = scan, .spec = spec_at, .context = disk};
	assert_ok(berth_core_load(core, &records, &err), err);
	for (uint64_t sequence = disk->marker + 1; sequence <= disk->log_count; sequence++) {
		BERTH_AUTO(berth_proto_cleanup) Berth__Store__V1__Event *event = event_at(disk, sequence);
		assert_ok(berth_core_apply(core, event, &err), err);
	}
	return core;
}

const void *test_disk_record(const struct test_disk *disk, const char *key, size_t *size)
{
	const struct record *record = find(&disk->whole, key);
	*size = record ? record->value.size : 0;
	return record ? record->value.data : NULL;
}

const struct berth_buf *test_disk_event(const struct test_disk *disk, uint64_t sequence)
{
	assert_true(sequence >= 1 && sequence <= disk->log_count);
	return &disk->log[sequence - 1];
}

uint64_t test_disk_last(const struct test_disk *disk)
{
	return disk->log_count;
}

uint64_t test_disk_marker(const struct test_disk *disk)
{
	return disk->marker;
}
