// SPDX-License-Identifier: Apache-2.0
// The Engine that Docker tests talk to: $BERTH_TEST_DOCKER_HOST. Without one every test skips itself by name.
#pragma once

#include "agent/docker/docker.h"
#include "common/base/buf.h"
#include "tests/support/test.h"

#define ENGINE_IMAGE "debian:bookworm-slim"

struct engine {
	struct berth_http *http;
	struct berth_docker *docker; // NULL: no Engine
	char reason[BERTH_ERROR_MESSAGE_MAX];
	char label[64]; // of everything that the group makes: berth-test=<this>
	char *box;      // a running container of ENGINE_IMAGE
};

// Group setup and teardown: connects, starts the box; removes every container of the group's label.
int engine_setup(void **state);
int engine_teardown(void **state);
// Skips the running test, saying why, when there is no Engine.
struct engine *engine_need(void **state);

struct berth_until engine_soon(void); // a minute
// Creates and starts a container of ENGINE_IMAGE that sleeps; the caller frees the id.
char *engine_start_box(struct engine *engine);
struct berth_docker_label engine_label(const struct engine *engine);

// What an exec gave.
struct engine_output {
	struct berth_buf out, err;
};
bool engine_collect(void *context, enum berth_docker_stream stream, const void *data, size_t size);
void engine_output_free(struct engine_output *output);
// Runs `sh -c script` in the box, expects exit code 0, and gives its stdout without the last line end; caller frees.
char *engine_shell(struct engine *engine, const char *container, const char *script);
// The number of live processes of a container whose command line contains `part`.
size_t engine_count(struct engine *engine, const char *container, const char *part);

#define ENGINE_TEST_MAIN(tests)                                                                                        \
	int main(void)                                                                                                 \
	{                                                                                                              \
		return cmocka_run_group_tests_name(__FILE__, tests, engine_setup, engine_teardown) != 0;               \
	}
