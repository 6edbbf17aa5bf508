// SPDX-License-Identifier: Apache-2.0
// The fleet's authority and the certificates that it issues: ECDSA P-256, SPIFFE ids in the URI SAN. All texts are PEM
// unless a name ends in _der; the caller frees them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

// A self-signed authority for the trust domain `fleet`.
bool berth_x509_authority_new(const char *fleet, int days, char **certificate, char **key, struct berth_error *err);
// The trust domain of an authority.
bool berth_x509_authority_fleet(const char *certificate, char **fleet, struct berth_error *err);
// A fresh private key and a PKCS#10 request for it (subject: `name`).
bool berth_x509_request_new(const char *name, char **key, uint8_t **request_der, size_t *size, struct berth_error *err);
// Signs the request's public key for spiffe://FLEET/ROLE/NAME. `hosts` are DNS names or IP addresses for a server's
// certificate, NULL-terminated, or NULL. The request's signature is checked, its subject and extensions are not used.
bool berth_x509_issue(const char *authority, const char *authority_key, const uint8_t *request_der, size_t size,
	const char *role, const char *name, const char *const *hosts, int days, char **certificate,
	struct berth_error *err);
// Hex SHA-256 of the certificate's DER, as principals carry it.
bool berth_x509_fingerprint(const char *certificate, char text[static 65], struct berth_error *err);
// The SPIFFE id of a certificate: its only URI SAN; the caller frees.
bool berth_x509_spiffe_id(const char *certificate, char **id, struct berth_error *err);
