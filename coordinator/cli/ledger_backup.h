// SPDX-License-Identifier: Apache-2.0
// A backup's folder: blobs, the ledger, and head.json, the ledger's head signed by its key, so that who restores knows
// what it is. A new copy takes the ledger's place by two renames, between which the one before it is the backup.
#pragma once

#include "berth/v1/fleet.pb-c.h"
#include "common/base/digest.h"
#include "coordinator/cli/ledger_audit.h"

#define CLI_BACKUP_OLD "old" // the ledger that gives way

struct cli_backup_head {
	char fleet[64];
	uint64_t size; // 0: there is no backup in the folder
	struct berth_digest leaf, root;
};

// Where the ledger of the backup is; the caller frees.
char *cli_backup_ledger(const char *folder);

bool cli_backup_head_write(
	const char *folder, const char *fleet, const Berth__V1__LedgerHead *head, struct berth_error *err);
// CORRUPT when it is not signed with the key.
bool cli_backup_head_read(
	const char *folder, const struct cli_key *key, struct cli_backup_head *head, struct berth_error *err);
