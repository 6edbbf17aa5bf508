// SPDX-License-Identifier: Apache-2.0
// What a coordinator finds wrong with the evidence of a result.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/evidence/trial_statement.h"
#include "coordinator/service/daemon.h"
#include "tests/support/key.h"
#include "tests/support/test.h"

#define REWARDS "{\"reward\": 0.5}"

struct desk { // a result, and all that it points into
	struct test_key key;
	Berth__V1__TrialDone done;
	Berth__V1__TrialKey trial;
	Berth__V1__TrialResult result;
	Berth__V1__Evidence evidence;
	Berth__V1__Attestation attestation, *attestations[1];
	Berth__V1__LeaseReceipt receipt, *receipts[1];
	Berth__V1__Lease lease;
	char digest[BERTH_DIGEST_TEXT_SIZE];
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	struct berth_buf statement;
};

static int set_up(void **state)
{
	struct desk *desk = berth_alloc(sizeof *desk);
	desk->key = test_key_make();
	*state = desk;
	return 0;
}

static int tear_down(void **state)
{
	struct desk *desk = *state;
	test_key_clear(&desk->key);
	berth_buf_free(&desk->statement);
	free(desk);
	return 0;
}

static void sign(struct desk *desk, const char *text)
{
	struct berth_error err;
	struct berth_statement_group *group = berth_statement_group_new();
	BERTH_AUTO_FREE char *copy = berth_strdup(text);
	berth_buf_reset(&desk->statement);
	berth_buf_add_text(&desk->statement, copy);
	berth_statement_group_add(group, copy, strlen(copy));
	assert_ok(berth_statement_group_sign(group, desk->key.own, desk->signature, &err), err);
	berth_statement_group_free(group);
	desk->evidence.statement = (char *)desk->statement.data;
	desk->evidence.signature = (ProtobufCBinaryData){sizeof desk->signature, desk->signature};
	desk->evidence.group_size = 1;
}

static void write_down(struct desk *desk)
{
	const struct berth_trial_statement statement = {.fleet = "harbor",
		.agent = "quay",
		.task_checksum = "c0ffee",
		.trial = &desk->trial,
		.result = &desk->result};
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	struct berth_error err;
	assert_ok(berth_trial_statement_write(&statement, &text, &err), err);
	sign(desk, berth_buf_text(&text));
}

// A result with everything, signed.
static void lay_out(struct desk *desk)
{
	berth__v1__trial_done__init(&desk->done);
	berth__v1__trial_key__init(&desk->trial);
	berth__v1__trial_result__init(&desk->result);
	berth__v1__evidence__init(&desk->evidence);
	berth__v1__attestation__init(&desk->attestation);
	berth__v1__lease_receipt__init(&desk->receipt);
	berth__v1__lease__init(&desk->lease);
	struct berth_digest digest = berth_sha256("{}", 2);
	berth_digest_text(&digest, desk->digest);
	desk->trial.job_id = desk->lease.job_id = (char *)"job";
	desk->trial.index = desk->lease.trial_index = 7;
	desk->trial.generation = desk->lease.generation = 2;
	desk->attestation.json = (char *)"{}";
	desk->attestation.digest = desk->digest;
	desk->lease.lease_id = (char *)"lease";
	desk->receipt.lease = &desk->lease;
	desk->attestations[0] = &desk->attestation;
	desk->receipts[0] = &desk->receipt;
	desk->evidence.attestations = desk->attestations;
	desk->evidence.receipts = desk->receipts;
	desk->evidence.n_attestations = desk->evidence.n_receipts = 1;
	desk->result.outcome = BERTH__V1__OUTCOME__OUTCOME_SCORED;
	desk->result.rewards_json = (char *)REWARDS;
	desk->result.evidence = &desk->evidence;
	desk->done.trial = &desk->trial;
	desk->done.result = &desk->result;
	write_down(desk);
}

static const char *fault_for(const struct desk *desk, const char *agent)
{
	struct berth_checked_group checked = {0};
	const struct berth_signer signer = {.fleet = "harbor",
		.agent = agent,
		.key_der = desk->key.der,
		.key_size = desk->key.der_size,
		.checked = &checked};
	return berth_evidence_fault(&signer, &desk->done);
}

static void assert_fault(const struct desk *desk, const char *wanted)
{
	const char *fault = fault_for(desk, "quay");
	assert_non_null(fault);
	assert_string_equal(fault, wanted);
}

static void what_an_agent_writes_holds_and_so_does_another_order_with_more(void **state)
{
	struct desk *desk = *state;
	lay_out(desk);
	assert_null(fault_for(desk, "quay"));
	BERTH_AUTO_FREE char *text = berth_format(
		"{\"version\": 1, \"trial\":{\"job_id\":\"job\",\"generation\":2,\"index\":7}, \"more\": [1],"
		"\"rewards\":{\"reward\":0.5},\"receipts\":[{\"lease_id\":\"lease\"}],\"outcome\":"
		"\"OUTCOME_SCORED\",\"attestations\":[\"%s\"],\"agent\":\"quay\"}",
		desk->digest);
	sign(desk, text);
	assert_null(fault_for(desk, "quay"));
}

static void a_result_that_says_otherwise_than_its_statement_is_named(void **state)
{
	struct desk *desk = *state;
	lay_out(desk);
	assert_string_equal(fault_for(desk, "north"), "the statement is about another trial");
	desk->trial.index = desk->lease.trial_index = 8;
	assert_fault(desk, "the statement is about another trial");
	lay_out(desk);
	desk->result.outcome = BERTH__V1__OUTCOME__OUTCOME_TASK;
	assert_fault(desk, "the statement gives another outcome");
	lay_out(desk);
	desk->result.rewards_json = (char *)"{\"reward\": 1}";
	assert_fault(desk, "the statement gives another outcome");
	lay_out(desk);
	desk->evidence.n_attestations = 0;
	assert_fault(desk, "an attestation is not the one that was signed");
	lay_out(desk);
	desk->evidence.n_receipts = 0;
	assert_fault(desk, "a receipt is of another lease or trial");
}

static void attestations_and_receipts_are_what_they_are_said_to_be(void **state)
{
	struct desk *desk = *state;
	lay_out(desk);
	desk->attestation.json = (char *)"[]";
	assert_fault(desk, "an attestation is not the one that was signed");
	lay_out(desk);
	desk->lease.generation = 1; // of another run, and signed so
	assert_fault(desk, "a receipt is of another lease or trial");
	lay_out(desk);
	desk->receipt.lease = NULL;
	assert_fault(desk, "a receipt is of another lease or trial");
}

static void rewards_that_are_no_object_are_refused_although_they_were_signed(void **state)
{
	struct desk *desk = *state;
	lay_out(desk);
	desk->result.rewards_json = (char *)"[1]";
	write_down(desk);
	assert_fault(desk, "the statement gives another outcome");
}

static void a_result_without_a_trial_a_statement_or_a_signature_is_named(void **state)
{
	struct desk *desk = *state;
	lay_out(desk);
	desk->done.trial = NULL;
	assert_fault(desk, "the result names no trial");
	lay_out(desk);
	desk->result.evidence = NULL;
	assert_fault(desk, "the result has no signed statement");
	lay_out(desk);
	desk->signature[0] ^= 1;
	assert_fault(desk, "the statement is not signed by the agent's enrolled key");
	lay_out(desk);
	desk->evidence.group_size = 0;
	assert_fault(desk, "the statement has no place in the group that was signed");
	lay_out(desk);
	desk->key.der_size = 0;
	assert_fault(desk, "the statement is not signed by the agent's enrolled key");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	TEST(what_an_agent_writes_holds_and_so_does_another_order_with_more),
	TEST(a_result_that_says_otherwise_than_its_statement_is_named),
	TEST(attestations_and_receipts_are_what_they_are_said_to_be),
	TEST(rewards_that_are_no_object_are_refused_although_they_were_signed),
	TEST(a_result_without_a_trial_a_statement_or_a_signature_is_named),
};
BERTH_TEST_MAIN(tests)
