// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/coordinator/quay.h"

#include <stdlib.h>
#include <string.h>

#include "berth/v1/blob.pb-c.h"
#include "berth_descriptors.h"
#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/trial_statement.h"
#include "common/evidence/x509.h"
#include "coordinator/init.h"
#include "coordinator/service/daemon.h"
#include "tests/support/test.h"

static void never(void *context)
{
	(void)context;
}

#define GROUP_SIZE 3 // statements that are signed together

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

struct berth_rpc_channel *quay_channel(int port, const struct credentials *as)
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

void quay_start(struct fixture *f)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *data = berth_path_join(f->folder, "data");
	BERTH_AUTO_FREE char *secret = berth_path_join(f->folder, "cred/coordinator/secret.key");
	BERTH_AUTO_FREE char *ledger_key = berth_path_join(f->folder, "cred/coordinator/ledger-key.pem");
	struct berth_coordinator_options options = {.data_folder = data,
		.listen = "127.0.0.1:0",
		.blobs_listen = "127.0.0.1:0",
		.tls = {f->coordinator.authority, f->coordinator.certificate, f->coordinator.key},
		.authority_key = f->authority_key,
		.secret_key_file = secret,
		.ledger_key_file = ledger_key,
		.hold_ms = f->hold_ms ? f->hold_ms : HOLD_MS,
		.heartbeat_ms = BEAT_MS,
		.aging_ms = HOLD_MS,
		.checkpoint_ms = 1, // one after another
		.max_generations = 5,
		.version = "test",
		.fenced = never};
	f->daemon = berth_coordinator_start(&options, &err);
	assert_ok(f->daemon != NULL, err);
	f->main = quay_channel(berth_coordinator_port(f->daemon), &f->operator_);
	f->blobs = quay_channel(berth_coordinator_blobs_port(f->daemon), &f->operator_);
	if (f->agent.key) {
		f->agent_main = quay_channel(berth_coordinator_port(f->daemon), &f->agent);
	}
}

void quay_stop(struct fixture *f)
{
	berth_rpc_channel_free(BERTH_STEAL(f->main));
	berth_rpc_channel_free(BERTH_STEAL(f->blobs));
	berth_rpc_channel_free(BERTH_STEAL(f->agent_main));
	berth_coordinator_stop(BERTH_STEAL(f->daemon), 1000);
}

void *quay_call(struct berth_rpc_channel *on, const ProtobufCServiceDescriptor *service, const char *method,
	const void *request, struct berth_error *err)
{
	ProtobufCMessage *response = NULL;
	return berth_rpc_unary(on, service, method, request, &response, berth_within_ms(WAIT_MS, NULL), err) ? response
	                                                                                                     : NULL;
}

void quay_free_credentials(struct credentials *credentials)
{
	berth_free_cleanup(&credentials->authority);
	berth_free_cleanup(&credentials->certificate);
	berth_free_cleanup(&credentials->key);
}

void quay_enroll(struct fixture *f, const char *role, const char *name, struct credentials *into)
{
	struct berth_error err;
	BERTH_AUTO_FREE uint8_t *request_der = NULL;
	BERTH_AUTO_FREE uint8_t *signing_der = NULL;
	Berth__V1__EnrollRequest request = BERTH__V1__ENROLL_REQUEST__INIT;
	quay_free_credentials(into);
	assert_ok(berth_x509_request_new(name, &into->key, &request_der, &request.request_der.len, &err), err);
	assert_ok(berth_signing_key_public(f->signing, &signing_der, &request.signing_key_der.len, &err), err);
	request.request_der.data = request_der;
	request.signing_key_der.data = signing_der;
	request.role = (char *)role;
	request.name = (char *)name;
	Berth__V1__EnrollResponse *response = FLEET(f->main, "Enroll", &request, &err);
	assert_ok(response != NULL, err);
	into->authority = berth_strdup(response->authority_pem);
	into->certificate = berth_strdup(response->certificate_pem);
	assert_non_null(strstr(response->ledger_key_pem, "BEGIN PUBLIC KEY"));
	berth_proto_free(response);
}

int quay_setup(void **state)
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
	quay_start(f);
	quay_enroll(f, "agent", "north", &f->agent);
	f->agent_main = quay_channel(berth_coordinator_port(f->daemon), &f->agent);
	return 0;
}

int quay_teardown(void **state)
{
	struct fixture *f = *state;
	quay_stop(f);
	berth_remove_all(f->folder, NULL);
	quay_free_credentials(&f->coordinator);
	quay_free_credentials(&f->operator_);
	quay_free_credentials(&f->agent);
	free(f->authority_key);
	berth_signing_key_free(f->signing);
	free(f->folder);
	free(f);
	return 0;
}

// --- blobs and jobs ---

bool quay_put(
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

static const char bundle[] = "a tar, as far as the coordinator cares";

static void fill_secret(Berth__V1__Secret *secret, const char *scope, const char *value)
{
	berth__v1__secret__init(secret);
	secret->scope = (char *)scope;
	secret->name = (char *)"TOKEN";
	secret->value = (char *)value;
	secret->sensitive = true;
}

void quay_fill_job(struct submitted *job, const char *key, uint32_t tasks)
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

bool quay_put_bundle_of(struct fixture *f, const struct submitted *job, struct berth_error *err)
{
	return quay_put(f, &job->digest, bundle, sizeof bundle, err);
}

void quay_put_bundle(struct fixture *f, const struct submitted *job)
{
	struct berth_error err;
	assert_ok(quay_put_bundle_of(f, job, &err), err);
}

char *quay_submit(struct fixture *f, const char *key, uint32_t tasks)
{
	struct berth_error err;
	struct submitted job;
	quay_fill_job(&job, key, tasks);
	quay_put_bundle(f, &job);
	Berth__V1__SubmitJobResponse *response = JOBS(f->main, "SubmitJob", &job.request, &err);
	assert_ok(response != NULL, err);
	char *id = berth_strdup(response->job_id);
	berth_proto_free(response);
	return id;
}

Berth__V1__JobState quay_state_of(struct fixture *f, const char *job)
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

// --- an agent ---

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

void quay_leave(struct agent *agent)
{
	forget_batch(agent);
	berth_rpc_stream_free(agent->stream);
	agent->stream = NULL;
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

Berth__V1__CoordinatorMessage *quay_receive(struct agent *agent, Berth__V1__CoordinatorMessage__BodyCase wanted)
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

void quay_beat(struct agent *agent)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	Berth__V1__Heartbeat heartbeat = BERTH__V1__HEARTBEAT__INIT;
	heartbeat.sequence = ++agent->beats;
	heartbeat.accepting = true;
	heartbeat.outbox_first = agent->outbox_first;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT;
	message.heartbeat = &heartbeat;
	send_agent(agent, &message);
}

void quay_forget(struct agent *agent)
{
	berth_proto_free(agent->welcome);
	berth_proto_free(agent->seen);
	agent->welcome = NULL;
	agent->seen = NULL;
}

void quay_join(struct agent *agent, struct fixture *f)
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
	hello.obeyed = agent->welcome ? agent->welcome->incarnation : NULL;
	hello.seen = agent->seen;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_HELLO;
	message.hello = &hello;
	send_agent(agent, &message);
	Berth__V1__CoordinatorMessage *welcome = quay_receive(agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME);
	assert_string_equal(welcome->welcome->fleet, "quay");
	assert_int_equal(welcome->welcome->applied_through, agent->reports);
	quay_forget(agent);
	agent->welcome = BERTH_STEAL(welcome->welcome);
	agent->seen = berth_proto_clone(agent->welcome->head);
	berth_proto_free(welcome);
	quay_beat(agent);
}

static void report(struct agent *agent, Berth__V1__Report *body)
{
	Berth__V1__AgentMessage message = BERTH__V1__AGENT_MESSAGE__INIT;
	body->sequence = ++agent->reports;
	body->boot_id = (char *)BOOT;
	message.body_case = BERTH__V1__AGENT_MESSAGE__BODY_REPORT;
	message.report = body;
	send_agent(agent, &message);
	Berth__V1__CoordinatorMessage *ack = quay_receive(agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK);
	assert_int_equal(ack->report_ack->through, agent->reports);
	berth_proto_free(ack);
}

void quay_move(struct agent *agent, const char *lease, Berth__V1__LeaseState to, Berth__V1__DeathProof proof)
{
	Berth__V1__Report body = BERTH__V1__REPORT__INIT;
	Berth__V1__LeaseMove moved = BERTH__V1__LEASE_MOVE__INIT;
	moved.lease_id = (char *)lease;
	moved.state = to;
	moved.proof = proof;
	moved.elapsed_ns = agent->elapsed_ns;
	if (agent->given && to == BERTH__V1__LEASE_STATE__LEASE_DISPATCHING) {
		moved.lease = agent->given->leases[0];
		moved.reservation = agent->given->n_reservations ? agent->given->reservations[0] : NULL;
	}
	body.body_case = BERTH__V1__REPORT__BODY_LEASE;
	body.lease = &moved;
	report(agent, &body);
}

// Second of a group of three, as one of three results that an agent syncs together.
static size_t sign_among_others(const struct fixture *f, const char *statement,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_digest path[static BERTH_STATEMENT_PATH_MAX])
{
	struct berth_error err;
	struct berth_statement_group *group = berth_statement_group_new();
	berth_statement_group_add(group, "first", strlen("first"));
	berth_statement_group_add(group, statement, strlen(statement));
	berth_statement_group_add(group, "third", strlen("third"));
	assert_ok(berth_statement_group_sign(group, f->signing, signature, &err), err);
	size_t hashes = berth_statement_group_path(group, 1, path);
	berth_statement_group_free(group);
	return hashes;
}

Berth__V1__Report *quay_done(
	const struct fixture *f, const Berth__V1__Assignment *assignment, enum quay_honesty honesty)
{
	Berth__V1__Lease *lease = assignment->leases[0];
	struct berth_digest digest = berth_sha256("{}", 2);
	char digest_text[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&digest, digest_text);
	BERTH_AUTO_FREE char *statement = berth_format("{\"agent\":\"north\",\"attestations\":[\"%s\"],\"outcome\":"
						       "\"OUTCOME_SCORED\",\"receipts\":[{\"lease_id\":\"%s\"}],"
						       "\"rewards\":{\"reward\":%s},\"trial\":{\"generation\":%u,"
						       "\"index\":%u,\"job_id\":\"%s\"},\"version\":%d}",
		digest_text, lease->lease_id, honesty == QUAY_LIES ? "0.25" : "0.5", assignment->trial->generation,
		assignment->trial->index, assignment->trial->job_id,
		BERTH_STATEMENT_VERSION + (honesty == QUAY_OTHER_VERSION));
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	struct berth_digest path[BERTH_STATEMENT_PATH_MAX];
	size_t hashes = sign_among_others(f, statement, signature, path);
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
	evidence.path = (ProtobufCBinaryData){hashes * sizeof path[0], path[0].bytes};
	evidence.group_index = honesty == QUAY_OTHER_PLACE ? 0 : honesty == QUAY_NO_PLACE ? GROUP_SIZE : 1;
	evidence.group_size = GROUP_SIZE;
	result.outcome = BERTH__V1__OUTCOME__OUTCOME_SCORED;
	result.rewards_json = (char *)"{\"reward\": 0.5}";
	result.evidence = &evidence;
	Berth__V1__BlobRef folder = BERTH__V1__BLOB_REF__INIT;
	struct berth_digest folder_digest = berth_sha256(QUAY_FOLDER, strlen(QUAY_FOLDER));
	folder.sha256 = (ProtobufCBinaryData){sizeof folder_digest.bytes, folder_digest.bytes};
	folder.size = (int64_t)strlen(QUAY_FOLDER);
	result.folder = &folder;
	const char *sent = honesty == QUAY_OTHER_FOLDER ? "the tar of another's folder" : QUAY_FOLDER;
	done.folder = (ProtobufCBinaryData){strlen(sent), (uint8_t *)sent};
	done.trial = assignment->trial;
	done.result = &result;
	body.body_case = BERTH__V1__REPORT__BODY_DONE;
	body.done = &done;
	body.boot_id = (char *)BOOT;
	return berth_proto_clone(&body);
}

void quay_finish(struct agent *agent, const Berth__V1__Assignment *assignment, enum quay_honesty honesty)
{
	const char *lease = assignment->leases[0]->lease_id;
	quay_move(agent, lease, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0);
	quay_move(agent, lease, BERTH__V1__LEASE_STATE__LEASE_ACTIVE, 0);
	quay_move(agent, lease, BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED, 0);
	quay_move(agent, lease, BERTH__V1__LEASE_STATE__LEASE_RETIRED, BERTH__V1__DEATH_PROOF__ABSENCE_SEEN);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Report *done = quay_done(agent->fixture, assignment, honesty);
	Berth__V1__Report body = BERTH__V1__REPORT__INIT;
	body.body_case = done->body_case;
	body.done = done->done;
	report(agent, &body);
}
