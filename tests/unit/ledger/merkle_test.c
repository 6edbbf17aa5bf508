// SPDX-License-Identifier: Apache-2.0
// RFC 6962, section 2.1, once more: as the text says it, by plain recursion over all leaves.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/evidence/merkle.h"
#include "tests/support/test.h"

#define SIZE_MAX_TESTED 130
#define PROOF_MAX       (BERTH_MERKLE_LEVELS + 1)

static struct berth_digest leaves[SIZE_MAX_TESTED];

static int make_leaves(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < SIZE_MAX_TESTED; i++) {
		leaves[i] = berth_merkle_leaf(&i, (size_t)(i % 9));
		leaves[i].bytes[0] = (uint8_t)i;
	}
	return 0;
}

static struct berth_digest plain_hash(const uint8_t *left, const uint8_t *right)
{
	struct berth_hasher *hasher = berth_hasher_new();
	berth_hasher_add(hasher, "\x01", 1);
	berth_hasher_add(hasher, left, BERTH_DIGEST_SIZE);
	berth_hasher_add(hasher, right, BERTH_DIGEST_SIZE);
	return berth_hasher_finish(hasher);
}

static size_t plain_split(size_t n)
{
	size_t k = 1;
	while (2 * k < n) {
		k *= 2;
	}
	return k;
}

static struct berth_digest plain_root(const struct berth_digest *from, size_t n)
{
	if (n == 0) {
		return berth_sha256("", 0);
	}
	if (n == 1) {
		return from[0];
	}
	size_t k = plain_split(n);
	struct berth_digest left = plain_root(from, k);
	struct berth_digest right = plain_root(from + k, n - k);
	return plain_hash(left.bytes, right.bytes);
}

static size_t plain_path(size_t m, const struct berth_digest *from, size_t n, struct berth_digest *out)
{
	if (n == 1) {
		return 0;
	}
	size_t k = plain_split(n);
	if (m < k) {
		size_t count = plain_path(m, from, k, out);
		out[count] = plain_root(from + k, n - k);
		return count + 1;
	}
	size_t count = plain_path(m - k, from + k, n - k, out);
	out[count] = plain_root(from, k);
	return count + 1;
}

static size_t plain_subproof(size_t m, const struct berth_digest *from, size_t n, bool whole, struct berth_digest *out)
{
	if (m == n) {
		if (!whole) {
			out[0] = plain_root(from, n);
		}
		return whole ? 0 : 1;
	}
	size_t k = plain_split(n);
	if (m <= k) {
		size_t count = plain_subproof(m, from, k, whole, out);
		out[count] = plain_root(from + k, n - k);
		return count + 1;
	}
	size_t count = plain_subproof(m - k, from + k, n - k, false, out);
	out[count] = plain_root(from, k);
	return count + 1;
}

static bool node(void *context, unsigned level, uint64_t start, struct berth_digest *hash, struct berth_error *err)
{
	size_t size = *(size_t *)context;
	size_t width = (size_t)1 << level;
	if (start % width != 0 || start + width > size) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "asked for a subtree that is not full");
	}
	*hash = plain_root(leaves + start, width);
	return true;
}

static void the_published_roots_of_eight_leaves_come_out(void **state)
{
	(void)state;
	static const struct {
		const char *data;
		size_t size;
		const char *root;
	} steps[] = {
		{"", 0, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
		{"\x00", 1, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"},
		{"\x10", 1, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"},
		{"\x20\x21", 2, "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"},
		{"\x30\x31", 2, "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"},
		{"\x40\x41\x42\x43", 4, "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"},
		{"\x50\x51\x52\x53\x54\x55\x56\x57", 8,
			"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"},
		{"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f", 16,
			"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"},
	};
	struct berth_merkle tree = {0};
	char hex[BERTH_DIGEST_HEX_SIZE];
	for (size_t i = 0; i < BERTH_COUNT(steps); i++) {
		struct berth_digest leaf = berth_merkle_leaf(steps[i].data, steps[i].size);
		berth_merkle_add(&tree, &leaf);
		struct berth_digest root = berth_merkle_root(&tree);
		berth_digest_hex(&root, hex);
		assert_string_equal(hex, steps[i].root);
	}
}

static void the_empty_tree_is_the_hash_of_nothing(void **state)
{
	(void)state;
	struct berth_merkle tree = {0};
	struct berth_digest root = berth_merkle_root(&tree);
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&root, hex);
	assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void a_leaf_of_any_size_is_hashed_with_its_prefix(void **state)
{
	(void)state;
	static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000};
	uint8_t *text = berth_alloc(100001);
	for (size_t i = 0; i < BERTH_COUNT(sizes); i++) {
		memset(text + 1, (int)i, sizes[i]);
		struct berth_digest wanted = berth_sha256(text, 1 + sizes[i]);
		struct berth_digest leaf = berth_merkle_leaf(text + 1, sizes[i]);
		assert_memory_equal(leaf.bytes, wanted.bytes, BERTH_DIGEST_SIZE);
	}
	free(text);
}

static void the_edge_gives_the_same_root_and_nodes_as_recursion(void **state)
{
	(void)state;
	struct berth_merkle tree = {0};
	for (size_t n = 1; n <= SIZE_MAX_TESTED; n++) {
		struct berth_digest nodes[BERTH_MERKLE_LEVELS];
		unsigned levels = berth_merkle_add_nodes(&tree, &leaves[n - 1], nodes);
		assert_int_equal(levels, __builtin_ctzll(n) + 1);
		for (unsigned level = 0; level < levels; level++) {
			size_t width = (size_t)1 << level;
			struct berth_digest wanted = plain_root(leaves + n - width, width);
			assert_memory_equal(nodes[level].bytes, wanted.bytes, BERTH_DIGEST_SIZE);
		}
		struct berth_digest root = berth_merkle_root(&tree);
		struct berth_digest wanted = plain_root(leaves, n);
		assert_memory_equal(root.bytes, wanted.bytes, BERTH_DIGEST_SIZE);
	}
}

static void every_inclusion_proof_is_the_path_of_the_rfc_and_verifies(void **state)
{
	(void)state;
	struct berth_error err;
	for (size_t n = 1; n <= SIZE_MAX_TESTED; n++) {
		struct berth_digest root = plain_root(leaves, n);
		for (size_t m = 0; m < n; m++) {
			struct berth_digest wanted[PROOF_MAX];
			struct berth_digest proof[PROOF_MAX];
			size_t count = 0;
			size_t wanted_count = plain_path(m, leaves, n, wanted);
			assert_ok(berth_merkle_inclusion(m, n, node, &n, proof, &count, &err), err);
			assert_int_equal(count, wanted_count);
			assert_memory_equal(proof, wanted, count * BERTH_DIGEST_SIZE);
			assert_true(berth_merkle_verify_inclusion(&leaves[m], m, n, proof, count, &root));
		}
	}
}

static void every_consistency_proof_is_the_subproof_of_the_rfc_and_verifies(void **state)
{
	(void)state;
	struct berth_error err;
	for (size_t n = 1; n <= SIZE_MAX_TESTED; n++) {
		struct berth_digest root = plain_root(leaves, n);
		for (size_t m = 1; m <= n; m++) {
			struct berth_digest old_root = plain_root(leaves, m);
			struct berth_digest wanted[PROOF_MAX];
			struct berth_digest proof[PROOF_MAX];
			size_t count = 0;
			size_t wanted_count = plain_subproof(m, leaves, n, true, wanted);
			assert_ok(berth_merkle_consistency(m, n, node, &n, proof, &count, &err), err);
			assert_int_equal(count, wanted_count);
			assert_memory_equal(proof, wanted, count * BERTH_DIGEST_SIZE);
			assert_true(berth_merkle_verify_consistency(m, &old_root, n, &root, proof, count));
		}
	}
}

static void a_wrong_inclusion_proof_is_refused(void **state)
{
	(void)state;
	struct berth_error err;
	for (size_t n = 2; n <= 40; n++) {
		struct berth_digest root = plain_root(leaves, n);
		for (size_t m = 0; m < n; m++) {
			struct berth_digest proof[PROOF_MAX];
			size_t count = 0;
			assert_ok(berth_merkle_inclusion(m, n, node, &n, proof, &count, &err), err);
			assert_false(berth_merkle_verify_inclusion(&leaves[m], m, n, proof, count - 1, &root));
			assert_false(berth_merkle_verify_inclusion(&leaves[m], m, n, proof, count + 1, &root));
			assert_false(berth_merkle_verify_inclusion(&leaves[(m + 1) % n], m, n, proof, count, &root));
			assert_false(berth_merkle_verify_inclusion(&leaves[m], n, n, proof, count, &root));
			for (size_t i = 0; i < count; i++) {
				proof[i].bytes[31] ^= 1;
				assert_false(berth_merkle_verify_inclusion(&leaves[m], m, n, proof, count, &root));
				proof[i].bytes[31] ^= 1;
			}
			for (size_t other = 0; other < n; other++) {
				bool fits = berth_merkle_verify_inclusion(&leaves[m], other, n, proof, count, &root);
				assert_int_equal(fits, other == m);
			}
		}
	}
}

static void a_wrong_consistency_proof_is_refused(void **state)
{
	(void)state;
	struct berth_error err;
	for (size_t n = 2; n <= 40; n++) {
		struct berth_digest root = plain_root(leaves, n);
		for (size_t m = 1; m < n; m++) {
			struct berth_digest old_root = plain_root(leaves, m);
			struct berth_digest proof[PROOF_MAX];
			size_t count = 0;
			assert_ok(berth_merkle_consistency(m, n, node, &n, proof, &count, &err), err);
			assert_false(berth_merkle_verify_consistency(m, &root, n, &root, proof, count));
			assert_false(berth_merkle_verify_consistency(m, &old_root, n, &old_root, proof, count));
			assert_false(berth_merkle_verify_consistency(m, &old_root, n, &root, proof, count - 1));
			assert_false(berth_merkle_verify_consistency(n, &old_root, m, &root, proof, count));
			for (size_t i = 0; i < count; i++) {
				proof[i].bytes[0] ^= 1;
				assert_false(berth_merkle_verify_consistency(m, &old_root, n, &root, proof, count));
				proof[i].bytes[0] ^= 1;
			}
		}
	}
}

static void proofs_about_the_empty_and_the_equal_tree_are_empty(void **state)
{
	(void)state;
	struct berth_error err;
	struct berth_digest proof[PROOF_MAX];
	size_t n = 5;
	size_t count = 9;
	struct berth_digest nothing = berth_sha256("", 0);
	struct berth_digest root = plain_root(leaves, n);
	assert_ok(berth_merkle_consistency(0, n, node, &n, proof, &count, &err), err);
	assert_int_equal(count, 0);
	assert_true(berth_merkle_verify_consistency(0, &nothing, n, &root, NULL, 0));
	assert_false(berth_merkle_verify_consistency(0, &root, n, &root, NULL, 0));
	assert_true(berth_merkle_verify_consistency(n, &root, n, &root, NULL, 0));
	assert_false(berth_merkle_verify_consistency(n, &nothing, n, &root, NULL, 0));
}

static void proofs_outside_the_tree_are_invalid(void **state)
{
	(void)state;
	struct berth_error err;
	struct berth_digest proof[PROOF_MAX];
	size_t n = 5;
	size_t count = 0;
	assert_fails(
		berth_merkle_inclusion(5, n, node, &n, proof, &count, &err), err, BERTH_ERROR_INVALID, "no leaf 5");
	assert_fails(
		berth_merkle_consistency(6, n, node, &n, proof, &count, &err), err, BERTH_ERROR_INVALID, "never had 6");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_published_roots_of_eight_leaves_come_out),
	cmocka_unit_test(the_empty_tree_is_the_hash_of_nothing),
	cmocka_unit_test(a_leaf_of_any_size_is_hashed_with_its_prefix),
	cmocka_unit_test(the_edge_gives_the_same_root_and_nodes_as_recursion),
	cmocka_unit_test(every_inclusion_proof_is_the_path_of_the_rfc_and_verifies),
	cmocka_unit_test(every_consistency_proof_is_the_subproof_of_the_rfc_and_verifies),
	cmocka_unit_test(a_wrong_inclusion_proof_is_refused),
	cmocka_unit_test(a_wrong_consistency_proof_is_refused),
	cmocka_unit_test(proofs_about_the_empty_and_the_equal_tree_are_empty),
	cmocka_unit_test(proofs_outside_the_tree_are_invalid),
};

int main(void)
{
	return cmocka_run_group_tests_name(__FILE__, tests, make_leaves, NULL) != 0;
}
