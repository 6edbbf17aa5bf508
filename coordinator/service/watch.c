// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/watch.h"

#include <stdlib.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/mem.h"

#define UNSENT_BYTES_MAX (1024 * 1024)

struct berth_watches {
	const struct berth_watch_kind *kind;
	pthread_mutex_t lock; // guards list and gone
	struct berth_watch *list;
};

struct berth_watches *berth_watches_new(const struct berth_watch_kind *kind)
{
	struct berth_watches *watches = berth_alloc(sizeof *watches);
	watches->kind = kind;
	pthread_mutex_init(&watches->lock, NULL);
	return watches;
}

void berth_watches_free(struct berth_watches *watches)
{
	struct berth_watch *watch, *next;
	DL_FOREACH_SAFE (watches->list, watch, next) {
		watches->kind->free(watch);
	}
	pthread_mutex_destroy(&watches->lock);
	free(watches);
}

void berth_watches_add(struct berth_watches *watches, struct berth_watch *watch)
{
	pthread_mutex_lock(&watches->lock);
	watch->changed = true;
	DL_APPEND(watches->list, watch);
	berth_rpc_call_set_data(watch->call, watch);
	pthread_mutex_unlock(&watches->lock);
}

void berth_watches_end(struct berth_watches *watches, const struct berth_rpc_call *call)
{
	pthread_mutex_lock(&watches->lock);
	struct berth_watch *watch = berth_rpc_call_data(call);
	if (watch) {
		watch->gone = true;
	}
	pthread_mutex_unlock(&watches->lock);
}

void berth_watches_note(struct berth_watches *watches, const struct berth_effect *effect,
	void (*note)(struct berth_watch *watch, const struct berth_effect *effect))
{
	pthread_mutex_lock(&watches->lock);
	struct berth_watch *watch;
	DL_FOREACH (watches->list, watch) {
		note(watch, effect);
	}
	pthread_mutex_unlock(&watches->lock);
}

static bool is_urgent(
	const struct berth_watches *watches, const struct berth_watch *watch, const struct berth_core *core)
{
	return watches->kind->is_urgent && watches->kind->is_urgent(watch, core);
}

static bool is_due(const struct berth_watches *watches, const struct berth_watch *watch, const struct berth_core *core,
	int64_t now_ns)
{
	return watch->changed &&
	       (now_ns - watch->sent_ns >= watches->kind->every_ms * BERTH_NS_PER_MS ||
		       is_urgent(watches, watch, core)) &&
	       berth_rpc_send_queue_size(watch->call) < UNSENT_BYTES_MAX;
}

static int64_t due_at_ns(const struct berth_watches *watches, const struct berth_watch *watch,
	const struct berth_core *core, int64_t now_ns)
{
	int64_t every_ns = watches->kind->every_ms * BERTH_NS_PER_MS;
	if (is_due(watches, watch, core, now_ns)) {
		return now_ns; // not all of it was in one message
	}
	// One that reads too slowly is looked at again in a while.
	return watch->sent_ns + every_ns > now_ns ? watch->sent_ns + every_ns : now_ns + every_ns;
}

int64_t berth_watches_settled(struct berth_watches *watches, struct berth_daemon *daemon, const struct berth_core *core)
{
	int64_t now_ns = berth_boot_ns(), next_ns = INT64_MAX;
	pthread_mutex_lock(&watches->lock);
	struct berth_watch *watch, *next;
	DL_FOREACH_SAFE (watches->list, watch, next) {
		if (!watch->gone && is_due(watches, watch, core, now_ns)) {
			watch->sent_ns = now_ns;
			watch->gone = !watches->kind->send(daemon, core, watch);
		}
		if (watch->changed && !watch->gone) {
			int64_t due_ns = due_at_ns(watches, watch, core, now_ns);
			next_ns = due_ns < next_ns ? due_ns : next_ns;
		}
		if (watch->gone) {
			DL_DELETE(watches->list, watch);
			berth_rpc_call_set_data(watch->call, NULL);
			watches->kind->free(watch);
		}
	}
	pthread_mutex_unlock(&watches->lock);
	return next_ns;
}
