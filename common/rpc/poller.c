// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/poller.h"

#include <pthread.h>

#include "common/base/thread.h"
#include "common/rpc/server_internal.h"

static struct {
	pthread_mutex_t lock; // guards what follows
	int holds;
	grpc_completion_queue *queue;
	pthread_t thread;

	pthread_mutex_t busy; // the thread has it while it is about a completion
} poller = {.lock = PTHREAD_MUTEX_INITIALIZER, .busy = PTHREAD_MUTEX_INITIALIZER};

static void *poll(void *context)
{
	grpc_completion_queue *queue = context;
	for (;;) {
		grpc_event event = grpc.completion_queue_next(queue, gpr.inf_future(GPR_CLOCK_MONOTONIC), NULL);
		if (event.type == GRPC_QUEUE_SHUTDOWN) {
			return NULL;
		}
		struct berth_rpc_tag *tag = event.tag;
		BERTH_TAKE_OVER(tag);
		pthread_mutex_lock(&poller.busy);
		berth_rpc_server_completed(tag, event.success != 0);
		pthread_mutex_unlock(&poller.busy);
	}
}

bool berth_rpc_poller_hold(grpc_completion_queue **queue, struct berth_error *err)
{
	pthread_mutex_lock(&poller.lock);
	bool ok = true;
	if (poller.holds == 0) {
		poller.queue = grpc.completion_queue_create_for_next(NULL);
		ok = berth_thread_start(&poller.thread, "rpc-server", poll, poller.queue, err);
		if (!ok) {
			grpc.completion_queue_shutdown(poller.queue);
			poll(poller.queue);
			grpc.completion_queue_destroy(poller.queue);
		}
	}
	poller.holds += ok;
	*queue = poller.queue;
	pthread_mutex_unlock(&poller.lock);
	return ok;
}

void berth_rpc_poller_release(void)
{
	pthread_mutex_lock(&poller.lock);
	if (--poller.holds == 0) {
		grpc.completion_queue_shutdown(poller.queue);
		pthread_join(poller.thread, NULL);
		grpc.completion_queue_destroy(poller.queue);
	}
	pthread_mutex_unlock(&poller.lock);
}

void berth_rpc_poller_pass(void)
{
	pthread_mutex_lock(&poller.busy);
	pthread_mutex_unlock(&poller.busy);
}
