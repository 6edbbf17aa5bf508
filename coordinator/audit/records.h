// SPDX-License-Identifier: Apache-2.0
// Inside coordinator/audit only.
#pragma once

#include "coordinator/core/core.h"
#include "coordinator/ledger/ledger.h"

// The core is as of the ledger's marker, replayed from the first event: its records are those that are stored, all of
// them and no others. *count tells how many. CORRUPT names the record.
bool audit_records(struct berth_core *core, struct berth_ledger *ledger, size_t *count, struct berth_error *err);
