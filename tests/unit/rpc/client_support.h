// SPDX-License-Identifier: Apache-2.0
// A channel to an Echo server, and its calls in one line each.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/rpc/client.h"
#include "echo.pb-c.h"
#include "echo_set.h"
#include "tests/support/test.h"
#include "tests/unit/rpc/echo_server.h"

// Long enough never to pass in a test that works.
#define LONG_MS 30000

#define ECHO (&berth__test__v1__echo__descriptor)

static inline struct berth_until soon(void)
{
	return berth_within_ms(LONG_MS, NULL);
}

static inline struct echo *must_start(const struct echo_options *options)
{
	struct berth_error err;
	struct echo *echo = echo_start(options, &err);
	if (!echo) {
		fail_msg("%s", err.message);
	}
	return echo;
}

static inline struct berth_rpc_channel *must_connect(const char *address, const struct berth_rpc_tls *tls)
{
	const struct berth_rpc_channel_options options = {
		.address = address,
		.tls = tls,
		.descriptor_set = echo_set,
		.descriptor_set_size = echo_set_size,
	};
	struct berth_error err;
	struct berth_rpc_channel *channel = berth_rpc_channel_new(&options, &err);
	if (!channel) {
		fail_msg("%s", err.message);
	}
	return channel;
}

// The answer's text, which the caller frees; NULL with err.
static inline char *say_within(
	struct berth_rpc_channel *channel, const char *text, struct berth_until until, struct berth_error *err)
{
	Berth__Test__V1__Text request = BERTH__TEST__V1__TEXT__INIT;
	request.text = (char *)text;
	ProtobufCMessage *response = NULL;
	if (!berth_rpc_unary(channel, ECHO, "Say", &request.base, &response, until, err)) {
		return NULL;
	}
	char *answer = berth_strdup(((Berth__Test__V1__Text *)response)->text);
	protobuf_c_message_free_unpacked(response, NULL);
	return answer;
}

static inline char *say(struct berth_rpc_channel *channel, const char *text, struct berth_error *err)
{
	return say_within(channel, text, soon(), err);
}

static inline struct berth_rpc_stream *must_open(struct berth_rpc_channel *channel, const char *method)
{
	struct berth_error err;
	struct berth_rpc_stream *stream = berth_rpc_stream_open(channel, ECHO, method, soon(), &err);
	if (!stream) {
		fail_msg("%s", err.message);
	}
	return stream;
}

static inline bool send_text(struct berth_rpc_stream *stream, const char *text, struct berth_error *err)
{
	Berth__Test__V1__Text message = BERTH__TEST__V1__TEXT__INIT;
	message.text = (char *)text;
	return berth_rpc_stream_send(stream, &message.base, err);
}

static inline bool send_number(
	struct berth_rpc_stream *stream, int64_t value, int64_t padding_size, struct berth_error *err)
{
	Berth__Test__V1__Number message = BERTH__TEST__V1__NUMBER__INIT;
	message.value = value;
	message.padding_size = padding_size;
	return berth_rpc_stream_send(stream, &message.base, err);
}

// Receives one message and checks its text.
static inline void must_receive_text(struct berth_rpc_stream *stream, const char *text)
{
	ProtobufCMessage *message = NULL;
	struct berth_error err = {0};
	if (berth_rpc_stream_receive(stream, &message, soon(), &err) != BERTH_RPC_MESSAGE) {
		fail_msg("wanted %s, got the end: %s", text, err.message);
	}
	assert_string_equal(((Berth__Test__V1__Text *)message)->text, text);
	protobuf_c_message_free_unpacked(message, NULL);
}

static inline void must_receive_number(struct berth_rpc_stream *stream, int64_t value)
{
	ProtobufCMessage *message = NULL;
	struct berth_error err = {0};
	if (berth_rpc_stream_receive(stream, &message, soon(), &err) != BERTH_RPC_MESSAGE) {
		fail_msg("wanted %ld, got the end: %s", (long)value, err.message);
	}
	assert_int_equal(((Berth__Test__V1__Number *)message)->value, value);
	protobuf_c_message_free_unpacked(message, NULL);
}

static inline void must_end(struct berth_rpc_stream *stream)
{
	ProtobufCMessage *message = NULL;
	struct berth_error err = {0};
	enum berth_rpc_received received = berth_rpc_stream_receive(stream, &message, soon(), &err);
	if (received != BERTH_RPC_END) {
		fail_msg("wanted the end, got %d: %s", (int)received, err.message);
	}
}

static inline void must_fail(struct berth_rpc_stream *stream, enum berth_error_code code, const char *part)
{
	ProtobufCMessage *message = NULL;
	struct berth_error err = {0};
	assert_fails(berth_rpc_stream_receive(stream, &message, soon(), &err) != BERTH_RPC_FAILED, err, code, part);
}
