// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health: one state for the whole server, under "" and under the name of each service.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/mem.h"
#include "common/rpc/server_internal.h"
#include "grpc/health/v1/health.pb-c.h"

#define WATCHES_MAX 1024 // more are answered RESOURCE_EXHAUSTED

typedef Grpc__Health__V1__HealthCheckRequest check_request;
typedef Grpc__Health__V1__HealthCheckResponse check_response;
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus status_proto;

#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN
#define UNKNOWN         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__UNKNOWN

struct watch {
	struct berth_rpc_call *call;
	bool known;
	status_proto told;
	struct watch *prev, *next;
};

struct berth_rpc_health {
	char **names; // of the services
	size_t names_count;
	pthread_mutex_t lock; // guards what follows; taken before a call's
	bool serving, stopped;
	struct watch *watches;
	size_t watches_count;
};

struct berth_rpc_health *berth_rpc_health_new(const struct berth_rpc_server_options *options)
{
	struct berth_rpc_health *health = berth_alloc(sizeof *health);
	pthread_mutex_init(&health->lock, NULL);
	health->names_count = options->services_count;
	health->names = berth_alloc((options->services_count + 1) * sizeof *health->names);
	for (size_t i = 0; i < options->services_count; i++) {
		health->names[i] = berth_strdup(options->services[i].descriptor->name);
	}
	return health;
}

void berth_rpc_health_free(struct berth_rpc_health *health)
{
	for (size_t i = 0; i < health->names_count; i++) {
		free(health->names[i]);
	}
	free(health->names);
	pthread_mutex_destroy(&health->lock);
	free(health);
}

static bool is_known(const struct berth_rpc_health *health, const char *name)
{
	bool known = *name == 0 || strcmp(name, grpc__health__v1__health__descriptor.name) == 0;
	for (size_t i = 0; i < health->names_count && !known; i++) {
		known = strcmp(name, health->names[i]) == 0;
	}
	return known;
}

static status_proto status_of(const struct berth_rpc_health *health, bool known)
{
	if (!known) {
		return SERVICE_UNKNOWN;
	}
	return health->serving ? SERVING : NOT_SERVING;
}

static bool answer(struct berth_rpc_call *call, status_proto status)
{
	check_response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	response.status = status;
	return berth_rpc_send(call, &response.base, NULL);
}

static void check(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_rpc_health *health = context;
	const char *name = ((const check_request *)message)->service;
	if (!is_known(health, name)) {
		struct berth_error err;
		berth_fail(&err, BERTH_ERROR_NOT_FOUND, "the server has no service %.200s", name);
		berth_rpc_finish(call, &err);
		return;
	}
	pthread_mutex_lock(&health->lock);
	answer(call, status_of(health, true));
	pthread_mutex_unlock(&health->lock);
	berth_rpc_finish(call, NULL);
}

// Under the lock. A watcher that reads too slowly gets the last state when it reads again.
static void tell_watch(const struct berth_rpc_health *health, struct watch *watch)
{
	status_proto status = status_of(health, watch->known);
	if (status != watch->told && answer(watch->call, status)) {
		watch->told = status;
	}
}

static void finish_watch(struct berth_rpc_call *call, enum berth_error_code code, const char *message)
{
	struct berth_error err;
	berth_fail(&err, code, "%s", message);
	berth_rpc_finish(call, &err);
}

static void watch_begins(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_rpc_health *health = context;
	pthread_mutex_lock(&health->lock);
	if (health->stopped) {
		finish_watch(call, BERTH_ERROR_NOT_SERVING, "the server is stopping");
	} else if (health->watches_count >= WATCHES_MAX) {
		finish_watch(call, BERTH_ERROR_EXHAUSTED, "the server's health has too many watchers");
	} else {
		struct watch *watch = berth_alloc(sizeof *watch);
		*watch = (struct watch){
			.call = call,
			.known = is_known(health, ((const check_request *)message)->service),
			.told = UNKNOWN,
		};
		DL_APPEND(health->watches, watch);
		health->watches_count++;
		berth_rpc_call_set_data(call, watch);
		tell_watch(health, watch);
	}
	pthread_mutex_unlock(&health->lock);
}

static void watch_writable(struct berth_rpc_call *call, void *context)
{
	struct berth_rpc_health *health = context;
	pthread_mutex_lock(&health->lock);
	struct watch *watch = berth_rpc_call_data(call);
	if (watch) {
		tell_watch(health, watch);
	}
	pthread_mutex_unlock(&health->lock);
}

static void watch_ended(struct berth_rpc_call *call, bool cancelled, void *context)
{
	(void)cancelled;
	struct berth_rpc_health *health = context;
	pthread_mutex_lock(&health->lock);
	struct watch *watch = berth_rpc_call_data(call);
	if (watch) {
		DL_DELETE(health->watches, watch);
		health->watches_count--;
		free(watch);
	}
	pthread_mutex_unlock(&health->lock);
}

struct berth_rpc_service berth_rpc_health_service(struct berth_rpc_health *health, struct berth_rpc_handler *handlers)
{
	handlers[0] = (struct berth_rpc_handler){.method = "Check", .roles = BERTH_ROLE_ANYONE, .message = check};
	handlers[1] = (struct berth_rpc_handler){
		.method = "Watch",
		.roles = BERTH_ROLE_ANYONE,
		.message = watch_begins,
		.writable = watch_writable,
		.ended = watch_ended,
	};
	return (struct berth_rpc_service){
		.descriptor = &grpc__health__v1__health__descriptor,
		.handlers = handlers,
		.handlers_count = BERTH_RPC_HEALTH_METHODS,
		.context = health,
	};
}

void berth_rpc_health_set_serving(struct berth_rpc_health *health, bool serving)
{
	pthread_mutex_lock(&health->lock);
	health->serving = serving && !health->stopped;
	struct watch *watch = NULL;
	DL_FOREACH (health->watches, watch) {
		tell_watch(health, watch);
	}
	pthread_mutex_unlock(&health->lock);
}

void berth_rpc_health_stop(struct berth_rpc_health *health)
{
	berth_rpc_health_set_serving(health, false);
	pthread_mutex_lock(&health->lock);
	health->stopped = true;
	struct watch *watch = NULL;
	DL_FOREACH (health->watches, watch) {
		finish_watch(watch->call, BERTH_ERROR_NOT_SERVING, "the server is stopping");
	}
	pthread_mutex_unlock(&health->lock);
}
