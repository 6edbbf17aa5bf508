// SPDX-License-Identifier: Apache-2.0
// Result folders as Harbor 0.22 lays them out: jobs/<job>/<trial>/..., from what the coordinator holds.
//
// Open, add every trial in the order of its index, finish. A trial's folder appears whole or not at all, and what is
// there already is left alone: writing a job twice adds what the first time lacked. One thread; blocks on the disk.
//
// Cells that ended without rewards are missing from metrics and pass@k, never counted as 0; the key "fleet" of the
// job's result.json says how many there are, and what Harbor's own arithmetic would give.
#pragma once

#include "berth/v1/job.pb-c.h"
#include "common/base/error.h"
#include "common/codec/json.h"
#include "common/codec/tar.h"

#define BERTH_RESULTS_FOLDER_SIZE_MAX  (INT64_C(64) * 1024 * 1024 * 1024) // bytes of one trial's folder
#define BERTH_RESULTS_FOLDER_FILES_MAX 1000000

struct berth_results;

// Puts the blob's bytes into `sink`, in order. The writer checks size and digest.
struct berth_results_blobs {
	bool (*fetch)(void *context, const Berth__V1__BlobRef *blob, struct berth_sink sink, struct berth_error *err);
	void *context;
};

struct berth_results_counts {
	uint32_t total, scored, unscored, quarantined, cancelled, blocked, queued, running;
	uint32_t written; // folders that this writer made
};

// Job and spec are borrowed until the free. Makes <jobs_dir>/<job name> with config.json. CONFLICT when that folder
// holds another job's results or another writer is at work there. NULL with err set on failure.
struct berth_results *berth_results_open(const char *jobs_dir, const Berth__V1__Job *job,
	const Berth__V1__JobSpec *spec, struct berth_results_blobs blobs, struct berth_error *err);
// Counts the trial, and writes its folder when it has ended and is not there yet. CORRUPT when the blob's bytes are not
// the ones that its result names.
bool berth_results_add(struct berth_results *results, const Berth__V1__Trial *trial, struct berth_error *err);
// Writes lock.json, job.log and result.json of the job.
bool berth_results_finish(struct berth_results *results, struct berth_error *err);
void berth_results_free(struct berth_results *results); // NULL is allowed

const char *berth_results_folder(const struct berth_results *results);
const struct berth_results_counts *berth_results_counts(const struct berth_results *results);
// The job's result.json after the finish; belongs to `results`.
const berth_json *berth_results_document(const struct berth_results *results);

// True for a state that a trial never leaves.
bool berth_trial_has_ended(Berth__V1__TrialState state);
