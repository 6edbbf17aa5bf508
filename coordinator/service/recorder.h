// SPDX-License-Identifier: Apache-2.0
// Writes state records behind the log: a checkpoint after another, each in portions that go with the batches of events,
// or alone when nothing else is to be written. The engine's thread.
#pragma once

#include "coordinator/core/core.h"
#include "coordinator/ledger/ledger.h"

// Records that go with a batch of events (few, since its answers wait for them), and alone.
#define BERTH_RECORDS_BESIDE 32
#define BERTH_RECORDS_ALONE  256

struct berth_recorder {
	struct berth_core *core;
	struct berth_ledger *ledger;
	int64_t every_ms; // the longest that a change waits for a checkpoint to begin
	int64_t begun_ns; // boot clock
	uint64_t begun_at;
	bool busy;  // a checkpoint is under way
	bool whole; // its marker is in the open batch
};

// Before a commit.
void berth_recorder_write(struct berth_recorder *recorder, size_t most);
// After it.
void berth_recorder_committed(struct berth_recorder *recorder, int64_t now_ns);
