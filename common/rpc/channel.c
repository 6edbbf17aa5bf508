// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rpc/client_internal.h"

#define SERVICES_MAX       64
#define QUEUES_KEPT_MAX    64
#define RECONNECT_MS_MAX   5000
#define RECONNECT_MS_FIRST 100
#define CONNECT_MS_LEAST   5000 // what an attempt gets at least; a refused one fails at once all the same

struct known_service {
	const ProtobufCServiceDescriptor *descriptor;
	struct berth_rpc_channel_method *methods;
	size_t methods_count;
};

struct berth_rpc_channel {
	grpc_channel *channel;
	char *address;
	void *set;
	size_t set_size;
	pthread_mutex_t lock; // guards what follows
	struct known_service services[SERVICES_MAX];
	size_t services_count;
	grpc_completion_queue *queues[QUEUES_KEPT_MAX];
	size_t queues_count;
};

static grpc_arg int_arg(const char *key, int64_t value)
{
	grpc_arg arg = {.type = GRPC_ARG_INTEGER, .key = (char *)key};
	arg.value.integer = value > INT32_MAX ? INT32_MAX : (int)value;
	return arg;
}

static grpc_arg text_arg(const char *key, const char *value)
{
	return (grpc_arg){.type = GRPC_ARG_STRING, .key = (char *)key, .value.string = (char *)value};
}

static grpc_channel *connect_to(const struct berth_rpc_channel_options *options, grpc_channel_credentials *credentials)
{
	int64_t pause_ms = options->reconnect_ms_max ? options->reconnect_ms_max : RECONNECT_MS_MAX;
	int64_t keepalive_ms = options->keepalive_ms ? options->keepalive_ms : BERTH_RPC_KEEPALIVE_MS;
	grpc_arg args[] = {
		int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, BERTH_RPC_MESSAGE_SIZE_MAX),
		int_arg(GRPC_ARG_MAX_METADATA_SIZE, BERTH_RPC_METADATA_SIZE_MAX),
		// A fixed window: the probes that would fit it to the line wake both sides with every message.
		int_arg(GRPC_ARG_HTTP2_BDP_PROBE, 0),
		int_arg(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, BERTH_RPC_WINDOW_BYTES),
		// Who calls knows what may be tried again; the library does not.
		int_arg(GRPC_ARG_ENABLE_RETRIES, 0),
		int_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
		int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
		int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
		int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, BERTH_RPC_COMPRESSION_NONE_BITS),
		int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms),
		int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, BERTH_RPC_KEEPALIVE_TIMEOUT_MS),
		int_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
		int_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
			pause_ms < RECONNECT_MS_FIRST ? pause_ms : RECONNECT_MS_FIRST),
		int_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_MS_LEAST),
		int_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, pause_ms),
		text_arg(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, options->server_name),
	};
	size_t count = BERTH_COUNT(args) - (options->tls && options->server_name ? 0 : 1);
	grpc_channel_args list = {count, args};
	return grpc.channel_create(options->address, credentials, &list);
}

struct berth_rpc_channel *berth_rpc_channel_new(
	const struct berth_rpc_channel_options *options, struct berth_error *err)
{
	if (!berth_rpc_set_check(options->descriptor_set, options->descriptor_set_size, err)) {
		return NULL;
	}
	if (!berth_rpc_library_hold(err)) {
		return NULL;
	}
	grpc_channel_credentials *credentials = berth_rpc_channel_credentials(options->tls, err);
	if (!credentials) {
		berth_rpc_library_release();
		return NULL;
	}
	struct berth_rpc_channel *channel = berth_alloc(sizeof *channel);
	pthread_mutex_init(&channel->lock, NULL);
	channel->address = berth_strdup(options->address);
	channel->set = berth_memdup(options->descriptor_set, options->descriptor_set_size);
	channel->set_size = options->descriptor_set_size;
	channel->channel = connect_to(options, credentials);
	grpc.channel_credentials_release(credentials);
	return channel;
}

static void destroy_queue(grpc_completion_queue *queue)
{
	grpc.completion_queue_shutdown(queue);
	// Nothing is in it, but a queue may be destroyed only after it has said that it is shut down.
	grpc_event event;
	do {
		event = grpc.completion_queue_pluck(queue, NULL, gpr.inf_future(GPR_CLOCK_MONOTONIC), NULL);
	} while (event.type != GRPC_QUEUE_SHUTDOWN);
	grpc.completion_queue_destroy(queue);
}

static void methods_free(struct berth_rpc_channel_method *methods, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		berth_rpc_methods_clear(&methods[i].method, 1);
	}
	free(methods);
}

void berth_rpc_channel_free(struct berth_rpc_channel *channel)
{
	if (!channel) {
		return;
	}
	grpc.channel_destroy(channel->channel);
	for (size_t i = 0; i < channel->queues_count; i++) {
		destroy_queue(channel->queues[i]);
	}
	for (size_t i = 0; i < channel->services_count; i++) {
		methods_free(channel->services[i].methods, channel->services[i].methods_count);
	}
	pthread_mutex_destroy(&channel->lock);
	free(channel->set);
	free(channel->address);
	free(channel);
	berth_rpc_library_release();
}

const char *berth_rpc_channel_address(const struct berth_rpc_channel *channel)
{
	return channel->address;
}

static struct known_service *learn(
	struct berth_rpc_channel *channel, const ProtobufCServiceDescriptor *service, struct berth_error *err)
{
	if (channel->services_count == SERVICES_MAX) {
		berth_fail(err, BERTH_ERROR_EXHAUSTED, "one channel calls at most %d services", SERVICES_MAX);
		return NULL;
	}
	BERTH_AUTO_FREE struct berth_rpc_method *methods = berth_alloc((service->n_methods + 1) * sizeof *methods);
	if (!berth_rpc_methods_load(channel->set, channel->set_size, service, methods, err)) {
		return NULL;
	}
	struct known_service *known = &channel->services[channel->services_count++];
	known->descriptor = service;
	known->methods_count = service->n_methods;
	known->methods = berth_alloc((service->n_methods + 1) * sizeof *known->methods);
	for (unsigned i = 0; i < service->n_methods; i++) {
		known->methods[i].method = methods[i];
		known->methods[i].registered =
			grpc.channel_register_call(channel->channel, methods[i].path, NULL, NULL);
	}
	return known;
}

static struct known_service *find_service(
	struct berth_rpc_channel *channel, const ProtobufCServiceDescriptor *service, struct berth_error *err)
{
	for (size_t i = 0; i < channel->services_count; i++) {
		if (channel->services[i].descriptor == service) {
			return &channel->services[i];
		}
	}
	return learn(channel, service, err);
}

const struct berth_rpc_channel_method *berth_rpc_channel_find(struct berth_rpc_channel *channel,
	const ProtobufCServiceDescriptor *service, const char *method, struct berth_error *err)
{
	pthread_mutex_lock(&channel->lock);
	const struct known_service *known = find_service(channel, service, err);
	pthread_mutex_unlock(&channel->lock);
	if (!known) {
		return NULL;
	}
	const ProtobufCMethodDescriptor *found = protobuf_c_service_descriptor_get_method_by_name(service, method);
	if (!found) {
		berth_fail(err, BERTH_ERROR_NOT_FOUND, "%s has no method %s", service->name, method);
		return NULL;
	}
	return &known->methods[found - service->methods];
}

grpc_completion_queue *berth_rpc_channel_take_queue(struct berth_rpc_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	grpc_completion_queue *queue = channel->queues_count ? channel->queues[--channel->queues_count] : NULL;
	pthread_mutex_unlock(&channel->lock);
	return queue ? queue : grpc.completion_queue_create_for_pluck(NULL);
}

void berth_rpc_channel_give_queue(struct berth_rpc_channel *channel, grpc_completion_queue *queue)
{
	pthread_mutex_lock(&channel->lock);
	bool kept = channel->queues_count < QUEUES_KEPT_MAX;
	if (kept) {
		channel->queues[channel->queues_count++] = queue;
	}
	pthread_mutex_unlock(&channel->lock);
	if (!kept) {
		destroy_queue(queue);
	}
}

grpc_call *berth_rpc_channel_call(struct berth_rpc_channel *channel, const struct berth_rpc_channel_method *method,
	grpc_completion_queue *queue, int64_t deadline_ns)
{
	return grpc.channel_create_registered_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
		method->registered, berth_rpc_deadline(deadline_ns), NULL);
}

bool berth_rpc_request_check(
	const struct berth_rpc_method *method, const ProtobufCMessage *request, struct berth_error *err)
{
	if (request->descriptor != method->input) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s takes %s, not %s", method->path, method->input->name,
			request->descriptor->name);
	}
	size_t size = protobuf_c_message_get_packed_size(request);
	if (size > BERTH_RPC_MESSAGE_SIZE_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s: a request of %zu bytes is longer than %d allow",
			method->path, size, BERTH_RPC_MESSAGE_SIZE_MAX);
	}
	return true;
}
