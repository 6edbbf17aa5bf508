// SPDX-License-Identifier: Apache-2.0
// What an audited ledger holds, for a reader: jobs, leases, budgets.
#pragma once

#include "coordinator/audit/audit.h"
#include "coordinator/cli/output.h"

// Takes nothing; prints tables, or one JSON object that starts with `head`, which it takes.
void cli_ledger_summary(struct cli *cli, const struct berth_core *core, berth_json *head);
