// SPDX-License-Identifier: Apache-2.0
// Between ledger and core: stored events and records as the core takes them.
#pragma once

#include "coordinator/core/core.h"
#include "coordinator/ledger/ledger.h"

// A new core as of the ledger's last checkpoint and the log after it.
bool berth_recover(struct berth_core *core, struct berth_ledger *ledger, struct berth_error *err);
// Applies the events from `from` to `to`, both included. An error names the event.
bool berth_recover_events(
	struct berth_core *core, struct berth_ledger *ledger, uint64_t from, uint64_t to, struct berth_error *err);
// A committed event; the caller frees it with berth_proto_free.
Berth__Store__V1__Event *berth_recover_event(struct berth_ledger *ledger, uint64_t sequence, struct berth_error *err);
// The whole spec of the job that event `sequence` submitted; the caller's.
Berth__V1__JobSpec *berth_recover_spec(struct berth_ledger *ledger, uint64_t sequence, struct berth_error *err);
