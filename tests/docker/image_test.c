// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/codec/tar.h"
#include "tests/docker/engine.h"

#define FROM_BASE "FROM " ENGINE_IMAGE "\n"

struct built {
	struct berth_buf log;
	char *id;
	char tag[64];
	struct berth_error err;
	bool good;
};

static void built_free(struct built *built)
{
	berth_buf_free(&built->log);
	free(built->id);
}

static struct built build(struct engine *engine, const char *dockerfile, const char *name)
{
	struct built built = {0};
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	snprintf(built.tag, sizeof built.tag, "berth-test-%s:1", id);
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	assert_true(berth_tar_write_bytes(
		dockerfile, strlen(dockerfile), name ? name : "Dockerfile", 0644, berth_sink_buf(&tar), NULL));
	struct berth_memory rest = {tar.data, tar.size};
	struct berth_docker_label label = engine_label(engine);
	struct berth_docker_build request = {.tag = built.tag,
		.dockerfile = name,
		.labels = &label,
		.labels_count = 1,
		.context = berth_source_memory(&rest),
		.no_cache = true,
		.log = berth_sink_buf(&built.log)};
	built.good = berth_docker_image_build(engine->docker, &request, &built.id, engine_soon(), &built.err);
	return built;
}

static void an_image_is_built_logged_inspected_and_removed(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(built_free)
	struct built built = build(engine,
		FROM_BASE "RUN echo first line; echo second >&2\nWORKDIR /work\nUSER nobody\n"
			  "HEALTHCHECK --interval=1s CMD true\n",
		"sub/My.Dockerfile");
	assert_ok(built.good, built.err);
	const char *log = berth_buf_text(&built.log);
	assert_non_null(strstr(log, "first line\n"));
	assert_non_null(strstr(log, "second\n"));
	assert_non_null(strstr(log, "RUN echo first line"));
	assert_non_null(strstr(log, "DONE\n"));
	struct berth_error err;
	BERTH_AUTO(berth_docker_image_free) struct berth_docker_image image;
	assert_ok(berth_docker_image_inspect(engine->docker, built.tag, &image, engine_soon(), &err), err);
	assert_string_equal(image.id, built.id);
	assert_string_equal(image.os, "linux");
	assert_string_equal(image.workdir, "/work");
	assert_string_equal(image.user, "nobody");
	assert_true(image.has_healthcheck);
	assert_ok(berth_docker_image_remove(engine->docker, built.tag, engine_soon(), &err), err);
	BERTH_AUTO(berth_docker_image_free) struct berth_docker_image gone;
	assert_fails(berth_docker_image_inspect(engine->docker, built.tag, &gone, engine_soon(), &err), err,
		BERTH_ERROR_NOT_FOUND, built.tag);
}

static void the_base_image_has_no_healthcheck(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_error err;
	BERTH_AUTO(berth_docker_image_free) struct berth_docker_image image;
	assert_ok(berth_docker_image_inspect(engine->docker, ENGINE_IMAGE, &image, engine_soon(), &err), err);
	assert_false(image.has_healthcheck);
	assert_string_equal(image.user, "");
}

static void a_failing_step_is_named_with_its_code_and_last_lines(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(built_free)
	struct built built = build(engine, FROM_BASE "RUN seq 1 500; echo the last words; exit 3\n", NULL);
	assert_fails(built.good, built.err, BERTH_ERROR_INVALID, "step failed with exit code 3");
	assert_non_null(strstr(built.err.message, "RUN seq 1 500"));
	assert_non_null(strstr(built.err.message, "the last words"));
	assert_non_null(strstr(berth_buf_text(&built.log), "the last words"));
}

static void a_fault_of_the_dockerfile_is_invalid(void **state)
{
	struct engine *engine = engine_need(state);
	static const char *const texts[] = {FROM_BASE "FLY away\n", FROM_BASE "COPY nowhere /x\n", "RUN true\n"};
	for (size_t i = 0; i < BERTH_COUNT(texts); i++) {
		BERTH_AUTO(built_free) struct built built = build(engine, texts[i], NULL);
		assert_fails(built.good, built.err, BERTH_ERROR_INVALID, "Dockerfile");
	}
}

static void a_registry_that_cannot_be_reached_is_named(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(built_free) struct built built = build(engine, "FROM registry.invalid/nope:1\n", NULL);
	assert_fails(built.good, built.err, BERTH_ERROR_UNAVAILABLE, "registry.invalid");
	struct berth_error err;
	assert_fails(berth_docker_image_pull(engine->docker, "registry.invalid/nope:1", engine_soon(), &err), err,
		BERTH_ERROR_UNAVAILABLE, "registry.invalid");
	assert_fails(berth_docker_image_pull(engine->docker, "registry.invalid:5000/nope", engine_soon(), &err), err,
		BERTH_ERROR_UNAVAILABLE, "registry.invalid");
}

static void a_syntax_line_that_cannot_be_fetched_is_named(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(built_free)
	struct built built = build(
		engine, "# syntax=registry.invalid/docker/dockerfile:1\n" FROM_BASE "RUN cat <<EOF\nx\nEOF\n", NULL);
	assert_fails(built.good, built.err, BERTH_ERROR_UNAVAILABLE, "Dockerfile:1");
	assert_non_null(strstr(built.err.message, "# syntax=registry.invalid/docker/dockerfile:1"));
}

static void a_heredoc_is_refused_by_line_where_the_engine_knows_none(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_docker_info info;
	struct berth_error err;
	assert_ok(berth_docker_info(engine->docker, &info, engine_soon(), &err), err);
	bool old = atoi(info.server_version) < 23;
	berth_docker_info_free(&info);
	BERTH_AUTO(built_free)
	struct built built = build(engine, FROM_BASE "# comment\nRUN <<EOF\necho hi\nEOF\n", NULL);
	if (old) {
		assert_fails(built.good, built.err, BERTH_ERROR_INVALID, "Dockerfile:3");
	} else {
		assert_ok(built.good, built.err);
	}
}

static void a_deadline_ends_a_build(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(berth_buf_free) struct berth_buf tar = {0};
	static const char text[] = FROM_BASE "RUN sleep 300\n";
	assert_true(berth_tar_write_bytes(text, strlen(text), "Dockerfile", 0644, berth_sink_buf(&tar), NULL));
	struct berth_memory rest = {tar.data, tar.size};
	struct berth_docker_build request = {
		.tag = "berth-test-never:1", .context = berth_source_memory(&rest), .no_cache = true};
	struct berth_error err;
	char *id;
	assert_fails(berth_docker_image_build(engine->docker, &request, &id, berth_within_ms(1500, NULL), &err), err,
		BERTH_ERROR_TIMEOUT, "berth-test-never");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(an_image_is_built_logged_inspected_and_removed),
	cmocka_unit_test(the_base_image_has_no_healthcheck),
	cmocka_unit_test(a_failing_step_is_named_with_its_code_and_last_lines),
	cmocka_unit_test(a_fault_of_the_dockerfile_is_invalid),
	cmocka_unit_test(a_registry_that_cannot_be_reached_is_named),
	cmocka_unit_test(a_syntax_line_that_cannot_be_fetched_is_named),
	cmocka_unit_test(a_heredoc_is_refused_by_line_where_the_engine_knows_none),
	cmocka_unit_test(a_deadline_ends_a_build),
};

ENGINE_TEST_MAIN(tests)
