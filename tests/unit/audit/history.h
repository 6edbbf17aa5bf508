// SPDX-License-Identifier: Apache-2.0
// What a small fleet decided, as packed events, and ledgers made of them: as they were, or as somebody with write
// access would have them.
#pragma once

#include "berth/store/v1/event.pb-c.h"
#include "common/base/buf.h"

struct history {
	struct berth_buf *events; // events[i] has sequence i + 1
	size_t count;
	char *paid_job;
	char *lease; // of its first trial
};

// Two agents; a job that ended, whose lease was paid for and settled; another that has trials running.
struct history *history_new(void);
void history_free(struct history *history);
// Makes FOLDER/ledger, with the records of a checkpoint after event `checkpoint` (0: none).
void history_write(const struct history *history, const char *folder, uint64_t checkpoint);
// The first event of this kind; its sequence.
uint64_t history_find(const struct history *history, Berth__Store__V1__Event__BodyCase body);
// An event to change, and back into its place; takes the event.
Berth__Store__V1__Event *history_get(const struct history *history, uint64_t sequence);
void history_put(struct history *history, uint64_t sequence, Berth__Store__V1__Event *event);
// Changes what is stored under a sequence, as the store has it and nothing else. value NULL: removes it.
void history_damage(const char *folder, uint64_t sequence, const void *value, size_t size);
