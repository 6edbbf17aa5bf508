// SPDX-License-Identifier: Apache-2.0
// The ledger's heads as they leave the process: signed, at most one signature for each; and proofs between them. Any
// thread.
#pragma once

#include "berth/v1/fleet.pb-c.h"
#include "common/evidence/head.h"
#include "common/evidence/merkle.h"
#include "coordinator/core/core.h"
#include "coordinator/ledger/ledger.h"

struct berth_heads;

// Takes the private key from the file, or makes it. key_file NULL: heads are not signed.
struct berth_heads *berth_heads_new(const char *fleet, const char *key_file, struct berth_error *err);
void berth_heads_free(struct berth_heads *heads); // NULL is allowed
// The public half; empty without a key.
const char *berth_heads_key_pem(const struct berth_heads *heads);
ProtobufCBinaryData berth_heads_key_der(const struct berth_heads *heads);

struct berth_signed_head { // what a message points into
	struct berth_ledger_head head;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
};
void berth_heads_fill(struct berth_heads *heads, const struct berth_ledger_head *head,
	struct berth_signed_head *storage, Berth__V1__LedgerHead *message);

struct berth_signed_restore { // likewise
	Berth__V1__LedgerHead head;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
};
void berth_heads_fill_restore(struct berth_heads *heads, const struct berth_core_restore *restore,
	struct berth_signed_restore *storage, Berth__V1__Restore *message);

// Signs an incarnation, which then points into `signature`.
void berth_heads_sign_incarnation(
	struct berth_heads *heads, Berth__V1__Incarnation *incarnation, uint8_t signature[static BERTH_SIGNATURE_SIZE]);

struct berth_head_proof {
	struct berth_digest hashes[BERTH_MERKLE_LEVELS + 1];
	ProtobufCBinaryData items[BERTH_MERKLE_LEVELS + 1]; // of hashes
	size_t count;
};
bool berth_heads_consistency(struct berth_ledger *ledger, uint64_t first, uint64_t second,
	struct berth_head_proof *proof, struct berth_error *err);
// That event `sequence` is in the tree of `size` events.
bool berth_heads_inclusion(struct berth_ledger *ledger, uint64_t sequence, uint64_t size,
	struct berth_head_proof *proof, struct berth_error *err);
