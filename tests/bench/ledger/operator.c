// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ledger/operator.h"

#include <stdlib.h>
#include <string.h>

#include "berth/v1/blob.pb-c.h"
#include "berth/v1/budget.pb-c.h"
#include "berth/v1/fleet.pb-c.h"
#include "berth/v1/job.pb-c.h"
#include "berth_descriptors.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/x509.h"
#include "coordinator/budget/policy.h"
#include "tests/bench/ledger/measure.h"

#define CALL_MS        120000
#define CREDENTIAL_MAX 65536
#define PAGE           1000
#define MEMORY_MB      512
#define BUDGET_NAME    "bench"
#define BUDGET_PHASE   "search"
#define POLICY                                                                                                         \
	"{\"study_id\":\"bench\",\"manifest_digest\":\"sha256:"                                                        \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"hard_limit_nano_usd\":"                  \
	"4000000000000000000,\"phase_limits_nano_usd\":{\"search\":4000000000000000000},\"rates\":[{\"backend\":"      \
	"\"local\",\"role\":\"task_environment\",\"cpu_count\":1,\"memory_mb\":512,\"nano_usd_per_second\":10,"        \
	"\"billing_quantum_seconds\":60}]}"

static const char bundle[] = "what a task's bundle would be";

static struct berth_until soon(void)
{
	return berth_within_ms(CALL_MS, NULL);
}

static char *read_text(const char *folder, const char *name)
{
	struct berth_error err;
	struct berth_buf text = {0};
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	bench_must(berth_file_read(path, CREDENTIAL_MAX, &text, &err), &err);
	return berth_buf_steal(&text);
}

struct berth_rpc_tls credentials_tls(const struct credentials *credentials)
{
	return (struct berth_rpc_tls){credentials->authority, credentials->certificate, credentials->key};
}

static struct berth_rpc_channel *channel_to(int port, const struct credentials *as)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *address = berth_format("127.0.0.1:%d", port);
	struct berth_rpc_tls tls = credentials_tls(as);
	struct berth_rpc_channel_options options = {.address = address,
		.tls = &tls,
		.descriptor_set = berth_descriptor_set,
		.descriptor_set_size = berth_descriptor_set_size};
	struct berth_rpc_channel *channel = berth_rpc_channel_new(&options, &err);
	bench_must(channel != NULL, &err);
	return channel;
}

void operator_connect(struct operator_ *operator_, const char *folder, int port, int blobs_port)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *own = berth_path_join(folder, "operator");
	BERTH_AUTO_FREE char *agents = berth_path_join(folder, "agents");
	BERTH_AUTO_FREE char *signing = berth_path_join(agents, "signing.pem");
	operator_->folder = berth_strdup(folder);
	operator_->own = (struct credentials){
		read_text(own, "authority.pem"), read_text(own, "certificate.pem"), read_text(own, "key.pem")};
	operator_->main = channel_to(port, &operator_->own);
	operator_->blobs = channel_to(blobs_port, &operator_->own);
	bench_must(berth_mkdir_all(agents, 0700, &err), &err);
	operator_->signing = berth_signing_key_open(signing, &err);
	bench_must(operator_->signing != NULL, &err);
}

static void *call(struct berth_rpc_channel *on, const ProtobufCServiceDescriptor *service, const char *method,
	const void *request, struct berth_error *err)
{
	ProtobufCMessage *response = NULL;
	return berth_rpc_unary(on, service, method, request, &response, soon(), err) ? response : NULL;
}

static void enroll(struct operator_ *operator_, const char *name, const char *folder)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *key = NULL;
	BERTH_AUTO_FREE uint8_t *request_der = NULL;
	BERTH_AUTO_FREE uint8_t *signing_der = NULL;
	Berth__V1__EnrollRequest request = BERTH__V1__ENROLL_REQUEST__INIT;
	bench_must(berth_x509_request_new(name, &key, &request_der, &request.request_der.len, &err), &err);
	bench_must(
		berth_signing_key_public(operator_->signing, &signing_der, &request.signing_key_der.len, &err), &err);
	request.request_der.data = request_der;
	request.signing_key_der.data = signing_der;
	request.role = (char *)"agent";
	request.name = (char *)name;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__EnrollResponse *response =
		call(operator_->main, &berth__v1__fleet_service__descriptor, "Enroll", &request, &err);
	bench_must(response != NULL, &err);
	BERTH_AUTO_FREE char *certificate_path = berth_path_join(folder, "certificate.pem");
	BERTH_AUTO_FREE char *key_path = berth_path_join(folder, "key.pem");
	bench_must(berth_mkdir_all(folder, 0700, &err), &err);
	bench_must(berth_file_write(key_path, key, strlen(key), 0600, &err), &err);
	bench_must(berth_file_write(
			   certificate_path, response->certificate_pem, strlen(response->certificate_pem), 0600, &err),
		&err);
}

struct credentials operator_agent(struct operator_ *operator_, const char *name)
{
	BERTH_AUTO_FREE char *folder = berth_format("%s/agents/%s", operator_->folder, name);
	if (!berth_file_exists(folder)) {
		enroll(operator_, name, folder);
	}
	return (struct credentials){berth_strdup(operator_->own.authority), read_text(folder, "certificate.pem"),
		read_text(folder, "key.pem")};
}

static struct berth_digest put_bundle(struct operator_ *operator_)
{
	struct berth_error err;
	struct berth_digest digest = berth_sha256(bundle, sizeof bundle);
	struct berth_rpc_stream *stream =
		berth_rpc_stream_open(operator_->blobs, &berth__v1__blob_service__descriptor, "PutBlob", soon(), &err);
	bench_must(stream != NULL, &err);
	Berth__V1__PutBlobRequest request = BERTH__V1__PUT_BLOB_REQUEST__INIT;
	Berth__V1__BlobRef blob = BERTH__V1__BLOB_REF__INIT;
	blob.sha256 = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, digest.bytes};
	blob.size = sizeof bundle;
	request.blob = &blob;
	request.chunk = (ProtobufCBinaryData){sizeof bundle, (uint8_t *)bundle};
	berth_rpc_stream_send(stream, &request.base, NULL);
	berth_rpc_stream_close_send(stream, NULL);
	ProtobufCMessage *response = NULL;
	bench_must(berth_rpc_stream_receive(stream, &response, soon(), &err) == BERTH_RPC_MESSAGE, &err);
	berth_proto_free(response);
	berth_rpc_stream_free(stream);
	return digest;
}

static void open_budget(struct operator_ *operator_)
{
	struct berth_error err;
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__BudgetPolicy *policy = berth_policy_parse(POLICY, strlen(POLICY), "policy", &err);
	bench_must(policy != NULL, &err);
	request.name = (char *)BUDGET_NAME;
	request.policy = policy;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__CreateBudgetResponse *response =
		call(operator_->main, &berth__v1__budget_service__descriptor, "CreateBudget", &request, &err);
	bench_must(response != NULL, &err);
}

static void fill_task(Berth__V1__Task *task, Berth__V1__BlobRef *blob, uint32_t number)
{
	berth__v1__task__init(task);
	task->base_name = berth_format("task-%u", number);
	task->name = task->base_name;
	task->bundle = blob;
	task->cpus = 1;
	task->memory_mb = MEMORY_MB;
	task->agent_timeout_sec = task->verifier_timeout_sec = task->build_timeout_sec = 60;
	task->environment_id = (char *)"0123456789abcdef0123456789abcdef";
}

static void send_job(struct operator_ *operator_, const struct job_request *wanted, Berth__V1__JobSpec *spec,
	char id[static BERTH_ID_SIZE], int64_t *ns)
{
	struct berth_error err;
	Berth__V1__SubmitJobRequest request = BERTH__V1__SUBMIT_JOB_REQUEST__INIT;
	request.client_key = (char *)wanted->key;
	request.spec = spec;
	int64_t began_ns = berth_boot_ns();
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__SubmitJobResponse *response =
		call(operator_->main, &berth__v1__job_service__descriptor, "SubmitJob", &request, &err);
	bench_must(response != NULL, &err);
	*ns = berth_boot_ns() - began_ns;
	snprintf(id, BERTH_ID_SIZE, "%s", response->job_id);
}

void operator_submit(
	struct operator_ *operator_, const struct job_request *wanted, char id[static BERTH_ID_SIZE], int64_t *ns)
{
	struct berth_digest digest = put_bundle(operator_);
	Berth__V1__BlobRef blob = BERTH__V1__BLOB_REF__INIT;
	Berth__V1__AgentConfig agent = BERTH__V1__AGENT_CONFIG__INIT, *agents[] = {&agent};
	Berth__V1__JobSpec spec = BERTH__V1__JOB_SPEC__INIT;
	BERTH_AUTO_FREE Berth__V1__Task *tasks = berth_alloc(wanted->tasks * sizeof *tasks);
	BERTH_AUTO_FREE Berth__V1__Task **list = berth_alloc(wanted->tasks * sizeof(*list));
	blob.sha256 = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, digest.bytes};
	blob.size = sizeof bundle;
	for (uint32_t i = 0; i < wanted->tasks; i++) {
		fill_task(&tasks[i], &blob, i);
		list[i] = &tasks[i];
	}
	agent.name = (char *)"oracle";
	spec.name = (char *)wanted->key;
	spec.agents = agents;
	spec.n_agents = 1;
	spec.tasks = list;
	spec.n_tasks = wanted->tasks;
	spec.attempts = wanted->attempts;
	spec.environment_type = (char *)"docker";
	spec.override_cpus = spec.override_memory_mb = -1;
	spec.timeout_multiplier = 1;
	spec.agent_timeout_multiplier = spec.verifier_timeout_multiplier = spec.agent_setup_timeout_multiplier =
		spec.environment_build_timeout_multiplier = -1;
	if (wanted->paid) {
		open_budget(operator_);
		spec.budget = (char *)BUDGET_NAME;
		spec.phase = (char *)BUDGET_PHASE;
	}
	send_job(operator_, wanted, &spec, id, ns);
	for (uint32_t i = 0; i < wanted->tasks; i++) {
		free(tasks[i].base_name);
	}
}

void operator_cancel(struct operator_ *operator_, const char *job_id)
{
	struct berth_error err;
	Berth__V1__CancelJobRequest request = BERTH__V1__CANCEL_JOB_REQUEST__INIT;
	request.job_id = (char *)job_id;
	request.reason = (char *)"the load is over";
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__CancelJobResponse *response =
		call(operator_->main, &berth__v1__job_service__descriptor, "CancelJob", &request, &err);
	bench_must(response != NULL, &err);
}

static struct trial_now now_of(const Berth__V1__Trial *trial)
{
	bool queued = trial->state == BERTH__V1__TRIAL_STATE__TRIAL_QUEUED ||
	              trial->state == BERTH__V1__TRIAL_STATE__TRIAL_BUDGET_BLOCKED;
	bool running = trial->state == BERTH__V1__TRIAL_STATE__TRIAL_RUNNING;
	return (struct trial_now){
		.generation = trial->key->generation, .running = running, .over = !queued && !running};
}

struct trial_now *operator_trials(struct operator_ *operator_, const char *job_id, uint32_t *count)
{
	struct trial_now *trials = NULL;
	*count = 0;
	for (bool more = true; more;) {
		struct berth_error err;
		Berth__V1__ListTrialsRequest request = BERTH__V1__LIST_TRIALS_REQUEST__INIT;
		request.job_id = (char *)job_id;
		request.after_index_plus_1 = *count;
		request.limit = PAGE;
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__ListTrialsResponse *page =
			call(operator_->main, &berth__v1__job_service__descriptor, "ListTrials", &request, &err);
		bench_must(page != NULL, &err);
		for (size_t i = 0; i < page->n_trials; i++) {
			trials = berth_grow_array(trials, *count, sizeof *trials);
			trials[(*count)++] = now_of(page->trials[i]);
		}
		more = page->n_trials == PAGE;
	}
	return trials;
}
