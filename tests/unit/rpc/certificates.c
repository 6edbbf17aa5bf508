// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rpc/certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "common/base/mem.h"

#define VALID_S    (24 * 60 * 60)
#define BACKDATE_S (-60 * 60)

struct authority {
	EVP_PKEY *key;
	X509 *cert;
	char *pem;
	long serial;
};

static void must(bool condition)
{
	if (!condition) {
		abort();
	}
}

static char *bio_text(BIO *bio)
{
	char *data = NULL;
	long size = BIO_get_mem_data(bio, &data);
	char *text = berth_strndup(data, (size_t)size);
	BIO_free(bio);
	return text;
}

static char *cert_pem(X509 *cert)
{
	BIO *bio = BIO_new(BIO_s_mem());
	must(PEM_write_bio_X509(bio, cert) == 1);
	return bio_text(bio);
}

static char *key_pem(EVP_PKEY *key)
{
	BIO *bio = BIO_new(BIO_s_mem());
	must(PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
	return bio_text(bio);
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	must(extension && X509_add_ext(cert, extension, -1) == 1);
	X509_EXTENSION_free(extension);
}

static X509 *cert_new(EVP_PKEY *key, const char *name, long serial)
{
	X509 *cert = X509_new();
	must(X509_set_version(cert, 2) == 1);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
	X509_gmtime_adj(X509_getm_notBefore(cert), BACKDATE_S);
	X509_gmtime_adj(X509_getm_notAfter(cert), VALID_S);
	must(X509_set_pubkey(cert, key) == 1);
	X509_NAME_add_entry_by_txt(
		X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	return cert;
}

struct authority *authority_new(const char *name)
{
	struct authority *authority = berth_alloc(sizeof *authority);
	authority->serial = 1;
	authority->key = EVP_EC_gen("P-256");
	authority->cert = cert_new(authority->key, name, authority->serial);
	must(X509_set_issuer_name(authority->cert, X509_get_subject_name(authority->cert)) == 1);
	add_extension(authority->cert, authority->cert, NID_basic_constraints, "critical,CA:TRUE");
	add_extension(authority->cert, authority->cert, NID_key_usage, "critical,keyCertSign,cRLSign");
	must(X509_sign(authority->cert, authority->key, EVP_sha256()) > 0);
	authority->pem = cert_pem(authority->cert);
	return authority;
}

void authority_free(struct authority *authority)
{
	X509_free(authority->cert);
	EVP_PKEY_free(authority->key);
	free(authority->pem);
	free(authority);
}

struct berth_rpc_tls *identity_new(
	struct authority *authority, const struct authority *trusted, const char *alternative_names)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = cert_new(key, "leaf", ++authority->serial);
	must(X509_set_issuer_name(cert, X509_get_subject_name(authority->cert)) == 1);
	add_extension(cert, authority->cert, NID_subject_alt_name, alternative_names);
	must(X509_sign(cert, authority->key, EVP_sha256()) > 0);
	struct berth_rpc_tls *identity = berth_alloc(sizeof *identity);
	identity->authority = berth_strdup(trusted->pem);
	identity->certificate = cert_pem(cert);
	identity->key = key_pem(key);
	X509_free(cert);
	EVP_PKEY_free(key);
	return identity;
}

void identity_free(struct berth_rpc_tls *identity)
{
	free((char *)identity->authority);
	free((char *)identity->certificate);
	free((char *)identity->key);
	free(identity);
}
