// SPDX-License-Identifier: Apache-2.0
#include "common/http/http.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "tests/support/test.h"
#include "tests/unit/http/server.h"

#define HUGE_SIZE ((size_t)256 * 1024 * 1024)

struct fixture {
	struct berth_http *http;
	struct test_server *server;
	atomic_int posts;
	atomic_size_t moved;         // body bytes that the server sent or received
	struct berth_cancel *cancel; // fired by /cancel
};

static bool send_huge(struct fixture *fixture, struct test_request *request)
{
	BERTH_AUTO_FREE char *block = berth_alloc(65536);
	test_send_text(request, "HTTP/1.1 200 OK\r\nContent-Length: 268435456\r\n\r\n");
	for (size_t sent = 0; sent < HUGE_SIZE && test_send(request, block, 65536); sent += 65536) {
		fixture->moved += 65536;
	}
	return false;
}

static bool send_headers_for_ever(struct test_request *request)
{
	test_send_text(request, "HTTP/1.1 200 OK\r\n");
	while (test_send_text(request, "X-Filler: 0123456789012345678901234567890123456789012345678901234\r\n")) {
	}
	return false;
}

static bool handle_fault(struct fixture *fixture, struct test_request *request, const char *path)
{
	if (strcmp(path, "/never") == 0) {
		test_server_hang(request);
	} else if (strcmp(path, "/cancel") == 0) {
		berth_cancel_fire(fixture->cancel);
		test_server_hang(request);
	} else if (strcmp(path, "/cut-before") == 0) {
		test_request_drain(request);
	} else if (strcmp(path, "/cut-body") == 0) {
		test_send_text(request, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
	} else if (strcmp(path, "/half-body") == 0) {
		test_send_text(request, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
		test_server_hang(request);
	} else if (strcmp(path, "/garbage") == 0) {
		test_send_text(request, "SSH-2.0-OpenSSH\r\n\r\n");
	} else if (strcmp(path, "/headers") == 0) {
		return send_headers_for_ever(request);
	}
	return false;
}

static bool handle(void *context, struct test_request *request)
{
	struct fixture *fixture = context;
	const char *path = request->target;
	if (strcmp(path, "/echo") == 0) {
		char data[1024];
		struct berth_buf body = {0};
		size_t got;
		while ((got = test_request_body(request, data, sizeof data)) > 0) {
			berth_buf_add(&body, data, got);
		}
		BERTH_AUTO_FREE char *answer = berth_format(
			"%s|%s|%s", request->method, berth_buf_text(&body), berth_buf_text(&request->head));
		berth_buf_free(&body);
		return test_answer(request, 200, answer);
	}
	if (strcmp(path, "/upload") == 0) {
		fixture->moved = test_request_drain(request);
		return test_answer(request, 201, "");
	}
	if (strcmp(path, "/early") == 0) {
		test_answer(request, 413, "too much");
		return false;
	}
	if (strcmp(path, "/huge") == 0) {
		return send_huge(fixture, request);
	}
	if (strcmp(path, "/drop-second") == 0) {
		// Answers the first request on a connection and dies on the next one, having read it.
		if (strcmp(request->method, "POST") == 0) {
			fixture->posts++;
			return false;
		}
		return test_answer(request, 200, "first");
	}
	if (strcmp(path, "/missing") == 0) {
		return test_answer(request, 404, "no such thing");
	}
	return handle_fault(fixture, request, path);
}

static int setup(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	struct berth_error err;
	fixture->http = berth_http_new(&err);
	fixture->server = test_server_tcp(handle, fixture);
	fixture->cancel = berth_cancel_new(NULL);
	*state = fixture;
	return fixture->http ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	berth_http_free(fixture->http);
	test_server_stop(fixture->server);
	berth_cancel_free(fixture->cancel);
	free(fixture);
	return 0;
}

static char *url_of(const struct fixture *fixture, const char *path)
{
	return berth_format("http://127.0.0.1:%d%s", test_server_port(fixture->server), path);
}

static bool ask(struct fixture *fixture, const char *method, const char *path, struct berth_http_request request,
	struct berth_http_response *response, struct berth_error *err)
{
	BERTH_AUTO_FREE char *url = url_of(fixture, path);
	request.method = method;
	request.url = url;
	if (request.until.deadline_ns == 0) {
		request.until = berth_within_ms(60000, fixture->cancel);
	}
	return berth_http_perform(fixture->http, &request, response, err);
}

static void a_body_and_headers_travel_both_ways(void **state)
{
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf body = {0};
	const char *headers[] = {"X-Mine: 1", NULL};
	struct berth_http_request request = {
		.headers = headers, .body = "a=b", .body_size = 3, .response = berth_sink_buf(&body)};
	assert_ok(ask(*state, "POST", "/echo", request, &response, &err), err);
	assert_int_equal(response.status, 200);
	assert_true(response.sent);
	assert_int_equal(strncmp(berth_buf_text(&body), "POST|a=b|", 9), 0);
	assert_non_null(strstr(berth_buf_text(&body), "X-Mine: 1"));
	assert_null(strcasestr(berth_buf_text(&body), "form-urlencoded"));
	assert_null(strcasestr(berth_buf_text(&body), "Expect"));
	BERTH_AUTO_FREE char *kind = berth_http_header(&response, "x-kind");
	assert_string_equal(kind, "test");
	assert_null(berth_http_header(&response, "x-kin"));
}

static void every_method_is_sent_as_it_is_named(void **state)
{
	static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};
	for (size_t i = 0; i < BERTH_COUNT(methods); i++) {
		struct berth_error err;
		BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
		BERTH_AUTO(berth_buf_free) struct berth_buf body = {0};
		struct berth_http_request request = {.response = berth_sink_buf(&body)};
		assert_ok(ask(*state, methods[i], "/echo", request, &response, &err), err);
		assert_int_equal(strncmp(berth_buf_text(&body), methods[i], strlen(methods[i])), 0);
	}
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct berth_http_request request = {0};
	assert_ok(ask(*state, "HEAD", "/missing", request, &response, &err), err);
	assert_int_equal(response.status, 404);
}

static void an_error_status_is_an_answer(void **state)
{
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf body = {0};
	struct berth_http_request request = {.response = berth_sink_buf(&body)};
	assert_ok(ask(*state, "GET", "/missing", request, &response, &err), err);
	assert_int_equal(response.status, 404);
	assert_string_equal(berth_buf_text(&body), "no such thing");
}

static void a_peer_that_never_answers_costs_the_deadline_and_no_more(void **state)
{
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct berth_http_request request = {.until = berth_within_ms(50, NULL)};
	assert_fails(ask(*state, "GET", "/never", request, &response, &err), err, BERTH_ERROR_TIMEOUT, "/never");
	assert_int_equal(response.status, 0);
}

static void a_cancel_ends_a_transfer_that_waits(void **state)
{
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct berth_http_request request = {0};
	assert_fails(ask(*state, "GET", "/cancel", request, &response, &err), err, BERTH_ERROR_CANCELLED, "/cancel");
	assert_true(response.sent);
	assert_int_equal(response.status, 0);
	// The token has fired: nothing more is sent under it.
	BERTH_AUTO(berth_http_response_free) struct berth_http_response again = {0};
	assert_fails(ask(*state, "GET", "/echo", request, &again, &err), err, BERTH_ERROR_CANCELLED, "/echo");
	assert_false(again.sent);
}

static void a_refused_connection_is_unavailable_and_not_sent(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct berth_http_request request = {.method = "POST",
		.url = "http://docker/x",
		.unix_socket = "/nowhere/docker.sock",
		.until = berth_within_ms(60000, NULL)};
	assert_fails(berth_http_perform(fixture->http, &request, &response, &err), err, BERTH_ERROR_UNAVAILABLE,
		"/nowhere/docker.sock");
	assert_false(response.sent);
	request.unix_socket = NULL;
	request.url = "http://127.0.0.1:1/x";
	assert_fails(berth_http_perform(fixture->http, &request, &response, &err), err, BERTH_ERROR_UNAVAILABLE,
		"127.0.0.1:1");
	assert_false(response.sent);
	request.url = "file:///etc/passwd";
	assert_fails(
		berth_http_perform(fixture->http, &request, &response, &err), err, BERTH_ERROR_INVALID, "/etc/passwd");
}

static void a_cut_connection_is_io_and_may_have_had_an_effect(void **state)
{
	static const struct {
		const char *method, *path;
		int status;
	} rows[] = {{"POST", "/cut-before", 0}, {"GET", "/cut-body", 200}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_error err;
		BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
		struct berth_http_request request = {0};
		assert_fails(ask(*state, rows[i].method, rows[i].path, request, &response, &err), err, BERTH_ERROR_IO,
			rows[i].path);
		assert_int_equal(response.status, rows[i].status);
		assert_true(response.sent);
	}
}

static void a_post_is_never_sent_twice_by_itself(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response first = {0};
	struct berth_http_request request = {0};
	assert_ok(ask(fixture, "GET", "/drop-second", request, &first, &err), err);
	BERTH_AUTO(berth_http_response_free) struct berth_http_response second = {0};
	assert_fails(ask(fixture, "POST", "/drop-second", request, &second, &err), err, BERTH_ERROR_IO, "/drop-second");
	assert_true(second.sent);
	assert_int_equal(fixture->posts, 1);
}

static void what_is_no_http_and_headers_without_end_are_refused(void **state)
{
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response garbage = {0}, headers = {0};
	struct berth_http_request request = {0};
	assert_fails(ask(*state, "GET", "/garbage", request, &garbage, &err), err, BERTH_ERROR_IO, "/garbage");
	assert_fails(ask(*state, "GET", "/headers", request, &headers, &err), err, BERTH_ERROR_IO, "headers");
}

struct slow_sink {
	struct fixture *fixture;
	size_t got, gap_max;
};

// Looks how far the server has run ahead of what was taken.
static bool take_slowly(void *context, const void *data, size_t size, struct berth_error *err)
{
	(void)data;
	(void)err;
	struct slow_sink *sink = context;
	if (sink->got % (16 * 1024 * 1024) == 0) {
		usleep(1000);
	}
	size_t gap = sink->fixture->moved - sink->got;
	sink->gap_max = gap > sink->gap_max && gap < HUGE_SIZE ? gap : sink->gap_max;
	sink->got += size;
	return true;
}

static void a_huge_body_streams_in_bounded_memory(void **state)
{
	struct fixture *fixture = *state;
	struct slow_sink sink = {.fixture = fixture};
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct berth_http_request request = {.response = {take_slowly, &sink}};
	assert_ok(ask(fixture, "GET", "/huge", request, &response, &err), err);
	assert_int_equal(sink.got, HUGE_SIZE);
	// Ours, and the kernel's socket buffers (6 MiB at most by default).
	assert_true(sink.gap_max < BERTH_HTTP_BUFFER_SIZE + (size_t)16 * 1024 * 1024);
}

static bool refuse(void *context, const void *data, size_t size, struct berth_error *err)
{
	(void)context;
	(void)data;
	(void)size;
	return berth_fail(err, BERTH_ERROR_EXHAUSTED, "no room for it");
}

static void a_sink_that_fails_ends_the_transfer_with_its_reason(void **state)
{
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct berth_http_request request = {.response = {refuse, NULL}};
	assert_fails(ask(*state, "GET", "/huge", request, &response, &err), err, BERTH_ERROR_EXHAUSTED, "no room");
	assert_int_equal(response.status, 200);
}

static bool cancel_midway(void *context, const void *data, size_t size, struct berth_error *err)
{
	(void)data;
	(void)size;
	(void)err;
	berth_cancel_fire(context);
	return true;
}

static void a_cancel_ends_a_body_that_never_pauses(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct berth_http_request request = {.response = {cancel_midway, fixture->cancel}};
	assert_fails(ask(fixture, "GET", "/huge", request, &response, &err), err, BERTH_ERROR_CANCELLED, "/huge");
}

static void a_body_that_stops_half_way_costs_no_more_than_the_token(void **state)
{
	struct fixture *fixture = *state;
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
	struct berth_http_request request = {.response = {cancel_midway, fixture->cancel}};
	assert_fails(
		ask(fixture, "GET", "/half-body", request, &response, &err), err, BERTH_ERROR_CANCELLED, "/half-body");
	assert_int_equal(response.status, 200);
}

struct generator {
	size_t rest;
	bool fails;
};

static ssize_t generate(void *context, void *data, size_t size, struct berth_error *err)
{
	struct generator *generator = context;
	if (generator->fails && generator->rest == 0) {
		berth_fail(err, BERTH_ERROR_CORRUPT, "the source broke");
		return -1;
	}
	size = size < generator->rest ? size : generator->rest;
	memset(data, 'x', size);
	generator->rest -= size;
	return (ssize_t)size;
}

static void an_upload_streams_in_chunks(void **state)
{
	struct fixture *fixture = *state;
	static const size_t sizes[] = {0, 1, 100000, 64 * 1024 * 1024 + 1};
	for (size_t i = 0; i < BERTH_COUNT(sizes); i++) {
		struct generator generator = {.rest = sizes[i]};
		struct berth_source source = {generate, &generator};
		struct berth_error err;
		BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0};
		struct berth_http_request request = {.body_source = &source};
		assert_ok(ask(fixture, i % 2 ? "PUT" : "POST", "/upload", request, &response, &err), err);
		assert_int_equal(response.status, 201);
		assert_int_equal(fixture->moved, sizes[i]);
	}
}

static void an_upload_ends_when_its_source_fails_or_the_peer_has_enough(void **state)
{
	struct fixture *fixture = *state;
	struct generator broken = {.rest = 3 * 1024 * 1024, .fails = true};
	struct berth_source source = {generate, &broken};
	struct berth_error err;
	BERTH_AUTO(berth_http_response_free) struct berth_http_response response = {0}, early = {0};
	struct berth_http_request request = {.body_source = &source};
	assert_fails(ask(fixture, "PUT", "/upload", request, &response, &err), err, BERTH_ERROR_CORRUPT, "broke");
	// The answer may get through, or the reset that follows it is first.
	struct generator endless = {.rest = SIZE_MAX};
	source.context = &endless;
	if (ask(fixture, "PUT", "/early", request, &early, &err)) {
		assert_int_equal(early.status, 413);
	} else {
		assert_int_equal(err.code, BERTH_ERROR_IO);
	}
}

static void *ask_many(void *context)
{
	struct fixture *fixture = context;
	for (int i = 0; i < 40; i++) {
		struct berth_error err;
		struct berth_http_response response = {0};
		struct berth_buf body = {0};
		struct berth_http_request request = {.body = "text", .body_size = 4, .response = berth_sink_buf(&body)};
		bool good = ask(fixture, i % 2 ? "POST" : "GET", "/echo", request, &response, &err) &&
		            response.status == 200 && strstr(berth_buf_text(&body), "|text|");
		berth_http_response_free(&response);
		berth_buf_free(&body);
		if (!good) {
			return fixture;
		}
	}
	return NULL;
}

static void many_threads_share_one_driver(void **state)
{
	pthread_t threads[4];
	for (size_t i = 0; i < BERTH_COUNT(threads); i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, ask_many, *state), 0);
	}
	for (size_t i = 0; i < BERTH_COUNT(threads); i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
}

static void escaping_leaves_only_unreserved_characters(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *text = berth_http_escape("aZ0-._~ /?&=%+\xc3\xa9");
	assert_string_equal(text, "aZ0-._~%20%2F%3F%26%3D%25%2B%C3%A9");
	BERTH_AUTO_FREE char *none = berth_http_escape("");
	assert_string_equal(none, "");
}

#define with_server(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	with_server(a_body_and_headers_travel_both_ways),
	with_server(every_method_is_sent_as_it_is_named),
	with_server(an_error_status_is_an_answer),
	with_server(a_peer_that_never_answers_costs_the_deadline_and_no_more),
	with_server(a_cancel_ends_a_transfer_that_waits),
	with_server(a_refused_connection_is_unavailable_and_not_sent),
	with_server(a_cut_connection_is_io_and_may_have_had_an_effect),
	with_server(a_post_is_never_sent_twice_by_itself),
	with_server(what_is_no_http_and_headers_without_end_are_refused),
	with_server(a_huge_body_streams_in_bounded_memory),
	with_server(a_sink_that_fails_ends_the_transfer_with_its_reason),
	with_server(a_cancel_ends_a_body_that_never_pauses),
	with_server(a_body_that_stops_half_way_costs_no_more_than_the_token),
	with_server(an_upload_streams_in_chunks),
	with_server(an_upload_ends_when_its_source_fails_or_the_peer_has_enough),
	with_server(many_threads_share_one_driver),
	cmocka_unit_test(escaping_leaves_only_unreserved_characters),
};

BERTH_TEST_MAIN(tests)
