// SPDX-License-Identifier: Apache-2.0
// How calls fail: the server's errors, deadlines, cancels, unknown methods, bytes that are no message.
#include <pthread.h>

#include "common/base/thread.h"
#include "tests/unit/rpc/client_support.h"

struct fixture {
	struct echo *echo;
	struct berth_rpc_channel *channel;
};

static int start(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	fixture->echo = must_start(&(struct echo_options){0});
	fixture->channel = must_connect(echo_address(fixture->echo), NULL);
	*state = fixture;
	return 0;
}

static int stop(void **state)
{
	struct fixture *fixture = *state;
	berth_rpc_channel_free(fixture->channel);
	echo_stop(fixture->echo, 0);
	free(fixture);
	return 0;
}

static void every_error_code_comes_back_from_a_unary_call(void **state)
{
	struct fixture *fixture = *state;
	for (int code = BERTH_ERROR_CANCELLED; code <= BERTH_ERROR_UNAUTHENTICATED; code++) {
		struct berth_error err = {0};
		BERTH_AUTO_FREE char *request = berth_format("fail:%s", berth_error_name(code));
		BERTH_AUTO_FREE char *wanted = berth_format("asked for %s", berth_error_name(code));
		assert_null(say(fixture->channel, request, &err));
		assert_string_equal(err.message, wanted);
		assert_int_equal(err.code, code);
	}
}

static void every_error_code_comes_back_from_a_stream(void **state)
{
	struct fixture *fixture = *state;
	for (int code = BERTH_ERROR_CANCELLED; code <= BERTH_ERROR_UNAUTHENTICATED; code++) {
		struct berth_error err = {0};
		BERTH_AUTO_FREE char *request = berth_format("fail:%s", berth_error_name(code));
		struct berth_rpc_stream *stream = must_open(fixture->channel, "Chat");
		assert_ok(send_text(stream, "first", &err), err);
		assert_ok(send_text(stream, request, &err), err);
		must_receive_text(stream, "first");
		must_fail(stream, code, request + strlen("fail:"));
		must_fail(stream, code, "asked for");
		berth_rpc_stream_free(stream);
	}
}

static void a_method_that_ends_without_its_response_is_an_internal_error(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(say(fixture->channel, "silent", &err), err, BERTH_ERROR_INTERNAL, "without its response");
}

static void a_deadline_ends_the_call_on_both_sides(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(
		say_within(fixture->channel, "hold", berth_within_ms(200, NULL), &err), err, BERTH_ERROR_TIMEOUT, "");
	assert_true(echo_wait(fixture->echo, "Say cancelled", 1));
	struct berth_rpc_stream *stream =
		berth_rpc_stream_open(fixture->channel, ECHO, "Chat", berth_within_ms(200, NULL), &err);
	must_fail(stream, BERTH_ERROR_TIMEOUT, "");
	berth_rpc_stream_free(stream);
	assert_true(echo_wait(fixture->echo, "Chat cancelled", 1));
}

static void a_call_whose_time_is_over_is_not_made(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(
		say_within(fixture->channel, "x", berth_within_ms(0, NULL), &err), err, BERTH_ERROR_TIMEOUT, "Say");
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	berth_cancel_fire(cancel);
	assert_fails(say_within(fixture->channel, "x", berth_within_ms(LONG_MS, cancel), &err), err,
		BERTH_ERROR_CANCELLED, "Say");
	assert_fails(berth_rpc_stream_open(fixture->channel, ECHO, "Chat", berth_within_ms(LONG_MS, cancel), &err), err,
		BERTH_ERROR_CANCELLED, "Chat");
	berth_cancel_free(cancel);
	assert_int_equal(echo_seen(fixture->echo, "Say begin"), 0);
}

static void a_cancelled_stream_ends_as_cancelled_at_the_server(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Chat");
	assert_ok(send_text(stream, "hello", &err), err);
	must_receive_text(stream, "hello");
	berth_rpc_stream_cancel(stream);
	must_fail(stream, BERTH_ERROR_CANCELLED, "");
	assert_true(echo_wait(fixture->echo, "Chat cancelled", 1));
	assert_int_equal(echo_seen(fixture->echo, "Chat ended"), 0);
	assert_int_equal(echo_seen(fixture->echo, "Chat half_closed"), 0);
	berth_rpc_stream_free(stream);
}

static void a_freed_stream_ends_as_cancelled_at_the_server(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Count");
	assert_ok(send_number(stream, -1, 0, &err), err);
	assert_true(echo_wait(fixture->echo, "Count begin", 1));
	berth_rpc_stream_free(stream);
	assert_true(echo_wait(fixture->echo, "Count cancelled", 1));
}

struct blocked {
	struct fixture *fixture;
	struct berth_rpc_stream *stream;
	struct berth_until until;
	struct berth_error err;
	bool failed;
};

static void *block_in_unary(void *context)
{
	struct blocked *blocked = context;
	char *answer = say_within(blocked->fixture->channel, "hold", blocked->until, &blocked->err);
	blocked->failed = answer == NULL;
	free(answer);
	return NULL;
}

static void *block_in_receive(void *context)
{
	struct blocked *blocked = context;
	ProtobufCMessage *message = NULL;
	blocked->failed =
		berth_rpc_stream_receive(blocked->stream, &message, blocked->until, &blocked->err) == BERTH_RPC_FAILED;
	return NULL;
}

static void a_cancel_token_wakes_a_blocked_unary_call(void **state)
{
	struct fixture *fixture = *state;
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	struct blocked blocked = {.fixture = fixture, .until = {BERTH_NO_DEADLINE_NS, cancel}};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, block_in_unary, &blocked), 0);
	assert_true(echo_wait(fixture->echo, "Say message hold", 1));
	berth_cancel_fire(cancel);
	pthread_join(thread, NULL);
	assert_true(blocked.failed);
	assert_int_equal(blocked.err.code, BERTH_ERROR_CANCELLED);
	assert_true(echo_wait(fixture->echo, "Say cancelled", 1));
	berth_cancel_free(cancel);
}

static void a_cancel_token_wakes_a_blocked_stream(void **state)
{
	struct fixture *fixture = *state;
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	struct blocked blocked = {.fixture = fixture, .until = {BERTH_NO_DEADLINE_NS, cancel}};
	struct berth_error err;
	blocked.stream = berth_rpc_stream_open(fixture->channel, ECHO, "Chat", blocked.until, &err);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, block_in_receive, &blocked), 0);
	assert_true(echo_wait(fixture->echo, "Chat begin", 1));
	berth_cancel_fire(cancel);
	pthread_join(thread, NULL);
	assert_true(blocked.failed);
	assert_int_equal(blocked.err.code, BERTH_ERROR_CANCELLED);
	assert_true(echo_wait(fixture->echo, "Chat cancelled", 1));
	berth_rpc_stream_free(blocked.stream);
	berth_cancel_free(cancel);
}

static void a_wait_that_passes_leaves_the_stream_as_it_was(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	struct berth_rpc_stream *stream = must_open(fixture->channel, "Chat");
	ProtobufCMessage *message = NULL;
	for (int i = 0; i < 3; i++) {
		assert_fails(
			berth_rpc_stream_receive(stream, &message, berth_within_ms(5, NULL), &err) != BERTH_RPC_FAILED,
			err, BERTH_ERROR_TIMEOUT, "Chat");
	}
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	struct blocked blocked = {.stream = stream, .until = {BERTH_NO_DEADLINE_NS, cancel}};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, block_in_receive, &blocked), 0);
	berth_cancel_fire(cancel);
	pthread_join(thread, NULL);
	assert_true(blocked.failed);
	assert_int_equal(blocked.err.code, BERTH_ERROR_CANCELLED);
	berth_cancel_free(cancel);
	assert_ok(send_text(stream, "still here", &err), err);
	must_receive_text(stream, "still here");
	assert_ok(berth_rpc_stream_close_send(stream, &err), err);
	must_end(stream);
	berth_rpc_stream_free(stream);
}

static void a_method_without_a_handler_is_unsupported(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	Berth__Test__V1__Text request = BERTH__TEST__V1__TEXT__INIT;
	ProtobufCMessage *response = NULL;
	assert_fails(berth_rpc_unary(fixture->channel, ECHO, "Unserved", &request.base, &response, soon(), &err), err,
		BERTH_ERROR_UNSUPPORTED, "/berth.test.v1.Echo/Unserved");
}

// Renames services and methods only, so that bytes and paths leave as no program of ours would send them.
static ProtobufCServiceDescriptor renamed(const char *name)
{
	ProtobufCServiceDescriptor service = *ECHO;
	service.name = name;
	return service;
}

// A descriptor set that calls the service "berth.test.v1.Ecko".
static uint8_t *renamed_set(void)
{
	uint8_t *set = berth_memdup(echo_set, echo_set_size);
	uint8_t *at = memmem(set, echo_set_size,
		"\x04"
		"Echo",
		5);
	assert_non_null(at);
	at[3] = 'k';
	return set;
}

static void an_unknown_method_is_unsupported(void **state)
{
	struct fixture *fixture = *state;
	BERTH_AUTO_FREE uint8_t *set = renamed_set();
	struct berth_error err;
	const struct berth_rpc_channel_options options = {
		.address = echo_address(fixture->echo), .descriptor_set = set, .descriptor_set_size = echo_set_size};
	struct berth_rpc_channel *channel = berth_rpc_channel_new(&options, &err);
	assert_ok(channel, err);
	const ProtobufCServiceDescriptor service = renamed("berth.test.v1.Ecko");
	Berth__Test__V1__Text request = BERTH__TEST__V1__TEXT__INIT;
	ProtobufCMessage *response = NULL;
	for (int i = 0; i < 5; i++) {
		assert_fails(berth_rpc_unary(channel, &service, "Say", &request.base, &response, soon(), &err), err,
			BERTH_ERROR_UNSUPPORTED, "does not know");
	}
	berth_rpc_channel_free(channel);
}

// A Text whose payload is packed as if it were `text`: bytes that the other side refuses to parse.
static void bytes_that_are_no_message_are_invalid(void **state)
{
	struct fixture *fixture = *state;
	// The channel knows services by their descriptors, which therefore outlive it.
	static ProtobufCServiceDescriptor service;
	static ProtobufCMethodDescriptor methods[8];
	static ProtobufCMessageDescriptor liar;
	static ProtobufCFieldDescriptor fields[2];
	liar = berth__test__v1__text__descriptor;
	fields[0] = liar.fields[0];
	service = *ECHO;
	fields[0].type = PROTOBUF_C_TYPE_DOUBLE;
	fields[0].id = 2; // the payload's number, with a wire type that bytes never have
	fields[0].offset = offsetof(Berth__Test__V1__Text, payload);
	liar.fields = fields;
	liar.n_fields = 1;
	memcpy(methods, service.methods, service.n_methods * sizeof *methods);
	for (unsigned i = 0; i < service.n_methods; i++) {
		methods[i].input = methods[i].input == &berth__test__v1__text__descriptor ? &liar : methods[i].input;
	}
	service.methods = methods;
	Berth__Test__V1__Text request = BERTH__TEST__V1__TEXT__INIT;
	request.base.descriptor = &liar;
	request.payload.len = 0x0102030405060708; // what the lie packs as eight bytes
	struct berth_error err;
	ProtobufCMessage *response = NULL;
	assert_fails(berth_rpc_unary(fixture->channel, &service, "Say", &request.base, &response, soon(), &err), err,
		BERTH_ERROR_INVALID, "the bytes are no berth.test.v1.Text");
	struct berth_rpc_stream *stream = berth_rpc_stream_open(fixture->channel, &service, "Chat", soon(), &err);
	assert_ok(stream, err);
	assert_ok(berth_rpc_stream_send(stream, &request.base, &err), err);
	must_fail(stream, BERTH_ERROR_INVALID, "the bytes are no berth.test.v1.Text");
	berth_rpc_stream_free(stream);
	assert_int_equal(echo_seen(fixture->echo, "Say message"), 0);
	assert_true(echo_wait(fixture->echo, "Say ended", 1));
	assert_true(echo_wait(fixture->echo, "Chat ended", 1));
}

static void a_server_that_is_not_there_is_unavailable(void **state)
{
	(void)state;
	struct echo *echo = must_start(&(struct echo_options){0});
	BERTH_AUTO_FREE char *address = berth_strdup(echo_address(echo));
	echo_stop(echo, 0);
	struct berth_rpc_channel *channel = must_connect(address, NULL);
	struct berth_error err;
	assert_fails(say(channel, "x", &err), err, BERTH_ERROR_UNAVAILABLE, address);
	berth_rpc_channel_free(channel);
}

static void a_channel_connects_again_when_its_server_is_back(void **state)
{
	(void)state;
	struct echo *echo = must_start(&(struct echo_options){0});
	BERTH_AUTO_FREE char *address = berth_strdup(echo_address(echo));
	struct berth_rpc_channel *channel = must_connect(address, NULL);
	struct berth_error err;
	BERTH_AUTO_FREE char *first = say(channel, "x", &err);
	assert_ok(first, err);
	echo_stop(echo, 0);
	assert_null(say(channel, "x", &err));
	echo = must_start(&(struct echo_options){.address = address});
	struct berth_until until = soon();
	char *again = NULL;
	while (!(again = say(channel, "back", &err)) && err.code == BERTH_ERROR_UNAVAILABLE &&
		!berth_until_over(until)) {
		berth_sleep_ms(10, until, NULL);
	}
	assert_ok(again, err);
	free(again);
	berth_rpc_channel_free(channel);
	echo_stop(echo, 0);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

static const struct CMUnitTest tests[] = {
	WITH(every_error_code_comes_back_from_a_unary_call),
	WITH(every_error_code_comes_back_from_a_stream),
	WITH(a_method_that_ends_without_its_response_is_an_internal_error),
	WITH(a_deadline_ends_the_call_on_both_sides),
	WITH(a_call_whose_time_is_over_is_not_made),
	WITH(a_cancelled_stream_ends_as_cancelled_at_the_server),
	WITH(a_freed_stream_ends_as_cancelled_at_the_server),
	WITH(a_cancel_token_wakes_a_blocked_unary_call),
	WITH(a_cancel_token_wakes_a_blocked_stream),
	WITH(a_wait_that_passes_leaves_the_stream_as_it_was),
	WITH(a_method_without_a_handler_is_unsupported),
	WITH(an_unknown_method_is_unsupported),
	WITH(bytes_that_are_no_message_are_invalid),
	cmocka_unit_test(a_server_that_is_not_there_is_unavailable),
	cmocka_unit_test(a_channel_connects_again_when_its_server_is_back),
};

BERTH_TEST_MAIN(tests)
