// SPDX-License-Identifier: Apache-2.0
// A thread that begins what a caller who is in a hurry has left corked: encrypting and the system call are most of what
// a small message costs. The queue holds calls, each at most once, in the order in which they came.
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/rpc/server_internal.h"

struct berth_rpc_writer {
	pthread_mutex_t lock; // guards what follows but the thread
	pthread_cond_t added;
	struct berth_rpc_call *first, *last; // referenced
	bool idle, stopping;
	pthread_t thread;
};

static struct berth_rpc_call *take(struct berth_rpc_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	while (!writer->first && !writer->stopping) {
		writer->idle = true;
		pthread_cond_wait(&writer->added, &writer->lock);
	}
	writer->idle = false;
	struct berth_rpc_call *call = writer->first;
	if (call) {
		writer->first = call->next_corked;
		call->is_left = false; // what is left to it from now on is left again
	}
	pthread_mutex_unlock(&writer->lock);
	return call;
}

static void *work(void *context)
{
	struct berth_rpc_call *call = NULL;
	while ((call = take(context))) {
		berth_rpc_call_uncork(call);
		berth_rpc_call_unref(call);
	}
	return NULL;
}

struct berth_rpc_writer *berth_rpc_writer_start(struct berth_error *err)
{
	struct berth_rpc_writer *writer = berth_alloc(sizeof *writer);
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->added, NULL);
	if (!berth_thread_start(&writer->thread, "rpc-writer", work, writer, err)) {
		pthread_cond_destroy(&writer->added);
		pthread_mutex_destroy(&writer->lock);
		free(writer);
		return NULL;
	}
	return writer;
}

void berth_rpc_writer_add(struct berth_rpc_writer *writer, struct berth_rpc_call *call)
{
	pthread_mutex_lock(&writer->lock);
	if (!call->is_left) {
		call->is_left = true;
		call->next_corked = NULL;
		if (writer->first) {
			writer->last->next_corked = call;
		} else {
			writer->first = call;
		}
		writer->last = berth_rpc_call_ref(call);
	}
	bool wake = writer->idle && writer->first;
	writer->idle = writer->idle && !wake;
	pthread_mutex_unlock(&writer->lock);
	if (wake) {
		pthread_cond_signal(&writer->added);
	}
}

void berth_rpc_writer_stop(struct berth_rpc_writer *writer)
{
	if (!writer) {
		return;
	}
	pthread_mutex_lock(&writer->lock);
	writer->stopping = true;
	pthread_mutex_unlock(&writer->lock);
	pthread_cond_signal(&writer->added);
	pthread_join(writer->thread, NULL);
	pthread_cond_destroy(&writer->added);
	pthread_mutex_destroy(&writer->lock);
	free(writer);
}
