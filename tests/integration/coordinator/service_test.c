// SPDX-License-Identifier: Apache-2.0
// A whole coordinator in this process, over mutual TLS: blobs, jobs, an agent's session, watchers, roles, a restart.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "berth/v1/blob.pb-c.h"
#include "berth/v1/fleet.pb-c.h"
#include "berth/v1/job.pb-c.h"
#include "berth_descriptors.h"
#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/json.h"
#include "common/codec/proto.h"
#include "common/evidence/sign.h"
#include "common/evidence/x509.h"
#include "common/rpc/client.h"
#include "coordinator/init.h"
#include "coordinator/service/daemon.h"
#include "coordinator/service/server.h"
#include "tests/support/test.h"

#define BOOT    "0000000000000001aaaaaaaaaaaaaaaa"
#define WAIT_MS 60000
#define HOLD_MS 60000
#define CHUNK   (1024 * 1024)
#define BEAT_MS 1000

struct credentials {
	char *authority, *certificate, *key;
};

struct fixture {
	char *folder;
	struct credentials coordinator, operator_, agent;
	char *authority_key;
	struct berth_signing_key *signing;
	struct berth_daemon *daemon;
	struct berth_rpc_channel *main, *blobs;             // as operator
	struct berth_rpc_channel *agent_main, *agent_blobs; // as agent
};

static void never(void *context)
{
	(void)context;
}

static char *read_text(const char *folder, const char *name)
{
	struct berth_error err;
	struct berth_buf text = {0};
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	assert_ok(berth_file_read(path, 65536, &text, &err), err);
	return berth_buf_steal(&text);
}

static struct credentials read_credentials(const char *root, const char *name)
{
	BERTH_AUTO_FREE char *folder = berth_path_join(root, name);
	return (struct credentials){
		read_text(folder, "authority.pem"), read_text(folder, "certificate.pem"), read_text(folder, "key.pem")};
}

static struct berth_rpc_channel *channel(int port, const struct credentials *as)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *address = berth_format("127.0.0.1:%d", port);
	struct berth_rpc_tls tls = {.authority = as->authority, .certificate = as->certificate, .key = as->key};
	struct berth_rpc_channel_options options = {.address = address,
		.tls = &tls,
		.descriptor_set = berth_descriptor_set,
		.descriptor_set_size = berth_descriptor_set_size};
	struct berth_rpc_channel *opened = berth_rpc_channel_new(&options, &err);
	assert_ok(opened != NULL, err);
	return opened;
}

static void start(struct fixture *f)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *data = berth_path_join(f->folder, "data");
	BERTH_AUTO_FREE char *secret = berth_path_join(f->folder, "cred/coordinator/secret.key");
	struct berth_coordinator_options options = {.data_folder = data,
		.listen = "127.0.0.1:0",
		.blobs_listen = "127.0.0.1:0",
		.tls = {f->coordinator.authority, f->coordinator.certificate, f->coordinator.key},
		.authority_key = f->authority_key,
		.secret_key_file = secret,
		.hold_ms = HOLD_MS,
		.heartbeat_ms = BEAT_MS,
		.aging_ms = HOLD_MS,
		.checkpoint_ms = 1, // one after another
		.max_generations = 5,
		.version = "test",
		.fenced = never};
	f->daemon = berth_coordinator_start(&options, &err);
	assert_ok(f->daemon != NULL, err);
	f->main = channel(berth_coordinator_port(f->daemon), &f->operator_);
	f->blobs = channel(berth_coordinator_blobs_port(f->daemon), &f->operator_);
	if (f->agent.key) {
		f->agent_main = channel(berth_coordinator_port(f->daemon), &f->agent);
	}
}

static void stop(struct fixture *f)
{
	berth_rpc_channel_free(BERTH_STEAL(f->main));
	berth_rpc_channel_free(BERTH_STEAL(f->blobs));
	berth_rpc_channel_free(BERTH_STEAL(f->agent_main));
	berth_coordinator_stop(BERTH_STEAL(f->daemon), 1000);
}

static void *call(struct berth_rpc_channel *on, const ProtobufCServiceDescriptor *service, const char *method,
	const void *request, struct berth_error *err)
{
	ProtobufCMessage *response = NULL;
	return berth_rpc_unary(on, service, method, request, &response, berth_within_ms(WAIT_MS, NULL), err) ? response
	                                                                                                     : NULL;
}

#define JOBS(on, method, request, err)  call(on, &berth__v1__job_service__descriptor, method, request, err)
#define FLEET(on, method, request, err) call(on, &berth__v1__fleet_service__descriptor, method, request, err)

static void enroll(struct fixture *f)
{
	struct berth_error err;
	BERTH_AUTO_FREE uint8_t *request_der = NULL;
	BERTH_AUTO_FREE uint8_t *signing_der = NULL;
	Berth__V1__EnrollRequest request = BERTH__V1__ENROLL_REQUEST__INIT;
	berth_free_cleanup(&f->agent.authority);
	berth_free_cleanup(&f->agent.certificate);
	berth_free_cleanup(&f->agent.key);
	assert_ok(berth_x509_request_new("north", &f->agent.key, &request_der, &request.request_der.len, &err), err);
	assert_ok(berth_signing_key_public(f->signing, &signing_der, &request.signing_key_der.len, &err), err);
	request.request_der.data = request_der;
	request.signing_key_der.data = signing_der;
	request.role = "agent";
	request.name = "north";
	Berth__V1__EnrollResponse *response = FLEET(f->main, "Enroll", &request, &err);
	assert_ok(response != NULL, err);
	f->agent.authority = berth_strdup(response->authority_pem);
	f->agent.certificate = berth_strdup(response->certificate_pem);
	berth_proto_free(response);
}

static int setup(void **state)
{
	struct berth_error err;
	struct fixture *f = berth_alloc(sizeof *f);
	*state = f;
	f->folder = berth_test_folder();
	BERTH_AUTO_FREE char *credentials = berth_path_join(f->folder, "cred");
	BERTH_AUTO_FREE char *signing = berth_path_join(f->folder, "signing.pem");
	assert_ok(berth_coordinator_init("quay", credentials, "localhost,127.0.0.1", &err), err);
	f->coordinator = read_credentials(credentials, "coordinator");
	f->operator_ = read_credentials(credentials, "operator");
	f->authority_key = read_text(credentials, "coordinator/authority-key.pem");
	f->signing = berth_signing_key_open(signing, &err);
	assert_ok(f->signing != NULL, err);
	start(f);
	enroll(f);
	f->agent_main = channel(berth_coordinator_port(f->daemon), &f->agent);
	return 0;
}

static void free_credentials(struct credentials *credentials)
{
	free(credentials->authority);
	free(credentials->certificate);
	free(credentials->key);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	stop(f);
	berth_remove_all(f->folder, NULL);
	free_credentials(&f->coordinator);
	free_credentials(&f->operator_);
	free_credentials(&f->agent);
	free(f->authority_key);
	berth_signing_key_free(f->signing);
	free(f->folder);
	free(f);
	return 0;
}

// --- blobs and jobs ---

static bool put(
	struct fixture *f, const struct berth_digest *digest, const void *data, size_t size, struct berth_error *err)
{
	struct berth_rpc_stream *stream = berth_rpc_stream_open(
		f->blobs, &berth__v1__blob_service__descriptor, "PutBlob", berth_within_ms(WAIT_MS, NULL), err);
	Berth__V1__PutBlobRequest request = BERTH__V1__PUT_BLOB_REQUEST__INIT;
	Berth__V1__BlobRef blob = BERTH__V1__BLOB_REF__INIT;
	blob.sha256 = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, (uint8_t *)digest->bytes};
	blob.size = (int64_t)size;
	request.blob = &blob;
	for (size_t at = 0; at < size; at += CHUNK) {
		request.chunk = (ProtobufCBinaryData){size - at < CHUNK ? size - at : CHUNK, (uint8_t *)data + at};
		berth_rpc_stream_send(stream, &request.base, NULL);
		request.blob = NULL; // only the first message names it
	}
	berth_rpc_stream_close_send(stream, NULL);
	ProtobufCMessage *response = NULL;
	bool ok = berth_rpc_stream_receive(stream, &response, berth_within_ms(WAIT_MS, NULL), err) == BERTH_RPC_MESSAGE;
	berth_proto_free(response);
	berth_rpc_stream_free(stream);
	return ok;
}

static void a_large_blob_comes_back_whole_and_from_any_offset(void **state)
{
	struct fixture *f = *state;
	struct berth_error err;
	enum { SIZE = 12 * 1024 * 1024, OFFSET = 1234567 };
	BERTH_AUTO_FREE uint8_t *data = berth_alloc(SIZE);
	berth_random(data, SIZE);
	struct berth_digest digest = berth_sha256(data, SIZE);
	assert_ok(put(f, &digest, data, SIZE, &err), err);
	struct berth_rpc_stream *stream = berth_rpc_stream_open(
		f->blobs, &berth__v1__blob_service__descriptor, "GetBlob", berth_within_ms(WAIT_MS, NULL), &err);
	Berth__V1__GetBlobRequest request = BERTH__V1__GET_BLOB_REQUEST__INIT;
	Berth__V1__BlobRef blob = BERTH__V1__BLOB_REF__INIT;
	blob.sha256 = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, digest.bytes};
	blob.size = SIZE;
	request.blob = &blob;
	request.offset = OFFSET;
	berth_rpc_stream_send(stream, &request.base, NULL);
	berth_rpc_stream_close_send(stream, NULL);
	size_t at = OFFSET;
	ProtobufCMessage *message;
	enum berth_rpc_received received;
	while ((received = berth_rpc_stream_receive(stream, &message, berth_within_ms(WAIT_MS, NULL), &err)) ==
		BERTH_RPC_MESSAGE) {
		const Berth__V1__GetBlobResponse *response = (const Berth__V1__GetBlobResponse *)message;
		assert_true(at + response->chunk.len <= SIZE);
		assert_memory_equal(data + at, response->chunk.data, response->chunk.len);
		at += response->chunk.len;
		berth_proto_free(message);
	}
	assert_ok(received == BERTH_RPC_END, err);
	assert_int_equal(at, SIZE);
	berth_rpc_stream_free(stream);
}

static const char bundle[] = "a tar, as far as the coordinator cares";

struct submitted {
	Berth__V1__SubmitJobRequest request;
	Berth__V1__JobSpec spec;
	Berth__V1__AgentConfig agent, *agents[1];
	Berth__V1__Task task[2], *tasks[2];
	Berth__V1__BlobRef blob;
	Berth__V1__SecretSet set;
	Berth__V1__Secret secret[3], *secrets[3];
	struct berth_digest digest;
};

static void fill_secret(Berth__V1__Secret *secret, const char *scope, const char *value)
{
	berth__v1__secret__init(secret);
	secret->scope = (char *)scope;
	secret->name = (char *)"TOKEN";
	secret->value = (char *)value;
	secret->sensitive = true;
}

static void fill_job(struct submitted *job, const char *key, uint32_t tasks)
{
	berth__v1__submit_job_request__init(&job->request);
	berth__v1__job_spec__init(&job->spec);
	berth__v1__agent_config__init(&job->agent);
	berth__v1__blob_ref__init(&job->blob);
	berth__v1__secret_set__init(&job->set);
	job->digest = berth_sha256(bundle, sizeof bundle);
	job->blob.sha256 = (ProtobufCBinaryData){BERTH_DIGEST_SIZE, job->digest.bytes};
	job->blob.size = sizeof bundle;
	for (uint32_t i = 0; i < tasks; i++) {
		berth__v1__task__init(&job->task[i]);
		job->task[i].base_name = job->task[i].name = (char *)"count-words";
		job->task[i].bundle = &job->blob;
		job->tasks[i] = &job->task[i];
	}
	fill_secret(&job->secret[0], "verifier/0", "first");
	fill_secret(&job->secret[1], "verifier/1/build", "second");
	fill_secret(&job->secret[2], "environment", "third");
	for (size_t i = 0; i < 3; i++) {
		job->secrets[i] = &job->secret[i];
	}
	job->set.secrets = job->secrets;
	job->set.n_secrets = 3;
	job->agent.name = (char *)"oracle";
	job->agents[0] = &job->agent;
	job->spec.name = (char *)key;
	job->spec.agents = job->agents;
	job->spec.tasks = job->tasks;
	job->spec.n_agents = job->spec.attempts = 1;
	job->spec.n_tasks = tasks;
	job->spec.environment_type = (char *)"docker";
	job->spec.override_cpus = job->spec.override_memory_mb = -1;
	job->request.client_key = (char *)key;
	job->request.spec = &job->spec;
	job->request.secrets = &job->set;
}

static char *submit(struct fixture *f, const char *key, uint32_t tasks)
{
	struct berth_error err;
	struct submitted job;
	fill_job(&job, key, tasks);
	assert_ok(put(f, &job.digest, bundle, sizeof bundle, &err), err);
	Berth__V1__SubmitJobResponse *response = JOBS(f->main, "SubmitJob", &job.request, &err);
	assert_ok(response != NULL, err);
	char *id = berth_strdup(response->job_id);
	berth_proto_free(response);
	return id;
}

static Berth__V1__JobState state_of(struct fixture *f, const char *job)
{
	struct berth_error err;
	Berth__V1__GetJobRequest request = BERTH__V1__GET_JOB_REQUEST__INIT;
	request.job_id = (char *)job;
	Berth__V1__GetJobResponse *response = JOBS(f->main, "GetJob", &request, &err);
	assert_ok(response != NULL, err);
	Berth__V1__JobState found = response->job->state;
	berth_proto_free(response);
	return found;
}

static void a_job_needs_its_bundle_and_a_wrong_digest_is_refused(void **state)
{
	struct fixture *f = *state;
	struct berth_error err;
	struct submitted job;
	fill_job(&job, "key", 1);
	assert_null(JOBS(f->main, "SubmitJob", &job.request, &err));
	assert_int_equal(err.code, BERTH_ERROR_INVALID);
	assert_non_null(strstr(err.message, "bundle of task count-words"));
	struct berth_digest wrong = berth_sha256("else", 4);
	assert_fails(put(f, &wrong, bundle, sizeof bundle, &err), err, BERTH_ERROR_CORRUPT, "");
	BERTH_AUTO_FREE char *first = submit(f, "key", 1);
	BERTH_AUTO_FREE char *again = submit(f, "key", 1);
	assert_string_equal(first, again);
}

static void only_the_right_role_and_the_newest_certificate_are_served(void **state)
{
	struct fixture *f = *state;
	struct berth_error err;
	struct submitted job;
	fill_job(&job, "key", 1);
	assert_null(JOBS(f->agent_main, "SubmitJob", &job.request, &err));
	assert_int_equal(err.code, BERTH_ERROR_DENIED);
	enroll(f); // anew: what agent_main was opened with is the older certificate now
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

// --- an agent ---

struct agent {
	struct fixture *fixture;
	struct berth_rpc_stream *stream;
	Berth__V1__CoordinatorBatch *received; // NULL: all taken
	size_t taken;
	uint64_t beats, reports;
};

static void forget_batch(struct agent *agent)
{
	if (agent->received) {
		for (size_t i = 0; i < agent->taken; i++) {
			agent->received->messages[i] = NULL;
		}
		for (size_t i = agent->taken; i < agent->received->n_messages; i++) {
			berth_proto_free(agent->received->messages[i]);
		}
		agent->received->n_messages = 0;
		berth_proto_free(agent->received);
		agent->received = NULL;
	}
}

static Berth__V1__CoordinatorMessage *receive_next(struct agent *agent)
{
	struct berth_error err;
	if (!agent->received || agent->taken == agent->received->n_messages) {
		forget_batch(agent);
		ProtobufCMessage *message;
		assert_ok(berth_rpc_stream_receive(agent->stream, &message, berth_within_ms(WAIT_MS, NULL), &err) ==
				  BERTH_RPC_MESSAGE,
			err);
		agent->received = (Berth__V1__CoordinatorBatch *)message;
		agent->taken = 0;
		assert_true(agent->received->n_messages > 0);
	}
	return agent->received->messages[agent->taken++];
}

static Berth__V1__CoordinatorMessage *receive(struct agent *agent, Berth__V1__CoordinatorMessage__BodyCase wanted)
{
	for (;;) {
		Berth__V1__CoordinatorMessage *got = receive_next(agent);
		if (got->body_case == wanted) {
			return got;
		}
		berth_proto_free(got);
	}
}

static void send_agent(struct agent *agent, const Berth__V1__AgentMessage *message)
{
	struct berth_error err;
	Berth__V1__AgentMessage *messages[] = {(Berth__V1__AgentMessage *)message};
	Berth__V1__AgentBatch batch = BERTH__V1__AGENT_BATCH__INIT;
	batch.messages = messages;
	batch.n_messages = 1;
	assert_ok(berth_rpc_stream_send(agent->stream, &batch.base, &err), err);
}

static void beat(struct agent *agent)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	Berth__V1__Heartbeat heartbeat = BERTH__V1__HEARTBEAT__INIT;
	heartbeat.sequence = ++agent->beats;
	heartbeat.accepting = true;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT;
	message.heartbeat = &heartbeat;
	send_agent(agent, &message);
}

static void join(struct agent *agent, struct fixture *f)
{
	struct berth_error err;
	agent->fixture = f;
	agent->stream = berth_rpc_stream_open(f->agent_main, &berth__v1__fleet_service__descriptor, "Session",
		berth_within_ms(10 * WAIT_MS, NULL), &err);
	assert_ok(agent->stream != NULL, err);
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	Berth__V1__Hello hello = BERTH__V1__HELLO__INIT;
	Berth__V1__VersionRange range = BERTH__V1__VERSION_RANGE__INIT;
	Berth__V1__Capacity capacity = BERTH__V1__CAPACITY__INIT;
	range.least = range.most = 1;
	capacity.cpus = capacity.slots = 2;
	capacity.memory_mb = 4096;
	hello.protocol = &range;
	hello.capacity = &capacity;
	hello.boot_id = (char *)BOOT;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
	message.hello = &hello;
	send_agent(agent, &message);
	Berth__V1__CoordinatorMessage *welcome = receive(agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME);
	assert_string_equal(welcome->welcome->fleet, "quay");
	assert_int_equal(welcome->welcome->applied_through, agent->reports);
	berth_proto_free(welcome);
	beat(agent);
}

static void report(struct agent *agent, Berth__V1__Report *body)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	body->sequence = ++agent->reports;
	body->boot_id = (char *)BOOT;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_REPORT;
	message.report = body;
	send_agent(agent, &message);
	Berth__V1__CoordinatorMessage *ack = receive(agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK);
	assert_int_equal(ack->report_ack->through, agent->reports);
	berth_proto_free(ack);
}

static void move(struct agent *agent, const char *lease, Berth__V1__LeaseState to, Berth__V1__DeathProof proof)
{
	Berth__V1__Report body = BERTH__V1__REPORT__INIT;
	Berth__V1__LeaseMove moved = BERTH__V1__LEASE_MOVE__INIT;
	moved.lease_id = (char *)lease;
	moved.state = to;
	moved.proof = proof;
	body.body_case = BERTH__V1__REPORT__BODY_LEASE;
	body.lease = &moved;
	report(agent, &body);
}

// Runs an assignment to its scored end; `honest` false signs another reward than it reports.
static void finish(struct agent *agent, const Berth__V1__Assignment *assignment, bool honest)
{
	struct berth_error err;
	Berth__V1__Lease *lease = assignment->leases[0];
	move(agent, lease->lease_id, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0);
	move(agent, lease->lease_id, BERTH__V1__LEASE_STATE__LEASE_ACTIVE, 0);
	move(agent, lease->lease_id, BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED, 0);
	move(agent, lease->lease_id, BERTH__V1__LEASE_STATE__LEASE_RETIRED, BERTH__V1__DEATH_PROOF__ABSENCE_SEEN);
	struct berth_digest digest = berth_sha256("{}", 2);
	char digest_text[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&digest, digest_text);
	BERTH_AUTO_FREE char *statement = berth_format("{\"agent\":\"north\",\"attestations\":[\"%s\"],\"outcome\":"
						       "\"OUTCOME_SCORED\",\"receipts\":[{\"lease_id\":\"%s\"}],"
						       "\"rewards\":{\"reward\":%s},\"trial\":{\"generation\":%u,"
						       "\"index\":%u,\"job_id\":\"%s\"},\"version\":1}",
		digest_text, lease->lease_id, honest ? "0.5" : "0.25", assignment->trial->generation,
		assignment->trial->index, assignment->trial->job_id);
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	assert_ok(berth_sign(
			  agent->fixture->signing, BERTH_STATEMENT_TYPE, statement, strlen(statement), signature, &err),
		err);
	Berth__V1__Attestation attestation = BERTH__V1__ATTESTATION__INIT, *attestations[] = {&attestation};
	Berth__V1__LeaseReceipt receipt = BERTH__V1__LEASE_RECEIPT__INIT, *receipts[] = {&receipt};
	Berth__V1__Evidence evidence = BERTH__V1__EVIDENCE__INIT;
	Berth__V1__TrialResult result = BERTH__V1__TRIAL_RESULT__INIT;
	Berth__V1__TrialDone done = BERTH__V1__TRIAL_DONE__INIT;
	Berth__V1__Report body = BERTH__V1__REPORT__INIT;
	attestation.json = (char *)"{}";
	attestation.digest = digest_text;
	receipt.lease = lease;
	evidence.attestations = attestations;
	evidence.receipts = receipts;
	evidence.n_attestations = evidence.n_receipts = 1;
	evidence.statement = statement;
	evidence.signature = (ProtobufCBinaryData){sizeof signature, signature};
	result.outcome = BERTH__V1__OUTCOME__OUTCOME_SCORED;
	result.rewards_json = (char *)"{\"reward\": 0.5}";
	result.evidence = &evidence;
	done.trial = assignment->trial;
	done.result = &result;
	body.body_case = BERTH__V1__REPORT__BODY_DONE;
	body.done = &done;
	report(agent, &body);
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

// What is shown of a job of two trials that are over, wherever it is kept.
static void assert_shown(struct fixture *f, const char *job)
{
	struct berth_error err;
	assert_int_equal(state_of(f, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
	Berth__V1__ListTrialsRequest request = BERTH__V1__LIST_TRIALS_REQUEST__INIT;
	request.job_id = (char *)job;
	Berth__V1__ListTrialsResponse *trials = JOBS(f->main, "ListTrials", &request, &err);
	assert_ok(trials != NULL, err);
	assert_int_equal(trials->n_trials, 2);
	assert_string_equal(trials->trials[1]->result->rewards_json, "{\"reward\": 0.5}");
	assert_memory_equal(trials->trials[1]->trial_name, "count-words__", 13);
	assert_string_equal(trials->trials[1]->agent_host, "north");
	berth_proto_free(trials);
	Berth__V1__ListLeasesRequest leases_request = BERTH__V1__LIST_LEASES_REQUEST__INIT;
	leases_request.job_id = (char *)job;
	Berth__V1__ListLeasesResponse *leases =
		call(f->main, &berth__v1__lease_service__descriptor, "ListLeases", &leases_request, &err);
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
	BERTH_AUTO_FREE char *job = submit(f, "key", 2);
	struct watch watch = {.fixture = f, .job = job};
	pthread_t watcher;
	pthread_create(&watcher, NULL, watch_to_the_end, &watch);
	join(&agent, f);
	Berth__V1__CoordinatorMessage *given[2];
	for (size_t i = 0; i < 2; i++) {
		given[i] = receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
		assert_int_equal(given[i]->assignment->spec->n_tasks, 1);
	}
	assert_string_equal(value_of(given[0]->assignment, "verifier/0"), "first");
	assert_string_equal(value_of(given[1]->assignment, "verifier/0/build"), "second");
	assert_null(value_of(given[1]->assignment, "verifier/0"));
	assert_string_equal(value_of(given[1]->assignment, "environment"), "third");
	for (size_t i = 0; i < 2; i++) {
		finish(&agent, given[i]->assignment, true);
		berth_proto_free(given[i]);
	}
	pthread_join(watcher, NULL);
	assert_true(watch.ended && watch.updates > 0);
	assert_int_equal(watch.scored, 2);
	assert_int_equal(watch.end, BERTH__V1__JOB_STATE__JOB_COMPLETED);
	forget_batch(&agent);
	berth_rpc_stream_free(agent.stream);
	assert_shown(f, job);
	wait_until_forgotten(f, job);
	assert_shown(f, job);
	stop(f);
	start(f);
	assert_shown(f, job);
	wait_until_forgotten(f, job);
	join(&agent, f); // its reports are applied already
	forget_batch(&agent);
	berth_rpc_stream_free(agent.stream);
	assert_shown(f, job);
}

static void a_result_that_says_more_than_was_signed_is_run_again(void **state)
{
	struct fixture *f = *state;
	struct agent agent = {0};
	BERTH_AUTO_FREE char *job = submit(f, "key", 1);
	join(&agent, f);
	Berth__V1__CoordinatorMessage *first = receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	finish(&agent, first->assignment, false);
	Berth__V1__CoordinatorMessage *second = receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	assert_int_equal(second->assignment->trial->generation, 2);
	assert_string_not_equal(second->assignment->leases[0]->lease_id, first->assignment->leases[0]->lease_id);
	finish(&agent, second->assignment, true);
	assert_int_equal(state_of(f, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
	berth_proto_free(first);
	berth_proto_free(second);
	forget_batch(&agent);
	berth_rpc_stream_free(agent.stream);
}

static void a_cancel_reaches_the_agent_and_the_watcher(void **state)
{
	struct fixture *f = *state;
	struct agent agent = {0};
	struct berth_error err;
	BERTH_AUTO_FREE char *job = submit(f, "key", 1);
	join(&agent, f);
	Berth__V1__CoordinatorMessage *given = receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	struct watch watch = {.fixture = f, .job = job};
	pthread_t watcher;
	pthread_create(&watcher, NULL, watch_to_the_end, &watch);
	Berth__V1__CancelJobRequest request = BERTH__V1__CANCEL_JOB_REQUEST__INIT;
	request.job_id = job;
	Berth__V1__CancelJobResponse *response = JOBS(f->main, "CancelJob", &request, &err);
	assert_ok(response != NULL, err);
	assert_int_equal(response->job->state, BERTH__V1__JOB_STATE__JOB_CANCELLING);
	berth_proto_free(response);
	berth_proto_free(receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_REVOKE));
	move(&agent, given->assignment->leases[0]->lease_id, BERTH__V1__LEASE_STATE__LEASE_RETIRED,
		BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
	pthread_join(watcher, NULL);
	assert_int_equal(watch.end, BERTH__V1__JOB_STATE__JOB_CANCELLED);
	berth_proto_free(given);
	forget_batch(&agent);
	berth_rpc_stream_free(agent.stream);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(a_large_blob_comes_back_whole_and_from_any_offset),
	TEST(a_job_needs_its_bundle_and_a_wrong_digest_is_refused),
	TEST(only_the_right_role_and_the_newest_certificate_are_served),
	TEST(an_agent_scores_a_job_and_a_restart_changes_nothing),
	TEST(a_result_that_says_more_than_was_signed_is_run_again),
	TEST(a_cancel_reaches_the_agent_and_the_watcher),
};

BERTH_TEST_MAIN(tests)
