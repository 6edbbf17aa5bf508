// SPDX-License-Identifier: Apache-2.0
// A proof that an event is in a ledger, as a JSON document that holds by itself (docs/LEDGER.md). Pure.
#pragma once

#include "berth/v1/ledger.pb-c.h"
#include "common/codec/json.h"
#include "common/evidence/head.h"

#define CLI_PROOF_SIZE_MAX ((size_t)96 * 1024 * 1024)

struct cli_proof { // what a document that holds says
	char fleet[64];
	uint64_t sequence, size;
	char key_id[BERTH_DIGEST_HEX_SIZE];
	char kind[64]; // of the event, as event.proto names it
};

// A head that is signed with this key: CORRUPT when it is not.
bool cli_head_check(const Berth__V1__LedgerHead *head, const char *fleet, const void *key_der, size_t key_size,
	struct berth_error *err);
// A head as {"leaf", "root", "signature", "size"}, and back: the caller frees it; INVALID when a member is missing.
berth_json *cli_head_json(const Berth__V1__LedgerHead *head);
Berth__V1__LedgerHead *cli_head_of_json(const berth_json *object, struct berth_error *err);
berth_json *cli_proof_json(const Berth__V1__ProveInclusionResponse *response, struct berth_error *err);
// INVALID: it is no such document. CORRUPT: it proves nothing under this key, and why.
bool cli_proof_check(const berth_json *document, const void *key_der, size_t key_size, struct cli_proof *proof,
	struct berth_error *err);
