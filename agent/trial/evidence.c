// SPDX-License-Identifier: Apache-2.0
// What proves a result: what the environment was seen to be, how every lease ended, and a statement over both.
#include <stdlib.h>
#include <string.h>

#include "agent/trial/internal.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/statement.h"

static bool add_attestation(struct trial *trial, Berth__V1__Evidence *evidence, struct berth_error *err)
{
	if (!trial->attestation) {
		return true;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf json = {0};
	if (!berth_json_write_canonical(trial->attestation, &json, err)) {
		return false;
	}
	struct berth_digest digest = berth_sha256(json.data, json.size);
	char text[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&digest, text);
	Berth__V1__Attestation *attestation = berth_alloc(sizeof *attestation);
	berth__v1__attestation__init(attestation);
	attestation->role = BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT;
	berth_proto_set_string(&attestation->json, berth_buf_text(&json));
	berth_proto_set_string(&attestation->digest, text);
	berth_proto_append(&evidence->n_attestations, &evidence->attestations, attestation);
	return true;
}

static void add_receipts(struct trial *trial, Berth__V1__Evidence *evidence)
{
	for (size_t i = 0; i < trial->leases_count; i++) {
		Berth__V1__LeaseReceipt *receipt = berth_alloc(sizeof *receipt);
		berth__v1__lease_receipt__init(receipt);
		receipt->lease = berth_proto_clone(trial->lease_records[i].record);
		berth_proto_append(&evidence->n_receipts, &evidence->receipts, receipt);
	}
}

static const char *enum_name(const ProtobufCEnumDescriptor *type, int value)
{
	const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
	return found ? found->name : "?";
}

static berth_json *receipts_json(const Berth__V1__Evidence *evidence)
{
	berth_json *list = berth_json_array();
	for (size_t i = 0; i < evidence->n_receipts; i++) {
		const Berth__V1__Lease *lease = evidence->receipts[i]->lease;
		berth_json *item = berth_json_object();
		berth_json_set(item, "lease_id", berth_json_string(lease->lease_id));
		berth_json_set(item, "state",
			berth_json_string(enum_name(&berth__v1__lease_state__descriptor, (int)lease->state)));
		berth_json_set(item, "proof",
			berth_json_string(enum_name(&berth__v1__death_proof__descriptor, (int)lease->proof)));
		berth_json_append(list, item);
	}
	return list;
}

static berth_json *attestations_json(const Berth__V1__Evidence *evidence)
{
	berth_json *list = berth_json_array();
	for (size_t i = 0; i < evidence->n_attestations; i++) {
		berth_json_append(list, berth_json_string(evidence->attestations[i]->digest));
	}
	return list;
}

static berth_json *trial_json(const struct trial *trial)
{
	const Berth__V1__TrialKey *key = trial->assignment->trial;
	berth_json *json = berth_json_object();
	berth_json_set(json, "job_id", berth_json_string(key->job_id));
	berth_json_set(json, "index", berth_json_integer(key->index));
	berth_json_set(json, "generation", berth_json_integer(key->generation));
	return json;
}

static berth_json *rewards_of(const Berth__V1__TrialResult *result)
{
	return *result->rewards_json
	               ? berth_json_parse(result->rewards_json, strlen(result->rewards_json), "rewards", NULL)
	               : berth_json_null();
}

static berth_json *statement_json(const struct trial *trial, const Berth__V1__Evidence *evidence)
{
	const Berth__V1__TrialResult *result = trial->result;
	const Berth__V1__JobSpec *spec = trial->spec;
	const char *checksum = spec->n_tasks > 0 ? spec->tasks[0]->checksum : NULL;
	berth_json *json = berth_json_object();
	berth_json_set(json, "version", berth_json_integer(BERTH_STATEMENT_VERSION));
	berth_json_set(json, "fleet", berth_json_string(trial->host->fleet));
	berth_json_set(json, "agent", berth_json_string(trial->host->agent));
	berth_json_set(json, "trial", trial_json(trial));
	berth_json_set(json, "task_checksum", berth_json_string(checksum));
	berth_json_set(
		json, "outcome", berth_json_string(enum_name(&berth__v1__outcome__descriptor, (int)result->outcome)));
	berth_json_set(json, "rewards", rewards_of(result));
	berth_json_set(json, "exception", berth_json_string(result->exception ? result->exception->type : NULL));
	berth_json_set(json, "attestations", attestations_json(evidence));
	berth_json_set(json, "receipts", receipts_json(evidence));
	return json;
}

static bool add_statement(struct trial *trial, Berth__V1__Evidence *evidence, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	BERTH_AUTO(berth_json_cleanup) berth_json *json = statement_json(trial, evidence);
	if (!berth_json_write_canonical(json, &text, err)) {
		return false;
	}
	berth_proto_set_string(&evidence->statement, berth_buf_text(&text));
	return true;
}

bool trial_evidence(struct trial *trial, struct berth_error *err)
{
	Berth__V1__Evidence *evidence = berth_alloc(sizeof *evidence);
	berth__v1__evidence__init(evidence);
	trial->result->evidence = evidence;
	add_receipts(trial, evidence);
	return add_attestation(trial, evidence, err) && add_statement(trial, evidence, err);
}
