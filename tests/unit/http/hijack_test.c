// SPDX-License-Identifier: Apache-2.0
#include "common/http/hijack.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/http/hijack_head.h"
#include "tests/support/test.h"
#include "tests/unit/http/server.h"

struct fixture {
	char *socket;
	struct test_server *server;
};

// Sends back what comes until its end, then says goodbye: only a half-close lets the peer see that.
static bool echo(struct test_request *request, const char *head)
{
	test_request_drain(request);
	test_send_text(request, head);
	test_send(request, request->rest.data, request->rest.size);
	BERTH_AUTO_FREE char *data = berth_alloc(4096);
	ssize_t got;
	while ((got = recv(request->fd, data, 4096, 0)) > 0 && test_send(request, data, (size_t)got)) {
	}
	test_send_text(request, "bye");
	return false;
}

static bool handle(void *context, struct test_request *request)
{
	(void)context;
	const char *path = request->target;
	if (strcmp(path, "/echo") == 0) {
		return echo(request, "HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\nearly ");
	}
	if (strcmp(path, "/old") == 0) {
		return echo(request, "HTTP/1.1 200 OK\r\nContent-Type: x\r\n\r\nearly ");
	}
	if (strcmp(path, "/missing") == 0) {
		test_answer(request, 404, "{\"message\":\"No such exec\"}\n");
	} else if (strcmp(path, "/chunked") == 0) {
		test_send_text(request, "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n");
		test_send_text(request, "5\r\nfirst\r\n7\r\n second\r\n0\r\n\r\n");
		test_server_hang(request);
	} else if (strcmp(path, "/garbage") == 0) {
		test_send_text(request, "220 mail.example.org ESMTP\r\n\r\n");
	} else if (strcmp(path, "/never") == 0) {
		test_server_hang(request);
	} else if (strcmp(path, "/mute") == 0) {
		test_send_text(request, "HTTP/1.1 101 UPGRADED\r\n\r\n");
		test_server_hang(request);
	}
	return false;
}

static int setup(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	BERTH_AUTO_FREE char *folder = berth_format("/tmp/hijack-XXXXXX");
	if (!mkdtemp(folder)) {
		return -1;
	}
	fixture->socket = berth_format("%s/s", folder);
	fixture->server = test_server_unix(fixture->socket, handle, NULL);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	test_server_stop(fixture->server);
	free(fixture->socket);
	free(fixture);
	return 0;
}

static struct berth_until soon(void)
{
	return berth_within_ms(60000, NULL);
}

static void berth_hijack_close(struct berth_hijack **stream)
{
	berth_hijack_free(*stream);
}

static void read_to_end(struct berth_hijack *stream, struct berth_buf *out)
{
	struct berth_error err;
	char data[1000];
	ssize_t got;
	while ((got = berth_hijack_read(stream, data, sizeof data, soon(), &err)) > 0) {
		berth_buf_add(out, data, (size_t)got);
	}
	assert_ok(got == 0, err);
}

static void a_stream_goes_both_ways_and_closes_by_half(void **state)
{
	struct fixture *fixture = *state;
	static const char *const targets[] = {"/echo", "/old"};
	static const int statuses[] = {101, 200};
	for (size_t i = 0; i < BERTH_COUNT(targets); i++) {
		struct berth_error err;
		int status;
		BERTH_AUTO(berth_hijack_close)
		struct berth_hijack *stream =
			berth_hijack_open(fixture->socket, targets[i], "{}", &status, soon(), &err);
		assert_ok(stream != NULL, err);
		assert_int_equal(status, statuses[i]);
		assert_ok(berth_hijack_write(stream, "hello ", 6, soon(), &err), err);
		assert_ok(berth_hijack_close_write(stream, &err), err);
		BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
		read_to_end(stream, &out);
		assert_string_equal(berth_buf_text(&out), "early hello bye");
	}
}

static void a_refusal_gives_its_status_and_reason(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	int status;
	assert_fails(berth_hijack_open(fixture->socket, "/missing", "{}", &status, soon(), &err), err,
		BERTH_ERROR_NOT_FOUND, "No such exec");
	assert_int_equal(status, 404);
	assert_fails(berth_hijack_open(fixture->socket, "/chunked", "{}", &status, soon(), &err), err,
		BERTH_ERROR_INTERNAL, "first second");
	assert_int_equal(status, 500);
}

static void no_daemon_no_http_and_no_answer_are_told_apart(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	int status;
	assert_fails(berth_hijack_open("/nowhere/s", "/x", "{}", &status, soon(), &err), err, BERTH_ERROR_UNAVAILABLE,
		"/nowhere/s");
	assert_fails(berth_hijack_open(fixture->socket, "/garbage", "{}", &status, soon(), &err), err, BERTH_ERROR_IO,
		"no HTTP");
	assert_fails(berth_hijack_open(fixture->socket, "/cut", "{}", &status, soon(), &err), err, BERTH_ERROR_IO,
		fixture->socket);
	assert_fails(berth_hijack_open(fixture->socket, "/never", "{}", &status, berth_within_ms(50, NULL), &err), err,
		BERTH_ERROR_TIMEOUT, fixture->socket);
}

static void a_fired_token_ends_reading_and_writing(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	int status;
	BERTH_AUTO(berth_hijack_close)
	struct berth_hijack *stream = berth_hijack_open(fixture->socket, "/mute", "{}", &status, soon(), &err);
	assert_ok(stream != NULL, err);
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	berth_cancel_fire(cancel);
	char data[10];
	struct berth_until until = berth_within_ms(60000, cancel);
	assert_fails(berth_hijack_read(stream, data, sizeof data, until, &err) >= 0, err, BERTH_ERROR_CANCELLED,
		fixture->socket);
	berth_cancel_free(cancel);
	assert_fails(berth_hijack_read(stream, data, sizeof data, berth_within_ms(20, NULL), &err) >= 0, err,
		BERTH_ERROR_TIMEOUT, fixture->socket);
}

static void heads_are_found_wherever_they_are_split(void **state)
{
	(void)state;
	static const char text[] = "HTTP/1.1 404 Not Found\r\ncontent-length:  12 \r\nTransfer-Encoding: gzip, "
				   "Chunked\r\n\r\nbody";
	struct berth_hijack_head head;
	struct berth_error err;
	for (size_t size = 0; size < sizeof text - 5; size++) {
		assert_int_equal(berth_hijack_head_parse(text, size, &head, &err), BERTH_HIJACK_MORE);
	}
	assert_int_equal(berth_hijack_head_parse(text, sizeof text - 1, &head, &err), BERTH_HIJACK_HEAD);
	assert_int_equal(head.status, 404);
	assert_int_equal(head.content_length, 12);
	assert_true(head.chunked);
	assert_int_equal(head.size, sizeof text - 5);
}

static void a_head_without_end_is_refused(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *text = berth_alloc(BERTH_HIJACK_HEAD_MAX);
	memset(text, 'x', BERTH_HIJACK_HEAD_MAX);
	struct berth_hijack_head head;
	struct berth_error err = {0};
	assert_int_equal(berth_hijack_head_parse(text, BERTH_HIJACK_HEAD_MAX - 1, &head, &err), BERTH_HIJACK_MORE);
	assert_int_equal(berth_hijack_head_parse(text, BERTH_HIJACK_HEAD_MAX, &head, &err), BERTH_HIJACK_BAD);
	assert_int_equal(err.code, BERTH_ERROR_IO);
}

#define with_server(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	with_server(a_stream_goes_both_ways_and_closes_by_half),
	with_server(a_refusal_gives_its_status_and_reason),
	with_server(no_daemon_no_http_and_no_answer_are_told_apart),
	with_server(a_fired_token_ends_reading_and_writing),
	cmocka_unit_test(heads_are_found_wherever_they_are_split),
	cmocka_unit_test(a_head_without_end_is_refused),
};

BERTH_TEST_MAIN(tests)
