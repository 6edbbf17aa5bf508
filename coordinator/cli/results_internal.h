// SPDX-License-Identifier: Apache-2.0
// The parts of the result writer: each makes JSON values from messages, results_write.c puts them on the disk.
#pragma once

#include "coordinator/cli/results.h"

// What every part needs to know of the job.
struct results_job {
	const Berth__V1__Job *job;
	const Berth__V1__JobSpec *spec;
	berth_json *config; // parsed JobSpec.config_json; an object, empty when it is no JSON
	char *jobs_dir;     // as given
	char *trials_dir;   // <jobs_dir>/<job name>, as given
	char *folder;       // the same, absolute
	char *uuid;         // of the job
};

// results_time.c: NULL-safe JSON values of wall clock times, null for 0.
berth_json *results_time_utc(int64_t wall_ns);
berth_json *results_time_local(int64_t wall_ns); // naive, as Harbor writes job times
// {"started_at", "finished_at"}, null for a phase that was not reached.
berth_json *results_phase(const Berth__V1__Phase *phase);
// 32 hex digits as they are, anything else hashed, as a UUID text; the caller frees.
char *results_uuid(const char *id);

// results_config.c
// The trial's configuration with every key, as result.json holds it.
berth_json *results_trial_config(const struct results_job *job, const Berth__V1__Trial *trial);
// The same with defaults left out, as config.json holds it.
berth_json *results_trial_config_short(const struct results_job *job, const Berth__V1__Trial *trial);

// results_lock.c: lock.json of a trial, and of the job (which takes the list of trial locks).
berth_json *results_trial_lock(const struct results_job *job, const Berth__V1__Trial *trial);
berth_json *results_job_lock(const struct results_job *job, berth_json *trials);

// results_trial.c
// False while it runs, and for a cell that was cancelled before it ever ran: as with Harbor, that leaves nothing.
bool results_has_folder(const Berth__V1__Trial *trial);
berth_json *results_trial(const struct results_job *job, const Berth__V1__Trial *trial);
// The exception of an ended trial: its result's, or what stands for a result that never came. NULL when there is none.
// Free with berth_proto_free.
Berth__V1__TrialException *results_exception(const struct results_job *job, const Berth__V1__Trial *trial);
// The rewards of a scored trial, NULL for every other; the caller frees.
berth_json *results_rewards(const Berth__V1__Trial *trial);
const char *results_agent_name(const struct results_job *job, const Berth__V1__Trial *trial);
const Berth__V1__Task *results_task(const struct results_job *job, const Berth__V1__Trial *trial);

// results_stats.c
struct results_stats;
struct results_stats *results_stats_new(const struct results_job *job);
void results_stats_add(struct results_stats *stats, const Berth__V1__Trial *trial);
const struct berth_results_counts *results_stats_counts(const struct results_stats *stats);
// The "stats" object, and "fleet" of the job's result.json.
berth_json *results_stats_json(const struct results_stats *stats);
berth_json *results_stats_fleet(const struct results_stats *stats);
void results_stats_free(struct results_stats *stats);

// results_metrics.c: pure arithmetic.
// 1 - C(n-c, k) / C(n, k): the chance that k of n attempts, c of which passed, hold a pass.
double results_pass_at_k(uint32_t n, uint32_t c, uint32_t k);
// The next k after `k` (0 at first) of 2, 4, 8, ... and 5, 10, 15, ...
uint32_t results_next_k(uint32_t k);
// One metric over rewards objects: {"mean": x} for at most one key, an aggregate a key for several. `unscored` cells
// count as zeros. NULL when there is nothing to count or the metric is not known.
berth_json *results_metric(const char *type, berth_json *const *rewards, size_t count, size_t unscored);

// results_folder.c
// The blob's bytes as a file without a name in `folder`, at its start; -1 on failure. CORRUPT when they are not the
// ones that the digest names. The caller closes.
int results_fetch(
	const char *folder, const Berth__V1__BlobRef *blob, struct berth_results_blobs blobs, struct berth_error *err);
// Makes the trial's folder below the job's: blob, then config.json, lock.json and result.json, all synced, then moved
// into place in one step.
struct results_trial_files {
	const berth_json *config, *lock, *result;
	const Berth__V1__TrialException *exception; // NULL: none
};
bool results_folder_write(const char *job_folder, const char *name, const Berth__V1__BlobRef *blob,
	struct berth_results_blobs blobs, const struct results_trial_files *files, struct berth_error *err);
// Removes what a writer that was killed left half made.
bool results_folder_clean(const char *job_folder, struct berth_error *err);
// The file's JSON, indented as Harbor does, written in one step.
bool results_file_write(const char *folder, const char *name, const berth_json *value, struct berth_error *err);
