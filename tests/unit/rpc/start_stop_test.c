// SPDX-License-Identifier: Apache-2.0
// Servers that start, stop and refuse to start.
#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "other_set.h"
#include "tests/unit/rpc/client_support.h"

#define LOOPS         200
#define EARLY_MS      100
#define LOAD_THREADS  2
#define CLEANUP_TRIES 12000 // of 10 ms: a connection that was just being made holds the library until its time is up

static void a_second_server_on_one_port_is_a_conflict(void **state)
{
	(void)state;
	struct echo *echo = must_start(&(struct echo_options){0});
	struct berth_error err;
	assert_fails(echo_start(&(struct echo_options){.address = echo_address(echo)}, &err), err, BERTH_ERROR_CONFLICT,
		echo_address(echo));
	struct berth_rpc_channel *channel = must_connect(echo_address(echo), NULL);
	BERTH_AUTO_FREE char *answer = say(channel, "mine", &err);
	assert_ok(answer, err);
	berth_rpc_channel_free(channel);
	echo_stop(echo, 0);
}

static void addresses_that_cannot_be_listened_on_are_named(void **state)
{
	(void)state;
	const char *addresses[] = {"no-colon", "192.0.2.1:1", "nowhere.invalid:1", "unix:/nowhere/at/all"};
	for (size_t i = 0; i < BERTH_COUNT(addresses); i++) {
		struct berth_error err = {0};
		assert_null(echo_start(&(struct echo_options){.address = addresses[i]}, &err));
		assert_non_null(strstr(err.message, addresses[i]));
		assert_int_not_equal(err.code, BERTH_ERROR_CONFLICT);
	}
}

static void nop(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)call, (void)message, (void)context;
}

static struct berth_rpc_server *listen_with(
	const struct berth_rpc_handler *handler, const void *set, size_t set_size, struct berth_error *err)
{
	const struct berth_rpc_service service = {.descriptor = ECHO, .handlers = handler, .handlers_count = 1};
	const struct berth_rpc_server_options options = {
		.address = "127.0.0.1:0",
		.services = &service,
		.services_count = 1,
		.descriptor_set = set,
		.descriptor_set_size = set_size,
	};
	return berth_rpc_server_listen(&options, err);
}

static void a_set_that_differs_from_the_program_is_named_at_the_start(void **state)
{
	(void)state;
	const struct berth_rpc_handler handler = {.method = "Say", .roles = BERTH_ROLE_ANYONE, .message = nop};
	struct berth_error err;
	assert_fails(listen_with(&handler, other_set, other_set_size, &err), err, BERTH_ERROR_CONFLICT,
		"berth.test.v1.Echo.Say");
	assert_fails(listen_with(&handler, "", 0, &err), err, BERTH_ERROR_NOT_FOUND, "berth.test.v1.Echo");
	assert_fails(listen_with(&handler, "garbage", 7, &err), err, BERTH_ERROR_CORRUPT, "descriptor set");
	const struct berth_rpc_channel_options options = {
		.address = "127.0.0.1:1", .descriptor_set = other_set, .descriptor_set_size = other_set_size};
	struct berth_rpc_channel *channel = berth_rpc_channel_new(&options, &err);
	assert_ok(channel, err);
	assert_fails(say(channel, "x", &err), err, BERTH_ERROR_CONFLICT, "berth.test.v1.Echo.Say");
	berth_rpc_channel_free(channel);
	const struct berth_rpc_channel_options garbage = {
		.address = "127.0.0.1:1", .descriptor_set = "garbage", .descriptor_set_size = 7};
	assert_fails(berth_rpc_channel_new(&garbage, &err), err, BERTH_ERROR_CORRUPT, "descriptor set");
}

static void a_handler_without_a_method_or_a_role_is_named_at_the_start(void **state)
{
	(void)state;
	const struct berth_rpc_handler stray = {.method = "Sing", .roles = BERTH_ROLE_ANYONE, .message = nop};
	const struct berth_rpc_handler open = {.method = "Say", .message = nop};
	struct berth_error err;
	assert_fails(listen_with(&stray, echo_set, echo_set_size, &err), err, BERTH_ERROR_NOT_FOUND, "Echo.Sing");
	assert_fails(listen_with(&open, echo_set, echo_set_size, &err), err, BERTH_ERROR_INVALID, "Echo.Say");
}

static void fail_at_once(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message, (void)context;
	const struct berth_error error = {.code = BERTH_ERROR_NOT_FOUND, .message = "served"};
	berth_rpc_finish(call, &error);
}

struct early {
	struct berth_rpc_channel *channel;
	atomic_bool answered;
	struct berth_error err;
};

static void *call_early(void *context)
{
	struct early *early = context;
	BERTH_AUTO_FREE char *answer = say(early->channel, "early", &early->err);
	atomic_store(&early->answered, true);
	return NULL;
}

static void a_client_that_comes_before_the_server_begins_waits(void **state)
{
	(void)state;
	const struct berth_rpc_handler handler = {.method = "Say", .roles = BERTH_ROLE_ANYONE, .message = fail_at_once};
	struct berth_error err;
	struct berth_rpc_server *server = listen_with(&handler, echo_set, echo_set_size, &err);
	assert_ok(server, err);
	BERTH_AUTO_FREE char *address = berth_format("127.0.0.1:%d", berth_rpc_server_port(server));
	struct early early = {.channel = must_connect(address, NULL)};
	pthread_t thread;
	pthread_create(&thread, NULL, call_early, &early);
	berth_sleep_ms(EARLY_MS, soon(), NULL);
	assert_false(atomic_load(&early.answered));
	berth_rpc_server_begin(server);
	pthread_join(thread, NULL);
	assert_int_equal(early.err.code, BERTH_ERROR_NOT_FOUND);
	berth_rpc_channel_free(early.channel);
	berth_rpc_server_stop(server, 0);
}

static void a_server_that_never_began_stops(void **state)
{
	(void)state;
	const struct berth_rpc_handler handler = {.method = "Say", .roles = BERTH_ROLE_ANYONE, .message = nop};
	struct berth_error err;
	struct berth_rpc_server *server = listen_with(&handler, echo_set, echo_set_size, &err);
	assert_ok(server, err);
	berth_rpc_server_stop(server, 0);
}

static void stop_cancels_what_outlives_the_grace(void **state)
{
	(void)state;
	struct echo *echo = must_start(&(struct echo_options){0});
	struct berth_rpc_channel *channel = must_connect(echo_address(echo), NULL);
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(channel, "Count");
	assert_ok(send_number(stream, -1, 0, &err), err);
	assert_true(echo_wait(echo, "Count begin", 1));
	echo_stop(echo, 0);
	ProtobufCMessage *message = NULL;
	assert_int_equal(berth_rpc_stream_receive(stream, &message, soon(), &err), BERTH_RPC_FAILED);
	berth_rpc_stream_free(stream);
	berth_rpc_channel_free(channel);
}

static void *stop_with_grace(void *context)
{
	echo_stop(context, LONG_MS);
	return NULL;
}

static void stop_lets_a_running_call_finish(void **state)
{
	(void)state;
	struct echo *echo = must_start(&(struct echo_options){0});
	struct berth_rpc_channel *channel = must_connect(echo_address(echo), NULL);
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(channel, "Chat");
	assert_ok(send_text(stream, "before", &err), err);
	must_receive_text(stream, "before");
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, stop_with_grace, echo), 0);
	assert_ok(send_text(stream, "during", &err), err);
	must_receive_text(stream, "during");
	assert_ok(berth_rpc_stream_close_send(stream, &err), err);
	must_end(stream);
	pthread_join(thread, NULL);
	berth_rpc_stream_free(stream);
	berth_rpc_channel_free(channel);
}

struct load {
	const char *address;
	atomic_bool over;
	atomic_int answered;
};

static void *load_run(void *context)
{
	struct load *load = context;
	struct berth_rpc_channel *channel = must_connect(load->address, NULL);
	struct berth_error err;
	while (!atomic_load(&load->over)) {
		char *answer = say(channel, "load", &err);
		atomic_fetch_add(&load->answered, answer != NULL);
		free(answer);
		struct berth_rpc_stream *stream = berth_rpc_stream_open(channel, ECHO, "Chat", soon(), &err);
		if (stream && send_text(stream, "load", &err)) {
			ProtobufCMessage *message = NULL;
			if (berth_rpc_stream_receive(stream, &message, soon(), &err) == BERTH_RPC_MESSAGE) {
				protobuf_c_message_free_unpacked(message, NULL);
			}
		}
		berth_rpc_stream_free(stream);
	}
	berth_rpc_channel_free(channel);
	return NULL;
}

static void servers_start_and_stop_under_load(void **state)
{
	(void)state;
	for (int i = 0; i < LOOPS; i++) {
		struct echo *echo = must_start(&(struct echo_options){.threads = i % 3});
		BERTH_AUTO_FREE char *address = berth_strdup(echo_address(echo)); // outlives the server
		struct load load = {.address = address};
		pthread_t threads[LOAD_THREADS];
		for (int j = 0; j < LOAD_THREADS; j++) {
			assert_int_equal(pthread_create(&threads[j], NULL, load_run, &load), 0);
		}
		assert_true(echo_wait(echo, "Chat message load", 2));
		echo_stop(echo, i % 2 ? 20 : 0);
		atomic_store(&load.over, true);
		for (int j = 0; j < LOAD_THREADS; j++) {
			pthread_join(threads[j], NULL);
		}
		assert_true(atomic_load(&load.answered) > 0);
	}
}

static void the_library_cleans_up_after_the_last_user(void **state)
{
	(void)state;
	struct berth_error err;
	assert_true(berth_rpc_library_hold(&err));
	berth_rpc_library_release();
	for (int i = 0; i < CLEANUP_TRIES && grpc_is_initialized(); i++) {
		berth_sleep_ms(10, soon(), NULL);
	}
	assert_false(grpc_is_initialized());
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_second_server_on_one_port_is_a_conflict),
	cmocka_unit_test(addresses_that_cannot_be_listened_on_are_named),
	cmocka_unit_test(a_set_that_differs_from_the_program_is_named_at_the_start),
	cmocka_unit_test(a_handler_without_a_method_or_a_role_is_named_at_the_start),
	cmocka_unit_test(a_client_that_comes_before_the_server_begins_waits),
	cmocka_unit_test(a_server_that_never_began_stops),
	cmocka_unit_test(stop_cancels_what_outlives_the_grace),
	cmocka_unit_test(stop_lets_a_running_call_finish),
	// Before the load: connections that are cut off half made keep the library for longer than a test should wait.
	cmocka_unit_test(the_library_cleans_up_after_the_last_user),
	cmocka_unit_test(servers_start_and_stop_under_load),
};

int main(void)
{
	int failures = cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL);
	berth_rpc_library_end();
	return failures != 0;
}
