// SPDX-License-Identifier: Apache-2.0
// A coordinator for agents under test: a real gRPC server that keeps the rules of a session (reports applied once and
// in order, trials of a restarted agent run again) in memory, counts what an agent must not do, and has knobs for what
// a coordinator or a network can do wrong.
#pragma once

#include <pthread.h>

#include "berth/v1/blob.pb-c.h"
#include "berth/v1/fleet.pb-c.h"
#include "common/base/buf.h"
#include "common/rpc/server.h"

#define FAKE_FLEET      "quay"
#define FAKE_TRIALS_MAX 256
#define FAKE_BOOTS_MAX  512
#define FAKE_LEASES_MAX 4096
#define FAKE_BLOBS_MAX  1024

struct fake_trial {
	uint32_t generation;
	bool sent;   // on the stream that is up
	bool listed; // the agent said that it has it
	unsigned accepted;
	unsigned refused; // results of older generations
	Berth__V1__TrialResult *result;
	char *boot_id; // that wrote the accepted result
};

struct fake_lease {
	char lease_id[64];
	Berth__V1__LeaseState state;
	uint32_t trial;
};

struct fake_blob {
	uint8_t digest[32];
	struct berth_buf bytes;
};

struct fake {
	struct berth_rpc_server *server;
	int port;
	pthread_mutex_t lock;
	pthread_cond_t changed;

	// Knobs; set them under fake_lock.
	uint64_t number;
	uint8_t nonce;
	uint64_t hold_ms, heartbeat_ms;
	bool mute;            // takes messages and never answers
	bool no_acks;         // applies reports and does not acknowledge them
	bool refuse_blobs;    // the blob service is unavailable
	bool corrupt_gets;    // sends other bytes
	size_t cut_get_after; // ends each GetBlob after so many bytes; 0: never

	// What happened.
	uint64_t head;
	unsigned hellos, sessions_ended, heartbeats, gets, puts, reports, repeats;
	uint64_t gets_from; // greatest offset that was asked for
	unsigned kept;      // trials that a new life of an agent still had a result of
	unsigned faults;    // what an agent must never do
	char fault[512];    // the first of them
	Berth__V1__Hello *hello;
	Berth__V1__Heartbeat *heartbeat;
	char progress[64];
	struct berth_rpc_call *session;

	struct {
		char boot_id[40];
		uint64_t applied;
	} boots[FAKE_BOOTS_MAX];
	size_t boots_count;
	struct fake_trial trials[FAKE_TRIALS_MAX];
	size_t trials_count;
	struct fake_lease leases[FAKE_LEASES_MAX];
	size_t leases_count;
	struct fake_blob blobs[FAKE_BLOBS_MAX];
	size_t blobs_count;
	Berth__V1__BlobRef bundle; // of every trial's task
};

void fake_open(struct fake *fake); // and serves
void fake_close(struct fake *fake);
// The process of the coordinator ends and comes back, with what it had on its disk.
void fake_stop(struct fake *fake);
void fake_start(struct fake *fake);

// A task bundle with one file, and `count` trials of it that wait for an agent.
void fake_add_trials(struct fake *fake, size_t count);
void fake_revoke(struct fake *fake, uint32_t index);
// Waits until `is_so` holds (called under the lock); false after a long while.
bool fake_wait(struct fake *fake, bool (*is_so)(struct fake *fake));
struct fake_blob *fake_blob(struct fake *fake, const Berth__V1__BlobRef *ref);
size_t fake_open_leases(struct fake *fake); // dispatched and not retired
