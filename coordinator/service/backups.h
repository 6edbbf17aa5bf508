// SPDX-License-Identifier: Apache-2.0
// The backup that is under way: a copy of the ledger below DATA/backup, which a client reads file by file. Any thread.
#pragma once

#include "berth/v1/blob.pb-c.h"
#include "berth/v1/ledger.pb-c.h"
#include "coordinator/service/daemon.h"

struct berth_backups;

// Removes what an earlier life left.
struct berth_backups *berth_backups_new(const char *data_folder, struct berth_error *err);
void berth_backups_free(struct berth_backups *backups); // NULL is allowed; removes the copy

// Handlers of LedgerService.
void berth_backup_begin(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context);
void berth_backup_finish(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context);
// A descriptor of the file at its offset, or -1.
int berth_backup_open(
	struct berth_backups *backups, const Berth__V1__ReadBackupRequest *request, struct berth_error *err);
