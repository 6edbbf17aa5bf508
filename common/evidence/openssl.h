// SPDX-License-Identifier: Apache-2.0
// Inside common/evidence only: libcrypto's objects with cleanup, its errors as ours, PEM texts.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/mem.h"

#define EVIDENCE_CLEANUP(type, release)                                                                                \
	static inline void evidence_cleanup_##type(type **pointer)                                                     \
	{                                                                                                              \
		release(*pointer);                                                                                     \
	}
EVIDENCE_CLEANUP(BIO, BIO_free_all)
EVIDENCE_CLEANUP(EVP_PKEY, EVP_PKEY_free)
EVIDENCE_CLEANUP(EVP_MD_CTX, EVP_MD_CTX_free)
EVIDENCE_CLEANUP(GENERAL_NAME, GENERAL_NAME_free)
EVIDENCE_CLEANUP(GENERAL_NAMES, GENERAL_NAMES_free)
EVIDENCE_CLEANUP(X509, X509_free)
EVIDENCE_CLEANUP(X509_EXTENSION, X509_EXTENSION_free)
EVIDENCE_CLEANUP(X509_NAME, X509_NAME_free)
EVIDENCE_CLEANUP(X509_REQ, X509_REQ_free)

#define AUTO_OPENSSL(type) BERTH_AUTO(evidence_cleanup_##type) type

// Fills err with the message and libcrypto's own reason, and empties the thread's error queue.
bool evidence_fail(struct berth_error *err, enum berth_error_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
char *evidence_bio_text(BIO *bio); // the bytes of a memory BIO; the caller frees
char *evidence_key_pem(const EVP_PKEY *key, struct berth_error *err);
// Never asks a terminal for a passphrase: an encrypted key is INVALID.
EVP_PKEY *evidence_key_parse(const char *pem, const char *what, struct berth_error *err);
X509 *evidence_certificate_parse(const char *pem, struct berth_error *err);
