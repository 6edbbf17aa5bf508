// SPDX-License-Identifier: Apache-2.0
// JobService but for WatchJob.
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/audit/recover.h"
#include "coordinator/service/daemon.h"

#define JOBS_LIMIT    1000
#define TRIALS_LIMIT  1000
#define FOLDERS_BYTES ((size_t)1024 * 1024) // of one page

static size_t limit_of(uint32_t asked, size_t most, size_t otherwise)
{
	return asked == 0 ? otherwise : asked > most ? most : asked;
}

// --- SubmitJob ---

struct submission {
	struct berth_engine_request request;
	struct berth_rpc_call *call;
	const Berth__V1__SubmitJobRequest *message;
	struct berth_arena *memory; // of the message
	struct berth_buf secrets;   // packed
	char job_id[BERTH_ID_SIZE];
	uint8_t seed[16];
};

static void free_submission(struct submission *submission)
{
	if (submission->secrets.data) {
		explicit_bzero(submission->secrets.data, submission->secrets.capacity);
	}
	berth_buf_free(&submission->secrets);
	berth_arena_free(submission->memory);
	berth_rpc_call_unref(submission->call);
	free(submission);
}

static void submit_done(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	(void)core;
	struct submission *submission = (struct submission *)request;
	if (outcome->error.code != BERTH_ERROR_OK) {
		berth_rpc_finish(submission->call, &outcome->error);
	} else {
		Berth__V1__SubmitJobResponse response = BERTH__V1__SUBMIT_JOB_RESPONSE__INIT;
		response.job_id = (char *)outcome->job_id;
		response.existed = outcome->existed;
		berth_reply(submission->call, &response, NULL);
	}
	free_submission(submission);
}

static bool is_same_blob(const Berth__V1__BlobRef *a, const Berth__V1__BlobRef *b)
{
	return a->size == b->size && memcmp(a->sha256.data, b->sha256.data, BERTH_DIGEST_SIZE) == 0;
}

static bool bundles_are_there(
	struct berth_daemon *daemon, const Berth__V1__SubmitJobRequest *submit, struct berth_error *err)
{
	struct berth_digest digest = {0};
	for (size_t i = 0; submit->spec && i < submit->spec->n_tasks; i++) {
		const Berth__V1__Task *task = submit->spec->tasks[i];
		if (!task->bundle || task->bundle->sha256.len != BERTH_DIGEST_SIZE) {
			return berth_fail(err, BERTH_ERROR_INVALID, "task %s names no bundle", task->name);
		}
		if (i && is_same_blob(submit->spec->tasks[i - 1]->bundle, task->bundle)) {
			continue; // large jobs have runs of tasks with one bundle
		}
		memcpy(digest.bytes, task->bundle->sha256.data, BERTH_DIGEST_SIZE);
		if (!berth_blobs_has(daemon->blobs, &digest, task->bundle->size)) {
			return berth_fail(err, BERTH_ERROR_INVALID,
				"the bundle of task %s is not in the blob store: put it, then submit again",
				task->name);
		}
	}
	return true;
}

// The digest by which a client key matches: of the request without its secrets, which may be resolved anew each time.
static struct berth_digest request_digest(const Berth__V1__SubmitJobRequest *submit, size_t *size)
{
	Berth__V1__SubmitJobRequest bare = *submit;
	bare.secrets = NULL;
	return berth_proto_sha256(&bare, size);
}

static void submit_job(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct berth_error err;
	struct submission *submission = berth_alloc(sizeof *submission);
	submission->call = berth_rpc_call_ref(call);
	submission->message = (const Berth__V1__SubmitJobRequest *)message;
	submission->memory = berth_rpc_keep_message(call);
	if (!bundles_are_there(daemon, submission->message, &err)) {
		berth_rpc_finish(call, &err);
		free_submission(submission);
		return;
	}
	if (submission->message->secrets) {
		berth_proto_pack(submission->message->secrets, &submission->secrets);
	}
	struct berth_engine_request *request = &submission->request;
	request->done = submit_done;
	request->principal = *berth_rpc_call_principal(call);
	request->secrets = submission->secrets.data;
	request->secrets_size = submission->secrets.size;
	berth_actor(call, request->actor);
	berth_random_id(submission->job_id);
	berth_random(submission->seed, sizeof submission->seed);
	request->command.kind = BERTH_COMMAND_SUBMIT;
	request->command.submit = submission->message;
	request->command.job_id = submission->job_id;
	request->command.name_seed = submission->seed;
	request->command.request_digest = request_digest(submission->message, &request->events_size);
	request->command.secrets_digest =
		berth_ledger_keyed_digest(daemon->ledger, submission->secrets.data, submission->secrets.size);
	if (!berth_engine_post(daemon->engine, request, &err)) {
		berth_rpc_finish(call, &err);
		free_submission(submission);
	}
}

// --- PlanJob ---

struct planning {
	const Berth__V1__SubmitJobRequest *submit;
	char actor[2 * BERTH_RPC_NAME_MAX];
	const char *disk_message;
	Berth__V1__PlanJobResponse *plan;
};

static void ask_plan(const struct berth_core *core, void *context)
{
	struct planning *planning = context;
	const struct berth_core_now now = {.boot_ns = berth_boot_ns(), .wall_ns = berth_wall_ns()};
	berth_core_plan(core, planning->submit, planning->actor, planning->disk_message, now, planning->plan);
}

static void add_missing(
	struct berth_daemon *daemon, const Berth__V1__SubmitJobRequest *submit, Berth__V1__PlanJobResponse *plan)
{
	for (size_t i = 0; submit->spec && i < submit->spec->n_tasks; i++) {
		const Berth__V1__BlobRef *bundle = submit->spec->tasks[i]->bundle;
		struct berth_digest digest;
		if (bundle && bundle->sha256.len == BERTH_DIGEST_SIZE) {
			memcpy(digest.bytes, bundle->sha256.data, BERTH_DIGEST_SIZE);
			if (!berth_blobs_has(daemon->blobs, &digest, bundle->size)) {
				berth_proto_append(&plan->n_missing, &plan->missing, berth_proto_clone(bundle));
			}
		}
	}
}

static void plan_job(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct berth_error err, disk;
	Berth__V1__PlanJobResponse *plan = berth_alloc(sizeof *plan);
	berth__v1__plan_job_response__init(plan);
	struct planning planning = {.submit = (const Berth__V1__SubmitJobRequest *)message,
		.disk_message = berth_ledger_disk_ok(daemon->ledger, &disk) ? NULL : disk.message,
		.plan = plan};
	berth_actor(call, planning.actor);
	bool ok = berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_plan, &planning, &err);
	if (ok) {
		add_missing(daemon, planning.submit, plan);
	}
	berth_reply(call, ok ? plan : NULL, &err);
	berth_proto_free(plan);
}

// --- CancelJob ---

struct cancellation {
	struct berth_engine_request request;
	struct berth_rpc_call *call;
	const Berth__V1__CancelJobRequest *message;
	struct berth_arena *memory; // of the message
};

static void free_cancellation(struct cancellation *cancellation)
{
	berth_arena_free(cancellation->memory);
	berth_rpc_call_unref(cancellation->call);
	free(cancellation);
}

static void cancel_done(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	struct cancellation *cancellation = (struct cancellation *)request;
	if (outcome->error.code != BERTH_ERROR_OK) {
		berth_rpc_finish(cancellation->call, &outcome->error);
	} else {
		Berth__V1__CancelJobResponse response = BERTH__V1__CANCEL_JOB_RESPONSE__INIT;
		response.job = berth_core_job(core, outcome->job_id);
		berth_reply(cancellation->call, &response, NULL);
		berth_proto_free(response.job);
	}
	free_cancellation(cancellation);
}

static void cancel_job(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct berth_error err;
	struct cancellation *cancellation = berth_alloc(sizeof *cancellation);
	cancellation->call = berth_rpc_call_ref(call);
	cancellation->message = (const Berth__V1__CancelJobRequest *)message;
	cancellation->memory = berth_rpc_keep_message(call);
	cancellation->request.done = cancel_done;
	cancellation->request.principal = *berth_rpc_call_principal(call);
	berth_actor(call, cancellation->request.actor);
	cancellation->request.command.kind = BERTH_COMMAND_CANCEL;
	cancellation->request.command.job_id = cancellation->message->job_id;
	cancellation->request.command.reason = cancellation->message->reason;
	if (!berth_engine_post(daemon->engine, &cancellation->request, &err)) {
		berth_rpc_finish(call, &err);
		free_cancellation(cancellation);
	}
}

// --- questions ---

struct question {
	const char *text; // job as asked for
	const Berth__V1__JobSpec *spec;
	char job_id[BERTH_ID_SIZE];
	size_t from, limit;
	Berth__V1__Job **jobs;
	Berth__V1__Trial **trials;
	uint64_t *sequences;
	size_t count;
	uint64_t job_sequence;
	bool ok, forgotten;
	struct berth_error err;
};

static void ask_jobs(const struct berth_core *core, void *context)
{
	struct question *question = context;
	question->jobs = berth_alloc(question->limit * sizeof(*question->jobs));
	question->count = berth_core_jobs(
		core, question->text && question->text[0] ? question->text : NULL, question->limit, question->jobs);
}

static void list_jobs(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__ListJobsRequest *request = (const Berth__V1__ListJobsRequest *)message;
	struct question question = {.text = request->before_job_id, .limit = limit_of(request->limit, JOBS_LIMIT, 100)};
	if (!berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_jobs, &question, &question.err)) {
		berth_rpc_finish(call, &question.err);
		return;
	}
	Berth__V1__ListJobsResponse *response = berth_alloc(sizeof *response);
	berth__v1__list_jobs_response__init(response);
	response->jobs = question.jobs;
	response->n_jobs = question.count;
	berth_reply(call, response, NULL);
	berth_proto_free(response);
}

static void ask_job(const struct berth_core *core, void *context)
{
	struct question *question = context;
	question->ok = berth_core_find_job(core, question->text, question->job_id, &question->err);
	if (question->ok) {
		question->jobs = berth_alloc(sizeof(*question->jobs));
		question->jobs[0] = berth_core_job(core, question->job_id);
		question->job_sequence = berth_core_job_sequence(core, question->job_id);
	}
}

static void get_job(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct question question = {.text = ((const Berth__V1__GetJobRequest *)message)->job_id};
	bool ok = berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_job, &question, &question.err) &&
	          question.ok;
	Berth__V1__GetJobResponse response = BERTH__V1__GET_JOB_RESPONSE__INIT;
	if (ok) {
		response.job = question.jobs[0];
		response.spec = berth_recover_spec(daemon->ledger, question.job_sequence, &question.err);
	}
	berth_reply(call, response.spec ? &response : NULL, &question.err);
	berth_proto_free(response.job);
	berth_proto_free(response.spec);
	free(question.jobs);
}

static void ask_trials(const struct berth_core *core, void *context)
{
	struct question *question = context;
	question->ok = berth_core_find_job(core, question->text, question->job_id, &question->err);
	if (!question->ok) {
		return;
	}
	size_t cells = berth_core_job_cells(core, question->job_id);
	question->job_sequence = berth_core_job_sequence(core, question->job_id);
	question->forgotten = berth_core_is_forgotten(core, question->job_id);
	question->trials = berth_alloc(question->limit * sizeof(*question->trials));
	question->sequences = berth_alloc(question->limit * sizeof(*question->sequences));
	for (size_t i = question->from; !question->forgotten && i < cells && question->count < question->limit; i++) {
		question->trials[question->count] = berth_core_trial(
			core, question->job_id, (uint32_t)i, NULL, &question->sequences[question->count]);
		question->count++;
	}
}

// An ended job's spec is not in memory: its trials get their names from the event.
static void ask_names(const struct berth_core *core, void *context)
{
	struct question *question = context;
	question->forgotten = berth_core_is_forgotten(core, question->job_id);
	for (size_t i = 0; !question->forgotten && i < question->count; i++) {
		uint64_t ignored;
		Berth__V1__Trial *named = berth_core_trial(
			core, question->job_id, question->trials[i]->key->index, question->spec, &ignored);
		berth_proto_set_string(&question->trials[i]->trial_name, named->trial_name);
		berth_proto_free(named);
	}
}

static bool read_forgotten(struct berth_daemon *daemon, struct question *question)
{
	while (question->count) { // it was forgotten in between
		berth_proto_free(question->trials[--question->count]);
	}
	return berth_read_trials(daemon, question->job_id, question->spec, (uint32_t)question->from, question->limit,
		question->trials, question->sequences, &question->count, &question->err);
}

static bool name_trials(struct berth_daemon *daemon, struct question *question)
{
	if (!question->forgotten && (!question->count || question->trials[0]->trial_name[0])) {
		return true;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__JobSpec *spec = berth_recover_spec(daemon->ledger, question->job_sequence, &question->err);
	question->spec = spec;
	if (!spec || (!question->forgotten &&
			     !berth_engine_ask(daemon->engine, NULL, ask_names, question, &question->err))) {
		return false;
	}
	return !question->forgotten || read_forgotten(daemon, question);
}

// What still fits into the page; the trials after it come with the next.
static void add_folders(struct berth_daemon *daemon, struct question *question)
{
	size_t size = 0;
	for (size_t i = 0; i < question->count; i++) {
		Berth__V1__Trial *trial = question->trials[i];
		const Berth__V1__BlobRef *folder = trial->result ? trial->result->folder : NULL;
		if (!folder || folder->size > BERTH_REPORT_FOLDER_MAX || folder->sha256.len != BERTH_DIGEST_SIZE) {
			continue;
		}
		struct berth_digest digest;
		struct berth_buf bytes = {0};
		memcpy(digest.bytes, folder->sha256.data, BERTH_DIGEST_SIZE);
		if (berth_ledger_get_blob(daemon->ledger, &digest, &bytes, NULL)) {
			trial->folder = (ProtobufCBinaryData){.data = bytes.data, .len = bytes.size};
			size += bytes.size;
		} else {
			berth_buf_free(&bytes);
		}
		while (size >= FOLDERS_BYTES && question->count > i + 1) {
			berth_proto_free(question->trials[--question->count]);
		}
	}
}

static void list_trials(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__ListTrialsRequest *request = (const Berth__V1__ListTrialsRequest *)message;
	struct question question = {.text = request->job_id,
		.from = request->after_index_plus_1,
		.limit = limit_of(request->limit, TRIALS_LIMIT, TRIALS_LIMIT)};
	bool ok = berth_engine_ask(
			  daemon->engine, berth_rpc_call_principal(call), ask_trials, &question, &question.err) &&
	          question.ok && name_trials(daemon, &question);
	for (size_t i = 0; i < question.count; i++) {
		if (question.sequences[i]) {
			question.trials[i]->result = berth_read_result(daemon, question.sequences[i], false);
		}
	}
	if (ok && request->with_folders) {
		add_folders(daemon, &question);
	}
	Berth__V1__ListTrialsResponse *response = berth_alloc(sizeof *response);
	berth__v1__list_trials_response__init(response);
	response->trials = question.trials;
	response->n_trials = question.count;
	berth_reply(call, ok ? response : NULL, &question.err);
	berth_proto_free(response);
	free(question.sequences);
}

#define ANYONE_KNOWN (BERTH_ROLE_USER | BERTH_ROLE_OPERATOR)

const struct berth_rpc_handler berth_job_handlers[] = {
	{.method = "SubmitJob", .roles = ANYONE_KNOWN, .message = submit_job},
	{.method = "PlanJob", .roles = ANYONE_KNOWN, .message = plan_job},
	{.method = "CancelJob", .roles = ANYONE_KNOWN, .message = cancel_job},
	{.method = "ListJobs", .roles = ANYONE_KNOWN, .message = list_jobs},
	{.method = "GetJob", .roles = ANYONE_KNOWN, .message = get_job},
	{.method = "ListTrials", .roles = ANYONE_KNOWN, .message = list_trials},
	{.method = "WatchJob", .roles = ANYONE_KNOWN, .message = berth_watch_message, .ended = berth_watch_ended},
};
const size_t berth_job_handlers_count = BERTH_COUNT(berth_job_handlers);
