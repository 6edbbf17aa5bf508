// SPDX-License-Identifier: Apache-2.0
// Inside a session. Threads: the driver owns the core and the stream's sending side (driver.c); one connects and
// receives (stream.c); one a trial (trial.c); one probes the host and one settles leases that trials left (health.c,
// settle.c). They speak to the driver by its queue alone (queue.c).
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "agent/core/core.h"
#include "agent/session/bundles.h"
#include "agent/session/outgoing.h"
#include "agent/session/session.h"
#include "agent/session/store.h"

#define BERTH_REPORT_FOLDER_MAX ((int64_t)64 * 1024) // bytes of a folder that goes with its report

#define SESSION_MESSAGES_MAX 256 // from the coordinator, not taken yet: then the stream is not read

enum session_event_kind {
	SESSION_STREAM_UP,
	SESSION_STREAM_DOWN,
	SESSION_MESSAGE,
	SESSION_REPORTED,
	SESSION_PROGRESS,
	SESSION_TRIAL_ENDED,
	SESSION_CONDITION,
	SESSION_STOPPING,
	SESSION_CLOSING,
};

struct session_trial;

struct session_event {
	enum session_event_kind kind;
	struct berth_rpc_stream *stream;        // UP
	Berth__V1__CoordinatorMessage *message; // owned, and below
	Berth__V1__Report *report;
	struct session_trial *trial; // PROGRESS, ENDED
	bool accepting;
	char *text; // the phase, or the trouble
	uint64_t disk_free_mb;
	struct session_event *prev, *next;
};

struct session_queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct session_event *events;
	size_t messages; // SESSION_MESSAGE among them
};
// A condition for session_wait, which waits until the boot clock shows `until_ns`, or less: false when it does already.
void session_condition_init(pthread_cond_t *changed);
bool session_wait(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t until_ns);

void session_queue_init(struct session_queue *queue);
void session_queue_free(struct session_queue *queue);
// Takes the event's members. A message waits while too many do.
void session_post(struct session_queue *queue, struct session_event event);
// NULL when `until_ns` (boot clock) comes first.
struct session_event *session_next(struct session_queue *queue, int64_t until_ns);
bool session_queue_is_empty(struct session_queue *queue);
void session_event_free(struct session_event *event);

// A trial on this host. The driver starts, stops and frees it; its own thread does the rest.
struct session_trial {
	struct session *session;
	Berth__V1__TrialKey *key;
	Berth__V1__Assignment *assignment;         // NULL for one that only has a result left
	Berth__Store__V1__FinishedTrial *finished; // likewise of an earlier life, else NULL
	char *name;                                // of its folder and spool file
	struct berth_cancel *cancel;               // the run's
	struct berth_cancel *upload_cancel;        // fires when the result is not wanted, or the drain is over
	atomic_bool unwanted;                      // revoked: a result would be refused
	pthread_t thread;
	int64_t expires_ns; // as the core had it last; session->holds.lock guards it
	struct session_trial *prev, *next;
};

// What ends trials at the end of their holds. See hold.c.
struct session_holds {
	pthread_mutex_t
		lock; // guards what follows, every trial's expires_ns, and changes of the list of running trials
	pthread_cond_t changed;
	bool over;
	uint64_t known; // berth_agent_core_holds, when expires_ns was last told; the driver's
	pthread_t thread;
};

struct session {
	struct berth_session_options options;
	struct berth_cancel *stop;   // the caller's
	struct berth_cancel *trials; // parent of every run: fires when the agent ends
	struct berth_cancel *drain;  // the drain is over
	struct berth_cancel *close;  // the session's own threads end
	struct agent_store *store;
	struct bundles *bundles;
	struct berth_runner *runner;
	struct berth_session_facts facts;
	char *spool, *work; // folders
	struct session_queue queue;

	// The driver's.
	struct berth_agent_core *core;
	struct berth_rpc_stream *stream; // NULL: none, or it failed
	struct outgoing outgoing;        // to be sent on it
	struct session_trial *running;   // others read the list under holds.lock
	struct session_holds holds;
	bool ending;
	uint64_t disk_free_mb; // newest

	pthread_mutex_t lock; // guards what follows
	pthread_cond_t changed;
	bool stream_in_use; // the driver may still touch the stream
	bool drained;       // while ending: no trial runs and nothing is unacknowledged
	size_t trials_count;

	atomic_int_least64_t silence_ms; // how long a stream may say nothing
	atomic_bool welcomed;            // on the stream that is up
	char *trouble;                   // that was logged last; the health thread's

	pthread_t driver, streamer, health, sweeper;
};

// session.c: ends the process when the host has no more threads.
void session_start_thread(pthread_t *thread, const char *name, void *(*run)(void *context), void *context);

// driver.c, stream.c, health.c, settle.c: bodies of the threads
void *session_driver(void *session);
void *session_streamer(void *session);
void *session_health(void *session);
void *session_sweeper(void *session);
void session_check_host(struct session *session);

// hold.c. The first three are for the driver.
void session_holds_add(struct session *session, struct session_trial *trial);
void session_holds_remove(struct session *session, struct session_trial *trial);
void session_holds_update(struct session *session);
void session_holds_begin(struct session *session);
void session_holds_end(struct session *session); // after the driver's

// settle.c: retires every lease that no running trial has, and kills what the runner shows and nobody holds.
bool session_settle(struct session *session, struct berth_until until, struct berth_error *err);

// trial.c
struct session_trial *session_trial_new(struct session *session, const Berth__V1__TrialKey *key);
void session_trial_start(struct session_trial *trial);
void session_trial_stop(struct session_trial *trial, bool unwanted);
void session_trial_free(struct session_trial *trial);

// finish.c: from a result to its report in the outbox. Takes nothing; `result` is the trial's.
void session_finish(struct session_trial *trial, Berth__V1__TrialResult *result, const char *work_folder);
void session_finish_earlier(struct session_trial *trial);
// A failure of this host as the trial's result.
void session_fail_result(Berth__V1__TrialResult *result, const char *type, const char *message);
