// SPDX-License-Identifier: Apache-2.0
// The ledger as others see it: signed heads and proofs over the wire, the commands that check them, and a reader of
// proof files that shares no code with them.
#include <stdlib.h>
#include <string.h>

#include "berth/v1/ledger.pb-c.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/json.h"
#include "common/codec/proto.h"
#include "common/evidence/head.h"
#include "common/evidence/merkle.h"
#include "tests/integration/coordinator/desk.h"
#include "tests/support/test.h"

#define LEDGER(on, method, request, err) quay_call(on, &berth__v1__ledger_service__descriptor, method, request, err)

// A job whose first trial is scored.
static char *one_scored_trial(struct fixture *f)
{
	struct agent agent = {0};
	char *job = quay_submit(f, "key", 1);
	quay_join(&agent, f);
	Berth__V1__CoordinatorMessage *assigned = quay_receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	quay_finish(&agent, assigned->assignment, QUAY_HONEST);
	berth_proto_free(assigned);
	quay_leave(&agent);
	quay_forget(&agent);
	return job;
}

static void write_text(const char *path, const char *text)
{
	struct berth_error err;
	assert_ok(berth_file_write(path, text, strlen(text), 0600, &err), err);
}

// Exit code of the reader that is not ours.
static int read_by_another(const struct desk *desk, const char *key)
{
	BERTH_AUTO_FREE char *reader = berth_test_data("tests/integration/coordinator/verify_proof.py");
	BERTH_AUTO_FREE char *command = berth_format("/usr/bin/python3 -B '%s' '%s' '%s'", reader, desk->proof, key);
	int status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void enrolment_gives_the_key_that_signs_the_head(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	BERTH_AUTO_FREE char *path = berth_path_join(desk->credentials, "ledger.pem");
	BERTH_AUTO(berth_buf_free) struct berth_buf pem = {0};
	BERTH_AUTO_FREE uint8_t *der = NULL;
	size_t der_size;
	assert_ok(berth_file_read(path, 4096, &pem, &err), err);
	assert_ok(berth_public_key_parse(berth_buf_text(&pem), path, &der, &der_size, &err), err);
	Berth__V1__GetHeadRequest request = BERTH__V1__GET_HEAD_REQUEST__INIT;
	// Agents may ask as well.
	Berth__V1__GetHeadResponse *response = LEDGER(desk->quay->agent_main, "GetHead", &request, &err);
	assert_ok(response, err);
	struct berth_head head = {.fleet = "quay", .size = response->head->sequence};
	memcpy(head.leaf.bytes, response->head->leaf_hash.data, BERTH_DIGEST_SIZE);
	memcpy(head.root.bytes, response->head->root_hash.data, BERTH_DIGEST_SIZE);
	assert_ok(berth_head_verify(
			  der, der_size, &head, response->head->signature.data, response->head->signature.len, &err),
		err);
	head.size++;
	assert_false(berth_head_verify(
		der, der_size, &head, response->head->signature.data, response->head->signature.len, &err));
	berth_proto_free(response);
}

static void only_operators_read_events(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	Berth__V1__GetEventsRequest request = BERTH__V1__GET_EVENTS_REQUEST__INIT;
	request.from = 1;
	assert_null(LEDGER(desk->quay->agent_main, "GetEvents", &request, &err));
	assert_int_equal(err.code, BERTH_ERROR_DENIED);
	Berth__V1__GetEventsResponse *page = LEDGER(desk->quay->main, "GetEvents", &request, &err);
	assert_ok(page, err);
	assert_true(page->n_events >= 2);
	berth_proto_free(page);
}

static void every_event_is_proven_in_every_tree_that_holds_it(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	BERTH_AUTO_FREE char *job = one_scored_trial(desk->quay);
	Berth__V1__GetHeadRequest ask = BERTH__V1__GET_HEAD_REQUEST__INIT;
	Berth__V1__GetHeadResponse *now = LEDGER(desk->quay->main, "GetHead", &ask, &err);
	assert_ok(now, err);
	for (uint64_t sequence = 1; sequence <= now->head->sequence; sequence++) {
		for (uint64_t size = sequence; size <= now->head->sequence; size += 3) {
			Berth__V1__ProveInclusionRequest request = BERTH__V1__PROVE_INCLUSION_REQUEST__INIT;
			request.sequence = sequence;
			request.size = size;
			Berth__V1__ProveInclusionResponse *proof =
				LEDGER(desk->quay->main, "ProveInclusion", &request, &err);
			assert_ok(proof, err);
			struct berth_digest path[BERTH_MERKLE_LEVELS + 1], root;
			for (size_t i = 0; i < proof->n_path; i++) {
				memcpy(path[i].bytes, proof->path[i].data, BERTH_DIGEST_SIZE);
			}
			memcpy(root.bytes, proof->head->root_hash.data, BERTH_DIGEST_SIZE);
			struct berth_digest leaf = berth_merkle_leaf(proof->event.data, proof->event.len);
			assert_int_equal(proof->head->sequence, size);
			assert_true(
				berth_merkle_verify_inclusion(&leaf, sequence - 1, size, path, proof->n_path, &root));
			berth_proto_free(proof);
		}
	}
	berth_proto_free(now);
}

static void a_trials_proof_is_checked_here_and_by_a_reader_that_is_not_ours(void **state)
{
	struct desk *desk = *state;
	BERTH_AUTO_FREE char *job = one_scored_trial(desk->quay);
	BERTH_AUTO_FREE char *trial = berth_format("%s/0", job);
	BERTH_AUTO_FREE char *key = berth_path_join(desk->credentials, "ledger.pem");
	SHELL(&desk->shell, "ledger", "prove", "--trial", trial);
	assert_code(desk->shell, 0);
	write_text(desk->proof, desk->shell.out);
	SHELL(&desk->shell, "ledger", "check", desk->proof);
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "(trial_ended) is in the ledger of quay");
	assert_int_equal(read_by_another(desk, key), 0);
	SHELL(&desk->shell, "lease", "list", "--all", "--output", "plain");
	BERTH_AUTO_FREE char *lease = berth_strndup(desk->shell.out, BERTH_ID_SIZE - 1);
	SHELL(&desk->shell, "ledger", "prove", "--lease", lease);
	assert_code(desk->shell, 0);
	write_text(desk->proof, desk->shell.out);
	SHELL(&desk->shell, "ledger", "check", desk->proof);
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "(lease_moved) is in the ledger of quay");
	SHELL(&desk->shell, "ledger", "prove", "--lease", "nothing");
	assert_code(desk->shell, 3);
	SHELL(&desk->shell, "ledger", "prove", "2", "--lease", lease);
	assert_code(desk->shell, 2);
	SHELL(&desk->shell, "ledger", "prove", "--trial", "nothing/0");
	assert_code(desk->shell, 3);
	SHELL(&desk->shell, "ledger", "prove", "1000000");
	assert_code(desk->shell, 3);
	SHELL(&desk->shell, "ledger", "prove");
	assert_code(desk->shell, 2);
}

// Each member changed, one at a time: both readers refuse.
static void a_proof_that_was_touched_is_refused_by_both_readers(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	static const char *const WHAT[] = {"event", "path", "root", "leaf", "size", "sequence", "signature"};
	BERTH_AUTO_FREE char *key = berth_path_join(desk->credentials, "ledger.pem");
	BERTH_AUTO_FREE char *other = berth_path_join(desk->quay->folder, "other.pem");
	SHELL(&desk->shell, "ledger", "prove", "2");
	assert_code(desk->shell, 0);
	BERTH_AUTO(berth_json_cleanup)
	berth_json *proof = berth_json_parse(desk->shell.out, strlen(desk->shell.out), "proof", &err);
	for (size_t i = 0; i < BERTH_COUNT(WHAT); i++) {
		BERTH_AUTO(berth_json_cleanup) berth_json *touched = berth_json_copy(proof);
		berth_json *head = berth_json_get(touched, "head");
		berth_json *place = berth_json_get(head, WHAT[i]) ? head : touched;
		const char *zeros = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
		berth_json *value = i == 0 ? berth_json_string("AAAA") : i == 6 ? berth_json_string("AAAAAAAA") : NULL;
		if (i == 1) {
			value = berth_json_copy(berth_json_get(touched, "path"));
			berth_json_append(value, berth_json_string(zeros));
		} else if (i == 2 || i == 3) {
			value = berth_json_string(zeros);
		} else if (i == 4 || i == 5) {
			value = berth_json_integer(berth_json_get_integer(place, WHAT[i]) + 1);
		}
		berth_json_set(place, WHAT[i], value);
		BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
		berth_json_write(touched, 0, &text);
		write_text(desk->proof, berth_buf_text(&text));
		SHELL(&desk->shell, "ledger", "check", desk->proof);
		assert_code(desk->shell, 8);
		assert_int_equal(read_by_another(desk, key), 8);
	}
	// And a whole one under another fleet's key.
	BERTH_AUTO(berth_buf_free) struct berth_buf whole = {0};
	berth_json_write(proof, 0, &whole);
	write_text(desk->proof, berth_buf_text(&whole));
	BERTH_AUTO_FREE uint8_t *der = NULL;
	size_t der_size;
	assert_ok(berth_signing_key_public(desk->quay->signing, &der, &der_size, &err), err);
	BERTH_AUTO_FREE char *pem = berth_public_key_pem(der, der_size, &err);
	write_text(other, pem);
	SHELL(&desk->shell, "ledger", "check", desk->proof, "--key", other);
	assert_code(desk->shell, 8);
	assert_int_equal(read_by_another(desk, other), 8);
}

static void an_audit_follows_the_ledger_and_tells_one_that_was_cut(void **state)
{
	struct desk *desk = *state;
	BERTH_AUTO_FREE char *data = berth_path_join(desk->quay->folder, "data");
	BERTH_AUTO_FREE char *kept = berth_path_join(desk->quay->folder, "berth/quay.head.json");
	SHELL(&desk->shell, "ledger", "audit");
	assert_code(desk->shell, 0);
	BERTH_AUTO_FREE char *job = one_scored_trial(desk->quay);
	SHELL(&desk->shell, "ledger", "audit");
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "continues the");
	SHELL(&desk->shell, "ledger", "show");
	assert_code(desk->shell, 0);
	quay_stop(desk->quay);
	quay_start(desk->quay);
	desk_point_at(desk);
	SHELL(&desk->shell, "ledger", "audit");
	assert_code(desk->shell, 0);
	// A head that this ledger never had.
	write_text(kept, "{\"root\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"size\":2}");
	SHELL(&desk->shell, "ledger", "audit");
	assert_code(desk->shell, 8);
	assert_has(desk->shell.err, "does not continue");
	write_text(
		kept, "{\"root\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"size\":99999}");
	SHELL(&desk->shell, "ledger", "audit");
	assert_code(desk->shell, 8);
	assert_has(desk->shell.err, "truncated");
	// A folder in use, and the same one at rest.
	SHELL(&desk->shell, "ledger", "verify", data);
	assert_code(desk->shell, 4);
	quay_stop(desk->quay);
	SHELL(&desk->shell, "ledger", "verify", data);
	assert_code(desk->shell, 0);
	SHELL(&desk->shell, "ledger", "audit", data);
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "1 jobs, 0 not over");
	assert_has(desk->shell.out, "retired");
	quay_start(desk->quay);
}

#define POLICY                                                                                                         \
	"{\"study_id\":\"s\",\"manifest_digest\":\"sha256:"                                                            \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"hard_limit_nano_usd\":20000000000,"      \
	"\"phase_limits_nano_usd\":{\"search\":12500000000},"                                                          \
	"\"rates\":[{\"backend\":\"local\",\"role\":\"task_environment\",\"cpu_count\":1,\"memory_mb\":512,"           \
	"\"nano_usd_per_second\":10}]}"

static void a_budgets_chain_is_exported_from_its_opening(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	BERTH_AUTO_FREE char *policy = berth_path_join(desk->quay->folder, "policy.json");
	write_text(policy, POLICY);
	SHELL(&desk->shell, "budget", "create", "tide", policy);
	assert_code(desk->shell, 0);
	SHELL(&desk->shell, "ledger", "export", "--budget", "tide");
	assert_code(desk->shell, 0);
	BERTH_AUTO(berth_json_cleanup)
	berth_json *line = berth_json_parse(desk->shell.out, strlen(desk->shell.out), "the only line", &err);
	assert_ok(line, err);
	assert_int_equal(berth_json_get_integer(line, "sequence"), 1);
	assert_string_equal(berth_json_get_string(berth_json_get(line, "action"), "kind"), "opened");
	SHELL(&desk->shell, "ledger", "export", "--budget", "ebb");
	assert_code(desk->shell, 3);
	SHELL(&desk->shell, "ledger", "export");
	assert_code(desk->shell, 2);
}

// An agent that saw other bytes before the last event is refused, although that event is the same.
static void a_head_with_another_root_is_refused_by_the_coordinator(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	for (int flip = 0; flip < 2; flip++) {
		Berth__V1__GetHeadRequest ask = BERTH__V1__GET_HEAD_REQUEST__INIT;
		Berth__V1__GetHeadResponse *now = LEDGER(desk->quay->main, "GetHead", &ask, &err);
		assert_ok(now, err);
		now->head->root_hash.data[0] ^= (uint8_t)flip;
		struct berth_rpc_stream *stream = berth_rpc_stream_open(desk->quay->agent_main,
			&berth__v1__fleet_service__descriptor, "Session", berth_within_ms(WAIT_MS, NULL), &err);
		assert_ok(stream, err);
		Berth__V1__VersionRange range = BERTH__V1__VERSION_RANGE__INIT;
		Berth__V1__Capacity capacity = BERTH__V1__CAPACITY__INIT;
		Berth__V1__Hello hello = BERTH__V1__HELLO__INIT;
		Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT, *messages[] = {&message};
		Berth__V1__AgentBatch batch = BERTH__V1__AGENT_BATCH__INIT;
		range.least = range.most = 1;
		hello.protocol = &range;
		hello.capacity = &capacity;
		hello.boot_id = (char *)BOOT;
		hello.seen = now->head;
		message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
		message.hello = &hello;
		batch.messages = messages;
		batch.n_messages = 1;
		assert_ok(berth_rpc_stream_send(stream, &batch.base, &err), err);
		ProtobufCMessage *answer = NULL;
		enum berth_rpc_received received =
			berth_rpc_stream_receive(stream, &answer, berth_within_ms(WAIT_MS, NULL), &err);
		if (flip) {
			assert_fails(received == BERTH_RPC_MESSAGE, err, BERTH_ERROR_FENCED, "does not hold");
		} else {
			assert_ok(received == BERTH_RPC_MESSAGE, err);
			berth_proto_free(answer);
		}
		berth_rpc_stream_free(stream);
		berth_proto_free(now);
	}
}

#define AT_DESK(test) cmocka_unit_test_setup_teardown(test, desk_setup, desk_teardown)

static const struct CMUnitTest tests[] = {
	AT_DESK(enrolment_gives_the_key_that_signs_the_head),
	AT_DESK(only_operators_read_events),
	AT_DESK(every_event_is_proven_in_every_tree_that_holds_it),
	AT_DESK(a_trials_proof_is_checked_here_and_by_a_reader_that_is_not_ours),
	AT_DESK(a_proof_that_was_touched_is_refused_by_both_readers),
	AT_DESK(an_audit_follows_the_ledger_and_tells_one_that_was_cut),
	AT_DESK(a_budgets_chain_is_exported_from_its_opening),
	AT_DESK(a_head_with_another_root_is_refused_by_the_coordinator),
};
BERTH_TEST_MAIN(tests)
