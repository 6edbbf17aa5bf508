// SPDX-License-Identifier: Apache-2.0
#include "grpc/health/v1/health.pb-c.h"
#include "health_set.h"
#include "tests/unit/rpc/client_support.h"

#define HEALTH          (&grpc__health__v1__health__descriptor)
#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

struct fixture {
	struct echo *echo;
	struct berth_rpc_channel *channel;
};

static int start(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	fixture->echo = must_start(&(struct echo_options){0});
	const struct berth_rpc_channel_options options = {
		.address = echo_address(fixture->echo),
		.descriptor_set = berth_rpc_health_set,
		.descriptor_set_size = berth_rpc_health_set_size,
	};
	struct berth_error err;
	fixture->channel = berth_rpc_channel_new(&options, &err);
	*state = fixture;
	return fixture->channel == NULL;
}

static int stop(void **state)
{
	struct fixture *fixture = *state;
	berth_rpc_channel_free(fixture->channel);
	if (fixture->echo) {
		echo_stop(fixture->echo, 0);
	}
	free(fixture);
	return 0;
}

static int check(struct fixture *fixture, const char *service, struct berth_error *err)
{
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	request.service = (char *)service;
	ProtobufCMessage *response = NULL;
	if (!berth_rpc_unary(fixture->channel, HEALTH, "Check", &request.base, &response, soon(), err)) {
		return -1;
	}
	int status = ((Grpc__Health__V1__HealthCheckResponse *)response)->status;
	protobuf_c_message_free_unpacked(response, NULL);
	return status;
}

static struct berth_rpc_stream *watch(struct fixture *fixture, const char *service)
{
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	request.service = (char *)service;
	struct berth_error err;
	struct berth_rpc_stream *stream = berth_rpc_stream_open(fixture->channel, HEALTH, "Watch", soon(), &err);
	assert_ok(stream && berth_rpc_stream_send(stream, &request.base, &err), err);
	assert_ok(berth_rpc_stream_close_send(stream, &err), err);
	return stream;
}

static void must_see(struct berth_rpc_stream *stream, int status)
{
	ProtobufCMessage *message = NULL;
	struct berth_error err = {0};
	assert_ok(berth_rpc_stream_receive(stream, &message, soon(), &err) == BERTH_RPC_MESSAGE, err);
	assert_int_equal(((Grpc__Health__V1__HealthCheckResponse *)message)->status, status);
	protobuf_c_message_free_unpacked(message, NULL);
}

static void check_tells_the_state_of_the_server_and_of_each_service(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	static const char *names[] = {"", "berth.test.v1.Echo", "grpc.health.v1.Health"};
	for (size_t i = 0; i < BERTH_COUNT(names); i++) {
		berth_rpc_server_set_serving(echo_server(fixture->echo), false);
		assert_int_equal(check(fixture, names[i], &err), NOT_SERVING);
		berth_rpc_server_set_serving(echo_server(fixture->echo), true);
		assert_int_equal(check(fixture, names[i], &err), SERVING);
	}
}

static void check_of_an_unknown_service_is_not_found(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	assert_fails(check(fixture, "x.Y", &err) != -1, err, BERTH_ERROR_NOT_FOUND, "x.Y");
}

static void watch_tells_each_change_once(void **state)
{
	struct fixture *fixture = *state;
	struct berth_rpc_stream *known = watch(fixture, "berth.test.v1.Echo");
	struct berth_rpc_stream *unknown = watch(fixture, "x.Y");
	must_see(known, NOT_SERVING);
	must_see(unknown, SERVICE_UNKNOWN);
	berth_rpc_server_set_serving(echo_server(fixture->echo), true);
	must_see(known, SERVING);
	berth_rpc_server_set_serving(echo_server(fixture->echo), true);
	berth_rpc_server_set_serving(echo_server(fixture->echo), false);
	must_see(known, NOT_SERVING);
	berth_rpc_stream_free(known);
	berth_rpc_stream_free(unknown);
}

static void a_stopping_server_says_goodbye_to_its_watchers(void **state)
{
	struct fixture *fixture = *state;
	struct berth_rpc_stream *stream = watch(fixture, "");
	must_see(stream, NOT_SERVING);
	berth_rpc_server_set_serving(echo_server(fixture->echo), true);
	must_see(stream, SERVING);
	echo_stop(BERTH_STEAL(fixture->echo), LONG_MS);
	must_see(stream, NOT_SERVING);
	must_fail(stream, BERTH_ERROR_NOT_SERVING, "stopping");
	berth_rpc_stream_free(stream);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

static const struct CMUnitTest tests[] = {
	WITH(check_tells_the_state_of_the_server_and_of_each_service),
	WITH(check_of_an_unknown_service_is_not_found),
	WITH(watch_tells_each_change_once),
	WITH(a_stopping_server_says_goodbye_to_its_watchers),
};

BERTH_TEST_MAIN(tests)
