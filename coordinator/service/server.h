// SPDX-License-Identifier: Apache-2.0
// A whole coordinator: replays its ledger, starts a new incarnation, serves.
#pragma once

#include <stdint.h>

#include "common/base/error.h"
#include "common/rpc/rpc.h"
#include "coordinator/governor/governor.h"

#define BERTH_PORT_DEFAULT          7311
#define BERTH_BLOBS_PORT_DEFAULT    7312
#define BERTH_CHECKPOINT_MS_DEFAULT 30000

struct berth_daemon;

struct berth_coordinator_options {
	const char *data_folder;
	const char *listen, *blobs_listen; // "host:port"
	struct berth_rpc_tls tls;          // PEM
	const char *authority_key;         // PEM; NULL: enrols nobody
	const char *secret_key_file;
	const char *ledger_key_file; // signs heads; made when missing. NULL: heads are not signed
	int64_t hold_ms, heartbeat_ms, aging_ms;
	int64_t checkpoint_ms; // see recorder.h
	uint32_t max_generations;
	struct berth_governor_policy create_policy; // all 0: environments are begun as they come
	bool meter_local;                           // a job without a budget is refused even for local work
	int64_t disk_free_min_bytes;
	bool cut_tail; // drop what a power cut left damaged at the end of the ledger
	const char *version;
	// When a newer incarnation is known. From the engine's thread: must not stop the coordinator itself.
	void (*fenced)(void *context);
	void *context;
};

// The fleet's name is the trust domain of the authority. Returns when it serves.
struct berth_daemon *berth_coordinator_start(const struct berth_coordinator_options *options, struct berth_error *err);
int berth_coordinator_port(const struct berth_daemon *daemon);
int berth_coordinator_blobs_port(const struct berth_daemon *daemon);
// Ends calls within grace_ms, then the engine, then the ledger.
void berth_coordinator_stop(struct berth_daemon *daemon, int64_t grace_ms);
