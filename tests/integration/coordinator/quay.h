// SPDX-License-Identifier: Apache-2.0
// A whole coordinator in this process, over mutual TLS, with an operator's channel and one agent, north, whose messages
// the test writes itself.
#pragma once

#include "berth/v1/fleet.pb-c.h"
#include "berth/v1/job.pb-c.h"
#include "common/base/digest.h"
#include "common/evidence/sign.h"
#include "common/rpc/client.h"
#include "coordinator/service/server.h"

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
	int64_t hold_ms; // of the next start; 0: HOLD_MS
	struct berth_daemon *daemon;
	struct berth_rpc_channel *main, *blobs;             // as operator
	struct berth_rpc_channel *agent_main, *agent_blobs; // as agent
};

int quay_setup(void **state);
int quay_teardown(void **state);
void quay_start(struct fixture *f); // after quay_stop: a restart
void quay_stop(struct fixture *f);
struct berth_rpc_channel *quay_channel(int port, const struct credentials *as);
void *quay_call(struct berth_rpc_channel *on, const ProtobufCServiceDescriptor *service, const char *method,
	const void *request, struct berth_error *err);
#define JOBS(on, method, request, err)  quay_call(on, &berth__v1__job_service__descriptor, method, request, err)
#define FLEET(on, method, request, err) quay_call(on, &berth__v1__fleet_service__descriptor, method, request, err)

// Issues credentials anew, with the fixture's signing key; what `into` held is freed.
void quay_enroll(struct fixture *f, const char *role, const char *name, struct credentials *into);
void quay_free_credentials(struct credentials *credentials);

bool quay_put(
	struct fixture *f, const struct berth_digest *digest, const void *data, size_t size, struct berth_error *err);

// A job of one or two tasks; the bundle is not put by quay_fill_job.
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
void quay_fill_job(struct submitted *job, const char *key, uint32_t tasks);
bool quay_put_bundle_of(struct fixture *f, const struct submitted *job, struct berth_error *err);
void quay_put_bundle(struct fixture *f, const struct submitted *job);
char *quay_submit(struct fixture *f, const char *key, uint32_t tasks); // its id; the caller frees
Berth__V1__JobState quay_state_of(struct fixture *f, const char *job);

struct agent {
	struct fixture *fixture;
	struct berth_rpc_stream *stream;
	Berth__V1__CoordinatorBatch *received; // NULL: all taken
	size_t taken;
	uint64_t beats, reports;
	int64_t elapsed_ns; // of the next moves
	// Of the next Hello, where it has been in a session before: `welcome` and the newest head that it saw.
	Berth__V1__Welcome *welcome; // of the newest session
	Berth__V1__LedgerHead *seen;
	uint64_t outbox_first;              // of the next heartbeats
	const Berth__V1__Assignment *given; // said with the next moves to DISPATCHING
};
void quay_join(struct agent *agent, struct fixture *f);
void quay_leave(struct agent *agent);
void quay_forget(struct agent *agent); // frees what it remembers of sessions
void quay_beat(struct agent *agent);   // and remembers the head of the answer
// The next message of this kind; others are dropped. The caller frees it.
Berth__V1__CoordinatorMessage *quay_receive(struct agent *agent, Berth__V1__CoordinatorMessage__BodyCase wanted);
void quay_move(struct agent *agent, const char *lease, Berth__V1__LeaseState to, Berth__V1__DeathProof proof);
// Runs an assignment to its scored end, with a folder in the report. QUAY_LIES signs another reward than it reports;
// QUAY_OTHER_FOLDER sends other bytes than those that it names; QUAY_OTHER_PLACE claims another's place in the group
// that was signed, QUAY_NO_PLACE one that is in no group.
enum quay_honesty { QUAY_HONEST, QUAY_LIES, QUAY_OTHER_FOLDER, QUAY_OTHER_VERSION, QUAY_OTHER_PLACE, QUAY_NO_PLACE };
#define QUAY_FOLDER "the tar of a trial's folder"
void quay_finish(struct agent *agent, const Berth__V1__Assignment *assignment, enum quay_honesty honesty);
// The report of that end alone, without its sequence; the caller frees it.
Berth__V1__Report *quay_done(
	const struct fixture *f, const Berth__V1__Assignment *assignment, enum quay_honesty honesty);
