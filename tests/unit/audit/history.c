// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/audit/history.h"

#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/store/store.h"
#include "coordinator/audit/recover.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define HOLD_MS     5000
#define FAMILY_LOG  0
#define PAID_SECOND 61

struct history *history_new(void)
{
	struct history *history = berth_alloc(sizeof *history);
	struct test_fleet *fleet = test_fleet_new(HOLD_MS);
	test_enroll(fleet, "north");
	test_enroll(fleet, "south");
	uint64_t session = test_join(fleet, "north", BOOT_A, 2);
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	history->paid_job = (char *)test_submit_paid(fleet, "paid", 1, "b");
	test_place(fleet);
	history->lease = berth_strdup(test_lease(fleet, history->paid_job, 0));
	test_advance_ms(fleet, 100000);
	fleet->elapsed_ns = PAID_SECOND * BERTH_NS_PER_S;
	uint64_t next = test_live_and_retire(fleet, "north", session, BOOT_A, 1, history->lease);
	test_report_done(fleet, "north", session, BOOT_A, next, test_key(history->paid_job, 0, 1),
		BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	test_beat(fleet, "north", session, NULL, 0);
	BERTH_AUTO_FREE const char *running = test_submit(fleet, "running", 3, 1);
	test_place(fleet);
	history->count = (size_t)test_disk_last(fleet->disk);
	history->events = berth_alloc(history->count * sizeof *history->events);
	for (size_t i = 0; i < history->count; i++) {
		const struct berth_buf *event = test_disk_event(fleet->disk, i + 1);
		berth_buf_add(&history->events[i], event->data, event->size);
	}
	test_fleet_free(fleet);
	return history;
}

void history_free(struct history *history)
{
	for (size_t i = 0; i < history->count; i++) {
		berth_buf_free(&history->events[i]);
	}
	free(history->events);
	free(history->paid_job);
	free(history->lease);
	free(history);
}

static void put_row(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct berth_ledger *ledger = context;
	berth_ledger_put_row(ledger, berth_ledger_head(ledger).sequence, key, slot, value, size);
}

static void write_records(struct berth_ledger *ledger)
{
	const struct berth_core_config config = {.fleet = "quay", .hold_ms = HOLD_MS};
	struct berth_core *core = berth_core_new(&config);
	struct berth_error err;
	assert_ok(berth_recover(core, ledger, &err), err);
	assert_true(berth_core_checkpoint_begin(core));
	uint64_t marker = berth_core_checkpoint_take(core, SIZE_MAX, put_row, ledger);
	berth_ledger_put_marker(ledger, marker);
	assert_ok(berth_ledger_commit(ledger, &err), err);
	berth_core_free(core);
}

void history_write(const struct history *history, const char *folder, uint64_t checkpoint)
{
	const struct berth_ledger_options options = {0};
	struct berth_error err;
	struct berth_ledger *ledger = berth_ledger_open(folder, &options, &err);
	assert_ok(ledger, err);
	for (size_t i = 0; i < history->count; i++) {
		assert_ok(berth_ledger_append(ledger, i + 1, history->events[i].data, history->events[i].size, &err),
			err);
		assert_ok(berth_ledger_commit(ledger, &err), err);
		if (i + 1 == checkpoint) {
			write_records(ledger);
		}
	}
	berth_ledger_close(ledger);
}

Berth__Store__V1__Event *history_get(const struct history *history, uint64_t sequence)
{
	struct berth_error err;
	const struct berth_buf *packed = &history->events[sequence - 1];
	Berth__Store__V1__Event *event =
		berth_proto_unpack(&berth__store__v1__event__descriptor, packed->data, packed->size, "event", &err);
	assert_ok(event, err);
	return event;
}

uint64_t history_find(const struct history *history, Berth__Store__V1__Event__BodyCase body)
{
	for (uint64_t sequence = 1; sequence <= history->count; sequence++) {
		BERTH_AUTO(berth_proto_cleanup) Berth__Store__V1__Event *event = history_get(history, sequence);
		if (event->body_case == body) {
			return sequence;
		}
	}
	fail_msg("no event of kind %d", (int)body);
	return 0;
}

void history_put(struct history *history, uint64_t sequence, Berth__Store__V1__Event *event)
{
	berth_buf_reset(&history->events[sequence - 1]);
	berth_proto_pack(event, &history->events[sequence - 1]);
	berth_proto_free(event);
}

void history_damage(const char *folder, uint64_t sequence, const void *value, size_t size)
{
	static const char *const families[] = {"log", "leaf", "tree", "state", "secret", "row", "blob", NULL};
	const struct berth_store_options options = {.families = families};
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "ledger");
	struct berth_error err;
	struct berth_store *store = berth_store_open(path, &options, &err);
	assert_ok(store, err);
	struct berth_store_batch *batch = berth_store_batch_new(store);
	uint64_t key = __builtin_bswap64(sequence);
	if (value) {
		berth_store_batch_put(batch, FAMILY_LOG, &key, sizeof key, value, size);
	} else {
		berth_store_batch_delete(batch, FAMILY_LOG, &key, sizeof key);
	}
	assert_ok(berth_store_write(store, batch, &err), err);
	berth_store_batch_free(batch);
	berth_store_close(store);
}
