// SPDX-License-Identifier: Apache-2.0
// The one thread that owns core and ledger: it takes every command that waits, decides them in order, writes their
// events as one batch with one sync, and only then lets replies and effects out. While a batch is being synced the next
// fills.
//
// berth_engine_post, _post_all and _ask may be called from any thread but its own.
#pragma once

#include <stdbool.h>

#include "common/rpc/rpc.h"
#include "coordinator/core/core.h"
#include "coordinator/ledger/ledger.h"

struct berth_engine;
struct berth_engine_request;

struct berth_engine_options {
	struct berth_core *core;     // replayed; the engine's from now on
	struct berth_ledger *ledger; // likewise, but committed events may be read by anyone
	int64_t checkpoint_ms;       // see recorder.h
	int64_t tick_ms;             // the longest that the core goes without a tick
	// On the engine's thread, after the commit: one effect, in order. The core may be asked, not decided.
	void (*effect)(void *context, const struct berth_core *core, const struct berth_effect *effect);
	// On the engine's thread, after each batch's effects, before anything that they point at may change. Gives the
	// time (boot clock) by which it wants to be called again, INT64_MAX when it does not mind.
	int64_t (*settled)(void *context, const struct berth_core *core);
	void *context;
};

// A command with what it borrows. `done` runs on the engine's thread after the commit, before its effects, and frees
// the request's payload; the engine frees nothing of it. The outcome has no events any more by then.
struct berth_engine_request {
	struct berth_command command;
	char actor[2 * BERTH_RPC_NAME_MAX];
	struct berth_rpc_principal principal; // refused when its certificate is not the enrolled one
	size_t events_size;                   // about, of its first event; 0: little
	// Packed secrets of a SUBMIT: written with its event when the job is new.
	const void *secrets;
	size_t secrets_size;
	// A blob that the events of the command name: written with them. blob_size 0: none.
	const void *blob;
	size_t blob_size;
	struct berth_digest blob_digest;
	// Both may be NULL; on the engine's thread, before it is decided, and after it while its events are there,
	// which are not committed yet.
	void (*prepare)(struct berth_engine_request *request);
	void (*note)(struct berth_engine_request *request, const struct berth_outcome *outcome);
	void (*done)(struct berth_engine_request *request, const struct berth_core *core,
		const struct berth_outcome *outcome);
	void *context;
	struct berth_engine_request *next;
};

struct berth_engine *berth_engine_start(const struct berth_engine_options *options, struct berth_error *err);
// False with EXHAUSTED when too much waits (BERTH_ENGINE_QUEUE_MAX), NOT_SERVING when it stops; `done` is not called.
bool berth_engine_post(struct berth_engine *engine, struct berth_engine_request *request, struct berth_error *err);
// The same for several that are linked by `next`, in that order: all or none.
bool berth_engine_post_all(
	struct berth_engine *engine, struct berth_engine_request *first, size_t count, struct berth_error *err);
// Runs `ask` on the engine's thread on a state that is committed, and waits for it. The principal's certificate is
// checked first (NULL: the coordinator itself).
bool berth_engine_ask(struct berth_engine *engine, const struct berth_rpc_principal *principal,
	void (*ask)(const struct berth_core *core, void *context), void *context, struct berth_error *err);
// Ends after what was posted; then core and ledger are the caller's again.
void berth_engine_stop(struct berth_engine *engine);

#define BERTH_ENGINE_QUEUE_MAX 65536
#define BERTH_ENGINE_BATCH_MAX 1024
