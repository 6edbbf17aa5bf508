// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdarg.h>

#define REASON_MAX 128

bool evidence_fail(struct berth_error *err, enum berth_error_code code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *message = berth_vformat(format, args);
	va_end(args);
	unsigned long number = ERR_peek_last_error();
	const char *reason = number ? ERR_reason_error_string(number) : NULL;
	ERR_clear_error();
	if (!reason) {
		return berth_fail(err, code, "%s", message);
	}
	return berth_fail(err, code, "%s: %.*s", message, REASON_MAX, reason);
}

char *evidence_bio_text(BIO *bio)
{
	char *data = NULL;
	long size = BIO_get_mem_data(bio, &data);
	return berth_strndup(size > 0 ? data : "", size > 0 ? (size_t)size : 0);
}

char *evidence_key_pem(const EVP_PKEY *key, struct berth_error *err)
{
	AUTO_OPENSSL(BIO) *bio = BIO_new(BIO_s_mem());
	if (!bio || !PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL)) {
		evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot write a private key as PEM");
		return NULL;
	}
	return evidence_bio_text(bio);
}

static int no_passphrase(char *buffer, int size, int writing, void *context)
{
	(void)buffer;
	(void)size;
	(void)writing;
	(void)context;
	return -1;
}

EVP_PKEY *evidence_key_parse(const char *pem, const char *what, struct berth_error *err)
{
	AUTO_OPENSSL(BIO) *bio = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
	if (!key) {
		evidence_fail(err, BERTH_ERROR_INVALID, "%s is not an unencrypted PEM private key", what);
	}
	return key;
}

X509 *evidence_certificate_parse(const char *pem, struct berth_error *err)
{
	AUTO_OPENSSL(BIO) *bio = BIO_new_mem_buf(pem, -1);
	X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;
	if (!certificate) {
		evidence_fail(err, BERTH_ERROR_INVALID, "not a PEM certificate");
	}
	return certificate;
}
