// SPDX-License-Identifier: Apache-2.0
// Blobs between files and the coordinator's blob service. Each call goes on trying through cuts and restarts of the
// coordinator until it is done, refused, or `until` is over.
#pragma once

#include "berth/v1/blob.pb-c.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/rpc/client.h"

// Fetches into `path`, after what is there already, until it has the blob's size. The digest is the caller's to check.
bool transfer_get(struct berth_rpc_channel *channel, const Berth__V1__BlobRef *blob, const char *path,
	struct berth_until until, struct berth_error *err);
bool transfer_put(struct berth_rpc_channel *channel, const Berth__V1__BlobRef *blob, const char *path,
	struct berth_until until, struct berth_error *err);
bool transfer_digest_file(const char *path, struct berth_digest *digest, int64_t *size, struct berth_error *err);
