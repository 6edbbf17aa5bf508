// SPDX-License-Identifier: Apache-2.0
// What this agent saw of the ledger, and whether another head can follow it: by its size, its leaf and root, its
// signature under the key of the enrolment, and the proof that it holds all that was seen.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_internal.h"
#include "common/base/mem.h"
#include "common/evidence/head.h"
#include "common/evidence/merkle.h"
#include "common/evidence/restore.h"

#define PROOF_MAX (BERTH_MERKLE_LEVELS + 1)

static bool is_digest(const ProtobufCBinaryData *bytes, const struct berth_digest *digest)
{
	return bytes->len == BERTH_DIGEST_SIZE && memcmp(bytes->data, digest->bytes, BERTH_DIGEST_SIZE) == 0;
}

static void take_digest(const ProtobufCBinaryData *bytes, struct berth_digest *digest)
{
	memcpy(digest->bytes, bytes->data, BERTH_DIGEST_SIZE);
}

static void take_head(struct agent_core_seen *seen, const Berth__V1__LedgerHead *head)
{
	*seen = (struct agent_core_seen){.sequence = head->sequence};
	take_digest(&head->leaf_hash, &seen->leaf);
	seen->has_root = head->root_hash.len == BERTH_DIGEST_SIZE;
	if (seen->has_root) {
		take_digest(&head->root_hash, &seen->root);
	}
	if (head->signature.len == BERTH_SIGNATURE_SIZE) {
		seen->signature_size = BERTH_SIGNATURE_SIZE;
		memcpy(seen->signature, head->signature.data, BERTH_SIGNATURE_SIZE);
	}
}

void agent_core_head_remember(struct berth_agent_core *core, const Berth__V1__LedgerHead *head)
{
	if (head && head->leaf_hash.len == BERTH_DIGEST_SIZE) {
		take_head(&core->seen, head);
	}
}

void agent_core_head_see(struct berth_agent_core *core, const Berth__V1__LedgerHead *head)
{
	if (head && head->sequence > core->seen.sequence) {
		take_head(&core->seen, head);
		core->unsaved = true;
	}
}

Berth__V1__LedgerHead agent_core_head_seen(struct berth_agent_core *core)
{
	struct agent_core_seen *seen = &core->seen;
	Berth__V1__LedgerHead head = BERTH__V1__LEDGER_HEAD__INIT;
	head.sequence = seen->sequence;
	if (seen->sequence) {
		head.leaf_hash = (ProtobufCBinaryData){.data = seen->leaf.bytes, .len = BERTH_DIGEST_SIZE};
	}
	if (seen->has_root) {
		head.root_hash = (ProtobufCBinaryData){.data = seen->root.bytes, .len = BERTH_DIGEST_SIZE};
	}
	head.signature = (ProtobufCBinaryData){.data = seen->signature, .len = seen->signature_size};
	return head;
}

// Whether the signature was checked when this very head was seen.
static bool is_known(const struct agent_core_seen *seen, const Berth__V1__LedgerHead *head)
{
	return seen->sequence == head->sequence && is_digest(&head->leaf_hash, &seen->leaf) && seen->has_root &&
	       is_digest(&head->root_hash, &seen->root) && head->signature.len == seen->signature_size &&
	       memcmp(head->signature.data, seen->signature, seen->signature_size) == 0;
}

static char *signature_refusal(const struct berth_agent_core *core, const Berth__V1__LedgerHead *head)
{
	if (!core->ledger_key || is_known(&core->seen, head)) {
		return NULL;
	}
	if (head->root_hash.len != BERTH_DIGEST_SIZE || !head->signature.len) {
		return berth_format(
			"its head %" PRIu64 " is not signed: it lacks the key of this fleet's ledger", head->sequence);
	}
	struct berth_head text = {.fleet = core->fleet, .size = head->sequence};
	take_digest(&head->leaf_hash, &text.leaf);
	take_digest(&head->root_hash, &text.root);
	struct berth_error err;
	if (!berth_head_verify(
		    core->ledger_key, core->ledger_key_size, &text, head->signature.data, head->signature.len, &err)) {
		return berth_format("its head %" PRIu64 " is not signed with the ledger key of this agent's "
				    "enrolment (ledger.pem): %s",
			head->sequence, err.message);
	}
	return NULL;
}

char *agent_core_head_refusal(const struct berth_agent_core *core, const Berth__V1__LedgerHead *head)
{
	const struct agent_core_seen *seen = &core->seen;
	uint64_t sequence = head ? head->sequence : 0;
	if (sequence < seen->sequence) {
		return berth_format("its ledger ends at event %" PRIu64 ", but event %" PRIu64
				    " was seen committed: it was truncated or is an older copy",
			sequence, seen->sequence);
	}
	if (!sequence) {
		return NULL;
	}
	if (head->leaf_hash.len != BERTH_DIGEST_SIZE) {
		return berth_format("its head %" PRIu64 " has no leaf hash of %d bytes", sequence, BERTH_DIGEST_SIZE);
	}
	if (sequence == seen->sequence &&
		(!is_digest(&head->leaf_hash, &seen->leaf) ||
			(seen->has_root && head->root_hash.len && !is_digest(&head->root_hash, &seen->root)))) {
		return berth_format("its event %" PRIu64
				    " is not the one that was seen committed: the ledger was forked",
			sequence);
	}
	return signature_refusal(core, head);
}

static bool is_consistent(uint64_t size, const struct berth_digest *seen_root, const Berth__V1__Welcome *welcome)
{
	struct berth_digest proof[PROOF_MAX], root;
	if (welcome->n_consistency > PROOF_MAX) {
		return false;
	}
	for (size_t i = 0; i < welcome->n_consistency; i++) {
		if (welcome->consistency[i].len != BERTH_DIGEST_SIZE) {
			return false;
		}
		take_digest(&welcome->consistency[i], &proof[i]);
	}
	take_digest(&welcome->head->root_hash, &root);
	return berth_merkle_verify_consistency(
		size, seen_root, welcome->head->sequence, &root, proof, welcome->n_consistency);
}

bool agent_core_head_goes_back(const struct berth_agent_core *core, const Berth__V1__Welcome *welcome)
{
	const Berth__V1__Restore *restore = welcome->restore;
	return restore && restore->head && restore->head->sequence < core->seen.sequence &&
	       core->number < restore->incarnation;
}

void agent_core_head_forget(struct berth_agent_core *core)
{
	core->seen = (struct agent_core_seen){0};
}

// The ledger may lack what was seen, if who holds its key says so, and if it goes on from the backup that is named.
static char *restore_refusal(const struct berth_agent_core *core, const Berth__V1__Welcome *welcome)
{
	const Berth__V1__Restore *said = welcome->restore;
	const Berth__V1__LedgerHead *head = said->head;
	if (!core->ledger_key) {
		return berth_strdup("it was restored from a backup, and this agent has no ledger key to check that "
				    "with: enroll it again");
	}
	if (head->leaf_hash.len != BERTH_DIGEST_SIZE || head->root_hash.len != BERTH_DIGEST_SIZE || !welcome->head ||
		welcome->head->sequence <= head->sequence || welcome->head->root_hash.len != BERTH_DIGEST_SIZE ||
		welcome->incarnation->number < said->incarnation) {
		return berth_strdup("it says that it was restored from a backup, and not from which");
	}
	struct berth_restore restore = {
		.head = {.fleet = core->fleet, .size = head->sequence}, .incarnation = said->incarnation};
	take_digest(&head->leaf_hash, &restore.head.leaf);
	take_digest(&head->root_hash, &restore.head.root);
	struct berth_error err;
	if (!berth_restore_verify(core->ledger_key, core->ledger_key_size, &restore, said->signature.data,
		    said->signature.len, &err)) {
		return berth_format("its restore from event %" PRIu64 " is not signed with the ledger key of this "
				    "agent's enrolment (ledger.pem): %s",
			head->sequence, err.message);
	}
	if (!is_consistent(head->sequence, &restore.head.root, welcome)) {
		return berth_format(
			"its ledger does not continue the backup of %" PRIu64 " events that it names", head->sequence);
	}
	return signature_refusal(core, welcome->head);
}

char *agent_core_head_welcome_refusal(const struct berth_agent_core *core, const Berth__V1__Welcome *welcome)
{
	const struct agent_core_seen *seen = &core->seen;
	if (agent_core_head_goes_back(core, welcome)) {
		return restore_refusal(core, welcome);
	}
	if (seen->sequence && !is_digest(&welcome->seen_leaf_hash, &seen->leaf)) {
		return berth_format("its ledger does not hold event %" PRIu64
				    " as this agent saw it: it is another ledger, or was edited",
			seen->sequence);
	}
	char *reason = agent_core_head_refusal(core, welcome->head);
	// Heads have roots since they are signed: what was seen or is said without one can be held against the leaf
	// alone.
	if (reason || !seen->has_root || welcome->head->root_hash.len != BERTH_DIGEST_SIZE ||
		is_consistent(seen->sequence, &seen->root, welcome)) {
		return reason;
	}
	return berth_format("its ledger of %" PRIu64 " events does not continue the one of %" PRIu64
			    " that this agent saw: an event in between was edited",
		welcome->head->sequence, seen->sequence);
}
