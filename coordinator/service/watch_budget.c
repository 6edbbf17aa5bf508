// SPDX-License-Identifier: Apache-2.0
// WatchBudget: the budget as it is at once, then its newest state after changes, at a bounded rate and without a queue,
// for as long as the caller reads.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/daemon.h"

#define UPDATE_EVERY_MS  500
#define UNSENT_BYTES_MAX (1024 * 1024)

struct watcher {
	struct berth_rpc_call *call; // referenced
	char *name;
	bool changed, gone;
	int64_t sent_ns;
	struct watcher *prev, *next;
};

struct berth_budget_watchers {
	pthread_mutex_t lock; // guards list and gone
	struct watcher *list;
};

struct berth_budget_watchers *berth_budget_watchers_new(void)
{
	struct berth_budget_watchers *watchers = berth_alloc(sizeof *watchers);
	pthread_mutex_init(&watchers->lock, NULL);
	return watchers;
}

static void free_watcher(struct watcher *watcher)
{
	berth_rpc_call_unref(watcher->call);
	free(watcher->name);
	free(watcher);
}

void berth_budget_watchers_free(struct berth_budget_watchers *watchers)
{
	struct watcher *watcher, *next;
	DL_FOREACH_SAFE (watchers->list, watcher, next) {
		free_watcher(watcher);
	}
	pthread_mutex_destroy(&watchers->lock);
	free(watchers);
}

struct opening {
	struct watcher *watcher;
	struct berth_budget_watchers *watchers;
	bool ok;
};

static void ask_open(const struct berth_core *core, void *context)
{
	struct opening *opening = context;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Budget *budget = berth_core_budget(core, opening->watcher->name);
	opening->ok = budget != NULL;
	if (!opening->ok) {
		return;
	}
	pthread_mutex_lock(&opening->watchers->lock);
	DL_APPEND(opening->watchers->list, opening->watcher);
	pthread_mutex_unlock(&opening->watchers->lock);
	berth_rpc_call_set_data(opening->watcher->call, opening->watcher);
}

void berth_budget_watch_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct berth_error err;
	struct watcher *watcher = berth_alloc(sizeof *watcher);
	struct opening opening = {.watcher = watcher, .watchers = daemon->budget_watchers};
	watcher->call = berth_rpc_call_ref(call);
	watcher->name = berth_strdup(((const Berth__V1__GetBudgetRequest *)message)->name);
	watcher->changed = true;
	bool asked = berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_open, &opening, &err);
	if (!asked || !opening.ok) {
		if (asked) {
			berth_fail(&err, BERTH_ERROR_NOT_FOUND, "no budget is named %s: `berth budget list` shows them",
				watcher->name);
		}
		berth_rpc_finish(call, &err);
		free_watcher(watcher);
	}
}

void berth_budget_watch_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	struct berth_daemon *daemon = context;
	pthread_mutex_lock(&daemon->budget_watchers->lock);
	struct watcher *watcher = berth_rpc_call_data(call);
	if (watcher) {
		watcher->gone = true;
	}
	pthread_mutex_unlock(&daemon->budget_watchers->lock);
}

void berth_budget_watch_effect(struct berth_budget_watchers *watchers, const struct berth_effect *effect)
{
	pthread_mutex_lock(&watchers->lock);
	struct watcher *watcher;
	DL_FOREACH (watchers->list, watcher) {
		watcher->changed |= strcmp(watcher->name, effect->budget) == 0;
	}
	pthread_mutex_unlock(&watchers->lock);
}

static bool is_due(const struct watcher *watcher, int64_t now_ns)
{
	return watcher->changed && now_ns - watcher->sent_ns >= UPDATE_EVERY_MS * BERTH_NS_PER_MS &&
	       berth_rpc_send_queue_size(watcher->call) < UNSENT_BYTES_MAX;
}

static bool send_update(const struct berth_core *core, struct watcher *watcher)
{
	Berth__V1__GetBudgetResponse update = BERTH__V1__GET_BUDGET_RESPONSE__INIT;
	struct berth_error err;
	update.budget = berth_core_budget(core, watcher->name);
	watcher->changed = false;
	bool ok = berth_rpc_send(watcher->call, &update.base, &err);
	berth_proto_free(update.budget);
	if (!ok) {
		berth_rpc_finish(watcher->call, &err);
	}
	return ok;
}

int64_t berth_budget_watch_settled(struct berth_daemon *daemon, const struct berth_core *core)
{
	struct berth_budget_watchers *watchers = daemon->budget_watchers;
	int64_t now_ns = berth_boot_ns(), next_ns = INT64_MAX;
	pthread_mutex_lock(&watchers->lock);
	struct watcher *watcher, *next;
	DL_FOREACH_SAFE (watchers->list, watcher, next) {
		if (!watcher->gone && is_due(watcher, now_ns)) {
			watcher->sent_ns = now_ns;
			watcher->gone = !send_update(core, watcher);
		}
		if (watcher->changed && !watcher->gone) {
			int64_t due_ns = watcher->sent_ns + UPDATE_EVERY_MS * BERTH_NS_PER_MS;
			// One that reads too slowly is asked again in a while.
			due_ns = due_ns > now_ns ? due_ns : now_ns + UPDATE_EVERY_MS * BERTH_NS_PER_MS;
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
