// SPDX-License-Identifier: Apache-2.0
// Inside coordinator/ledger only. On disk, below DATA/ledger:
//
//   log     sequence (8 bytes, big-endian)         the packed event, as it was decided
//   leaf    first sequence of a batch              the leaf hashes of that batch, one after the other
//   tree    level (1), start (8)                   the full subtree of 2^level leaves from leaf `start`; level >= 8
//   state   "ledger/head"                          sequence (8), leaf (32), root (32) of the last event
//           "ledger/marker"                        sequence (8) of the last whole checkpoint
//   row     record key, 0, place (0 or 1)          sequence of its checkpoint (8), the packed record
//   secret  job id                                 version (1), nonce (12), AES-256-GCM of the packed secrets, tag (16)
//   blob    SHA-256 of the value                   a small blob
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/store/store.h"
#include "coordinator/ledger/ledger.h"

#define LEDGER_KEY_SIZE         8
#define LEDGER_NODE_KEY_SIZE    9
#define LEDGER_STORED_LEVEL_MIN 8
#define LEDGER_HEAD_KEY         "ledger/head"
#define LEDGER_HEAD_SIZE        (8 + 2 * BERTH_DIGEST_SIZE)

enum ledger_family { LEDGER_LOG, LEDGER_LEAF, LEDGER_TREE, LEDGER_STATE, LEDGER_SECRET, LEDGER_ROW, LEDGER_BLOB };

struct ledger_floor { // the last event that was reported as committed
	uint64_t sequence;
	struct berth_digest leaf;
};

// Small subtrees that were made from their events: a fleet that comes back asks for the same few once for each agent.
// What is committed never changes, so neither do they.
#define LEDGER_NODES_KEPT 512
struct ledger_nodes {
	pthread_mutex_t lock; // guards what follows
	struct {
		bool filled;
		unsigned level;
		uint64_t start;
		struct berth_digest node;
	} kept[LEDGER_NODES_KEPT];
};

struct berth_ledger {
	char *data_folder;
	struct berth_store *store;
	int floor_fd;

	// The writer's.
	struct berth_store_batch *batch;
	size_t batch_bytes;
	struct berth_merkle tree;        // over committed events and those of the open batch
	struct berth_buf pending_leaves; // of the open batch
	uint64_t pending_first;          // sequence of the first of them
	struct berth_digest last_leaf;
	bool must_sync;          // the open batch holds secrets, or their removal
	uint64_t pending_marker; // of the open batch, 0: none

	// Any thread's, under the lock.
	pthread_mutex_t lock;
	struct berth_ledger_head head;
	uint64_t marker;

	struct ledger_nodes nodes;

	// Set once before any secret call.
	bool has_key;
	struct berth_digest seal_key;
	struct berth_digest digest_key;
};

void ledger_key(uint64_t sequence, uint8_t key[static LEDGER_KEY_SIZE]);
uint64_t ledger_key_sequence(const uint8_t key[static LEDGER_KEY_SIZE]);
void ledger_node_key(unsigned level, uint64_t start, uint8_t key[static LEDGER_NODE_KEY_SIZE]);

// Walks the log on from where the tree is (empty: from the start): fills the tree, the last leaf and the head, or says
// where the log is broken.
bool ledger_walk(struct berth_ledger *ledger, const struct ledger_floor *floor, struct berth_error *err);
bool ledger_read_marker(struct berth_ledger *ledger, struct berth_error *err);

// Reads the floor (sequence 0 where there is none that can be read) and keeps its file open.
bool ledger_floor_open(struct berth_ledger *ledger, struct ledger_floor *floor, struct berth_error *err);
void ledger_floor_set(struct berth_ledger *ledger, const struct ledger_floor *floor);

void ledger_wipe_keys(struct berth_ledger *ledger);
