// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cli/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"

#define STARTED_NS    INT64_C(1787400000000000000) // 2026-08-22T12:00:00Z
#define SECOND_NS     INT64_C(1000000000)
#define JSON_SIZE_MAX (1024 * 1024)

static Berth__V1__Phase *phase(int start, int end)
{
	Berth__V1__Phase *made = berth_alloc(sizeof *made);
	berth__v1__phase__init(made);
	made->started_at_ns = STARTED_NS + start * SECOND_NS;
	made->finished_at_ns = STARTED_NS + end * SECOND_NS + 250000;
	return made;
}

static void add_agent(Berth__V1__JobSpec *spec, const char *name, const char *model)
{
	Berth__V1__AgentConfig *agent = berth_alloc(sizeof *agent);
	berth__v1__agent_config__init(agent);
	berth_proto_set_string(&agent->name, name);
	berth_proto_set_string(&agent->model_name, model);
	berth_proto_append(&spec->n_agents, &spec->agents, agent);
}

static void add_task(Berth__V1__JobSpec *spec, const char *name, const char *source, char digit)
{
	Berth__V1__Task *task = berth_alloc(sizeof *task);
	berth__v1__task__init(task);
	char hex[65];
	memset(hex, digit, 64);
	hex[64] = 0;
	BERTH_AUTO_FREE char *full = berth_format("harbor/%s", name);
	BERTH_AUTO_FREE char *path = berth_format("examples/tasks/%s", name);
	BERTH_AUTO_FREE char *digest = berth_format("sha256:%s", hex);
	berth_proto_set_string(&task->base_name, name);
	berth_proto_set_string(&task->name, full);
	berth_proto_set_string(&task->path, path);
	berth_proto_set_string(&task->source, source);
	berth_proto_set_string(&task->checksum, hex);
	berth_proto_set_string(&task->lock_digest, digest);
	berth_proto_append(&spec->n_tasks, &spec->tasks, task);
}

static Berth__V1__JobSpec *make_spec(void)
{
	Berth__V1__JobSpec *spec = berth_alloc(sizeof *spec);
	berth__v1__job_spec__init(spec);
	berth_proto_set_string(&spec->name, "tide");
	berth_proto_set_string(&spec->environment_type, "docker");
	berth_proto_set_string(&spec->config_json,
		"{\"job_name\":\"tide\",\"n_attempts\":2,\"agents\":[{\"name\":\"oracle\"},{\"name\":\"nop\","
		"\"model_name\":\"anthropic/quay-1\",\"override_timeout_sec\":90,\"env\":{\"API_KEY\":\"****\"}}],"
		"\"environment\":{\"override_cpus\":2},\"tasks\":[{\"path\":\"examples/tasks/hello-world\"}]}");
	spec->attempts = 2;
	spec->timeout_multiplier = 1;
	spec->agent_timeout_multiplier = 2;
	spec->verifier_timeout_multiplier = spec->agent_setup_timeout_multiplier =
		spec->environment_build_timeout_multiplier = -1;
	add_agent(spec, "oracle", "");
	add_agent(spec, "nop", "anthropic/quay-1");
	add_task(spec, "hello-world", "", 'a');
	add_task(spec, "fog", "harbour-set", 'b');
	return spec;
}

static Berth__V1__Job *make_job(void)
{
	Berth__V1__Job *job = berth_alloc(sizeof *job);
	berth__v1__job__init(job);
	berth_proto_set_string(&job->job_id, FIXTURE_JOB_ID);
	berth_proto_set_string(&job->name, "tide");
	job->state = BERTH__V1__JOB_STATE__JOB_COMPLETED;
	job->submitted_at_ns = STARTED_NS - SECOND_NS;
	job->ended_at_ns = STARTED_NS + 100 * SECOND_NS;
	return job;
}

static void make_blob(struct berth_buf *blob)
{
	static const struct {
		const char *name, *text;
	} FILES[] = {{"trial.log", "built\nended\n"}, {"agent/oracle.txt", "hello\n"},
		{"verifier/test-stdout.txt", "ok\n"}, {"verifier/reward.txt", "1\n"},
		// What a trial says of itself does not reach the reader.
		{"result.json/forged", "{}"}};
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct berth_error err;
	for (size_t i = 0; i < BERTH_COUNT(FILES); i++) {
		BERTH_AUTO_FREE char *path = berth_path_join(folder, FILES[i].name);
		BERTH_AUTO_FREE char *parent = berth_strdup(path);
		*strrchr(parent, '/') = 0;
		assert_ok(berth_mkdir_all(parent, 0755, &err), err);
		assert_ok(berth_file_write(path, FILES[i].text, strlen(FILES[i].text), 0644, &err), err);
	}
	const struct berth_tar_options options = {0};
	assert_ok(berth_tar_write_folder(folder, &options, berth_sink_buf(blob), &err), err);
}

static Berth__V1__BlobRef *ref_of(const struct berth_buf *blob)
{
	Berth__V1__BlobRef *ref = berth_alloc(sizeof *ref);
	berth__v1__blob_ref__init(ref);
	struct berth_digest digest = berth_sha256(blob->data, blob->size);
	berth_proto_set_bytes(&ref->sha256, digest.bytes, sizeof digest.bytes);
	ref->size = (int64_t)blob->size;
	return ref;
}

static Berth__V1__TrialResult *make_result(const struct fixture *fixture, const char *rewards, bool execution)
{
	Berth__V1__TrialResult *result = berth_alloc(sizeof *result);
	berth__v1__trial_result__init(result);
	result->outcome = *rewards ? BERTH__V1__OUTCOME__OUTCOME_SCORED : BERTH__V1__OUTCOME__OUTCOME_TASK;
	berth_proto_set_string(&result->rewards_json, rewards);
	result->trial = phase(0, 20);
	result->environment_setup = phase(1, 5);
	if (execution) {
		result->agent_setup = phase(5, 6);
		result->agent_execution = phase(6, 12);
		result->verifier = phase(12, 19);
	}
	result->folder = ref_of(&fixture->blob);
	berth_proto_set_string(&result->verifier_environment_mode, "shared");
	return result;
}

static void set_exception(Berth__V1__TrialResult *result, const char *type, const char *message)
{
	result->exception = berth_alloc(sizeof *result->exception);
	berth__v1__trial_exception__init(result->exception);
	berth_proto_set_string(&result->exception->type, type);
	berth_proto_set_string(&result->exception->message, message);
}

static Berth__V1__Trial *make_trial(const struct fixture *fixture, uint32_t index, const char *rewards)
{
	Berth__V1__Trial *trial = berth_alloc(sizeof *trial);
	berth__v1__trial__init(trial);
	trial->key = berth_alloc(sizeof *trial->key);
	berth__v1__trial_key__init(trial->key);
	berth_proto_set_string(&trial->key->job_id, FIXTURE_JOB_ID);
	trial->key->index = index;
	trial->key->generation = 1;
	trial->agent = index % 2;
	trial->task = index / 2 % 2;
	trial->attempt = index / 4;
	BERTH_AUTO_FREE char *name =
		berth_format("%s__aaaaaa%u", fixture->spec->tasks[trial->task]->base_name, index + 2);
	berth_proto_set_string(&trial->trial_name, name);
	berth_proto_set_string(&trial->agent_host, "quay-1");
	trial->started_at_ns = STARTED_NS;
	trial->result = make_result(fixture, rewards, true);
	trial->state = *rewards ? BERTH__V1__TRIAL_STATE__TRIAL_SCORED : BERTH__V1__TRIAL_STATE__TRIAL_UNSCORED;
	return trial;
}

static void add_note(Berth__V1__Trial *trial, const char *text)
{
	char *note = berth_strdup(text);
	berth_proto_append(&trial->n_notes, &trial->notes, note);
	trial->key->generation++;
}

void fixture_make(struct fixture *fixture)
{
	static const char *const REWARDS[FIXTURE_TRIALS] = {"{\"reward\":1.0}", "{\"reward\":0.0}", "{\"reward\":1}",
		"{\"reward\":0,\"speed\":2.5}", "{\"reward\":0.0}", "{\"reward\":1.0}", "", ""};
	memset(fixture, 0, sizeof *fixture);
	fixture->folder = berth_test_folder();
	fixture->job = make_job();
	fixture->spec = make_spec();
	make_blob(&fixture->blob);
	for (uint32_t i = 0; i < FIXTURE_TRIALS; i++) {
		fixture->trials[i] = make_trial(fixture, i, REWARDS[i]);
	}
	// A reward and an exception: scored and errored.
	set_exception(fixture->trials[5]->result, "AgentTimeoutError", "agent ran over 90 s");
	set_exception(fixture->trials[6]->result, "RewardFileNotFoundError", "no reward.json, no reward.txt");
	// Infrastructure failed for good: no result at all.
	berth_proto_free(fixture->trials[7]->result);
	fixture->trials[7]->result = NULL;
	fixture->trials[7]->state = BERTH__V1__TRIAL_STATE__TRIAL_QUARANTINED;
	add_note(fixture->trials[7], "generation 1 on quay-1: host lost");
	add_note(fixture->trials[7], "generation 2 on quay-2: registry answered 429");
}

void fixture_free(struct fixture *fixture)
{
	for (size_t i = 0; i < FIXTURE_TRIALS; i++) {
		berth_proto_free(fixture->trials[i]);
	}
	berth_proto_free(fixture->job);
	berth_proto_free(fixture->spec);
	berth_buf_free(&fixture->blob);
	berth_free_cleanup(&fixture->folder);
}

static bool fetch(void *context, const Berth__V1__BlobRef *blob, struct berth_sink sink, struct berth_error *err)
{
	struct fixture *fixture = context;
	(void)blob;
	fixture->fetches++;
	return sink.put(sink.context, fixture->blob.data, fixture->blob.size, err);
}

struct berth_results_blobs fixture_blobs(struct fixture *fixture)
{
	return (struct berth_results_blobs){fetch, fixture};
}

struct berth_results *fixture_write(struct fixture *fixture)
{
	struct berth_error err;
	struct berth_results *results =
		berth_results_open(fixture->folder, fixture->job, fixture->spec, fixture_blobs(fixture), &err);
	assert_ok(results, err);
	for (size_t i = 0; i < FIXTURE_TRIALS; i++) {
		assert_ok(berth_results_add(results, fixture->trials[i], &err), err);
	}
	assert_ok(berth_results_finish(results, &err), err);
	return results;
}

berth_json *fixture_read(const struct fixture *fixture, const char *path)
{
	struct berth_error err;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	BERTH_AUTO_FREE char *full = berth_format("%s/tide/%s", fixture->folder, path);
	assert_ok(berth_file_read(full, JSON_SIZE_MAX, &text, &err), err);
	berth_json *value = berth_json_parse(text.data, text.size, full, &err);
	assert_ok(value, err);
	return value;
}

const berth_json *fixture_at(const berth_json *value, const char *path)
{
	BERTH_AUTO_FREE char *copy = berth_strdup(path);
	char *rest = copy;
	for (char *part; value && (part = strsep(&rest, "."));) {
		value = berth_json_is(value, BERTH_JSON_ARRAY) ? berth_json_at(value, (size_t)atoi(part))
		                                               : berth_json_get(value, part);
	}
	return value;
}
