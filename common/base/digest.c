// SPDX-License-Identifier: Apache-2.0
#include "common/base/digest.h"

#define OPENSSL_SUPPRESS_DEPRECATED // SHA256_Init and its like
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/mem.h"

static EVP_MD *fetched_sha256;

struct berth_hasher {
	EVP_MD_CTX *ctx;
};

static void must(int ok)
{
	if (ok <= 0) {
		abort();
	}
}

static void fetch_sha256(void)
{
	fetched_sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	must(fetched_sha256 != NULL);
}

// Fetched once: looking the algorithm up for every hash costs more than a short hash itself.
static const EVP_MD *sha256(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, fetch_sha256);
	return fetched_sha256;
}

struct berth_hasher *berth_hasher_new(void)
{
	struct berth_hasher *hasher = berth_alloc(sizeof *hasher);
	hasher->ctx = EVP_MD_CTX_new();
	must(hasher->ctx != NULL);
	must(EVP_DigestInit_ex(hasher->ctx, sha256(), NULL));
	return hasher;
}

void berth_hasher_add(struct berth_hasher *hasher, const void *data, size_t size)
{
	must(EVP_DigestUpdate(hasher->ctx, data, size));
}

struct berth_digest berth_hasher_finish(struct berth_hasher *hasher)
{
	struct berth_digest digest;
	must(EVP_DigestFinal_ex(hasher->ctx, digest.bytes, NULL));
	berth_hasher_free(hasher);
	return digest;
}

void berth_hasher_free(struct berth_hasher *hasher)
{
	if (hasher) {
		EVP_MD_CTX_free(hasher->ctx);
		free(hasher);
	}
}

// By the interface that needs no context from the heap: for the short texts that are hashed most, trees' nodes, that is
// less than half the time. (It is deprecated in favour of providers, of which one is in use here.)
struct berth_digest berth_sha256(const void *data, size_t size)
{
	struct berth_digest digest = {0};
	SHA256_CTX ctx;
	must(SHA256_Init(&ctx) && SHA256_Update(&ctx, data, size) && SHA256_Final(digest.bytes, &ctx));
	return digest;
}

struct berth_digest berth_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size)
{
	struct berth_digest digest;
	unsigned length = 0;
	must(HMAC(sha256(), key, (int)key_size, data, size, digest.bytes, &length) != NULL);
	return digest;
}

bool berth_digest_equal(const struct berth_digest *a, const struct berth_digest *b)
{
	return memcmp(a->bytes, b->bytes, BERTH_DIGEST_SIZE) == 0;
}

void berth_hex(const void *data, size_t size, char *text)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = data;
	for (size_t i = 0; i < size; i++) {
		*text++ = digits[bytes[i] >> 4];
		*text++ = digits[bytes[i] & 15];
	}
	*text = 0;
}

static int hex_value(char digit)
{
	if (digit >= '0' && digit <= '9') {
		return digit - '0';
	}
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool berth_unhex(const char *text, void *data, size_t size)
{
	if (strlen(text) != size * 2) {
		return false;
	}
	uint8_t *bytes = data;
	for (size_t i = 0; i < size; i++) {
		int high = hex_value(text[2 * i]);
		int low = hex_value(text[2 * i + 1]);
		if (high < 0 || low < 0) {
			return false;
		}
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

void berth_digest_hex(const struct berth_digest *digest, char text[static BERTH_DIGEST_HEX_SIZE])
{
	berth_hex(digest->bytes, BERTH_DIGEST_SIZE, text);
}

void berth_digest_text(const struct berth_digest *digest, char text[static BERTH_DIGEST_TEXT_SIZE])
{
	memcpy(text, "sha256:", 7);
	berth_digest_hex(digest, text + 7);
}

void berth_random(void *data, size_t size)
{
	uint8_t *bytes = data;
	while (size) {
		ssize_t got = getrandom(bytes, size, 0);
		if (got > 0) {
			bytes += got;
			size -= (size_t)got;
		}
	}
}

void berth_random_id(char text[static BERTH_ID_SIZE])
{
	uint8_t bytes[16];
	berth_random(bytes, sizeof bytes);
	berth_hex(bytes, sizeof bytes, text);
}

void berth_uuid_text(const uint8_t bytes[static 16], char text[static BERTH_UUID_SIZE])
{
	uint8_t b[16];
	memcpy(b, bytes, sizeof b);
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	snprintf(text, BERTH_UUID_SIZE, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

void berth_random_uuid(char text[static BERTH_UUID_SIZE])
{
	uint8_t bytes[16];
	berth_random(bytes, sizeof bytes);
	berth_uuid_text(bytes, text);
}

char *berth_base64(const void *data, size_t size)
{
	char *text = berth_alloc((size + 2) / 3 * 4 + 1);
	EVP_EncodeBlock((unsigned char *)text, data, (int)size);
	return text;
}

uint8_t *berth_unbase64(const char *text, size_t length, size_t *size)
{
	if (length % 4 || length > INT32_MAX) {
		return NULL;
	}
	size_t padding = 0;
	while (padding < 2 && padding < length && text[length - 1 - padding] == '=') {
		padding++;
	}
	BERTH_AUTO_FREE uint8_t *data = berth_alloc(length / 4 * 3 + 1);
	for (size_t i = 0; i < length - padding; i++) {
		char c = text[i];
		bool known = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
		             c == '/';
		if (!known) {
			return NULL;
		}
	}
	int decoded = EVP_DecodeBlock(data, (const unsigned char *)text, (int)length);
	if (decoded < 0 || (size_t)decoded < padding) {
		return NULL;
	}
	*size = (size_t)decoded - padding;
	data[*size] = 0;
	return BERTH_STEAL(data);
}
