// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/heads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/evidence/incarnation.h"
#include "common/evidence/restore.h"

struct berth_heads {
	char *fleet;
	struct berth_signing_key *key; // NULL: heads are not signed
	uint8_t *der;
	size_t der_size;
	char *pem;
	pthread_mutex_t lock; // guards the newest head that was signed
	struct berth_signed_head newest;
};

static bool take_key(struct berth_heads *heads, const char *key_file, struct berth_error *err)
{
	heads->key = berth_signing_key_open(key_file, err);
	if (!heads->key || !berth_signing_key_public(heads->key, &heads->der, &heads->der_size, err)) {
		return false;
	}
	heads->pem = berth_public_key_pem(heads->der, heads->der_size, err);
	return heads->pem != NULL;
}

struct berth_heads *berth_heads_new(const char *fleet, const char *key_file, struct berth_error *err)
{
	struct berth_heads *heads = berth_alloc(sizeof *heads);
	heads->fleet = berth_strdup(fleet);
	pthread_mutex_init(&heads->lock, NULL);
	if (key_file && !take_key(heads, key_file, err)) {
		berth_error_wrap(err, "the ledger's key");
		berth_heads_free(heads);
		return NULL;
	}
	return heads;
}

void berth_heads_free(struct berth_heads *heads)
{
	if (!heads) {
		return;
	}
	berth_signing_key_free(heads->key);
	pthread_mutex_destroy(&heads->lock);
	free(heads->fleet);
	free(heads->der);
	free(heads->pem);
	free(heads);
}

const char *berth_heads_key_pem(const struct berth_heads *heads)
{
	return heads->pem ? heads->pem : "";
}

ProtobufCBinaryData berth_heads_key_der(const struct berth_heads *heads)
{
	return (ProtobufCBinaryData){.len = heads->der_size, .data = heads->der};
}

static bool was_signed(const struct berth_heads *heads, const struct berth_ledger_head *head)
{
	return heads->newest.head.sequence == head->sequence &&
	       berth_digest_equal(&heads->newest.head.root, &head->root);
}

static bool sign(struct berth_heads *heads, struct berth_signed_head *storage)
{
	const struct berth_head text = {.fleet = heads->fleet,
		.size = storage->head.sequence,
		.leaf = storage->head.leaf,
		.root = storage->head.root};
	struct berth_error err;
	bool ok = true;
	pthread_mutex_lock(&heads->lock);
	if (was_signed(heads, &storage->head)) {
		*storage = heads->newest;
	} else {
		ok = berth_head_sign(heads->key, &text, storage->signature, &err);
		if (ok && storage->head.sequence > heads->newest.head.sequence) {
			heads->newest = *storage;
		}
	}
	pthread_mutex_unlock(&heads->lock);
	if (!ok) {
		berth_log_error("a head of the ledger could not be signed; agents will refuse it", "error=%s",
			berth_log_quote(err.message));
	}
	return ok;
}

void berth_heads_fill(struct berth_heads *heads, const struct berth_ledger_head *head,
	struct berth_signed_head *storage, Berth__V1__LedgerHead *message)
{
	berth__v1__ledger_head__init(message);
	storage->head = *head;
	message->sequence = head->sequence;
	message->leaf_hash = (ProtobufCBinaryData){.len = BERTH_DIGEST_SIZE, .data = storage->head.leaf.bytes};
	message->root_hash = (ProtobufCBinaryData){.len = BERTH_DIGEST_SIZE, .data = storage->head.root.bytes};
	if (heads->key && head->sequence && sign(heads, storage)) {
		message->signature = (ProtobufCBinaryData){.len = BERTH_SIGNATURE_SIZE, .data = storage->signature};
	}
}

void berth_heads_fill_restore(struct berth_heads *heads, const struct berth_core_restore *restore,
	struct berth_signed_restore *storage, Berth__V1__Restore *message)
{
	berth__v1__restore__init(message);
	berth__v1__ledger_head__init(&storage->head);
	storage->head.sequence = restore->size;
	storage->head.leaf_hash =
		(ProtobufCBinaryData){.len = BERTH_DIGEST_SIZE, .data = (uint8_t *)restore->leaf.bytes};
	storage->head.root_hash =
		(ProtobufCBinaryData){.len = BERTH_DIGEST_SIZE, .data = (uint8_t *)restore->root.bytes};
	message->head = &storage->head;
	message->incarnation = restore->incarnation;
	const struct berth_restore text = {.incarnation = restore->incarnation,
		.head = {.fleet = heads->fleet, .size = restore->size, .leaf = restore->leaf, .root = restore->root}};
	struct berth_error err;
	if (heads->key && berth_restore_sign(heads->key, &text, storage->signature, &err)) {
		message->signature = (ProtobufCBinaryData){.len = BERTH_SIGNATURE_SIZE, .data = storage->signature};
	}
}

void berth_heads_sign_incarnation(
	struct berth_heads *heads, Berth__V1__Incarnation *incarnation, uint8_t signature[static BERTH_SIGNATURE_SIZE])
{
	const struct berth_incarnation name = {
		.fleet = heads->fleet, .number = incarnation->number, .nonce = incarnation->nonce.data};
	struct berth_error err;
	if (heads->key && berth_incarnation_sign(heads->key, &name, signature, &err)) {
		incarnation->signature = (ProtobufCBinaryData){.len = BERTH_SIGNATURE_SIZE, .data = signature};
	}
}

static void point_at_hashes(struct berth_head_proof *proof)
{
	for (size_t i = 0; i < proof->count; i++) {
		proof->items[i] = (ProtobufCBinaryData){.len = BERTH_DIGEST_SIZE, .data = proof->hashes[i].bytes};
	}
}

bool berth_heads_consistency(struct berth_ledger *ledger, uint64_t first, uint64_t second,
	struct berth_head_proof *proof, struct berth_error *err)
{
	if (!berth_merkle_consistency(first, second, berth_ledger_node, ledger, proof->hashes, &proof->count, err)) {
		return false;
	}
	point_at_hashes(proof);
	return true;
}

bool berth_heads_inclusion(struct berth_ledger *ledger, uint64_t sequence, uint64_t size,
	struct berth_head_proof *proof, struct berth_error *err)
{
	if (!berth_merkle_inclusion(sequence - 1, size, berth_ledger_node, ledger, proof->hashes, &proof->count, err)) {
		return false;
	}
	point_at_hashes(proof);
	return true;
}
