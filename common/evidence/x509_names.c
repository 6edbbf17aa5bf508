// SPDX-License-Identifier: Apache-2.0
// SPIFFE ids and subject alternative names.
#include <string.h>

#include "common/evidence/x509_internal.h"

#define NAME_MAX_BYTES 255
#define HOSTS_MAX      64
#define SPIFFE_SCHEME  "spiffe://"

static const char lower_name[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_";
static const char any_name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

bool evidence_trust_domain_check(const char *fleet, struct berth_error *err)
{
	size_t length = strlen(fleet);
	if (length == 0 || length > NAME_MAX_BYTES || strspn(fleet, lower_name) != length) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"the fleet name \"%s\" must be 1 to %d of a-z, 0-9, '.', '-' and '_'", fleet, NAME_MAX_BYTES);
	}
	return true;
}

bool evidence_path_segment_check(const char *what, const char *segment, struct berth_error *err)
{
	size_t length = strlen(segment);
	if (length == 0 || length > NAME_MAX_BYTES || strspn(segment, any_name) != length ||
		strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"the %s \"%s\" must be 1 to %d of a-z, A-Z, 0-9, '.', '-' and '_'", what, segment,
			NAME_MAX_BYTES);
	}
	return true;
}

static bool push_name(GENERAL_NAMES *names, int type, ASN1_STRING *value)
{
	GENERAL_NAME *name = value ? GENERAL_NAME_new() : NULL;
	if (!name) {
		ASN1_STRING_free(value);
		return false;
	}
	GENERAL_NAME_set0_value(name, type, value);
	if (!sk_GENERAL_NAME_push(names, name)) {
		GENERAL_NAME_free(name);
		return false;
	}
	return true;
}

static ASN1_STRING *text_value(const char *text)
{
	ASN1_STRING *value = ASN1_IA5STRING_new();
	if (value && !ASN1_STRING_set(value, text, (int)strlen(text))) {
		ASN1_STRING_free(value);
		return NULL;
	}
	return value;
}

static bool add_host(GENERAL_NAMES *names, const char *host, struct berth_error *err)
{
	ASN1_STRING *address = a2i_IPADDRESS(host);
	if (address) {
		return push_name(names, GEN_IPADD, address) ||
		       evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot add the address %s", host);
	}
	size_t length = strlen(host);
	if (length == 0 || length > NAME_MAX_BYTES || strspn(host, any_name) != length || host[0] == '.') {
		return evidence_fail(err, BERTH_ERROR_INVALID, "\"%s\" is neither an IP address nor a host name", host);
	}
	return push_name(names, GEN_DNS, text_value(host)) ||
	       evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot add the host %s", host);
}

bool evidence_add_alt_names(X509 *certificate, const char *uri, const char *const *hosts, struct berth_error *err)
{
	AUTO_OPENSSL(GENERAL_NAMES) *names = GENERAL_NAMES_new();
	if (!names || !push_name(names, GEN_URI, text_value(uri))) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot name %s", uri);
	}
	for (size_t i = 0; hosts && hosts[i]; i++) {
		if (i == HOSTS_MAX) {
			return berth_fail(err, BERTH_ERROR_INVALID, "a certificate names at most %d hosts", HOSTS_MAX);
		}
		if (!add_host(names, hosts[i], err)) {
			return false;
		}
	}
	if (!X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_APPEND)) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot add the names of %s", uri);
	}
	return true;
}

char *evidence_fleet_of(X509 *authority, struct berth_error *err)
{
	if (!X509_check_ca(authority)) {
		berth_fail(err, BERTH_ERROR_INVALID, "the certificate is not of an authority");
		return NULL;
	}
	AUTO_OPENSSL(GENERAL_NAMES) *names = X509_get_ext_d2i(authority, NID_subject_alt_name, NULL, NULL);
	const GENERAL_NAME *only = names && sk_GENERAL_NAME_num(names) == 1 ? sk_GENERAL_NAME_value(names, 0) : NULL;
	const size_t scheme = strlen(SPIFFE_SCHEME);
	if (!only || only->type != GEN_URI) {
		berth_fail(err, BERTH_ERROR_INVALID, "the authority's certificate names no trust domain (one URI SAN)");
		return NULL;
	}
	BERTH_AUTO_FREE char *uri = berth_strndup(
		(const char *)ASN1_STRING_get0_data(only->d.ia5), (size_t)ASN1_STRING_length(only->d.ia5));
	if (strncmp(uri, SPIFFE_SCHEME, scheme) != 0 || !evidence_trust_domain_check(uri + scheme, err)) {
		berth_fail(err, BERTH_ERROR_INVALID, "the authority's URI SAN \"%s\" is not spiffe://FLEET", uri);
		return NULL;
	}
	return berth_strdup(uri + scheme);
}
