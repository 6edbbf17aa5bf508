// SPDX-License-Identifier: Apache-2.0
// A fresh Ed25519 key for a test that signs.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct berth_signing_key;

struct test_key {
	struct berth_signing_key *own;
	uint8_t *der; // its public half: SubjectPublicKeyInfo
	size_t der_size;
};

// Fails the test where it cannot be made.
struct test_key test_key_make(void);
void test_key_clear(struct test_key *key);
