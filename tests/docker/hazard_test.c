// SPDX-License-Identifier: Apache-2.0
// Hazards of creates and kills that docs/ACCEPTANCE.md lists, each shown impossible in the local runner: an Engine of a
// few lines that lists, removes and answers as it is told, and notes what it was asked.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/local/local.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "tests/support/test.h"
#include "tests/unit/http/server.h"

#define LEASE       "00112233445566778899aabbccddeeff"
#define OTHER_LEASE "ffeeddccbbaa99887766554433221100"

struct answer {
	int status;
	const char *body;
};

struct engine {
	char *socket;
	struct test_server *server;
	struct berth_http *http;
	struct berth_docker *docker;
	struct berth_runner *runner;
	pthread_mutex_t lock; // guards what follows
	const char
		*listings; // one letter each, the last for ever: 'y' shows the container, 'n' does not, 'e' is an error
	struct answer removal, creation, image, container;
	const char *networks; // the listing of them
	const char *daemon_id;
	struct berth_buf asked;   // methods and what they were about
	struct berth_buf created; // the body of the newest create
};

static bool answer_listing(struct engine *engine, struct test_request *request)
{
	berth_buf_add_text(&engine->asked, "list ");
	char letter = *engine->listings;
	engine->listings += engine->listings[1] != 0;
	if (letter == 'e') {
		return test_answer(request, 500, "{\"message\":\"404: No such container, page not found\"}");
	}
	return test_answer(
		request, 200, letter == 'y' ? "[{\"Id\":\"box\",\"Names\":[\"/box\"],\"Labels\":{}}]" : "[]");
}

static void keep_body(struct engine *engine, struct test_request *request)
{
	char piece[1024];
	size_t size;
	engine->created.size = 0;
	while ((size = test_request_body(request, piece, sizeof piece)) > 0) {
		berth_buf_add(&engine->created, piece, size);
	}
}

static bool answer_container(struct engine *engine, struct test_request *request)
{
	if (strstr(request->target, "/containers/json")) {
		return answer_listing(engine, request);
	}
	if (strstr(request->target, "/containers/create")) {
		keep_body(engine, request);
		return test_answer(request, engine->creation.status, engine->creation.body);
	}
	if (strcmp(request->method, "DELETE") == 0) {
		berth_buf_add_text(&engine->asked, "remove ");
		return test_answer(request, engine->removal.status, engine->removal.body);
	}
	test_request_drain(request);
	if (strcmp(request->method, "GET") == 0) {
		return test_answer(request, engine->container.status, engine->container.body);
	}
	berth_buf_add_text(&engine->asked, "other ");
	return test_answer(request, strcmp(request->method, "PUT") == 0 ? 200 : 204, "");
}

static bool answer(void *context, struct test_request *request)
{
	struct engine *engine = context;
	const char *target = request->target;
	if (strcmp(target, "/_ping") == 0) {
		return test_answer(request, 200, "OK");
	}
	if (strcmp(target, "/version") == 0) {
		return test_answer(request, 200, "{\"ApiVersion\":\"1.41\",\"Version\":\"20.10.24\",\"Os\":\"linux\"}");
	}
	if (strstr(target, "/info")) {
		BERTH_AUTO_FREE char *body = berth_format(
			"{\"ID\":\"%s\",\"OSType\":\"linux\",\"Architecture\":\"x86_64\"}", engine->daemon_id);
		return test_answer(request, 200, body);
	}
	if (strstr(target, "/networks/create")) {
		test_request_drain(request);
		return test_answer(request, 201, "{\"Id\":\"n1\"}");
	}
	pthread_mutex_lock(&engine->lock);
	if (strstr(target, "/networks/")) {
		berth_buf_add_text(&engine->asked, request->method);
		berth_buf_add_text(&engine->asked, strstr(target, "/networks/"));
		pthread_mutex_unlock(&engine->lock);
		return test_answer(request, 204, "");
	}
	if (strstr(target, "/networks")) {
		const char *networks = engine->networks;
		pthread_mutex_unlock(&engine->lock);
		return test_answer(request, 200, networks);
	}
	bool good = strstr(target, "/images/") ? test_answer(request, engine->image.status, engine->image.body)
	                                       : answer_container(engine, request);
	pthread_mutex_unlock(&engine->lock);
	return good;
}

static struct berth_until soon(void)
{
	return berth_within_ms(60000, NULL);
}

static int setup(void **state)
{
	struct engine *engine = berth_alloc(sizeof *engine);
	BERTH_AUTO_FREE char *folder = berth_format("/tmp/hazard-XXXXXX"); // short enough for a socket
	assert_non_null(mkdtemp(folder));
	*engine = (struct engine){.socket = berth_format("%s/s", folder),
		.listings = "n",
		.daemon_id = "first",
		.networks = "[]",
		.removal = {204, ""},
		.creation = {201, "{\"Id\":\"box\"}"},
		.image = {200, "{\"Id\":\"sha256:11\",\"Os\":\"linux\",\"Config\":{}}"},
		.container = {200, "{\"Id\":\"box\",\"Image\":\"sha256:11\",\"State\":{\"Status\":\"running\"},"
				   "\"HostConfig\":{\"NetworkMode\":\"none\"},\"Config\":{}}"}};
	pthread_mutex_init(&engine->lock, NULL);
	engine->server = test_server_unix(engine->socket, answer, engine);
	engine->http = berth_http_new(NULL);
	BERTH_AUTO_FREE char *host = berth_format("unix://%s", engine->socket);
	struct berth_error err = {0};
	engine->docker = berth_docker_open(engine->http, host, soon(), &err);
	assert_ok(engine->docker != NULL, err);
	const struct berth_local_options options = {.fleet = "quay", .agent = "north"};
	engine->runner = berth_local_runner_new(engine->docker, &options, soon(), &err);
	assert_ok(engine->runner != NULL, err);
	engine->runner->placement_bound_ms = 0;
	*state = engine;
	return 0;
}

static int teardown(void **state)
{
	struct engine *engine = *state;
	engine->runner->free(engine->runner);
	berth_docker_free(engine->docker);
	berth_http_free(engine->http);
	test_server_stop(engine->server);
	pthread_mutex_destroy(&engine->lock);
	berth_buf_free(&engine->asked);
	berth_buf_free(&engine->created);
	free(engine->socket);
	free(engine);
	return 0;
}

static void assert_asked(struct engine *engine, const char *wanted)
{
	assert_string_equal(berth_buf_text(&engine->asked), wanted);
}

// --- kills ---

static void x5_a_404_in_the_words_of_an_answer_proves_no_absence(void **state)
{
	struct engine *engine = *state;
	struct berth_error err = {0};
	engine->listings = "e";
	assert_fails(engine->runner->kill(engine->runner, LEASE, soon(), &err), err, BERTH_ERROR_INTERNAL, "404");
	engine->listings = "y";
	engine->removal = (struct answer){500, "{\"message\":\"404 not found: No such container\"}"};
	assert_fails(engine->runner->kill(engine->runner, LEASE, soon(), &err), err, BERTH_ERROR_INTERNAL, "404");
}

static void x6_a_removal_that_is_answered_well_and_does_nothing_proves_no_absence(void **state)
{
	struct engine *engine = *state;
	struct berth_error err = {0};
	engine->listings = "yn";
	assert_ok(engine->runner->kill(engine->runner, LEASE, soon(), &err), err);
	assert_asked(engine, "list remove list list "); // no other request, none that wakes or prolongs what it finds
	engine->listings = "y";
	assert_fails(engine->runner->kill(engine->runner, LEASE, berth_within_ms(300, NULL), &err), err,
		BERTH_ERROR_TIMEOUT, "1 container(s) still seen");
}

static void x7_h7_absence_is_listed_twice_after_the_last_removal(void **state)
{
	struct engine *engine = *state;
	struct berth_error err = {0};
	engine->listings = "ynyn"; // one listing forgot it
	assert_ok(engine->runner->kill(engine->runner, LEASE, soon(), &err), err);
	assert_asked(engine, "list remove list list remove list list ");
}

static void a_daemon_that_came_in_the_place_of_another_proves_no_absence(void **state)
{
	struct engine *engine = *state;
	struct berth_error err;
	engine->daemon_id = "second";
	assert_fails(engine->runner->kill(engine->runner, LEASE, soon(), &err), err, BERTH_ERROR_CONFLICT,
		"another Docker daemon answers (second)");
	engine->daemon_id = "first";
	assert_ok(engine->runner->kill(engine->runner, LEASE, soon(), &err), err);
}

static void h11_what_appears_after_its_create_was_given_up_is_removed(void **state)
{
	struct engine *engine = *state;
	struct berth_error err = {0};
	engine->runner->placement_bound_ms = 3600 * 1000;
	engine->listings = "nnnyn"; // nothing is there three times, and only then what a slow Engine made
	assert_ok(engine->runner->kill(engine->runner, LEASE, soon(), &err), err);
	assert_asked(engine, "list list list list remove list list ");
	engine->listings = "n";
	assert_fails(engine->runner->kill(engine->runner, LEASE, berth_within_ms(300, NULL), &err), err,
		BERTH_ERROR_TIMEOUT, LEASE);
}

static void kill_unseen(struct engine *engine, const char *lease_id)
{
	struct berth_error err = {0};
	berth_buf_reset(&engine->asked);
	assert_ok(engine->runner->kill(engine->runner, lease_id, soon(), &err), err);
}

// A hundred of them must not hold an agent back for a hundred bounds.
static void what_an_older_life_asked_for_is_waited_for_once(void **state)
{
	struct engine *engine = *state;
	engine->runner->placement_bound_ms = 1200;
	kill_unseen(engine, LEASE);
	assert_true(strlen(berth_buf_text(&engine->asked)) > strlen("list list "));
	kill_unseen(engine, OTHER_LEASE);
	assert_asked(engine, "list list ");
}

// --- creates ---

static const struct berth_task_environment tagged = {.docker_image = "debian:bookworm-slim"};

static struct berth_environment_plan plan_of(enum berth_network_mode network)
{
	return (struct berth_environment_plan){.lease_id = LEASE,
		.role = BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT,
		.job_id = "job-1",
		.generation = 1,
		.environment = &tagged,
		.cpus = -1,
		.memory_mb = -1,
		.network = network};
}

static void prepare(struct engine *engine, const struct berth_environment_plan *plan)
{
	struct berth_error err = {0};
	assert_ok(engine->runner->prepare(engine->runner, plan, (struct berth_sink){0}, soon(), &err), err);
}

static void what_this_life_asked_for_is_waited_for_from_then_on(void **state)
{
	struct engine *engine = *state;
	struct berth_error err = {0};
	engine->runner->placement_bound_ms = 1200;
	kill_unseen(engine, OTHER_LEASE); // the bound of what older lives asked for is over
	const struct berth_environment_plan plan = plan_of(BERTH_NETWORK_NONE);
	struct berth_created created = {0};
	prepare(engine, &plan);
	engine->creation = (struct answer){500, "{\"message\":\"timeout\"}"};
	assert_int_equal(engine->runner->create(engine->runner, &plan, &created, soon(), &err), BERTH_CREATE_AMBIGUOUS);
	kill_unseen(engine, LEASE);
	assert_true(strlen(berth_buf_text(&engine->asked)) > strlen("list list "));
}

static void h8_the_status_of_a_failed_create_tells_and_not_its_words(void **state)
{
	static const struct {
		struct answer answer;
		enum berth_create_outcome outcome;
	} rows[] = {
		{{400, "{\"message\":\"500 Internal Server Error, no space left on devices\"}"},
			BERTH_CREATE_AMBIGUOUS},
		{{400, "{\"message\":\"500 Internal Server Error\"}"}, BERTH_CREATE_REJECTED},
		{{404, "{\"message\":\"No such image\"}"}, BERTH_CREATE_REJECTED},
		{{409, "{\"message\":\"the name is in use\"}"}, BERTH_CREATE_AMBIGUOUS},
		{{500, "{\"message\":\"400 bad parameter: No such image, not found\"}"}, BERTH_CREATE_AMBIGUOUS},
		{{500, "{\"message\":\"mkdir /x: no space left on device\"}"}, BERTH_CREATE_AMBIGUOUS},
		{{503, "{\"message\":\"404 page not found\"}"}, BERTH_CREATE_AMBIGUOUS},
		{{201, "{}"}, BERTH_CREATE_AMBIGUOUS},
	};
	struct engine *engine = *state;
	struct berth_environment_plan plan = plan_of(BERTH_NETWORK_PUBLIC);
	prepare(engine, &plan);
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_created created = {0};
		struct berth_error err = {0};
		engine->creation = rows[i].answer;
		assert_int_equal(
			engine->runner->create(engine->runner, &plan, &created, soon(), &err), rows[i].outcome);
		assert_null(created.resource_id);
	}
}

static void w2_what_isolates_a_container_is_said_in_every_create(void **state)
{
	static const enum berth_network_mode modes[] = {BERTH_NETWORK_UNSET, BERTH_NETWORK_PUBLIC, BERTH_NETWORK_NONE};
	struct engine *engine = *state;
	for (size_t i = 0; i < BERTH_COUNT(modes); i++) {
		struct berth_environment_plan plan = plan_of(modes[i]);
		struct berth_created created = {0};
		struct berth_error err = {0};
		prepare(engine, &plan);
		assert_int_equal(
			engine->runner->create(engine->runner, &plan, &created, soon(), &err), BERTH_CREATE_CREATED);
		free(created.resource_id);
		const char *body = berth_buf_text(&engine->created);
		assert_non_null(strstr(body,
			modes[i] == BERTH_NETWORK_NONE ? "\"NetworkMode\": \"none\"" : "\"NetworkMode\": \"n1\""));
		assert_non_null(strstr(body, "\"dev.berth.lease\": \"" LEASE "\""));
		assert_non_null(strstr(body, "\"dev.berth.fleet\": \"quay\""));
	}
}

static void tidy(struct engine *engine)
{
	struct berth_error err = {0};
	engine->asked.size = 0;
	assert_ok(engine->runner->tidy(engine->runner, soon(), &err), err);
}

static void assert_created_on(struct engine *engine, const char *network)
{
	struct berth_environment_plan plan = plan_of(BERTH_NETWORK_PUBLIC);
	struct berth_created created = {0};
	struct berth_error err = {0};
	prepare(engine, &plan);
	assert_int_equal(engine->runner->create(engine->runner, &plan, &created, soon(), &err), BERTH_CREATE_CREATED);
	free(created.resource_id);
	BERTH_AUTO_FREE char *wanted = berth_format("\"NetworkMode\": \"%s\"", network);
	assert_non_null(strstr(berth_buf_text(&engine->created), wanted));
}

// A life that was killed while it made its bridge; the Engine went on, beside this one's.
static void a_second_bridge_is_not_used_and_is_removed(void **state)
{
	struct engine *engine = *state;
	engine->networks =
		"[{\"Id\":\"n0\",\"Name\":\"berth-quay-north\"},{\"Id\":\"n1\",\"Name\":\"berth-quay-north\"}]";
	tidy(engine);
	assert_asked(engine, "DELETE/networks/n0");
	assert_created_on(engine, "n1");
}

static void a_bridge_that_somebody_removed_is_made_again(void **state)
{
	struct engine *engine = *state;
	engine->networks = "[{\"Id\":\"n7\",\"Name\":\"berth-quay-north\"}]";
	tidy(engine);
	assert_created_on(engine, "n7");
	engine->networks = "[]";
	tidy(engine);
	assert_created_on(engine, "n1");
}

static void h18_a_tag_that_moves_after_it_was_resolved_is_not_followed(void **state)
{
	struct engine *engine = *state;
	struct berth_environment_plan plan = plan_of(BERTH_NETWORK_NONE);
	prepare(engine, &plan);
	engine->image.body = "{\"Id\": \"sha256:22\",\"Os\": \"linux\",\"Config\":{}}"; // someone pushed the tag again
	struct berth_created created = {0};
	struct berth_error err = {0};
	assert_int_equal(engine->runner->create(engine->runner, &plan, &created, soon(), &err), BERTH_CREATE_CREATED);
	assert_non_null(strstr(berth_buf_text(&engine->created), "\"Image\": \"sha256:11\""));
	free(created.resource_id);
}

static void h15_an_attestation_is_what_the_engine_shows_and_not_what_was_asked_for(void **state)
{
	static const char *const wanted =
		"{\"backend\":\"local\",\"cpus\":3,\"image_id\":\"sha256:33\",\"memory_mb\":64,\"network_mode\":"
		"\"host\","
		"\"platform\":\"linux/amd64\",\"role\":\"task_environment\",\"schema_version\":1,\"user\":\"nobody\"}";
	struct engine *engine = *state;
	struct berth_environment_plan plan = plan_of(BERTH_NETWORK_NONE);
	plan.cpus = 1;
	plan.memory_mb = 512;
	prepare(engine, &plan);
	engine->container.body =
		"{\"Id\":\"box\",\"Image\":\"sha256:33\",\"State\":{\"Status\":\"running\"},\"HostConfig\":{"
		"\"NetworkMode\":\"host\",\"NanoCpus\":3000000000,\"Memory\":67108864},\"Config\":{\"User\":\"nobody\"}"
		"}";
	struct berth_error err = {0};
	struct berth_environment *environment = engine->runner->open(engine->runner, &plan, "box", soon(), &err);
	assert_ok(environment != NULL, err);
	BERTH_AUTO(berth_json_cleanup) berth_json *json = engine->runner->attest(environment, soon(), &err);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	assert_ok(berth_json_write_canonical(json, &text, &err), err);
	assert_string_equal(berth_buf_text(&text), wanted);
	engine->runner->close(environment);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(x5_a_404_in_the_words_of_an_answer_proves_no_absence),
	TEST(x6_a_removal_that_is_answered_well_and_does_nothing_proves_no_absence),
	TEST(x7_h7_absence_is_listed_twice_after_the_last_removal),
	TEST(a_daemon_that_came_in_the_place_of_another_proves_no_absence),
	TEST(h11_what_appears_after_its_create_was_given_up_is_removed),
	TEST(what_an_older_life_asked_for_is_waited_for_once),
	TEST(what_this_life_asked_for_is_waited_for_from_then_on),
	TEST(h8_the_status_of_a_failed_create_tells_and_not_its_words),
	TEST(w2_what_isolates_a_container_is_said_in_every_create),
	TEST(a_second_bridge_is_not_used_and_is_removed),
	TEST(a_bridge_that_somebody_removed_is_made_again),
	TEST(h18_a_tag_that_moves_after_it_was_resolved_is_not_followed),
	TEST(h15_an_attestation_is_what_the_engine_shows_and_not_what_was_asked_for),
};

BERTH_TEST_MAIN(tests)
