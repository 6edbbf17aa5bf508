// SPDX-License-Identifier: Apache-2.0
// The parts of a certificate: key, serial, times, extensions.
#include <openssl/rand.h>
#include <string.h>

#include <openssl/pem.h>

#include "common/base/digest.h"
#include "common/evidence/x509_internal.h"

#define NOT_BEFORE_SECONDS (-5 * 60)
#define SERIAL_SIZE        16
#define COMMON_NAME_MAX    64

EVP_PKEY *evidence_curve_key_new(struct berth_error *err)
{
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", X509_CURVE);
	if (!key) {
		evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot make a P-256 key");
	}
	return key;
}

X509_NAME *evidence_common_name(const char *name, struct berth_error *err)
{
	X509_NAME *subject = X509_NAME_new();
	int length = (int)strnlen(name, COMMON_NAME_MAX);
	if (!subject ||
		!X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, length, -1, 0)) {
		X509_NAME_free(subject);
		evidence_fail(err, BERTH_ERROR_INVALID, "cannot use %s as a subject", name);
		return NULL;
	}
	return subject;
}

static bool set_serial(X509 *certificate)
{
	unsigned char bytes[SERIAL_SIZE];
	berth_random(bytes, sizeof bytes);
	// Positive, never zero, always of one length.
	bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);
	BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
	bool set = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
	BN_free(number);
	return set;
}

static bool set_times(X509 *certificate, int days)
{
	return X509_gmtime_adj(X509_getm_notBefore(certificate), NOT_BEFORE_SECONDS) &&
	       X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, NULL);
}

X509 *evidence_certificate_new(EVP_PKEY *key, const char *name, int days, struct berth_error *err)
{
	if (days < 1 || days > X509_DAYS_MAX) {
		berth_fail(err, BERTH_ERROR_INVALID, "a certificate lasts 1 to %d days, not %d", X509_DAYS_MAX, days);
		return NULL;
	}
	AUTO_OPENSSL(X509_NAME) *subject = evidence_common_name(name, err);
	if (!subject) {
		return NULL;
	}
	AUTO_OPENSSL(X509) *certificate = X509_new();
	if (!certificate || !X509_set_version(certificate, X509_VERSION_3) || !set_serial(certificate) ||
		!set_times(certificate, days) || !X509_set_subject_name(certificate, subject) ||
		!X509_set_pubkey(certificate, key)) {
		evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot make a certificate for %s", name);
		return NULL;
	}
	return BERTH_STEAL(certificate);
}

bool evidence_add_extension(X509 *certificate, X509 *issuer, int nid, const char *value, struct berth_error *err)
{
	X509V3_CTX context;
	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	AUTO_OPENSSL(X509_EXTENSION) *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	if (!extension || !X509_add_ext(certificate, extension, -1)) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot add the extension %s", OBJ_nid2sn(nid));
	}
	return true;
}

bool evidence_sign_certificate(X509 *certificate, EVP_PKEY *key, char **pem, struct berth_error *err)
{
	AUTO_OPENSSL(BIO) *bio = BIO_new(BIO_s_mem());
	if (!bio || !X509_sign(certificate, key, EVP_sha256()) || !PEM_write_bio_X509(bio, certificate)) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot sign a certificate");
	}
	*pem = evidence_bio_text(bio);
	return true;
}
