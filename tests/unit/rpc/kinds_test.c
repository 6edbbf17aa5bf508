// SPDX-License-Identifier: Apache-2.0
// The four kinds of methods, and what a handler learns of its call.
#include <pthread.h>
#include <sched.h>

#include "common/base/file.h"
#include "tests/unit/rpc/client_support.h"

struct fixture {
	struct echo *echo;
	struct berth_rpc_channel *channel;
};

static int start(void **state, const struct echo_options *options)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	fixture->echo = must_start(options);
	fixture->channel = must_connect(echo_address(fixture->echo), NULL);
	*state = fixture;
	return 0;
}

static int start_on_queue(void **state)
{
	return start(state, &(struct echo_options){0});
}

static int start_on_pool(void **state)
{
	return start(state, &(struct echo_options){.threads = 3});
}

static int start_with_writer(void **state)
{
	return start(state, &(struct echo_options){.threads = 3, .writer = true});
}

static int stop(void **state)
{
	struct fixture *fixture = *state;
	berth_rpc_channel_free(fixture->channel);
	echo_stop(fixture->echo, 0);
	free(fixture);
	return 0;
}

static void unary_answers(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO_FREE char *answer = say(fixture->channel, "hello", &err);
	assert_ok(answer, err);
	assert_string_equal(answer, "hello");
	assert_true(echo_wait(fixture->echo, "Say ended", 1));
	assert_int_equal(echo_seen(fixture->echo, "Say begin"), 1);
}

static void an_empty_message_is_a_message(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO_FREE char *answer = say(fixture->channel, "", &err);
	assert_ok(answer, err);
	assert_string_equal(answer, "");
}

static void client_stream_is_joined_at_its_half_close(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Join");
	assert_ok(send_text(stream, "a", &err), err);
	assert_ok(send_text(stream, "b", &err), err);
	assert_ok(send_text(stream, "c", &err), err);
	assert_int_equal(echo_seen(fixture->echo, "Join half_closed"), 0);
	assert_ok(berth_rpc_stream_close_send(stream, &err), err);
	must_receive_text(stream, "abc");
	must_end(stream);
	assert_int_equal(echo_seen(fixture->echo, "Join half_closed"), 1);
	berth_rpc_stream_free(stream);
	assert_true(echo_wait(fixture->echo, "Join ended", 1));
}

static void server_stream_comes_in_order(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Count");
	assert_ok(send_number(stream, 500, 10, &err), err);
	assert_ok(berth_rpc_stream_close_send(stream, &err), err);
	for (int i = 0; i < 500; i++) {
		must_receive_number(stream, i);
	}
	must_end(stream);
	must_end(stream); // asked again, it says the same
	berth_rpc_stream_free(stream);
	assert_true(echo_wait(fixture->echo, "Count ended", 1));
}

static void bidi_goes_both_ways(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Chat");
	for (int i = 0; i < 50; i++) {
		char text[16];
		snprintf(text, sizeof text, "%d", i);
		assert_ok(send_text(stream, text, &err), err);
		must_receive_text(stream, text);
	}
	assert_ok(berth_rpc_stream_close_send(stream, &err), err);
	must_end(stream);
	berth_rpc_stream_free(stream);
	assert_true(echo_wait(fixture->echo, "Chat ended", 1));
	assert_int_equal(echo_seen(fixture->echo, "Chat half_closed"), 1);
	assert_int_equal(echo_seen(fixture->echo, "Chat cancelled"), 0);
}

static void server_may_end_a_stream_first(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Chat");
	assert_ok(send_text(stream, "end", &err), err);
	must_end(stream);
	assert_false(send_text(stream, "too late", &err));
	berth_rpc_stream_free(stream);
	assert_true(echo_wait(fixture->echo, "Chat ended", 1));
}

#define UNSENT_LOOKS 200 // long enough for an answer that is not held back to have left

static void what_is_corked_begins_when_it_is_uncorked(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Chat");
	for (int i = 1; i <= 3; i++) {
		assert_ok(send_text(stream, "cork", &err), err);
		assert_ok(send_text(stream, "behind it", &err), err);
		assert_true(echo_wait(fixture->echo, "Chat corked", i));
		for (int look = 0; look < UNSENT_LOOKS; look++) {
			assert_true(echo_has_unsent(fixture->echo));
			sched_yield();
		}
		assert_int_equal(echo_seen(fixture->echo, "Chat message behind it"), i - 1);
		echo_uncork(fixture->echo);
		must_receive_text(stream, "cork");
		must_receive_text(stream, "behind it");
	}
	assert_ok(send_text(stream, "fail:DENIED", &err), err);
	must_fail(stream, BERTH_ERROR_DENIED, "asked for DENIED");
	berth_rpc_stream_free(stream);
	assert_true(echo_wait(fixture->echo, "Chat ended", 1));
}

static void a_call_may_end_while_it_is_corked(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Chat");
	assert_ok(send_text(stream, "cork", &err), err);
	assert_true(echo_wait(fixture->echo, "Chat corked", 1));
	berth_rpc_stream_free(stream); // cancels
	assert_true(echo_wait(fixture->echo, "Chat cancelled", 1));
	echo_uncork(fixture->echo);
}

#define PUMPED 2000

static void *pump(void *context)
{
	struct berth_error err;
	for (int i = 0; i < PUMPED; i++) {
		if (!send_text(context, "x", &err)) {
			return (void *)"a send failed";
		}
	}
	return berth_rpc_stream_close_send(context, &err) ? NULL : (void *)"close failed";
}

static void one_thread_sends_while_another_receives(void **state)
{
	struct fixture *fixture = *state;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Chat");
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, pump, stream), 0);
	for (int i = 0; i < PUMPED; i++) {
		must_receive_text(stream, "x");
	}
	must_end(stream);
	void *problem = NULL;
	pthread_join(thread, &problem);
	assert_null(problem);
	berth_rpc_stream_free(stream);
}

static void a_large_message_passes_and_one_above_the_limit_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO_FREE uint8_t *payload = berth_alloc(BERTH_RPC_MESSAGE_SIZE_MAX);
	Berth__Test__V1__Text request = BERTH__TEST__V1__TEXT__INIT;
	request.payload = (ProtobufCBinaryData){BERTH_RPC_MESSAGE_SIZE_MAX - 16, payload};
	ProtobufCMessage *response = NULL;
	assert_ok(berth_rpc_unary(fixture->channel, ECHO, "Say", &request.base, &response, soon(), &err), err);
	protobuf_c_message_free_unpacked(response, NULL);
	request.payload.len = BERTH_RPC_MESSAGE_SIZE_MAX;
	assert_fails(berth_rpc_unary(fixture->channel, ECHO, "Say", &request.base, &response, soon(), &err), err,
		BERTH_ERROR_INVALID, "Say");
}

static void a_handler_sees_deadline_peer_and_headers(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO_FREE char *left = say_within(fixture->channel, "left", berth_within_ms(LONG_MS, NULL), &err);
	assert_ok(left, err);
	// On the wire a deadline is rounded up.
	assert_in_range(strtol(left, NULL, 10), 1, LONG_MS + LONG_MS / 10);
	BERTH_AUTO_FREE char *none =
		say_within(fixture->channel, "left", (struct berth_until){BERTH_NO_DEADLINE_NS, NULL}, &err);
	assert_ok(none, err);
	assert_string_equal(none, "-1");
	BERTH_AUTO_FREE char *peer = say(fixture->channel, "peer", &err);
	assert_non_null(strstr(peer, "127.0.0.1"));
	BERTH_AUTO_FREE char *agent = say(fixture->channel, "header:user-agent", &err);
	assert_non_null(strstr(agent, "grpc"));
	BERTH_AUTO_FREE char *absent = say(fixture->channel, "header:x-absent", &err);
	assert_string_equal(absent, "none");
	BERTH_AUTO_FREE char *who = say(fixture->channel, "who", &err);
	assert_string_equal(who, "anyone///");
}

static void calls_of_the_wrong_kind_or_type_are_refused_before_they_leave(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	Berth__Test__V1__Number number = BERTH__TEST__V1__NUMBER__INIT;
	Berth__Test__V1__Text text = BERTH__TEST__V1__TEXT__INIT;
	ProtobufCMessage *response = NULL;
	assert_fails(berth_rpc_unary(fixture->channel, ECHO, "Say", &number.base, &response, soon(), &err), err,
		BERTH_ERROR_INVALID, "berth.test.v1.Number");
	assert_fails(berth_rpc_unary(fixture->channel, ECHO, "Chat", &text.base, &response, soon(), &err), err,
		BERTH_ERROR_INVALID, "Chat");
	assert_fails(berth_rpc_unary(fixture->channel, ECHO, "Nope", &text.base, &response, soon(), &err), err,
		BERTH_ERROR_NOT_FOUND, "Nope");
	assert_fails(
		berth_rpc_stream_open(fixture->channel, ECHO, "Say", soon(), &err), err, BERTH_ERROR_INVALID, "Say");
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Chat");
	assert_fails(berth_rpc_stream_send(stream, &number.base, &err), err, BERTH_ERROR_INVALID, "Chat");
	assert_ok(berth_rpc_stream_close_send(stream, &err), err);
	assert_fails(send_text(stream, "late", &err), err, BERTH_ERROR_INVALID, "closed");
	must_end(stream);
	berth_rpc_stream_free(stream);
}

static void a_unix_socket_serves_as_well(void **state)
{
	(void)state;
	// A socket's path has at most 107 bytes, which a folder of Bazel's may use up.
	char folder[] = "/tmp/berth-rpc-XXXXXX";
	assert_non_null(mkdtemp(folder));
	BERTH_AUTO_FREE char *address = berth_format("unix:%s/s", folder);
	struct echo *echo = must_start(&(struct echo_options){.address = address});
	struct berth_error err;
	struct echo *second = echo_start(&(struct echo_options){.address = address}, &err);
	assert_null(second);
	assert_int_equal(err.code, BERTH_ERROR_CONFLICT);
	struct berth_rpc_channel *channel = must_connect(address, NULL);
	BERTH_AUTO_FREE char *answer = say(channel, "hello", &err);
	assert_ok(answer, err);
	berth_rpc_channel_free(channel);
	echo_stop(echo, 0);
	assert_ok(berth_remove_all(folder, &err), err);
}

#define BOTH(test)                                                                                                     \
	{#test " (queue)", test, start_on_queue, stop, NULL},                                                          \
	{                                                                                                              \
#test " (pool)", test, start_on_pool, stop, NULL                                                       \
	}

#define WITH_WRITER(test)                                                                                              \
	{                                                                                                              \
#test " (writer)", test, start_with_writer, stop, NULL                                                 \
	}

static const struct CMUnitTest tests[] = {
	BOTH(unary_answers),
	BOTH(an_empty_message_is_a_message),
	BOTH(client_stream_is_joined_at_its_half_close),
	BOTH(server_stream_comes_in_order),
	BOTH(bidi_goes_both_ways),
	BOTH(server_may_end_a_stream_first),
	BOTH(one_thread_sends_while_another_receives),
	BOTH(a_large_message_passes_and_one_above_the_limit_is_refused),
	BOTH(a_handler_sees_deadline_peer_and_headers),
	BOTH(calls_of_the_wrong_kind_or_type_are_refused_before_they_leave),
	BOTH(what_is_corked_begins_when_it_is_uncorked),
	BOTH(a_call_may_end_while_it_is_corked),
	WITH_WRITER(bidi_goes_both_ways),
	WITH_WRITER(server_may_end_a_stream_first),
	WITH_WRITER(one_thread_sends_while_another_receives),
	WITH_WRITER(what_is_corked_begins_when_it_is_uncorked),
	WITH_WRITER(a_call_may_end_while_it_is_corked),
	cmocka_unit_test(a_unix_socket_serves_as_well),
};

BERTH_TEST_MAIN(tests)
