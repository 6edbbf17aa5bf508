// SPDX-License-Identifier: Apache-2.0
// The local runner by itself: one build for all who want it, one bridge, one container a lease, and proof of absence.
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/task/task.h"
#include "tests/docker/trial/fixture.h"
#include "tests/support/test.h"

#define BUILDERS     4
#define BALLAST_SIZE (64 * 1024 * 1024)

static struct berth_until soon(void)
{
	return berth_within_ms(120 * 1000, NULL);
}

// A context that no other run has built.
static char *new_context(void)
{
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "Dockerfile");
	BERTH_AUTO_FREE char *text = berth_format("FROM debian:bookworm-slim\nLABEL run=%s\nRUN true\n", id);
	struct berth_error err = {0};
	assert_ok(berth_file_write(path, text, strlen(text), 0644, &err), err);
	return folder;
}

static struct berth_environment_plan plan_of(
	const char *lease_id, const char *context, const struct berth_task_environment *environment)
{
	return (struct berth_environment_plan){
		.lease_id = lease_id,
		.role = BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT,
		.job_id = "job-1",
		.generation = 1,
		.session_id = "sample__env",
		.environment = environment,
		.context_folder = context,
		.has_dockerfile = true,
		.cpus = -1,
		.memory_mb = -1,
		.network = BERTH_NETWORK_PUBLIC,
	};
}

struct builder {
	struct bench *bench;
	const char *context;
	struct berth_buf log;
	struct berth_error err;
	bool good;
};

static void *build(void *context)
{
	static const struct berth_task_environment environment = {0};
	struct builder *builder = context;
	char lease_id[BERTH_ID_SIZE];
	berth_random_id(lease_id);
	struct berth_environment_plan plan = plan_of(lease_id, builder->context, &environment);
	struct berth_runner *runner = builder->bench->runner;
	builder->good = runner->prepare(runner, &plan, berth_sink_buf(&builder->log), soon(), &builder->err);
	return NULL;
}

static void who_wants_the_same_image_shares_one_build(void **state)
{
	(void)state;
	struct bench bench;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	BERTH_AUTO_FREE char *folder = new_context();
	struct builder builders[BUILDERS] = {0};
	pthread_t threads[BUILDERS];
	struct berth_error err = {0};
	for (size_t i = 0; i < BUILDERS; i++) {
		builders[i].bench = &bench;
		builders[i].context = folder;
		assert_ok(berth_thread_start(&threads[i], "builder", build, &builders[i], &err), err);
	}
	size_t built = 0;
	for (size_t i = 0; i < BUILDERS; i++) {
		pthread_join(threads[i], NULL);
		assert_ok(builders[i].good, builders[i].err);
		built += builders[i].log.size > 0;
		berth_buf_free(&builders[i].log);
	}
	assert_int_equal(built, 1);
	// And whoever comes later finds it by its label.
	struct builder late = {.bench = &bench, .context = folder};
	build(&late);
	assert_ok(late.good, late.err);
	assert_int_equal(late.log.size, 0);
	berth_buf_free(&late.log);
	bench_close(&bench);
}

static void the_agents_bridge_is_found_again(void **state)
{
	(void)state;
	struct bench bench;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	struct berth_error err = {0};
	const struct berth_local_options options = {.fleet = bench.fleet, .agent = "quay-1"};
	struct berth_runner *again = berth_local_runner_new(bench.docker, &options, soon(), &err);
	assert_ok(again != NULL, err);
	again->free(again);
	const struct berth_docker_label label = {BERTH_LABEL_FLEET, bench.fleet};
	struct berth_docker_listed *listed = NULL;
	size_t count = 0;
	assert_ok(berth_docker_network_list(bench.docker, &label, 1, &listed, &count, soon(), &err), err);
	assert_int_equal(count, 1);
	assert_string_equal(berth_docker_listed_label(&listed[0], BERTH_LABEL_AGENT), "quay-1");
	berth_docker_listed_free(listed, count);
	bench_close(&bench);
}

// As after a kill in the middle of making it, with which the Engine goes on beside the next life.
static void a_second_bridge_is_removed_and_what_runs_stays_on_the_first(void **state)
{
	(void)state;
	struct bench bench;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	const struct berth_docker_label labels[] = {{BERTH_LABEL_FLEET, bench.fleet}, {BERTH_LABEL_AGENT, "quay-1"}};
	const struct berth_docker_network network = {.name = bench.fleet, .labels = labels, .labels_count = 2};
	BERTH_AUTO_FREE char *second = NULL;
	struct berth_error err = {0};
	assert_ok(berth_docker_network_create(bench.docker, &network, &second, soon(), &err), err);
	static const struct berth_task_environment environment = {.docker_image = "debian:bookworm-slim"};
	char lease_id[BERTH_ID_SIZE];
	berth_random_id(lease_id);
	struct berth_environment_plan plan = plan_of(lease_id, NULL, &environment);
	struct berth_runner *runner = bench.runner;
	assert_ok(runner->prepare(runner, &plan, (struct berth_sink){0}, soon(), &err), err);
	struct berth_created created = {0};
	assert_int_equal(runner->create(runner, &plan, &created, soon(), &err), BERTH_CREATE_CREATED);
	struct berth_environment *box = runner->open(runner, &plan, created.resource_id, soon(), &err);
	assert_ok(box != NULL, err);
	free(created.resource_id);
	assert_ok(runner->tidy(runner, soon(), &err), err);
	struct berth_docker_listed *listed = NULL;
	size_t count = 0;
	assert_ok(berth_docker_network_list(bench.docker, labels, 2, &listed, &count, soon(), &err), err);
	assert_int_equal(count, 1);
	assert_string_not_equal(listed[0].id, second);
	berth_docker_listed_free(listed, count);
	runner->close(box);
	assert_ok(runner->kill(runner, lease_id, soon(), &err), err);
	bench_close(&bench);
}

static void a_second_create_under_a_lease_is_ambiguous_and_never_a_second_container(void **state)
{
	(void)state;
	struct bench bench;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	static const struct berth_task_environment environment = {.docker_image = "debian:bookworm-slim"};
	char lease_id[BERTH_ID_SIZE];
	berth_random_id(lease_id);
	struct berth_environment_plan plan = plan_of(lease_id, NULL, &environment);
	struct berth_runner *runner = bench.runner;
	struct berth_error err = {0};
	assert_ok(runner->prepare(runner, &plan, (struct berth_sink){0}, soon(), &err), err);
	struct berth_created created = {0}, second = {0};
	assert_int_equal(runner->create(runner, &plan, &created, soon(), &err), BERTH_CREATE_CREATED);
	assert_int_equal(runner->create(runner, &plan, &second, soon(), &err), BERTH_CREATE_AMBIGUOUS);
	assert_int_equal(bench_containers(&bench), 1);
	free(created.resource_id);
	assert_ok(runner->kill(runner, lease_id, soon(), &err), err);
	assert_int_equal(bench_containers(&bench), 0);
	bench_close(&bench);
}

static void nothing_seen_proves_nothing_before_the_placement_bound(void **state)
{
	(void)state;
	struct bench bench;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	struct berth_error err = {0};
	bench.runner->placement_bound_ms = 3600 * 1000;
	assert_fails(
		bench.runner->kill(bench.runner, "00000000000000000000000000000000", berth_within_ms(2000, NULL), &err),
		err, BERTH_ERROR_TIMEOUT, "00000000000000000000000000000000");
	bench.runner->placement_bound_ms = 100;
	assert_ok(bench.runner->kill(bench.runner, "00000000000000000000000000000000", soon(), &err), err);
	bench_close(&bench);
}

static void put_file(const char *folder, const char *name, const char *text, size_t size)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	struct berth_error err = {0};
	assert_ok(berth_file_write(path, text, size, 0644, &err), err);
}

// The Engine says for a while that a container runs which has just ended; here it ends in the middle of the uploads.
static void a_container_that_ends_while_it_is_furnished_is_told_before_any_command(void **state)
{
	(void)state;
	static const char dockerfile[] =
		"FROM debian:bookworm-slim\nENTRYPOINT [\"sh\", \"-c\", \"until [ -e /logs/agent ]; do :; done\"]\n";
	struct bench bench;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	put_file(folder, "Dockerfile", dockerfile, strlen(dockerfile));
	static const struct berth_task_environment built = {0}, ready_made = {.docker_image = "debian:bookworm-slim"};
	char lease_id[BERTH_ID_SIZE];
	berth_random_id(lease_id);
	struct berth_environment_plan plan = plan_of(lease_id, folder, &built);
	struct berth_runner *runner = bench.runner;
	struct berth_error err = {0};
	assert_ok(runner->prepare(runner, &plan, (struct berth_sink){0}, soon(), &err), err);
	struct berth_created created = {0};
	assert_int_equal(runner->create(runner, &plan, &created, soon(), &err), BERTH_CREATE_CREATED);
	// Opened as an image that was ready made, so that the folder is uploaded; it takes longer than the container's
	// end.
	BERTH_AUTO_FREE char *ballast = calloc(1, BALLAST_SIZE);
	put_file(folder, "ballast", ballast, BALLAST_SIZE);
	plan.environment = &ready_made;
	plan.has_dockerfile = false;
	assert_fails(
		runner->open(runner, &plan, created.resource_id, soon(), &err), err, BERTH_ERROR_INVALID, "exited");
	free(created.resource_id);
	assert_ok(runner->kill(runner, lease_id, soon(), &err), err);
	bench_close(&bench);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(who_wants_the_same_image_shares_one_build),
	cmocka_unit_test(the_agents_bridge_is_found_again),
	cmocka_unit_test(a_second_bridge_is_removed_and_what_runs_stays_on_the_first),
	cmocka_unit_test(a_second_create_under_a_lease_is_ambiguous_and_never_a_second_container),
	cmocka_unit_test(a_container_that_ends_while_it_is_furnished_is_told_before_any_command),
	cmocka_unit_test(nothing_seen_proves_nothing_before_the_placement_bound),
};
BERTH_TEST_MAIN(tests)
