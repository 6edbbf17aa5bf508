// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>

#include "agent/docker/exec_internal.h"
#include "agent/docker/top.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"

#define ROUND_MS     20
#define ROUND_MS_MAX 500
#define KILL_ROUNDS  "100"
#define READ_SIZE    (16 * 1024)

// Runs as root inside the container with nothing but the shell's builtins: the image may lack ps and pkill, and a child
// of ours would be one more process to wait for. $1 is the session. A process name may hold blanks, parentheses and
// line ends, so what counts is what follows the last ") ": state, parent, group, session. Zombies are dead already.
static const char kill_script[] = "s=$1 n=0\n"
				  "while [ $n -lt " KILL_ROUNDS " ]; do\n"
				  "  left=\n"
				  "  for d in /proc/[0-9]*; do\n"
				  "    all=\n"
				  "    while IFS= read -r line; do all=$all$line; done 2>/dev/null <\"$d/stat\"\n"
				  "    set -- ${all##*') '}\n"
				  "    [ \"$4\" = \"$s\" ] || continue\n"
				  "    case $1 in Z|X) continue ;; esac\n"
				  "    left=1\n"
				  "    kill -9 \"${d#/proc/}\" 2>/dev/null\n"
				  "  done\n"
				  "  [ \"$left\" ] || exit 0\n"
				  "  n=$((n + 1))\n"
				  "done\n"
				  "exit 1\n";

static void close_stream(struct berth_hijack **stream)
{
	berth_hijack_free(*stream);
}

// What it achieved is for the Engine's top to tell, so no result counts here.
static bool kill_inside(struct berth_docker *docker, const struct exec_session *session, struct berth_until until,
	struct berth_error *err)
{
	BERTH_AUTO_FREE char *number = berth_format("%" PRId64, session->session);
	const char *argv[] = {"/bin/sh", "-c", kill_script, "berth-kill", number, NULL};
	struct exec_request request = {.argv = argv, .user = "0", .workdir = "/"};
	BERTH_AUTO_FREE char *id = NULL;
	if (!exec_create(docker, session->container, &request, &id, until, err)) {
		return false;
	}
	int status;
	BERTH_AUTO(close_stream) struct berth_hijack *stream = exec_start(docker, id, &status, until, err);
	if (!stream) {
		return false;
	}
	BERTH_AUTO_FREE char *data = berth_alloc(READ_SIZE);
	ssize_t got;
	while ((got = berth_hijack_read(stream, data, READ_SIZE, until, err)) > 0) {
	}
	return got == 0;
}

enum proof { PROOF_GONE, PROOF_ALIVE, PROOF_UNKNOWN };

static bool container_is_over(const struct berth_error *err)
{
	return err->code == BERTH_ERROR_NOT_FOUND || err->code == BERTH_ERROR_CONFLICT;
}

// Before its gate is opened an exec is a shell that ends with its input, which the caller has closed.
static enum proof look_at_gate(struct berth_docker *docker, const struct exec_session *session,
	struct berth_until until, struct berth_error *err)
{
	struct exec_state state;
	if (!exec_inspect(docker, session->exec_id, &state, until, err)) {
		return container_is_over(err) ? PROOF_GONE : PROOF_UNKNOWN;
	}
	return state.running ? PROOF_ALIVE : PROOF_GONE;
}

static enum proof look_at_session(struct berth_docker *docker, const struct exec_session *session,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO(docker_top_free) struct docker_top top;
	if (!docker_top(docker, session->container, &top, until, err)) {
		return container_is_over(err) ? PROOF_GONE : PROOF_UNKNOWN;
	}
	for (size_t i = 0; i < top.count; i++) {
		if (top.rows[i].process.sid == session->pid && !top.rows[i].dead) {
			berth_fail(err, BERTH_ERROR_INTERNAL, "process %" PRId64 " (%.100s) is alive",
				top.rows[i].process.pid, top.rows[i].process.args);
			return PROOF_ALIVE;
		}
	}
	return PROOF_GONE;
}

bool exec_end_session(struct berth_docker *docker, const struct exec_session *session, struct berth_until until,
	struct berth_error *err)
{
	struct berth_error why = {0};
	int64_t pause_ms = ROUND_MS;
	do {
		enum proof proof;
		if (session->opened) {
			// A killer that hangs leaves half of the time for the proof.
			int64_t half_ms = berth_until_left_ms(until) / 2;
			kill_inside(docker, session, berth_until_at_most_ms(until, half_ms), &why);
			proof = look_at_session(docker, session, until, &why);
		} else {
			proof = look_at_gate(docker, session, until, &why);
		}
		if (proof == PROOF_GONE) {
			return true;
		}
		pause_ms = pause_ms < ROUND_MS_MAX ? 2 * pause_ms : ROUND_MS_MAX;
	} while (berth_sleep_ms(pause_ms, until, NULL));
	return berth_fail(err, BERTH_ERROR_INTERNAL,
		"container %s: could not prove that a command's processes are gone, so it must be removed: %s",
		session->container, *why.message ? why.message : "its gate is still there");
}
