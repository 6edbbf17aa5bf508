// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/recorder.h"

#include "common/base/clock.h"

// A start reads the log from the last checkpoint on: this bounds it, and what a checkpoint costs an idle fleet.
#define EVENTS_BETWEEN  20000
#define RECORDS_BETWEEN 20000

static void put(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	struct berth_recorder *recorder = context;
	berth_ledger_put_row(recorder->ledger, recorder->begun_at, key, slot, value, size);
}

void berth_recorder_write(struct berth_recorder *recorder, size_t most)
{
	if (!recorder->busy || recorder->whole) {
		return;
	}
	uint64_t whole = berth_core_checkpoint_take(recorder->core, most, put, recorder);
	if (whole) {
		berth_ledger_put_marker(recorder->ledger, whole);
		recorder->whole = true;
	}
}

static bool is_due(const struct berth_recorder *recorder, uint64_t last, int64_t now_ns)
{
	size_t changed = berth_core_changed(recorder->core);
	return changed && (changed >= RECORDS_BETWEEN || last - recorder->begun_at >= EVENTS_BETWEEN ||
				  now_ns - recorder->begun_ns >= recorder->every_ms * BERTH_NS_PER_MS);
}

void berth_recorder_committed(struct berth_recorder *recorder, int64_t now_ns)
{
	if (recorder->whole) {
		berth_core_checkpoint_end(recorder->core);
		recorder->busy = recorder->whole = false;
	}
	uint64_t last = berth_ledger_head(recorder->ledger).sequence;
	if (!recorder->busy && is_due(recorder, last, now_ns) && berth_core_checkpoint_begin(recorder->core)) {
		recorder->busy = true;
		recorder->begun_at = last;
		recorder->begun_ns = now_ns;
	}
}
