// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/session/fake_coordinator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "berth_descriptors.h"
#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/codec/tar.h"
#include "tests/unit/session/fake_blobs.h"

#define FOLDER_MAX (64 * 1024) // that may come with a report

#define WAIT_S   60
#define GRACE_MS 50
#define JOB      "0123456789abcdef0123456789abcdef"

static void fault(struct fake *fake, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fault(struct fake *fake, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (fake->faults++ == 0) {
		vsnprintf(fake->fault, sizeof fake->fault, format, args);
	}
	va_end(args);
}

static void leaf_of(uint64_t sequence, uint8_t leaf[static 32])
{
	struct berth_digest digest = berth_sha256(&sequence, sizeof sequence);
	memcpy(leaf, digest.bytes, sizeof digest.bytes);
}

static void send_message(struct fake *fake, Berth__V1__CoordinatorMessage *message)
{
	if (fake->session && !fake->mute) {
		Berth__V1__CoordinatorBatch batch = BERTH__V1__COORDINATOR_BATCH__INIT;
		batch.messages = &message;
		batch.n_messages = 1;
		berth_rpc_send(fake->session, &batch.base, NULL);
	}
}

// --- assignments ---
static void assign(struct fake *fake, uint32_t index)
{
	struct fake_trial *trial = &fake->trials[index];
	trial->sent = true;
	char lease_id[64];
	snprintf(lease_id, sizeof lease_id, "%016x%08x%08x", 0x1ea5e, index, trial->generation);
	Berth__V1__Lease lease = BERTH__V1__LEASE__INIT;
	lease.lease_id = lease_id;
	lease.daemon_id = fake->hello->daemon_id;
	lease.state = BERTH__V1__LEASE_STATE__LEASE_CREATING;
	lease.role = BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT;
	Berth__V1__Lease *leases[] = {&lease};
	Berth__V1__TrialKey key = BERTH__V1__TRIAL_KEY__INIT;
	key.job_id = (char *)JOB;
	key.index = index;
	key.generation = trial->generation;
	Berth__V1__Task task = BERTH__V1__TASK__INIT;
	task.bundle = &fake->bundle;
	Berth__V1__Task *tasks[] = {&task};
	Berth__V1__JobSpec spec = BERTH__V1__JOB_SPEC__INIT;
	spec.tasks = tasks;
	spec.n_tasks = 1;
	Berth__V1__Assignment assignment = BERTH__V1__ASSIGNMENT__INIT;
	assignment.trial = &key;
	assignment.trial_name = (char *)"trial";
	assignment.spec = &spec;
	assignment.leases = leases;
	assignment.n_leases = 1;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT;
	message.assignment = &assignment;
	send_message(fake, &message);
}

static bool lists(Berth__V1__TrialKey *const *keys, size_t count, uint32_t index, uint32_t generation)
{
	for (size_t i = 0; i < count; i++) {
		if (keys[i]->index == index && keys[i]->generation == generation) {
			return true;
		}
	}
	return false;
}

static void assign_all(struct fake *fake, const Berth__V1__Heartbeat *beat)
{
	for (uint32_t i = 0; i < fake->trials_count; i++) {
		struct fake_trial *trial = &fake->trials[i];
		if (lists(beat->running, beat->n_running, i, trial->generation)) {
			trial->sent = true;
			trial->listed = true;
		} else if (!trial->accepted && !trial->sent && beat->accepting) {
			assign(fake, i);
		}
	}
}

// --- messages of the agent ---
static uint64_t *applied_of(struct fake *fake, const char *boot_id)
{
	for (size_t i = 0; i < fake->boots_count; i++) {
		if (strcmp(fake->boots[i].boot_id, boot_id) == 0) {
			return &fake->boots[i].applied;
		}
	}
	snprintf(fake->boots[fake->boots_count].boot_id, sizeof fake->boots[0].boot_id, "%s", boot_id);
	return &fake->boots[fake->boots_count++].applied;
}

static void on_hello(struct fake *fake, const Berth__V1__Hello *hello)
{
	bool restarted = fake->hello && strcmp(fake->hello->boot_id, hello->boot_id) != 0;
	for (uint32_t i = 0; i < fake->trials_count; i++) {
		struct fake_trial *trial = &fake->trials[i];
		bool has = lists(hello->running, hello->n_running, i, trial->generation);
		if (restarted && !trial->accepted && !has && (trial->sent || trial->listed)) {
			trial->generation++; // that run is lost
		}
		fake->kept += restarted && has;
		trial->listed = has;
		trial->sent = has;
	}
	berth_proto_free(fake->hello);
	fake->hello = berth_proto_clone(hello);
	fake->hellos++;
	uint8_t nonce[16], head_leaf[32], seen_leaf[32];
	memset(nonce, fake->nonce, sizeof nonce);
	leaf_of(fake->head, head_leaf);
	leaf_of(hello->seen->sequence, seen_leaf);
	Berth__V1__Incarnation incarnation = BERTH__V1__INCARNATION__INIT;
	incarnation.number = fake->number;
	incarnation.nonce = (ProtobufCBinaryData){.data = nonce, .len = sizeof nonce};
	Berth__V1__LedgerHead head = BERTH__V1__LEDGER_HEAD__INIT;
	head.sequence = fake->head;
	head.leaf_hash = (ProtobufCBinaryData){.data = head_leaf, .len = sizeof head_leaf};
	Berth__V1__Welcome welcome = BERTH__V1__WELCOME__INIT;
	welcome.protocol = 1;
	welcome.fleet = (char *)FAKE_FLEET;
	welcome.incarnation = &incarnation;
	welcome.head = &head;
	welcome.seen_leaf_hash = (ProtobufCBinaryData){.data = seen_leaf, .len = sizeof seen_leaf};
	welcome.hold_ms = fake->hold_ms;
	welcome.heartbeat_ms = fake->heartbeat_ms;
	welcome.applied_through = *applied_of(fake, hello->boot_id);
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME;
	message.welcome = &welcome;
	send_message(fake, &message);
}

static void on_heartbeat(struct fake *fake, const Berth__V1__Heartbeat *beat)
{
	berth_proto_free(fake->heartbeat);
	fake->heartbeat = berth_proto_clone(beat);
	fake->heartbeats++;
	uint8_t leaf[32];
	leaf_of(fake->head, leaf);
	Berth__V1__LedgerHead head = BERTH__V1__LEDGER_HEAD__INIT;
	head.sequence = fake->head;
	head.leaf_hash = (ProtobufCBinaryData){.data = leaf, .len = sizeof leaf};
	Berth__V1__HeartbeatAck ack = BERTH__V1__HEARTBEAT_ACK__INIT;
	ack.sequence = beat->sequence;
	ack.head = &head;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK;
	message.heartbeat_ack = &ack;
	send_message(fake, &message);
	assign_all(fake, beat);
}

static struct fake_lease *lease_of(struct fake *fake, const char *lease_id)
{
	for (size_t i = 0; i < fake->leases_count; i++) {
		if (strcmp(fake->leases[i].lease_id, lease_id) == 0) {
			return &fake->leases[i];
		}
	}
	struct fake_lease *lease = &fake->leases[fake->leases_count++];
	snprintf(lease->lease_id, sizeof lease->lease_id, "%s", lease_id);
	lease->state = BERTH__V1__LEASE_STATE__LEASE_CREATING;
	return lease;
}

static void on_move(struct fake *fake, const Berth__V1__LeaseMove *move)
{
	struct fake_lease *lease = lease_of(fake, move->lease_id);
	if (lease->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		fault(fake, "lease %s moved to %d after it was retired", move->lease_id, (int)move->state);
	}
	if (move->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED &&
		move->proof == BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED &&
		lease->state == BERTH__V1__LEASE_STATE__LEASE_ACTIVE) {
		fault(fake, "lease %s was active and is said to be never dispatched", move->lease_id);
	}
	lease->state = move->state;
}

// A small folder comes with its report.
static void keep_folder(struct fake *fake, const Berth__V1__TrialDone *done)
{
	struct berth_digest digest = berth_sha256(done->folder.data, done->folder.len);
	const Berth__V1__BlobRef *named = done->result->folder;
	if (!named || memcmp(digest.bytes, named->sha256.data, 32) != 0 || (size_t)named->size != done->folder.len ||
		done->folder.len > FOLDER_MAX) {
		fault(fake, "trial %u came with another folder than its result names", done->trial->index);
		return;
	}
	struct berth_buf bytes = {0};
	berth_buf_add(&bytes, done->folder.data, done->folder.len);
	fake_keep_blob(fake, digest.bytes, &bytes);
	berth_buf_free(&bytes);
}

static void on_done(struct fake *fake, const Berth__V1__TrialDone *done, const char *boot_id)
{
	struct fake_trial *trial = &fake->trials[done->trial->index];
	if (done->trial->generation != trial->generation) {
		trial->refused++;
		return;
	}
	if (trial->accepted) {
		fault(fake, "trial %u.%u was reported twice", done->trial->index, done->trial->generation);
	}
	if (done->result->outcome == BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE) {
		trial->generation++;
		trial->sent = false;
		trial->refused++;
		return;
	}
	trial->accepted++;
	if (done->folder.len) {
		keep_folder(fake, done);
	}
	if (done->result->folder && !fake_blob(fake, done->result->folder)) {
		fault(fake, "trial %u was reported before its folder was put", done->trial->index);
	}
	berth_proto_free(trial->result);
	trial->result = berth_proto_clone(done->result);
	free(trial->boot_id);
	trial->boot_id = berth_strdup(boot_id);
}

static void on_report(struct fake *fake, const Berth__V1__Report *report)
{
	uint64_t *applied = applied_of(fake, report->boot_id);
	fake->reports++;
	fake->repeats += report->sequence <= *applied;
	if (report->sequence > *applied + 1) {
		fault(fake, "report %" PRIu64 " came after %" PRIu64, report->sequence, *applied);
	}
	if (report->sequence == *applied + 1) {
		*applied = report->sequence;
		fake->head++;
		if (report->body_case == BERTH__V1__REPORT__BODY_LEASE) {
			on_move(fake, report->lease);
		} else {
			on_done(fake, report->done, report->boot_id);
		}
	}
	Berth__V1__ReportAck ack = BERTH__V1__REPORT_ACK__INIT;
	ack.boot_id = report->boot_id;
	ack.through = *applied;
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK;
	message.report_ack = &ack;
	if (!fake->no_acks) {
		send_message(fake, &message);
	}
}

static void session_begin(struct berth_rpc_call *call, void *context)
{
	(void)context;
	berth_rpc_read_next(call);
}

static void take_message(struct fake *fake, struct berth_rpc_call *call, const Berth__V1__AgentMessage *message)
{
	if (message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_HELLO) {
		fake->session = call;
		on_hello(fake, message->hello);
	} else if (fake->session == call && message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT) {
		on_heartbeat(fake, message->heartbeat);
	} else if (fake->session == call && message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_REPORT) {
		on_report(fake, message->report);
	} else if (fake->session == call && message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_PROGRESS) {
		snprintf(fake->progress, sizeof fake->progress, "%s", message->progress->phase);
	}
}

static void session_message(struct berth_rpc_call *call, const ProtobufCMessage *base, void *context)
{
	struct fake *fake = context;
	const Berth__V1__AgentBatch *batch = (const Berth__V1__AgentBatch *)base;
	pthread_mutex_lock(&fake->lock);
	for (size_t i = 0; i < batch->n_messages; i++) {
		take_message(fake, call, batch->messages[i]);
	}
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
	berth_rpc_read_next(call);
}

static void session_half_closed(struct berth_rpc_call *call, void *context)
{
	(void)context;
	berth_rpc_finish(call, NULL);
}

static void session_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	struct fake *fake = context;
	pthread_mutex_lock(&fake->lock);
	if (fake->session == call) {
		fake->session = NULL;
	}
	fake->sessions_ended++;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
}

// --- life ---
void fake_start(struct fake *fake)
{
	static const struct berth_rpc_handler fleet[] = {{.method = "Session",
		.roles = BERTH_ROLE_ANYONE,
		.begin = session_begin,
		.message = session_message,
		.half_closed = session_half_closed,
		.ended = session_ended}};
	struct berth_rpc_service services[] = {
		{.descriptor = &berth__v1__fleet_service__descriptor,
			.handlers = fleet,
			.handlers_count = BERTH_COUNT(fleet),
			.context = fake},
		{.descriptor = &berth__v1__blob_service__descriptor,
			.handlers = FAKE_BLOB_HANDLERS,
			.handlers_count = FAKE_BLOB_HANDLERS_COUNT,
			.context = fake},
	};
	BERTH_AUTO_FREE char *address = berth_format("127.0.0.1:%d", fake->port);
	struct berth_rpc_server_options options = {.address = address,
		.services = services,
		.services_count = BERTH_COUNT(services),
		.descriptor_set = berth_descriptor_set,
		.descriptor_set_size = berth_descriptor_set_size};
	struct berth_error err;
	fake->server = berth_rpc_server_start(&options, &err);
	if (!fake->server) {
		fprintf(stderr, "fake coordinator: %s\n", err.message);
		abort();
	}
	fake->port = berth_rpc_server_port(fake->server);
}

void fake_stop(struct fake *fake)
{
	berth_rpc_server_stop(fake->server, GRACE_MS);
	fake->server = NULL;
}

static void add_bundle(struct fake *fake)
{
	struct berth_buf tar = {0};
	BERTH_AUTO_FREE char *text = berth_alloc(20000);
	memset(text, 'x', 20000);
	struct berth_error err;
	if (!berth_tar_write_bytes(text, 20000, "instruction.md", 0644, berth_sink_buf(&tar), &err)) {
		abort();
	}
	struct berth_digest digest = berth_sha256(tar.data, tar.size);
	berth__v1__blob_ref__init(&fake->bundle);
	berth_proto_set_bytes(&fake->bundle.sha256, digest.bytes, sizeof digest.bytes);
	fake->bundle.size = (int64_t)tar.size;
	fake_keep_blob(fake, digest.bytes, &tar);
}

void fake_open(struct fake *fake)
{
	memset(fake, 0, sizeof *fake);
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&fake->lock, NULL);
	pthread_cond_init(&fake->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	fake->number = 1;
	fake->nonce = 7;
	fake->head = 1;
	fake->hold_ms = 60000;
	fake->heartbeat_ms = 100;
	add_bundle(fake);
	fake_start(fake);
}

void fake_close(struct fake *fake)
{
	if (fake->server) {
		fake_stop(fake);
	}
	berth_proto_free(fake->hello);
	berth_proto_free(fake->heartbeat);
	for (size_t i = 0; i < fake->trials_count; i++) {
		berth_proto_free(fake->trials[i].result);
		free(fake->trials[i].boot_id);
	}
	for (size_t i = 0; i < fake->blobs_count; i++) {
		berth_buf_free(&fake->blobs[i].bytes);
	}
	free(fake->bundle.sha256.data);
	pthread_cond_destroy(&fake->changed);
	pthread_mutex_destroy(&fake->lock);
}

void fake_add_trials(struct fake *fake, size_t count)
{
	pthread_mutex_lock(&fake->lock);
	for (size_t i = 0; i < count; i++) {
		fake->trials[fake->trials_count++].generation = 1;
	}
	pthread_mutex_unlock(&fake->lock);
}

void fake_revoke(struct fake *fake, uint32_t index)
{
	Berth__V1__TrialKey key = BERTH__V1__TRIAL_KEY__INIT;
	key.job_id = (char *)JOB;
	key.index = index;
	Berth__V1__Revoke revoke = BERTH__V1__REVOKE__INIT;
	revoke.trial = &key;
	revoke.reason = (char *)"the job was cancelled";
	Berth__V1__CoordinatorMessage message = BERTH__V1__COORDINATOR_MESSAGE__INIT;
	message.body_case = BERTH__V1__COORDINATOR_MESSAGE__BODY_REVOKE;
	message.revoke = &revoke;
	pthread_mutex_lock(&fake->lock);
	key.generation = fake->trials[index].generation;
	send_message(fake, &message);
	pthread_mutex_unlock(&fake->lock);
}

bool fake_wait(struct fake *fake, bool (*is_so)(struct fake *fake))
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&fake->lock);
	bool so;
	int status = 0;
	while (!(so = is_so(fake)) && status == 0) {
		status = pthread_cond_timedwait(&fake->changed, &fake->lock, &until);
	}
	pthread_mutex_unlock(&fake->lock);
	return so;
}

size_t fake_open_leases(struct fake *fake)
{
	size_t count = 0;
	for (size_t i = 0; i < fake->leases_count; i++) {
		count += fake->leases[i].state != BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	}
	return count;
}
