// SPDX-License-Identifier: Apache-2.0
// Task bundles, fetched once and kept unpacked: FOLDER/<digest>/ each. Trials that need one bundle at a time wait for
// one fetch; what no trial uses is removed, least recently used first, when all together are above the bound.
//
// Any thread. A fetch that was cut goes on where it stopped, also after a restart of the agent.
#pragma once

#include "berth/v1/blob.pb-c.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/rpc/client.h"

struct bundles;

#define BUNDLE_BYTES_MAX   (INT64_C(8) * 1024 * 1024 * 1024) // of content
#define BUNDLE_ENTRIES_MAX 1000000

// `channel` outlives the cache.
struct bundles *bundles_open(
	const char *folder, int64_t bytes_max, struct berth_rpc_channel *channel, struct berth_error *err);
void bundles_close(struct bundles *bundles); // NULL is allowed

// The folder of an unpacked bundle, which stays until bundles_release; the caller frees the name. CORRUPT when what the
// coordinator sends does not have the digest, NOT_FOUND when it does not have it.
char *bundles_hold(
	struct bundles *bundles, const Berth__V1__BlobRef *blob, struct berth_until until, struct berth_error *err);
void bundles_release(struct bundles *bundles, const Berth__V1__BlobRef *blob);
