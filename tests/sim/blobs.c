// SPDX-License-Identifier: Apache-2.0
// Blobs and bundles: every one that is asked for is there, and a transfer takes its time, or fails and goes on when the
// coordinator is away. Their own paths are tested elsewhere; here they are the time that passes.
#include <stdlib.h>
#include <string.h>

#include "agent/session/bundles.h"
#include "agent/session/transfer.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "coordinator/blob/blob.h"
#include "tests/sim/blobs.h"
#include "tests/sim/sched.h"

#define TRANSFER_MS_MOST 1500

static struct {
	struct sim_random random;
	bool (*reachable)(void);
} blobs;

void sim_blobs_begin(uint64_t seed, bool (*reachable)(void))
{
	blobs.random = sim_random_stream(seed, SIM_STREAM_WORLD + 200);
	blobs.reachable = reachable;
}

static bool transfer(struct berth_until until, const char *what, struct berth_error *err)
{
	do {
		if (!berth_sleep_ms(sim_random_between(&blobs.random, 5, TRANSFER_MS_MOST), until, NULL)) {
			return berth_fail_until(until, err, what);
		}
	} while (!blobs.reachable());
	return true;
}

// --- agent/session/transfer.h and bundles.h ---
bool transfer_put(struct berth_rpc_channel *channel, const Berth__V1__BlobRef *blob, const char *path,
	struct berth_until until, struct berth_error *err)
{
	(void)channel, (void)blob, (void)path;
	return transfer(until, "the upload of a result", err);
}

struct bundles *bundles_open(
	const char *folder, int64_t bytes_max, struct berth_rpc_channel *channel, struct berth_error *err)
{
	(void)folder, (void)bytes_max, (void)channel, (void)err;
	return berth_alloc(1);
}

void bundles_close(struct bundles *bundles)
{
	free(bundles);
}

char *bundles_hold(
	struct bundles *bundles, const Berth__V1__BlobRef *blob, struct berth_until until, struct berth_error *err)
{
	(void)bundles, (void)blob;
	return transfer(until, "the fetch of a bundle", err) ? berth_strdup("/bundle") : NULL;
}

void bundles_release(struct bundles *bundles, const Berth__V1__BlobRef *blob)
{
	(void)bundles, (void)blob;
}

// --- coordinator/blob/blob.h ---
struct berth_blobs *berth_blobs_open(const char *folder, int64_t disk_free_min_bytes, struct berth_error *err)
{
	(void)folder, (void)disk_free_min_bytes, (void)err;
	return berth_alloc(1);
}

void berth_blobs_close(struct berth_blobs *store)
{
	free(store);
}

bool berth_blobs_has(struct berth_blobs *store, const struct berth_digest *digest, int64_t size)
{
	(void)store, (void)digest, (void)size;
	return true;
}

void berth_blobs_pin(struct berth_blobs *store, const struct berth_digest *digest)
{
	(void)store, (void)digest;
}

static bool has_no_content(struct berth_error *err)
{
	return berth_fail(err, BERTH_ERROR_UNSUPPORTED, "simulated blobs have no content");
}

bool berth_blob_writer_open(struct berth_blobs *store, const struct berth_digest *digest, int64_t size,
	struct berth_blob_writer **writer, bool *existed, struct berth_error *err)
{
	(void)store, (void)digest, (void)size, (void)writer, (void)existed;
	return has_no_content(err);
}

bool berth_blob_writer_add(struct berth_blob_writer *writer, const void *data, size_t size, struct berth_error *err)
{
	(void)writer, (void)data, (void)size;
	return has_no_content(err);
}

bool berth_blob_writer_finish(struct berth_blob_writer *writer, struct berth_error *err)
{
	(void)writer;
	return has_no_content(err);
}

void berth_blob_writer_abort(struct berth_blob_writer *writer)
{
	(void)writer;
}

int berth_blob_open_read(
	struct berth_blobs *store, const struct berth_digest *digest, int64_t size, struct berth_error *err)
{
	(void)store, (void)digest, (void)size;
	has_no_content(err);
	return -1;
}

bool berth_blobs_each(struct berth_blobs *store,
	void (*visit)(void *context, const struct berth_digest *digest, int64_t size), void *context,
	struct berth_error *err)
{
	(void)store, (void)visit, (void)context, (void)err;
	return true;
}
