// SPDX-License-Identifier: Apache-2.0
// How many calls and messages a second our server and client move over loopback, and the
// CPU time that the server took for one, which says more where the machine is shared.
//
// rpc_bench [SECONDS [PART]]: for plain text and mutual TLS, unary calls from one and from 64 threads of our client,
// unary calls from a load that keeps 64 in flight on one completion queue, messages of one stream each way, and echoes
// of a chat with 64 messages in flight.
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cancel.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/rpc/client.h"
#include "echo.pb-c.h"
#include "echo_set.h"
#include "tests/unit/rpc/certificates.h"
#include "tests/unit/rpc/echo_server.h"

#define IN_FLIGHT 64
#define ECHO      (&berth__test__v1__echo__descriptor)

struct bench {
	const char *name;
	const char *address;
	struct berth_rpc_channel *channel;
	const struct berth_rpc_tls *tls;
	double seconds;
	pid_t server;
	double cpu_us; // of the server when the part began
	atomic_bool over;
	atomic_long done;
};

static void must(bool condition, const struct berth_error *err)
{
	if (!condition) {
		fprintf(stderr, "%s\n", err->message);
		exit(1);
	}
}

static struct berth_until forever(void)
{
	return (struct berth_until){BERTH_NO_DEADLINE_NS, NULL};
}

static double cpu_us(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	unsigned long user = 0;
	unsigned long system = 0;
	FILE *file = fopen(path, "r");
	if (!file ||
		fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) {
		exit(1);
	}
	fclose(file);
	return (double)(user + system) * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

static void report(const struct bench *bench, const char *what, long count, int64_t began_ns)
{
	double seconds = (double)(berth_boot_ns() - began_ns) / 1e9;
	double us = cpu_us(bench->server) - bench->cpu_us;
	printf("%-6s %-36s %9.0f/s  server %6.1f us CPU each\n", bench->name, what, (double)count / seconds,
		us / (double)count);
	fflush(stdout);
}

static void *unary_run(void *context)
{
	struct bench *bench = context;
	Berth__Test__V1__Text request = BERTH__TEST__V1__TEXT__INIT;
	request.text = (char *)"hello";
	while (!atomic_load(&bench->over)) {
		ProtobufCMessage *response = NULL;
		struct berth_error err;
		must(berth_rpc_unary(bench->channel, ECHO, "Say", &request.base, &response, forever(), &err), &err);
		protobuf_c_message_free_unpacked(response, NULL);
		atomic_fetch_add(&bench->done, 1);
	}
	return NULL;
}

static void unary(struct bench *bench, int threads_count)
{
	pthread_t threads[IN_FLIGHT];
	atomic_store(&bench->over, false);
	atomic_store(&bench->done, 0);
	int64_t began = berth_boot_ns();
	for (int i = 0; i < threads_count; i++) {
		pthread_create(&threads[i], NULL, unary_run, bench);
	}
	berth_sleep_ms((int64_t)(bench->seconds * 1000), forever(), NULL);
	atomic_store(&bench->over, true);
	for (int i = 0; i < threads_count; i++) {
		pthread_join(threads[i], NULL);
	}
	char what[64];
	snprintf(what, sizeof what, "unary, our client, %d thread(s)", threads_count);
	report(bench, what, atomic_load(&bench->done), began);
}

// A load straight on the library: what our server bears when the client is cheap.
struct raw {
	grpc_call *call;
	grpc_metadata_array headers, trailers;
	grpc_byte_buffer *request, *response;
	grpc_status_code status;
	grpc_slice message;
};

static void raw_start(struct raw *raw, grpc_channel *channel, void *method, grpc_completion_queue *queue)
{
	grpc_slice hello = grpc_slice_from_static_string("\x0a\x05hello");
	*raw = (struct raw){.message = grpc_empty_slice(), .request = grpc_raw_byte_buffer_create(&hello, 1)};
	raw->call = grpc_channel_create_registered_call(
		channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, method, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	grpc_op ops[] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = raw->request},
		{.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
		{.op = GRPC_OP_RECV_INITIAL_METADATA,
			.data.recv_initial_metadata.recv_initial_metadata = &raw->headers},
		{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &raw->response},
		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
			.data.recv_status_on_client = {.trailing_metadata = &raw->trailers,
				.status = &raw->status,
				.status_details = &raw->message}},
	};
	grpc_call_start_batch(raw->call, ops, BERTH_COUNT(ops), raw, NULL);
}

static void raw_end(struct raw *raw)
{
	must(raw->status == GRPC_STATUS_OK, &(struct berth_error){.message = "a raw call failed"});
	grpc_byte_buffer_destroy(raw->request);
	grpc_byte_buffer_destroy(raw->response);
	grpc_slice_unref(raw->message);
	grpc_metadata_array_destroy(&raw->headers);
	grpc_metadata_array_destroy(&raw->trailers);
	grpc_call_unref(raw->call);
}

static grpc_channel *raw_channel(const struct bench *bench)
{
	if (!bench->tls) {
		grpc_channel_credentials *plain = grpc_insecure_credentials_create();
		grpc_channel *channel = grpc_channel_create(bench->address, plain, NULL);
		grpc_channel_credentials_release(plain);
		return channel;
	}
	grpc_ssl_pem_key_cert_pair pair = {bench->tls->key, bench->tls->certificate};
	grpc_channel_credentials *secure = grpc_ssl_credentials_create_ex(bench->tls->authority, &pair, NULL, NULL);
	grpc_channel *channel = grpc_channel_create(bench->address, secure, NULL);
	grpc_channel_credentials_release(secure);
	return channel;
}

static void raw_unary(struct bench *bench)
{
	grpc_channel *channel = raw_channel(bench);
	grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
	void *method = grpc_channel_register_call(channel, "/berth.test.v1.Echo/Say", NULL, NULL);
	struct raw raws[IN_FLIGHT];
	int64_t began = berth_boot_ns();
	int64_t end = began + (int64_t)(bench->seconds * 1e9);
	long done = 0;
	int running = 0;
	for (; running < IN_FLIGHT; running++) {
		raw_start(&raws[running], channel, method, queue);
	}
	while (running > 0) {
		grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
		raw_end(event.tag);
		done++;
		if (berth_boot_ns() < end) {
			raw_start(event.tag, channel, method, queue);
		} else {
			running--;
		}
	}
	report(bench, "unary, raw client, 64 in flight", done, began);
	grpc_completion_queue_shutdown(queue);
	while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
		GRPC_QUEUE_SHUTDOWN) {
	}
	grpc_completion_queue_destroy(queue);
	grpc_channel_destroy(channel);
}

static void server_stream(struct bench *bench)
{
	struct berth_error err;
	struct berth_rpc_stream *stream = berth_rpc_stream_open(bench->channel, ECHO, "Count", forever(), &err);
	must(stream, &err);
	Berth__Test__V1__Number request = BERTH__TEST__V1__NUMBER__INIT;
	request.value = (int64_t)(bench->seconds * 50000);
	must(berth_rpc_stream_send(stream, &request.base, &err), &err);
	int64_t began = berth_boot_ns();
	long count = 0;
	ProtobufCMessage *message = NULL;
	while (berth_rpc_stream_receive(stream, &message, forever(), &err) == BERTH_RPC_MESSAGE) {
		protobuf_c_message_free_unpacked(message, NULL);
		count++;
	}
	must(count == request.value, &err);
	report(bench, "messages of a server stream", count, began);
	berth_rpc_stream_free(stream);
}

static void client_stream(struct bench *bench)
{
	struct berth_error err;
	struct berth_rpc_stream *stream = berth_rpc_stream_open(bench->channel, ECHO, "Join", forever(), &err);
	must(stream, &err);
	Berth__Test__V1__Text request = BERTH__TEST__V1__TEXT__INIT;
	request.text = (char *)"x";
	long count = (long)(bench->seconds * 50000);
	int64_t began = berth_boot_ns();
	for (long i = 0; i < count; i++) {
		must(berth_rpc_stream_send(stream, &request.base, &err), &err);
	}
	must(berth_rpc_stream_close_send(stream, &err), &err);
	ProtobufCMessage *message = NULL;
	must(berth_rpc_stream_receive(stream, &message, forever(), &err) == BERTH_RPC_MESSAGE, &err);
	protobuf_c_message_free_unpacked(message, NULL);
	report(bench, "messages of a client stream", count, began);
	berth_rpc_stream_free(stream);
}

static void chat(struct bench *bench)
{
	struct berth_error err;
	struct berth_rpc_stream *stream = berth_rpc_stream_open(bench->channel, ECHO, "Chat", forever(), &err);
	must(stream, &err);
	Berth__Test__V1__Text request = BERTH__TEST__V1__TEXT__INIT;
	request.text = (char *)"x";
	for (int i = 0; i < IN_FLIGHT; i++) {
		must(berth_rpc_stream_send(stream, &request.base, &err), &err);
	}
	int64_t began = berth_boot_ns();
	int64_t end = began + (int64_t)(bench->seconds * 1e9);
	long count = 0;
	while (berth_boot_ns() < end) {
		ProtobufCMessage *message = NULL;
		must(berth_rpc_stream_receive(stream, &message, forever(), &err) == BERTH_RPC_MESSAGE, &err);
		protobuf_c_message_free_unpacked(message, NULL);
		must(berth_rpc_stream_send(stream, &request.base, &err), &err);
		count++;
	}
	report(bench, "chat round trips, 64 in flight", count, began);
	berth_rpc_stream_free(stream);
}

static void unary_one(struct bench *bench)
{
	unary(bench, 1);
}

static void unary_many(struct bench *bench)
{
	unary(bench, IN_FLIGHT);
}

static const struct {
	const char *name;
	void (*run)(struct bench *bench);
} parts[] = {
	{"unary-1", unary_one},
	{"unary-64", unary_many},
	{"raw", raw_unary},
	{"server-stream", server_stream},
	{"client-stream", client_stream},
	{"chat", chat},
};

// The server's process: says its port, and stops when the parent closes the other pipe.
static void serve(const struct berth_rpc_tls *tls, int port_fd, int stop_fd)
{
	struct berth_error err;
	struct echo *echo = echo_start(&(struct echo_options){.tls = tls, .quiet = true}, &err);
	must(echo, &err);
	int port = berth_rpc_server_port(echo_server(echo));
	must(berth_write_all(port_fd, &port, sizeof port, &err), &err);
	char byte;
	while (read(stop_fd, &byte, 1) > 0) {
	}
	echo_stop(echo, 0);
}

struct child {
	pid_t pid;
	int port, stop_fd;
};

// Two processes, as in use: in one, server and client would share gRPC's one poller and hinder each other. Forks
// before gRPC has a thread.
static struct child server_fork(const struct berth_rpc_tls *tls)
{
	int port_pipe[2];
	int stop_pipe[2];
	if (pipe(port_pipe) != 0 || pipe(stop_pipe) != 0) {
		exit(1);
	}
	struct child child = {.pid = fork(), .stop_fd = stop_pipe[1]};
	if (child.pid == 0) {
		close(stop_pipe[1]);
		serve(tls, port_pipe[1], stop_pipe[0]);
		exit(0);
	}
	close(stop_pipe[0]);
	close(port_pipe[1]);
	if (read(port_pipe[0], &child.port, sizeof child.port) != sizeof child.port) {
		exit(1);
	}
	close(port_pipe[0]);
	return child;
}

static void run(const char *part, const char *name, struct child child, const struct berth_rpc_tls *tls, double seconds)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *address = berth_format("127.0.0.1:%d", child.port);
	struct bench bench = {.name = name, .address = address, .tls = tls, .seconds = seconds, .server = child.pid};
	const struct berth_rpc_channel_options options = {
		.address = address,
		.tls = tls,
		.descriptor_set = echo_set,
		.descriptor_set_size = echo_set_size,
	};
	bench.channel = berth_rpc_channel_new(&options, &err);
	must(bench.channel, &err);
	for (size_t i = 0; i < BERTH_COUNT(parts); i++) {
		if (!part || strcmp(part, parts[i].name) == 0) {
			bench.cpu_us = cpu_us(bench.server);
			parts[i].run(&bench);
		}
	}
	berth_rpc_channel_free(bench.channel);
	close(child.stop_fd);
	waitpid(child.pid, NULL, 0);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 3;
	const char *part = argc > 2 ? argv[2] : NULL;
	struct authority *authority = authority_new("bench");
	struct berth_rpc_tls *server =
		identity_new(authority, authority, "URI:spiffe://fleet-1/coordinator/c,IP:127.0.0.1");
	struct berth_rpc_tls *client = identity_new(authority, authority, "URI:spiffe://fleet-1/agent/a");
	// The second child must not keep the first one's pipe open, so the first to be forked is the last to be used.
	struct child secure = server_fork(server);
	struct child plain = server_fork(NULL);
	run(part, "plain", plain, NULL, seconds);
	run(part, "tls", secure, client, seconds);
	identity_free(server);
	identity_free(client);
	authority_free(authority);
	return 0;
}
