// SPDX-License-Identifier: Apache-2.0
#include "tests/docker/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/mem.h"

struct berth_until engine_soon(void)
{
	return berth_within_ms(60000, NULL);
}

struct berth_docker_label engine_label(const struct engine *engine)
{
	return (struct berth_docker_label){"berth-test", engine->label};
}

int engine_setup(void **state)
{
	struct engine *engine = berth_alloc(sizeof *engine);
	*state = engine;
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	snprintf(engine->label, sizeof engine->label, "%s", id);
	struct berth_error err = {0};
	const char *host = getenv("BERTH_TEST_DOCKER_HOST");
	if (!host || !*host) {
		snprintf(engine->reason, sizeof engine->reason, "BERTH_TEST_DOCKER_HOST is not set");
		return 0;
	}
	engine->http = berth_http_new(&err);
	engine->docker = engine->http ? berth_docker_open(engine->http, host, engine_soon(), &err) : NULL;
	if (!engine->docker) {
		snprintf(engine->reason, sizeof engine->reason, "%s", err.message);
		return 0;
	}
	engine->box = engine_start_box(engine);
	return engine->box ? 0 : -1;
}

int engine_teardown(void **state)
{
	struct engine *engine = *state;
	struct berth_docker_label label = engine_label(engine);
	struct berth_docker_listed *listed = NULL;
	size_t count = 0;
	if (engine->docker &&
		berth_docker_container_list(engine->docker, &label, 1, &listed, &count, engine_soon(), NULL)) {
		for (size_t i = 0; i < count; i++) {
			berth_docker_container_remove(engine->docker, listed[i].id, engine_soon(), NULL);
		}
		berth_docker_listed_free(listed, count);
	}
	berth_docker_free(engine->docker);
	berth_http_free(engine->http);
	free(engine->box);
	free(engine);
	return 0;
}

struct engine *engine_need(void **state)
{
	struct engine *engine = *state;
	if (!engine->docker) {
		print_message("skipped: no Docker Engine: %s\n", engine->reason);
		skip();
	}
	return engine;
}

char *engine_start_box(struct engine *engine)
{
	static const char *const command[] = {"sleep", "infinity", NULL};
	struct berth_docker_label label = engine_label(engine);
	char name[BERTH_ID_SIZE];
	berth_random_id(name);
	struct berth_docker_create create = {
		.name = name, .image = ENGINE_IMAGE, .command = command, .labels = &label, .labels_count = 1};
	struct berth_error err = {0};
	char *id = NULL;
	bool sent;
	if (!berth_docker_container_create(engine->docker, &create, &id, &sent, engine_soon(), &err) ||
		!berth_docker_container_start(engine->docker, id, engine_soon(), &err)) {
		print_error("cannot start a container: %s\n", err.message);
		free(id);
		return NULL;
	}
	return id;
}

bool engine_collect(void *context, enum berth_docker_stream stream, const void *data, size_t size)
{
	struct engine_output *output = context;
	berth_buf_add(stream == BERTH_DOCKER_STDOUT ? &output->out : &output->err, data, size);
	return true;
}

void engine_output_free(struct engine_output *output)
{
	berth_buf_free(&output->out);
	berth_buf_free(&output->err);
}

char *engine_shell(struct engine *engine, const char *container, const char *script)
{
	const char *argv[] = {"sh", "-c", script, NULL};
	struct engine_output output = {0};
	struct berth_docker_exec exec = {.argv = argv, .output = engine_collect, .context = &output};
	int exit_code = -1;
	struct berth_error err;
	assert_ok(berth_docker_exec(engine->docker, container, &exec, &exit_code, engine_soon(), &err), err);
	if (exit_code != 0) {
		fail_msg("%s: exit %d: %s", script, exit_code, berth_buf_text(&output.err));
	}
	size_t size = output.out.size;
	char *text = berth_buf_steal(&output.out);
	if (size > 0 && text[size - 1] == '\n') {
		text[size - 1] = 0;
	}
	engine_output_free(&output);
	return text;
}

size_t engine_count(struct engine *engine, const char *container, const char *part)
{
	struct berth_docker_process *processes;
	size_t count, found = 0;
	struct berth_error err;
	assert_ok(berth_docker_container_top(engine->docker, container, &processes, &count, engine_soon(), &err), err);
	for (size_t i = 0; i < count; i++) {
		found += strstr(processes[i].args, part) && !strstr(processes[i].args, "<defunct>");
	}
	berth_docker_processes_free(processes, count);
	return found;
}
