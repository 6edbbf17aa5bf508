// SPDX-License-Identifier: Apache-2.0
// The command as a user runs it, against a small coordinator over real gRPC.
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/json.h"
#include "tests/support/test.h"
#include "tests/unit/cli/fake.h"

#define PLAIN_TOML    "[agent]\ntimeout_sec = 60.0\n"
#define TEXT_SIZE_MAX (1024 * 1024)

#define BERTH_WITH_FAKE(fake, shell)                                                                                   \
	BERTH_AUTO(fake_stop) struct fake fake;                                                                        \
	fake_start(&fake, false);                                                                                      \
	BERTH_AUTO(shell_free) struct shell shell;                                                                     \
	shell_start(&shell, &fake)

static berth_json *parsed(const char *text)
{
	struct berth_error err;
	berth_json *value = berth_json_parse(text, strlen(text), "output", &err);
	assert_ok(value, err);
	return value;
}

static char *read_text(const char *folder, const char *name)
{
	struct berth_error err;
	struct berth_buf text = {0};
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	assert_ok(berth_file_read(path, TEXT_SIZE_MAX, &text, &err), err);
	return berth_buf_steal(&text);
}

static void write_text(const char *folder, const char *name, const char *text)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	assert_ok(berth_file_write(path, text, strlen(text), 0644, &err), err);
}

static void a_run_ends_with_results_a_table_and_code_0(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	BERTH_AUTO_FREE char *jobs = berth_path_join(fake.folder, "jobs");
	SHELL(&shell, "run", "-p", task, "-a", "oracle", "-k", "3", "-o", jobs, "--job-name", "tide");
	assert_code(shell, 0);
	assert_int_equal(fake.puts, 1);
	assert_int_equal(fake.submits, 1);
	assert_int_equal(fake.gets, 2); // the folder of the second trial comes with it
	assert_has(shell.out, "oracle__adhoc");
	assert_has(shell.out, "100.0%");
	assert_has(shell.out, "mean 1.000");
	assert_has(shell.out, "pass@2 1.000");
	assert_has(shell.err, "tide/result.json (3 new trials)");
	assert_has(shell.err, "moor__trial2: scored {\"reward\":1.0}");
	BERTH_AUTO_FREE char *folder = berth_path_join(jobs, "tide/moor__trial0");
	BERTH_AUTO_FREE char *text = read_text(folder, "result.json");
	BERTH_AUTO_FREE char *with_trial = berth_path_join(jobs, "tide/moor__trial1/agent");
	BERTH_AUTO_FREE char *log = read_text(with_trial, "oracle.txt");
	assert_has(log, "hello");
	BERTH_AUTO(berth_json_cleanup) berth_json *result = parsed(text);
	const berth_json *rewards = berth_json_get(berth_json_get(result, "verifier_result"), "rewards");
	assert_true(berth_json_as_number(berth_json_get(rewards, "reward")) == 1);
	assert_string_equal(fake.submitted->spec->tasks[0]->path, task);
	assert_int_equal(fake.submitted->spec->attempts, 3);
	assert_int_equal(fake.submitted->spec->leftovers, BERTH__V1__LEFTOVERS__LEFTOVERS_KEEP);
}

static void what_the_fleet_has_is_not_sent_again(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	SHELL(&shell, "job", "submit", "-p", task, "--client-key", "key-1");
	assert_code(shell, 0);
	assert_string_equal(shell.out, FAKE_JOB_ID "\n");
	// The name comes from the key, so that both submissions are the same.
	assert_string_equal(fake.submitted->spec->name, "key-1");
	SHELL(&shell, "job", "submit", "-p", task, "--client-key", "key-1", "--output", "json");
	assert_code(shell, 0);
	assert_has(shell.err, "submitted before");
	BERTH_AUTO(berth_json_cleanup) berth_json *printed = parsed(shell.out);
	assert_string_equal(berth_json_get_string(printed, "job_id"), FAKE_JOB_ID);
	assert_int_equal(fake.puts, 1);
	assert_int_equal(fake.submits, 2);
}

static void a_cell_without_a_score_gives_code_6_and_its_exception(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	BERTH_AUTO_FREE char *jobs = berth_path_join(fake.folder, "jobs");
	fake.unscored = 1;
	fake.message = "no \033]0;owned\007reward";
	SHELL(&shell, "run", "-p", task, "-k", "2", "-o", jobs);
	assert_code(shell, 6);
	assert_has(shell.out, "50.0%");
	assert_has(shell.out, "mean 1.000");
	assert_has(shell.out, "RewardFileNotFoundError");
	assert_has(shell.err, "1 of 2 cells have no score");
	assert_null(strchr(shell.err, '\033'));
	SHELL(&shell, "job", "results", FAKE_JOB_ID, "-o", jobs);
	assert_code(shell, 6);
	assert_has(shell.err, "(0 new trials)");
	SHELL(&shell, "job", "watch", FAKE_JOB_ID);
	assert_code(shell, 6);
}

static void a_detached_run_prints_the_id_and_leaves(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	SHELL(&shell, "run", "-p", task, "--detach", "--leftovers", "kill", "--budget", "b", "--phase", "dev");
	assert_code(shell, 0);
	assert_string_equal(shell.out, FAKE_JOB_ID "\n");
	assert_int_equal(fake.watches, 0);
	assert_int_equal(fake.submitted->spec->leftovers, BERTH__V1__LEFTOVERS__LEFTOVERS_KILL);
	assert_string_equal(fake.submitted->spec->budget, "b");
	assert_string_equal(fake.submitted->spec->phase, "dev");
}

static void values_travel_as_secrets_in_their_scopes_and_the_config_is_redacted(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	static const char *const ENV[] = {
		"QUAY_TOKEN", "tok-12345-xyz", "JUDGE", "strict", "API_KEY", "sk-0123456789", NULL};
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor",
		"[environment.env]\nQUAY_TOKEN = \"${QUAY_TOKEN}\"\nPLACE = \"lee\"\n"
		"[verifier.env]\nJUDGE = \"${JUDGE}\"\n[solution.env]\nHINT = \"${UNSET_HINT:-none}\"\n");
	shell.env = ENV;
	setenv("API_KEY", "sk-0123456789", 1);
	SHELL(&shell, "job", "submit", "-p", task, "--ae", "API_KEY=sk-0123456789", "--ve", "OTHER_KEY=abcdefghijkl",
		"--ee", "DEPTH=3");
	assert_code(shell, 0);
	assert_has(shell.err, "QUAY_TOKEN");
	assert_has(shell.err, "JUDGE");
	assert_string_equal(fake_secret(&fake, "environment/0", "QUAY_TOKEN")->value, "tok-12345-xyz");
	assert_true(fake_secret(&fake, "environment/0", "QUAY_TOKEN")->sensitive);
	assert_string_equal(fake_secret(&fake, "environment/0", "PLACE")->value, "lee");
	assert_false(fake_secret(&fake, "environment/0", "PLACE")->sensitive);
	assert_string_equal(fake_secret(&fake, "verifier/0", "JUDGE")->value, "strict");
	assert_string_equal(fake_secret(&fake, "solution/0", "HINT")->value, "none");
	assert_string_equal(fake_secret(&fake, "agent/0", "API_KEY")->value, "sk-0123456789");
	assert_string_equal(fake_secret(&fake, "verifier", "OTHER_KEY")->value, "abcdefghijkl");
	assert_string_equal(fake_secret(&fake, "environment", "DEPTH")->value, "3");
	const Berth__V1__JobSpec *spec = fake.submitted->spec;
	assert_string_equal(spec->agents[0]->env_names[0], "API_KEY");
	assert_string_equal(spec->verifier_env_names[0], "OTHER_KEY");
	assert_has(spec->config_json, "${API_KEY}");
	assert_has(spec->config_json, "abcd****jkl");
	assert_null(strstr(spec->config_json, "sk-0123456789"));
}

static void a_user_on_a_terminal_is_asked_before_variables_are_sent(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	static const char *const ENV[] = {"QUAY", "north", NULL};
	BERTH_AUTO_FREE char *task =
		fake_task(&fake, "moor", "[environment.env]\nQUAY = \"${QUAY}\"\nFOG = \"${FOG:-no}\"\n");
	shell.env = ENV;
	shell.input = "n\n";
	SHELL(&shell, "job", "submit", "-p", task);
	assert_code(shell, 130);
	assert_has(shell.err, "go to the trials: QUAY\n");
	assert_has(shell.err, "Go on? [y/N]");
	assert_int_equal(fake.submits, 0);
	shell.input = "y\n";
	SHELL(&shell, "job", "submit", "-p", task);
	assert_code(shell, 0);
	shell.input = "";
	SHELL(&shell, "job", "submit", "-p", task, "-y");
	assert_code(shell, 0);
	assert_null(strstr(shell.err, "Go on?"));
}

static void bad_input_is_refused_with_file_key_and_fix(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *broken = fake_task(&fake, "broken", "[agent\ntimeout_sec = 1.0\n");
	BERTH_AUTO_FREE char *typed = fake_task(&fake, "typed", "[environment]\ncpus = \"many\"\n");
	BERTH_AUTO_FREE char *unset = fake_task(&fake, "unset", "[verifier.env]\nJUDGE = \"${NO_SUCH_JUDGE}\"\n");
	BERTH_AUTO_FREE char *big = fake_task(&fake, "big", PLAIN_TOML);
	BERTH_AUTO_FREE char *fine = fake_task(&fake, "fine", PLAIN_TOML);
	BERTH_AUTO_FREE char *job = berth_path_join(fake.folder, "job.yaml");
	BERTH_AUTO_FREE char *bytes = berth_alloc(1200000);
	memset(bytes, 'x', 1199999);
	write_text(big, "environment/cargo", bytes);
	BERTH_AUTO_FREE char *yaml = berth_format("n_atempts: 2\ntasks: [{path: \"%s\"}]\n", fine);
	write_text(fake.folder, "job.yaml", yaml);
	const struct {
		const char *words[7];
		const char *parts[4];
		int code;
	} rows[] = {
		{{"run", "-p", broken}, {"task.toml", "1"}, 2},
		{{"run", "-p", typed}, {"task.toml", "cpus"}, 2},
		{{"run", "-p", unset}, {"unset", "task.toml [verifier.env]", "NO_SUCH_JUDGE", "set it"}, 2},
		{{"run", "-p", big, "--task-size-limit", "1"}, {"/big", "1.1 MB", "1.0 MB", "--task-size-limit"}, 2},
		{{"run", "-p", fine, "-a", "orcale"}, {"--agent", "\"orcale\"", "did you mean oracle"}, 2},
		{{"run", "-p", fine, "-a", "pkg.mod:Agent"}, {"pkg.mod:Agent"}, 1},
		{{"run", "-c", job}, {"job.yaml", "n_atempts", "n_attempts"}, 2},
		{{"run", "-p", fine, "--budget", "b"}, {"--budget and --phase", "--phase is missing"}, 2},
		{{"run", "-p", "/no/such/folder"}, {"/no/such/folder"}, 3},
		{{"run", "-p", fine, "--ak", "novalue"}, {"novalue", "="}, 2},
		{{"run", "-p", fine, "--client-key", ""}, {"--client-key", "1 to 128"}, 2},
		{{"run"}, {"-p"}, 2},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		shell_run(&shell, rows[i].words);
		if (shell.code != rows[i].code) {
			fail_msg("row %zu: code %d: %s", i, shell.code, shell.err);
		}
		for (size_t k = 0; k < BERTH_COUNT(rows[i].parts) && rows[i].parts[k]; k++) {
			assert_has(shell.err, rows[i].parts[k]);
		}
	}
	assert_int_equal(fake.submits, 0);
	assert_int_equal(fake.puts, 0);
}

static void an_unreachable_coordinator_is_code_7_with_address_and_fix(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	static const char *const ENV[] = {"BERTH_COORDINATOR", "127.0.0.1:1", NULL};
	shell.fake = NULL;
	shell.env = ENV;
	const char *const commands[][5] = {{"run", "--insecure", "-p", task}, {"job", "list", "--insecure"},
		{"health", "--insecure"}, {"agent", "list", "--insecure"}};
	for (size_t i = 0; i < BERTH_COUNT(commands); i++) {
		shell_run(&shell, commands[i]);
		assert_code(shell, 7);
		assert_has(shell.err, "127.0.0.1:1");
		assert_has(shell.err, "--coordinator");
	}
	SHELL(&shell, "job", "list", "--insecure", "--coordinator", "harbour");
	assert_code(shell, 2);
	assert_has(shell.err, "harbour:7311");
}

static void health_tells_serving_from_not_serving(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	SHELL(&shell, "health");
	assert_code(shell, 0);
	assert_string_equal(shell.out, "serving\n");
	berth_rpc_server_set_serving(fake.main, false);
	SHELL(&shell, "health");
	assert_code(shell, 9);
	assert_has(shell.err, fake.address);
}

static void a_watch_goes_on_after_the_coordinator_was_away(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	BERTH_AUTO_FREE char *jobs = berth_path_join(fake.folder, "jobs");
	fake.watch_cuts = 2;
	fake.get_cuts = 2;
	SHELL(&shell, "run", "-p", task, "-o", jobs);
	assert_code(shell, 0);
	assert_int_equal(fake.watches, 3);
	assert_int_equal(fake.gets, 3);
	assert_has(shell.err, "is away; trying again");
}

static void a_coordinator_that_stays_away_is_given_up(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	fake.watch_cuts = 1000;
	SHELL(&shell, "run", "-p", task, "--timeout", "0");
	assert_code(shell, 7);
	assert_int_equal(fake.watches, 1);
}

static void a_first_interrupt_cancels_the_job_and_waits(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	BERTH_AUTO_FREE char *jobs = berth_path_join(fake.folder, "jobs");
	fake.end = FAKE_WAITS_FOR_CANCEL;
	fake.on_watch = shell.interrupt;
	SHELL(&shell, "run", "-p", task, "-o", jobs, "--job-name", "tide");
	assert_code(shell, 130);
	assert_int_equal(fake.cancels, 1);
	assert_has(shell.err, "Cancelling the job");
	BERTH_AUTO_FREE char *folder = berth_path_join(jobs, "tide");
	BERTH_AUTO_FREE char *text = read_text(folder, "result.json");
	assert_has(text, "\"n_cancelled_trials\": 1");
	BERTH_AUTO_FREE char *trial = berth_path_join(folder, "moor__trial0");
	BERTH_AUTO_FREE char *exception = read_text(trial, "exception.txt");
	assert_has(exception, "CancelledError");
}

static void a_second_interrupt_leaves_the_job(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	fake.end = FAKE_NEVER_ENDS;
	fake.on_watch = shell.interrupt;
	fake.on_cancel = shell.detach;
	SHELL(&shell, "run", "-p", task);
	assert_code(shell, 130);
	assert_int_equal(fake.cancels, 1);
	assert_has(shell.err, "berth job watch " FAKE_JOB_ID);
}

static void an_interrupted_watch_leaves_the_job_at_once(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	SHELL(&shell, "run", "-p", task, "--detach");
	fake.end = FAKE_NEVER_ENDS;
	fake.on_watch = shell.interrupt;
	SHELL(&shell, "job", "watch", FAKE_JOB_ID);
	assert_code(shell, 130);
	assert_int_equal(fake.cancels, 0);
}

static void a_watch_in_json_is_one_document_a_line(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	SHELL(&shell, "run", "-p", task, "--detach");
	SHELL(&shell, "job", "watch", "012345", "--output", "json");
	assert_code(shell, 0);
	int lines = 0;
	char *rest = shell.out;
	for (char *line; (line = strsep(&rest, "\n")) && *line; lines++) {
		BERTH_AUTO(berth_json_cleanup) berth_json *update = parsed(line);
		const berth_json *job = berth_json_get(update, "job");
		assert_string_equal(berth_json_get_string(job, "state"), lines == 0 ? "JOB_RUNNING" : "JOB_COMPLETED");
		assert_int_equal(berth_json_size(berth_json_get(update, "trials")), 1);
	}
	assert_int_equal(lines, 2);
}

static void jobs_are_listed_shown_and_cancelled(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	SHELL(&shell, "run", "-p", task, "--detach", "--job-name", "tide", "-k", "3");
	SHELL(&shell, "job", "list");
	assert_code(shell, 0);
	assert_has(shell.out, "JOB  ");
	assert_has(shell.out, FAKE_JOB_ID "  tide  running  3");
	SHELL(&shell, "job", "list", "--output", "plain");
	assert_has(shell.out, FAKE_JOB_ID "\ttide\trunning\t3\t0\t0\t0\t0\t-\t");
	SHELL(&shell, "job", "show", "tide");
	assert_code(shell, 0);
	assert_has(shell.out, "moor__trial2");
	SHELL(&shell, "job", "show", "tide", "--output", "json");
	BERTH_AUTO(berth_json_cleanup) berth_json *shown = parsed(shell.out);
	assert_int_equal(berth_json_size(berth_json_get(shown, "trials")), 3);
	SHELL(&shell, "job", "show", "ebb");
	assert_code(shell, 3);
	assert_has(shell.err, "ebb");
	fake.end = FAKE_WAITS_FOR_CANCEL;
	SHELL(&shell, "job", "cancel", "tide", "--reason", "fog");
	assert_code(shell, 0);
	assert_has(shell.out, "cancelled");
	assert_int_equal(fake.cancels, 1);
}

static void logs_come_without_control_characters(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	BERTH_AUTO_FREE char *jobs = berth_path_join(fake.folder, "jobs");
	SHELL(&shell, "run", "-p", task, "--detach");
	SHELL(&shell, "job", "logs", FAKE_JOB_ID);
	assert_code(shell, 0);
	assert_string_equal(shell.out, "moor__trial0: queued on quay-1\n");
	SHELL(&shell, "job", "watch", FAKE_JOB_ID);
	SHELL(&shell, "job", "logs", FAKE_JOB_ID, "moor__trial0");
	assert_code(shell, 0);
	assert_string_equal(shell.out, "==> moor__trial0/agent/oracle.txt <==\nhello \xef\xbf\xbd\n"
				       "==> moor__trial0/trial.log <==\nbuilt\n[2Jended\n"
				       "==> moor__trial0/verifier/test-stdout.txt <==\nok\n");
	SHELL(&shell, "job", "logs", FAKE_JOB_ID, "0", "--file", "artifacts/big.txt");
	assert_string_equal(shell.out, "not a log\n");
	SHELL(&shell, "job", "logs", FAKE_JOB_ID, "0", "--file", "agent/none.txt");
	assert_code(shell, 3);
	SHELL(&shell, "job", "logs", FAKE_JOB_ID, "0", "--file", "../etc/passwd");
	assert_code(shell, 2);
	SHELL(&shell, "job", "logs", FAKE_JOB_ID, "7");
	assert_code(shell, 3);
	assert_has(shell.err, "has no trial 7");
}

static void a_damaged_blob_is_code_8_and_leaves_no_folder(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	BERTH_AUTO_FREE char *jobs = berth_path_join(fake.folder, "jobs");
	fake.corrupt_blobs = true;
	SHELL(&shell, "run", "-p", task, "-o", jobs, "--job-name", "tide");
	assert_code(shell, 8);
	assert_has(shell.err, "moor__trial0");
	BERTH_AUTO_FREE char *folder = berth_path_join(jobs, "tide/moor__trial0");
	assert_false(berth_file_exists(folder));
}

static void agents_and_leases_are_listed(void **state)
{
	(void)state;
	BERTH_WITH_FAKE(fake, shell);
	SHELL(&shell, "agent", "list");
	assert_code(shell, 0);
	assert_has(shell.out, "quay-1  up");
	SHELL(&shell, "agent", "show", "quay-1", "--output", "json");
	BERTH_AUTO(berth_json_cleanup) berth_json *agent = parsed(shell.out);
	assert_string_equal(berth_json_get_string(berth_json_get(agent, "agent"), "state"), "AGENT_UP");
	SHELL(&shell, "agent", "show", "quay-9");
	assert_code(shell, 3);
	SHELL(&shell, "lease", "list");
	assert_code(shell, 0);
	assert_has(shell.out, "aaaa0000aaaa0000aaaa0000aaaa0000  active  TASK_ENVIRONMENT");
	assert_null(strstr(shell.out, "bbbb"));
	SHELL(&shell, "lease", "list", "--all", "--output", "json");
	BERTH_AUTO(berth_json_cleanup) berth_json *leases = parsed(shell.out);
	assert_int_equal(berth_json_size(leases), 2);
	SHELL(&shell, "lease", "list", "--all", "--limit", "1", "--output", "json");
	BERTH_AUTO(berth_json_cleanup) berth_json *limited = parsed(shell.out);
	assert_int_equal(berth_json_size(limited), 1);
}

static void *restart_when_watched(void *context)
{
	struct fake *fake = context;
	struct pollfd fd = {.fd = berth_cancel_fd(fake->on_watch), .events = POLLIN};
	poll(&fd, 1, -1);
	fake_restart(fake, 1500);
	return NULL;
}

static void a_watch_outlasts_a_restart_under_tls(void **state)
{
	(void)state;
	BERTH_AUTO(fake_stop) struct fake fake;
	fake_start(&fake, true);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_start(&shell, NULL);
	BERTH_AUTO_FREE char *credentials = fake_operator(&fake, "op");
	BERTH_AUTO_FREE char *task = fake_task(&fake, "moor", PLAIN_TOML);
	const char *const env[] = {"BERTH_COORDINATOR", fake.address, "BERTH_BLOBS", fake.blobs_address,
		"BERTH_CREDENTIALS", credentials, NULL};
	shell.env = env;
	SHELL(&shell, "run", "-p", task, "--detach");
	assert_code(shell, 0);
	// The first watch is held until the server goes; the one after the restart sees the end.
	fake.end = FAKE_ENDS_AT_SECOND_WATCH;
	struct berth_cancel *watched = berth_cancel_new(NULL);
	fake.on_watch = watched;
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, restart_when_watched, &fake), 0);
	SHELL(&shell, "job", "watch", FAKE_JOB_ID, "--timeout", "60");
	pthread_join(thread, NULL);
	berth_cancel_free(watched);
	assert_code(shell, 0);
	assert_int_equal(fake.watches, 2);
	assert_has(shell.err, "is away; trying again");
}

static void enrolment_makes_a_folder_that_opens_the_door(void **state)
{
	(void)state;
	BERTH_AUTO(fake_stop) struct fake fake;
	fake_start(&fake, true);
	BERTH_AUTO(shell_free) struct shell shell;
	shell_start(&shell, NULL);
	struct stat info;
	BERTH_AUTO_FREE char *first = fake_operator(&fake, "op");
	BERTH_AUTO_FREE char *second = berth_path_join(fake.folder, "quay-1");
	BERTH_AUTO_FREE char *third = berth_path_join(fake.folder, "pilot");
	const char *const env[] = {
		"BERTH_COORDINATOR", fake.address, "BERTH_BLOBS", fake.blobs_address, "BERTH_CREDENTIALS", first, NULL};
	shell.env = env;
	SHELL(&shell, "agent", "enroll", "quay-1", "--out", second);
	assert_code(shell, 0);
	assert_has(shell.err, "spiffe://harbour/agent/quay-1");
	BERTH_AUTO_FREE char *key_path = berth_path_join(second, "key.pem");
	assert_int_equal(stat(key_path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	BERTH_AUTO_FREE char *signing = read_text(second, "signing.pem");
	assert_has(signing, "PRIVATE KEY");
	SHELL(&shell, "agent", "enroll", "quay-1", "--out", second);
	assert_code(shell, 4);
	assert_has(shell.err, "key.pem");
	SHELL(&shell, "agent", "enroll", "pilot", "--role", "user", "--out", third);
	assert_code(shell, 0);
	SHELL(&shell, "job", "list", "--credentials", third);
	assert_code(shell, 0);
	SHELL(&shell, "agent", "enroll", "pilot", "--role", "user");
	assert_code(shell, 2);
	assert_has(shell.err, "--out");
	SHELL(&shell, "job", "list", "--credentials", fake.folder);
	assert_code(shell, 3);
	assert_has(shell.err, "authority.pem");
	assert_has(shell.err, "berth agent enroll");
}

static void help_version_and_nothing_at_all_answer_without_a_coordinator(void **state)
{
	(void)state;
	BERTH_AUTO(shell_free) struct shell shell;
	shell_start(&shell, NULL);
	SHELL(&shell, "help");
	assert_code(shell, 0);
	assert_has(shell.out, "job submit");
	SHELL(&shell, "job", "--help");
	assert_code(shell, 0);
	assert_has(shell.out, "job cancel");
	SHELL(&shell, "run", "-h");
	assert_has(shell.out, "--n-attempts");
	SHELL(&shell, "help", "lease", "list");
	assert_has(shell.out, "Usage: berth lease list");
	SHELL(&shell, "--version");
	assert_has(shell.out, "berth ");
	shell_run(&shell, (const char *const[]){NULL});
	assert_code(shell, 2);
	assert_has(shell.err, "Usage: berth COMMAND");
	SHELL(&shell, "completion", "zsh");
	assert_code(shell, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_ends_with_results_a_table_and_code_0),
		cmocka_unit_test(what_the_fleet_has_is_not_sent_again),
		cmocka_unit_test(a_cell_without_a_score_gives_code_6_and_its_exception),
		cmocka_unit_test(a_detached_run_prints_the_id_and_leaves),
		cmocka_unit_test(values_travel_as_secrets_in_their_scopes_and_the_config_is_redacted),
		cmocka_unit_test(a_user_on_a_terminal_is_asked_before_variables_are_sent),
		cmocka_unit_test(bad_input_is_refused_with_file_key_and_fix),
		cmocka_unit_test(an_unreachable_coordinator_is_code_7_with_address_and_fix),
		cmocka_unit_test(health_tells_serving_from_not_serving),
		cmocka_unit_test(a_watch_goes_on_after_the_coordinator_was_away),
		cmocka_unit_test(a_coordinator_that_stays_away_is_given_up),
		cmocka_unit_test(a_first_interrupt_cancels_the_job_and_waits),
		cmocka_unit_test(a_second_interrupt_leaves_the_job),
		cmocka_unit_test(an_interrupted_watch_leaves_the_job_at_once),
		cmocka_unit_test(a_watch_in_json_is_one_document_a_line),
		cmocka_unit_test(jobs_are_listed_shown_and_cancelled),
		cmocka_unit_test(logs_come_without_control_characters),
		cmocka_unit_test(a_damaged_blob_is_code_8_and_leaves_no_folder),
		cmocka_unit_test(agents_and_leases_are_listed),
		cmocka_unit_test(a_watch_outlasts_a_restart_under_tls),
		cmocka_unit_test(enrolment_makes_a_folder_that_opens_the_door),
		cmocka_unit_test(help_version_and_nothing_at_all_answer_without_a_coordinator),
	};
	return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
