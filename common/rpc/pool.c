// SPDX-License-Identifier: Apache-2.0
// Threads that run callbacks which may block. The queue holds calls, each at most once, so what it holds is bounded by
// the calls that live, and those of one call never run at the same time. One thread is there from the start, the others
// once a call would wait.
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/rpc/server_internal.h"

struct berth_rpc_pool {
	pthread_mutex_t lock;
	pthread_cond_t added;
	struct berth_rpc_call *first, *last;
	int queued, idle; // calls, and threads that wait for one
	bool stopping;
	int threads_max, threads_count;
	pthread_t threads[BERTH_RPC_THREADS_MAX];
};

static struct berth_rpc_call *take(struct berth_rpc_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->idle++;
	while (!pool->first && !pool->stopping) {
		pthread_cond_wait(&pool->added, &pool->lock);
	}
	pool->idle--;
	struct berth_rpc_call *call = pool->first;
	if (call) {
		pool->queued--;
		pool->first = call->next;
		call->next = NULL;
	}
	pthread_mutex_unlock(&pool->lock);
	return call;
}

static void *work(void *context)
{
	struct berth_rpc_call *call = NULL;
	while ((call = take(context))) {
		berth_rpc_call_tell(call);
	}
	return NULL;
}

static bool add_thread(struct berth_rpc_pool *pool, struct berth_error *err)
{
	if (!berth_thread_start(&pool->threads[pool->threads_count], "rpc-pool", work, pool, err)) {
		return false;
	}
	pool->threads_count++;
	return true;
}

struct berth_rpc_pool *berth_rpc_pool_start(int threads, struct berth_error *err)
{
	if (threads > BERTH_RPC_THREADS_MAX) {
		berth_fail(err, BERTH_ERROR_INVALID, "%d callback threads are more than %d", threads,
			BERTH_RPC_THREADS_MAX);
		return NULL;
	}
	struct berth_rpc_pool *pool = berth_alloc(sizeof *pool);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->added, NULL);
	pool->threads_max = threads;
	if (!add_thread(pool, err)) {
		berth_rpc_pool_stop(pool);
		return NULL;
	}
	return pool;
}

void berth_rpc_pool_add(struct berth_rpc_pool *pool, struct berth_rpc_call *call)
{
	pthread_mutex_lock(&pool->lock);
	if (pool->first) {
		pool->last->next = call;
	} else {
		pool->first = call;
	}
	pool->last = call;
	pool->queued++;
	pthread_cond_signal(&pool->added);
	if (pool->queued > pool->idle && pool->threads_count < pool->threads_max) {
		struct berth_error err;
		add_thread(pool, &err); // without it those that are there go on
	}
	pthread_mutex_unlock(&pool->lock);
}

void berth_rpc_pool_stop(struct berth_rpc_pool *pool)
{
	if (!pool) {
		return;
	}
	pthread_mutex_lock(&pool->lock);
	pool->stopping = true;
	pthread_cond_broadcast(&pool->added);
	pthread_mutex_unlock(&pool->lock);
	for (int i = 0; i < pool->threads_count; i++) {
		pthread_join(pool->threads[i], NULL);
	}
	pthread_cond_destroy(&pool->added);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
