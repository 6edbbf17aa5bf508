// SPDX-License-Identifier: Apache-2.0
// The text of a trial's statement: what an agent signs of a result, and a coordinator expects to have been signed. One
// line of canonical JSON with the members agent, attestations (digests), exception (its type), fleet, outcome, receipts
// (lease_id, proof, state), rewards, task_checksum, trial (generation, index, job_id) and version. Pure.
#pragma once

#include "berth/v1/evidence.pb-c.h"
#include "berth/v1/job.pb-c.h"
#include "common/base/buf.h"
#include "common/base/error.h"

#define BERTH_STATEMENT_VERSION 1

struct berth_trial_statement {
	const char *fleet, *agent;
	const char *task_checksum; // NULL: none
	const Berth__V1__TrialKey *trial;
	const Berth__V1__TrialResult *result; // its evidence is used (NULL: none), of which each receipt has its lease
};

// Appends it. INVALID when the rewards are no JSON, or the outcome or a receipt is of a kind without a name.
bool berth_trial_statement_write(
	const struct berth_trial_statement *statement, struct berth_buf *text, struct berth_error *err);

// Whether `text` is this statement to the byte, whatever task_checksum it gives. One that is not may still say the
// same, in another order or with more members.
bool berth_trial_statement_is(const struct berth_trial_statement *statement, const char *text);
