// SPDX-License-Identifier: Apache-2.0
// State records, written behind the log. Each has two places; the newest that is not beyond the marker counts, so a
// checkpoint that a crash cut short is as if it had never begun.
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/ledger/ledger_internal.h"

#define MARKER_KEY  "ledger/marker"
#define STAMP_SIZE  LEDGER_KEY_SIZE // before the record: the sequence of its checkpoint
#define SUFFIX_SIZE 2               // after the key: a zero byte and the place

static void add_place(struct berth_buf *buf, const char *key, unsigned slot)
{
	berth_buf_add(buf, key, strlen(key) + 1);
	berth_buf_add_byte(buf, (uint8_t)slot);
}

void berth_ledger_put_row(struct berth_ledger *ledger, uint64_t checkpoint, const char *key, unsigned slot,
	const void *value, size_t size)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf place = {0}, stamped = {0};
	add_place(&place, key, slot);
	uint8_t stamp[STAMP_SIZE];
	ledger_key(checkpoint, stamp);
	berth_buf_add(&stamped, stamp, sizeof stamp);
	berth_buf_add(&stamped, value, size);
	berth_store_batch_put(ledger->batch, LEDGER_ROW, place.data, place.size, stamped.data, stamped.size);
}

void berth_ledger_put_marker(struct berth_ledger *ledger, uint64_t checkpoint)
{
	uint8_t value[LEDGER_KEY_SIZE];
	ledger_key(checkpoint, value);
	berth_store_batch_put(ledger->batch, LEDGER_STATE, MARKER_KEY, strlen(MARKER_KEY), value, sizeof value);
	ledger->pending_marker = checkpoint;
}

bool ledger_read_marker(struct berth_ledger *ledger, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	struct berth_error missing;
	if (!berth_store_get(ledger->store, LEDGER_STATE, MARKER_KEY, strlen(MARKER_KEY), &value, &missing)) {
		return missing.code == BERTH_ERROR_NOT_FOUND || berth_fail(err, missing.code, "%s", missing.message);
	}
	if (value.size != LEDGER_KEY_SIZE) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "the stored marker has %zu bytes", value.size);
	}
	ledger->marker = ledger_key_sequence(value.data);
	return true;
}

uint64_t berth_ledger_marker(struct berth_ledger *ledger)
{
	pthread_mutex_lock(&ledger->lock);
	uint64_t marker = ledger->marker;
	pthread_mutex_unlock(&ledger->lock);
	return marker;
}

// --- reading ---
struct reading {
	uint64_t marker;
	berth_ledger_row_visit *visit;
	void *context;
	struct berth_buf key, value; // the best place of the record that is being read
	unsigned slot;
	uint64_t stamp;
	bool over;
};

static void hand_over(struct reading *reading)
{
	if (!reading->over && reading->value.size >= STAMP_SIZE) {
		reading->over = !reading->visit(reading->context, (const char *)reading->key.data, reading->slot,
			reading->value.data + STAMP_SIZE, reading->value.size - STAMP_SIZE);
	}
	berth_buf_reset(&reading->key);
	berth_buf_reset(&reading->value);
	reading->stamp = 0;
}

static bool is_same_record(const struct reading *reading, const uint8_t *key, size_t key_size)
{
	size_t size = key_size - 1;
	return reading->key.size == size && memcmp(reading->key.data, key, size) == 0;
}

static bool take_place(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct reading *reading = context;
	if (key_size < SUFFIX_SIZE || value_size < STAMP_SIZE) {
		return true; // not one of ours
	}
	if (!is_same_record(reading, key, key_size)) {
		hand_over(reading);
	}
	uint64_t stamp = ledger_key_sequence(value);
	if (!reading->over && stamp <= reading->marker && stamp > reading->stamp) {
		berth_buf_reset(&reading->key);
		berth_buf_add(&reading->key, key, key_size - 1);
		berth_buf_reset(&reading->value);
		berth_buf_add(&reading->value, value, value_size);
		reading->slot = ((const uint8_t *)key)[key_size - 1];
		reading->stamp = stamp;
	}
	return !reading->over;
}

bool berth_ledger_rows(struct berth_ledger *ledger, const char *prefix, const char *after,
	berth_ledger_row_visit *visit, void *context, struct berth_error *err)
{
	struct reading reading = {.marker = berth_ledger_marker(ledger), .visit = visit, .context = context};
	BERTH_AUTO(berth_buf_free) struct berth_buf from = {0};
	if (after) {
		add_place(&from, after, UINT8_MAX);
	}
	bool ok = berth_store_scan(
		ledger->store, LEDGER_ROW, prefix, strlen(prefix), from.data, from.size, take_place, &reading, err);
	if (ok) {
		hand_over(&reading);
	}
	berth_buf_free(&reading.key);
	berth_buf_free(&reading.value);
	return ok;
}

bool berth_ledger_row(struct berth_ledger *ledger, const char *key, struct berth_buf *value, struct berth_error *err)
{
	uint64_t marker = berth_ledger_marker(ledger), best = 0;
	for (unsigned slot = 0; slot < 2; slot++) {
		BERTH_AUTO(berth_buf_free) struct berth_buf place = {0}, stamped = {0};
		struct berth_error failure;
		add_place(&place, key, slot);
		if (!berth_store_get(ledger->store, LEDGER_ROW, place.data, place.size, &stamped, &failure)) {
			if (failure.code != BERTH_ERROR_NOT_FOUND) {
				return berth_fail(err, failure.code, "%s", failure.message);
			}
			continue;
		}
		uint64_t stamp = stamped.size >= STAMP_SIZE ? ledger_key_sequence(stamped.data) : 0;
		if (stamp > best && stamp <= marker) {
			best = stamp;
			berth_buf_reset(value);
			berth_buf_add(value, stamped.data + STAMP_SIZE, stamped.size - STAMP_SIZE);
		}
	}
	return best || berth_fail(err, BERTH_ERROR_NOT_FOUND, "no record is named %s", key);
}
