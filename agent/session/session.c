// SPDX-License-Identifier: Apache-2.0
// Start and end of a session: what is opened and settled in which order, and how all threads come to their end.
#include "agent/session/session.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/session/backoff.h"
#include "agent/session/session_internal.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/codec/proto.h"

#define OPEN_BOUND_MS   (60 * 1000)
#define SETTLE_BOUND_MS (10 * 60 * 1000)
#define LAST_WAIT_MS    3000 // for trials after the drain: an upload that is told to stop does so at once
#define WAIT_SLICE_MS   20

// --- opening ---
static void committed(void *context, const Berth__V1__Report *report)
{
	struct session *session = context;
	session_post(
		&session->queue, (struct session_event){.kind = SESSION_REPORTED, .report = berth_proto_clone(report)});
}

static bool make_folder(const char *state, const char *name, char **path, struct berth_error *err)
{
	*path = berth_path_join(state, name);
	return berth_mkdir_all(*path, 0700, err);
}

static void set_defaults(struct berth_session_options *options)
{
	if (!options->disk_free_min_bytes) {
		options->disk_free_min_bytes = BERTH_SESSION_DISK_FREE_MIN_BYTES;
	}
	if (!options->bundles_bytes_max) {
		options->bundles_bytes_max = BERTH_SESSION_BUNDLES_BYTES_MAX;
	}
	if (!options->probe_ms) {
		options->probe_ms = BERTH_SESSION_PROBE_MS;
	}
	if (!options->sweep_ms) {
		options->sweep_ms = BERTH_SESSION_SWEEP_MS;
	}
}

static bool open_state(struct session *session, struct berth_error *err)
{
	const char *state = session->options.state;
	BERTH_AUTO_FREE char *store = NULL, *bundles = NULL;
	if (!make_folder(state, "store", &store, err) || !make_folder(state, "bundles", &bundles, err) ||
		!make_folder(state, "spool", &session->spool, err) ||
		!make_folder(state, "trials", &session->work, err)) {
		return false;
	}
	struct agent_store_options options = {.folder = store,
		.cut_tail = session->options.cut_tail,
		.signing_key = session->options.signing_key,
		.committed = committed,
		.context = session};
	session->store = agent_store_open(&options, err);
	if (!session->store) {
		return false;
	}
	// No trial of an earlier life goes on, so neither does its folder.
	if (!berth_remove_all(session->work, err) || !berth_mkdir_all(session->work, 0700, err)) {
		return false;
	}
	session->bundles = bundles_open(bundles, session->options.bundles_bytes_max, session->options.blobs, err);
	return session->bundles != NULL;
}

static bool open_runner(struct session *session, struct berth_error *err)
{
	struct berth_until until = berth_within_ms(OPEN_BOUND_MS, session->stop);
	if (!session->runner) {
		session->runner =
			session->options.host.open(session->options.host.context, &session->facts, until, err);
	}
	return session->runner && session_settle(session, berth_within_ms(SETTLE_BOUND_MS, session->stop), err);
}

// Hello is only said after everything of older lives is dead, however long that takes.
static bool settle_the_past(struct session *session)
{
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = session->stop};
	struct berth_error err = {0};
	for (unsigned attempt = 0; !open_runner(session, &err); attempt++) {
		if (berth_until_over(until)) {
			return false;
		}
		berth_log_error("not ready: what an earlier life left must be settled first; trying again", "error=%s",
			berth_log_quote(err.message));
		if (!berth_sleep_ms(backoff_ms(attempt), until, NULL)) {
			return false;
		}
	}
	return true;
}

// --- what an earlier life finished ---
static void load_report(void *context, const void *report)
{
	struct session *session = context;
	// Those of this life (the settling's) come by the queue.
	if (strcmp(((const Berth__V1__Report *)report)->boot_id, agent_store_boot_id(session->store)) != 0) {
		berth_agent_core_load_report(session->core, report);
	}
}

static void resume(void *context, const void *message)
{
	struct session *session = context;
	const Berth__Store__V1__FinishedTrial *finished = message;
	struct session_trial *trial = session_trial_new(session, finished->done->trial);
	trial->finished = berth_proto_clone(finished);
	DL_APPEND(session->running, trial);
	session->trials_count++;
	berth_agent_core_resume(session->core, trial->key);
}

static bool is_wanted(struct session *session, const char *file)
{
	struct session_trial *trial;
	DL_FOREACH (session->running, trial) {
		if (strcmp(trial->finished->file, file) == 0) {
			return true;
		}
	}
	return false;
}

static void clear_spool(struct session *session)
{
	DIR *dir = opendir(session->spool);
	struct dirent *entry;
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.' && !is_wanted(session, entry->d_name)) {
			BERTH_AUTO_FREE char *path = berth_path_join(session->spool, entry->d_name);
			berth_remove_all(path, NULL);
		}
	}
	if (dir) {
		closedir(dir);
	}
}

static bool open_core(struct session *session, struct berth_error *err)
{
	const struct berth_session_options *options = &session->options;
	struct berth_agent_core_config config = {
		.fleet = options->fleet,
		.boot_id = agent_store_boot_id(session->store),
		.daemon_id = session->facts.daemon_id,
		.platform = session->facts.platform,
		.version = options->version,
		.capacity = BERTH__V1__CAPACITY__INIT,
		.capabilities = options->capabilities,
		.capabilities_count = options->capabilities_count,
		.ledger_key_der = options->ledger_key_der,
		.ledger_key_size = options->ledger_key_size,
	};
	config.capacity.cpus = session->facts.cpus;
	config.capacity.memory_mb = session->facts.memory_mb;
	config.capacity.disk_mb = session->facts.disk_mb;
	config.capacity.slots = session->facts.slots;
	BERTH_AUTO(berth_proto_cleanup) Berth__Store__V1__Obeyed *obeyed = agent_store_obeyed(session->store);
	session->core = berth_agent_core_new(&config, obeyed);
	if (!agent_store_each_report(session->store, load_report, session, err) ||
		!agent_store_each_finished(session->store, resume, session, err)) {
		return false;
	}
	clear_spool(session);
	return true;
}

// --- working and ending ---
void session_start_thread(pthread_t *thread, const char *name, void *(*run)(void *context), void *context)
{
	struct berth_error err;
	if (!berth_thread_start(thread, name, run, context, &err)) {
		// Threads that run can't be taken back half-way: the process is at its limit and ends.
		berth_log_error("the agent ends: raise its limit of threads", "error=%s", berth_log_quote(err.message));
		_exit(EXIT_FAILURE);
	}
}

static void start_threads(struct session *session)
{
	session_holds_begin(session);
	session_start_thread(&session->driver, "driver", session_driver, session);
	// The first heartbeat tells the truth about this host already.
	session_check_host(session);
	session_start_thread(&session->streamer, "stream", session_streamer, session);
	session_start_thread(&session->health, "health", session_health, session);
	session_start_thread(&session->sweeper, "sweeper", session_sweeper, session);
}

static bool is_drained(struct session *session, bool trials_only)
{
	pthread_mutex_lock(&session->lock);
	bool drained = session->drained || (trials_only && session->trials_count == 0);
	pthread_mutex_unlock(&session->lock);
	return drained;
}

static void await_drain(struct session *session, bool trials_only, int64_t ms)
{
	struct berth_until until = berth_within_ms(ms, NULL);
	while (!is_drained(session, trials_only) && berth_sleep_ms(WAIT_SLICE_MS, until, NULL)) {
	}
}

static void stop_threads(struct session *session)
{
	berth_cancel_fire(session->close);
	pthread_join(session->streamer, NULL);
	pthread_join(session->health, NULL);
	pthread_join(session->sweeper, NULL);
	session_post(&session->queue, (struct session_event){.kind = SESSION_CLOSING});
	pthread_join(session->driver, NULL);
	session_holds_end(session);
}

static void work(struct session *session)
{
	struct session_trial *trial;
	DL_FOREACH (session->running, trial) {
		session_trial_start(trial);
	}
	start_threads(session);
	if (!session->options.ledger_key_size) {
		berth_log_warn(
			"ledger.pem is missing, so the ledger's signatures are not checked: enroll this host again",
			"agent=%s", session->options.agent);
	}
	berth_log_info("agent is ready", "agent=%s boot=%s slots=%u", session->options.agent,
		agent_store_boot_id(session->store), session->facts.slots);
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = session->stop};
	while (!berth_until_over(until)) {
		berth_sleep_ms(INT32_MAX, until, NULL);
	}
	berth_log_info("agent is ending", "drain_ms=%lld", (long long)session->options.drain_ms);
	session_post(&session->queue, (struct session_event){.kind = SESSION_STOPPING});
	berth_cancel_fire(session->trials);
	await_drain(session, false, session->options.drain_ms);
	berth_cancel_fire(session->drain);
	await_drain(session, true, LAST_WAIT_MS);
	stop_threads(session);
}

static void free_session(struct session *session)
{
	struct session_trial *trial, *after;
	DL_FOREACH_SAFE (session->running, trial, after) {
		session_trial_free(trial);
	}
	agent_store_close(session->store);
	bundles_close(session->bundles);
	if (session->runner) {
		session->runner->free(session->runner);
	}
	berth_agent_core_free(session->core);
	session_queue_free(&session->queue);
	berth_cancel_free(session->trials);
	berth_cancel_free(session->drain);
	berth_cancel_free(session->close);
	pthread_cond_destroy(&session->changed);
	pthread_mutex_destroy(&session->lock);
	free(session->facts.daemon_id);
	free(session->facts.platform);
	free(session->trouble);
	free(session->spool);
	free(session->work);
	free(session);
}

bool berth_session_run(const struct berth_session_options *options, struct berth_cancel *stop, struct berth_error *err)
{
	struct session *session = berth_alloc(sizeof *session);
	session->options = *options;
	set_defaults(&session->options);
	session->stop = stop;
	session->trials = berth_cancel_new(NULL);
	session->drain = berth_cancel_new(NULL);
	session->close = berth_cancel_new(NULL);
	pthread_mutex_init(&session->lock, NULL);
	pthread_cond_init(&session->changed, NULL);
	session_queue_init(&session->queue);
	bool done = open_state(session, err);
	if (done && settle_the_past(session)) {
		done = open_core(session, err);
		if (done) {
			work(session);
		}
	}
	if (session->trials_count && berth_cancel_fired(session->drain)) {
		return berth_fail(err, BERTH_ERROR_TIMEOUT,
			"%zu trials did not end within the drain time; the next start settles what they left",
			session->trials_count);
	}
	free_session(session);
	return done;
}
