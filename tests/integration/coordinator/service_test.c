// SPDX-License-Identifier: Apache-2.0
// A whole coordinator in this process, over mutual TLS: blobs, jobs, an agent's session, watchers, roles, a restart.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "berth/v1/blob.pb-c.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/daemon.h"
#include "tests/integration/coordinator/quay.h"
#include "tests/support/test.h"

// The blob is `data`, from the offset on.
static void assert_blob_is(struct fixture *f, Berth__V1__BlobRef *blob, size_t offset, const void *data)
{
	struct berth_error err;
	struct berth_rpc_stream *stream = berth_rpc_stream_open(
		f->blobs, &berth__v1__blob_service__descriptor, "GetBlob", berth_within_ms(WAIT_MS, NULL), &err);
	Berth__V1__GetBlobRequest request = BERTH__V1__GET_BLOB_REQUEST__INIT;
	request.blob = blob;
	request.offset = (int64_t)offset;
	berth_rpc_stream_send(stream, &request.base, NULL);
	berth_rpc_stream_close_send(stream, NULL);
	size_t at = offset, size = (size_t)blob->size;
	ProtobufCMessage *message;
	enum berth_rpc_received received;
	while ((received = berth_rpc_stream_receive(stream, &message, berth_within_ms(WAIT_MS, NULL), &err)) ==
		BERTH_RPC_MESSAGE) {
		const Berth__V1__GetBlobResponse *response = (const Berth__V1__GetBlobResponse *)message;
		assert_true(at + response->chunk.len <= size);
		assert_memory_equal((const uint8_t *)data + at, response->chunk.data, response->chunk.len);
		at += response->chunk.len;
		berth_proto_free(message);
	}
	assert_ok(received == BERTH_RPC_END, err);
	assert_int_equal(at, size);
	berth_rpc_stream_free(stream);
}

static void a_large_blob_comes_back_whole_and_from_any_offset(void **state)
{
	struct fixture *f = *state;
	struct berth_error err;
	enum { SIZE = 12 * 1024 * 1024, OFFSET = 1234567 };
	BERTH_AUTO_FREE uint8_t *data = berth_alloc(SIZE);
	berth_random(data, SIZE);
	struct berth_digest digest = berth_sha256(data, SIZE);
	assert_ok(quay_put(f, &digest, data, SIZE, &err), err);
	Berth__V1__BlobRef blob = BERTH__V1__BLOB_REF__INIT;
	blob.sha256 = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, digest.bytes};
	blob.size = SIZE;
	assert_blob_is(f, &blob, 0, data);
	assert_blob_is(f, &blob, OFFSET, data);
}

static void a_job_needs_its_bundle_and_a_wrong_digest_is_refused(void **state)
{
	struct fixture *f = *state;
	struct berth_error err;
	struct submitted job;
	quay_fill_job(&job, "key", 1);
	assert_null(JOBS(f->main, "SubmitJob", &job.request, &err));
	assert_int_equal(err.code, BERTH_ERROR_INVALID);
	assert_non_null(strstr(err.message, "bundle of task count-words"));
	struct berth_digest wrong = berth_sha256("else", 4);
	assert_fails(quay_put(f, &wrong, "something", 9, &err), err, BERTH_ERROR_CORRUPT, "");
	BERTH_AUTO_FREE char *first = quay_submit(f, "key", 1);
	BERTH_AUTO_FREE char *again = quay_submit(f, "key", 1);
	assert_string_equal(first, again);
}

static void only_the_right_role_and_the_newest_certificate_are_served(void **state)
{
	struct fixture *f = *state;
	struct berth_error err;
	struct submitted job;
	quay_fill_job(&job, "key", 1);
	assert_null(JOBS(f->agent_main, "SubmitJob", &job.request, &err));
	assert_int_equal(err.code, BERTH_ERROR_DENIED);
	quay_enroll(
		f, "agent", "north", &f->agent); // anew: what agent_main was opened with is the older certificate now
	struct berth_rpc_stream *stream = berth_rpc_stream_open(
		f->agent_main, &berth__v1__fleet_service__descriptor, "Session", berth_within_ms(WAIT_MS, NULL), &err);
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	Berth__V1__Hello hello = BERTH__V1__HELLO__INIT;
	hello.boot_id = (char *)BOOT;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
	message.hello = &hello;
	Berth__V1__AgentMessage *messages[] = {&message};
	Berth__V1__AgentBatch batch = BERTH__V1__AGENT_BATCH__INIT;
	batch.messages = messages;
	batch.n_messages = 1;
	berth_rpc_stream_send(stream, &batch.base, NULL);
	ProtobufCMessage *answer;
	assert_int_equal(
		berth_rpc_stream_receive(stream, &answer, berth_within_ms(WAIT_MS, NULL), &err), BERTH_RPC_FAILED);
	assert_int_equal(err.code, BERTH_ERROR_DENIED);
	assert_non_null(strstr(err.message, "enrolled again"));
	berth_rpc_stream_free(stream);
}

static const char *value_of(const Berth__V1__Assignment *assignment, const char *scope)
{
	for (size_t i = 0; i < assignment->secrets->n_secrets; i++) {
		if (strcmp(assignment->secrets->secrets[i]->scope, scope) == 0) {
			return assignment->secrets->secrets[i]->value;
		}
	}
	return NULL;
}

struct watch {
	struct fixture *fixture;
	const char *job;
	uint32_t scored, updates;
	Berth__V1__JobState end;
	bool ended;
};

static void *watch_to_the_end(void *context)
{
	struct watch *watch = context;
	struct berth_error err;
	Berth__V1__WatchJobRequest request = BERTH__V1__WATCH_JOB_REQUEST__INIT;
	request.job_id = (char *)watch->job;
	request.with_trials = true;
	struct berth_rpc_stream *stream = berth_rpc_stream_open(watch->fixture->main,
		&berth__v1__job_service__descriptor, "WatchJob", berth_within_ms(WAIT_MS, NULL), &err);
	berth_rpc_stream_send(stream, &request.base, NULL);
	berth_rpc_stream_close_send(stream, NULL);
	ProtobufCMessage *message;
	enum berth_rpc_received received;
	while ((received = berth_rpc_stream_receive(stream, &message, berth_within_ms(WAIT_MS, NULL), &err)) ==
		BERTH_RPC_MESSAGE) {
		const Berth__V1__JobUpdate *update = (const Berth__V1__JobUpdate *)message;
		watch->scored = update->job->counts->scored;
		watch->end = update->job->state;
		watch->updates++;
		berth_proto_free(message);
	}
	watch->ended = received == BERTH_RPC_END;
	berth_rpc_stream_free(stream);
	return NULL;
}

struct forgotten {
	const char *job;
	bool is;
};

static void ask_forgotten(const struct berth_core *core, void *context)
{
	struct forgotten *forgotten = context;
	forgotten->is = berth_core_is_forgotten(core, forgotten->job);
}

static void wait_until_forgotten(struct fixture *f, const char *job)
{
	struct forgotten forgotten = {.job = job};
	struct berth_until until = berth_within_ms(WAIT_MS, NULL);
	struct berth_error err;
	do {
		assert_ok(berth_engine_ask(f->daemon->engine, NULL, ask_forgotten, &forgotten, &err), err);
	} while (!forgotten.is && berth_sleep_ms(1, until, NULL));
	assert_true(forgotten.is);
}

// What came with a report comes with the trials that are asked for so, and by its name as every blob.
static void assert_folders(struct fixture *f, const char *job)
{
	struct berth_error err;
	Berth__V1__ListTrialsRequest request = BERTH__V1__LIST_TRIALS_REQUEST__INIT;
	request.job_id = (char *)job;
	request.with_folders = true;
	Berth__V1__ListTrialsResponse *trials = JOBS(f->main, "ListTrials", &request, &err);
	assert_ok(trials != NULL, err);
	assert_int_equal(trials->n_trials, 2);
	assert_int_equal(trials->trials[1]->folder.len, strlen(QUAY_FOLDER));
	assert_memory_equal(trials->trials[1]->folder.data, QUAY_FOLDER, strlen(QUAY_FOLDER));
	Berth__V1__BlobRef *blobs[] = {trials->trials[1]->result->folder};
	Berth__V1__FindMissingRequest find = BERTH__V1__FIND_MISSING_REQUEST__INIT;
	find.n_blobs = 1;
	find.blobs = blobs;
	Berth__V1__FindMissingResponse *found =
		quay_call(f->blobs, &berth__v1__blob_service__descriptor, "FindMissing", &find, &err);
	assert_ok(found != NULL, err);
	assert_int_equal(found->n_missing, 0);
	berth_proto_free(found);
	assert_blob_is(f, blobs[0], 4, QUAY_FOLDER);
	berth_proto_free(trials);
}

// What is shown of a job of two trials that are over, wherever it is kept.
static void assert_shown(struct fixture *f, const char *job)
{
	struct berth_error err;
	assert_int_equal(quay_state_of(f, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
	Berth__V1__ListTrialsRequest request = BERTH__V1__LIST_TRIALS_REQUEST__INIT;
	request.job_id = (char *)job;
	Berth__V1__ListTrialsResponse *trials = JOBS(f->main, "ListTrials", &request, &err);
	assert_ok(trials != NULL, err);
	assert_int_equal(trials->n_trials, 2);
	assert_string_equal(trials->trials[1]->result->rewards_json, "{\"reward\": 0.5}");
	assert_memory_equal(trials->trials[1]->trial_name, "count-words__", 13);
	assert_string_equal(trials->trials[1]->agent_host, "north");
	assert_int_equal(trials->trials[1]->folder.len, 0);
	berth_proto_free(trials);
	assert_folders(f, job);
	Berth__V1__ListLeasesRequest leases_request = BERTH__V1__LIST_LEASES_REQUEST__INIT;
	leases_request.job_id = (char *)job;
	Berth__V1__ListLeasesResponse *leases =
		quay_call(f->main, &berth__v1__lease_service__descriptor, "ListLeases", &leases_request, &err);
	assert_ok(leases != NULL, err);
	assert_int_equal(leases->n_leases, 2);
	assert_true(strcmp(leases->leases[0]->lease_id, leases->leases[1]->lease_id) < 0);
	assert_int_equal(leases->leases[0]->state, BERTH__V1__LEASE_STATE__LEASE_RETIRED);
	berth_proto_free(leases);
	struct watch watch = {.fixture = f, .job = job};
	watch_to_the_end(&watch);
	assert_int_equal(watch.scored, 2);
}

static void an_agent_scores_a_job_and_a_restart_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct agent agent = {0};
	BERTH_AUTO_FREE char *job = quay_submit(f, "key", 2);
	struct watch watch = {.fixture = f, .job = job};
	pthread_t watcher;
	pthread_create(&watcher, NULL, watch_to_the_end, &watch);
	quay_join(&agent, f);
	Berth__V1__CoordinatorMessage *given[2];
	for (size_t i = 0; i < 2; i++) {
		given[i] = quay_receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
		assert_int_equal(given[i]->assignment->spec->n_tasks, 1);
	}
	assert_string_equal(value_of(given[0]->assignment, "verifier/0"), "first");
	assert_string_equal(value_of(given[1]->assignment, "verifier/0/build"), "second");
	assert_null(value_of(given[1]->assignment, "verifier/0"));
	assert_string_equal(value_of(given[1]->assignment, "environment"), "third");
	for (size_t i = 0; i < 2; i++) {
		quay_finish(&agent, given[i]->assignment, QUAY_HONEST);
		berth_proto_free(given[i]);
	}
	pthread_join(watcher, NULL);
	assert_true(watch.ended && watch.updates > 0);
	assert_int_equal(watch.scored, 2);
	assert_int_equal(watch.end, BERTH__V1__JOB_STATE__JOB_COMPLETED);
	quay_leave(&agent);
	assert_shown(f, job);
	wait_until_forgotten(f, job);
	assert_shown(f, job);
	quay_stop(f);
	quay_start(f);
	assert_shown(f, job);
	wait_until_forgotten(f, job);
	quay_join(&agent, f); // its reports are applied already
	quay_leave(&agent);
	quay_forget(&agent);
	assert_shown(f, job);
}

static void assert_run_again(struct fixture *f, enum quay_honesty how)
{
	struct agent agent = {0};
	BERTH_AUTO_FREE char *job = quay_submit(f, "key", 1);
	quay_join(&agent, f);
	Berth__V1__CoordinatorMessage *first = quay_receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	quay_finish(&agent, first->assignment, how);
	Berth__V1__CoordinatorMessage *second = quay_receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	assert_int_equal(second->assignment->trial->generation, 2);
	assert_string_not_equal(second->assignment->leases[0]->lease_id, first->assignment->leases[0]->lease_id);
	quay_finish(&agent, second->assignment, QUAY_HONEST);
	assert_int_equal(quay_state_of(f, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
	berth_proto_free(first);
	berth_proto_free(second);
	quay_leave(&agent);
	quay_forget(&agent);
}

static void a_result_that_says_more_than_was_signed_is_run_again(void **state)
{
	assert_run_again(*state, QUAY_LIES);
}

// Writer and reader share the number; one that is not shared is refused for its trial alone, which runs again.
static void x1_a_statement_of_another_version_is_run_again(void **state)
{
	assert_run_again(*state, QUAY_OTHER_VERSION);
}

static void a_statement_in_anothers_place_is_run_again(void **state)
{
	assert_run_again(*state, QUAY_OTHER_PLACE);
}

static void a_statement_in_a_place_of_no_group_is_run_again(void **state)
{
	assert_run_again(*state, QUAY_NO_PLACE);
}

static void a_result_that_comes_with_another_folder_is_run_again(void **state)
{
	assert_run_again(*state, QUAY_OTHER_FOLDER);
}

static void a_cancel_reaches_the_agent_and_the_watcher(void **state)
{
	struct fixture *f = *state;
	struct agent agent = {0};
	struct berth_error err;
	BERTH_AUTO_FREE char *job = quay_submit(f, "key", 1);
	quay_join(&agent, f);
	Berth__V1__CoordinatorMessage *given = quay_receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	struct watch watch = {.fixture = f, .job = job};
	pthread_t watcher;
	pthread_create(&watcher, NULL, watch_to_the_end, &watch);
	Berth__V1__CancelJobRequest request = BERTH__V1__CANCEL_JOB_REQUEST__INIT;
	request.job_id = job;
	Berth__V1__CancelJobResponse *response = JOBS(f->main, "CancelJob", &request, &err);
	assert_ok(response != NULL, err);
	assert_int_equal(response->job->state, BERTH__V1__JOB_STATE__JOB_CANCELLING);
	berth_proto_free(response);
	berth_proto_free(quay_receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_REVOKE));
	quay_move(&agent, given->assignment->leases[0]->lease_id, BERTH__V1__LEASE_STATE__LEASE_RETIRED,
		BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
	pthread_join(watcher, NULL);
	assert_int_equal(watch.end, BERTH__V1__JOB_STATE__JOB_CANCELLED);
	berth_proto_free(given);
	quay_leave(&agent);
	quay_forget(&agent);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, quay_setup, quay_teardown)

static const struct CMUnitTest tests[] = {
	TEST(a_large_blob_comes_back_whole_and_from_any_offset),
	TEST(a_job_needs_its_bundle_and_a_wrong_digest_is_refused),
	TEST(only_the_right_role_and_the_newest_certificate_are_served),
	TEST(an_agent_scores_a_job_and_a_restart_changes_nothing),
	TEST(a_result_that_says_more_than_was_signed_is_run_again),
	TEST(x1_a_statement_of_another_version_is_run_again),
	TEST(a_statement_in_anothers_place_is_run_again),
	TEST(a_statement_in_a_place_of_no_group_is_run_again),
	TEST(a_result_that_comes_with_another_folder_is_run_again),
	TEST(a_cancel_reaches_the_agent_and_the_watcher),
};

BERTH_TEST_MAIN(tests)
