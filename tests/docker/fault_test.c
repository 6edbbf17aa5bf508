// SPDX-License-Identifier: Apache-2.0
// A daemon that hangs, dies, lies or is out of something: a small server that speaks as much of the Engine's API as
// each test needs, and then misbehaves.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/docker/docker.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "tests/support/test.h"
#include "tests/unit/http/server.h"

struct daemon {
	char *socket;
	struct test_server *server;
	struct berth_http *http;
	struct berth_docker *docker;
	const char *api, *version;
	// What a request that is not part of the greeting gets; the first row whose target is part of it counts.
	pthread_mutex_t lock; // guards replies and cancel
	struct reply {
		const char *target;
		bool (*answer)(struct test_request *request);
	} replies[8];
	struct berth_cancel *cancel; // fired by the daemon that hangs: the client has asked, and waits
	atomic_int creates, starts;
};

static struct daemon *current;

static struct reply find_reply(struct daemon *daemon, const char *target)
{
	struct reply found = {0};
	pthread_mutex_lock(&daemon->lock);
	for (size_t i = 0; !found.target && i < BERTH_COUNT(daemon->replies) && daemon->replies[i].target; i++) {
		if (strstr(target, daemon->replies[i].target)) {
			found = daemon->replies[i];
		}
	}
	pthread_mutex_unlock(&daemon->lock);
	return found;
}

static void set_replies(struct daemon *daemon, const struct reply *replies, size_t count)
{
	pthread_mutex_lock(&daemon->lock);
	memset(daemon->replies, 0, sizeof daemon->replies);
	memcpy(daemon->replies, replies, count * sizeof *replies);
	pthread_mutex_unlock(&daemon->lock);
}

static void set_reply(struct daemon *daemon, const char *target, bool (*answer)(struct test_request *request))
{
	struct reply reply = {target, answer};
	set_replies(daemon, &reply, 1);
}

// An `until` of a minute under a token that no one has fired yet.
static struct berth_until until_it_hangs(struct daemon *daemon)
{
	pthread_mutex_lock(&daemon->lock);
	berth_cancel_free(daemon->cancel);
	daemon->cancel = berth_cancel_new(NULL);
	pthread_mutex_unlock(&daemon->lock);
	return berth_within_ms(60000, daemon->cancel);
}

static bool handle(void *context, struct test_request *request)
{
	struct daemon *daemon = context;
	if (strcmp(request->target, "/_ping") == 0) {
		return test_answer(request, 200, "OK");
	}
	if (strcmp(request->target, "/version") == 0) {
		BERTH_AUTO_FREE char *body = berth_format(
			"{\"ApiVersion\":\"%s\",\"Version\":\"%s\",\"Os\":\"linux\"}", daemon->api, daemon->version);
		return test_answer(request, 200, body);
	}
	if (strstr(request->target, "/containers/create")) {
		daemon->creates++;
	}
	struct reply reply = find_reply(daemon, request->target);
	if (reply.target) {
		return reply.answer(request);
	}
	return test_answer(request, 404, "{\"message\":\"page not found\"}");
}

static int setup(void **state)
{
	struct daemon *daemon = berth_alloc(sizeof *daemon);
	BERTH_AUTO_FREE char *folder = berth_format("/tmp/fault-XXXXXX");
	if (!mkdtemp(folder)) {
		return -1;
	}
	daemon->socket = berth_format("%s/s", folder);
	current = daemon;
	pthread_mutex_init(&daemon->lock, NULL);
	daemon->api = "1.41";
	daemon->version = "20.10.24";
	daemon->server = test_server_unix(daemon->socket, handle, daemon);
	daemon->http = berth_http_new(NULL);
	*state = daemon;
	return 0;
}

static int teardown(void **state)
{
	struct daemon *daemon = *state;
	berth_docker_free(daemon->docker);
	berth_http_free(daemon->http);
	if (daemon->server) {
		test_server_stop(daemon->server);
	}
	berth_cancel_free(daemon->cancel);
	pthread_mutex_destroy(&daemon->lock);
	free(daemon->socket);
	free(daemon);
	return 0;
}

static struct berth_until soon(void)
{
	return berth_within_ms(60000, NULL);
}

static bool try_open(struct daemon *daemon, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE char *host = berth_format("unix://%s", daemon->socket);
	daemon->docker = berth_docker_open(daemon->http, host, until, err);
	return daemon->docker != NULL;
}

static struct berth_docker *open_docker(struct daemon *daemon)
{
	struct berth_error err;
	assert_ok(try_open(daemon, soon(), &err), err);
	return daemon->docker;
}

// --- answers ---
static bool hang(struct test_request *request)
{
	test_request_drain(request);
	pthread_mutex_lock(&current->lock);
	if (current->cancel) {
		berth_cancel_fire(current->cancel);
	}
	pthread_mutex_unlock(&current->lock);
	test_server_hang(request);
	return false;
}

static bool die(struct test_request *request)
{
	test_request_drain(request);
	return false;
}

static bool say_500(struct test_request *request)
{
	return test_answer(request, 500, "{\"message\":\"something broke\"}");
}

static bool say_html(struct test_request *request)
{
	return test_answer(request, 200, "<html>it works</html>");
}

static bool say_text_500(struct test_request *request)
{
	return test_answer(request, 502, "bad gateway, no JSON");
}

static bool say_empty_object(struct test_request *request)
{
	return test_answer(request, 201, "{}");
}

static bool say_odd_types(struct test_request *request)
{
	return test_answer(request, 200,
		"{\"Id\":7,\"Name\":[],\"State\":\"up\",\"HostConfig\":null,\"Config\":3,\"Titles\":1,\"ID\":{}}");
}

static bool cut_body(struct test_request *request)
{
	test_send_text(request, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"Id\":\"x\"");
	return false;
}

static bool no_pool(struct test_request *request)
{
	return test_answer(request, 404,
		"{\"message\":\"could not find an available, non-overlapping IPv4 address pool among the defaults\"}");
}

static bool say_ambiguous(struct test_request *request)
{
	return test_answer(request, 400, "{\"message\":\"network n1 is ambiguous (2 matches found on name)\"}");
}

static bool no_space(struct test_request *request)
{
	return test_answer(request, 500, "{\"message\":\"mkdir /x: no space left on device\"}");
}

struct row {
	bool (*answer)(struct test_request *request);
	enum berth_error_code code;
	const char *part;
};

static void every_fault_of_a_create_has_its_code_and_is_sent_once(void **state)
{
	struct daemon *daemon = *state;
	static const struct row rows[] = {{say_500, BERTH_ERROR_INTERNAL, "something broke"},
		{say_text_500, BERTH_ERROR_INTERNAL, "no JSON"}, {say_html, BERTH_ERROR_INTERNAL, "no JSON"},
		{say_empty_object, BERTH_ERROR_INTERNAL, "no id"}, {cut_body, BERTH_ERROR_IO, "c1"},
		{die, BERTH_ERROR_IO, "c1"}, {no_space, BERTH_ERROR_EXHAUSTED, "no space left"},
		{say_ambiguous, BERTH_ERROR_CONFLICT, "2 matches"}, // not the task's fault, as INVALID would be
		{hang, BERTH_ERROR_CANCELLED, "c1"}};
	struct berth_docker *docker = open_docker(daemon);
	struct berth_docker_create create = {.name = "c1", .image = "i"};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		set_reply(daemon, "/containers/create", rows[i].answer);
		daemon->creates = 0;
		char *id;
		bool sent = false;
		struct berth_error err = {0};
		struct berth_until until = until_it_hangs(daemon);
		assert_fails(berth_docker_container_create(docker, &create, &id, &sent, until, &err), err, rows[i].code,
			rows[i].part);
		assert_true(sent);
		assert_null(id);
		assert_int_equal(daemon->creates, 1);
	}
}

static void a_create_that_no_daemon_got_was_not_sent(void **state)
{
	struct daemon *daemon = *state;
	struct berth_docker *docker = open_docker(daemon);
	test_server_stop(daemon->server);
	daemon->server = NULL;
	unlink(daemon->socket);
	struct berth_docker_create create = {.name = "c1", .image = "i"};
	char *id;
	bool sent = true;
	struct berth_error err = {0};
	assert_fails(berth_docker_container_create(docker, &create, &id, &sent, soon(), &err), err,
		BERTH_ERROR_UNAVAILABLE, daemon->socket);
	assert_false(sent);
	struct berth_cancel *cancel = berth_cancel_new(NULL);
	berth_cancel_fire(cancel);
	sent = true;
	bool good = berth_docker_container_create(docker, &create, &id, &sent, berth_within_ms(1000, cancel), &err);
	berth_cancel_free(cancel);
	assert_fails(good, err, BERTH_ERROR_CANCELLED, "c1");
	assert_false(sent);
}

static void address_pools_that_are_used_up_are_exhausted(void **state)
{
	struct daemon *daemon = *state;
	struct berth_docker *docker = open_docker(daemon);
	set_reply(daemon, "/networks/create", no_pool);
	struct berth_docker_network network = {.name = "n1"};
	char *id;
	struct berth_error err = {0};
	assert_fails(berth_docker_network_create(docker, &network, &id, soon(), &err), err, BERTH_ERROR_EXHAUSTED,
		"address-pools");
}

static void values_of_odd_types_are_taken_for_missing(void **state)
{
	struct daemon *daemon = *state;
	struct berth_docker *docker = open_docker(daemon);
	set_reply(daemon, "", say_odd_types);
	struct berth_error err = {0};
	BERTH_AUTO(berth_docker_container_free) struct berth_docker_container container;
	BERTH_AUTO(berth_docker_image_free) struct berth_docker_image image;
	BERTH_AUTO(berth_docker_info_free) struct berth_docker_info info;
	assert_ok(berth_docker_container_inspect(docker, "c", &container, soon(), &err), err);
	assert_string_equal(container.id, "");
	assert_string_equal(container.health, "none");
	assert_ok(berth_docker_image_inspect(docker, "i", &image, soon(), &err), err);
	assert_ok(berth_docker_info(docker, &info, soon(), &err), err);
	struct berth_docker_listed *listed;
	struct berth_docker_process *processes;
	size_t count;
	assert_fails(berth_docker_container_list(docker, NULL, 0, &listed, &count, soon(), &err), err,
		BERTH_ERROR_INTERNAL, "no list");
	assert_fails(berth_docker_container_top(docker, "c", &processes, &count, soon(), &err), err,
		BERTH_ERROR_INTERNAL, "pid,sid,stat");
}

static bool say_version(struct test_request *request)
{
	// The target itself is the answer: it tells which version was asked for.
	BERTH_AUTO_FREE char *body = berth_format("{\"ID\":\"%s\"}", request->target);
	return test_answer(request, 200, body);
}

static void the_api_version_is_the_daemons_within_what_is_known(void **state)
{
	struct daemon *daemon = *state;
	static const char *const versions[][2] = {
		{"1.41", "/v1.41/info"}, {"1.43", "/v1.43/info"}, {"1.99", "/v1.47/info"}};
	set_reply(daemon, "/info", say_version);
	for (size_t i = 0; i < BERTH_COUNT(versions); i++) {
		daemon->api = versions[i][0];
		struct berth_docker_info info;
		struct berth_error err;
		assert_ok(berth_docker_info(open_docker(daemon), &info, soon(), &err), err);
		assert_string_equal(info.daemon_id, versions[i][1]);
		berth_docker_info_free(&info);
		berth_docker_free(daemon->docker);
		daemon->docker = NULL;
	}
	daemon->api = "1.40";
	struct berth_error err = {0};
	assert_fails(try_open(daemon, soon(), &err), err, BERTH_ERROR_UNSUPPORTED, "1.41 is needed");
	daemon->api = "one";
	assert_fails(try_open(daemon, soon(), &err), err, BERTH_ERROR_INTERNAL, "no API version");
}

// --- builds ---
static bool build_dies(struct test_request *request)
{
	test_request_drain(request);
	test_send_text(
		request, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n13\r\n{\"stream\":\"Step 1\"}\r\n");
	return false;
}

static bool build_ends_early(struct test_request *request)
{
	test_request_drain(request);
	return test_answer(request, 200, "{\"stream\":\"Step 1\"}\n");
}

static bool build_fails_and_dies(struct test_request *request)
{
	test_request_drain(request);
	test_send_text(request, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
				"{\"errorDetail\":{\"message\":\"x: exit code: 4\"}}\n");
	return false;
}

// A daemon that answers before it has read the context cuts the client off in mid-send.
static bool build_refuses(struct test_request *request)
{
	test_request_drain(request);
	test_answer(request, 400, "{\"message\":\"dockerfile parse error line 1\"}");
	return false;
}

static bool build_says_500(struct test_request *request)
{
	test_request_drain(request);
	return say_500(request);
}

static void a_build_that_breaks_off_is_never_a_success(void **state)
{
	struct daemon *daemon = *state;
	static const struct row rows[] = {{build_dies, BERTH_ERROR_IO, "t:1"},
		{build_ends_early, BERTH_ERROR_IO, "t:1"}, {build_fails_and_dies, BERTH_ERROR_INVALID, "exit code 4"},
		{build_refuses, BERTH_ERROR_INVALID, "parse error"},
		{build_says_500, BERTH_ERROR_INTERNAL, "something broke"}, {hang, BERTH_ERROR_CANCELLED, "t:1"}};
	struct berth_docker *docker = open_docker(daemon);
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		set_reply(daemon, "/build", rows[i].answer);
		struct berth_memory rest = {(const uint8_t *)"", 0};
		struct berth_docker_build build = {.tag = "t:1", .context = berth_source_memory(&rest)};
		char *id;
		struct berth_error err = {0};
		struct berth_until until = until_it_hangs(daemon);
		assert_fails(
			berth_docker_image_build(docker, &build, &id, until, &err), err, rows[i].code, rows[i].part);
		assert_null(id);
	}
}

// --- execs ---
static bool exec_created(struct test_request *request)
{
	return test_answer(request, 201, "{\"Id\":\"e1\"}");
}

static bool exec_runs(struct test_request *request)
{
	return test_answer(request, 200, "{\"Running\":true,\"ExitCode\":null,\"Pid\":4242}");
}

static bool exec_over(struct test_request *request)
{
	return test_answer(request, 200, "{\"Running\":false,\"ExitCode\":0,\"Pid\":4242}");
}

static bool top_shows_it(struct test_request *request)
{
	return test_answer(request, 200,
		"{\"Titles\":[\"PID\",\"SID\",\"STAT\",\"COMMAND\"],\"Processes\":[[\"1\",\"1\",\"Ss\",\"init\"],"
		"[\"4243\",\"4242\",\"S\",\"agent\"]]}");
}

static bool top_shows_a_zombie(struct test_request *request)
{
	return test_answer(request, 200,
		"{\"Titles\":[\"PID\",\"SID\",\"STAT\",\"COMMAND\"],\"Processes\":["
		"[\"4243\",\"4242\",\"Z\",\"[agent] <defunct>\"]]}");
}

// The stream of an exec up to its gate: the session's line, then the newline that opens it. Every later exec is the
// killer, which ends at once.
static bool gate(struct test_request *request)
{
	test_request_drain(request);
	test_send_text(request, "HTTP/1.1 101 UPGRADED\r\n\r\n");
	if (current->starts++ > 0) {
		return false;
	}
	test_send(request,
		"\1\0\0\0\0\0\0\3"
		"42\n",
		11);
	char newline;
	return request->rest.size > 0 || read(request->fd, &newline, 1) == 1;
}

static bool start_then_hang(struct test_request *request)
{
	return gate(request) && hang(request);
}

static bool start_then_die(struct test_request *request)
{
	gate(request);
	return false;
}

static bool start_then_garbage(struct test_request *request)
{
	if (gate(request)) {
		test_send_text(request, "this is no frame at all");
		test_server_hang(request);
	}
	return false;
}

static bool start_mute(struct test_request *request)
{
	test_request_drain(request);
	test_send_text(request, "HTTP/1.1 101 UPGRADED\r\n\r\n");
	return hang(request);
}

static bool run(struct daemon *daemon, struct berth_until until, int64_t kill_ms, struct berth_error *err)
{
	const char *argv[] = {"true", NULL};
	struct berth_docker_exec exec = {.argv = argv, .kill_ms = kill_ms};
	int exit_code = -1;
	daemon->starts = 0;
	return berth_docker_exec(daemon->docker, "box", &exec, &exit_code, until, err);
}

static void set_exec(struct daemon *daemon, bool (*start)(struct test_request *request),
	bool (*inspect)(struct test_request *request), bool (*top)(struct test_request *request))
{
	const struct reply replies[] = {{"/containers/box/exec", exec_created}, {"/exec/e1/start", start},
		{"/exec/e1/json", inspect}, {"/containers/box/top", top}};
	set_replies(daemon, replies, BERTH_COUNT(replies));
}

static void an_exec_that_cannot_be_proven_dead_is_internal(void **state)
{
	struct daemon *daemon = *state;
	open_docker(daemon);
	struct berth_error err = {0};
	set_exec(daemon, start_then_hang, exec_runs, top_shows_it);
	assert_fails(run(daemon, until_it_hangs(daemon), 300, &err), err, BERTH_ERROR_INTERNAL, "could not prove");
	assert_non_null(strstr(err.message, "was cancelled"));
	set_exec(daemon, start_then_hang, exec_runs, hang);
	assert_fails(run(daemon, until_it_hangs(daemon), 300, &err), err, BERTH_ERROR_INTERNAL, "could not prove");
	set_exec(daemon, start_mute, exec_runs, hang);
	assert_fails(run(daemon, until_it_hangs(daemon), 300, &err), err, BERTH_ERROR_INTERNAL, "could not prove");
}

static void an_exec_whose_session_is_gone_ended_as_it_was_asked_to(void **state)
{
	struct daemon *daemon = *state;
	open_docker(daemon);
	struct berth_error err = {0};
	set_exec(daemon, start_then_hang, exec_runs, top_shows_a_zombie);
	assert_fails(run(daemon, until_it_hangs(daemon), 60000, &err), err, BERTH_ERROR_CANCELLED, "box");
	set_exec(daemon, start_mute, exec_over, hang);
	assert_fails(run(daemon, until_it_hangs(daemon), 60000, &err), err, BERTH_ERROR_CANCELLED, "box");
}

static void garbage_in_the_output_ends_the_exec(void **state)
{
	struct daemon *daemon = *state;
	open_docker(daemon);
	struct berth_error err = {0};
	set_exec(daemon, start_then_garbage, exec_runs, top_shows_a_zombie);
	assert_fails(run(daemon, soon(), 60000, &err), err, BERTH_ERROR_IO, "no frame");
}

static void a_stream_that_is_cut_is_settled_by_inspection(void **state)
{
	struct daemon *daemon = *state;
	open_docker(daemon);
	struct berth_error err = {0};
	// Still running, says the daemon: waited for until the deadline, then killed without proof.
	set_exec(daemon, start_then_die, exec_runs, top_shows_it);
	assert_fails(run(daemon, berth_within_ms(3000, NULL), 300, &err), err, BERTH_ERROR_INTERNAL, "could not prove");
	// The daemon has lost it, and the container with it.
	struct reply replies[] = {{"/containers/box/exec", exec_created}, {"/exec/e1/start", start_then_die}};
	set_replies(daemon, replies, BERTH_COUNT(replies));
	assert_fails(run(daemon, soon(), 60000, &err), err, BERTH_ERROR_NOT_FOUND, "page not found");
}

static void a_daemon_that_hangs_before_anything_started_costs_no_more(void **state)
{
	struct daemon *daemon = *state;
	open_docker(daemon);
	struct berth_error err = {0};
	set_reply(daemon, "/containers/box/exec", hang);
	assert_fails(run(daemon, until_it_hangs(daemon), 60000, &err), err, BERTH_ERROR_CANCELLED, "box");
	set_reply(daemon, "/containers/box/exec", say_500);
	assert_fails(run(daemon, soon(), 60000, &err), err, BERTH_ERROR_INTERNAL, "something broke");
	set_exec(daemon, say_500, exec_runs, hang);
	assert_fails(run(daemon, soon(), 60000, &err), err, BERTH_ERROR_INTERNAL, "something broke");
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	with_daemon(every_fault_of_a_create_has_its_code_and_is_sent_once),
	with_daemon(a_create_that_no_daemon_got_was_not_sent),
	with_daemon(address_pools_that_are_used_up_are_exhausted),
	with_daemon(values_of_odd_types_are_taken_for_missing),
	with_daemon(the_api_version_is_the_daemons_within_what_is_known),
	with_daemon(a_build_that_breaks_off_is_never_a_success),
	with_daemon(an_exec_that_cannot_be_proven_dead_is_internal),
	with_daemon(an_exec_whose_session_is_gone_ended_as_it_was_asked_to),
	with_daemon(garbage_in_the_output_ends_the_exec),
	with_daemon(a_stream_that_is_cut_is_settled_by_inspection),
	with_daemon(a_daemon_that_hangs_before_anything_started_costs_no_more),
};

BERTH_TEST_MAIN(tests)
