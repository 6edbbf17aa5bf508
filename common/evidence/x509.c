// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/x509.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/evidence/x509_internal.h"

#define REQUEST_SIZE_MAX 16384

struct extension {
	int nid;
	const char *value;
};

static bool add_extensions(
	X509 *certificate, X509 *issuer, const struct extension *list, size_t count, struct berth_error *err)
{
	for (size_t i = 0; i < count; i++) {
		if (!evidence_add_extension(certificate, issuer, list[i].nid, list[i].value, err)) {
			return false;
		}
	}
	return true;
}

static bool self_sign(X509 *certificate, EVP_PKEY *key, const char *fleet, char **pem, struct berth_error *err)
{
	static const struct extension list[] = {
		{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
		{NID_key_usage, "critical,keyCertSign,cRLSign"},
		{NID_subject_key_identifier, "hash"},
		{NID_authority_key_identifier, "keyid:always"},
	};
	BERTH_AUTO_FREE char *uri = berth_format("spiffe://%s", fleet);
	if (!X509_set_issuer_name(certificate, X509_get_subject_name(certificate))) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot name the issuer");
	}
	return add_extensions(certificate, certificate, list, BERTH_COUNT(list), err) &&
	       evidence_add_alt_names(certificate, uri, NULL, err) &&
	       evidence_sign_certificate(certificate, key, pem, err);
}

bool berth_x509_authority_new(const char *fleet, int days, char **certificate, char **key, struct berth_error *err)
{
	if (!evidence_trust_domain_check(fleet, err)) {
		return false;
	}
	AUTO_OPENSSL(EVP_PKEY) *pkey = evidence_curve_key_new(err);
	if (!pkey) {
		return false;
	}
	AUTO_OPENSSL(X509) *made = evidence_certificate_new(pkey, fleet, days, err);
	BERTH_AUTO_FREE char *certificate_pem = NULL;
	if (!made || !self_sign(made, pkey, fleet, &certificate_pem, err)) {
		return false;
	}
	char *key_pem = evidence_key_pem(pkey, err);
	if (!key_pem) {
		return false;
	}
	*certificate = BERTH_STEAL(certificate_pem);
	*key = key_pem;
	return true;
}

bool berth_x509_authority_fleet(const char *certificate, char **fleet, struct berth_error *err)
{
	AUTO_OPENSSL(X509) *authority = evidence_certificate_parse(certificate, err);
	char *found = authority ? evidence_fleet_of(authority, err) : NULL;
	if (!found) {
		return false;
	}
	*fleet = found;
	return true;
}

static X509_REQ *make_request(EVP_PKEY *pkey, const char *name, struct berth_error *err)
{
	AUTO_OPENSSL(X509_NAME) *subject = evidence_common_name(name, err);
	if (!subject) {
		return NULL;
	}
	AUTO_OPENSSL(X509_REQ) *request = X509_REQ_new();
	if (!request || !X509_REQ_set_version(request, X509_REQ_VERSION_1) ||
		!X509_REQ_set_subject_name(request, subject) || !X509_REQ_set_pubkey(request, pkey) ||
		!X509_REQ_sign(request, pkey, EVP_sha256())) {
		evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot make a certificate request for %s", name);
		return NULL;
	}
	return BERTH_STEAL(request);
}

bool berth_x509_request_new(const char *name, char **key, uint8_t **request_der, size_t *size, struct berth_error *err)
{
	AUTO_OPENSSL(EVP_PKEY) *pkey = evidence_curve_key_new(err);
	AUTO_OPENSSL(X509_REQ) *request = pkey ? make_request(pkey, name, err) : NULL;
	if (!request) {
		return false;
	}
	unsigned char *der = NULL;
	int length = i2d_X509_REQ(request, &der);
	if (length <= 0) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot write a certificate request");
	}
	char *key_pem = evidence_key_pem(pkey, err);
	if (key_pem) {
		*request_der = berth_memdup(der, (size_t)length);
		*size = (size_t)length;
		*key = key_pem;
	}
	OPENSSL_free(der);
	return key_pem != NULL;
}

// Named curve only: explicit parameters would travel into the certificate, and other readers refuse them.
static bool is_named_p256(EVP_PKEY *key)
{
	char group[64] = "";
	int explicit_parameters = 0;
	return key && EVP_PKEY_is_a(key, "EC") &&
	       EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof group, NULL) &&
	       strcmp(group, X509_CURVE) == 0 &&
	       EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &explicit_parameters) &&
	       !explicit_parameters;
}

// The key that asks, once its owner has proven to hold it. It belongs to the request.
static EVP_PKEY *requested_key(X509_REQ *request, struct berth_error *err)
{
	EVP_PKEY *key = X509_REQ_get0_pubkey(request);
	if (!is_named_p256(key)) {
		evidence_fail(err, BERTH_ERROR_INVALID, "the certificate request's key must be ECDSA P-256");
		return NULL;
	}
	if (X509_REQ_verify(request, key) != 1) {
		evidence_fail(err, BERTH_ERROR_CORRUPT, "the certificate request's signature does not fit its key");
		return NULL;
	}
	return key;
}

static X509_REQ *parse_request(const uint8_t *der, size_t size, struct berth_error *err)
{
	const unsigned char *at = der;
	X509_REQ *request = size > 0 && size <= REQUEST_SIZE_MAX ? d2i_X509_REQ(NULL, &at, (long)size) : NULL;
	if (!request || at != der + size) {
		X509_REQ_free(request);
		evidence_fail(err, BERTH_ERROR_INVALID, "not a certificate request (PKCS#10 DER, at most %d bytes)",
			REQUEST_SIZE_MAX);
		return NULL;
	}
	return request;
}

// No certificate outlives the one that vouches for it.
static bool clamp_end(X509 *certificate, X509 *authority)
{
	const ASN1_TIME *end = X509_get0_notAfter(authority);
	return ASN1_TIME_compare(X509_get0_notAfter(certificate), end) <= 0 || X509_set1_notAfter(certificate, end);
}

static bool finish(X509 *certificate, X509 *authority, EVP_PKEY *authority_key, const char *uri,
	const char *const *hosts, char **pem, struct berth_error *err)
{
	static const struct extension list[] = {
		{NID_basic_constraints, "critical,CA:FALSE"},
		{NID_key_usage, "critical,digitalSignature"},
		{NID_ext_key_usage, "clientAuth,serverAuth"},
		{NID_subject_key_identifier, "hash"},
		{NID_authority_key_identifier, "keyid:always"},
	};
	if (!X509_set_issuer_name(certificate, X509_get_subject_name(authority)) ||
		!clamp_end(certificate, authority)) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot name the issuer of %s", uri);
	}
	return add_extensions(certificate, authority, list, BERTH_COUNT(list), err) &&
	       evidence_add_alt_names(certificate, uri, hosts, err) &&
	       evidence_sign_certificate(certificate, authority_key, pem, err);
}

static bool authority_in_force(X509 *authority, struct berth_error *err)
{
	if (X509_cmp_current_time(X509_get0_notAfter(authority)) <= 0) {
		return evidence_fail(err, BERTH_ERROR_INVALID, "the authority's certificate has ended: make a new one");
	}
	return true;
}

static bool issue(X509 *authority, EVP_PKEY *authority_key, X509_REQ *request, const char *role, const char *name,
	const char *const *hosts, int days, char **pem, struct berth_error *err)
{
	if (X509_check_private_key(authority, authority_key) != 1) {
		return evidence_fail(err, BERTH_ERROR_INVALID, "the authority's key is not the one of its certificate");
	}
	BERTH_AUTO_FREE char *fleet = evidence_fleet_of(authority, err);
	EVP_PKEY *key = fleet && authority_in_force(authority, err) ? requested_key(request, err) : NULL;
	if (!key) {
		return false;
	}
	AUTO_OPENSSL(X509) *certificate = evidence_certificate_new(key, name, days, err);
	if (!certificate) {
		return false;
	}
	BERTH_AUTO_FREE char *uri = berth_format("spiffe://%s/%s/%s", fleet, role, name);
	return finish(certificate, authority, authority_key, uri, hosts, pem, err);
}

bool berth_x509_issue(const char *authority, const char *authority_key, const uint8_t *request_der, size_t size,
	const char *role, const char *name, const char *const *hosts, int days, char **certificate,
	struct berth_error *err)
{
	if (!evidence_path_segment_check("role", role, err) || !evidence_path_segment_check("name", name, err)) {
		return false;
	}
	AUTO_OPENSSL(X509_REQ) *request = parse_request(request_der, size, err);
	AUTO_OPENSSL(X509) *issuer = request ? evidence_certificate_parse(authority, err) : NULL;
	AUTO_OPENSSL(EVP_PKEY) *key = issuer ? evidence_key_parse(authority_key, "the authority's key", err) : NULL;
	return key && issue(issuer, key, request, role, name, hosts, days, certificate, err);
}

bool berth_x509_fingerprint(const char *certificate, char text[static 65], struct berth_error *err)
{
	AUTO_OPENSSL(X509) *parsed = evidence_certificate_parse(certificate, err);
	if (!parsed) {
		return false;
	}
	struct berth_digest digest;
	unsigned length = 0;
	if (!X509_digest(parsed, EVP_sha256(), digest.bytes, &length) || length != BERTH_DIGEST_SIZE) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot hash a certificate");
	}
	berth_digest_hex(&digest, text);
	return true;
}
