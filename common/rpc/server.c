// SPDX-License-Identifier: Apache-2.0
// The start of a server, its armed requests, and where a completion goes.
#include "common/rpc/server.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rpc/poller.h"
#include "common/rpc/server_internal.h"
#include "health_set.h"

#define SERVICES_MAX       64
#define HANDSHAKE_MS       20000 // what a connection may take to become one
#define PING_INTERVAL_MS   5000  // clients may ping this often: those of 20 s are far from it
#define PING_INTERVAL_PART 4     // of the server's own interval, where that is shorter

static const struct berth_rpc_handler *find_handler(const struct berth_rpc_service *service, const char *method)
{
	for (size_t i = 0; i < service->handlers_count; i++) {
		if (strcmp(service->handlers[i].method, method) == 0) {
			return &service->handlers[i];
		}
	}
	return NULL;
}

static bool check_handlers(const struct berth_rpc_service *service, struct berth_error *err)
{
	for (size_t i = 0; i < service->handlers_count; i++) {
		const struct berth_rpc_handler *handler = &service->handlers[i];
		if (!protobuf_c_service_descriptor_get_method_by_name(service->descriptor, handler->method)) {
			return berth_fail(err, BERTH_ERROR_NOT_FOUND,
				"there is a handler for %s.%s, but no such method", service->descriptor->name,
				handler->method);
		}
		if (find_handler(service, handler->method) != handler || !handler->message || handler->roles == 0) {
			return berth_fail(err, BERTH_ERROR_INVALID,
				"%s.%s needs one handler, with a message callback and roles", service->descriptor->name,
				handler->method);
		}
	}
	return true;
}

static bool add_service(struct berth_rpc_server *server, const struct berth_rpc_service *service, const void *set,
	size_t set_size, struct berth_error *err)
{
	unsigned count = service->descriptor->n_methods;
	BERTH_AUTO_FREE struct berth_rpc_method *methods = berth_alloc((count + 1) * sizeof *methods);
	if (!check_handlers(service, err) ||
		!berth_rpc_methods_load(set, set_size, service->descriptor, methods, err)) {
		return false;
	}
	server->served = berth_realloc_array(server->served, server->served_count + count, sizeof *server->served);
	for (unsigned i = 0; i < count; i++) {
		const struct berth_rpc_handler *handler = find_handler(service, service->descriptor->methods[i].name);
		server->served[server->served_count++] = (struct berth_rpc_served){
			.method = methods[i],
			.handler = handler ? *handler : (struct berth_rpc_handler){0},
			.handled = handler != NULL,
			.context = service->context,
		};
	}
	return true;
}

static bool add_services(
	struct berth_rpc_server *server, const struct berth_rpc_server_options *options, struct berth_error *err)
{
	if (options->services_count > SERVICES_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%zu services are more than %d", options->services_count,
			SERVICES_MAX);
	}
	for (size_t i = 0; i < options->services_count; i++) {
		if (!add_service(server, &options->services[i], options->descriptor_set, options->descriptor_set_size,
			    err)) {
			return false;
		}
	}
	struct berth_rpc_handler handlers[BERTH_RPC_HEALTH_METHODS];
	struct berth_rpc_service health = berth_rpc_health_service(server->health, handlers);
	return add_service(server, &health, berth_rpc_health_set, berth_rpc_health_set_size, err);
}

static grpc_arg int_arg(const char *key, int64_t value)
{
	grpc_arg arg = {.type = GRPC_ARG_INTEGER, .key = (char *)key};
	arg.value.integer = value > INT32_MAX ? INT32_MAX : (int)value;
	return arg;
}

static grpc_server *create(const struct berth_rpc_server_options *options)
{
	int64_t keepalive_ms = options->keepalive_ms ? options->keepalive_ms : BERTH_RPC_KEEPALIVE_MS;
	int64_t ping_ms = keepalive_ms / PING_INTERVAL_PART;
	grpc_arg args[] = {
		// With it a second server would bind the same port silently and take half of the clients.
		int_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),
		int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, BERTH_RPC_MESSAGE_SIZE_MAX),
		int_arg(GRPC_ARG_MAX_METADATA_SIZE, BERTH_RPC_METADATA_SIZE_MAX),
		// A fixed window: the probes that would fit it to the line wake both sides with every message.
		int_arg(GRPC_ARG_HTTP2_BDP_PROBE, 0),
		int_arg(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, BERTH_RPC_WINDOW_BYTES),
		int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, BERTH_RPC_STREAMS_MAX),
		int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, BERTH_RPC_COMPRESSION_NONE_BITS),
		int_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS),
		int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms),
		int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, BERTH_RPC_KEEPALIVE_TIMEOUT_MS),
		int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
		int_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
		int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
			ping_ms < PING_INTERVAL_MS ? ping_ms : PING_INTERVAL_MS),
	};
	grpc_channel_args list = {BERTH_COUNT(args), args};
	return grpc.server_create(&list, NULL);
}

static bool streams_in(const struct berth_rpc_served *served)
{
	return served->method.kind == BERTH_RPC_CLIENT_STREAM || served->method.kind == BERTH_RPC_BIDI;
}

static bool register_methods(struct berth_rpc_server *server, struct berth_error *err)
{
	for (size_t i = 0; i < server->served_count; i++) {
		struct berth_rpc_served *served = &server->served[i];
		served->registered = grpc.server_register_method(server->server, served->method.path, NULL,
			streams_in(served) ? GRPC_SRM_PAYLOAD_NONE : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
		if (!served->registered) {
			return berth_fail(
				err, BERTH_ERROR_INVALID, "%s is served twice by one server", served->method.path);
		}
	}
	return true;
}

static bool bind_to(
	struct berth_rpc_server *server, const struct berth_rpc_server_options *options, struct berth_error *err)
{
	bool checked = !options->tls || options->tls_checked || berth_rpc_tls_check(options->tls, err);
	grpc_server_credentials *credentials = checked ? berth_rpc_server_credentials(options->tls, err) : NULL;
	if (!credentials) {
		return false;
	}
	if (berth_rpc_address_is_served(options->address)) {
		grpc.server_credentials_release(credentials);
		return berth_fail(
			err, BERTH_ERROR_CONFLICT, "%s is served by another program; stop it first", options->address);
	}
	server->port = grpc.server_add_http2_port(server->server, options->address, credentials);
	grpc.server_credentials_release(credentials);
	return server->port != 0 || berth_rpc_address_fail(options->address, err);
}

static void count_armed(struct berth_rpc_server *server, int change)
{
	pthread_mutex_lock(&server->lock);
	server->armed += change;
	if (server->armed == 0) {
		pthread_cond_broadcast(&server->changed);
	}
	pthread_mutex_unlock(&server->lock);
}

static void arm(struct berth_rpc_server *server, struct berth_rpc_accept *accept)
{
	count_armed(server, 1);
	grpc.metadata_array_init(&accept->metadata);
	accept->payload = NULL;
	BERTH_HAND_OVER(&accept->tag);
	grpc_call_error error = GRPC_CALL_OK;
	if (accept->served) {
		bool payload = !streams_in(accept->served);
		error = grpc.server_request_registered_call(server->server, accept->served->registered, &accept->call,
			&accept->deadline, &accept->metadata, payload ? &accept->payload : NULL, server->queue,
			server->queue, &accept->tag);
	} else {
		grpc.call_details_init(&accept->details);
		error = grpc.server_request_call(server->server, &accept->call, &accept->details, &accept->metadata,
			server->queue, server->queue, &accept->tag);
	}
	if (error != GRPC_CALL_OK) {
		abort(); // as in berth_rpc_call_start
	}
}

static void disarm(struct berth_rpc_accept *accept)
{
	grpc.metadata_array_destroy(&accept->metadata);
	if (!accept->served) {
		grpc.call_details_destroy(&accept->details);
	}
}

static size_t armed_count(const struct berth_rpc_served *served)
{
	return streams_in(served) ? BERTH_RPC_ARMED_STREAM : BERTH_RPC_ARMED_UNARY;
}

static void arm_all(struct berth_rpc_server *server)
{
	size_t count = 1;
	for (size_t i = 0; i < server->served_count; i++) {
		count += armed_count(&server->served[i]);
	}
	server->accepts = berth_alloc(count * sizeof *server->accepts);
	struct berth_rpc_accept *next = server->accepts;
	next++->served = NULL;
	for (size_t i = 0; i < server->served_count; i++) {
		for (size_t j = armed_count(&server->served[i]); j > 0; j--) {
			next++->served = &server->served[i];
		}
	}
	for (size_t i = 0; i < count; i++) {
		server->accepts[i].tag = (struct berth_rpc_tag){BERTH_RPC_TAG_ACCEPT, &server->accepts[i]};
		server->accepts[i].server = server;
		arm(server, &server->accepts[i]);
	}
}

static bool is_stopping(struct berth_rpc_server *server)
{
	pthread_mutex_lock(&server->lock);
	bool stopping = server->stopping;
	pthread_mutex_unlock(&server->lock);
	return stopping;
}

static bool is_shut_down(struct berth_rpc_server *server)
{
	pthread_mutex_lock(&server->lock);
	bool shut_down = server->shut_down;
	pthread_mutex_unlock(&server->lock);
	return shut_down;
}

// gRPC calls a server shut down once its connections are closed, and one of its threads may hand over a call after
// that. Nobody waits for such a call's end, and on a queue that may be closed by now no batch may begin.
static void refuse(struct berth_rpc_accept *accept)
{
	grpc.byte_buffer_destroy(accept->payload);
	grpc.call_cancel(accept->call, NULL);
	grpc.call_unref(accept->call);
	disarm(accept);
}

static void accepted(struct berth_rpc_server *server, struct berth_rpc_accept *accept, bool success)
{
	if (!success) {
		disarm(accept);
		return;
	}
	if (is_shut_down(server)) {
		refuse(accept);
		return;
	}
	struct berth_rpc_call *call = berth_rpc_call_new(server, accept);
	grpc_byte_buffer *payload = accept->payload;
	disarm(accept);
	// Armed again before the call is looked at, so that the next one does not wait for it.
	if (!is_stopping(server)) {
		arm(server, accept);
	}
	berth_rpc_call_accepted(call, payload);
}

static void shut_down(struct berth_rpc_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->shut_down = true;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
}

void berth_rpc_server_completed(struct berth_rpc_tag *tag, bool success)
{
	if (tag->type == BERTH_RPC_TAG_ACCEPT) {
		struct berth_rpc_accept *accept = tag->owner;
		struct berth_rpc_server *server = accept->server;
		accepted(server, accept, success);
		count_armed(server, -1);
	} else if (tag->type == BERTH_RPC_TAG_SHUTDOWN) {
		shut_down(tag->owner);
	} else {
		berth_rpc_call_completed(tag->owner, tag->type, success);
	}
}

static struct berth_rpc_server *server_new(const struct berth_rpc_server_options *options, struct berth_error *err)
{
	grpc_completion_queue *queue;
	if (!berth_rpc_library_hold(err)) {
		return NULL;
	}
	if (!berth_rpc_poller_hold(&queue, err)) {
		berth_rpc_library_release();
		return NULL;
	}
	struct berth_rpc_server *server = berth_alloc(sizeof *server);
	server->queue = queue;
	pthread_mutex_init(&server->lock, NULL);
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&server->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	server->shutdown_tag = (struct berth_rpc_tag){BERTH_RPC_TAG_SHUTDOWN, server};
	server->send_queue_size_max =
		options->send_queue_size_max ? options->send_queue_size_max : BERTH_RPC_SEND_QUEUE_MAX;
	server->peers = options->tls ? berth_rpc_peers_new(options->fleet) : NULL;
	server->health = berth_rpc_health_new(options);
	server->server = create(options);
	grpc.server_register_completion_queue(server->server, server->queue, NULL);
	return server;
}

static bool prepare(
	struct berth_rpc_server *server, const struct berth_rpc_server_options *options, struct berth_error *err)
{
	if (!add_services(server, options, err) || !register_methods(server, err)) {
		return false;
	}
	if (options->threads > 0) {
		server->pool = berth_rpc_pool_start(options->threads, err);
	}
	if (options->writer) {
		server->writer = berth_rpc_writer_start(err);
	}
	return (options->threads <= 0 || server->pool) && (!options->writer || server->writer) &&
	       bind_to(server, options, err);
}

struct berth_rpc_server *berth_rpc_server_listen(
	const struct berth_rpc_server_options *options, struct berth_error *err)
{
	struct berth_rpc_server *server = server_new(options, err);
	if (!server) {
		return NULL;
	}
	if (!prepare(server, options, err)) {
		berth_rpc_server_free(server);
		return NULL;
	}
	return server;
}

void berth_rpc_server_begin(struct berth_rpc_server *server)
{
	grpc.server_start(server->server);
	arm_all(server);
}

struct berth_rpc_server *berth_rpc_server_start(const struct berth_rpc_server_options *options, struct berth_error *err)
{
	struct berth_rpc_server *server = berth_rpc_server_listen(options, err);
	if (server) {
		berth_rpc_server_begin(server);
	}
	return server;
}

int berth_rpc_server_port(const struct berth_rpc_server *server)
{
	return server->port;
}

void berth_rpc_server_set_serving(struct berth_rpc_server *server, bool serving)
{
	berth_rpc_health_set_serving(server->health, serving);
}
