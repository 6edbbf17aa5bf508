// SPDX-License-Identifier: Apache-2.0
// WatchJob: each watcher remembers which of its job's trials changed and is sent their newest state.
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/audit/recover.h"
#include "coordinator/service/watch.h"

#define UPDATE_EVERY_MS   1000
#define UPDATE_TRIALS_MAX 1000

struct watcher {
	struct berth_watch watch;
	char job_id[BERTH_ID_SIZE];
	bool with_trials;
	uint8_t *dirty; // by trial index
	uint32_t cells;
};

static void free_watcher(struct berth_watch *watch)
{
	struct watcher *watcher = (struct watcher *)watch;
	berth_rpc_call_unref(watch->call);
	free(watcher->dirty);
	free(watcher);
}

struct opening {
	const Berth__V1__WatchJobRequest *request;
	struct watcher *watcher;
	struct berth_watches *watches;
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
	berth_watches_add(opening->watches, &watcher->watch);
}

void berth_watch_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct watcher *watcher = berth_alloc(sizeof *watcher);
	struct opening opening = {.request = (const Berth__V1__WatchJobRequest *)message,
		.watcher = watcher,
		.watches = daemon->job_watches};
	watcher->watch.call = berth_rpc_call_ref(call);
	watcher->with_trials = opening.request->with_trials;
	bool ok = berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_open, &opening, &opening.err) &&
	          opening.ok;
	if (!ok) {
		berth_rpc_finish(call, &opening.err);
		free_watcher(&watcher->watch);
	}
}

void berth_watch_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	const struct berth_daemon *daemon = context;
	berth_watches_end(daemon->job_watches, call);
}

static void note(struct berth_watch *watch, const struct berth_effect *effect)
{
	struct watcher *watcher = (struct watcher *)watch;
	if (strcmp(watcher->job_id, effect->job_id) != 0) {
		return;
	}
	watch->changed = true;
	if (effect->kind == BERTH_EFFECT_TRIAL_CHANGED && watcher->with_trials && effect->index < watcher->cells) {
		watcher->dirty[effect->index] = 1;
	}
}

void berth_watch_effect(struct berth_watches *watches, const struct berth_effect *effect)
{
	berth_watches_note(watches, effect, note);
}

// The end of the job does not wait for its turn.
static bool is_over(const struct berth_watch *watch, const struct berth_core *core)
{
	return berth_core_job_is_over(core, ((const struct watcher *)watch)->job_id);
}

static void add_trials(struct berth_daemon *daemon, const struct berth_core *core, struct watcher *watcher,
	Berth__V1__JobUpdate *update)
{
	struct berth_error err;
	watcher->watch.changed = false;
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
			watcher->watch.changed = true; // the rest comes with the next update
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

static bool send_update(struct berth_daemon *daemon, const struct berth_core *core, struct berth_watch *watch)
{
	struct watcher *watcher = (struct watcher *)watch;
	Berth__V1__JobUpdate *update = berth_alloc(sizeof *update);
	berth__v1__job_update__init(update);
	update->job = berth_core_job(core, watcher->job_id);
	add_trials(daemon, core, watcher, update);
	struct berth_error err;
	bool ok = berth_rpc_send(watch->call, &update->base, &err);
	bool over = update->job->ended_at_ns && !watch->changed;
	berth_proto_free(update);
	if (!ok || over) {
		berth_rpc_finish(watch->call, ok ? NULL : &err);
		return false;
	}
	return true;
}

const struct berth_watch_kind berth_watch_job = {
	.every_ms = UPDATE_EVERY_MS, .is_urgent = is_over, .send = send_update, .free = free_watcher};
