// SPDX-License-Identifier: Apache-2.0
// Content-addressed files below DATA/blobs: whole, synced and digest-checked, or not there. Thread-safe; everything
// here may block on the disk, so it runs on the blob port's threads.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/error.h"

#define BERTH_BLOB_SIZE_MAX  (INT64_C(8) * 1024 * 1024 * 1024)
#define BERTH_BLOB_CHUNK_MAX (1024 * 1024)
#define BERTH_BLOB_PIN_MS    (60 * 60 * 1000)

struct berth_blobs;
struct berth_blob_writer;

// Removes what unfinished writes left. disk_free_min_bytes as in the ledger.
struct berth_blobs *berth_blobs_open(const char *folder, int64_t disk_free_min_bytes, struct berth_error *err);
void berth_blobs_close(struct berth_blobs *blobs); // NULL is allowed

bool berth_blobs_has(struct berth_blobs *blobs, const struct berth_digest *digest, int64_t size);
// Keeps a blob (there or about to come) from berth_blobs_sweep for BERTH_BLOB_PIN_MS.
void berth_blobs_pin(struct berth_blobs *blobs, const struct berth_digest *digest);

// Pins the blob as well. One writer a digest: a second one waits until the first has finished (then *existed) or gone.
bool berth_blob_writer_open(struct berth_blobs *blobs, const struct berth_digest *digest, int64_t size,
	struct berth_blob_writer **writer, bool *existed, struct berth_error *err);
bool berth_blob_writer_add(struct berth_blob_writer *writer, const void *data, size_t size, struct berth_error *err);
// Checks size and digest (CORRUPT says which), syncs, and puts the blob in its place. Frees the writer either way.
bool berth_blob_writer_finish(struct berth_blob_writer *writer, struct berth_error *err);
void berth_blob_writer_abort(struct berth_blob_writer *writer); // NULL is allowed

// A descriptor at the start of the blob; the caller closes it. NOT_FOUND, or CORRUPT when the size differs.
int berth_blob_open_read(
	struct berth_blobs *blobs, const struct berth_digest *digest, int64_t size, struct berth_error *err);
// Every blob that is whole.
bool berth_blobs_each(struct berth_blobs *blobs,
	void (*visit)(void *context, const struct berth_digest *digest, int64_t size), void *context,
	struct berth_error *err);
// Removes every blob that keep() denies and no pin holds; *removed counts them.
bool berth_blobs_sweep(struct berth_blobs *blobs, bool (*keep)(void *context, const struct berth_digest *digest),
	void *context, uint64_t *removed, struct berth_error *err);
