// SPDX-License-Identifier: Apache-2.0
// The signed name of one life of a fleet's coordinator: only who has the ledger's key can make an agent obey, or make a
// coordinator believe that a newer one runs. What is signed is one line of canonical JSON,
//   {"fleet":"NAME","nonce":"HEX","number":N}
// in the envelope of a head (head.h), with a type of its own. Pure.
#pragma once

#include "common/base/buf.h"
#include "common/evidence/sign.h"

#define BERTH_INCARNATION_TYPE       "application/vnd.berth.incarnation+json"
#define BERTH_INCARNATION_NONCE_SIZE 16

struct berth_incarnation {
	const char *fleet; // a trust domain: nothing in it needs an escape
	uint64_t number;
	const uint8_t *nonce; // BERTH_INCARNATION_NONCE_SIZE
};

void berth_incarnation_text(const struct berth_incarnation *incarnation, struct berth_buf *text);
bool berth_incarnation_sign(const struct berth_signing_key *key, const struct berth_incarnation *incarnation,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err);
// CORRUPT when the signature is not that of this incarnation under this key (SubjectPublicKeyInfo).
bool berth_incarnation_verify(const void *public_der, size_t public_size, const struct berth_incarnation *incarnation,
	const void *signature, size_t signature_size, struct berth_error *err);
