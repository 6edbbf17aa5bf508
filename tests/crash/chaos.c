// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/chaos.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cancel.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#define START_MS 300 // of a kill that is counted from the start on, served or not
#define LOOK_MS  1

struct killer {
	struct port *port;
	uint64_t random;
	atomic_bool paused, over;
	atomic_uint kills, kills_serving; // all, and those of a life that served
};

static uint64_t next_random(uint64_t *state) // xorshift64*
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

static void rest_ms(int64_t ms)
{
	berth_sleep_ms(ms, berth_within_ms(START_MS * 10, NULL), NULL);
}

// Kills the process, if it is still the life that was meant.
static bool kill_life(struct killer *killer, pid_t pid)
{
	struct port *port = killer->port;
	pthread_mutex_lock(&port->lock);
	bool there = !atomic_load(&killer->paused) && port->pid == pid && kill(pid, SIGKILL) == 0;
	if (there) {
		atomic_fetch_add(&killer->kills, 1);
		atomic_fetch_add(&killer->kills_serving, port->serves);
	}
	pthread_mutex_unlock(&port->lock);
	return there;
}

// The life to kill next; 0: there is none yet.
static pid_t find_life(struct killer *killer, pid_t last, bool must_serve)
{
	const struct port *port = killer->port;
	pthread_mutex_lock(&killer->port->lock);
	bool found = !atomic_load(&killer->paused) && port->pid != last && (port->serves || !must_serve);
	pid_t pid = found ? port->pid : 0;
	pthread_mutex_unlock(&killer->port->lock);
	return pid;
}

static void *killer_thread(void *context)
{
	struct killer *killer = context;
	pid_t last = 0;
	uint64_t roll = next_random(&killer->random) >> 8;
	while (!atomic_load(&killer->over)) {
		bool in_start = roll % 4 == 0;
		pid_t pid = find_life(killer, last, !in_start);
		if (!pid) {
			rest_ms(LOOK_MS);
			continue;
		}
		// A life works at most twice as long as its start took: so that jobs go on on a busy machine as well.
		uint64_t most_ms = in_start ? START_MS : 1 + (uint64_t)(2 * killer->port->recovery_ms);
		rest_ms((int64_t)(roll / 4 % most_ms));
		if (kill_life(killer, pid)) {
			last = pid;
			roll = next_random(&killer->random) >> 8;
		}
	}
	return NULL;
}

// The whole ledger, walked, replayed and held against its records by the command.
static void audit(struct script *script, const char *berth)
{
	extern char **environ;
	BERTH_AUTO_FREE char *data = berth_format("%s/data", script->port.options.folder);
	char *const argv[] = {(char *)berth, "ledger", "verify", data, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	pid_t pid;
	int end = -1;
	int status = posix_spawn(&pid, berth, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (status != 0 || waitpid(pid, &end, 0) != pid || !WIFEXITED(end) || WEXITSTATUS(end) != 0) {
		port_broken(&script->port, "%s ledger verify %s: wait status %#x", berth, data, (unsigned)end);
	}
}

static void print_line(const struct script *script, struct killer *killer)
{
	printf("chaos\tkills %u\tkills_serving %u\tlives %u\tjobs %llu\ttrials %llu\tcancels %llu\tamendments "
	       "%u\tchecks %llu\t"
	       "acks %llu\theads %llu\tevents %llu\tworst_ms %.0f\n",
		atomic_load(&killer->kills), atomic_load(&killer->kills_serving), script->port.lives,
		(unsigned long long)script->jobs, (unsigned long long)script->trials,
		(unsigned long long)script->cancels, script->amendments, (unsigned long long)script->checks,
		(unsigned long long)script->hand.acks, (unsigned long long)script->hand.heads,
		(unsigned long long)script->hand.seen.size, script->port.worst_ms);
	fflush(stdout);
}

static void rest_and_audit(struct script *script, struct killer *killer, const char *berth)
{
	atomic_store(&killer->paused, true);
	hand_leave(&script->hand);
	port_kill(&script->port);
	port_wait(&script->port);
	audit(script, berth);
	print_line(script, killer);
	atomic_store(&killer->paused, false);
	script_recover(script);
}

static void one_job(struct script *script, uint64_t seed, uint64_t number, uint64_t roll)
{
	BERTH_AUTO_FREE char *key =
		berth_format("chaos-%llu-%llu", (unsigned long long)seed, (unsigned long long)number);
	script_amend(script, 2);
	if (roll % 5 == 0) {
		script_forfeit(script, key);
	} else {
		script_score(script, key, 1 + roll / 5 % 2, roll / 10 % 2);
	}
}

void chaos_run(struct script *script, const struct chaos_options *options)
{
	struct berth_error err;
	uint64_t random = options->seed * 2 + 1;
	struct killer killer = {.port = &script->port, .random = options->seed * 4 + 3};
	pthread_t thread;
	script_begin(script);
	if (!berth_thread_start(&thread, "killer", killer_thread, &killer, &err)) {
		port_broken(&script->port, "%s", err.message);
	}
	unsigned audited = 0;
	for (uint64_t number = 1; atomic_load(&killer.kills) < options->kills; number++) {
		one_job(script, options->seed, number, next_random(&random) >> 8);
		if (atomic_load(&killer.kills) >= audited + options->audit_every) {
			audited = atomic_load(&killer.kills);
			rest_and_audit(script, &killer, options->berth);
		}
	}
	atomic_store(&killer.over, true);
	pthread_join(thread, NULL);
	rest_and_audit(script, &killer, options->berth);
	script_end(script);
	printf("end\t%u\n", atomic_load(&killer.kills));
}
