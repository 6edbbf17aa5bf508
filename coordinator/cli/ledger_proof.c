// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/ledger_proof.h"

#include <stdlib.h>
#include <string.h>

#include "berth/store/v1/event.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/merkle.h"

#define PROOF_TYPE    "berth-ledger-proof"
#define PROOF_VERSION 1
#define HASHES_MAX    (BERTH_MERKLE_LEVELS + 1)
#define PREFIX        "sha256:"

static bool take_bytes(const ProtobufCBinaryData *bytes, struct berth_digest *digest)
{
	if (bytes->len != BERTH_DIGEST_SIZE) {
		return false;
	}
	memcpy(digest->bytes, bytes->data, BERTH_DIGEST_SIZE);
	return true;
}

bool cli_head_check(const Berth__V1__LedgerHead *head, const char *fleet, const void *key_der, size_t key_size,
	struct berth_error *err)
{
	struct berth_head text = {.fleet = fleet, .size = head->sequence};
	if (!take_bytes(&head->leaf_hash, &text.leaf) || !take_bytes(&head->root_hash, &text.root)) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "the head of %llu events has no leaf or no root",
			(unsigned long long)head->sequence);
	}
	return berth_head_verify(key_der, key_size, &text, head->signature.data, head->signature.len, err);
}

static berth_json *digest_json(const ProtobufCBinaryData *bytes)
{
	struct berth_digest digest = {{0}};
	char text[BERTH_DIGEST_TEXT_SIZE];
	take_bytes(bytes, &digest);
	berth_digest_text(&digest, text);
	return berth_json_string(text);
}

static berth_json *base64_json(const ProtobufCBinaryData *bytes)
{
	BERTH_AUTO_FREE char *text = berth_base64(bytes->data, bytes->len);
	return berth_json_string(text);
}

berth_json *cli_head_json(const Berth__V1__LedgerHead *head)
{
	berth_json *object = berth_json_object();
	berth_json_set(object, "size", berth_json_integer((int64_t)head->sequence));
	berth_json_set(object, "leaf", digest_json(&head->leaf_hash));
	berth_json_set(object, "root", digest_json(&head->root_hash));
	berth_json_set(object, "signature", base64_json(&head->signature));
	return object;
}

berth_json *cli_proof_json(const Berth__V1__ProveInclusionResponse *response, struct berth_error *err)
{
	const Berth__V1__LedgerHead *signed_head = response->head;
	BERTH_AUTO_FREE char *pem =
		signed_head ? berth_public_key_pem(response->key_der.data, response->key_der.len, err) : NULL;
	if (!pem) {
		berth_fail(err, BERTH_ERROR_UNSUPPORTED, "the coordinator does not sign its ledger's heads");
		return NULL;
	}
	berth_json *path = berth_json_array(), *proof = berth_json_object();
	for (size_t i = 0; i < response->n_path; i++) {
		berth_json_append(path, digest_json(&response->path[i]));
	}
	berth_json_set(proof, "type", berth_json_string(PROOF_TYPE));
	berth_json_set(proof, "version", berth_json_integer(PROOF_VERSION));
	berth_json_set(proof, "fleet", berth_json_string(response->fleet));
	berth_json_set(proof, "sequence", berth_json_integer((int64_t)response->sequence));
	berth_json_set(proof, "event", base64_json(&response->event));
	berth_json_set(proof, "path", path);
	berth_json_set(proof, "head", cli_head_json(signed_head));
	berth_json_set(proof, "key", berth_json_string(pem));
	return proof;
}

// --- checking ---
static bool read_digest(const berth_json *value, struct berth_digest *digest)
{
	const char *text = berth_json_as_string(value);
	return text && strncmp(text, PREFIX, strlen(PREFIX)) == 0 &&
	       berth_unhex(text + strlen(PREFIX), digest->bytes, BERTH_DIGEST_SIZE);
}

static bool read_size(const berth_json *object, const char *key, uint64_t *size)
{
	int64_t value = berth_json_get_integer(object, key);
	*size = (uint64_t)value;
	return value > 0;
}

static bool read_base64(const berth_json *object, const char *key, uint8_t **bytes, size_t *size)
{
	const char *text = berth_json_get_string(object, key);
	*bytes = text ? berth_unbase64(text, strlen(text), size) : NULL;
	return *bytes != NULL;
}

Berth__V1__LedgerHead *cli_head_of_json(const berth_json *object, struct berth_error *err)
{
	struct berth_digest leaf, root;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__LedgerHead *head = berth_alloc(sizeof *head);
	berth__v1__ledger_head__init(head);
	if (!read_size(object, "size", &head->sequence) || !read_digest(berth_json_get(object, "leaf"), &leaf) ||
		!read_digest(berth_json_get(object, "root"), &root) ||
		!read_base64(object, "signature", &head->signature.data, &head->signature.len)) {
		berth_fail(err, BERTH_ERROR_INVALID, "a head needs size, leaf, root and signature");
		return NULL;
	}
	berth_proto_set_bytes(&head->leaf_hash, leaf.bytes, BERTH_DIGEST_SIZE);
	berth_proto_set_bytes(&head->root_hash, root.bytes, BERTH_DIGEST_SIZE);
	return BERTH_STEAL(head);
}

struct parts {
	struct berth_head head;
	uint64_t sequence;
	struct berth_digest path[HASHES_MAX];
	size_t path_count;
	uint8_t *event, *signature;
	size_t event_size, signature_size;
};

static void parts_free(struct parts *parts)
{
	free(parts->event);
	free(parts->signature);
}

static bool read_parts(const berth_json *document, struct parts *parts, struct berth_error *err)
{
	const char *type = berth_json_get_string(document, "type");
	if (!type || strcmp(type, PROOF_TYPE) != 0 || berth_json_get_integer(document, "version") != PROOF_VERSION) {
		return berth_fail(err, BERTH_ERROR_INVALID, "not a %s of version %d, as `berth ledger prove` writes it",
			PROOF_TYPE, PROOF_VERSION);
	}
	const berth_json *head = berth_json_get(document, "head"), *path = berth_json_get(document, "path");
	parts->head.fleet = berth_json_get_string(document, "fleet");
	parts->path_count = berth_json_is(path, BERTH_JSON_ARRAY) ? berth_json_size(path) : HASHES_MAX + 1;
	bool ok = parts->head.fleet && berth_json_is(head, BERTH_JSON_OBJECT) &&
	          read_size(document, "sequence", &parts->sequence) && read_size(head, "size", &parts->head.size) &&
	          read_digest(berth_json_get(head, "leaf"), &parts->head.leaf) &&
	          read_digest(berth_json_get(head, "root"), &parts->head.root) &&
	          read_base64(head, "signature", &parts->signature, &parts->signature_size) &&
	          read_base64(document, "event", &parts->event, &parts->event_size) && parts->path_count <= HASHES_MAX;
	for (size_t i = 0; ok && i < parts->path_count; i++) {
		ok = read_digest(berth_json_at((berth_json *)path, i), &parts->path[i]);
	}
	return ok || berth_fail(err, BERTH_ERROR_INVALID,
			     "a member is missing or malformed: type, version, fleet, sequence, event, path, head");
}

static bool read_event(const struct parts *parts, struct cli_proof *proof, struct berth_error *err)
{
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__Event *event = berth_proto_unpack(
		&berth__store__v1__event__descriptor, parts->event, parts->event_size, "the event", err);
	if (!event) {
		return false;
	}
	if (event->sequence != parts->sequence) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "the event says that it is number %llu, not %llu",
			(unsigned long long)event->sequence, (unsigned long long)parts->sequence);
	}
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
		&berth__store__v1__event__descriptor, (unsigned)event->body_case);
	snprintf(proof->kind, sizeof proof->kind, "%s", field ? field->name : "unknown");
	return true;
}

bool cli_proof_check(const berth_json *document, const void *key_der, size_t key_size, struct cli_proof *proof,
	struct berth_error *err)
{
	BERTH_AUTO(parts_free) struct parts parts = {0};
	if (!read_parts(document, &parts, err)) {
		return false;
	}
	if (!berth_head_verify(key_der, key_size, &parts.head, parts.signature, parts.signature_size, err)) {
		return berth_error_wrap(err, "the head of %llu events is not signed with this key",
			(unsigned long long)parts.head.size);
	}
	struct berth_digest leaf = berth_merkle_leaf(parts.event, parts.event_size);
	if (!berth_merkle_verify_inclusion(
		    &leaf, parts.sequence - 1, parts.head.size, parts.path, parts.path_count, &parts.head.root)) {
		return berth_fail(err, BERTH_ERROR_CORRUPT,
			"event %llu with its path does not give the signed root: it is not in that ledger",
			(unsigned long long)parts.sequence);
	}
	*proof = (struct cli_proof){.sequence = parts.sequence, .size = parts.head.size};
	snprintf(proof->fleet, sizeof proof->fleet, "%s", parts.head.fleet);
	berth_signing_key_id(key_der, key_size, proof->key_id);
	return read_event(&parts, proof, err);
}
