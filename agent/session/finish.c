// SPDX-License-Identifier: Apache-2.0
// From a result to its report. A small tar of the trial's folder is part of the report, synced with it. A larger one
// and the result are on the disk before its upload begins, and the report follows the upload, so that a crash at any
// point leaves one result that is reported once.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/session/session_internal.h"
#include "agent/session/transfer.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/codec/tar.h"

#define SPOOL_TRIES    5
#define SPOOL_PAUSE_MS 1000

void session_fail_result(Berth__V1__TrialResult *result, const char *type, const char *message)
{
	result->outcome = BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE;
	berth_proto_set_string(&result->rewards_json, "");
	berth_proto_free(result->evidence); // it speaks of another outcome
	result->evidence = NULL;
	berth_proto_free(result->folder);
	result->folder = NULL;
	berth_proto_free(result->exception);
	result->exception = berth_alloc(sizeof *result->exception);
	berth__v1__trial_exception__init(result->exception);
	berth_proto_set_string(&result->exception->type, type);
	berth_proto_set_string(&result->exception->message, message);
	result->exception->occurred_at_ns = berth_wall_ns();
}

// --- the report ---
// What keeps a host from running trials is to be seen on that host too.
static void log_failure(const struct session_trial *trial, const Berth__V1__TrialResult *result)
{
	const Berth__V1__TrialException *exception = result->exception;
	if (exception && result->outcome == BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE) {
		BERTH_AUTO_FREE char *text = berth_format("%s: %s", exception->type, exception->message);
		berth_log_warn("a trial ends by the fault of this host", "job=%s index=%u generation=%u error=%s",
			trial->key->job_id, trial->key->index, trial->key->generation, berth_log_quote(text));
	}
}

static void report_with(
	struct session_trial *trial, Berth__V1__TrialResult *result, const struct berth_buf *folder, bool journaled)
{
	log_failure(trial, result);
	Berth__V1__TrialDone done = BERTH__V1__TRIAL_DONE__INIT;
	done.trial = trial->key;
	done.result = result;
	done.folder = (ProtobufCBinaryData){.data = folder->data, .len = folder->size};
	Berth__V1__Report body = BERTH__V1__REPORT__INIT;
	body.body_case = BERTH__V1__REPORT__BODY_DONE;
	body.done = &done;
	struct agent_write *write = agent_write_new();
	agent_write_report(write, &body);
	if (journaled) {
		BERTH_AUTO_FREE char *key = agent_store_finished_key(trial->key);
		agent_write_delete(write, key);
	}
	agent_store_write(trial->session->store, write);
}

static void report(struct session_trial *trial, Berth__V1__TrialResult *result, bool journaled)
{
	report_with(trial, result, &(struct berth_buf){0}, journaled);
}

static void report_cancelled(struct session_trial *trial, Berth__V1__TrialResult *result, bool journaled)
{
	if (result->outcome != BERTH__V1__OUTCOME__OUTCOME_CANCELLED) {
		session_fail_result(result, "CancelledError", "the trial was withdrawn");
		result->outcome = BERTH__V1__OUTCOME__OUTCOME_CANCELLED;
	}
	report(trial, result, journaled);
}

// --- the spool ---
static bool is_small(const Berth__V1__BlobRef *blob)
{
	return blob->size <= BERTH_REPORT_FOLDER_MAX;
}

struct spooling {
	int fd;
	struct berth_hasher *hasher;
	int64_t size;
};

static bool spool_put(void *context, const void *data, size_t size, struct berth_error *err)
{
	struct spooling *spooling = context;
	berth_hasher_add(spooling->hasher, data, size);
	spooling->size += (int64_t)size;
	return berth_write_all(spooling->fd, data, size, err);
}

static bool write_tar(const char *folder, const char *path, Berth__V1__BlobRef *blob, struct berth_error *err)
{
	BERTH_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0) {
		return berth_fail_errno(err, "cannot write %s", path);
	}
	struct spooling spooling = {.fd = fd, .hasher = berth_hasher_new()};
	struct berth_tar_options options = {0};
	struct berth_sink sink = {.put = spool_put, .context = &spooling};
	bool written = berth_tar_write_folder(folder, &options, sink, err);
	struct berth_digest digest = berth_hasher_finish(spooling.hasher);
	berth_proto_set_bytes(&blob->sha256, digest.bytes, sizeof digest.bytes);
	blob->size = spooling.size;
	return written && (is_small(blob) || fsync(fd) == 0 || berth_fail_errno(err, "cannot sync %s", path));
}

static char *spool_path(struct session_trial *trial)
{
	BERTH_AUTO_FREE char *file = berth_format("%s.tar", trial->name);
	return berth_path_join(trial->session->spool, file);
}

// Leaves a small tar's bytes in `small`, and a larger one on the disk.
static bool spool(struct session_trial *trial, const char *folder, Berth__V1__BlobRef *blob, struct berth_buf *small,
	struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = spool_path(trial);
	BERTH_AUTO_FREE char *fresh = berth_format("%s.new", path);
	bool written = write_tar(folder, fresh, blob, err);
	if (written && is_small(blob)) {
		berth_buf_reset(small);
		written = berth_file_read(fresh, BERTH_REPORT_FOLDER_MAX, small, err);
	}
	if (!written || is_small(blob)) {
		unlink(fresh);
		return written || berth_error_wrap(err, "the trial's folder");
	}
	if (rename(fresh, path) < 0) {
		return berth_fail_errno(err, "cannot keep %s", path);
	}
	return berth_sync_dir(trial->session->spool, err);
}

static bool spool_with_patience(struct session_trial *trial, const char *folder, Berth__V1__BlobRef *blob,
	struct berth_buf *small, struct berth_error *err)
{
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = trial->upload_cancel};
	for (int attempt = 1; !spool(trial, folder, blob, small, err); attempt++) {
		if (attempt == SPOOL_TRIES || !berth_sleep_ms(SPOOL_PAUSE_MS, until, NULL)) {
			return false;
		}
	}
	return true;
}

static void journal(struct session_trial *trial, Berth__V1__TrialResult *result)
{
	Berth__V1__TrialDone done = BERTH__V1__TRIAL_DONE__INIT;
	done.trial = trial->key;
	done.result = result;
	BERTH_AUTO_FREE char *file = berth_format("%s.tar", trial->name);
	Berth__Store__V1__FinishedTrial finished = BERTH__STORE__V1__FINISHED_TRIAL__INIT;
	finished.done = &done;
	finished.file = file;
	BERTH_AUTO_FREE char *key = agent_store_finished_key(trial->key);
	struct agent_write *write = agent_write_new();
	agent_write_put(write, key, &finished);
	agent_store_write(trial->session->store, write);
}

// --- the upload ---
static void deliver(struct session_trial *trial, Berth__V1__TrialResult *result)
{
	struct session *session = trial->session;
	BERTH_AUTO_FREE char *path = spool_path(trial);
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = trial->upload_cancel};
	struct berth_error err;
	bool put = transfer_put(session->options.blobs, result->folder, path, until, &err);
	if (atomic_load(&trial->unwanted)) {
		report_cancelled(trial, result, true);
	} else if (put) {
		report(trial, result, true);
	} else if (err.code == BERTH_ERROR_CANCELLED) {
		berth_log_info("a result waits for the next start of the agent", "job=%s index=%u", trial->key->job_id,
			trial->key->index);
		return;
	} else {
		berth_log_error("a result's folder was refused", "job=%s index=%u error=%s", trial->key->job_id,
			trial->key->index, berth_log_quote(err.message));
		session_fail_result(result, "UploadError", err.message);
		report(trial, result, true);
	}
	unlink(path);
}

void session_finish(struct session_trial *trial, Berth__V1__TrialResult *result, const char *work_folder)
{
	if (atomic_load(&trial->unwanted)) {
		report_cancelled(trial, result, false);
		return;
	}
	if (result->outcome == BERTH__V1__OUTCOME__OUTCOME_CANCELLED) {
		// Nobody withdrew it: this host could not go on, so the fleet runs it again.
		bool ending = berth_cancel_fired(trial->session->trials);
		session_fail_result(result, ending ? "AgentShutdown" : "HoldExpired",
			ending ? "the agent was shut down" : "the coordinator did not answer within the hold");
		report(trial, result, false);
		return;
	}
	struct berth_error err;
	BERTH_AUTO(berth_buf_free) struct berth_buf small = {0};
	result->folder = berth_alloc(sizeof *result->folder);
	berth__v1__blob_ref__init(result->folder);
	if (!spool_with_patience(trial, work_folder, result->folder, &small, &err)) {
		session_fail_result(result, "SpoolError", err.message);
		report(trial, result, false);
	} else if (is_small(result->folder)) {
		report_with(trial, result, &small, false);
		berth_remove_all(work_folder, NULL);
	} else {
		journal(trial, result);
		berth_remove_all(work_folder, NULL);
		deliver(trial, result);
	}
}

void session_finish_earlier(struct session_trial *trial)
{
	deliver(trial, trial->finished->done->result);
}
