// SPDX-License-Identifier: Apache-2.0
// The job's folder, and which trials it lacks.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/results_internal.h"

#define STATE(name)     BERTH__V1__TRIAL_STATE__TRIAL_##name
#define RESULT_SIZE_MAX (256 * 1024 * 1024) // of a result.json that is read back

struct berth_results {
	struct results_job job;
	struct berth_results_blobs blobs;
	struct results_stats *stats;
	struct berth_results_counts counts;
	berth_json *locks; // one a trial
	struct berth_buf log;
	berth_json *document;
	int lock_fd;
};

static bool name_is_fit(const char *what, const char *name, struct berth_error *err)
{
	if (berth_path_is_safe(name) && !strchr(name, '/') && name[0] != '.') {
		return true;
	}
	return berth_fail(err, BERTH_ERROR_INVALID, "%s: this name of a %s cannot be a folder's", name, what);
}

static berth_json *read_json(const char *folder, const char *name)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_file_read(path, RESULT_SIZE_MAX, &text, NULL)) {
		return NULL;
	}
	return berth_json_parse(text.data, text.size, path, NULL);
}

static bool take_lock(struct berth_results *results, struct berth_error *err)
{
	results->lock_fd = open(results->job.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (results->lock_fd < 0) {
		return berth_fail_errno(err, "cannot open %s", results->job.folder);
	}
	if (flock(results->lock_fd, LOCK_EX | LOCK_NB) != 0) {
		return berth_fail(err, BERTH_ERROR_CONFLICT,
			"%s: another berth is writing results there; wait for its end", results->job.folder);
	}
	return true;
}

// Nobody else's results are there.
static bool check_owner(const struct berth_results *results, struct berth_error *err)
{
	const struct results_job *job = &results->job;
	BERTH_AUTO(berth_json_cleanup) berth_json *result = read_json(job->folder, "result.json");
	const char *id = berth_json_get_string(result, "id");
	if (id && strcmp(id, job->uuid) == 0) {
		return true;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *config = read_json(job->folder, "config.json");
	BERTH_AUTO_FREE char *result_path = berth_path_join(job->folder, "result.json");
	BERTH_AUTO_FREE char *config_path = berth_path_join(job->folder, "config.json");
	bool empty = !berth_file_exists(result_path) && !berth_file_exists(config_path);
	if (empty || (!berth_file_exists(result_path) && config && berth_json_equal(config, job->config))) {
		return true;
	}
	return berth_fail(err, BERTH_ERROR_CONFLICT,
		"%s holds another job's results%s%s; give -o/--jobs-dir another folder, or move this one away",
		job->folder, id ? ", of job " : "", id ? id : "");
}

static void describe(
	struct results_job *described, const char *jobs_dir, const Berth__V1__Job *job, const Berth__V1__JobSpec *spec)
{
	described->job = job;
	described->spec = spec;
	described->config = berth_json_parse(spec->config_json, strlen(spec->config_json), "config_json", NULL);
	if (!berth_json_is(described->config, BERTH_JSON_OBJECT)) {
		berth_json_free(described->config);
		described->config = berth_json_object();
	}
	described->jobs_dir = berth_strdup(jobs_dir);
	described->trials_dir = berth_path_join(jobs_dir, job->name);
	described->uuid = results_uuid(job->job_id);
}

struct berth_results *berth_results_open(const char *jobs_dir, const Berth__V1__Job *job,
	const Berth__V1__JobSpec *spec, struct berth_results_blobs blobs, struct berth_error *err)
{
	if (!name_is_fit("job", job->name, err)) {
		return NULL;
	}
	struct berth_results *results = berth_alloc(sizeof *results);
	results->lock_fd = -1;
	results->blobs = blobs;
	describe(&results->job, jobs_dir, job, spec);
	results->stats = results_stats_new(&results->job);
	results->locks = berth_json_array();
	bool ok = berth_mkdir_all(results->job.trials_dir, 0755, err);
	if (ok) {
		results->job.folder = realpath(results->job.trials_dir, NULL);
		ok = results->job.folder || berth_fail_errno(err, "cannot find %s", results->job.trials_dir);
	}
	ok = ok && take_lock(results, err) && check_owner(results, err) &&
	     results_folder_clean(results->job.folder, err) &&
	     results_file_write(results->job.folder, "config.json", results->job.config, err);
	if (!ok) {
		berth_results_free(results);
		return NULL;
	}
	return results;
}

void berth_results_free(struct berth_results *results)
{
	if (!results) {
		return;
	}
	berth_close_cleanup(&results->lock_fd);
	berth_json_free(results->job.config);
	berth_free_cleanup(&results->job.jobs_dir);
	berth_free_cleanup(&results->job.trials_dir);
	berth_free_cleanup(&results->job.folder);
	berth_free_cleanup(&results->job.uuid);
	results_stats_free(results->stats);
	berth_json_free(results->locks);
	berth_buf_free(&results->log);
	berth_json_free(results->document);
	berth_free_cleanup(&results);
}

const char *berth_results_folder(const struct berth_results *results)
{
	return results->job.folder;
}

const struct berth_results_counts *berth_results_counts(const struct berth_results *results)
{
	return &results->counts;
}

const berth_json *berth_results_document(const struct berth_results *results)
{
	return results->document;
}

static bool is_there(const struct berth_results *results, const Berth__V1__Trial *trial, const berth_json *result)
{
	BERTH_AUTO_FREE char *folder = berth_path_join(results->job.folder, trial->trial_name);
	BERTH_AUTO(berth_json_cleanup) berth_json *written = read_json(folder, "result.json");
	const char *id = berth_json_get_string(written, "id");
	return id && strcmp(id, berth_json_get_string(result, "id")) == 0;
}

static bool write_trial(
	struct berth_results *results, const Berth__V1__Trial *trial, const berth_json *lock, struct berth_error *err)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *result = results_trial(&results->job, trial);
	if (is_there(results, trial, result)) {
		return true;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *config = results_trial_config_short(&results->job, trial);
	Berth__V1__TrialException *exception = results_exception(&results->job, trial);
	const struct results_trial_files files = {config, lock, result, exception};
	bool ok = results_folder_write(results->job.folder, trial->trial_name,
		trial->result ? trial->result->folder : NULL, results->blobs, &files, err);
	berth_proto_free(exception);
	results->counts.written += ok;
	return ok;
}

static void log_trial(struct berth_results *results, const Berth__V1__Trial *trial)
{
	const Berth__V1__TrialResult *result = trial->result;
	const char *rewards = result && trial->state == STATE(SCORED) ? result->rewards_json : "";
	char time[BERTH_TIME_TEXT_SIZE] = "-";
	if (result && result->trial && result->trial->finished_at_ns) {
		berth_time_harbor(result->trial->finished_at_ns, time);
	}
	Berth__V1__TrialException *exception = results_exception(&results->job, trial);
	berth_buf_printf(&results->log, "%s %s on %s: %s%s%s\n", time, trial->trial_name,
		*trial->agent_host ? trial->agent_host : "no host", *rewards ? rewards : "no reward",
		exception ? ", " : "", exception ? exception->type : "");
	for (size_t i = 0; i < trial->n_notes; i++) {
		berth_buf_printf(&results->log, "- %s was run again: %s\n", trial->trial_name, trial->notes[i]);
	}
	berth_proto_free(exception);
}

bool berth_results_add(struct berth_results *results, const Berth__V1__Trial *trial, struct berth_error *err)
{
	berth_json *lock = results_trial_lock(&results->job, trial);
	berth_json_append(results->locks, lock);
	results_stats_add(results->stats, trial);
	uint32_t written = results->counts.written;
	results->counts = *results_stats_counts(results->stats);
	results->counts.written = written;
	if (!results_has_folder(trial)) {
		return true;
	}
	log_trial(results, trial);
	return name_is_fit("trial", trial->trial_name, err) && write_trial(results, trial, lock, err);
}

static berth_json *job_document(const struct berth_results *results)
{
	const Berth__V1__Job *job = results->job.job;
	berth_json *document = berth_json_object();
	berth_json_set(document, "id", berth_json_string(results->job.uuid));
	berth_json_set(document, "started_at", results_time_local(job->submitted_at_ns));
	berth_json_set(
		document, "updated_at", results_time_local(job->ended_at_ns ? job->ended_at_ns : berth_wall_ns()));
	berth_json_set(document, "finished_at", results_time_local(job->ended_at_ns));
	berth_json_set(document, "n_total_trials", berth_json_integer(results->counts.total));
	berth_json_set(document, "stats", results_stats_json(results->stats));
	berth_json_set(document, "fleet", results_stats_fleet(results->stats));
	return document;
}

bool berth_results_finish(struct berth_results *results, struct berth_error *err)
{
	const char *folder = results->job.folder;
	BERTH_AUTO(berth_json_cleanup) berth_json *lock = results_job_lock(&results->job, BERTH_STEAL(results->locks));
	results->locks = berth_json_array();
	berth_json_free(results->document);
	results->document = job_document(results);
	BERTH_AUTO_FREE char *log = berth_path_join(folder, "job.log");
	return results_file_write(folder, "lock.json", lock, err) &&
	       berth_file_write(log, results->log.data, results->log.size, 0644, err) &&
	       results_file_write(folder, "result.json", results->document, err);
}
