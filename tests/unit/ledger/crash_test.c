// SPDX-License-Identifier: Apache-2.0
// A process that commits is killed at a random place; every event that it reported as committed must be there.
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/digest.h"
#include "common/base/mem.h"
#include "tests/support/test.h"
#include "tests/unit/ledger/ledger_support.h"

#define CHILD_MODE   "commit-for-ever"
#define ROUNDS       12
#define ACKS_AT_MOST 400

extern char **environ;

// Never returns but by being killed (or when the reader of its pipe is gone).
static int commit_for_ever(const char *folder)
{
	const struct berth_ledger_options options = {0};
	struct berth_error err;
	struct berth_ledger *ledger = berth_ledger_open(folder, &options, &err);
	for (uint64_t round = 0; ledger; round++) {
		for (uint64_t i = 0; i <= round % 13; i++) {
			uint8_t event[EVENT_SIZE_MAX];
			uint64_t sequence = berth_ledger_next(ledger);
			size_t size = event_bytes(sequence, event);
			if (!berth_ledger_append(ledger, sequence, event, size, &err)) {
				return 1;
			}
		}
		uint64_t last = berth_ledger_next(ledger) - 1;
		if (!berth_ledger_commit(ledger, &err) || write(STDOUT_FILENO, &last, sizeof last) != sizeof last) {
			return 1;
		}
	}
	return 1;
}

static pid_t start_child(const char *folder, int *acks)
{
	int pipe_fds[2];
	assert_int_equal(pipe(pipe_fds), 0);
	char self[] = "/proc/self/exe";
	char mode[] = CHILD_MODE;
	BERTH_AUTO_FREE char *argument = berth_strdup(folder);
	char *argv[] = {self, mode, argument, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, pipe_fds[0]);
	pid_t child;
	assert_int_equal(posix_spawn(&child, self, &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(pipe_fds[1]);
	*acks = pipe_fds[0];
	return child;
}

// Kills the child after some acknowledgements and returns the last event that it reported, also after the kill.
static uint64_t kill_while_it_commits(const char *folder, unsigned after)
{
	int acks = -1;
	pid_t child = start_child(folder, &acks);
	uint64_t last = 0;
	for (unsigned i = 0; i < after; i++) {
		assert_int_equal(read(acks, &last, sizeof last), sizeof last);
	}
	assert_int_equal(kill(child, SIGKILL), 0);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	while (read(acks, &last, sizeof last) == sizeof last) {
	}
	close(acks);
	return last;
}

static void what_was_committed_survives_being_killed(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	uint64_t found = 0;
	for (int round = 0; round < ROUNDS; round++) {
		uint16_t random;
		berth_random(&random, sizeof random);
		uint64_t reported = kill_while_it_commits(folder, 1 + random % ACKS_AT_MOST);
		struct berth_ledger *ledger = must_open_ledger(folder);
		uint64_t last = berth_ledger_head(ledger).sequence;
		assert_true(reported > found);
		assert_true(last >= reported);
		assert_events(ledger, last);
		found = last;
		berth_ledger_close(ledger);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_was_committed_survives_being_killed),
};

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], CHILD_MODE) == 0) {
		_exit(commit_for_ever(argv[2]));
	}
	return cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL) != 0;
}
