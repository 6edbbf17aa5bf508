// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ledger/ledger_support.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/support/test.h"

size_t event_bytes(uint64_t sequence, uint8_t event[static EVENT_SIZE_MAX])
{
	size_t size = (size_t)(8 + sequence * 7 % (EVENT_SIZE_MAX - 8));
	memset(event, (int)(sequence % 251), size);
	memcpy(event, &sequence, sizeof sequence);
	return size;
}

struct berth_ledger *must_open_ledger(const char *folder)
{
	const struct berth_ledger_options options = {0};
	struct berth_error err;
	struct berth_ledger *ledger = berth_ledger_open(folder, &options, &err);
	assert_ok(ledger, err);
	return ledger;
}

void append_events(struct berth_ledger *ledger, uint64_t count)
{
	struct berth_error err;
	for (uint64_t i = 0; i < count; i++) {
		uint8_t event[EVENT_SIZE_MAX];
		uint64_t sequence = berth_ledger_next(ledger);
		size_t size = event_bytes(sequence, event);
		assert_ok(berth_ledger_append(ledger, sequence, event, size, &err), err);
	}
}

void commit_events(struct berth_ledger *ledger, uint64_t count, uint64_t batch)
{
	struct berth_error err;
	for (uint64_t done = 0; done < count; done += batch) {
		append_events(ledger, count - done < batch ? count - done : batch);
		assert_ok(berth_ledger_commit(ledger, &err), err);
	}
}

static bool same_event(void *context, uint64_t sequence, const void *event, size_t size, struct berth_error *err)
{
	(void)err;
	uint64_t *next = context;
	uint8_t wanted[EVENT_SIZE_MAX];
	assert_int_equal(sequence, *next);
	assert_int_equal(size, event_bytes(sequence, wanted));
	assert_memory_equal(event, wanted, size);
	++*next;
	return true;
}

void assert_events(struct berth_ledger *ledger, uint64_t last)
{
	uint64_t next = 1;
	struct berth_error err;
	assert_ok(berth_ledger_replay(ledger, 1, same_event, &next, &err), err);
	assert_int_equal(next, last + 1);
	assert_int_equal(berth_ledger_head(ledger).sequence, last);
}

int ledger_set_up(void **state)
{
	struct ledger_fixture *fixture = berth_alloc(sizeof *fixture);
	fixture->folder = berth_test_folder();
	fixture->ledger = must_open_ledger(fixture->folder);
	*state = fixture;
	return 0;
}

int ledger_tear_down(void **state)
{
	struct ledger_fixture *fixture = *state;
	berth_ledger_close(fixture->ledger);
	free(fixture->folder);
	free(fixture);
	return 0;
}

void ledger_reopen(struct ledger_fixture *fixture)
{
	berth_ledger_close(fixture->ledger);
	fixture->ledger = must_open_ledger(fixture->folder);
}
