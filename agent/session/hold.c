// SPDX-License-Identifier: Apache-2.0
// Ends a trial when its hold is over, whatever the driver waits for: a disk that syncs slowly, a peer that does not
// read. The driver comes to the same end by itself when it goes on; who fires second changes nothing. A hold that the
// driver would have found renewed by what still waits in its queue has ended all the same: the fleet runs the trial
// again.
#include <utlist.h>

#include "agent/session/session_internal.h"
#include "common/base/clock.h"
#include "common/base/log.h"

static void end_hold(struct session_trial *trial)
{
	if (!berth_cancel_fired(trial->cancel)) {
		berth_log_warn("a trial's hold is over", "job=%s index=%u generation=%u", trial->key->job_id,
			trial->key->index, trial->key->generation);
		session_trial_stop(trial, false);
	}
	trial->expires_ns = INT64_MAX;
}

// Ends what is due, and says when the next one is.
static int64_t end_holds(struct session *session)
{
	int64_t now_ns = berth_boot_ns(), next_ns = INT64_MAX;
	struct session_trial *trial;
	DL_FOREACH (session->running, trial) {
		if (trial->expires_ns <= now_ns) {
			end_hold(trial);
		}
		next_ns = trial->expires_ns < next_ns ? trial->expires_ns : next_ns;
	}
	return next_ns;
}

static void *watch_holds(void *context)
{
	struct session *session = context;
	struct session_holds *holds = &session->holds;
	pthread_mutex_lock(&holds->lock);
	while (!holds->over) {
		int64_t next_ns = end_holds(session);
		if (next_ns == INT64_MAX) {
			pthread_cond_wait(&holds->changed, &holds->lock);
		} else {
			session_wait(&holds->changed, &holds->lock, next_ns);
		}
	}
	pthread_mutex_unlock(&holds->lock);
	return NULL;
}

void session_holds_add(struct session *session, struct session_trial *trial)
{
	struct session_holds *holds = &session->holds;
	pthread_mutex_lock(&holds->lock);
	trial->expires_ns = berth_agent_core_expires_ns(session->core, trial->key);
	DL_APPEND(session->running, trial);
	pthread_cond_broadcast(&holds->changed);
	pthread_mutex_unlock(&holds->lock);
}

void session_holds_remove(struct session *session, struct session_trial *trial)
{
	pthread_mutex_lock(&session->holds.lock);
	DL_DELETE(session->running, trial);
	pthread_mutex_unlock(&session->holds.lock);
}

void session_holds_update(struct session *session)
{
	struct session_holds *holds = &session->holds;
	uint64_t now = berth_agent_core_holds(session->core);
	if (now == holds->known) {
		return;
	}
	holds->known = now;
	pthread_mutex_lock(&holds->lock);
	struct session_trial *trial;
	DL_FOREACH (session->running, trial) {
		trial->expires_ns = berth_agent_core_expires_ns(session->core, trial->key);
	}
	pthread_cond_broadcast(&holds->changed);
	pthread_mutex_unlock(&holds->lock);
}

void session_holds_begin(struct session *session)
{
	pthread_mutex_init(&session->holds.lock, NULL);
	session_condition_init(&session->holds.changed);
	session_start_thread(&session->holds.thread, "holds", watch_holds, session);
}

void session_holds_end(struct session *session)
{
	pthread_mutex_lock(&session->holds.lock);
	session->holds.over = true;
	pthread_cond_broadcast(&session->holds.changed);
	pthread_mutex_unlock(&session->holds.lock);
	pthread_join(session->holds.thread, NULL);
	pthread_cond_destroy(&session->holds.changed);
	pthread_mutex_destroy(&session->holds.lock);
}
