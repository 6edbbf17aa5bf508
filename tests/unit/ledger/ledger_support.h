// SPDX-License-Identifier: Apache-2.0
// Ledgers of events whose bytes follow from their sequence.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "coordinator/ledger/ledger.h"

#define EVENT_SIZE_MAX 300

size_t event_bytes(uint64_t sequence, uint8_t event[static EVENT_SIZE_MAX]);
struct berth_ledger *must_open_ledger(const char *folder);
void append_events(struct berth_ledger *ledger, uint64_t count); // to the open batch
void commit_events(struct berth_ledger *ledger, uint64_t count, uint64_t batch);
// Asserts that events 1 to `last` are there and as they were written.
void assert_events(struct berth_ledger *ledger, uint64_t last);

// A ledger in a folder of its own for each test.
struct ledger_fixture {
	char *folder;
	struct berth_ledger *ledger;
};
int ledger_set_up(void **state);
int ledger_tear_down(void **state);
void ledger_reopen(struct ledger_fixture *fixture);
