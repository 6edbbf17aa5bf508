// SPDX-License-Identifier: Apache-2.0
// What the commands about a running coordinator's ledger share: the key that they trust, and heads that it signed.
#pragma once

#include "berth/v1/ledger.pb-c.h"
#include "coordinator/cli/link.h"

#define CLI_LEDGER (&berth__v1__ledger_service__descriptor)

struct cli_key { // that heads must be signed with
	uint8_t *der;
	size_t size;
};
void cli_key_free(struct cli_key *key); // for BERTH_AUTO
// --key, else ledger.pem of the credentials. NOT_FOUND says where it comes from.
bool cli_trusted_key(const struct cli *cli, struct cli_key *key, struct berth_error *err);
// The coordinator's head, checked; the caller frees it. CORRUPT when it is not signed with the key.
Berth__V1__GetHeadResponse *cli_get_head(struct cli_link *link, const struct cli_key *key, struct berth_error *err);

// ledger_events.c: the newest event of a lease, by its whole id.
bool cli_ledger_find_lease(struct cli_link *link, const char *lease, uint64_t *sequence, struct berth_error *err);

// The head that was kept last is in what the coordinator has now.
int cli_ledger_audit_online(struct cli *cli, struct berth_error *err);
