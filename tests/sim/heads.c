// SPDX-License-Identifier: Apache-2.0
// Signatures of the ledger's heads. An Ed25519 check at each acknowledged heartbeat would be most of a run, so in all
// but some seeds a signature is a digest over key and text: who signs what, who checks it, and what is refused are as
// they are. (The linker gives these for the real ones: --wrap.)
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/evidence/head.h"
#include "tests/sim/keys.h"
#include "tests/sim/world.h"

#define REAL_EVERY 16 // seeds

const struct sim_key *sim_ledger_key(void)
{
	static struct sim_key key;
	if (!key.key) {
		sim_key_make(&key);
	}
	return &key;
}

static bool is_real(void)
{
	return sim_world.seed % REAL_EVERY == 0;
}

static void digest_of(
	const void *der, size_t der_size, const struct berth_head *head, uint8_t signature[static BERTH_SIGNATURE_SIZE])
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_head_text(head, &text);
	berth_buf_add(&text, der, der_size);
	struct berth_digest digest = berth_sha256(text.data, text.size);
	memcpy(signature, digest.bytes, BERTH_DIGEST_SIZE);
	memcpy(signature + BERTH_DIGEST_SIZE, digest.bytes, BERTH_DIGEST_SIZE);
}

bool __real_berth_head_sign(const struct berth_signing_key *key, const struct berth_head *head,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err);
bool __wrap_berth_head_sign(const struct berth_signing_key *key, const struct berth_head *head,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err);

bool __wrap_berth_head_sign(const struct berth_signing_key *key, const struct berth_head *head,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err)
{
	if (is_real()) {
		return __real_berth_head_sign(key, head, signature, err);
	}
	BERTH_AUTO_FREE uint8_t *der = NULL;
	size_t size = 0;
	if (!berth_signing_key_public(key, &der, &size, err)) {
		return false;
	}
	digest_of(der, size, head, signature);
	return true;
}

bool __real_berth_head_verify(const void *public_der, size_t public_size, const struct berth_head *head,
	const void *signature, size_t signature_size, struct berth_error *err);
bool __wrap_berth_head_verify(const void *public_der, size_t public_size, const struct berth_head *head,
	const void *signature, size_t signature_size, struct berth_error *err);

bool __wrap_berth_head_verify(const void *public_der, size_t public_size, const struct berth_head *head,
	const void *signature, size_t signature_size, struct berth_error *err)
{
	if (is_real()) {
		return __real_berth_head_verify(public_der, public_size, head, signature, signature_size, err);
	}
	uint8_t wanted[BERTH_SIGNATURE_SIZE];
	digest_of(public_der, public_size, head, wanted);
	return (signature_size == sizeof wanted && memcmp(signature, wanted, sizeof wanted) == 0) ||
	       berth_fail(err, BERTH_ERROR_CORRUPT, "the signature is not that of this head");
}
