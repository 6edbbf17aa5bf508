// SPDX-License-Identifier: Apache-2.0
// Small blobs: in the batch of the event that names them, so that they cost no sync of their own.
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/ledger/ledger_internal.h"

void berth_ledger_put_blob(
	struct berth_ledger *ledger, const struct berth_digest *digest, const void *data, size_t size)
{
	berth_store_batch_put(ledger->batch, LEDGER_BLOB, digest->bytes, BERTH_DIGEST_SIZE, data, size);
}

bool berth_ledger_has_blob(struct berth_ledger *ledger, const struct berth_digest *digest)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf data = {0};
	return berth_ledger_get_blob(ledger, digest, &data, NULL);
}

bool berth_ledger_get_blob(
	struct berth_ledger *ledger, const struct berth_digest *digest, struct berth_buf *data, struct berth_error *err)
{
	size_t before = data->size;
	if (!berth_store_get(ledger->store, LEDGER_BLOB, digest->bytes, BERTH_DIGEST_SIZE, data, err)) {
		return berth_error_wrap(err, "blob");
	}
	struct berth_digest found = berth_sha256(data->data + before, data->size - before);
	return memcmp(found.bytes, digest->bytes, BERTH_DIGEST_SIZE) == 0 ||
	       berth_fail(err, BERTH_ERROR_CORRUPT, "the stored blob is not the one of its digest");
}
