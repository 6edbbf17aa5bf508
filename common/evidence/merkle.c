// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/merkle.h"

#include <string.h>

#define LEAF_PREFIX      0x00
#define NODE_PREFIX      0x01
#define SMALL_LEAF_BYTES 4096

struct berth_digest berth_merkle_leaf(const void *data, size_t size)
{
	uint8_t text[1 + SMALL_LEAF_BYTES] = {LEAF_PREFIX};
	// One call of the hash for what nearly every event is; the others are not worth a copy.
	if (size <= SMALL_LEAF_BYTES) {
		if (size) {
			memcpy(text + 1, data, size);
		}
		return berth_sha256(text, 1 + size);
	}
	struct berth_hasher *hasher = berth_hasher_new();
	berth_hasher_add(hasher, text, 1);
	berth_hasher_add(hasher, data, size);
	return berth_hasher_finish(hasher);
}

struct berth_digest berth_merkle_pair(const struct berth_digest *left, const struct berth_digest *right)
{
	uint8_t text[1 + 2 * BERTH_DIGEST_SIZE] = {NODE_PREFIX};
	memcpy(text + 1, left->bytes, BERTH_DIGEST_SIZE);
	memcpy(text + 1 + BERTH_DIGEST_SIZE, right->bytes, BERTH_DIGEST_SIZE);
	return berth_sha256(text, sizeof text);
}

unsigned berth_merkle_add_nodes(struct berth_merkle *tree, const struct berth_digest *leaf,
	struct berth_digest nodes[static BERTH_MERKLE_LEVELS])
{
	unsigned level = 0;
	nodes[0] = *leaf;
	for (uint64_t carry = tree->size; carry & 1; carry >>= 1) {
		nodes[level + 1] = berth_merkle_pair(&tree->edge[level], &nodes[level]);
		level++;
	}
	tree->edge[level] = nodes[level];
	tree->size++;
	return level + 1;
}

void berth_merkle_add(struct berth_merkle *tree, const struct berth_digest *leaf)
{
	struct berth_digest nodes[BERTH_MERKLE_LEVELS];
	berth_merkle_add_nodes(tree, leaf, nodes);
}

struct berth_digest berth_merkle_root(const struct berth_merkle *tree)
{
	if (tree->size == 0) {
		return berth_sha256("", 0);
	}
	unsigned level = (unsigned)__builtin_ctzll(tree->size);
	struct berth_digest root = tree->edge[level];
	for (level++; level < BERTH_MERKLE_LEVELS; level++) {
		if (tree->size >> level & 1) {
			root = berth_merkle_pair(&tree->edge[level], &root);
		}
	}
	return root;
}
