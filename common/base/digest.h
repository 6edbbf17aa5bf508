// SPDX-License-Identifier: Apache-2.0
// SHA-256, and the texts in which digests travel. Digests are 32 raw bytes in memory and on the wire, and
// "sha256:" + 64 lowercase hex digits in JSON.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BERTH_DIGEST_SIZE      32
#define BERTH_DIGEST_HEX_SIZE  65 // with the NUL
#define BERTH_DIGEST_TEXT_SIZE 72 // "sha256:" + hex + NUL

struct berth_digest {
	uint8_t bytes[BERTH_DIGEST_SIZE];
};

struct berth_hasher; // one running SHA-256

struct berth_hasher *berth_hasher_new(void);
void berth_hasher_add(struct berth_hasher *hasher, const void *data, size_t size);
// Ends and frees the hasher.
struct berth_digest berth_hasher_finish(struct berth_hasher *hasher);
void berth_hasher_free(struct berth_hasher *hasher); // for one that is given up; NULL is allowed

struct berth_digest berth_sha256(const void *data, size_t size);
struct berth_digest berth_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size);
bool berth_digest_equal(const struct berth_digest *a, const struct berth_digest *b);

// `text` gets 2 * size digits and a NUL.
void berth_hex(const void *data, size_t size, char *text);
// False when the text is not exactly 2 * size lowercase hex digits.
bool berth_unhex(const char *text, void *data, size_t size);
void berth_digest_hex(const struct berth_digest *digest, char text[static BERTH_DIGEST_HEX_SIZE]);
void berth_digest_text(const struct berth_digest *digest, char text[static BERTH_DIGEST_TEXT_SIZE]);

// From the kernel; never fails.
void berth_random(void *data, size_t size);
// 16 random bytes as 32 hex digits, and a random UUID (version 4) as text.
#define BERTH_ID_SIZE	33
#define BERTH_UUID_SIZE 37
void berth_random_id(char text[static BERTH_ID_SIZE]);
void berth_random_uuid(char text[static BERTH_UUID_SIZE]);
// The UUID text (version 4 form) of 16 given bytes.
void berth_uuid_text(const uint8_t bytes[static 16], char text[static BERTH_UUID_SIZE]);

// Standard base64 with padding; the caller frees. Decoding gives NULL on any byte outside the alphabet.
char *berth_base64(const void *data, size_t size);
uint8_t *berth_unbase64(const char *text, size_t length, size_t *size);
