// SPDX-License-Identifier: Apache-2.0
// WatchBudget: the budget as it is at once, then its newest state after changes, for as long as the caller reads.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/watch.h"

#define UPDATE_EVERY_MS 500

struct watcher {
	struct berth_watch watch;
	char *name;
};

static void free_watcher(struct berth_watch *watch)
{
	struct watcher *watcher = (struct watcher *)watch;
	berth_rpc_call_unref(watch->call);
	free(watcher->name);
	free(watcher);
}

struct opening {
	struct watcher *watcher;
	struct berth_watches *watches;
	bool ok;
};

static void ask_open(const struct berth_core *core, void *context)
{
	struct opening *opening = context;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Budget *budget = berth_core_budget(core, opening->watcher->name);
	opening->ok = budget != NULL;
	if (opening->ok) {
		berth_watches_add(opening->watches, &opening->watcher->watch);
	}
}

void berth_budget_watch_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct berth_error err;
	struct watcher *watcher = berth_alloc(sizeof *watcher);
	struct opening opening = {.watcher = watcher, .watches = daemon->budget_watches};
	watcher->watch.call = berth_rpc_call_ref(call);
	watcher->name = berth_strdup(((const Berth__V1__GetBudgetRequest *)message)->name);
	bool asked = berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_open, &opening, &err);
	if (!asked || !opening.ok) {
		if (asked) {
			berth_fail(&err, BERTH_ERROR_NOT_FOUND, "no budget is named %s: `berth budget list` shows them",
				watcher->name);
		}
		berth_rpc_finish(call, &err);
		free_watcher(&watcher->watch);
	}
}

void berth_budget_watch_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	const struct berth_daemon *daemon = context;
	berth_watches_end(daemon->budget_watches, call);
}

static void note(struct berth_watch *watch, const struct berth_effect *effect)
{
	watch->changed |= strcmp(((const struct watcher *)watch)->name, effect->budget) == 0;
}

void berth_budget_watch_effect(struct berth_watches *watches, const struct berth_effect *effect)
{
	berth_watches_note(watches, effect, note);
}

static bool send_update(struct berth_daemon *daemon, const struct berth_core *core, struct berth_watch *watch)
{
	(void)daemon;
	Berth__V1__GetBudgetResponse update = BERTH__V1__GET_BUDGET_RESPONSE__INIT;
	struct berth_error err;
	update.budget = berth_core_budget(core, ((const struct watcher *)watch)->name);
	watch->changed = false;
	bool ok = berth_rpc_send(watch->call, &update.base, &err);
	berth_proto_free(update.budget);
	if (!ok) {
		berth_rpc_finish(watch->call, &err);
	}
	return ok;
}

const struct berth_watch_kind berth_watch_budget = {
	.every_ms = UPDATE_EVERY_MS, .send = send_update, .free = free_watcher};
