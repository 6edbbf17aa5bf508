// SPDX-License-Identifier: Apache-2.0
// What the services of one coordinator share, and how they are put together.
#pragma once

#include <pthread.h>

#include "common/evidence/statement.h"
#include "common/rpc/server.h"
#include "coordinator/blob/blob.h"
#include "coordinator/service/engine.h"

#define BERTH_SERVICE_THREADS   4
#define BERTH_BLOB_THREADS      4
#define BERTH_SESSION_BATCH_MAX 256
#define BERTH_REPORT_FOLDER_MAX (64 * 1024) // bytes of a folder that came with its report
// Unsent bytes of one download. A stream says that it is writable again once it was above half of this, so a download
// stops only beyond that.
#define BERTH_BLOB_UNSENT_MAX (3 * 1024 * 1024)

struct berth_backups;
struct berth_heads;
struct berth_sessions;
struct berth_watches;

struct berth_daemon {
	char fleet[64];
	int64_t hold_ms, heartbeat_ms;
	struct berth_core *core; // the engine's while it runs
	struct berth_engine *engine;
	struct berth_ledger *ledger;
	struct berth_blobs *blobs;
	struct berth_heads *heads;
	struct berth_backups *backups;
	struct berth_sessions *sessions;
	struct berth_watches *job_watches, *budget_watches;
	struct berth_rpc_server *server, *blob_server;
	// PEM; authority_key NULL: this coordinator enrols nobody
	char *authority, *authority_key;
	// Told once when a newer incarnation is known: the process ends its service.
	void (*fenced)(void *context);
	void *context;
};

extern const struct berth_rpc_handler berth_job_handlers[];
extern const size_t berth_job_handlers_count;
extern const struct berth_rpc_handler berth_fleet_handlers[];
extern const size_t berth_fleet_handlers_count;
extern const struct berth_rpc_handler berth_lease_handlers[];
extern const size_t berth_lease_handlers_count;
extern const struct berth_rpc_handler berth_budget_handlers[];
extern const size_t berth_budget_handlers_count;
extern const struct berth_rpc_handler berth_ledger_handlers[];
extern const size_t berth_ledger_handlers_count;
extern const struct berth_rpc_handler berth_blob_handlers[];
extern const size_t berth_blob_handlers_count;

// Ends a unary call: with the message (which stays the caller's) or, when it is NULL, with the error.
void berth_reply(struct berth_rpc_call *call, const void *message, const struct berth_error *err);
// "role/name" of who calls.
void berth_actor(const struct berth_rpc_call *call, char actor[static 2 * BERTH_RPC_NAME_MAX]);

// --- sessions: which stream belongs to which agent ---
struct berth_sessions *berth_sessions_new(void);
void berth_sessions_free(struct berth_sessions *sessions);
void berth_session_begin(struct berth_rpc_call *call, void *context);
void berth_session_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context);
void berth_session_half_closed(struct berth_rpc_call *call, void *context);
void berth_session_ended(struct berth_rpc_call *call, bool cancelled, void *context);
// Engine's thread: what an effect of a session asks for; it leaves with berth_sessions_settled.
void berth_session_effect(
	struct berth_daemon *daemon, const struct berth_core *core, const struct berth_effect *effect);
void berth_sessions_settled(struct berth_daemon *daemon);

// Engine's thread, when a job's secrets are gone: overwrites what the streams of agents may still hold of them.
void berth_sessions_scrub(struct berth_daemon *daemon);

// --- WatchJob and WatchBudget, which are lists of watch.h; an effect is noted on the engine's thread ---
extern const struct berth_watch_kind berth_watch_job, berth_watch_budget;
void berth_watch_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context);
void berth_watch_ended(struct berth_rpc_call *call, bool cancelled, void *context);
void berth_watch_effect(struct berth_watches *watches, const struct berth_effect *effect);
void berth_budget_watch_message(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context);
void berth_budget_watch_ended(struct berth_rpc_call *call, bool cancelled, void *context);
void berth_budget_watch_effect(struct berth_watches *watches, const struct berth_effect *effect);

// The result of the trial from its event, without evidence and traceback when `summary`. NULL when it can't be read.
Berth__V1__TrialResult *berth_read_result(struct berth_daemon *daemon, uint64_t sequence, bool summary);

// --- state records: objects that have left memory. Any thread. ---
// One trial of a job that is forgotten (berth_core_is_forgotten); `spec` gives it its name.
Berth__V1__Trial *berth_read_trial(struct berth_daemon *daemon, const char *job_id, uint32_t index,
	const Berth__V1__JobSpec *spec, uint64_t *result_sequence, struct berth_error *err);
// At most `limit` of them from index `from` on.
bool berth_read_trials(struct berth_daemon *daemon, const char *job_id, const Berth__V1__JobSpec *spec, uint32_t from,
	size_t limit, Berth__V1__Trial **into, uint64_t *sequences, size_t *count, struct berth_error *err);
// Adds recorded leases with an id after `after` (NULL: all) to the *count that are in `into`, by id, at most `limit` in
// all. job_id NULL: of every job.
bool berth_read_leases(struct berth_daemon *daemon, const char *job_id, const char *after, size_t limit,
	Berth__V1__Lease **into, size_t *count, struct berth_error *err);
// The same for reservations of a budget.
bool berth_read_reservations(struct berth_daemon *daemon, const char *budget, const char *after, size_t limit,
	Berth__V1__Reservation **into, size_t *count, struct berth_error *err);

struct berth_signer { // whose results come
	const char *fleet, *agent;
	const uint8_t *key_der; // enrolled; size 0: none
	size_t key_size;
	struct berth_checked_group *checked; // of that key
};
// Why the evidence of a result does not hold, NULL when it does. The text is a literal.
const char *berth_evidence_fault(const struct berth_signer *signer, const Berth__V1__TrialDone *done);
// The same of a folder that came with its result; *digest is that of its bytes when there is none.
const char *berth_folder_fault(const Berth__V1__TrialDone *done, struct berth_digest *digest);
// The number under "reward" of a rewards object, 0 without one.
double berth_reward_number(const char *rewards_json);
