// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/statement.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/evidence/merkle.h"

struct berth_statement_group {
	struct berth_merkle tree;
	// nodes[i]: the full subtrees of 2^i statements, left to right. A path is made of these.
	struct berth_digest *nodes[BERTH_STATEMENT_PATH_MAX + 1];
};

struct berth_statement_group *berth_statement_group_new(void)
{
	struct berth_statement_group *group = berth_alloc(sizeof *group);
	for (unsigned level = 0; level <= BERTH_STATEMENT_PATH_MAX; level++) {
		group->nodes[level] = berth_alloc((BERTH_STATEMENT_GROUP_MAX >> level) * sizeof group->nodes[0][0]);
	}
	return group;
}

void berth_statement_group_free(struct berth_statement_group *group)
{
	for (unsigned level = 0; group && level <= BERTH_STATEMENT_PATH_MAX; level++) {
		free(group->nodes[level]);
	}
	free(group);
}

void berth_statement_group_add(struct berth_statement_group *group, const void *statement, size_t size)
{
	assert(group->tree.size < BERTH_STATEMENT_GROUP_MAX);
	struct berth_digest nodes[BERTH_MERKLE_LEVELS];
	struct berth_digest leaf = berth_merkle_leaf(statement, size);
	uint64_t index = group->tree.size;
	unsigned count = berth_merkle_add_nodes(&group->tree, &leaf, nodes);
	for (unsigned level = 0; level < count; level++) {
		group->nodes[level][index >> level] = nodes[level];
	}
}

size_t berth_statement_group_size(const struct berth_statement_group *group)
{
	return (size_t)group->tree.size;
}

static void root_text(struct berth_buf *text, const struct berth_digest *root, uint64_t size)
{
	char digest[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(root, digest);
	berth_buf_printf(text, "{\"root\":\"%s\",\"size\":%llu}", digest, (unsigned long long)size);
}

bool berth_statement_group_sign(const struct berth_statement_group *group, const struct berth_signing_key *key,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	struct berth_digest root = berth_merkle_root(&group->tree);
	root_text(&text, &root, group->tree.size);
	return berth_sign(key, BERTH_STATEMENTS_TYPE, text.data, text.size, signature, err);
}

static bool node_of(void *context, unsigned level, uint64_t start, struct berth_digest *node, struct berth_error *err)
{
	(void)err;
	const struct berth_statement_group *group = context;
	*node = group->nodes[level][start >> level];
	return true;
}

size_t berth_statement_group_path(const struct berth_statement_group *group, size_t index,
	struct berth_digest path[static BERTH_STATEMENT_PATH_MAX])
{
	struct berth_digest proof[BERTH_MERKLE_LEVELS + 1];
	size_t count = 0;
	if (!berth_merkle_inclusion(index, group->tree.size, node_of, (void *)group, proof, &count, NULL) ||
		count > BERTH_STATEMENT_PATH_MAX) {
		abort(); // the index is beyond the group
	}
	memcpy(path, proof, count * sizeof proof[0]);
	return count;
}

// --- checking ---

static bool is_checked(const struct berth_checked_group *checked, const struct berth_signed_statement *of,
	const struct berth_digest *root)
{
	// The signature too: with another one this result would be no proof for who checks it alone.
	return checked->size == of->group_size && berth_digest_equal(&checked->root, root) &&
	       of->signature_size == BERTH_SIGNATURE_SIZE &&
	       memcmp(checked->signature, of->signature, BERTH_SIGNATURE_SIZE) == 0;
}

static bool root_of(const struct berth_signed_statement *of, struct berth_digest *root, struct berth_error *err)
{
	struct berth_digest path[BERTH_STATEMENT_PATH_MAX];
	struct berth_digest leaf = berth_merkle_leaf(of->statement, of->size);
	bool fits = of->group_size >= 1 && of->group_size <= BERTH_STATEMENT_GROUP_MAX &&
	            of->path_size <= sizeof path && of->path_size % BERTH_DIGEST_SIZE == 0;
	size_t count = fits ? of->path_size / BERTH_DIGEST_SIZE : 0;
	for (size_t i = 0; i < count; i++) {
		memcpy(path[i].bytes, of->path + i * BERTH_DIGEST_SIZE, BERTH_DIGEST_SIZE);
	}
	if (!fits || !berth_merkle_inclusion_root(&leaf, of->index, of->group_size, path, count, root)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"a path of %zu bytes leads nowhere from statement %llu of a group of %llu", of->path_size,
			(unsigned long long)of->index, (unsigned long long)of->group_size);
	}
	return true;
}

bool berth_statement_verify(const void *public_der, size_t public_size, const struct berth_signed_statement *of,
	struct berth_checked_group *checked, struct berth_error *err)
{
	struct berth_digest root;
	if (!root_of(of, &root, err)) {
		return false;
	}
	if (is_checked(checked, of, &root)) {
		return true;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	root_text(&text, &root, of->group_size);
	if (!berth_verify(public_der, public_size, BERTH_STATEMENTS_TYPE, text.data, text.size, of->signature,
		    of->signature_size, err)) {
		return false;
	}
	checked->size = of->group_size;
	checked->root = root;
	memcpy(checked->signature, of->signature, BERTH_SIGNATURE_SIZE);
	return true;
}
