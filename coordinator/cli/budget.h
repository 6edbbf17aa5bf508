// SPDX-License-Identifier: Apache-2.0
// What the commands about budgets share.
#pragma once

#include "berth/v1/budget.pb-c.h"
#include "coordinator/cli/link.h"

#define CLI_BUDGETS (&berth__v1__budget_service__descriptor)

// The answer with its budget; the caller frees it.
Berth__V1__GetBudgetResponse *cli_get_budget(struct cli_link *link, const char *name, struct berth_error *err);
// The budget and its phases, as the command's output wants them; the exit code 0.
int cli_budget_print(struct cli *cli, const Berth__V1__Budget *budget);
