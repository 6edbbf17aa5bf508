// SPDX-License-Identifier: Apache-2.0
// One exec from its creation to the proof of its end.
#pragma once

#include "agent/docker/frames.h"
#include "agent/docker/internal.h"
#include "common/http/hijack.h"

struct exec_request {
	const char *const *argv;
	const char *const *env;
	const char *user;
	const char *workdir;
	bool stdin_attached;
};

struct exec_state {
	bool running;
	bool ended; // it ran, or could not be started, and exit_code is known
	int exit_code;
	int64_t pid;
};

// Makes an exec of the container; the caller frees *id.
bool exec_create(struct berth_docker *docker, const char *container, const struct exec_request *request, char **id,
	struct berth_until until, struct berth_error *err);
// Starts it and opens its stream. *status is 0 when there was no answer.
struct berth_hijack *exec_start(
	struct berth_docker *docker, const char *id, int *status, struct berth_until until, struct berth_error *err);
bool exec_inspect(struct berth_docker *docker, const char *id, struct exec_state *state, struct berth_until until,
	struct berth_error *err);

// Who must be dead before an exec may be reported as ended early.
struct exec_session {
	const char *container;
	const char *exec_id;
	int64_t session; // inside the container; 0 while unknown
	int64_t pid;     // its leader on the daemon's host, hence its session there; 0 while unknown
	bool opened;     // argv may run: the gate was opened
};
// Kills every process of the session and proves it by the Engine's top. False (err set) when `until` passes first.
bool exec_end_session(struct berth_docker *docker, const struct exec_session *session, struct berth_until until,
	struct berth_error *err);
