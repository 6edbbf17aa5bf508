// SPDX-License-Identifier: Apache-2.0
// One trial from assignment to result: Harbor's lifecycle (harbor 0.22) as straight-line code in one thread.
#pragma once

#include "agent/core/lease.h"
#include "berth/v1/evidence.pb-c.h"
#include "berth/v1/fleet.pb-c.h"

struct berth_trial_host {
	struct berth_lease_driver leases;
	const char *fleet, *agent;
	// Told at each phase; must not block.
	void (*phase)(void *context, const char *phase);
	void *context;
};

struct berth_trial_input {
	const Berth__V1__Assignment *assignment;
	const char *task_folder; // the unpacked bundle, read-only
	const char *work_folder; // empty; becomes the trial's folder: agent/ verifier/ artifacts/ steps/ trial.log ...
};

// Always gives a result, with its evidence (whose statement is signed when its report reaches the disk), and leaves
// every lease of the assignment retired or cleanup_failed. A cancel (or a lost hold) ends it with CANCELLED. Secrets
// are redacted in the work folder before it returns.
void berth_trial_run(const struct berth_trial_host *host, const struct berth_trial_input *input,
	struct berth_cancel *cancel, Berth__V1__TrialResult *result);
// Frees what berth_trial_run put into the result, which the caller initialised.
void berth_trial_result_free(Berth__V1__TrialResult *result);
