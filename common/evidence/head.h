// SPDX-License-Identifier: Apache-2.0
// Signed tree heads of a ledger. What is signed is one line of canonical JSON,
//   {"fleet":"NAME","leaf":"sha256:HEX","root":"sha256:HEX","size":N}
// in the same envelope as a trial's statement (sign.h), with a type of its own: neither passes for the other. Pure.
#pragma once

#include "common/base/buf.h"
#include "common/evidence/sign.h"

#define BERTH_HEAD_TYPE "application/vnd.berth.ledger-head+json"

struct berth_head {
	const char *fleet; // a trust domain: nothing in it needs an escape
	uint64_t size;     // events of the tree, which is the sequence of the last
	struct berth_digest leaf, root;
};

void berth_head_text(const struct berth_head *head, struct berth_buf *text);
bool berth_head_sign(const struct berth_signing_key *key, const struct berth_head *head,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err);
// CORRUPT when the signature is not that of this head under this key (SubjectPublicKeyInfo).
bool berth_head_verify(const void *public_der, size_t public_size, const struct berth_head *head, const void *signature,
	size_t signature_size, struct berth_error *err);
