// SPDX-License-Identifier: Apache-2.0
// peer_load redis|etcd|postgres run|check FLAG=VALUE...: see peer.h; its figures as one line of JSON.
#include "tests/bench/ledger/peer.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"

#define GONE_MS 30000

static const struct peer_kind *const kinds[] = {&peer_redis, &peer_etcd, &peer_postgres};

static struct {
	const struct peer_kind *kind;
	int64_t *began_ns; // by connection: when its cycle was due
	uint32_t *idle;    // connections, a stack
	uint32_t idle_count;
	bool over;
} loop;

void peer_body(uint32_t task, char body[static PEER_BODY])
{
	char number[16];
	int length = snprintf(number, sizeof number, "%010u ", task);
	memset(body, 'x', PEER_BODY);
	memcpy(body, number, (size_t)length);
}

static void parse(int argc, char **argv, struct peer_options *options)
{
	for (int i = 3; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		if (!value) {
			bench_fail("%s is no FLAG=VALUE", argv[i]);
		}
		*value++ = 0;
		long long number = strtoll(value, NULL, 10);
		if (strcmp(argv[i], "address") == 0) {
			options->address = value;
		} else if (strcmp(argv[i], "journal") == 0) {
			options->journal = value;
		} else if (strcmp(argv[i], "rate") == 0) {
			options->rate = strtod(value, NULL);
		} else if (strcmp(argv[i], "server") == 0) {
			options->server = (pid_t)number;
		} else if (strcmp(argv[i], "connections") == 0) {
			options->connections = (uint32_t)number;
		} else if (strcmp(argv[i], "depth") == 0) {
			options->depth = (uint32_t)number;
		} else if (strcmp(argv[i], "warm-ms") == 0) {
			options->warm_ms = number;
		} else if (strcmp(argv[i], "measure-ms") == 0) {
			options->measure_ms = number;
		} else if (strcmp(argv[i], "tasks") == 0) {
			options->tasks = (uint32_t)number;
		} else {
			bench_fail("unknown flag %s", argv[i]);
		}
	}
}

// --- cycles ---

void peer_leased(struct peer *peer, uint32_t connection, uint32_t task)
{
	if (task >= peer->options.tasks) {
		bench_fail("the server leased task %u of %u", task, peer->options.tasks);
	}
	peer->doubled += peer->tasks[task] != TASK_READY;
	peer->tasks[task] = TASK_LEASED;
	if (peer->measuring) {
		peer->granted++;
		histogram_add(&peer->grant, berth_boot_ns() - loop.began_ns[connection]);
	}
}

void peer_removing(struct peer *peer, uint32_t task)
{
	peer->tasks[task] = TASK_REMOVING;
}

void peer_removed(struct peer *peer, uint32_t connection, uint32_t task)
{
	peer->tasks[task] = TASK_REMOVED;
	if (peer->measuring) {
		peer->completed++;
		histogram_add(&peer->complete, berth_boot_ns() - loop.began_ns[connection]);
	}
}

static void begin(struct peer *peer, uint32_t connection, int64_t began_ns)
{
	loop.began_ns[connection] = began_ns;
	loop.kind->begin(peer, connection);
}

void peer_idle(struct peer *peer, uint32_t connection)
{
	if (peer->options.rate > 0 || loop.over) {
		loop.idle[loop.idle_count++] = connection;
	} else {
		begin(peer, connection, berth_boot_ns());
	}
}

// Cycles that are due begin as connections are idle, with the time that they were due.
static void run_until(struct peer *peer, int64_t *next_ns, int64_t end_ns)
{
	while (berth_boot_ns() < end_ns && !peer->gone) {
		int64_t wake_ns = end_ns;
		if (peer->options.rate > 0) {
			while (*next_ns <= berth_boot_ns() && loop.idle_count) {
				int64_t due_ns = *next_ns;
				*next_ns += (int64_t)(-log(1 - drand48()) / peer->options.rate * 1e9);
				begin(peer, loop.idle[--loop.idle_count], due_ns);
			}
			wake_ns = loop.idle_count && *next_ns < end_ns ? *next_ns : end_ns;
		}
		loop.kind->wait(peer, wake_ns);
	}
}

// --- a run ---

struct spent {
	double server_us, own_us;
	int64_t ns;
};

static struct spent spent_now(const struct peer *peer)
{
	return (struct spent){process_cpu_us(peer->options.server), own_cpu_us(), berth_boot_ns()};
}

static void print_run(const struct peer *peer, struct spent began, struct spent ended)
{
	double seconds = (double)(ended.ns - began.ns) / 1e9;
	double server_us = ended.server_us - began.server_us;
	uint64_t durable = peer->granted + peer->completed;
	printf("{\"seconds\":%.3f,\"granted\":%llu,\"completed\":%llu,\"cycles_per_s\":%.1f,\"server_cpu_s\":%.3f,"
	       "\"server_us_per_durable_op\":%.2f,\"load_cpu_share\":%.3f,\"doubled\":%llu,\"rss_kb\":%ld,\"grant\":",
		seconds, (unsigned long long)peer->granted, (unsigned long long)peer->completed,
		(double)peer->completed / seconds, server_us / 1e6, durable ? server_us / (double)durable : 0,
		(ended.own_us - began.own_us) / 1e6 / seconds, (unsigned long long)peer->doubled,
		process_rss_kb(peer->options.server));
	histogram_print(stdout, &peer->grant);
	fputs(",\"complete\":", stdout);
	histogram_print(stdout, &peer->complete);
	puts("}");
	fflush(stdout);
}

static void journal_write(const struct peer *peer)
{
	FILE *file = fopen(peer->options.journal, "w");
	if (!file || fwrite(peer->tasks, 1, peer->options.tasks, file) != peer->options.tasks || fclose(file) != 0) {
		bench_fail("cannot write %s", peer->options.journal);
	}
}

static void run(struct peer *peer)
{
	loop.kind->fill(peer);
	for (uint32_t i = 0; i < peer->options.connections; i++) {
		loop.idle[loop.idle_count++] = i;
	}
	int64_t next_ns = berth_boot_ns();
	while (peer->options.rate <= 0 && loop.idle_count) {
		begin(peer, loop.idle[--loop.idle_count], berth_boot_ns());
	}
	run_until(peer, &next_ns, berth_boot_ns() + peer->options.warm_ms * BERTH_NS_PER_MS);
	peer->measuring = true;
	fputs("measuring\n", stderr);
	struct spent began = spent_now(peer);
	run_until(peer, &next_ns, berth_boot_ns() + peer->options.measure_ms * BERTH_NS_PER_MS);
	struct spent ended = spent_now(peer);
	peer->measuring = false;
	if (peer->gone) {
		bench_fail("the server ended a connection");
	}
	print_run(peer, began, ended);
	if (peer->options.journal) {
		run_until(peer, &next_ns, berth_boot_ns() + GONE_MS * BERTH_NS_PER_MS);
		journal_write(peer);
	}
}

static int check(struct peer *peer)
{
	FILE *file = fopen(peer->options.journal, "r");
	if (!file || fread(peer->tasks, 1, peer->options.tasks, file) != peer->options.tasks) {
		bench_fail("cannot read %s", peer->options.journal);
	}
	fclose(file);
	BERTH_AUTO_FREE uint8_t *now = berth_alloc(peer->options.tasks);
	loop.kind->look(peer, now);
	unsigned long long grants = 0, lost_grants = 0, completions = 0, lost_completions = 0, lost_tasks = 0;
	for (uint32_t i = 0; i < peer->options.tasks; i++) {
		grants += peer->tasks[i] != TASK_READY;
		lost_grants += peer->tasks[i] == TASK_LEASED && now[i] != TASK_LEASED;
		completions += peer->tasks[i] == TASK_REMOVED;
		lost_completions += peer->tasks[i] == TASK_REMOVED && now[i] != TASK_REMOVED;
		lost_tasks += peer->tasks[i] == TASK_READY && now[i] == TASK_REMOVED;
	}
	printf("{\"grants\":%llu,\"lost_grants\":%llu,\"completions\":%llu,\"lost_completions\":%llu,"
	       "\"lost_tasks\":%llu}\n",
		grants, lost_grants, completions, lost_completions, lost_tasks);
	return 0;
}

int main(int argc, char **argv)
{
	struct peer *peer = berth_alloc(sizeof *peer);
	peer->options = (struct peer_options){
		.connections = 1, .depth = 1, .warm_ms = 1000, .measure_ms = 3000, .tasks = 100000};
	parse(argc, argv, &peer->options);
	for (size_t i = 0; argc > 2 && i < BERTH_COUNT(kinds); i++) {
		loop.kind = strcmp(argv[1], kinds[i]->name) == 0 ? kinds[i] : loop.kind;
	}
	if (!loop.kind || peer->options.depth < 1 || peer->options.depth > PEER_DEPTH) {
		bench_fail("peer_load redis|etcd|postgres run|check FLAG=VALUE...; depth is 1 to %d", PEER_DEPTH);
	}
	signal(SIGPIPE, SIG_IGN);
	peer->tasks = berth_alloc(peer->options.tasks);
	loop.began_ns = berth_alloc(peer->options.connections * sizeof *loop.began_ns);
	loop.idle = berth_alloc((peer->options.connections + 1) * sizeof *loop.idle);
	if (strcmp(argv[2], "check") == 0) {
		return check(peer);
	}
	run(peer);
	_exit(0);
}
