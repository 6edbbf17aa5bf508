// SPDX-License-Identifier: Apache-2.0
#include "common/evidence/trial_statement.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/codec/json.h"
#include "tests/support/test.h"

struct told { // a result, and all that it points into
	Berth__V1__TrialKey trial;
	Berth__V1__TrialResult result;
	Berth__V1__TrialException exception;
	Berth__V1__Evidence evidence;
	Berth__V1__Attestation attestation, *attestations[2];
	Berth__V1__LeaseReceipt receipt, *receipts[2];
	Berth__V1__Lease lease;
	struct berth_trial_statement statement;
};

static void tell(struct told *told)
{
	berth__v1__trial_key__init(&told->trial);
	berth__v1__trial_result__init(&told->result);
	berth__v1__trial_exception__init(&told->exception);
	berth__v1__evidence__init(&told->evidence);
	berth__v1__attestation__init(&told->attestation);
	berth__v1__lease_receipt__init(&told->receipt);
	berth__v1__lease__init(&told->lease);
	told->trial.job_id = (char *)"job";
	told->trial.index = 7;
	told->trial.generation = 2;
	told->attestation.digest = (char *)"sha256:00";
	told->lease.lease_id = (char *)"lease";
	told->lease.state = BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	told->lease.proof = BERTH__V1__DEATH_PROOF__ABSENCE_SEEN;
	told->receipt.lease = &told->lease;
	told->attestations[0] = told->attestations[1] = &told->attestation;
	told->receipts[0] = told->receipts[1] = &told->receipt;
	told->evidence.attestations = told->attestations;
	told->evidence.receipts = told->receipts;
	told->result.evidence = &told->evidence;
	told->result.outcome = BERTH__V1__OUTCOME__OUTCOME_TASK;
	told->statement = (struct berth_trial_statement){
		.fleet = "harbor", .agent = "quay", .trial = &told->trial, .result = &told->result};
}

static char *write_down(const struct told *told)
{
	struct berth_buf text = {0};
	struct berth_error err;
	assert_ok(berth_trial_statement_write(&told->statement, &text, &err), err);
	// Canonical, so that whoever reads and writes it again has the same bytes.
	BERTH_AUTO(berth_json_cleanup)
	berth_json *json = berth_json_parse(berth_buf_text(&text), text.size, "statement", &err);
	assert_ok(json != NULL, err);
	BERTH_AUTO(berth_buf_free) struct berth_buf again = {0};
	assert_ok(berth_json_write_canonical(json, &again, &err), err);
	assert_string_equal(berth_buf_text(&text), berth_buf_text(&again));
	return berth_buf_steal(&text);
}

static void a_result_with_nothing_has_every_member(void **state)
{
	(void)state;
	struct told told;
	tell(&told);
	BERTH_AUTO_FREE char *text = write_down(&told);
	assert_string_equal(text,
		"{\"agent\":\"quay\",\"attestations\":[],\"exception\":null,\"fleet\":\"harbor\",\"outcome\":\"OUTCOME_"
		"TASK\","
		"\"receipts\":[],\"rewards\":null,\"task_checksum\":null,\"trial\":{\"generation\":2,\"index\":7,"
		"\"job_id\":\"job\"},\"version\":1}");
}

static void a_scored_result_has_rewards_attestations_and_receipts(void **state)
{
	(void)state;
	struct told told;
	tell(&told);
	told.result.outcome = BERTH__V1__OUTCOME__OUTCOME_SCORED;
	told.result.rewards_json = (char *)"{ \"reward\": 0.50, \"a\": 1 }";
	told.evidence.n_attestations = told.evidence.n_receipts = 2;
	told.statement.task_checksum = "c0ffee";
	BERTH_AUTO_FREE char *text = write_down(&told);
	assert_string_equal(text,
		"{\"agent\":\"quay\",\"attestations\":[\"sha256:00\",\"sha256:00\"],\"exception\":null,\"fleet\":"
		"\"harbor\","
		"\"outcome\":\"OUTCOME_SCORED\",\"receipts\":[{\"lease_id\":\"lease\",\"proof\":\"ABSENCE_SEEN\","
		"\"state\":"
		"\"LEASE_RETIRED\"},{\"lease_id\":\"lease\",\"proof\":\"ABSENCE_SEEN\",\"state\":\"LEASE_RETIRED\"}],"
		"\"rewards\":{\"a\":1,\"reward\":0.5},\"task_checksum\":\"c0ffee\",\"trial\":{\"generation\":2,"
		"\"index\":7,"
		"\"job_id\":\"job\"},\"version\":1}");
}

static void texts_that_need_more_than_quotes_are_written_as_json_has_them(void **state)
{
	(void)state;
	struct told told;
	tell(&told);
	told.exception.type = (char *)"a \"quoted\\\" one\n\xc3\xa9\xff";
	told.result.exception = &told.exception;
	BERTH_AUTO_FREE char *text = write_down(&told);
	assert_non_null(strstr(text, "\"exception\":\"a \\\"quoted\\\\\\\" one\\n\xc3\xa9\xef\xbf\xbd\","));
}

static void rewards_that_are_no_json_are_refused(void **state)
{
	(void)state;
	struct told told;
	tell(&told);
	struct berth_error err;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	told.result.rewards_json = (char *)"{";
	assert_fails(berth_trial_statement_write(&told.statement, &text, &err), err, BERTH_ERROR_INVALID, "rewards");
	assert_false(berth_trial_statement_is(&told.statement, "{}"));
}

static void an_outcome_without_a_name_is_refused(void **state)
{
	(void)state;
	struct told told;
	tell(&told);
	struct berth_error err;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	told.result.outcome = (Berth__V1__Outcome)99;
	assert_fails(berth_trial_statement_write(&told.statement, &text, &err), err, BERTH_ERROR_INVALID, "Outcome");
}

static void assert_is(const struct told *told, const char *text, bool wanted)
{
	// Not known to who expects it.
	struct berth_trial_statement expected = told->statement;
	expected.task_checksum = NULL;
	assert_int_equal(berth_trial_statement_is(&expected, text), wanted);
}

static void it_is_known_again_and_nothing_else_is(void **state)
{
	(void)state;
	struct told told;
	tell(&told);
	told.evidence.n_attestations = told.evidence.n_receipts = 1;
	BERTH_AUTO_FREE char *without = write_down(&told);
	told.statement.task_checksum = "c0ffee";
	BERTH_AUTO_FREE char *text = write_down(&told);
	assert_is(&told, without, true);
	assert_is(&told, text, true);
	BERTH_AUTO_FREE char *longer = berth_format("%s ", text);
	assert_is(&told, longer, false);
	assert_is(&told, "{\"task_checksum\":\"", false);
	assert_is(&told, "", false);
	for (size_t i = 0; text[i]; i++) { // any byte of it, but for the checksum's own
		size_t in_checksum = (size_t)(strstr(text, "c0ffee") - text);
		char kept = text[i];
		text[i] = kept == '1' ? '2' : '1';
		assert_is(&told, text, i >= in_checksum && i < in_checksum + 6);
		text[i] = kept;
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_result_with_nothing_has_every_member),
	cmocka_unit_test(a_scored_result_has_rewards_attestations_and_receipts),
	cmocka_unit_test(texts_that_need_more_than_quotes_are_written_as_json_has_them),
	cmocka_unit_test(rewards_that_are_no_json_are_refused),
	cmocka_unit_test(an_outcome_without_a_name_is_refused),
	cmocka_unit_test(it_is_known_again_and_nothing_else_is),
};
BERTH_TEST_MAIN(tests)
