// SPDX-License-Identifier: Apache-2.0
// Trials that do not go their way: leftovers of the agent, a cancel in each phase, an Engine that goes away, and what
// must not be started at all.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "tests/docker/trial/fixture.h"
#include "tests/support/test.h"

static void run_sample(struct bench *bench, const char *task, const struct trial_options *options, struct run *run)
{
	BERTH_AUTO_FREE char *folder = corpus_task(task);
	bench_run(bench, folder, options, run);
}

static void assert_rewards(const struct run *run, const char *wanted, const char *leftovers)
{
	if (strcmp(run->result.rewards_json, wanted) != 0 || strcmp(run->result.leftovers, leftovers) != 0) {
		BERTH_AUTO_FREE char *log = run_file(run, "trial.log");
		BERTH_AUTO_FREE char *tests = run_file(run, "verifier/test-stdout.txt");
		fail_msg("got %s, leftovers %s\n%s\n%s", run->result.rewards_json, run->result.leftovers, log, tests);
	}
}

// kept-service leaves a server of its own shell, leftover-process one of a session of its own.
static void check_leftovers(
	bool foreign_cgroups, Berth__V1__Leftovers policy, const char *how, const char *service, const char *process)
{
	struct bench bench;
	if (!bench_open(&bench, NULL, foreign_cgroups)) {
		skip();
	}
	const struct trial_options options = {.agent = "oracle", .leftovers = policy};
	struct run run;
	run_sample(&bench, "kept-service", &options, &run);
	assert_rewards(&run, service, how);
	run_free(&run);
	run_sample(&bench, "leftover-process", &options, &run);
	assert_rewards(&run, process, how);
	run_free(&run);
	// What the image's entrypoint started lives on: its desk answers the agent.
	run_sample(&bench, "workdir-health", &options, &run);
	assert_rewards(&run, "{\"reward\": 1.0}", how);
	run_free(&run);
	assert_int_equal(bench_containers(&bench), 0);
	bench_close(&bench);
}

static void what_an_agent_leaves_is_kept_by_default(void **state)
{
	(void)state;
	check_leftovers(false, BERTH__V1__LEFTOVERS__LEFTOVERS_KEEP, "kept", "{\"reward\": 1.0}", "{\"reward\": 0.0}");
}

static void what_an_agent_leaves_is_ended_by_its_group(void **state)
{
	(void)state;
	check_leftovers(
		false, BERTH__V1__LEFTOVERS__LEFTOVERS_KILL, "cgroup", "{\"reward\": 0.0}", "{\"reward\": 1.0}");
}

static void what_an_agent_leaves_is_ended_by_marks_where_groups_are_out_of_reach(void **state)
{
	(void)state;
	check_leftovers(true, BERTH__V1__LEFTOVERS__LEFTOVERS_KILL, "marks", "{\"reward\": 0.0}", "{\"reward\": 1.0}");
}

// --- cancel ---

struct trap {
	const char *phase;
	struct berth_cancel *cancel;
	void (*act)(void *context);
	void *context;
};

static void spring(void *context, const char *phase)
{
	struct trap *trap = context;
	if (strcmp(phase, trap->phase) == 0) {
		if (trap->act) {
			trap->act(trap->context);
		} else {
			berth_cancel_fire(trap->cancel);
		}
	}
}

static void a_cancel_in_any_phase_leaves_nothing(void **state)
{
	(void)state;
	struct bench bench;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	static const char *const phases[] = {"environment_setup", "agent_setup", "agent_execution", "verifier"};
	for (size_t i = 0; i < BERTH_COUNT(phases); i++) {
		struct trap trap = {.phase = phases[i], .cancel = berth_cancel_new(NULL)};
		bench.on_phase = spring;
		bench.context = &trap;
		const struct trial_options options = {.agent = "oracle", .cancel = trap.cancel};
		struct run run;
		run_sample(&bench, "slow-agent", &options, &run);
		assert_int_equal(run.result.outcome, BERTH__V1__OUTCOME__OUTCOME_CANCELLED);
		assert_string_equal(run.result.exception->type, "CancelledError");
		assert_string_equal(run.result.rewards_json, "");
		assert_int_equal(run.result.evidence->receipts[0]->lease->state, BERTH__V1__LEASE_STATE__LEASE_RETIRED);
		assert_int_equal(bench_containers(&bench), 0);
		run_free(&run);
		berth_cancel_free(trap.cancel);
	}
	bench_close(&bench);
}

// --- an Engine behind a relay that can be cut ---

#define RELAYS_MAX 64

struct relay {
	char *path, *target;
	int listener;
	pthread_t thread;
	pthread_mutex_t lock;
	bool cut;
	int stop[2];
	struct {
		int client, server;
		bool client_open, server_open;
	} pairs[RELAYS_MAX];
	size_t count;
};

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool is_cut(struct relay *relay)
{
	pthread_mutex_lock(&relay->lock);
	bool cut = relay->cut;
	pthread_mutex_unlock(&relay->lock);
	return cut;
}

// One piece from a to b; the end of a is passed on.
static bool pump(int from, int into)
{
	char data[64 * 1024];
	ssize_t got = read(from, data, sizeof data);
	if (got <= 0) {
		shutdown(into, SHUT_WR);
		return false;
	}
	return berth_write_all(into, data, (size_t)got, NULL);
}

static void accept_one(struct relay *relay)
{
	int client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
	int server = is_cut(relay) || relay->count == RELAYS_MAX ? -1 : connect_to(relay->target);
	if (server < 0) {
		close(client);
		return;
	}
	relay->pairs[relay->count].client = client;
	relay->pairs[relay->count].server = server;
	relay->pairs[relay->count].client_open = relay->pairs[relay->count].server_open = true;
	relay->count++;
}

static void drop_pair(struct relay *relay, size_t at)
{
	close(relay->pairs[at].client);
	close(relay->pairs[at].server);
	relay->pairs[at] = relay->pairs[--relay->count];
}

static void *relay_run(void *context)
{
	struct relay *relay = context;
	for (;;) {
		struct pollfd fds[2 + 2 * RELAYS_MAX] = {{relay->stop[0], POLLIN, 0}, {relay->listener, POLLIN, 0}};
		size_t count = relay->count;
		for (size_t i = 0; i < count; i++) {
			fds[2 + 2 * i] =
				(struct pollfd){relay->pairs[i].client_open ? relay->pairs[i].client : -1, POLLIN, 0};
			fds[3 + 2 * i] =
				(struct pollfd){relay->pairs[i].server_open ? relay->pairs[i].server : -1, POLLIN, 0};
		}
		poll(fds, 2 + 2 * count, -1);
		if (fds[0].revents) {
			char byte;
			bool over = read(relay->stop[0], &byte, 1) != 1 || byte == 'q';
			while (relay->count > 0) {
				drop_pair(relay, relay->count - 1);
			}
			if (over) {
				return NULL;
			}
			continue;
		}
		for (size_t i = count; i > 0; i--) {
			if (fds[2 * i].revents && !pump(relay->pairs[i - 1].client, relay->pairs[i - 1].server)) {
				relay->pairs[i - 1].client_open = false;
			}
			if (fds[2 * i + 1].revents && !pump(relay->pairs[i - 1].server, relay->pairs[i - 1].client)) {
				relay->pairs[i - 1].server_open = false;
			}
			if (!relay->pairs[i - 1].server_open) {
				drop_pair(relay, i - 1);
			}
		}
		if (fds[1].revents) {
			accept_one(relay);
		}
	}
}

static void relay_start(struct relay *relay, const char *target)
{
	char *folder = berth_test_folder();
	*relay = (struct relay){.path = berth_format("/tmp/berth-relay-%d.sock", (int)getpid()),
		.target = berth_strdup(target),
		.lock = PTHREAD_MUTEX_INITIALIZER};
	free(folder);
	unlink(relay->path);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s", relay->path);
	relay->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(relay->listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(relay->listener, 64), 0);
	assert_int_equal(pipe(relay->stop), 0);
	struct berth_error err = {0};
	assert_ok(berth_thread_start(&relay->thread, "relay", relay_run, relay, &err), err);
}

static void relay_cut(void *context)
{
	struct relay *relay = context;
	pthread_mutex_lock(&relay->lock);
	relay->cut = true;
	pthread_mutex_unlock(&relay->lock);
	assert_int_equal(write(relay->stop[1], "c", 1), 1);
}

static void relay_mend(struct relay *relay)
{
	pthread_mutex_lock(&relay->lock);
	relay->cut = false;
	pthread_mutex_unlock(&relay->lock);
}

static void relay_stop(struct relay *relay)
{
	assert_int_equal(write(relay->stop[1], "q", 1), 1);
	pthread_join(relay->thread, NULL);
	close(relay->listener);
	close(relay->stop[0]);
	close(relay->stop[1]);
	unlink(relay->path);
	free(relay->path);
	free(relay->target);
}

static void an_engine_that_goes_away_is_the_infrastructures_doing(void **state)
{
	(void)state;
	const char *host = getenv("BERTH_TEST_DOCKER_HOST");
	if (!host || strncmp(host, "unix://", 7) != 0) {
		skip();
	}
	static const char *const phases[] = {"agent_execution", "verifier"};
	for (size_t i = 0; i < BERTH_COUNT(phases); i++) {
		struct relay relay;
		struct bench bench;
		relay_start(&relay, host + 7);
		BERTH_AUTO_FREE char *relayed = berth_format("unix://%s", relay.path);
		assert_true(bench_open(&bench, relayed, false));
		struct trap trap = {.phase = phases[i], .act = relay_cut, .context = &relay};
		bench.on_phase = spring;
		bench.context = &trap;
		const struct trial_options options = {.agent = "oracle"};
		struct run run;
		run_sample(&bench, "count-words", &options, &run);
		assert_int_equal(run.result.outcome, BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE);
		assert_string_equal(run.result.rewards_json, "");
		const Berth__V1__Lease *lease = run.result.evidence->receipts[0]->lease;
		assert_int_equal(lease->state, BERTH__V1__LEASE_STATE__LEASE_CLEANUP_FAILED);
		// The container is still known by its lease, and is ended once the Engine is back.
		relay_mend(&relay);
		struct berth_error err = {0};
		char **leases = NULL;
		size_t count = 0;
		struct berth_until until = berth_within_ms(60 * 1000, NULL);
		assert_ok(bench.runner->list_leases(bench.runner, &leases, &count, until, &err), err);
		assert_int_equal(count, 1);
		assert_string_equal(leases[0], lease->lease_id);
		assert_ok(bench.runner->kill(bench.runner, leases[0], until, &err), err);
		free(leases[0]);
		free(leases);
		assert_int_equal(bench_containers(&bench), 0);
		run_free(&run);
		bench_close(&bench);
		relay_stop(&relay);
	}
}

// --- what is not started ---

static void what_this_runner_has_not_is_configuration_and_starts_nothing(void **state)
{
	(void)state;
	struct bench bench;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	static const struct {
		const char *task, *drop, *exception, *part;
	} rows[] = {
		{"sidecar", NULL, "ServiceOperationsUnsupportedError", "docker-compose.yaml"},
		{"separate-verifier", NULL, "ValueError", "environment_mode"},
		{"env-templates", "QUAY_NAME", "ValueError", "QUAY_NAME"},
		{"env-templates", "SOLVER_HINT", "ValueError", "SOLVER_HINT"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		const struct trial_options options = {.agent = "oracle", .drop_secret = rows[i].drop};
		struct run run;
		run_sample(&bench, rows[i].task, &options, &run);
		assert_int_equal(run.result.outcome, BERTH__V1__OUTCOME__OUTCOME_CONFIGURATION);
		assert_string_equal(run.result.exception->type, rows[i].exception);
		assert_non_null(strstr(run.result.exception->message, rows[i].part));
		assert_int_equal(
			run.result.evidence->receipts[0]->lease->proof, BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
		run_free(&run);
	}
	bench_close(&bench);
}

static void a_secret_is_in_no_file_of_the_trial(void **state)
{
	(void)state;
	struct bench bench;
	if (!bench_open(&bench, NULL, false)) {
		skip();
	}
	const struct trial_options options = {.agent = "oracle", .token = "the-harbour-masters-word"};
	struct run run;
	run_sample(&bench, "env-templates", &options, &run);
	assert_non_null(strstr(run.result.rewards_json, "\"default_token\": 0"));
	BERTH_AUTO_FREE char *command = berth_format("grep -rq harbour-masters '%s'", run.work);
	assert_int_not_equal(system(command), 0);
	BERTH_AUTO_FREE char *text = run_file(&run, "verifier/test-stdout.txt");
	assert_non_null(strstr(text, "token: [REDACTED]"));
	run_free(&run);
	bench_close(&bench);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_an_agent_leaves_is_kept_by_default),
	cmocka_unit_test(what_an_agent_leaves_is_ended_by_its_group),
	cmocka_unit_test(what_an_agent_leaves_is_ended_by_marks_where_groups_are_out_of_reach),
	cmocka_unit_test(a_cancel_in_any_phase_leaves_nothing),
	cmocka_unit_test(an_engine_that_goes_away_is_the_infrastructures_doing),
	cmocka_unit_test(what_this_runner_has_not_is_configuration_and_starts_nothing),
	cmocka_unit_test(a_secret_is_in_no_file_of_the_trial),
};
BERTH_TEST_MAIN(tests)
