// SPDX-License-Identifier: Apache-2.0
// A place to run trials whose resources are files: FOLDER/resources/<lease id> is there from create to kill. Each run
// that ends by itself appends a line to FOLDER/runs. A trial of an even index leaves a folder too large to go with its
// report.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "agent/session/session.h"

struct fake_host {
	char *folder;
	// Knobs.
	atomic_int open_failures; // so many opens fail first
	atomic_bool broken;       // probes fail
	atomic_bool hold_runs;    // runs wait, until cancelled or let go
	atomic_bool kill_fails, tidy_fails;
	atomic_int proof_ms; // how long a kill takes to be proven
	int64_t run_ms_max;  // each run takes a random time up to this
	uint32_t slots;
	const char *daemon_id;
	// What happened.
	atomic_uint opens, tidies, kills, runs, running, cancelled;
};

void fake_host_open(struct fake_host *host, const char *folder);
void fake_host_close(struct fake_host *host);
struct berth_session_host fake_host_functions(struct fake_host *host);
size_t fake_host_resources(const struct fake_host *host);
void fake_host_leave(struct fake_host *host, const char *lease_id); // a resource that nobody knows
size_t fake_host_runs(const struct fake_host *host);                // lines in FOLDER/runs
