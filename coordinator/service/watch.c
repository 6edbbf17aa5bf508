// SPDX-License-Identifier: Apache-2.0
// WatchJob: each watcher remembers which of its job's trials changed and is sent their newest state at a bounded rate;
// a slow reader gets fewer, larger updates and never a queue.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/audit/recover.h"
#include "coordinator/service/daemon.h"

#define UPDATE_EVERY_MS   1000
#define UPDATE_TRIALS_MAX 1000
#define UNSENT_BYTES_MAX  (1024 * 1024)

struct watcher {
	struct berth_rpc_call *call; // referenced
	char job_id[BERTH_ID_SIZE];
	bool with_trials, changed, gone;
	uint8_t *dirty; // by trial index
	uint32_t cells;
	int64_t sent_ns;
	struct watcher *prev, *next;
};

struct berth_watchers {
	pthread_mutex_t lock; // guards list and gone
	struct watcher *list;
};

struct berth_watchers *berth_watchers_new(void)
{
	struct berth_watchers *watchers = berth_alloc(sizeof *watchers);
	pthread_mutex_init(&watchers->lock, NULL);
	return watchers;
}

static void free_watcher(struct watcher *watcher)
{
	berth_rpc_call_unref(watcher->call);
	free(watcher->dirty);
	free(watcher);
}

void berth_watchers_free(struct berth_watchers *watchers)
{
	struct watcher *watcher, *next;
	DL_FOREACH_SAFE (watchers->list, watcher, next) {
		free_watcher(watcher);
	}
	pthread_mutex_destroy(&watchers->lock);
	free(watchers);
}

struct opening {
	const Berth__V1__WatchJobRequest *request;
	struct watcher *watcher;
	struct berth_watchers *watchers;
	struct berth_error err;
	bool ok;
};

static void ask_open(const struct berth_core *core, void *context)
{
	struct opening *opening = context;
	struct watcher *watcher = opening->watcher;
	opening->ok = berth_core_find_job(core, opening->request->job_id, watcher->job_id, &opening->err);
	if (!opening->ok) {
		return;
	}
	watcher->cells = berth_core_job_cells(core, watcher->job_id);
	watcher->dirty = berth_alloc(watcher->cells);
	memset(watcher->dirty, watcher->with_trials, watcher->cells);
	watcher->changed = true;
	pthread_mutex_lock(&opening->watchers->lock);
	DL_APPEND(opening->watchers->list, watcher);
	pthread_mutex_unlock(&opening->watchers->lock);
	berth_rpc_call_set_data(watcher->call, watcher);
}

void berth_watch_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct watcher *watcher = berth_alloc(sizeof *watcher);
	struct opening opening = {.request = (const Berth__V1__WatchJobRequest *)message,
		.watcher = watcher,
		.watchers = daemon->watchers};
	watcher->call = berth_rpc_call_ref(call);
	watcher->with_trials = opening.request->with_trials;
	bool ok = berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_open, &opening, &opening.err) &&
	          opening.ok;
	if (!ok) {
		berth_rpc_finish(call, &opening.err);
		free_watcher(watcher);
	}
}

void berth_watch_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	struct berth_daemon *daemon = context;
	pthread_mutex_lock(&daemon->watchers->lock);
	struct watcher *watcher = berth_rpc_call_data(call);
	if (watcher) {
		watcher->gone = true;
	}
	pthread_mutex_unlock(&daemon->watchers->lock);
}

void berth_watch_effect(struct berth_watchers *watchers, const struct berth_effect *effect)
{
	pthread_mutex_lock(&watchers->lock);
	struct watcher *watcher;
	DL_FOREACH (watchers->list, watcher) {
		if (strcmp(watcher->job_id, effect->job_id) != 0) {
			continue;
		}
		watcher->changed = true;
		if (effect->kind == BERTH_EFFECT_TRIAL_CHANGED && watcher->with_trials &&
			effect->index < watcher->cells) {
			watcher->dirty[effect->index] = 1;
		}
	}
	pthread_mutex_unlock(&watchers->lock);
}

// The end of the job does not wait for its turn.
static bool is_due(const struct watcher *watcher, const struct berth_core *core, int64_t now_ns)
{
	return watcher->changed &&
	       (now_ns - watcher->sent_ns >= UPDATE_EVERY_MS * BERTH_NS_PER_MS ||
		       berth_core_job_is_over(core, watcher->job_id)) &&
	       berth_rpc_send_queue_size(watcher->call) < UNSENT_BYTES_MAX;
}

static void add_trials(struct berth_daemon *daemon, const struct berth_core *core, struct watcher *watcher,
	Berth__V1__JobUpdate *update)
{
	struct berth_error err;
	watcher->changed = false;
	// An ended job's spec, and with it the names of its trials, is no longer in memory.
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__JobSpec *spec =
		update->job->ended_at_ns && watcher->with_trials
			? berth_recover_spec(daemon->ledger, berth_core_job_sequence(core, watcher->job_id), &err)
			: NULL;
	for (uint32_t i = 0; i < watcher->cells; i++) {
		if (!watcher->dirty[i]) {
			continue;
		}
		if (update->n_trials == UPDATE_TRIALS_MAX) {
			watcher->changed = true; // the rest comes with the next update
			return;
		}
		watcher->dirty[i] = 0;
		uint64_t sequence;
		Berth__V1__Trial *trial = berth_core_trial(core, watcher->job_id, i, spec, &sequence);
		if (!trial) { // it has left memory
			trial = berth_read_trial(daemon, watcher->job_id, i, spec, &sequence, &err);
		}
		if (!trial) {
			berth_log_error("a trial cannot be read", "job=%s index=%u reason=%s", watcher->job_id, i,
				berth_log_quote(err.message));
			continue;
		}
		trial->result = sequence ? berth_read_result(daemon, sequence, true) : NULL;
		berth_proto_append(&update->n_trials, &update->trials, trial);
	}
}

// False when the watcher has seen the end.
static bool send_update(struct berth_daemon *daemon, const struct berth_core *core, struct watcher *watcher)
{
	Berth__V1__JobUpdate *update = berth_alloc(sizeof *update);
	berth__v1__job_update__init(update);
	update->job = berth_core_job(core, watcher->job_id);
	add_trials(daemon, core, watcher, update);
	struct berth_error err;
	bool ok = berth_rpc_send(watcher->call, &update->base, &err);
	bool over = update->job->ended_at_ns && !watcher->changed;
	berth_proto_free(update);
	if (!ok || over) {
		berth_rpc_finish(watcher->call, ok ? NULL : &err);
		return false;
	}
	return true;
}

int64_t berth_watch_settled(struct berth_daemon *daemon, const struct berth_core *core)
{
	struct berth_watchers *watchers = daemon->watchers;
	int64_t now_ns = berth_boot_ns(), next_ns = INT64_MAX;
	pthread_mutex_lock(&watchers->lock);
	struct watcher *watcher, *next;
	DL_FOREACH_SAFE (watchers->list, watcher, next) {
		if (!watcher->gone && is_due(watcher, core, now_ns)) {
			watcher->sent_ns = now_ns;
			watcher->gone = !send_update(daemon, core, watcher);
		}
		if (watcher->changed && !watcher->gone) {
			int64_t due_ns = watcher->sent_ns + UPDATE_EVERY_MS * BERTH_NS_PER_MS;
			if (is_due(watcher, core, now_ns)) { // the job is over, and not all of it was in one message
				due_ns = now_ns;
			} else if (due_ns <= now_ns) { // it reads too slowly
				due_ns = now_ns + UPDATE_EVERY_MS * BERTH_NS_PER_MS;
			}
			next_ns = due_ns < next_ns ? due_ns : next_ns;
		}
		if (watcher->gone) {
			DL_DELETE(watchers->list, watcher);
			berth_rpc_call_set_data(watcher->call, NULL);
			free_watcher(watcher);
		}
	}
	pthread_mutex_unlock(&watchers->lock);
	return next_ns;
}
