// SPDX-License-Identifier: Apache-2.0
// RFC 6962 Merkle tree, grown a leaf at a time: hashes, roots, inclusion and consistency proofs (sections 2.1, 2.1.1,
// 2.1.2). Pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/error.h"

#define BERTH_MERKLE_LEVELS 64

struct berth_digest berth_merkle_leaf(const void *data, size_t size); // SHA-256(0x00 || data)

// The right edge of a tree: all that growing it and taking its root needs.
struct berth_merkle {
	uint64_t size;
	struct berth_digest
		edge[BERTH_MERKLE_LEVELS]; // edge[i]: full subtree of 2^i leaves, where bit i of size is set
};
void berth_merkle_add(struct berth_merkle *tree, const struct berth_digest *leaf);
// The same, and tells the full subtrees that the leaf completed: nodes[i] has 2^i leaves and ends with this one.
// Returns how many, at least 1 (the leaf itself).
unsigned berth_merkle_add_nodes(struct berth_merkle *tree, const struct berth_digest *leaf,
	struct berth_digest nodes[static BERTH_MERKLE_LEVELS]);
struct berth_digest berth_merkle_pair(const struct berth_digest *left, const struct berth_digest *right);
struct berth_digest berth_merkle_root(const struct berth_merkle *tree); // of the empty tree: SHA-256 of nothing

// The hash of the full subtree of 2^level leaves that starts at leaf `start`; what proofs are made of.
typedef bool (*berth_merkle_node_fn)(
	void *context, unsigned level, uint64_t start, struct berth_digest *node, struct berth_error *err);

// Proofs hold at most BERTH_MERKLE_LEVELS + 1 hashes; `proof` has that room.
bool berth_merkle_inclusion(uint64_t index, uint64_t size, berth_merkle_node_fn node, void *context,
	struct berth_digest *proof, size_t *count, struct berth_error *err);
bool berth_merkle_consistency(uint64_t old_size, uint64_t size, berth_merkle_node_fn node, void *context,
	struct berth_digest *proof, size_t *count, struct berth_error *err);
// The root that a leaf and its proof give; false when a proof of this length leads to none.
bool berth_merkle_inclusion_root(const struct berth_digest *leaf, uint64_t index, uint64_t size,
	const struct berth_digest *proof, size_t count, struct berth_digest *root);
bool berth_merkle_verify_inclusion(const struct berth_digest *leaf, uint64_t index, uint64_t size,
	const struct berth_digest *proof, size_t count, const struct berth_digest *root);
bool berth_merkle_verify_consistency(uint64_t old_size, const struct berth_digest *old_root, uint64_t size,
	const struct berth_digest *root, const struct berth_digest *proof, size_t count);
