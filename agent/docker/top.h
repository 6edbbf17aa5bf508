// SPDX-License-Identifier: Apache-2.0
// The Engine's top with the state of each process: a zombie is listed and is not alive.
#pragma once

#include "agent/docker/docker.h"

struct docker_top_row {
	struct berth_docker_process process;
	bool dead;
};

struct docker_top {
	struct docker_top_row *rows;
	size_t count;
};

bool docker_top(struct berth_docker *docker, const char *id, struct docker_top *top, struct berth_until until,
	struct berth_error *err);
void docker_top_free(struct docker_top *top);
