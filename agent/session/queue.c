// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

#include "agent/session/session_internal.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define WAIT_NS_MAX BERTH_NS_PER_S // the boot clock goes on while a host sleeps, the waiting clock does not

void session_condition_init(pthread_cond_t *changed)
{
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

void session_queue_init(struct session_queue *queue)
{
	pthread_mutex_init(&queue->lock, NULL);
	session_condition_init(&queue->changed);
	queue->events = NULL;
	queue->messages = 0;
}

void session_event_free(struct session_event *event)
{
	berth_proto_free(event->message);
	berth_proto_free(event->report);
	free(event->text);
	free(event);
}

void session_queue_free(struct session_queue *queue)
{
	struct session_event *event, *after;
	DL_FOREACH_SAFE (queue->events, event, after) {
		session_event_free(event);
	}
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
}

void session_post(struct session_queue *queue, struct session_event event)
{
	struct session_event *copy = berth_memdup(&event, sizeof event);
	pthread_mutex_lock(&queue->lock);
	while (event.kind == SESSION_MESSAGE && queue->messages >= SESSION_MESSAGES_MAX) {
		pthread_cond_wait(&queue->changed, &queue->lock);
	}
	queue->messages += event.kind == SESSION_MESSAGE;
	DL_APPEND(queue->events, copy);
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

bool session_wait(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t until_ns)
{
	int64_t left_ns = until_ns - berth_boot_ns();
	if (left_ns <= 0) {
		return false;
	}
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	left_ns = left_ns < WAIT_NS_MAX ? left_ns : WAIT_NS_MAX;
	int64_t ns = at.tv_nsec + left_ns;
	at.tv_sec += ns / BERTH_NS_PER_S;
	at.tv_nsec = ns % BERTH_NS_PER_S;
	pthread_cond_timedwait(changed, lock, &at);
	return true;
}

bool session_queue_is_empty(struct session_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	bool empty = !queue->events;
	pthread_mutex_unlock(&queue->lock);
	return empty;
}

struct session_event *session_next(struct session_queue *queue, int64_t until_ns)
{
	pthread_mutex_lock(&queue->lock);
	while (!queue->events && session_wait(&queue->changed, &queue->lock, until_ns)) {
	}
	struct session_event *event = queue->events;
	if (event) {
		DL_DELETE(queue->events, event);
		queue->messages -= event->kind == SESSION_MESSAGE;
		pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return event;
}
