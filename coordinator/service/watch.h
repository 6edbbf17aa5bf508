// SPDX-License-Identifier: Apache-2.0
// Streams that are told the newest state of one thing, at a bounded rate: a slow reader gets fewer, larger updates and
// never a queue. What is watched, and what is said of it, is the kind's.
#pragma once

#include "coordinator/service/daemon.h"

struct berth_watch {                 // the first member of what a kind keeps of one stream
	struct berth_rpc_call *call; // referenced
	bool changed;                // there is something to tell
	bool gone;
	int64_t sent_ns;
	struct berth_watch *prev, *next;
};

struct berth_watch_kind {
	int64_t every_ms; // between two updates
	// Whether the next update does not wait for its turn; NULL: never.
	bool (*is_urgent)(const struct berth_watch *watch, const struct berth_core *core);
	// Sends one update, and clears `changed` unless there is more to tell. False: it was the last, or there is
	// nobody left to tell; the call is finished then.
	bool (*send)(struct berth_daemon *daemon, const struct berth_core *core, struct berth_watch *watch);
	void (*free)(struct berth_watch *watch);
};

struct berth_watches *berth_watches_new(const struct berth_watch_kind *kind);
void berth_watches_free(struct berth_watches *watches);

// Engine's thread: its first update is due at once.
void berth_watches_add(struct berth_watches *watches, struct berth_watch *watch);
// When the call has ended.
void berth_watches_end(struct berth_watches *watches, const struct berth_rpc_call *call);
// Engine's thread: `note` marks what an effect changes.
void berth_watches_note(struct berth_watches *watches, const struct berth_effect *effect,
	void (*note)(struct berth_watch *watch, const struct berth_effect *effect));
// Engine's thread: sends what is due. Gives the time of the next update that is (boot clock), INT64_MAX without one.
int64_t berth_watches_settled(
	struct berth_watches *watches, struct berth_daemon *daemon, const struct berth_core *core);
