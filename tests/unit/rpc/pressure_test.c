// SPDX-License-Identifier: Apache-2.0
// Bounds: the send queue, the reads of a stream, and callbacks that never run twice at once for one call.
#include <pthread.h>

#include "tests/unit/rpc/client_support.h"

#define QUEUE_MAX     (256 * 1024)
#define PADDING       (16 * 1024)
#define NUMBERS       600
#define CHATS         6
#define CHAT_MESSAGES 200

static void slow_reader(int threads)
{
	struct echo *echo = must_start(&(struct echo_options){.send_queue_size_max = QUEUE_MAX, .threads = threads});
	struct berth_rpc_channel *channel = must_connect(echo_address(echo), NULL);
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(channel, "Count");
	assert_ok(send_number(stream, NUMBERS, PADDING, &err), err);
	assert_ok(berth_rpc_stream_close_send(stream, &err), err);
	assert_true(echo_wait(echo, "Count refused", 1));
	for (int i = 0; i < NUMBERS; i++) {
		must_receive_number(stream, i);
	}
	must_end(stream);
	assert_true(echo_seen(echo, "Count writable") > 0);
	assert_int_equal(echo_seen(echo, "Count failed"), 0);
	berth_rpc_stream_free(stream);
	berth_rpc_channel_free(channel);
	echo_stop(echo, 0);
}

static void a_slow_reader_meets_the_bound_and_writable_comes(void **state)
{
	(void)state;
	slow_reader(0);
}

static void a_slow_reader_meets_the_bound_on_the_pool_as_well(void **state)
{
	(void)state;
	slow_reader(2);
}

static void a_message_above_the_bound_goes_when_nothing_waits(void **state)
{
	(void)state;
	struct echo *echo = must_start(&(struct echo_options){.send_queue_size_max = 1024});
	struct berth_rpc_channel *channel = must_connect(echo_address(echo), NULL);
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(channel, "Count");
	assert_ok(send_number(stream, 5, 100 * 1000, &err), err);
	for (int i = 0; i < 5; i++) {
		must_receive_number(stream, i);
	}
	must_end(stream);
	berth_rpc_stream_free(stream);
	berth_rpc_channel_free(channel);
	echo_stop(echo, 0);
}

static void nothing_is_read_that_was_not_asked_for(void **state)
{
	(void)state;
	struct echo *echo = must_start(&(struct echo_options){0});
	struct berth_rpc_channel *channel = must_connect(echo_address(echo), NULL);
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(channel, "Chat");
	assert_ok(send_text(stream, "pause", &err), err);
	must_receive_text(stream, "pause");
	assert_ok(send_text(stream, "second", &err), err);
	assert_ok(send_text(stream, "third", &err), err);
	assert_ok(berth_rpc_stream_close_send(stream, &err), err);
	// An answer on the same connection comes after what was sent before it.
	for (int i = 0; i < 3; i++) {
		BERTH_AUTO_FREE char *answer = say(channel, "between", &err);
		assert_ok(answer, err);
	}
	assert_int_equal(echo_seen(echo, "Chat message second"), 0);
	assert_int_equal(echo_seen(echo, "Chat half_closed"), 0);
	echo_read_next(echo);
	must_receive_text(stream, "second");
	must_receive_text(stream, "third");
	must_end(stream);
	berth_rpc_stream_free(stream);
	berth_rpc_channel_free(channel);
	echo_stop(echo, 0);
}

static void *chat(void *context)
{
	struct berth_rpc_channel *channel = context;
	struct berth_error err;
	struct berth_rpc_stream *stream = berth_rpc_stream_open(channel, ECHO, "Chat", soon(), &err);
	for (int i = 0; stream && i < CHAT_MESSAGES; i++) {
		if (!send_text(stream, "x", &err)) {
			return (void *)"a send failed";
		}
	}
	if (!stream || !berth_rpc_stream_close_send(stream, &err)) {
		return (void *)"no close";
	}
	int received = 0;
	ProtobufCMessage *message = NULL;
	while (berth_rpc_stream_receive(stream, &message, soon(), &err) == BERTH_RPC_MESSAGE) {
		protobuf_c_message_free_unpacked(message, NULL);
		received++;
	}
	berth_rpc_stream_free(stream);
	return received == CHAT_MESSAGES ? NULL : (void *)"messages are missing";
}

static void callbacks_of_one_call_are_serial_and_those_of_many_are_not(void **state)
{
	(void)state;
	struct echo *echo = must_start(&(struct echo_options){.threads = 4});
	struct berth_rpc_channel *channel = must_connect(echo_address(echo), NULL);
	pthread_t threads[CHATS];
	for (int i = 0; i < CHATS; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, chat, channel), 0);
	}
	for (int i = 0; i < CHATS; i++) {
		void *problem = NULL;
		pthread_join(threads[i], &problem);
		if (problem) {
			fail_msg("%s", (const char *)problem);
		}
	}
	assert_true(echo_wait(echo, "Chat ended", CHATS));
	assert_int_equal(echo_overlaps(echo), 0);
	assert_true(echo_most_at_once(echo) > 1);
	berth_rpc_channel_free(channel);
	echo_stop(echo, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_slow_reader_meets_the_bound_and_writable_comes),
	cmocka_unit_test(a_slow_reader_meets_the_bound_on_the_pool_as_well),
	cmocka_unit_test(a_message_above_the_bound_goes_when_nothing_waits),
	cmocka_unit_test(nothing_is_read_that_was_not_asked_for),
	cmocka_unit_test(callbacks_of_one_call_are_serial_and_those_of_many_are_not),
};

BERTH_TEST_MAIN(tests)
