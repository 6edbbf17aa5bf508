// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/incarnation.h"

#include "common/base/digest.h"
#include "common/base/mem.h"

void berth_incarnation_text(const struct berth_incarnation *incarnation, struct berth_buf *text)
{
	char nonce[2 * BERTH_INCARNATION_NONCE_SIZE + 1];
	berth_hex(incarnation->nonce, BERTH_INCARNATION_NONCE_SIZE, nonce);
	berth_buf_printf(text, "{\"fleet\":\"%s\",\"nonce\":\"%s\",\"number\":%llu}", incarnation->fleet, nonce,
		(unsigned long long)incarnation->number);
}

bool berth_incarnation_sign(const struct berth_signing_key *key, const struct berth_incarnation *incarnation,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_incarnation_text(incarnation, &text);
	return berth_sign(key, BERTH_INCARNATION_TYPE, text.data, text.size, signature, err);
}

bool berth_incarnation_verify(const void *public_der, size_t public_size, const struct berth_incarnation *incarnation,
	const void *signature, size_t signature_size, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_incarnation_text(incarnation, &text);
	return berth_verify(
		public_der, public_size, BERTH_INCARNATION_TYPE, text.data, text.size, signature, signature_size, err);
}
