// SPDX-License-Identifier: Apache-2.0
// An exec begins as a gate: a shell that prints its session id and runs nothing until it reads a line. So what a
// command may start can be named, put in its place and killed from the first moment on.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/docker/exec_internal.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"

#define READ_SIZE        (64 * 1024)
#define KILL_MS          10000
#define LATE_OUTPUT_MS   2000
#define POLL_MS          10
#define POLL_MS_MAX      250
#define LOOK_MS          100 // first look whether a command has ended while something holds its output open
#define LOOK_MS_MAX      1000
#define SESSION_TEXT_MAX 20

static const char gate_with_input[] = "echo $$; read -r berth_gate && exec \"$@\"";
static const char gate_without_input[] = "echo $$; read -r berth_gate && exec \"$@\" </dev/null";

struct run {
	struct berth_docker *docker;
	const struct berth_docker_exec *exec;
	const char *container;
	struct berth_until until;
	struct berth_error *err;

	char *exec_id;
	struct berth_hijack *stream;
	struct docker_frames frames;
	struct exec_session session;
	char line[SESSION_TEXT_MAX + 1]; // the gate's first output
	size_t line_size;
	bool no_gate; // the first output is no session id: the gate itself could not start
	bool stopped; // the caller's output function wants no more
	bool at_end;  // of the output
	char *data;
	size_t input_sent;
	bool input_closed;
};

enum outcome {
	OUTCOME_GO_ON,
	OUTCOME_ENDED,  // exit code known
	OUTCOME_FAILED, // err set; what was started must be ended
};

static bool forward(struct run *run, enum berth_docker_stream stream, const void *data, size_t size)
{
	if (size == 0 || !run->exec->output) {
		return true;
	}
	if (!run->exec->output(run->exec->context, stream, data, size)) {
		run->stopped = true;
		return false;
	}
	return true;
}

// Takes the gate's line off the head of stdout: digits and a line end. Anything else is the runtime's own complaint.
static size_t take_line(struct run *run, const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i] == '\n' && run->line_size > 0) {
			run->session.session = strtoll(run->line, NULL, 10);
			return i + 1;
		}
		if (data[i] < '0' || data[i] > '9' || run->line_size == SESSION_TEXT_MAX) {
			run->no_gate = true;
			return i;
		}
		run->line[run->line_size++] = data[i];
	}
	return size;
}

static bool on_output(void *context, enum berth_docker_stream stream, const void *bytes, size_t size)
{
	struct run *run = context;
	const char *data = bytes;
	if (stream == BERTH_DOCKER_STDOUT && run->session.session == 0 && !run->no_gate) {
		size_t used = take_line(run, data, size);
		if (run->no_gate && !forward(run, BERTH_DOCKER_STDERR, run->line, run->line_size)) {
			return false;
		}
		data += used;
		size -= used;
	}
	return forward(run, run->no_gate ? BERTH_DOCKER_STDERR : stream, data, size);
}

static bool fail_stopped(struct run *run)
{
	return berth_fail(
		run->err, BERTH_ERROR_CANCELLED, "a command in container %s was ended by its caller", run->container);
}

static bool fail_over(struct run *run)
{
	BERTH_AUTO_FREE char *what = berth_format("a command in container %s", run->container);
	return berth_fail_until(run->until, run->err, what);
}

// Reads once. At the end of the stream, however it came, at_end is set.
static bool read_output(struct run *run)
{
	struct berth_error why;
	ssize_t got = berth_hijack_read(run->stream, run->data, READ_SIZE, run->until, &why);
	if (got < 0 && berth_until_over(run->until)) {
		return fail_over(run);
	}
	if (got <= 0) {
		// Cut off or ended: the state of the exec tells which.
		run->at_end = true;
		return true;
	}
	switch (docker_frames_feed(&run->frames, run->data, (size_t)got, run->err)) {
	case DOCKER_FRAMES_GOOD:
		return true;
	case DOCKER_FRAMES_STOPPED:
		return fail_stopped(run);
	default:
		return berth_error_wrap(run->err, "container %s", run->container);
	}
}

static bool inspect(struct run *run, struct exec_state *state)
{
	if (exec_inspect(run->docker, run->exec_id, state, run->until, run->err)) {
		return true;
	}
	return berth_until_over(run->until) ? fail_over(run)
	                                    : berth_error_wrap(run->err, "container %s", run->container);
}

// After the output has ended the exit code follows at once, unless the command has only closed its output.
static enum outcome await_exit(struct run *run, int *exit_code)
{
	struct exec_state state;
	for (int64_t pause = POLL_MS; inspect(run, &state); pause = pause < POLL_MS_MAX ? 2 * pause : POLL_MS_MAX) {
		if (state.ended) {
			*exit_code = state.exit_code;
			return OUTCOME_ENDED;
		}
		if (!berth_sleep_ms(pause, run->until, NULL)) {
			fail_over(run);
			break;
		}
	}
	return OUTCOME_FAILED;
}

static enum outcome await_gate(struct run *run, int *exit_code)
{
	while (run->session.session == 0 && !run->at_end) {
		if (!read_output(run)) {
			return OUTCOME_FAILED;
		}
	}
	if (run->session.session == 0) {
		return await_exit(run, exit_code);
	}
	struct exec_state state;
	while (inspect(run, &state)) {
		if (state.pid > 0) {
			run->session.pid = state.pid;
			return OUTCOME_GO_ON;
		}
		if (!berth_sleep_ms(POLL_MS, run->until, NULL)) {
			fail_over(run);
			break;
		}
	}
	return OUTCOME_FAILED;
}

static bool open_gate(struct run *run)
{
	const struct berth_docker_gate *gate = run->exec->gate;
	if (gate && !gate->open(gate->context, run->session.pid, run->session.session, run->err)) {
		return false;
	}
	if (berth_until_over(run->until)) {
		return fail_over(run);
	}
	// From here on the command may run, also when the write fails.
	run->session.opened = true;
	return berth_hijack_write(run->stream, "\n", 1, run->until, run->err);
}

// Sends what input goes. A peer that takes none any more has ended or closed its stdin: no failure of ours.
static void send_input(struct run *run)
{
	const char *input = run->exec->input;
	size_t left = run->exec->input ? run->exec->input_size - run->input_sent : 0;
	if (left > 0) {
		ssize_t sent = berth_hijack_write_some(run->stream, input + run->input_sent, left, NULL);
		run->input_sent += sent > 0 ? (size_t)sent : 0;
		left = sent < 0 ? 0 : left - (size_t)sent;
	}
	if (left == 0) {
		run->input_closed = true;
		berth_hijack_close_write(run->stream, NULL);
	}
}

// Moves bytes either way once, or waits `ms`.
static bool move_bytes(struct run *run, int64_t ms)
{
	struct berth_until nap = berth_until_at_most_ms(run->until, ms);
	struct berth_error why;
	int ready = berth_hijack_wait(run->stream, !run->input_closed, nap, &why);
	if (berth_until_over(run->until)) {
		return fail_over(run);
	}
	if (ready == 0) {
		return why.code == BERTH_ERROR_TIMEOUT || berth_fail(run->err, why.code, "%s", why.message);
	}
	if (ready & BERTH_HIJACK_WRITABLE) {
		send_input(run);
	}
	return !(ready & BERTH_HIJACK_READABLE) || read_output(run);
}

// Until the command has ended and its output too, or late by LATE_OUTPUT_MS.
static enum outcome pump(struct run *run, int *exit_code)
{
	int64_t look_ms = LOOK_MS;
	struct berth_until look = berth_within_ms(look_ms, NULL);
	while (!run->at_end) {
		if (!move_bytes(run, berth_until_left_ms(look))) {
			return OUTCOME_FAILED;
		}
		if (run->at_end || !berth_until_over(look)) {
			continue;
		}
		struct exec_state state;
		if (!inspect(run, &state)) {
			return OUTCOME_FAILED;
		}
		if (state.ended) {
			*exit_code = state.exit_code;
			return OUTCOME_ENDED;
		}
		look_ms = look_ms < LOOK_MS_MAX ? 2 * look_ms : LOOK_MS_MAX;
		look = berth_within_ms(look_ms, NULL);
	}
	return await_exit(run, exit_code);
}

// A background child may hold the output open and go on writing: it is listened to for a while, not for ever. The exit
// code stands, whatever becomes of the rest.
static void take_late_output(struct run *run)
{
	struct berth_error ignored, *err = run->err;
	run->err = &ignored;
	struct berth_until late = berth_within_ms(LATE_OUTPUT_MS, NULL);
	while (!run->at_end && !berth_until_over(late) && move_bytes(run, berth_until_left_ms(late))) {
	}
	run->err = err;
}

// The daemon may also refuse the start, with its reason in place of a stream.
static enum outcome start_refused(struct run *run, int *exit_code)
{
	struct exec_state state;
	struct berth_error why;
	if (exec_inspect(run->docker, run->exec_id, &state, run->until, &why) && state.ended &&
		(state.exit_code == 126 || state.exit_code == 127)) {
		forward(run, BERTH_DOCKER_STDERR, run->err->message, strlen(run->err->message));
		*exit_code = state.exit_code;
		return OUTCOME_ENDED;
	}
	return OUTCOME_FAILED;
}

static enum outcome run_command(struct run *run, int status, int *exit_code)
{
	if (!run->stream) {
		return status ? start_refused(run, exit_code) : OUTCOME_FAILED;
	}
	enum outcome outcome = await_gate(run, exit_code);
	if (outcome != OUTCOME_GO_ON) {
		return outcome;
	}
	if (!open_gate(run)) {
		return OUTCOME_FAILED;
	}
	outcome = pump(run, exit_code);
	if (outcome == OUTCOME_ENDED) {
		take_late_output(run);
	}
	return outcome;
}

static bool end_early(struct run *run, bool started)
{
	int64_t kill_ms = run->exec->kill_ms > 0 ? run->exec->kill_ms : KILL_MS;
	// Ends the input of a gate that waits, and lets the daemon throw output away: while no one reads it, the daemon
	// keeps a killed command from ending.
	berth_hijack_free(run->stream);
	run->stream = NULL;
	struct berth_error why;
	if (started && !exec_end_session(run->docker, &run->session, berth_within_ms(kill_ms, NULL), &why)) {
		BERTH_AUTO_FREE char *first = berth_strdup(run->err->message);
		return berth_fail(run->err, why.code, "%s (after: %s)", why.message, first);
	}
	return false;
}

static bool exec_through_gate(struct run *run, int *exit_code)
{
	const struct berth_docker_exec *exec = run->exec;
	size_t count = 0;
	while (exec->argv[count]) {
		count++;
	}
	BERTH_AUTO_FREE const char **argv = berth_alloc((count + 5) * sizeof *argv);
	argv[0] = "/bin/sh";
	argv[1] = "-c";
	argv[2] = exec->input ? gate_with_input : gate_without_input;
	argv[3] = "berth-gate";
	memcpy(argv + 4, exec->argv, count * sizeof *argv);
	struct exec_request request = {argv, exec->env, exec->user, exec->workdir, true};
	if (!exec_create(run->docker, run->container, &request, &run->exec_id, run->until, run->err)) {
		return false;
	}
	run->session.exec_id = run->exec_id;
	int status;
	run->stream = exec_start(run->docker, run->exec_id, &status, run->until, run->err);
	// A connection that was refused, or an answer that says no, started nothing.
	bool started = run->stream || (status == 0 && run->err->code != BERTH_ERROR_UNAVAILABLE);
	return run_command(run, status, exit_code) == OUTCOME_ENDED || end_early(run, started);
}

bool berth_docker_exec(struct berth_docker *docker, const char *container, const struct berth_docker_exec *exec,
	int *exit_code, struct berth_until until, struct berth_error *err)
{
	struct berth_error ignored;
	struct run run = {.docker = docker, .exec = exec, .container = container, .until = until};
	run.err = err ? err : &ignored;
	run.frames = (struct docker_frames){.put = on_output, .context = &run};
	run.session.container = container;
	run.data = berth_alloc(READ_SIZE);
	bool good = exec_through_gate(&run, exit_code);
	berth_hijack_free(run.stream);
	free(run.exec_id);
	free(run.data);
	return good;
}
