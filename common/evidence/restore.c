// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/restore.h"

#include "common/base/mem.h"

void berth_restore_text(const struct berth_restore *restore, struct berth_buf *text)
{
	char leaf[BERTH_DIGEST_TEXT_SIZE], root[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&restore->head.leaf, leaf);
	berth_digest_text(&restore->head.root, root);
	berth_buf_printf(text, "{\"fleet\":\"%s\",\"incarnation\":%llu,\"leaf\":\"%s\",\"root\":\"%s\",\"size\":%llu}",
		restore->head.fleet, (unsigned long long)restore->incarnation, leaf, root,
		(unsigned long long)restore->head.size);
}

bool berth_restore_sign(const struct berth_signing_key *key, const struct berth_restore *restore,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_restore_text(restore, &text);
	return berth_sign(key, BERTH_RESTORE_TYPE, text.data, text.size, signature, err);
}

bool berth_restore_verify(const void *public_der, size_t public_size, const struct berth_restore *restore,
	const void *signature, size_t signature_size, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_restore_text(restore, &text);
	return berth_verify(
		public_der, public_size, BERTH_RESTORE_TYPE, text.data, text.size, signature, signature_size, err);
}
