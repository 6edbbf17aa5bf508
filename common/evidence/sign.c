// SPDX-License-Identifier: Apache-2.0
// Keys and their files are libcrypto's. Signatures are libsodium's: a check there costs half, and a coordinator checks
// one for every result.
#include "common/evidence/sign.h"

#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/evidence/openssl.h"
#include "common/evidence/private_file.h"

#define KEY_FILE_SIZE_MAX 16384

struct berth_signing_key {
	EVP_PKEY *pkey;
	uint8_t secret[crypto_sign_SECRETKEYBYTES]; // the same key as libsodium has it
};

// A SubjectPublicKeyInfo of Ed25519 (RFC 8410 4): these bytes, then the key.
static const uint8_t public_prefix[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

static bool make_key_file(const char *path, struct berth_error *err)
{
	AUTO_OPENSSL(EVP_PKEY) *fresh = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	if (!fresh) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot make an Ed25519 key");
	}
	char *pem = evidence_key_pem(fresh, err);
	if (!pem) {
		return false;
	}
	bool made = berth_private_file_make(path, pem, strlen(pem), err);
	OPENSSL_cleanse(pem, strlen(pem));
	free(pem);
	return made;
}

static bool take_secret(struct berth_signing_key *key, const EVP_PKEY *pkey)
{
	uint8_t seed[crypto_sign_SEEDBYTES], public_bytes[crypto_sign_PUBLICKEYBYTES];
	size_t size = sizeof seed;
	bool ok = sodium_init() >= 0 && EVP_PKEY_get_raw_private_key(pkey, seed, &size) == 1 && size == sizeof seed &&
	          crypto_sign_seed_keypair(public_bytes, key->secret, seed) == 0;
	sodium_memzero(seed, sizeof seed);
	return ok;
}

struct berth_signing_key *berth_signing_key_open(const char *path, struct berth_error *err)
{
	if (!berth_file_exists(path) && !make_key_file(path, err)) {
		berth_error_wrap(err, "signing key");
		return NULL;
	}
	BERTH_AUTO(berth_private_buf_free) struct berth_buf pem = {0};
	if (!berth_private_file_read(path, KEY_FILE_SIZE_MAX, &pem, err)) {
		berth_error_wrap(err, "signing key");
		return NULL;
	}
	AUTO_OPENSSL(EVP_PKEY) *pkey = evidence_key_parse(berth_buf_text(&pem), path, err);
	if (!pkey) {
		return NULL;
	}
	if (!EVP_PKEY_is_a(pkey, "ED25519")) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s is not an Ed25519 key: name another file", path);
		return NULL;
	}
	struct berth_signing_key *key = berth_alloc(sizeof *key);
	if (!take_secret(key, pkey)) {
		free(key);
		evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot take the key in %s", path);
		return NULL;
	}
	key->pkey = BERTH_STEAL(pkey);
	return key;
}

void berth_signing_key_free(struct berth_signing_key *key)
{
	if (key) {
		EVP_PKEY_free(key->pkey);
		sodium_memzero(key->secret, sizeof key->secret);
		free(key);
	}
}

bool berth_signing_key_public(const struct berth_signing_key *key, uint8_t **der, size_t *size, struct berth_error *err)
{
	unsigned char *made = NULL;
	int length = i2d_PUBKEY(key->pkey, &made);
	if (length <= 0) {
		return evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot write a public key");
	}
	*der = berth_memdup(made, (size_t)length);
	*size = (size_t)length;
	OPENSSL_free(made);
	return true;
}

void berth_signing_key_id(const void *public_der, size_t size, char text[static BERTH_DIGEST_HEX_SIZE])
{
	struct berth_digest digest = berth_sha256(public_der, size);
	berth_digest_hex(&digest, text);
}

static void pre_authentication_encoding(struct berth_buf *out, const char *type, const void *body, size_t size)
{
	berth_buf_printf(out, "DSSEv1 %zu %s %zu ", strlen(type), type, size);
	berth_buf_add(out, body, size);
}

bool berth_sign(const struct berth_signing_key *key, const char *type, const void *body, size_t size,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	pre_authentication_encoding(&text, type, body, size);
	if (crypto_sign_detached(signature, NULL, text.data, text.size, key->secret) != 0) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "cannot sign a %s", type);
	}
	return true;
}

static EVP_PKEY *public_key(const void *der, size_t size, struct berth_error *err)
{
	const unsigned char *at = der;
	EVP_PKEY *pkey = size <= KEY_FILE_SIZE_MAX ? d2i_PUBKEY(NULL, &at, (long)size) : NULL;
	if (!pkey || at != (const unsigned char *)der + size || !EVP_PKEY_is_a(pkey, "ED25519")) {
		EVP_PKEY_free(pkey);
		evidence_fail(err, BERTH_ERROR_INVALID, "not an Ed25519 public key");
		return NULL;
	}
	return pkey;
}

char *berth_public_key_pem(const void *public_der, size_t size, struct berth_error *err)
{
	AUTO_OPENSSL(EVP_PKEY) *pkey = public_key(public_der, size, err);
	AUTO_OPENSSL(BIO) *bio = BIO_new(BIO_s_mem());
	if (!pkey) {
		return NULL;
	}
	if (!bio || !PEM_write_bio_PUBKEY(bio, pkey)) {
		evidence_fail(err, BERTH_ERROR_INTERNAL, "cannot write a public key as PEM");
		return NULL;
	}
	return evidence_bio_text(bio);
}

bool berth_public_key_parse(const char *pem, const char *name, uint8_t **der, size_t *size, struct berth_error *err)
{
	AUTO_OPENSSL(BIO) *bio = BIO_new_mem_buf(pem, -1);
	AUTO_OPENSSL(EVP_PKEY) *pkey = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
	unsigned char *made = NULL;
	int length = pkey && EVP_PKEY_is_a(pkey, "ED25519") ? i2d_PUBKEY(pkey, &made) : 0;
	if (length <= 0) {
		return evidence_fail(err, BERTH_ERROR_INVALID, "%s is not an Ed25519 public key in PEM", name);
	}
	*der = berth_memdup(made, (size_t)length);
	*size = (size_t)length;
	OPENSSL_free(made);
	return true;
}

bool berth_verify(const void *public_der, size_t public_size, const char *type, const void *body, size_t size,
	const void *signature, size_t signature_size, struct berth_error *err)
{
	if (public_size != sizeof public_prefix + crypto_sign_PUBLICKEYBYTES ||
		memcmp(public_der, public_prefix, sizeof public_prefix) != 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "not an Ed25519 public key");
	}
	const uint8_t *key = (const uint8_t *)public_der + sizeof public_prefix;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	pre_authentication_encoding(&text, type, body, size);
	if (signature_size != BERTH_SIGNATURE_SIZE ||
		crypto_sign_verify_detached(signature, text.data, text.size, key) != 0) {
		return berth_fail(
			err, BERTH_ERROR_CORRUPT, "the signature of a %s does not fit its key and bytes", type);
	}
	return true;
}
