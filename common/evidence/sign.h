// SPDX-License-Identifier: Apache-2.0
// Ed25519 signatures over DSSE's pre-authentication encoding ("DSSEv1" SP len SP type SP len SP body).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/error.h"

#define BERTH_SIGNATURE_SIZE 64

struct berth_signing_key;

// Loads a PEM private key file, or makes one (mode 0600) when it is missing.
struct berth_signing_key *berth_signing_key_open(const char *path, struct berth_error *err);
void berth_signing_key_free(struct berth_signing_key *key);
// SubjectPublicKeyInfo; the caller frees. The key id is its SHA-256 in hex.
bool berth_signing_key_public(
	const struct berth_signing_key *key, uint8_t **der, size_t *size, struct berth_error *err);
void berth_signing_key_id(const void *public_der, size_t size, char text[static BERTH_DIGEST_HEX_SIZE]);
// A public key as a PEM text, and back; the caller frees what comes out. `name` stands in the error for what is none.
char *berth_public_key_pem(const void *public_der, size_t size, struct berth_error *err);
bool berth_public_key_parse(const char *pem, const char *name, uint8_t **der, size_t *size, struct berth_error *err);
bool berth_sign(const struct berth_signing_key *key, const char *type, const void *body, size_t size,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err);
// CORRUPT when the signature does not fit.
bool berth_verify(const void *public_der, size_t public_size, const char *type, const void *body, size_t size,
	const void *signature, size_t signature_size, struct berth_error *err);
