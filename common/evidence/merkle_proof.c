// SPDX-License-Identifier: Apache-2.0
// Proofs: made by walking down from the root, so in reverse, and checked by walking up.
#include "common/evidence/merkle.h"

struct proof {
	berth_merkle_node_fn node;
	void *context;
	struct berth_digest *hashes;
	size_t count;
	struct berth_error *err;
};

// The largest power of two below n; n > 1.
static uint64_t split(uint64_t n)
{
	return UINT64_C(1) << (63 - __builtin_clzll(n - 1));
}

// The hash of leaves [start, start + size), from the full subtrees that make it up, right to left.
static bool add_range(struct proof *proof, uint64_t start, uint64_t size)
{
	struct berth_digest hash = {{0}};
	bool first = true;
	uint64_t end = start + size;
	for (unsigned level = 0; level < BERTH_MERKLE_LEVELS; level++) {
		if (!(size >> level & 1)) {
			continue;
		}
		struct berth_digest left;
		end -= UINT64_C(1) << level;
		if (!proof->node(proof->context, level, end, &left, proof->err)) {
			return false;
		}
		hash = first ? left : berth_merkle_pair(&left, &hash);
		first = false;
	}
	proof->hashes[proof->count++] = hash;
	return true;
}

static void turn_round(struct proof *proof, size_t *count)
{
	for (size_t i = 0; i < proof->count / 2; i++) {
		struct berth_digest kept = proof->hashes[i];
		proof->hashes[i] = proof->hashes[proof->count - 1 - i];
		proof->hashes[proof->count - 1 - i] = kept;
	}
	*count = proof->count;
}

bool berth_merkle_inclusion(uint64_t index, uint64_t size, berth_merkle_node_fn node, void *context,
	struct berth_digest *hashes, size_t *count, struct berth_error *err)
{
	if (index >= size) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a tree of %llu leaves has no leaf %llu",
			(unsigned long long)size, (unsigned long long)index);
	}
	struct proof proof = {.node = node, .context = context, .hashes = hashes, .err = err};
	uint64_t start = 0;
	while (size > 1) {
		uint64_t left = split(size);
		bool goes_left = index - start < left;
		if (!(goes_left ? add_range(&proof, start + left, size - left) : add_range(&proof, start, left))) {
			return false;
		}
		start += goes_left ? 0 : left;
		size = goes_left ? left : size - left;
	}
	turn_round(&proof, count);
	return true;
}

bool berth_merkle_consistency(uint64_t old_size, uint64_t size, berth_merkle_node_fn node, void *context,
	struct berth_digest *hashes, size_t *count, struct berth_error *err)
{
	if (old_size > size) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a tree of %llu leaves never had %llu",
			(unsigned long long)size, (unsigned long long)old_size);
	}
	struct proof proof = {.node = node, .context = context, .hashes = hashes, .err = err};
	uint64_t start = 0;
	uint64_t old_end = old_size;
	while (old_size > 0 && start + size != old_end) {
		uint64_t left = split(size);
		bool goes_left = old_end - start <= left;
		if (!(goes_left ? add_range(&proof, start + left, size - left) : add_range(&proof, start, left))) {
			return false;
		}
		start += goes_left ? 0 : left;
		size = goes_left ? left : size - left;
	}
	// An old tree that is one full subtree from the start is its own old root, which the verifier has.
	if (start > 0 && !add_range(&proof, start, size)) {
		return false;
	}
	turn_round(&proof, count);
	return true;
}

bool berth_merkle_inclusion_root(const struct berth_digest *leaf, uint64_t index, uint64_t size,
	const struct berth_digest *proof, size_t count, struct berth_digest *root)
{
	if (index >= size) {
		return false;
	}
	struct berth_digest hash = *leaf;
	uint64_t last = size - 1;
	for (size_t i = 0; i < count; i++) {
		if (last == 0) {
			return false;
		}
		if (index & 1 || index == last) {
			hash = berth_merkle_pair(&proof[i], &hash);
			for (; index && !(index & 1); index >>= 1) {
				last >>= 1;
			}
		} else {
			hash = berth_merkle_pair(&hash, &proof[i]);
		}
		index >>= 1;
		last >>= 1;
	}
	*root = hash;
	return last == 0;
}

bool berth_merkle_verify_inclusion(const struct berth_digest *leaf, uint64_t index, uint64_t size,
	const struct berth_digest *proof, size_t count, const struct berth_digest *root)
{
	struct berth_digest made;
	return berth_merkle_inclusion_root(leaf, index, size, proof, count, &made) && berth_digest_equal(&made, root);
}

static bool climb(uint64_t index, uint64_t last, const struct berth_digest *seed, const struct berth_digest *proof,
	size_t count, const struct berth_digest *old_root, const struct berth_digest *root)
{
	struct berth_digest old_hash = *seed;
	struct berth_digest hash = *seed;
	for (; index & 1; index >>= 1) {
		last >>= 1;
	}
	for (size_t i = 0; i < count; i++) {
		if (last == 0) {
			return false;
		}
		if (index & 1 || index == last) {
			old_hash = berth_merkle_pair(&proof[i], &old_hash);
			hash = berth_merkle_pair(&proof[i], &hash);
			for (; index && !(index & 1); index >>= 1) {
				last >>= 1;
			}
		} else {
			hash = berth_merkle_pair(&hash, &proof[i]);
		}
		index >>= 1;
		last >>= 1;
	}
	return last == 0 && berth_digest_equal(&old_hash, old_root) && berth_digest_equal(&hash, root);
}

bool berth_merkle_verify_consistency(uint64_t old_size, const struct berth_digest *old_root, uint64_t size,
	const struct berth_digest *root, const struct berth_digest *proof, size_t count)
{
	if (old_size > size) {
		return false;
	}
	if (old_size == size) {
		return count == 0 && berth_digest_equal(old_root, root);
	}
	if (old_size == 0) {
		struct berth_digest nothing = berth_sha256("", 0);
		return count == 0 && berth_digest_equal(old_root, &nothing);
	}
	bool is_full = (old_size & (old_size - 1)) == 0;
	if (is_full) {
		return climb(old_size - 1, size - 1, old_root, proof, count, old_root, root);
	}
	return count > 0 && climb(old_size - 1, size - 1, &proof[0], proof + 1, count - 1, old_root, root);
}
