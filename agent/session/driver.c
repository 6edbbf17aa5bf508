// SPDX-License-Identifier: Apache-2.0
// The one thread that owns the core: takes what happened, asks the core, and carries out what it says in order.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "agent/session/session_internal.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define SILENT_HEARTBEATS 3
#define SILENCE_MS_LEAST  1000

// The stream is over for sending. Who receives on it hears so, and tells when it is down.
static void give_up_stream(struct session *session)
{
	if (session->stream) {
		berth_rpc_stream_cancel(session->stream);
		session->stream = NULL;
	}
	outgoing_clear(&session->outgoing);
}

static void send_outgoing(struct session *session)
{
	bool sent = berth_rpc_stream_send(session->stream, &session->outgoing.batch.base, NULL);
	outgoing_clear(&session->outgoing);
	if (!sent) {
		give_up_stream(session);
	}
}

// Takes the message.
static void send_message(struct session *session, Berth__V1__AgentMessage *message)
{
	if (session->stream && outgoing_is_full(&session->outgoing, message)) {
		send_outgoing(session);
	}
	if (session->stream) {
		outgoing_add(&session->outgoing, message, berth_boot_ns());
	} else {
		berth_proto_free(message);
	}
}

// What is due leaves, but not before all that happened meanwhile has had its say.
static void send_what_is_due(struct session *session)
{
	size_t in_flight = berth_agent_core_in_flight(session->core);
	if (session->stream && outgoing_leaves(&session->outgoing, in_flight, berth_boot_ns()) &&
		session_queue_is_empty(&session->queue)) {
		send_outgoing(session);
	}
}

static struct session_trial *find_trial(struct session *session, const Berth__V1__TrialKey *key)
{
	struct session_trial *trial;
	DL_FOREACH (session->running, trial) {
		if (trial->key->index == key->index && trial->key->generation == key->generation &&
			strcmp(trial->key->job_id, key->job_id) == 0) {
			return trial;
		}
	}
	return NULL;
}

static void count_trials(struct session *session, int change)
{
	pthread_mutex_lock(&session->lock);
	session->trials_count += (size_t)change;
	pthread_mutex_unlock(&session->lock);
}

static void start_trial(struct session *session, struct berth_agent_action *action)
{
	struct session_trial *trial = session_trial_new(session, action->assignment->trial);
	trial->assignment = BERTH_STEAL(action->assignment);
	session_holds_add(session, trial);
	count_trials(session, 1);
	berth_log_info("trial starts", "job=%s index=%u generation=%u name=%s", trial->key->job_id, trial->key->index,
		trial->key->generation, berth_log_quote(trial->assignment->trial_name));
	session_trial_start(trial);
}

static void stop_trial(struct session *session, const struct berth_agent_action *action)
{
	struct session_trial *trial = find_trial(session, action->trial);
	if (trial) {
		berth_log_info("trial is stopped", "job=%s index=%u generation=%u reason=%s", trial->key->job_id,
			trial->key->index, trial->key->generation, berth_log_quote(action->reason));
		session_trial_stop(trial, !action->expired);
	}
}

static void carry_out(struct session *session, struct berth_agent_action *action)
{
	switch (action->kind) {
	case BERTH_AGENT_SEND:
		send_message(session, BERTH_STEAL(action->message));
		break;
	case BERTH_AGENT_CLOSE:
		berth_log_error("the coordinator is not obeyed", "reason=%s", berth_log_quote(action->reason));
		give_up_stream(session);
		break;
	case BERTH_AGENT_SAVE_OBEYED:
		agent_store_save_obeyed(session->store, action->obeyed, action->later);
		break;
	case BERTH_AGENT_START:
		start_trial(session, action);
		break;
	case BERTH_AGENT_STOP:
		stop_trial(session, action);
		break;
	case BERTH_AGENT_RESTORED:
		berth_log_warn("the ledger was restored from a backup", "reason=%s", berth_log_quote(action->reason));
		break;
	case BERTH_AGENT_DROP_REPORTS:
		agent_store_drop_reports(session->store, action->boot_id, action->through);
		break;
	}
}

static void carry_out_all(struct session *session, struct berth_agent_actions *actions)
{
	session_holds_update(session);
	for (size_t i = 0; i < actions->count; i++) {
		carry_out(session, &actions->items[i]);
	}
	berth_agent_actions_clear(actions);
}

static void stream_down(struct session *session, struct berth_agent_actions *actions)
{
	session->stream = NULL;
	outgoing_clear(&session->outgoing);
	berth_agent_core_stream_down(session->core, berth_boot_ns(), actions);
	carry_out_all(session, actions);
	pthread_mutex_lock(&session->lock);
	session->stream_in_use = false;
	pthread_cond_broadcast(&session->changed);
	pthread_mutex_unlock(&session->lock);
}

static void trial_ended(struct session *session, struct session_trial *trial)
{
	berth_agent_core_trial_ended(session->core, trial->key);
	pthread_join(trial->thread, NULL);
	session_holds_remove(session, trial);
	count_trials(session, -1);
	berth_log_info("trial ended", "job=%s index=%u generation=%u", trial->key->job_id, trial->key->index,
		trial->key->generation);
	session_trial_free(trial);
}

static void begin_to_end(struct session *session)
{
	session->ending = true;
	berth_agent_core_condition(session->core, false, "the agent is shutting down", session->disk_free_mb);
}

static void take(struct session *session, struct session_event *event, struct berth_agent_actions *actions)
{
	int64_t now_ns = berth_boot_ns();
	switch (event->kind) {
	case SESSION_STREAM_UP:
		session->stream = event->stream;
		berth_agent_core_stream_up(session->core, now_ns, actions);
		break;
	case SESSION_STREAM_DOWN:
		stream_down(session, actions);
		break;
	case SESSION_MESSAGE:
		berth_agent_core_message(session->core, event->message, now_ns, actions);
		break;
	case SESSION_REPORTED:
		berth_agent_core_reported(session->core, event->report, actions);
		break;
	case SESSION_PROGRESS:
		berth_agent_core_progress(session->core, event->trial->key, event->text, actions);
		break;
	case SESSION_TRIAL_ENDED:
		trial_ended(session, event->trial);
		break;
	case SESSION_CONDITION:
		session->disk_free_mb = event->disk_free_mb;
		if (!session->ending) {
			berth_agent_core_condition(session->core, event->accepting, event->text, event->disk_free_mb);
		}
		break;
	case SESSION_STOPPING:
		begin_to_end(session);
		break;
	case SESSION_CLOSING:
		break;
	}
}

static void publish(struct session *session)
{
	bool in_session = berth_agent_core_in_session(session->core);
	if (in_session != atomic_load(&session->welcomed)) {
		berth_log_info(in_session ? "in session" : "out of session", "agent=%s", session->options.agent);
	}
	atomic_store(&session->welcomed, in_session);
	int64_t silence_ms = SILENT_HEARTBEATS * (int64_t)berth_agent_core_heartbeat_ms(session->core);
	if (in_session) {
		atomic_store(&session->silence_ms, silence_ms > SILENCE_MS_LEAST ? silence_ms : SILENCE_MS_LEAST);
	}
	if (session->ending && !session->running && berth_agent_core_flushed(session->core)) {
		pthread_mutex_lock(&session->lock);
		session->drained = true;
		pthread_cond_broadcast(&session->changed);
		pthread_mutex_unlock(&session->lock);
	}
}

void *session_driver(void *context)
{
	struct session *session = context;
	struct berth_agent_actions actions = {0};
	outgoing_init(&session->outgoing);
	bool closing = false;
	while (!closing) {
		int64_t tick_ns = berth_agent_core_next_tick_ns(session->core), due_ns = session->outgoing.due_ns;
		struct session_event *event = session_next(&session->queue, due_ns < tick_ns ? due_ns : tick_ns);
		if (event) {
			closing = event->kind == SESSION_CLOSING;
			take(session, event, &actions);
			session_event_free(event);
			carry_out_all(session, &actions);
		}
		berth_agent_core_tick(session->core, berth_boot_ns(), &actions);
		carry_out_all(session, &actions);
		send_what_is_due(session);
		publish(session);
	}
	outgoing_clear(&session->outgoing);
	return NULL;
}
