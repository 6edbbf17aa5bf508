// SPDX-License-Identifier: Apache-2.0
// An agent at work: it keeps a session with the coordinator, runs the trials that it is given, a thread each, and tells
// what became of them. What it must not forget is on disk before it is told.
//
// Order at start: what an earlier life left (leases, containers) is settled before the first Hello; results that were
// finished and not uploaded are uploaded and reported, not run again.
#pragma once

#include "agent/runner/runner.h"
#include "agent/trial/trial.h"
#include "common/base/cancel.h"
#include "common/evidence/sign.h"
#include "common/rpc/client.h"

#define BERTH_SESSION_DISK_FREE_MIN_BYTES (INT64_C(2) * 1024 * 1024 * 1024)
#define BERTH_SESSION_BUNDLES_BYTES_MAX   (INT64_C(20) * 1024 * 1024 * 1024)
#define BERTH_SESSION_PROBE_MS            5000
#define BERTH_SESSION_SWEEP_MS            60000

// What is known of the place where trials run, once it could be opened. Strings are the session's to free.
struct berth_session_facts {
	char *daemon_id;
	char *platform; // "linux/amd64"
	uint32_t cpus, slots;
	uint64_t memory_mb, disk_mb;
};

// Where trials run and how, as functions. Any thread of the session may call.
struct berth_session_host {
	// Opens the runner; called again while it fails. The session frees the runner.
	struct berth_runner *(*open)(
		void *context, struct berth_session_facts *facts, struct berth_until until, struct berth_error *err);
	// Whether new trials can run here; err says what is wrong and the fix. NULL: always.
	bool (*probe)(void *context, struct berth_until until, struct berth_error *err);
	// berth_trial_run and berth_trial_result_free.
	void (*run)(const struct berth_trial_host *host, const struct berth_trial_input *input,
		struct berth_cancel *cancel, Berth__V1__TrialResult *result);
	void (*free_result)(Berth__V1__TrialResult *result);
	void *context;
};

struct berth_session_options {
	const char *state; // folder: store/ bundles/ spool/ trials/
	const char *fleet, *agent, *version;
	const char *const *capabilities;
	size_t capabilities_count;
	struct berth_rpc_channel *coordinator, *blobs;
	const struct berth_signing_key *signing_key;
	const uint8_t *ledger_key_der; // of the enrolment (agent/core/core.h); size 0: none
	size_t ledger_key_size;
	struct berth_session_host host;
	int64_t drain_ms;            // how long an end waits for trials and for the coordinator
	bool cut_tail;               // drop what a power cut left damaged at the end of the store
	int64_t disk_free_min_bytes; // below it no new trial is taken; here and below 0: the default above
	int64_t bundles_bytes_max;
	int64_t probe_ms, sweep_ms;
};

// Works until `stop` fires; then it takes no more trials, cancels those that run, retires their leases and sends what
// is in the outbox, for at most drain_ms. TIMEOUT: some trial did not end in that time, its thread still runs, and the
// process must end now (the next start settles what is left).
bool berth_session_run(const struct berth_session_options *options, struct berth_cancel *stop, struct berth_error *err);
