// SPDX-License-Identifier: Apache-2.0
// Inside common/evidence only: what authority and issued certificates are both made of.
#pragma once

#include "common/evidence/openssl.h"

#define X509_DAYS_MAX 36500
#define X509_CURVE    "prime256v1"

// Lower-case letters, digits, '.', '-' and '_', at most 255 bytes.
bool evidence_trust_domain_check(const char *fleet, struct berth_error *err);
// One segment of a SPIFFE path: letters, digits, '.', '-' and '_'; not "." or "..".
bool evidence_path_segment_check(const char *what, const char *segment, struct berth_error *err);

EVP_PKEY *evidence_curve_key_new(struct berth_error *err);
// CN = `name`, cut to X.520's 64 bytes: a label for people, identity is in the URI SAN.
X509_NAME *evidence_common_name(const char *name, struct berth_error *err);
// Version 3, random serial, valid from five minutes ago for `days`, with this key and subject.
X509 *evidence_certificate_new(EVP_PKEY *key, const char *name, int days, struct berth_error *err);
bool evidence_add_extension(X509 *certificate, X509 *issuer, int nid, const char *value, struct berth_error *err);
bool evidence_sign_certificate(X509 *certificate, EVP_PKEY *key, char **pem, struct berth_error *err);
// Subject alternative names: a URI, then hosts (NULL or NULL-terminated) as IP addresses or DNS names.
bool evidence_add_alt_names(X509 *certificate, const char *uri, const char *const *hosts, struct berth_error *err);
char *evidence_fleet_of(X509 *authority, struct berth_error *err);
