// SPDX-License-Identifier: Apache-2.0
// The end of a server, in the one order that gRPC bears: no new calls, grace, cancel, all ends told, destroy. The
// poller runs until the last server is gone: the goodbyes to the clients are written by it.
#include <stdlib.h>
#include <time.h>

#include "common/base/mem.h"
#include "common/rpc/poller.h"
#include "common/rpc/server_internal.h"

#define GOODBYE_MS 200 // for clients to close by themselves what no call uses any more

bool berth_rpc_server_admit(struct berth_rpc_server *server)
{
	pthread_mutex_lock(&server->lock);
	bool in_bounds = ++server->live <= BERTH_RPC_LIVE_CALLS_MAX;
	pthread_mutex_unlock(&server->lock);
	return in_bounds;
}

void berth_rpc_server_leave(struct berth_rpc_server *server)
{
	pthread_mutex_lock(&server->lock);
	if (--server->live == 0) {
		pthread_cond_broadcast(&server->changed);
	}
	pthread_mutex_unlock(&server->lock);
}

void berth_rpc_server_free(struct berth_rpc_server *server)
{
	grpc.server_destroy(server->server);
	berth_rpc_poller_pass();
	berth_rpc_pool_stop(server->pool);
	berth_rpc_writer_stop(server->writer);
	for (size_t i = 0; i < server->served_count; i++) {
		berth_rpc_methods_clear(&server->served[i].method, 1);
	}
	free(server->served);
	free(server->accepts);
	berth_rpc_health_free(server->health);
	if (server->peers) {
		berth_rpc_peers_free(server->peers);
	}
	pthread_cond_destroy(&server->changed);
	pthread_mutex_destroy(&server->lock);
	free(server);
	berth_rpc_poller_release();
	berth_rpc_library_release();
}

static bool no_call_lives(const struct berth_rpc_server *server)
{
	return server->live == 0;
}

static bool is_shut_down(const struct berth_rpc_server *server)
{
	return server->shut_down;
}

static bool is_over(const struct berth_rpc_server *server)
{
	return server->shut_down && server->live == 0 && server->armed == 0;
}

// Under the server's lock. Negative: without a limit.
static bool wait_until(
	struct berth_rpc_server *server, bool (*reached)(const struct berth_rpc_server *server), int64_t ms)
{
	struct timespec end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	int64_t ns = end.tv_nsec + (ms > 0 ? ms : 0) % 1000 * BERTH_NS_PER_MS;
	end.tv_sec += (ms > 0 ? ms : 0) / 1000 + ns / BERTH_NS_PER_S;
	end.tv_nsec = ns % BERTH_NS_PER_S;
	int status = 0;
	while (!reached(server) && status == 0) {
		status = ms < 0 ? pthread_cond_wait(&server->changed, &server->lock)
		                : pthread_cond_timedwait(&server->changed, &server->lock, &end);
	}
	return reached(server);
}

void berth_rpc_server_stop(struct berth_rpc_server *server, int64_t grace_ms)
{
	pthread_mutex_lock(&server->lock);
	server->stopping = true;
	pthread_mutex_unlock(&server->lock);
	berth_rpc_health_stop(server->health);
	BERTH_HAND_OVER(&server->shutdown_tag);
	grpc.server_shutdown_and_notify(server->server, server->queue, &server->shutdown_tag);

	pthread_mutex_lock(&server->lock);
	if (wait_until(server, no_call_lives, grace_ms > 0 ? grace_ms : 0)) {
		wait_until(server, is_shut_down, GOODBYE_MS);
	}
	bool over = is_over(server);
	pthread_mutex_unlock(&server->lock);
	if (!over) {
		grpc.server_cancel_all_calls(server->server);
	}
	pthread_mutex_lock(&server->lock);
	wait_until(server, is_over, -1);
	pthread_mutex_unlock(&server->lock);
	berth_rpc_server_free(server);
}
