// SPDX-License-Identifier: Apache-2.0
// A ledger held against everything that can be known from itself, offline: the folder of a coordinator that is stopped,
// or a copy of one.
//
// Checked, in this order: the whole log from its first event (coordinator/ledger); that a new core takes every event,
// which asks the rules of leases, trials and budgets again; that the stored records are the ones that this replay
// makes; that what a start recovers from records and log is the state of the replay.
#pragma once

#include "coordinator/core/core.h"
#include "coordinator/ledger/ledger.h"

struct berth_audit {
	struct berth_ledger_head head;
	char fleet[64];
	uint64_t incarnation;
	uint64_t marker; // event of the last whole checkpoint, 0: none
	size_t records;  // of it
	struct berth_digest state;
};

// The replayed state, with everything that has left a running coordinator's memory; the caller frees it. NULL with
// NOT_FOUND: no ledger is there; CONFLICT: a coordinator has it; CORRUPT: names the event or record where it is broken.
struct berth_core *berth_audit_ledger(const char *data_folder, struct berth_audit *audit, struct berth_error *err);
