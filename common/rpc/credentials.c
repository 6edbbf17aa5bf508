// SPDX-License-Identifier: Apache-2.0
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rpc/internal.h"

static void cert_cleanup(X509 **cert)
{
	X509_free(*cert);
}

static void key_cleanup(EVP_PKEY **key)
{
	EVP_PKEY_free(*key);
}

static BIO *pem_open(const char *text)
{
	return BIO_new_mem_buf(text ? text : "", -1);
}

static X509 *cert_parse(const char *pem)
{
	BIO *bio = pem_open(pem);
	X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	return cert;
}

// A key under a passphrase is refused: nobody is there to type it.
static int no_passphrase(char *buffer, int size, int for_write, void *context)
{
	(void)buffer, (void)size, (void)for_write, (void)context;
	return -1;
}

static EVP_PKEY *key_parse(const char *pem)
{
	BIO *bio = pem_open(pem);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	return key;
}

bool berth_rpc_tls_check(const struct berth_rpc_tls *tls, struct berth_error *err)
{
	BERTH_AUTO(cert_cleanup) X509 *authority = cert_parse(tls->authority);
	BERTH_AUTO(cert_cleanup) X509 *cert = cert_parse(tls->certificate);
	BERTH_AUTO(key_cleanup) EVP_PKEY *key = key_parse(tls->key);
	bool together = cert && key && X509_check_private_key(cert, key) == 1;
	ERR_clear_error();
	if (!authority) {
		return berth_fail(err, BERTH_ERROR_INVALID, "TLS: the authority's certificate is no PEM certificate");
	}
	if (!cert) {
		return berth_fail(err, BERTH_ERROR_INVALID, "TLS: the certificate is no PEM certificate");
	}
	if (!key) {
		return berth_fail(err, BERTH_ERROR_INVALID, "TLS: the key is no PEM private key without a passphrase");
	}
	if (!together) {
		return berth_fail(err, BERTH_ERROR_INVALID, "TLS: the key is not the certificate's");
	}
	return true;
}

grpc_server_credentials *berth_rpc_server_credentials(const struct berth_rpc_tls *tls, struct berth_error *err)
{
	if (!tls) {
		return grpc.insecure_server_credentials_create();
	}
	grpc_ssl_pem_key_cert_pair pair = {.private_key = tls->key, .cert_chain = tls->certificate};
	grpc_server_credentials *credentials = grpc.ssl_server_credentials_create_ex(
		tls->authority, &pair, 1, GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, NULL);
	if (!credentials) {
		berth_fail(err, BERTH_ERROR_INVALID, "TLS: the server's credentials are refused by gRPC");
	}
	return credentials;
}

grpc_channel_credentials *berth_rpc_channel_credentials(const struct berth_rpc_tls *tls, struct berth_error *err)
{
	if (!tls) {
		return grpc.insecure_credentials_create();
	}
	if (!berth_rpc_tls_check(tls, err)) {
		return NULL;
	}
	grpc_ssl_pem_key_cert_pair pair = {.private_key = tls->key, .cert_chain = tls->certificate};
	grpc_channel_credentials *credentials = grpc.ssl_credentials_create_ex(tls->authority, &pair, NULL, NULL);
	if (!credentials) {
		berth_fail(err, BERTH_ERROR_INVALID, "TLS: the client's credentials are refused by gRPC");
	}
	return credentials;
}
