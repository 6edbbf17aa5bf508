// SPDX-License-Identifier: Apache-2.0
// ledger_bench commit FOLDER BATCH SECONDS | fill FOLDER EVENTS | open FOLDER | greet FOLDER ROUNDS
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/digest.h"
#include "coordinator/ledger/ledger.h"

#define EVENT_SIZE    256
#define FILL_BATCH    1000
#define NS_PER_US     1000.0
#define RECENT_EVENTS 1000

static long resident_kib(void)
{
	long kib = 0;
	char line[256];
	FILE *status = fopen("/proc/self/status", "re");
	while (status && fgets(line, sizeof line, status)) {
		if (strncmp(line, "VmRSS:", 6) == 0) {
			kib = strtol(line + 6, NULL, 10);
		}
	}
	if (status) {
		fclose(status);
	}
	return kib;
}

static bool add_batch(struct berth_ledger *ledger, uint64_t events, struct berth_error *err)
{
	uint8_t event[EVENT_SIZE];
	berth_random(event, sizeof event);
	for (uint64_t i = 0; i < events; i++) {
		uint64_t sequence = berth_ledger_next(ledger);
		memcpy(event, &sequence, sizeof sequence);
		if (!berth_ledger_append(ledger, sequence, event, sizeof event, err)) {
			return false;
		}
	}
	return berth_ledger_commit(ledger, err);
}

static bool bench_commits(struct berth_ledger *ledger, uint64_t batch, int64_t seconds, struct berth_error *err)
{
	uint64_t commits = 0;
	int64_t start = berth_boot_ns();
	int64_t end = start + seconds * BERTH_NS_PER_S;
	int64_t now = start;
	for (; now < end; now = berth_boot_ns()) {
		if (!add_batch(ledger, batch, err)) {
			return false;
		}
		commits++;
	}
	double elapsed = (double)(now - start) / (double)BERTH_NS_PER_S;
	printf("batch=%" PRIu64 " commits_per_second=%.0f events_per_second=%.0f rss_kib=%ld\n", batch,
		(double)commits / elapsed, (double)(commits * batch) / elapsed, resident_kib());
	return true;
}

// What a coordinator does of its ledger for one agent's Hello and Welcome, from an event that this agent saw: one of
// the newest, as those of a fleet that comes back.
static bool greet(struct berth_ledger *ledger, struct berth_error *err)
{
	struct berth_ledger_head newest = berth_ledger_head(ledger), seen;
	struct berth_digest proof[BERTH_MERKLE_LEVELS + 1];
	size_t count;
	uint64_t from;
	berth_random(&from, sizeof from);
	from = newest.sequence - from % (newest.sequence < RECENT_EVENTS ? newest.sequence : RECENT_EVENTS);
	return berth_ledger_head_at(ledger, from, &seen, err) &&
	       berth_merkle_consistency(from, newest.sequence, berth_ledger_node, ledger, proof, &count, err);
}

static bool bench_greetings(struct berth_ledger *ledger, uint64_t rounds, struct berth_error *err)
{
	int64_t start = berth_boot_ns();
	for (uint64_t i = 0; i < rounds; i++) {
		if (!greet(ledger, err)) {
			return false;
		}
	}
	printf("us_per_greeting=%.0f\n", (double)(berth_boot_ns() - start) / (double)rounds / NS_PER_US);
	return true;
}

static bool run(struct berth_ledger *ledger, int argc, char **argv, struct berth_error *err)
{
	if (argc == 5 && strcmp(argv[1], "commit") == 0) {
		return bench_commits(ledger, strtoull(argv[3], NULL, 10), strtoll(argv[4], NULL, 10), err);
	}
	if (argc == 4 && strcmp(argv[1], "greet") == 0) {
		return bench_greetings(ledger, strtoull(argv[3], NULL, 10), err);
	}
	if (argc == 4 && strcmp(argv[1], "fill") == 0) {
		uint64_t events = strtoull(argv[3], NULL, 10);
		while (berth_ledger_next(ledger) <= events) {
			if (!add_batch(ledger, FILL_BATCH, err)) {
				return false;
			}
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: ledger_bench commit FOLDER BATCH SECONDS | fill FOLDER EVENTS | open FOLDER | "
				"greet FOLDER ROUNDS\n");
		return 2;
	}
	const struct berth_ledger_options options = {.disk_free_min_bytes = 1};
	struct berth_error err;
	int64_t start = berth_boot_ns();
	struct berth_ledger *ledger = berth_ledger_open(argv[2], &options, &err);
	if (ledger) {
		printf("open_ms=%.1f events=%" PRIu64 " rss_kib=%ld\n",
			(double)(berth_boot_ns() - start) / (double)BERTH_NS_PER_MS, berth_ledger_head(ledger).sequence,
			resident_kib());
	}
	if (!ledger || !run(ledger, argc, argv, &err)) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	berth_ledger_close(ledger);
	return 0;
}
