// SPDX-License-Identifier: Apache-2.0
// The event log on disk: appended in batches, one sync a batch, under one Merkle tree; and beside it the families that
// are not events (secrets, state rows, small blobs).
//
// One writer thread appends and commits; any thread reads committed events. After a failed commit the ledger takes no
// more: the process ends and starts again from what the disk has.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/evidence/merkle.h"

#define BERTH_EVENT_SIZE_MAX (64 * 1024 * 1024)

struct berth_ledger;

struct berth_ledger_options {
	// The watermark: below it nothing is opened or granted, and what runs may still end.
	int64_t disk_free_min_bytes;
	int64_t ballast_bytes;
	// Drop what a power cut left damaged at the log's end (common/store). What was committed is missed by the floor
	// and by every agent that saw it.
	bool cut_tail;
};

// Opens or makes DATA/ledger, and walks the log after the marker once: every sequence in its place, every stored
// event's leaf recomputed into the tree and compared with the leaf that was written with it, and the root with the
// stored head. CORRUPT names the sequence where it is broken. What is before the marker is taken by its stored
// subtrees; berth_ledger_verify walks it too.
//
// DATA/ledger.floor holds, unsynced, the last event that was reported as committed: a log that ends before it has lost
// its tail and is refused. Who restores an older copy on purpose removes that file.
struct berth_ledger *berth_ledger_open(
	const char *data_folder, const struct berth_ledger_options *options, struct berth_error *err);
void berth_ledger_close(struct berth_ledger *ledger); // NULL is allowed

// Every committed event from sequence `from` on, in order, until visit returns false with err set.
bool berth_ledger_replay(struct berth_ledger *ledger, uint64_t from,
	bool (*visit)(void *context, uint64_t sequence, const void *event, size_t size, struct berth_error *err),
	void *context, struct berth_error *err);

// Walks the log from its first event, as an open without a marker does. Before anything is appended.
bool berth_ledger_verify(struct berth_ledger *ledger, struct berth_error *err);

// Adds a packed event to the open batch; its sequence is the one that `sequence` says and must be the next.
bool berth_ledger_append(
	struct berth_ledger *ledger, uint64_t sequence, const void *event, size_t size, struct berth_error *err);
// Into the same batch: secrets of a job, sealed with AES-256-GCM under the store's key, and their removal.
bool berth_ledger_put_secrets(
	struct berth_ledger *ledger, const char *job_id, const void *packed, size_t size, struct berth_error *err);
void berth_ledger_drop_secrets(struct berth_ledger *ledger, const char *job_id);
// Into the same batch: a small blob that one of its events names. `digest` is that of its bytes.
void berth_ledger_put_blob(
	struct berth_ledger *ledger, const struct berth_digest *digest, const void *data, size_t size);
// Writes the batch, and syncs it unless it holds records alone (those can be made again). An empty batch costs nothing.
// EXHAUSTED below a quarter of the watermark: nothing was written, the batch is whole and may be tried again. Any other
// failure is final.
bool berth_ledger_commit(struct berth_ledger *ledger, struct berth_error *err);
// Gives the disk back what was held for an orderly end.
void berth_ledger_release_ballast(struct berth_ledger *ledger);

// A copy of what is committed, in a missing folder on the same file system. Any thread; appending goes on meanwhile.
bool berth_ledger_copy(struct berth_ledger *ledger, const char *folder, struct berth_error *err);

// --- state records (coordinator/core makes them): written behind the log ---
// Into the open batch: a record of a checkpoint, at one of its two places; and that the checkpoint is whole.
void berth_ledger_put_row(struct berth_ledger *ledger, uint64_t checkpoint, const char *key, unsigned slot,
	const void *value, size_t size);
void berth_ledger_put_marker(struct berth_ledger *ledger, uint64_t checkpoint);
// Sequence of the last whole checkpoint that is committed; 0: none. Any thread, and below.
uint64_t berth_ledger_marker(struct berth_ledger *ledger);
typedef bool berth_ledger_row_visit(void *context, const char *key, unsigned slot, const void *value, size_t size);
// Records as of the marker whose key starts with `prefix` and comes after `after` (NULL: all), by key.
bool berth_ledger_rows(struct berth_ledger *ledger, const char *prefix, const char *after,
	berth_ledger_row_visit *visit, void *context, struct berth_error *err);
bool berth_ledger_row(struct berth_ledger *ledger, const char *key, struct berth_buf *value, struct berth_error *err);

struct berth_ledger_head {
	uint64_t sequence; // of the last committed event; 0: none
	struct berth_digest leaf;
	struct berth_digest root; // of the tree over every committed event
};
struct berth_ledger_head berth_ledger_head(struct berth_ledger *ledger); // any thread
// The head as it was after an earlier event. Any thread. NOT_FOUND beyond the last one.
bool berth_ledger_head_at(
	struct berth_ledger *ledger, uint64_t sequence, struct berth_ledger_head *head, struct berth_error *err);
uint64_t berth_ledger_next(const struct berth_ledger *ledger); // writer: next sequence to append

// Any thread. NOT_FOUND for a sequence that is not committed.
bool berth_ledger_read(
	struct berth_ledger *ledger, uint64_t sequence, struct berth_buf *event, struct berth_error *err);
bool berth_ledger_leaf(
	struct berth_ledger *ledger, uint64_t sequence, struct berth_digest *leaf, struct berth_error *err);
// The node function of proofs over the committed log (`ledger` is the struct berth_ledger *); any thread. Subtrees of
// 256 leaves and more are stored, smaller ones are made from their events.
bool berth_ledger_node(
	void *ledger, unsigned level, uint64_t start, struct berth_digest *node, struct berth_error *err);
// Appends the bytes of a blob that was put so. NOT_FOUND without one, CORRUPT when they are not its bytes.
bool berth_ledger_get_blob(struct berth_ledger *ledger, const struct berth_digest *digest, struct berth_buf *data,
	struct berth_error *err);
bool berth_ledger_has_blob(struct berth_ledger *ledger, const struct berth_digest *digest);
// Opens the seal; the caller wipes `packed`. NOT_FOUND when the job has none (any more).
bool berth_ledger_get_secrets(
	struct berth_ledger *ledger, const char *job_id, struct berth_buf *packed, struct berth_error *err);

// The key of seals and keyed digests: 32 bytes in a file outside the data folder, mode 0600, made when missing. Before
// any secret call.
bool berth_ledger_set_secret_key_file(struct berth_ledger *ledger, const char *path, struct berth_error *err);
struct berth_digest berth_ledger_keyed_digest(const struct berth_ledger *ledger, const void *data, size_t size);
// EXHAUSTED when the data disk is below its watermark: what granting and submitting ask first.
bool berth_ledger_disk_ok(struct berth_ledger *ledger, struct berth_error *err);
