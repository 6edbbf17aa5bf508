// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cli/fake_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "berth/v1/blob.pb-c.h"
#include "berth/v1/budget.pb-c.h"
#include "berth/v1/fleet.pb-c.h"
#include "berth/v1/lease.pb-c.h"
#include "berth_descriptors.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/codec/tar.h"
#include "common/evidence/x509.h"
#include "tests/support/test.h"

#define STARTED_NS  INT64_C(1787400000000000000)
#define THREADS     2
#define STATE(name) BERTH__V1__TRIAL_STATE__TRIAL_##name

// --- the job ---

// A result folder as a blob of the store.
static Berth__V1__BlobRef *result_blob(struct fake *fake)
{
	static const struct {
		const char *name, *text;
	} FILES[] = {{"trial.log", "built\n\033[2Jended\n"}, {"agent/oracle.txt", "hello \xff\n"},
		{"verifier/test-stdout.txt", "ok\n"}, {"artifacts/big.txt", "not a log\n"}};
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct fake_blob *blob = &fake->blobs[fake->blobs_count];
	for (size_t i = 0; i < BERTH_COUNT(FILES); i++) {
		BERTH_AUTO_FREE char *path = berth_path_join(folder, FILES[i].name);
		BERTH_AUTO_FREE char *parent = berth_strdup(path);
		*strrchr(parent, '/') = 0;
		berth_mkdir_all(parent, 0755, NULL);
		berth_file_write(path, FILES[i].text, strlen(FILES[i].text), 0644, NULL);
	}
	const struct berth_tar_options options = {0};
	berth_buf_reset(&blob->bytes);
	berth_tar_write_folder(folder, &options, berth_sink_buf(&blob->bytes), NULL);
	struct berth_digest digest = berth_sha256(blob->bytes.data, blob->bytes.size);
	memcpy(blob->sha256, digest.bytes, sizeof blob->sha256);
	Berth__V1__BlobRef *ref = berth_alloc(sizeof *ref);
	berth__v1__blob_ref__init(ref);
	berth_proto_set_bytes(&ref->sha256, digest.bytes, sizeof digest.bytes);
	ref->size = (int64_t)blob->bytes.size;
	if (fake_find_blob(fake, ref)) {
		berth_buf_reset(&blob->bytes);
	} else {
		fake->blobs_count++;
	}
	return ref;
}

static void set_exception(Berth__V1__TrialResult *result, const char *message)
{
	result->exception = berth_alloc(sizeof *result->exception);
	berth__v1__trial_exception__init(result->exception);
	berth_proto_set_string(&result->exception->type, "RewardFileNotFoundError");
	berth_proto_set_string(&result->exception->message, message);
	result->exception->occurred_at_ns = STARTED_NS;
}

static void count(struct fake *fake)
{
	Berth__V1__JobCounts *counts = fake->job->counts;
	berth__v1__job_counts__init(counts);
	counts->total = fake->trials_count;
	for (uint32_t i = 0; i < fake->trials_count; i++) {
		Berth__V1__TrialState state = fake->trials[i]->state;
		counts->queued += state == STATE(QUEUED);
		counts->running += state == STATE(RUNNING);
		counts->scored += state == STATE(SCORED);
		counts->unscored += state == STATE(UNSCORED);
		counts->cancelled += state == STATE(CANCELLED);
	}
	counts->reward_sum = counts->scored;
}

static void end_trial(struct fake *fake, Berth__V1__Trial *trial)
{
	bool scored = trial->key->index != fake->unscored;
	trial->state = scored ? STATE(SCORED) : STATE(UNSCORED);
	berth_proto_set_string(&trial->phase, "");
	trial->result = berth_alloc(sizeof *trial->result);
	berth__v1__trial_result__init(trial->result);
	trial->result->outcome = scored ? BERTH__V1__OUTCOME__OUTCOME_SCORED : BERTH__V1__OUTCOME__OUTCOME_TASK;
	trial->result->folder = result_blob(fake);
	if (scored) {
		berth_proto_set_string(&trial->result->rewards_json, "{\"reward\":1.0}");
	} else {
		set_exception(trial->result, fake->message ? fake->message : "no reward.txt");
	}
}

static void end_job(struct fake *fake)
{
	for (uint32_t i = 0; i < fake->trials_count && !fake->job->ended_at_ns; i++) {
		end_trial(fake, fake->trials[i]);
	}
	fake->job->state = BERTH__V1__JOB_STATE__JOB_COMPLETED;
	fake->job->ended_at_ns = STARTED_NS + 1000;
	count(fake);
}

static void cancel_all(struct fake *fake)
{
	for (uint32_t i = 0; i < fake->trials_count; i++) {
		fake->trials[i]->state = STATE(CANCELLED);
	}
	fake->job->state = BERTH__V1__JOB_STATE__JOB_CANCELLED;
	fake->job->ended_at_ns = STARTED_NS + 1000;
	count(fake);
}

static void add_trial(struct fake *fake, uint32_t task, uint32_t agent)
{
	Berth__V1__Trial *trial = berth_alloc(sizeof *trial);
	berth__v1__trial__init(trial);
	trial->key = berth_alloc(sizeof *trial->key);
	berth__v1__trial_key__init(trial->key);
	berth_proto_set_string(&trial->key->job_id, FAKE_JOB_ID);
	trial->key->index = fake->trials_count;
	trial->key->generation = 1;
	trial->task = task;
	trial->agent = agent;
	trial->state = STATE(QUEUED);
	trial->started_at_ns = STARTED_NS;
	berth_proto_set_string(&trial->agent_host, "quay-1");
	berth_proto_set_string(&trial->blocked_reason, fake->blocked_reason);
	BERTH_AUTO_FREE char *name =
		berth_format("%s__trial%u", fake->submitted->spec->tasks[task]->base_name, fake->trials_count);
	berth_proto_set_string(&trial->trial_name, name);
	fake->trials[fake->trials_count++] = trial;
}

static void make_job(struct fake *fake, const Berth__V1__SubmitJobRequest *request)
{
	fake->submitted = berth_proto_clone(request);
	const Berth__V1__JobSpec *spec = request->spec;
	fake->job = berth_alloc(sizeof *fake->job);
	berth__v1__job__init(fake->job);
	berth_proto_set_string(&fake->job->job_id, FAKE_JOB_ID);
	berth_proto_set_string(&fake->job->name, spec->name);
	fake->job->state = BERTH__V1__JOB_STATE__JOB_RUNNING;
	fake->job->submitted_at_ns = STARTED_NS;
	berth_proto_set_string(&fake->job->blocked_reason, fake->blocked_reason);
	fake->job->counts = berth_alloc(sizeof *fake->job->counts);
	for (uint32_t attempt = 0; attempt < spec->attempts; attempt++) {
		for (uint32_t task = 0; task < spec->n_tasks; task++) {
			for (uint32_t agent = 0; agent < spec->n_agents; agent++) {
				add_trial(fake, task, agent);
			}
		}
	}
	count(fake);
}

static void submit_job(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct fake *fake = context;
	const Berth__V1__SubmitJobRequest *request = (const Berth__V1__SubmitJobRequest *)message;
	Berth__V1__SubmitJobResponse response = BERTH__V1__SUBMIT_JOB_RESPONSE__INIT;
	response.job_id = FAKE_JOB_ID;
	if (fake->budget_refusal) {
		fake_refuse(call, BERTH_ERROR_BUDGET, fake->budget_refusal);
		return;
	}
	pthread_mutex_lock(&fake->lock);
	fake->submits++;
	response.existed = fake->job && strcmp(fake->submitted->client_key, request->client_key) == 0;
	if (!fake->job) {
		make_job(fake, request);
	}
	pthread_mutex_unlock(&fake->lock);
	fake_answer(call, &response);
}

static void list_jobs(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	struct fake *fake = context;
	Berth__V1__ListJobsResponse response = BERTH__V1__LIST_JOBS_RESPONSE__INIT;
	pthread_mutex_lock(&fake->lock);
	response.n_jobs = fake->job ? 1 : 0;
	response.jobs = &fake->job;
	berth_rpc_send(call, &response.base, NULL);
	pthread_mutex_unlock(&fake->lock);
	berth_rpc_finish(call, NULL);
}

static void get_job(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct fake *fake = context;
	const char *id = ((const Berth__V1__GetJobRequest *)message)->job_id;
	Berth__V1__GetJobResponse response = BERTH__V1__GET_JOB_RESPONSE__INIT;
	pthread_mutex_lock(&fake->lock);
	bool known = fake->job && (strncmp(id, FAKE_JOB_ID, strlen(id)) == 0 || strcmp(id, fake->job->name) == 0);
	if (known) {
		response.job = fake->job;
		response.spec = fake->submitted->spec;
		berth_rpc_send(call, &response.base, NULL);
	}
	pthread_mutex_unlock(&fake->lock);
	if (known) {
		berth_rpc_finish(call, NULL);
	} else {
		BERTH_AUTO_FREE char *text = berth_format("no job %s", id);
		fake_refuse(call, BERTH_ERROR_NOT_FOUND, text);
	}
}

// The folders of odd trials came with their reports.
static void lend_folder(struct fake *fake, Berth__V1__Trial *trial, bool lent)
{
	trial->folder = (ProtobufCBinaryData){0};
	if (lent && trial->result && trial->key->index % 2) {
		const struct berth_buf *bytes = &fake_find_blob(fake, trial->result->folder)->bytes;
		trial->folder = (ProtobufCBinaryData){.data = bytes->data, .len = bytes->size};
	}
}

static void list_trials(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct fake *fake = context;
	const Berth__V1__ListTrialsRequest *request = (const Berth__V1__ListTrialsRequest *)message;
	uint32_t from = request->after_index_plus_1;
	Berth__V1__ListTrialsResponse response = BERTH__V1__LIST_TRIALS_RESPONSE__INIT;
	pthread_mutex_lock(&fake->lock);
	// Pages of two, whatever was asked for.
	response.trials = fake->trials + from;
	response.n_trials = fake->trials_count - from < 2 ? fake->trials_count - from : 2;
	for (size_t i = 0; i < response.n_trials; i++) {
		lend_folder(fake, response.trials[i], request->with_folders);
	}
	berth_rpc_send(call, &response.base, NULL);
	for (size_t i = 0; i < response.n_trials; i++) {
		lend_folder(fake, response.trials[i], false);
	}
	pthread_mutex_unlock(&fake->lock);
	berth_rpc_finish(call, NULL);
}

static void send_update(struct fake *fake, struct berth_rpc_call *call)
{
	Berth__V1__JobUpdate update = BERTH__V1__JOB_UPDATE__INIT;
	update.job = fake->job;
	update.trials = fake->trials;
	update.n_trials = fake->trials_count;
	berth_rpc_send(call, &update.base, NULL);
}

static void watch_job(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	struct fake *fake = context;
	pthread_mutex_lock(&fake->lock);
	fake->watches++;
	bool cut = fake->watch_cuts > 0 && fake->watch_cuts-- > 0;
	if (!fake->job->ended_at_ns) {
		fake->trials[0]->state = STATE(RUNNING);
		berth_proto_set_string(&fake->trials[0]->phase, "agent_execution");
		count(fake);
		send_update(fake, call);
	}
	if (fake->on_watch) {
		berth_cancel_fire(fake->on_watch);
	}
	bool ends = fake->end == FAKE_ENDS || (fake->end == FAKE_ENDS_AT_SECOND_WATCH && fake->watches > 1);
	bool holds = !cut && !ends && !fake->job->ended_at_ns;
	if (holds) {
		if (fake->held) {
			berth_rpc_call_unref(fake->held);
		}
		fake->held = berth_rpc_call_ref(call);
	} else if (!cut) {
		end_job(fake);
		send_update(fake, call);
	}
	pthread_mutex_unlock(&fake->lock);
	if (cut) {
		fake_refuse(call, BERTH_ERROR_UNAVAILABLE, "restarting");
	} else if (!holds) {
		berth_rpc_finish(call, NULL);
	}
}

static void cancel_job(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	struct fake *fake = context;
	Berth__V1__CancelJobResponse response = BERTH__V1__CANCEL_JOB_RESPONSE__INIT;
	pthread_mutex_lock(&fake->lock);
	fake->cancels++;
	if (fake->end == FAKE_WAITS_FOR_CANCEL) {
		cancel_all(fake);
	}
	response.job = fake->job;
	berth_rpc_send(call, &response.base, NULL);
	if (fake->held && fake->end == FAKE_WAITS_FOR_CANCEL) {
		send_update(fake, fake->held);
		berth_rpc_finish(fake->held, NULL);
	}
	if (fake->on_cancel) {
		berth_cancel_fire(fake->on_cancel);
	}
	pthread_mutex_unlock(&fake->lock);
	berth_rpc_finish(call, NULL);
}

// --- the fleet ---

static Berth__V1__Agent *quay(void)
{
	static Berth__V1__Agent agent = BERTH__V1__AGENT__INIT;
	static Berth__V1__Capacity capacity = BERTH__V1__CAPACITY__INIT;
	capacity.slots = 4;
	agent.name = "quay-1";
	agent.state = BERTH__V1__AGENT_STATE__AGENT_UP;
	agent.capacity = &capacity;
	agent.accepting = true;
	return &agent;
}

static void list_agents(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	(void)context;
	Berth__V1__ListAgentsResponse response = BERTH__V1__LIST_AGENTS_RESPONSE__INIT;
	Berth__V1__Agent *agents[] = {quay()};
	response.n_agents = 1;
	response.agents = agents;
	fake_answer(call, &response);
}

static void get_agent(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)context;
	Berth__V1__GetAgentResponse response = BERTH__V1__GET_AGENT_RESPONSE__INIT;
	response.agent = quay();
	if (strcmp(((const Berth__V1__GetAgentRequest *)message)->name, "quay-1") == 0) {
		fake_answer(call, &response);
	} else {
		fake_refuse(call, BERTH_ERROR_NOT_FOUND, "no such agent");
	}
}

static void enroll(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct fake *fake = context;
	const Berth__V1__EnrollRequest *request = (const Berth__V1__EnrollRequest *)message;
	Berth__V1__EnrollResponse response = BERTH__V1__ENROLL_RESPONSE__INIT;
	BERTH_AUTO_FREE char *certificate = NULL;
	struct berth_error err;
	if ((strcmp(request->role, "user") != 0) != (request->signing_key_der.len > 0) ||
		!berth_x509_issue(fake->authority, fake->authority_key, request->request_der.data,
			request->request_der.len, request->role, request->name, NULL, 30, &certificate, &err)) {
		fake_refuse(call, BERTH_ERROR_INVALID, "a bad request for a certificate");
		return;
	}
	pthread_mutex_lock(&fake->lock);
	berth_buf_reset(&fake->signing_key);
	berth_buf_add(&fake->signing_key, request->signing_key_der.data, request->signing_key_der.len);
	pthread_mutex_unlock(&fake->lock);
	response.certificate_pem = certificate;
	response.authority_pem = fake->authority;
	response.fleet = "harbour";
	fake_answer(call, &response);
}

static void list_leases(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)context;
	const Berth__V1__ListLeasesRequest *request = (const Berth__V1__ListLeasesRequest *)message;
	Berth__V1__ListLeasesResponse response = BERTH__V1__LIST_LEASES_RESPONSE__INIT;
	Berth__V1__Lease lease = BERTH__V1__LEASE__INIT;
	Berth__V1__Lease *leases[] = {&lease};
	// One lease a page, and the retired one only for those who want all.
	bool first = !*request->after_lease_id;
	lease.lease_id = first ? "aaaa0000aaaa0000aaaa0000aaaa0000" : "bbbb0000bbbb0000bbbb0000bbbb0000";
	lease.state = first ? BERTH__V1__LEASE_STATE__LEASE_ACTIVE : BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	lease.role = BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT;
	lease.job_id = request->job_id;
	response.leases = leases;
	response.n_leases = first || (!request->open_only && strncmp(request->after_lease_id, "aaaa", 4) == 0);
	Berth__V1__LeaseDetail detail = BERTH__V1__LEASE_DETAIL__INIT, *details[] = {&detail};
	detail.orphaned = "its trial has ended";
	detail.worst_nano_usd = 45000;
	response.details = details;
	response.n_details = response.n_leases;
	fake_answer(call, &response);
}

// --- the servers ---

static const struct berth_rpc_handler JOB_HANDLERS[] = {
	{.method = "SubmitJob", .roles = FAKE_ANYONE, .message = submit_job},
	{.method = "ListJobs", .roles = FAKE_ANYONE, .message = list_jobs},
	{.method = "GetJob", .roles = FAKE_ANYONE, .message = get_job},
	{.method = "ListTrials", .roles = FAKE_ANYONE, .message = list_trials},
	{.method = "WatchJob", .roles = FAKE_ANYONE, .message = watch_job},
	{.method = "CancelJob", .roles = FAKE_ANYONE, .message = cancel_job},
};
static const struct berth_rpc_handler FLEET_HANDLERS[] = {
	{.method = "ListAgents", .roles = FAKE_ANYONE, .message = list_agents},
	{.method = "GetAgent", .roles = FAKE_ANYONE, .message = get_agent},
	{.method = "Enroll", .roles = FAKE_ANYONE, .message = enroll},
};
static const struct berth_rpc_handler LEASE_HANDLERS[] = {
	{.method = "ListLeases", .roles = FAKE_ANYONE, .message = list_leases},
};

static struct berth_rpc_server *serve(const char *at, const struct berth_rpc_service *services, size_t services_count,
	const struct berth_rpc_tls *tls, char **address)
{
	const struct berth_rpc_server_options options = {
		.address = at,
		.tls = tls,
		.services = services,
		.services_count = services_count,
		.descriptor_set = berth_descriptor_set,
		.descriptor_set_size = berth_descriptor_set_size,
		.threads = THREADS,
	};
	struct berth_error err;
	struct berth_rpc_server *server = berth_rpc_server_start(&options, &err);
	assert_ok(server, err);
	berth_rpc_server_set_serving(server, true);
	*address = berth_format("127.0.0.1:%d", berth_rpc_server_port(server));
	return server;
}

static void issue(struct fake *fake, struct berth_rpc_tls *tls)
{
	static const char *const HOSTS[] = {"127.0.0.1", "localhost", NULL};
	struct berth_error err;
	BERTH_AUTO_FREE uint8_t *request = NULL;
	size_t size;
	char *certificate, *key;
	assert_ok(berth_x509_request_new("fake", &key, &request, &size, &err), err);
	assert_ok(berth_x509_issue(fake->authority, fake->authority_key, request, size, "coordinator", "fake", HOSTS,
			  30, &certificate, &err),
		err);
	*tls = (struct berth_rpc_tls){fake->authority, certificate, key};
}

static struct berth_rpc_server *serve_main(
	struct fake *fake, const char *at, const struct berth_rpc_tls *tls, char **address)
{
	const struct berth_rpc_service services[] = {
		{&berth__v1__job_service__descriptor, JOB_HANDLERS, BERTH_COUNT(JOB_HANDLERS), fake},
		{&berth__v1__fleet_service__descriptor, FLEET_HANDLERS, BERTH_COUNT(FLEET_HANDLERS), fake},
		{&berth__v1__lease_service__descriptor, LEASE_HANDLERS, BERTH_COUNT(LEASE_HANDLERS), fake},
		{&berth__v1__budget_service__descriptor, FAKE_BUDGET_HANDLERS, FAKE_BUDGET_HANDLERS_COUNT, fake},
	};
	return serve(at, services, BERTH_COUNT(services), tls, address);
}

void fake_start(struct fake *fake, bool tls)
{
	struct berth_error err;
	*fake = (struct fake){.unscored = FAKE_NO_TRIAL, .folder = berth_test_folder(), .budgets = berth_budgets_new()};
	pthread_mutex_init(&fake->lock, NULL);
	assert_ok(berth_x509_authority_new("harbour", 30, &fake->authority, &fake->authority_key, &err), err);
	struct berth_rpc_tls files = {0};
	if (tls) {
		issue(fake, &files);
	}
	fake->main = serve_main(fake, "127.0.0.1:0", tls ? &files : NULL, &fake->address);
	const struct berth_rpc_service blobs[] = {
		{&berth__v1__blob_service__descriptor, FAKE_BLOB_HANDLERS, FAKE_BLOB_HANDLERS_COUNT, fake},
	};
	fake->blob_server = serve("127.0.0.1:0", blobs, BERTH_COUNT(blobs), tls ? &files : NULL, &fake->blobs_address);
	free((char *)files.certificate);
	free((char *)files.key);
}

void fake_restart(struct fake *fake, unsigned away_ms)
{
	struct berth_rpc_tls files;
	BERTH_AUTO_FREE char *address = NULL;
	berth_rpc_server_stop(fake->main, 0);
	usleep(away_ms * 1000);
	issue(fake, &files);
	fake->main = serve_main(fake, fake->address, &files, &address);
	free((char *)files.certificate);
	free((char *)files.key);
}

void fake_stop(struct fake *fake)
{
	if (fake->held) {
		berth_rpc_call_unref(fake->held);
	}
	berth_rpc_server_stop(fake->main, 0);
	berth_rpc_server_stop(fake->blob_server, 0);
	for (size_t i = 0; i < FAKE_BLOBS_MAX; i++) {
		berth_buf_free(&fake->blobs[i].bytes);
	}
	for (uint32_t i = 0; i < fake->trials_count; i++) {
		berth_proto_free(fake->trials[i]);
	}
	berth_proto_free(fake->job);
	berth_proto_free(fake->submitted);
	berth_budgets_free(fake->budgets);
	berth_buf_free(&fake->signing_key);
	pthread_mutex_destroy(&fake->lock);
	berth_free_cleanup(&fake->address);
	berth_free_cleanup(&fake->blobs_address);
	berth_free_cleanup(&fake->folder);
	berth_free_cleanup(&fake->authority);
	berth_free_cleanup(&fake->authority_key);
}

char *fake_task(const struct fake *fake, const char *name, const char *toml)
{
	const char *const files[][2] = {{"task.toml", toml}, {"instruction.md", "Moor the boat.\n"},
		{"environment/Dockerfile", "FROM debian:bookworm-slim\n"},
		{"tests/test.sh", "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"},
		{"solution/solve.sh", "#!/bin/sh\ntrue\n"}};
	char *folder = berth_path_join(fake->folder, name);
	struct berth_error err;
	for (size_t i = 0; i < BERTH_COUNT(files); i++) {
		BERTH_AUTO_FREE char *path = berth_path_join(folder, files[i][0]);
		BERTH_AUTO_FREE char *parent = berth_strdup(path);
		*strrchr(parent, '/') = 0;
		assert_ok(berth_mkdir_all(parent, 0755, &err), err);
		assert_ok(berth_file_write(path, files[i][1], strlen(files[i][1]), 0755, &err), err);
	}
	return folder;
}

static void write_text(const char *folder, const char *name, const char *text)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	assert_ok(berth_file_write(path, text, strlen(text), 0600, &err), err);
}

char *fake_operator(const struct fake *fake, const char *name)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *key = NULL, *certificate = NULL;
	BERTH_AUTO_FREE uint8_t *request = NULL;
	size_t size;
	char *folder = berth_path_join(fake->folder, name);
	assert_ok(berth_mkdir_all(folder, 0700, &err), err);
	assert_ok(berth_x509_request_new(name, &key, &request, &size, &err), err);
	assert_ok(berth_x509_issue(fake->authority, fake->authority_key, request, size, "operator", name, NULL, 30,
			  &certificate, &err),
		err);
	write_text(folder, "authority.pem", fake->authority);
	write_text(folder, "certificate.pem", certificate);
	write_text(folder, "key.pem", key);
	return folder;
}

const Berth__V1__Secret *fake_secret(const struct fake *fake, const char *scope, const char *name)
{
	const Berth__V1__SecretSet *set = fake->submitted->secrets;
	for (size_t i = 0; i < set->n_secrets; i++) {
		if (strcmp(set->secrets[i]->scope, scope) == 0 && strcmp(set->secrets[i]->name, name) == 0) {
			return set->secrets[i];
		}
	}
	return NULL;
}
