// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/head.h"

#include "common/base/mem.h"

void berth_head_text(const struct berth_head *head, struct berth_buf *text)
{
	char leaf[BERTH_DIGEST_TEXT_SIZE], root[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&head->leaf, leaf);
	berth_digest_text(&head->root, root);
	berth_buf_printf(text, "{\"fleet\":\"%s\",\"leaf\":\"%s\",\"root\":\"%s\",\"size\":%llu}", head->fleet, leaf,
		root, (unsigned long long)head->size);
}

bool berth_head_sign(const struct berth_signing_key *key, const struct berth_head *head,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_head_text(head, &text);
	return berth_sign(key, BERTH_HEAD_TYPE, text.data, text.size, signature, err);
}

bool berth_head_verify(const void *public_der, size_t public_size, const struct berth_head *head, const void *signature,
	size_t signature_size, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_head_text(head, &text);
	return berth_verify(
		public_der, public_size, BERTH_HEAD_TYPE, text.data, text.size, signature, signature_size, err);
}
