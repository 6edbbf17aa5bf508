// SPDX-License-Identifier: Apache-2.0
// The head of a backup, FOLDER/head.json: signed by the ledger's key, so that who restores knows what it is.
#pragma once

#include "berth/v1/fleet.pb-c.h"
#include "common/base/digest.h"
#include "coordinator/cli/ledger_audit.h"

struct cli_backup_head {
	char fleet[64];
	uint64_t size; // 0: there is no backup in the folder
	struct berth_digest leaf, root;
};

bool cli_backup_head_write(
	const char *folder, const char *fleet, const Berth__V1__LedgerHead *head, struct berth_error *err);
// CORRUPT when it is not signed with the key.
bool cli_backup_head_read(
	const char *folder, const struct cli_key *key, struct cli_backup_head *head, struct berth_error *err);
