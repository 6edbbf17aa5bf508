// SPDX-License-Identifier: Apache-2.0
// One trial's thread: hold its leases, fetch its bundle, run it, and see its result into the outbox.
#include <stdlib.h>
#include <string.h>

#include "agent/session/session_internal.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define NAME_DIGEST_DIGITS 32

// A folder's name for any key that a coordinator may send.
static char *name_of(const Berth__V1__TrialKey *key)
{
	BERTH_AUTO_FREE char *text = berth_format("%s/%u/%u", key->job_id, key->index, key->generation);
	struct berth_digest digest = berth_sha256(text, strlen(text));
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&digest, hex);
	return berth_format("%.*s-%u-%u", NAME_DIGEST_DIGITS, hex, key->index, key->generation);
}

struct session_trial *session_trial_new(struct session *session, const Berth__V1__TrialKey *key)
{
	struct session_trial *trial = berth_alloc(sizeof *trial);
	trial->session = session;
	trial->key = berth_proto_clone(key);
	trial->name = name_of(key);
	trial->expires_ns = INT64_MAX;
	trial->cancel = berth_cancel_new(session->trials);
	trial->upload_cancel = berth_cancel_new(session->drain);
	return trial;
}

void session_trial_free(struct session_trial *trial)
{
	berth_cancel_free(trial->cancel);
	berth_cancel_free(trial->upload_cancel);
	berth_proto_free(trial->key);
	berth_proto_free(trial->assignment);
	berth_proto_free(trial->finished);
	free(trial->name);
	free(trial);
}

void session_trial_stop(struct session_trial *trial, bool unwanted)
{
	if (unwanted) {
		atomic_store(&trial->unwanted, true);
		berth_cancel_fire(trial->upload_cancel);
	}
	berth_cancel_fire(trial->cancel);
}

static void tell_phase(void *context, const char *phase)
{
	struct session_trial *trial = context;
	session_post(&trial->session->queue,
		(struct session_event){.kind = SESSION_PROGRESS, .trial = trial, .text = berth_strdup(phase)});
}

static const Berth__V1__BlobRef *bundle_of(const struct session_trial *trial)
{
	const Berth__V1__JobSpec *spec = trial->assignment->spec;
	return spec && spec->n_tasks ? spec->tasks[0]->bundle : NULL;
}

static void run_in(
	struct session_trial *trial, const char *task_folder, const char *work_folder, Berth__V1__TrialResult *result)
{
	struct session *session = trial->session;
	struct berth_trial_host host = {
		.leases = {.runner = session->runner, .book = agent_store_book(session->store)},
		.fleet = session->options.fleet,
		.agent = session->options.agent,
		.phase = tell_phase,
		.context = trial,
	};
	struct berth_trial_input input = {
		.assignment = trial->assignment, .task_folder = task_folder, .work_folder = work_folder};
	session->options.host.run(&host, &input, trial->cancel, result);
}

// False when the trial could not even begin.
static bool prepare(struct session_trial *trial, const char *work_folder, char **task_folder, struct berth_error *err)
{
	if (!berth_remove_all(work_folder, err) || !berth_mkdir_all(work_folder, 0700, err)) {
		return false;
	}
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = trial->cancel};
	tell_phase(trial, "build");
	*task_folder = bundles_hold(trial->session->bundles, bundle_of(trial), until, err);
	return *task_folder != NULL;
}

// The result belongs to protobuf-c's allocator, whoever made it.
static Berth__V1__TrialResult *run(struct session_trial *trial, const char *work_folder)
{
	Berth__V1__TrialResult result = BERTH__V1__TRIAL_RESULT__INIT;
	BERTH_AUTO_FREE char *task_folder = NULL;
	struct berth_error err;
	if (!prepare(trial, work_folder, &task_folder, &err)) {
		Berth__V1__TrialResult *failed = berth_proto_clone(&result);
		bool cancelled = err.code == BERTH_ERROR_CANCELLED;
		session_fail_result(failed, cancelled ? "CancelledError" : "BundleError", err.message);
		if (cancelled) {
			failed->outcome = BERTH__V1__OUTCOME__OUTCOME_CANCELLED;
		}
		return failed;
	}
	run_in(trial, task_folder, work_folder, &result);
	bundles_release(trial->session->bundles, bundle_of(trial));
	Berth__V1__TrialResult *copy = berth_proto_clone(&result);
	trial->session->options.host.free_result(&result);
	return copy;
}

// Leases that were never dispatched are let go; what else is left open, the sweeper settles.
static void leave_leases(struct session_trial *trial)
{
	struct session *session = trial->session;
	struct berth_lease_driver driver = {.runner = session->runner, .book = agent_store_book(session->store)};
	BERTH_AUTO_FREE Berth__Store__V1__HeldLease **leases = NULL;
	size_t count = agent_store_leases(session->store, false, &leases);
	for (size_t i = 0; i < count; i++) {
		const Berth__V1__TrialKey *key = leases[i]->trial;
		bool ours = key && key->index == trial->key->index && key->generation == trial->key->generation &&
		            strcmp(key->job_id, trial->key->job_id) == 0;
		if (ours && leases[i]->lease->state == BERTH__V1__LEASE_STATE__LEASE_CREATING) {
			berth_lease_drop(&driver, leases[i]->lease->lease_id, NULL);
		}
		berth_proto_free(leases[i]);
	}
	agent_store_release_leases(session->store, trial->key);
}

static void *trial_thread(void *context)
{
	struct session_trial *trial = context;
	struct session *session = trial->session;
	BERTH_AUTO_FREE char *work_folder = berth_path_join(session->work, trial->name);
	if (trial->finished) {
		session_finish_earlier(trial);
	} else {
		agent_store_hold_leases(session->store, trial->assignment);
		BERTH_AUTO(berth_proto_cleanup) Berth__V1__TrialResult *result = run(trial, work_folder);
		leave_leases(trial);
		session_finish(trial, result, work_folder);
	}
	berth_remove_all(work_folder, NULL);
	session_post(&session->queue, (struct session_event){.kind = SESSION_TRIAL_ENDED, .trial = trial});
	return NULL;
}

void session_trial_start(struct session_trial *trial)
{
	session_start_thread(&trial->thread, "trial", trial_thread, trial);
}
