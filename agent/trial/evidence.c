// SPDX-License-Identifier: Apache-2.0
// What proves a result: what the environment was seen to be, how every lease ended, and a statement over both.
#include <stdlib.h>
#include <string.h>

#include "agent/trial/internal.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/trial_statement.h"

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

static bool add_statement(struct trial *trial, Berth__V1__Evidence *evidence, struct berth_error *err)
{
	const Berth__V1__JobSpec *spec = trial->spec;
	const struct berth_trial_statement statement = {.fleet = trial->host->fleet,
		.agent = trial->host->agent,
		.task_checksum = spec->n_tasks > 0 ? spec->tasks[0]->checksum : NULL,
		.trial = trial->assignment->trial,
		.result = trial->result};
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_trial_statement_write(&statement, &text, err)) {
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
