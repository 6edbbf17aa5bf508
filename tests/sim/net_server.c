// SPDX-License-Identifier: Apache-2.0
// common/rpc/server.h: a thread a call, so that the callbacks of one call never run at the same time.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/sim/net_internal.h"

#define SERVICES_MAX 8
#define RETURN_NS    INT64_C(1000000)

struct berth_rpc_server {
	char address[SIM_ADDRESS_SIZE];
	struct sim_process *process;
	unsigned life; // of the process: one that died with its server left is no server any more
	struct berth_rpc_service services[SERVICES_MAX];
	size_t services_count;
	size_t calls;
	bool begun, closing;
	struct berth_rpc_server *next;
};

struct berth_rpc_call {
	struct berth_rpc_server *server; // until the call has ended
	struct sim_process *process;
	struct sim_stream *stream;
	const struct berth_rpc_handler *handler;
	void *context;
	void *data;
	unsigned references;
	unsigned credit;           // messages that were asked for
	struct berth_arena *arena; // of the message that is being told
	bool finished, ended;
};

// --- calls ---
const struct berth_rpc_principal *berth_rpc_call_principal(const struct berth_rpc_call *call)
{
	return &call->stream->principal;
}

struct berth_arena *berth_rpc_keep_message(struct berth_rpc_call *call)
{
	return BERTH_STEAL(call->arena);
}

const char *berth_rpc_call_metadata(const struct berth_rpc_call *call, const char *key)
{
	(void)call, (void)key;
	return NULL;
}

const char *berth_rpc_call_peer(const struct berth_rpc_call *call)
{
	return call->stream->principal.name;
}

int64_t berth_rpc_call_left_ms(const struct berth_rpc_call *call)
{
	(void)call;
	return INT64_MAX;
}

void berth_rpc_call_set_data(struct berth_rpc_call *call, void *data)
{
	call->data = data;
}

void *berth_rpc_call_data(const struct berth_rpc_call *call)
{
	return call->data;
}

struct berth_rpc_call *berth_rpc_call_ref(struct berth_rpc_call *call)
{
	call->references++;
	return call;
}

void berth_rpc_call_unref(struct berth_rpc_call *call)
{
	if (call && --call->references == 0) {
		sim_stream_release(call->stream);
		free(call);
	}
}

static bool is_over(const struct berth_rpc_call *call)
{
	return call->finished || call->ended || call->stream->ends[SIM_SERVER].over || call->process->dead;
}

bool berth_rpc_send(struct berth_rpc_call *call, const ProtobufCMessage *message, struct berth_error *err)
{
	if (is_over(call)) {
		return berth_fail(err, BERTH_ERROR_CANCELLED, "the call is over");
	}
	if (sim_random_chance(&sim_net.random, sim_net.faults.full_per_mille)) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED, "the queue of the call is full");
	}
	if (sim_net.watch.to_agent && call->stream->principal.role == BERTH_ROLE_AGENT) {
		sim_net.watch.to_agent(call->process, call->stream->principal.name, message);
	}
	struct sim_item *item = berth_alloc(sizeof *item);
	item->message = berth_proto_clone(message);
	sim_stream_send(call->stream, SIM_CLIENT, item);
	return true;
}

size_t berth_rpc_send_queue_size(const struct berth_rpc_call *call)
{
	(void)call;
	return 0;
}

void berth_rpc_read_next(struct berth_rpc_call *call)
{
	call->credit++;
	sim_wake(call->process, &call->stream->ends[SIM_SERVER]);
}

// Nothing here begins at once in any case.
void berth_rpc_cork(struct berth_rpc_call *call)
{
	(void)call;
}

void berth_rpc_uncork(struct berth_rpc_call *call, bool behind)
{
	(void)call, (void)behind;
}

void berth_rpc_finish(struct berth_rpc_call *call, const struct berth_error *error)
{
	if (call->finished) {
		return;
	}
	if (!is_over(call)) {
		struct sim_item *item = berth_alloc(sizeof *item);
		item->ends = true;
		item->error = error ? *error : (struct berth_error){0};
		sim_stream_send(call->stream, SIM_CLIENT, item);
	}
	call->finished = true;
	sim_wake(call->process, &call->stream->ends[SIM_SERVER]);
}

static struct sim_item *next_item(struct berth_rpc_call *call)
{
	struct sim_end *end = &call->stream->ends[SIM_SERVER];
	struct sim_item *item = call->credit ? end->arrived : NULL;
	if (item) {
		DL_DELETE(end->arrived, item);
	}
	return item;
}

static void *run_call(void *context)
{
	struct berth_rpc_call *call = context;
	struct sim_end *end = &call->stream->ends[SIM_SERVER];
	const struct berth_rpc_handler *handler = call->handler;
	if (handler->begin) {
		handler->begin(call, call->context);
	} else {
		call->credit = 1;
	}
	while (!is_over(call) && !call->server->closing) {
		struct sim_item *item = next_item(call);
		if (!item) {
			sim_wait(end, SIM_NEVER);
			continue;
		}
		if (item->ends && handler->half_closed) {
			handler->half_closed(call, call->context);
		} else if (item->message) {
			call->credit--;
			call->arena = berth_arena_new(0);
			handler->message(call, berth_proto_copy_in(call->arena, item->message), call->context);
			berth_arena_free(BERTH_STEAL(call->arena));
		}
		berth_proto_free(item->message);
		free(item);
	}
	bool cancelled = !call->finished;
	call->ended = true;
	// What was sent before still arrives.
	int64_t left_ns = call->stream->ends[SIM_CLIENT].newest_due_ns - sim_now();
	sim_stream_break(call->stream, (left_ns > 0 ? left_ns : 0) + RETURN_NS, 0);
	sim_stream_end(call->stream, SIM_SERVER);
	if (handler->ended) {
		handler->ended(call, cancelled, call->context);
	}
	call->server->calls--;
	sim_wake(call->server->process, call->server);
	berth_rpc_call_unref(call);
	return NULL;
}

// --- servers ---
static const struct berth_rpc_handler *find_handler(
	const struct berth_rpc_server *server, const struct sim_stream *stream, void **context)
{
	for (size_t i = 0; i < server->services_count; i++) {
		const struct berth_rpc_service *service = &server->services[i];
		if (strcmp(service->descriptor->name, stream->service) != 0) {
			continue;
		}
		for (size_t j = 0; j < service->handlers_count; j++) {
			if (strcmp(service->handlers[j].method, stream->method) == 0) {
				*context = service->context;
				return &service->handlers[j];
			}
		}
	}
	return NULL;
}

static struct berth_rpc_server *server_at(const struct sim_stream *stream)
{
	struct berth_rpc_server *server;
	LL_FOREACH (sim_net.servers, server) {
		void *context;
		bool lives = server->begun && !server->closing && !server->process->dead &&
		             server->life == server->process->life;
		if (lives && strcmp(server->address, stream->address) == 0 && find_handler(server, stream, &context)) {
			return server;
		}
	}
	return NULL;
}

void sim_stream_accept(struct sim_stream *stream)
{
	if (stream->broken || sim_net.links[stream->link].blocked[0]) {
		return; // it is tried again with what is sent on it, until the client gives up
	}
	struct berth_rpc_server *server = server_at(stream);
	if (!server) {
		sim_stream_break(stream, RETURN_NS, 0); // connection refused
		return;
	}
	stream->accepted = true;
	stream->ends[SIM_SERVER].process = server->process;
	struct berth_rpc_call *call = berth_alloc(sizeof *call);
	call->server = server;
	call->process = server->process;
	call->stream = stream;
	call->handler = find_handler(server, stream, &call->context);
	call->references = 1;
	stream->references++;
	server->calls++;
	sim_thread_detach(sim_thread_begin(server->process, run_call, call));
}

// There is no TLS here.
bool berth_rpc_tls_check(const struct berth_rpc_tls *tls, struct berth_error *err)
{
	(void)tls, (void)err;
	return true;
}

struct berth_rpc_server *berth_rpc_server_listen(
	const struct berth_rpc_server_options *options, struct berth_error *err)
{
	(void)err;
	struct berth_rpc_server *server = berth_alloc(sizeof *server);
	snprintf(server->address, sizeof server->address, "%s", options->address);
	server->process = sim_self();
	server->life = server->process->life;
	server->services_count = options->services_count;
	memcpy(server->services, options->services, options->services_count * sizeof *options->services);
	LL_PREPEND(sim_net.servers, server);
	return server;
}

void berth_rpc_server_begin(struct berth_rpc_server *server)
{
	server->begun = true;
}

int berth_rpc_server_port(const struct berth_rpc_server *server)
{
	(void)server;
	return 0;
}

void berth_rpc_server_set_serving(struct berth_rpc_server *server, bool serving)
{
	(void)server, (void)serving;
}

void berth_rpc_server_stop(struct berth_rpc_server *server, int64_t grace_ms)
{
	(void)grace_ms;
	server->closing = true;
	struct sim_stream *stream;
	DL_FOREACH (sim_net.streams, stream) {
		if (stream->ends[SIM_SERVER].process == server->process) {
			sim_wake(server->process, &stream->ends[SIM_SERVER]);
		}
	}
	while (server->calls) {
		sim_wait(server, SIM_NEVER);
	}
	LL_DELETE(sim_net.servers, server);
	free(server);
}
