// SPDX-License-Identifier: Apache-2.0
// What an audit of a stopped coordinator's ledger takes, and every way in which one is refused.
#include "coordinator/audit/audit.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/store/store.h"
#include "tests/support/test.h"
#include "tests/unit/audit/history.h"

#define FAMILY_ROW    5
#define FLIPPED_MOST  96 // bytes of an event that is flipped all through
#define FLIPPED_LEAST 3  // such events

struct fixture {
	struct history *history;
	char *folder;
};

static int set_up(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	fixture->history = history_new();
	fixture->folder = berth_test_folder();
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	history_free(fixture->history);
	free(fixture->folder);
	free(fixture);
	return 0;
}

static void assert_sound(const char *folder, struct berth_audit *audit)
{
	struct berth_error err;
	struct berth_core *core = berth_audit_ledger(folder, audit, &err);
	assert_ok(core, err);
	berth_core_free(core);
}

static void assert_refused(const char *folder, enum berth_error_code code, const char *part)
{
	struct berth_audit audit;
	struct berth_error err;
	assert_fails(berth_audit_ledger(folder, &audit, &err), err, code, part);
}

static void assert_names(const char *folder, uint64_t sequence)
{
	BERTH_AUTO_FREE char *part = berth_format("event %llu ", (unsigned long long)sequence);
	assert_refused(folder, BERTH_ERROR_CORRUPT, part);
}

static void a_sound_ledger_passes_with_and_without_records(void **state)
{
	struct fixture *fixture = *state;
	struct berth_audit plain, recorded;
	BERTH_AUTO_FREE char *other = berth_test_folder();
	history_write(fixture->history, fixture->folder, 0);
	history_write(fixture->history, other, fixture->history->count - 2);
	assert_sound(fixture->folder, &plain);
	assert_sound(other, &recorded);
	assert_int_equal(plain.head.sequence, fixture->history->count);
	assert_int_equal(plain.incarnation, 1);
	assert_string_equal(plain.fleet, "quay");
	assert_int_equal(plain.records, 0);
	assert_int_equal(recorded.marker, fixture->history->count - 2);
	assert_true(recorded.records > 5);
	assert_memory_equal(&plain.state, &recorded.state, sizeof plain.state);
	assert_memory_equal(&plain.head.root, &recorded.head.root, sizeof plain.head.root);
}

static void an_audit_changes_nothing_that_a_second_one_would_see(void **state)
{
	struct fixture *fixture = *state;
	struct berth_audit first, second;
	history_write(fixture->history, fixture->folder, 0);
	assert_sound(fixture->folder, &first);
	assert_sound(fixture->folder, &second);
	assert_memory_equal(&first, &second, sizeof first);
}

static void a_folder_without_a_ledger_is_named_and_left_alone(void **state)
{
	struct fixture *fixture = *state;
	assert_refused(fixture->folder, BERTH_ERROR_NOT_FOUND, "holds no ledger");
	BERTH_AUTO_FREE char *made = berth_path_join(fixture->folder, "ledger");
	assert_false(berth_file_exists(made));
}

static void a_ledger_that_a_coordinator_holds_is_refused(void **state)
{
	struct fixture *fixture = *state;
	history_write(fixture->history, fixture->folder, 0);
	const struct berth_ledger_options options = {0};
	struct berth_error err;
	struct berth_ledger *held = berth_ledger_open(fixture->folder, &options, &err);
	assert_ok(held, err);
	assert_refused(fixture->folder, BERTH_ERROR_CONFLICT, "in use by another process");
	berth_ledger_close(held);
}

static void a_flipped_bit_anywhere_in_an_event_names_the_event(void **state)
{
	struct fixture *fixture = *state;
	size_t flipped = 0;
	history_write(fixture->history, fixture->folder, 0);
	for (uint64_t sequence = 1; sequence <= fixture->history->count && flipped < FLIPPED_LEAST; sequence++) {
		struct berth_buf *event = &fixture->history->events[sequence - 1];
		if (event->size > FLIPPED_MOST) {
			continue;
		}
		flipped++;
		for (size_t at = 0; at < event->size; at++) {
			event->data[at] ^= (uint8_t)(1u << at % 8);
			history_damage(fixture->folder, sequence, event->data, event->size);
			assert_names(fixture->folder, sequence);
			event->data[at] ^= (uint8_t)(1u << at % 8);
		}
		history_damage(fixture->folder, sequence, event->data, event->size);
	}
	assert_int_equal(flipped, FLIPPED_LEAST);
	struct berth_audit audit;
	assert_sound(fixture->folder, &audit);
}

static void a_removed_event_is_named(void **state)
{
	struct fixture *fixture = *state;
	history_write(fixture->history, fixture->folder, fixture->history->count - 1);
	history_damage(fixture->folder, 3, NULL, 0);
	assert_names(fixture->folder, 3);
}

static void a_swapped_pair_names_the_first_of_it(void **state)
{
	struct fixture *fixture = *state;
	const struct berth_buf *events = fixture->history->events;
	history_write(fixture->history, fixture->folder, 0);
	history_damage(fixture->folder, 5, events[5].data, events[5].size);
	history_damage(fixture->folder, 6, events[4].data, events[4].size);
	assert_names(fixture->folder, 5);
}

static void a_truncated_tail_names_its_first_event(void **state)
{
	struct fixture *fixture = *state;
	uint64_t last = fixture->history->count;
	history_write(fixture->history, fixture->folder, 0);
	for (uint64_t sequence = last - 2; sequence <= last; sequence++) {
		history_damage(fixture->folder, sequence, NULL, 0);
	}
	assert_names(fixture->folder, last - 2);
}

// --- trees that are whole, over events that no coordinator decided ---
static void a_false_charge_under_a_whole_tree_is_refused_by_replay(void **state)
{
	struct fixture *fixture = *state;
	uint64_t sequence = history_find(fixture->history, BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED);
	for (int64_t step = -10; step <= 10; step += 20) {
		BERTH_AUTO_FREE char *folder = berth_test_folder();
		Berth__Store__V1__Event *event = history_get(fixture->history, sequence);
		event->budget_ended->ending->charged_nano_usd += step;
		history_put(fixture->history, sequence, event);
		history_write(fixture->history, folder, 0);
		BERTH_AUTO_FREE char *part = berth_format("replay of event %llu", (unsigned long long)sequence);
		assert_refused(folder, BERTH_ERROR_CORRUPT, part);
		event = history_get(fixture->history, sequence);
		event->budget_ended->ending->charged_nano_usd -= step;
		history_put(fixture->history, sequence, event);
	}
}

static void a_reservation_beyond_its_tariff_is_refused_by_replay(void **state)
{
	struct fixture *fixture = *state;
	uint64_t sequence = history_find(fixture->history, BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED);
	Berth__Store__V1__Event *event = history_get(fixture->history, sequence);
	assert_int_equal(event->trial_assigned->n_reservations, 1);
	event->trial_assigned->reservations[0]->max_nano_usd += 1;
	history_put(fixture->history, sequence, event);
	history_write(fixture->history, fixture->folder, 0);
	BERTH_AUTO_FREE char *part = berth_format("replay of event %llu", (unsigned long long)sequence);
	assert_refused(fixture->folder, BERTH_ERROR_CORRUPT, part);
}

static void an_event_that_is_left_out_under_a_whole_tree_is_refused_by_replay(void **state)
{
	struct fixture *fixture = *state;
	struct history *history = fixture->history;
	uint64_t sequence = history_find(history, BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED);
	struct berth_buf left_out = history->events[sequence - 1];
	memmove(&history->events[sequence - 1], &history->events[sequence],
		(history->count - sequence) * sizeof *history->events);
	history->count--;
	history_write(history, fixture->folder, 0);
	BERTH_AUTO_FREE char *part = berth_format("replay of event %llu", (unsigned long long)sequence);
	assert_refused(fixture->folder, BERTH_ERROR_CORRUPT, part);
	berth_buf_free(&left_out);
}

// --- records ---
struct find {
	struct berth_buf key, value;
};

static bool take_first(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct find *find = context;
	berth_buf_add(&find->key, key, key_size);
	berth_buf_add(&find->value, value, value_size);
	return false;
}

// Changes the last byte of the first record of this prefix; `remove` takes it away.
static void damage_record(const char *folder, const char *prefix, bool remove)
{
	static const char *const families[] = {"log", "leaf", "tree", "state", "secret", "row", "blob", NULL};
	const struct berth_store_options options = {.families = families};
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "ledger");
	struct berth_error err;
	struct berth_store *store = berth_store_open(path, &options, &err);
	assert_ok(store, err);
	struct find find = {0};
	assert_ok(berth_store_scan(store, FAMILY_ROW, prefix, strlen(prefix), NULL, 0, take_first, &find, &err), err);
	assert_true(find.value.size > 8);
	find.value.data[find.value.size - 1] ^= 1;
	struct berth_store_batch *batch = berth_store_batch_new(store);
	if (remove) {
		berth_store_batch_delete(batch, FAMILY_ROW, find.key.data, find.key.size);
	} else {
		berth_store_batch_put(
			batch, FAMILY_ROW, find.key.data, find.key.size, find.value.data, find.value.size);
	}
	assert_ok(berth_store_write(store, batch, &err), err);
	berth_store_batch_free(batch);
	berth_store_close(store);
	berth_buf_free(&find.key);
	berth_buf_free(&find.value);
}

static void a_changed_record_is_named_even_of_what_has_ended(void **state)
{
	struct fixture *fixture = *state;
	static const char *const PREFIXES[] = {"trial/", "reservation/", "budget/", "job/"};
	for (size_t i = 0; i < BERTH_COUNT(PREFIXES); i++) {
		BERTH_AUTO_FREE char *folder = berth_test_folder();
		BERTH_AUTO_FREE char *part = berth_format("record %s", PREFIXES[i]);
		history_write(fixture->history, folder, fixture->history->count);
		damage_record(folder, PREFIXES[i], false);
		assert_refused(folder, BERTH_ERROR_CORRUPT, part);
	}
}

static void a_removed_record_is_named(void **state)
{
	struct fixture *fixture = *state;
	history_write(fixture->history, fixture->folder, fixture->history->count);
	damage_record(fixture->folder, "trial/", true);
	assert_refused(fixture->folder, BERTH_ERROR_CORRUPT, "is missing");
}

#define AUDITED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	AUDITED(a_sound_ledger_passes_with_and_without_records),
	AUDITED(an_audit_changes_nothing_that_a_second_one_would_see),
	AUDITED(a_folder_without_a_ledger_is_named_and_left_alone),
	AUDITED(a_ledger_that_a_coordinator_holds_is_refused),
	AUDITED(a_flipped_bit_anywhere_in_an_event_names_the_event),
	AUDITED(a_removed_event_is_named),
	AUDITED(a_swapped_pair_names_the_first_of_it),
	AUDITED(a_truncated_tail_names_its_first_event),
	AUDITED(a_false_charge_under_a_whole_tree_is_refused_by_replay),
	AUDITED(a_reservation_beyond_its_tariff_is_refused_by_replay),
	AUDITED(an_event_that_is_left_out_under_a_whole_tree_is_refused_by_replay),
	AUDITED(a_changed_record_is_named_even_of_what_has_ended),
	AUDITED(a_removed_record_is_named),
};
BERTH_TEST_MAIN(tests)
