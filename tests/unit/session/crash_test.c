// SPDX-License-Identifier: Apache-2.0
// An agent that is killed (SIGKILL) at random moments, again and again: no result is lost or counted twice, no resource
// is left, every lease that was dispatched is retired.
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cancel.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/unit/session/agent_under_test.h"

#define KILLS       40
#define KILLS_MAX   160 // on a machine so slow that no life is long enough to leave a result behind
#define TRIALS      120
#define LIFE_MS_MAX 400
#define RUNS_MAX    (1 << 20)

extern char **environ;

static uint32_t draw(uint32_t below)
{
	uint32_t random;
	berth_random(&random, sizeof random);
	return random % below;
}

static pid_t spawn(const struct fake *fake, const char *folder)
{
	BERTH_AUTO_FREE char *program = berth_test_data("tests/unit/session/test_agent");
	BERTH_AUTO_FREE char *port = berth_format("%d", fake->port);
	char *arguments[] = {program, port, (char *)folder, NULL};
	pid_t pid;
	assert_int_equal(posix_spawn(&pid, program, NULL, NULL, arguments, environ), 0);
	return pid;
}

static int wait_status(pid_t pid)
{
	int status = -1;
	waitpid(pid, &status, 0);
	return status;
}

static bool is_up(struct fake *fake)
{
	return fake->hellos > 0;
}

// One life of the agent: a random time of work after its Hello, or a death before it.
static void live_and_die(struct fake *fake, const char *folder, uint32_t life_ms_max)
{
	pthread_mutex_lock(&fake->lock);
	fake->refuse_blobs = draw(2);
	fake->no_acks = draw(4) == 0;
	fake->hellos = 0;
	pthread_mutex_unlock(&fake->lock);
	pid_t pid = spawn(fake, folder);
	if (draw(4)) {
		assert_true(fake_wait(fake, is_up));
	}
	struct berth_until until = berth_within_ms(60000, NULL);
	berth_sleep_ms(draw(life_ms_max), until, NULL);
	if (draw(4) == 0) {
		fake_stop(fake);
		kill(pid, SIGKILL);
		wait_status(pid);
		fake->number++;
		fake_start(fake);
		return;
	}
	kill(pid, SIGKILL);
	int status = wait_status(pid);
	assert_true(WIFSIGNALED(status)); // it did not end by itself
}

static bool has_kept(struct fake *fake)
{
	pthread_mutex_lock(&fake->lock);
	bool kept = fake->kept > 0;
	pthread_mutex_unlock(&fake->lock);
	return kept;
}

static bool all_accepted(struct fake *fake)
{
	for (size_t i = 0; i < fake->trials_count; i++) {
		if (!fake->trials[i].accepted) {
			return false;
		}
	}
	return true;
}

static void each_accepted_result_ran_once(const struct fake *fake, const char *folder)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "runs");
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	struct berth_error err;
	berth_buf_add_text(&text, "\n");
	assert_ok(berth_file_read(path, RUNS_MAX, &text, &err), err);
	for (size_t i = 0; i < fake->trials_count; i++) {
		BERTH_AUTO_FREE char *line = berth_format("\n%zu.%u\n", i, fake->trials[i].generation);
		const char *first = strstr(berth_buf_text(&text), line);
		if (!first || strstr(first + 1, line)) {
			fail_msg("trial %zu: its accepted generation %u ran %s", i, fake->trials[i].generation,
				first ? "twice" : "never");
		}
		assert_int_equal(fake->trials[i].accepted, 1);
		assert_int_equal(fake->trials[i].result->outcome, BERTH__V1__OUTCOME__OUTCOME_SCORED);
	}
}

static void an_agent_killed_at_random_moments_loses_and_doubles_nothing(void **state)
{
	(void)state;
	struct fake *fake = berth_alloc(sizeof *fake);
	fake_open(fake);
	fake_add_trials(fake, TRIALS);
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct fake_host host;
	fake_host_open(&host, folder);
	for (uint32_t i = 0; i < KILLS || (i < KILLS_MAX && !has_kept(fake)); i++) {
		live_and_die(fake, folder, LIFE_MS_MAX * (1 + i / KILLS));
	}
	pthread_mutex_lock(&fake->lock);
	fake->refuse_blobs = false;
	fake->no_acks = false;
	fake->hellos = 0;
	pthread_mutex_unlock(&fake->lock);
	pid_t pid = spawn(fake, folder);
	assert_true(fake_wait(fake, is_up));
	assert_true(fake_wait(fake, all_accepted));
	kill(pid, SIGTERM);
	assert_int_equal(wait_status(pid), 0);
	if (fake->faults) {
		fail_msg("%u faults; the first: %s", fake->faults, fake->fault);
	}
	each_accepted_result_ran_once(fake, folder);
	assert_int_equal(fake_host_resources(&host), 0);
	assert_int_equal(fake_open_leases(fake), 0);
	printf("kept over a restart: %u, repeats: %u, runs: %zu, lives: %zu\n", fake->kept, fake->repeats,
		fake_host_runs(&host), fake->boots_count);
	assert_true(fake->kept > 0); // some life left a finished result to the next
	fake_host_close(&host);
	fake_close(fake);
	free(fake);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(an_agent_killed_at_random_moments_loses_and_doubles_nothing),
};
BERTH_TEST_MAIN(tests)
