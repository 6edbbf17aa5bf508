// SPDX-License-Identifier: Apache-2.0
// The signed statement that a fleet's ledger goes on from a backup. What is signed is one line of canonical JSON,
//   {"fleet":"NAME","incarnation":N,"leaf":"sha256:HEX","root":"sha256:HEX","size":N}
// in the envelope of a head (head.h), with a type of its own. Pure.
#pragma once

#include "common/evidence/head.h"

#define BERTH_RESTORE_TYPE "application/vnd.berth.ledger-restore+json"

struct berth_restore {
	struct berth_head head; // of the backup
	uint64_t incarnation;   // the first that goes on from it
};

void berth_restore_text(const struct berth_restore *restore, struct berth_buf *text);
bool berth_restore_sign(const struct berth_signing_key *key, const struct berth_restore *restore,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err);
// CORRUPT when the signature is not that of this restore under this key (SubjectPublicKeyInfo).
bool berth_restore_verify(const void *public_der, size_t public_size, const struct berth_restore *restore,
	const void *signature, size_t signature_size, struct berth_error *err);
