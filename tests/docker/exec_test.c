// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "tests/docker/engine.h"

// `sh -c script` as an exec with collected output.
struct shell {
	const char *argv[4];
	struct berth_docker_exec exec;
	struct engine_output output;
	int exit_code;
	struct berth_error err;
};

static void shell_init(struct shell *shell, const char *script)
{
	*shell = (struct shell){.argv = {"sh", "-c", script, NULL}, .exit_code = -1};
	shell->exec =
		(struct berth_docker_exec){.argv = shell->argv, .output = engine_collect, .context = &shell->output};
}

static void shell_free(struct shell *shell)
{
	engine_output_free(&shell->output);
}

static bool shell_run(struct shell *shell, struct engine *engine, struct berth_until until)
{
	return berth_docker_exec(engine->docker, engine->box, &shell->exec, &shell->exit_code, until, &shell->err);
}

static void a_command_gives_its_exit_code_and_both_streams(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "echo out; echo err >&2; exit 7");
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_int_equal(shell.exit_code, 7);
	assert_string_equal(berth_buf_text(&shell.output.out), "out\n");
	assert_string_equal(berth_buf_text(&shell.output.err), "err\n");
}

static void user_folder_and_environment_are_those_that_were_asked_for(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "id -u; pwd; echo \"$MINE|$0\"");
	const char *env[] = {"MINE=a b=c", NULL};
	shell.exec.env = env;
	shell.exec.user = "nobody";
	shell.exec.workdir = "/usr/lib";
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_string_equal(berth_buf_text(&shell.output.out), "65534\n/usr/lib\na b=c|sh\n");
}

static void arguments_arrive_as_they_are(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "");
	const char *argv[] = {"printf", "%s|", "a b", "", "$HOME", "'\"`\\", "-n", "*", NULL};
	shell.exec.argv = argv;
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_string_equal(berth_buf_text(&shell.output.out), "a b||$HOME|'\"`\\|-n|*|");
}

static void without_input_stdin_is_empty(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO_FREE char *text = engine_shell(engine, engine->box, "cat; readlink /proc/self/fd/0");
	assert_string_equal(text, "/dev/null");
}

static void input_goes_in_while_output_comes_out(void **state)
{
	struct engine *engine = engine_need(state);
	size_t size = 4 * 1024 * 1024 + 1;
	BERTH_AUTO_FREE char *input = berth_alloc(size);
	for (size_t i = 0; i < size; i++) {
		input[i] = (char)(i * 7 + i / 251);
	}
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "cat");
	shell.exec.input = input;
	shell.exec.input_size = size;
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_int_equal(shell.output.out.size, size);
	assert_memory_equal(shell.output.out.data, input, size);
}

static void input_that_no_one_reads_is_no_failure(void **state)
{
	struct engine *engine = engine_need(state);
	size_t size = 4 * 1024 * 1024;
	BERTH_AUTO_FREE char *input = berth_alloc(size);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "exit 3");
	shell.exec.input = input;
	shell.exec.input_size = size;
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_int_equal(shell.exit_code, 3);
}

static void an_empty_input_is_an_input(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "cat; readlink /proc/self/fd/0");
	shell.exec.input = "";
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_null(strstr(berth_buf_text(&shell.output.out), "/dev/null"));
}

static void any_bytes_come_out_unchanged(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "printf 'a\\000b\\377\\303\\n\\342\\202'");
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_int_equal(shell.output.out.size, 8);
	assert_memory_equal(shell.output.out.data, "a\0b\377\303\n\342\202", 8);
}

static void a_program_that_cannot_start_gives_126_or_127(void **state)
{
	struct engine *engine = engine_need(state);
	static const struct {
		const char *program, *workdir, *user;
		int exit_code;
	} rows[] = {{"/no/such/program", NULL, NULL, 127}, {"/etc/passwd", NULL, NULL, 126},
		{"true", "/no/such/folder", NULL, 126}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		BERTH_AUTO(shell_free) struct shell shell;
		shell_init(&shell, "");
		const char *argv[] = {rows[i].program, NULL};
		shell.exec.argv = argv;
		shell.exec.workdir = rows[i].workdir;
		assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
		assert_int_equal(shell.exit_code, rows[i].exit_code);
		assert_int_equal(shell.output.out.size, 0);
		assert_true(shell.output.err.size > 0);
	}
}

static void a_missing_and_a_stopped_container_are_told_apart(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO_FREE char *box = engine_start_box(engine);
	struct berth_error err;
	assert_ok(berth_docker_container_kill(engine->docker, box, "KILL", engine_soon(), &err), err);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "true");
	assert_fails(berth_docker_exec(engine->docker, box, &shell.exec, &shell.exit_code, engine_soon(), &err), err,
		BERTH_ERROR_CONFLICT, "not running");
	assert_fails(
		berth_docker_exec(engine->docker, "no-such-box", &shell.exec, &shell.exit_code, engine_soon(), &err),
		err, BERTH_ERROR_NOT_FOUND, "no-such-box");
}

struct gate_seen {
	struct engine *engine;
	int64_t pid, session;
	size_t alive; // processes whose pid and session are those, while the gate is shut
	bool refuse;
};

static bool look_at_gate(void *context, int64_t pid, int64_t session, struct berth_error *err)
{
	struct gate_seen *seen = context;
	seen->pid = pid;
	seen->session = session;
	struct berth_docker_process *processes;
	size_t count;
	if (!berth_docker_container_top(
		    seen->engine->docker, seen->engine->box, &processes, &count, engine_soon(), err)) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		seen->alive += processes[i].pid == pid && processes[i].sid == pid;
	}
	berth_docker_processes_free(processes, count);
	return !seen->refuse || berth_fail(err, BERTH_ERROR_DENIED, "the gate stays shut");
}

static void the_gate_knows_process_and_session_before_the_command_runs(void **state)
{
	struct engine *engine = engine_need(state);
	struct gate_seen seen = {.engine = engine};
	struct berth_docker_gate gate = {look_at_gate, &seen};
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "echo $$; set -- $(cat /proc/self/stat); echo $6");
	shell.exec.gate = &gate;
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	BERTH_AUTO_FREE char *wanted = berth_format("%lld\n%lld\n", (long long)seen.session, (long long)seen.session);
	assert_string_equal(berth_buf_text(&shell.output.out), wanted);
	assert_int_equal(seen.alive, 1);
}

static void a_gate_that_refuses_keeps_the_command_from_running(void **state)
{
	struct engine *engine = engine_need(state);
	struct gate_seen seen = {.engine = engine, .refuse = true};
	struct berth_docker_gate gate = {look_at_gate, &seen};
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "touch /must-not-be");
	shell.exec.gate = &gate;
	assert_fails(shell_run(&shell, engine, engine_soon()), shell.err, BERTH_ERROR_DENIED, "the gate stays shut");
	BERTH_AUTO_FREE char *left = engine_shell(engine, engine->box, "ls / | grep -c must-not-be || true");
	assert_string_equal(left, "0");
	assert_int_equal(engine_count(engine, engine->box, "berth-gate"), 0);
}

// Fires the token when the command says that it is ready.
struct trigger {
	struct berth_cancel *cancel;
	struct berth_buf seen;
	bool refuse;
};

static bool fire_when_ready(void *context, enum berth_docker_stream stream, const void *data, size_t size)
{
	(void)stream;
	struct trigger *trigger = context;
	berth_buf_add(&trigger->seen, data, size);
	if (!strstr(berth_buf_text(&trigger->seen), "ready")) {
		return true;
	}
	if (!trigger->refuse) {
		berth_cancel_fire(trigger->cancel);
	}
	return !trigger->refuse;
}

static void run_until_ready(struct engine *engine, const char *script, bool refuse, struct berth_error *err)
{
	struct trigger trigger = {.cancel = berth_cancel_new(NULL), .refuse = refuse};
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, script);
	shell.exec.output = fire_when_ready;
	shell.exec.context = &trigger;
	shell.exec.kill_ms = 30000;
	bool good = shell_run(&shell, engine, berth_within_ms(60000, trigger.cancel));
	berth_cancel_free(trigger.cancel);
	berth_buf_free(&trigger.seen);
	assert_false(good);
	*err = shell.err;
}

static void a_cancelled_command_leaves_nothing_of_its_session(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_error err;
	// Children, grandchildren, a name that looks like the fields after it, a stopped one, one that ignores signals,
	// and one that has left the session.
	run_until_ready(engine,
		"cp /bin/sleep '/tmp/x) Z 1 (y'; cp /bin/sleep \"$(printf '/tmp/l\\n) S')\"\n"
		"sleep 71001 & (sleep 71002 & sleep 71003) & '/tmp/x) Z 1 (y' 71004 &\n"
		"\"$(printf '/tmp/l\\n) S')\" 71005 & sleep 71006 & kill -STOP $!\n"
		"sh -c 'trap \"\" TERM HUP INT; sleep 71007; sleep 71008' &\n"
		"setsid sleep 72001 &\n"
		"sleep 0.2; echo ready; wait",
		false, &err);
	assert_int_equal(err.code, BERTH_ERROR_CANCELLED);
	assert_int_equal(engine_count(engine, engine->box, "7100"), 0);
	assert_int_equal(engine_count(engine, engine->box, "72001"), 1);
}

static void an_output_function_that_stops_ends_the_command(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_error err;
	run_until_ready(engine, "sleep 73001 & echo ready; wait", true, &err);
	assert_int_equal(err.code, BERTH_ERROR_CANCELLED);
	assert_int_equal(engine_count(engine, engine->box, "73001"), 0);
}

static void a_command_that_forks_without_end_is_caught(void **state)
{
	struct engine *engine = engine_need(state);
	struct berth_error err;
	run_until_ready(engine,
		"f() { while :; do sh -c 'sleep 0.05; : 74001' & sleep 0.02; done; }; f & f & echo ready; wait", false,
		&err);
	assert_int_equal(err.code, BERTH_ERROR_CANCELLED);
	assert_int_equal(engine_count(engine, engine->box, "74001"), 0);
}

static void a_command_of_another_user_is_killed_too(void **state)
{
	struct engine *engine = engine_need(state);
	struct trigger trigger = {.cancel = berth_cancel_new(NULL)};
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "sleep 75001 & echo ready; wait");
	shell.exec.user = "nobody";
	shell.exec.output = fire_when_ready;
	shell.exec.context = &trigger;
	bool good = shell_run(&shell, engine, berth_within_ms(60000, trigger.cancel));
	berth_cancel_free(trigger.cancel);
	berth_buf_free(&trigger.seen);
	assert_fails(good, shell.err, BERTH_ERROR_CANCELLED, engine->box);
	assert_int_equal(engine_count(engine, engine->box, "75001"), 0);
}

static void a_deadline_ends_a_silent_command(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "sleep 76001");
	assert_fails(
		shell_run(&shell, engine, berth_within_ms(1500, NULL)), shell.err, BERTH_ERROR_TIMEOUT, engine->box);
	assert_int_equal(engine_count(engine, engine->box, "76001"), 0);
}

static void a_deadline_ends_a_command_that_floods(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "exec yes 77001");
	shell.exec.output = NULL;
	assert_fails(
		shell_run(&shell, engine, berth_within_ms(1500, NULL)), shell.err, BERTH_ERROR_TIMEOUT, engine->box);
	assert_int_equal(engine_count(engine, engine->box, "77001"), 0);
}

struct counter {
	size_t total, largest;
};

static bool count_bytes(void *context, enum berth_docker_stream stream, const void *data, size_t size)
{
	(void)stream;
	(void)data;
	struct counter *counter = context;
	counter->total += size;
	counter->largest = size > counter->largest ? size : counter->largest;
	return true;
}

static void output_of_any_size_streams_through(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "head -c 67108864 /dev/zero");
	struct counter counter = {0};
	shell.exec.output = count_bytes;
	shell.exec.context = &counter;
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_int_equal(counter.total, 67108864);
	assert_true(counter.largest <= 65536);
}

static void a_child_that_holds_the_output_does_not_hold_the_caller(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "echo done; (while :; do echo more; sleep 0.2; done) & exit 5");
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_int_equal(shell.exit_code, 5);
	assert_int_equal(strncmp(berth_buf_text(&shell.output.out), "done\n", 5), 0);
	// A command that ended by itself leaves what it started.
	assert_true(engine_count(engine, engine->box, "echo more") > 0);
	BERTH_AUTO_FREE char *killed = engine_shell(engine, engine->box, "pkill -f 'echo mor[e]'; true");
}

static void a_command_that_closes_its_output_is_waited_for(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "exec >&- 2>&-; sleep 1; exit 9");
	assert_ok(shell_run(&shell, engine, engine_soon()), shell.err);
	assert_int_equal(shell.exit_code, 9);
}

struct killer {
	struct engine *engine;
	const char *box;
	bool done;
};

static bool kill_box(void *context, enum berth_docker_stream stream, const void *data, size_t size)
{
	(void)stream;
	(void)data;
	(void)size;
	struct killer *killer = context;
	if (!killer->done) {
		killer->done = true;
		berth_docker_container_kill(killer->engine->docker, killer->box, "KILL", engine_soon(), NULL);
	}
	return true;
}

static void a_container_that_is_killed_ends_its_commands(void **state)
{
	struct engine *engine = engine_need(state);
	BERTH_AUTO_FREE char *box = engine_start_box(engine);
	struct killer killer = {.engine = engine, .box = box};
	BERTH_AUTO(shell_free) struct shell shell;
	shell_init(&shell, "echo ready; sleep 78001");
	shell.exec.output = kill_box;
	shell.exec.context = &killer;
	assert_ok(berth_docker_exec(engine->docker, box, &shell.exec, &shell.exit_code, engine_soon(), &shell.err),
		shell.err);
	assert_int_equal(shell.exit_code, 137);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_command_gives_its_exit_code_and_both_streams),
	cmocka_unit_test(user_folder_and_environment_are_those_that_were_asked_for),
	cmocka_unit_test(arguments_arrive_as_they_are),
	cmocka_unit_test(without_input_stdin_is_empty),
	cmocka_unit_test(input_goes_in_while_output_comes_out),
	cmocka_unit_test(input_that_no_one_reads_is_no_failure),
	cmocka_unit_test(an_empty_input_is_an_input),
	cmocka_unit_test(any_bytes_come_out_unchanged),
	cmocka_unit_test(a_program_that_cannot_start_gives_126_or_127),
	cmocka_unit_test(a_missing_and_a_stopped_container_are_told_apart),
	cmocka_unit_test(the_gate_knows_process_and_session_before_the_command_runs),
	cmocka_unit_test(a_gate_that_refuses_keeps_the_command_from_running),
	cmocka_unit_test(a_cancelled_command_leaves_nothing_of_its_session),
	cmocka_unit_test(an_output_function_that_stops_ends_the_command),
	cmocka_unit_test(a_command_that_forks_without_end_is_caught),
	cmocka_unit_test(a_command_of_another_user_is_killed_too),
	cmocka_unit_test(a_deadline_ends_a_silent_command),
	cmocka_unit_test(a_deadline_ends_a_command_that_floods),
	cmocka_unit_test(output_of_any_size_streams_through),
	cmocka_unit_test(a_child_that_holds_the_output_does_not_hold_the_caller),
	cmocka_unit_test(a_command_that_closes_its_output_is_waited_for),
	cmocka_unit_test(a_container_that_is_killed_ends_its_commands),
};

ENGINE_TEST_MAIN(tests)
