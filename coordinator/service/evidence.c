// SPDX-License-Identifier: Apache-2.0
// Whether a result's evidence is what its signer said, and says what the result says.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/json.h"
#include "common/evidence/trial_statement.h"
#include "coordinator/service/daemon.h"

#define STATEMENT_SIZE_MAX   (1024 * 1024)
#define ATTESTATION_SIZE_MAX (64 * 1024)
#define OTHER_ATTESTATION    "an attestation is not the one that was signed"
#define OTHER_RECEIPT        "a receipt is of another lease or trial"

double berth_reward_number(const char *rewards_json)
{
	if (!rewards_json[0]) {
		return 0;
	}
	BERTH_AUTO(berth_json_cleanup)
	berth_json *rewards = berth_json_parse(rewards_json, strlen(rewards_json), "rewards", NULL);
	return rewards ? berth_json_as_number(berth_json_get(rewards, "reward")) : 0;
}

static bool is_text(const berth_json *object, const char *key, const char *wanted)
{
	const char *text = berth_json_get_string(object, key);
	return text && strcmp(text, wanted) == 0;
}

static bool is_trial(const berth_json *statement, const Berth__V1__TrialKey *key)
{
	const berth_json *trial = berth_json_get(statement, "trial");
	return trial && is_text(trial, "job_id", key->job_id) && berth_json_get_integer(trial, "index") == key->index &&
	       berth_json_get_integer(trial, "generation") == key->generation;
}

static bool is_outcome(const berth_json *statement, Berth__V1__Outcome outcome)
{
	const ProtobufCEnumValue *value =
		protobuf_c_enum_descriptor_get_value(&berth__v1__outcome__descriptor, (int)outcome);
	return value && is_text(statement, "outcome", value->name);
}

static bool are_rewards(const berth_json *statement, const char *rewards_json)
{
	const berth_json *stated = berth_json_get(statement, "rewards");
	if (!rewards_json[0]) {
		return berth_json_is(stated, BERTH_JSON_NULL);
	}
	BERTH_AUTO(berth_json_cleanup)
	berth_json *rewards = berth_json_parse(rewards_json, strlen(rewards_json), "rewards", NULL);
	return berth_json_is(rewards, BERTH_JSON_OBJECT) && berth_json_equal(stated, rewards);
}

// Each attestation is the text that its digest, and through it the statement, stands for.
static bool are_attestations_whole(const Berth__V1__Evidence *evidence)
{
	for (size_t i = 0; i < evidence->n_attestations; i++) {
		const Berth__V1__Attestation *attestation = evidence->attestations[i];
		size_t size = strlen(attestation->json);
		struct berth_digest digest = berth_sha256(attestation->json, size);
		char text[BERTH_DIGEST_TEXT_SIZE];
		berth_digest_text(&digest, text);
		if (size > ATTESTATION_SIZE_MAX || strcmp(text, attestation->digest) != 0) {
			return false;
		}
	}
	return true;
}

static bool are_receipts_own(const Berth__V1__TrialDone *done)
{
	const Berth__V1__Evidence *evidence = done->result->evidence;
	for (size_t i = 0; i < evidence->n_receipts; i++) {
		const Berth__V1__Lease *lease = evidence->receipts[i]->lease;
		if (!lease || strcmp(lease->job_id, done->trial->job_id) != 0 ||
			lease->trial_index != done->trial->index || lease->generation != done->trial->generation) {
			return false;
		}
	}
	return true;
}

static bool are_attestations(const berth_json *statement, const Berth__V1__Evidence *evidence)
{
	const berth_json *stated = berth_json_get(statement, "attestations");
	bool same = berth_json_size(stated) == evidence->n_attestations;
	for (size_t i = 0; same && i < evidence->n_attestations; i++) {
		const char *told = berth_json_as_string(berth_json_at(stated, i));
		same = told && strcmp(told, evidence->attestations[i]->digest) == 0;
	}
	return same;
}

static bool are_receipts(const berth_json *statement, const Berth__V1__Evidence *evidence)
{
	const berth_json *stated = berth_json_get(statement, "receipts");
	bool same = berth_json_size(stated) == evidence->n_receipts;
	for (size_t i = 0; same && i < evidence->n_receipts; i++) {
		same = is_text(berth_json_at(stated, i), "lease_id", evidence->receipts[i]->lease->lease_id);
	}
	return same;
}

// Member by member: a statement may have others, in another order.
static const char *members_fault(const char *agent, const Berth__V1__TrialDone *done)
{
	const Berth__V1__Evidence *evidence = done->result->evidence;
	BERTH_AUTO(berth_json_cleanup)
	berth_json *statement = berth_json_parse(evidence->statement, strlen(evidence->statement), "statement", NULL);
	if (!berth_json_is(statement, BERTH_JSON_OBJECT) ||
		berth_json_get_integer(statement, "version") != BERTH_STATEMENT_VERSION) {
		return "the statement is of no known version";
	}
	if (!is_trial(statement, done->trial) || !is_text(statement, "agent", agent)) {
		return "the statement is about another trial";
	}
	if (!is_outcome(statement, done->result->outcome) || !are_rewards(statement, done->result->rewards_json)) {
		return "the statement gives another outcome";
	}
	if (!are_attestations(statement, evidence)) {
		return OTHER_ATTESTATION;
	}
	return are_receipts(statement, evidence) ? NULL : OTHER_RECEIPT;
}

// The usual statement is what an agent of this version writes, to the byte: to write it costs a tenth of reading it.
static const char *statement_fault(const struct berth_signer *signer, const Berth__V1__TrialDone *done)
{
	const struct berth_trial_statement expected = {
		.fleet = signer->fleet, .agent = signer->agent, .trial = done->trial, .result = done->result};
	const char *rewards = done->result->rewards_json;
	bool are_usual = !rewards[0] || rewards[0] == '{';
	return are_usual && berth_trial_statement_is(&expected, done->result->evidence->statement)
	               ? NULL
	               : members_fault(signer->agent, done);
}

static const char *signature_fault(const struct berth_signer *signer, const Berth__V1__Evidence *evidence, size_t size)
{
	const struct berth_signed_statement of = {.statement = evidence->statement,
		.size = size,
		.index = evidence->group_index,
		.group_size = evidence->group_size,
		.path = evidence->path.data,
		.path_size = evidence->path.len,
		.signature = evidence->signature.data,
		.signature_size = evidence->signature.len};
	struct berth_error err;
	if (signer->key_size && berth_statement_verify(signer->key_der, signer->key_size, &of, signer->checked, &err)) {
		return NULL;
	}
	return signer->key_size && err.code == BERTH_ERROR_INVALID
	               ? "the statement has no place in the group that was signed"
	               : "the statement is not signed by the agent's enrolled key";
}

const char *berth_evidence_fault(const struct berth_signer *signer, const Berth__V1__TrialDone *done)
{
	const Berth__V1__Evidence *evidence = done->result->evidence;
	if (!done->trial) {
		return "the result names no trial";
	}
	if (!evidence || !evidence->statement[0]) {
		return "the result has no signed statement";
	}
	size_t size = strlen(evidence->statement);
	if (size > STATEMENT_SIZE_MAX) {
		return "the statement is too large";
	}
	const char *fault = signature_fault(signer, evidence, size);
	if (fault) {
		return fault;
	}
	if (!are_attestations_whole(evidence)) {
		return OTHER_ATTESTATION;
	}
	return are_receipts_own(done) ? statement_fault(signer, done) : OTHER_RECEIPT;
}

const char *berth_folder_fault(const Berth__V1__TrialDone *done, struct berth_digest *digest)
{
	const Berth__V1__BlobRef *named = done->result->folder;
	if (done->folder.len > BERTH_REPORT_FOLDER_MAX) {
		return "the folder is too large to come with the result";
	}
	*digest = berth_sha256(done->folder.data, done->folder.len);
	bool same = named && (size_t)named->size == done->folder.len && named->sha256.len == BERTH_DIGEST_SIZE &&
	            memcmp(named->sha256.data, digest->bytes, BERTH_DIGEST_SIZE) == 0;
	return same ? NULL : "the folder is not the one that the result names";
}
