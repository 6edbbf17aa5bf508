// SPDX-License-Identifier: Apache-2.0
// ledger_load run|check FLAG=VALUE...: a load on a running coordinator; its figures as one line of JSON. run.py starts
// it and says what each flag means for a row of docs/BENCH.md.
#include "tests/bench/ledger/load.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"

#define CONNECT_MS 120000
#define GONE_MS    30000
#define DRAIN_MS   50

static bool set(struct load_options *options, const char *name, const char *value)
{
	const struct {
		const char *name;
		const char **text;
		int64_t *wide;
		uint32_t *count;
		int *port;
		bool *flag;
	} flags[] = {
		{.name = "credentials", .text = &options->credentials},
		{.name = "journal", .text = &options->journal},
		{.name = "think-us", .wide = &options->think_us},
		{.name = "warm-ms", .wide = &options->warm_ms},
		{.name = "measure-ms", .wide = &options->measure_ms},
		{.name = "beat-ms", .wide = &options->beat_ms},
		{.name = "fence-ms", .wide = &options->fence_ms},
		{.name = "agents", .count = &options->agents},
		{.name = "slots", .count = &options->slots},
		{.name = "batch", .count = &options->batch},
		{.name = "tasks", .count = &options->tasks},
		{.name = "attempts", .count = &options->attempts},
		{.name = "port", .port = &options->port},
		{.name = "blobs-port", .port = &options->blobs_port},
		{.name = "server", .port = &options->server},
		{.name = "whole", .flag = &options->whole},
		{.name = "paid", .flag = &options->paid},
		{.name = "hold", .flag = &options->hold},
		{.name = "drain", .flag = &options->drain},
	};
	if (strcmp(name, "rate") == 0) {
		options->rate = strtod(value, NULL);
		return true;
	}
	for (size_t i = 0; i < BERTH_COUNT(flags); i++) {
		if (strcmp(name, flags[i].name) != 0) {
			continue;
		}
		long long number = strtoll(value, NULL, 10);
		if (flags[i].text) {
			*flags[i].text = value;
		} else if (flags[i].wide) {
			*flags[i].wide = number;
		} else if (flags[i].count) {
			*flags[i].count = (uint32_t)number;
		} else if (flags[i].port) {
			*flags[i].port = (int)number;
		} else {
			*flags[i].flag = number != 0;
		}
		return true;
	}
	return false;
}

static void parse(int argc, char **argv, struct load_options *options)
{
	for (int i = 2; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		if (value) {
			*value++ = 0;
		}
		if (!value || !set(options, argv[i], value)) {
			bench_fail("unknown flag %s", argv[i]);
		}
	}
	if (options->batch < 1 || options->batch > LOAD_BATCH_MAX) {
		bench_fail("batch must be 1 to %d", LOAD_BATCH_MAX);
	}
}

// --- what is held, and when it is completed ---

// One that is late is completed at once, with the time that it was due.
void load_holds(struct load *load, struct agent *agent, uint32_t slot)
{
	int64_t due_ns;
	int64_t now_ns = berth_boot_ns();
	if (load->options.hold) {
		return;
	}
	if (load->options.rate > 0 && ring_pop(&load->late, &due_ns)) {
		agent_complete(agent, slot, due_ns);
	} else if (load->options.rate > 0 || load->options.think_us) {
		struct held held = {agent, slot, now_ns + load->options.think_us * 1000};
		ring_push(&load->held, &held);
	} else {
		agent_complete(agent, slot, now_ns);
	}
}

static double exponential_s(double rate)
{
	return -log(1 - drand48()) / rate;
}

struct pace {
	int64_t next_ns; // the next completion that is due
	int64_t beat_ns;
};

static void complete_due(struct load *load, struct pace *pace)
{
	int64_t now_ns = berth_boot_ns();
	struct held held;
	while (load->options.rate > 0 && pace->next_ns <= now_ns) {
		// Trials end independently of each other. The first that came would be one of many that its agent got
		// together, and those would queue behind each other.
		if (ring_pop_any(&load->held, &held)) {
			agent_complete(held.agent, held.slot, pace->next_ns);
			agent_send(held.agent);
		} else {
			ring_push(&load->late, &pace->next_ns);
		}
		pace->next_ns += (int64_t)(exponential_s(load->options.rate) * 1e9);
	}
	const struct held *first;
	while (load->options.rate <= 0 && (first = ring_first(&load->held)) && first->due_ns <= now_ns) {
		ring_pop(&load->held, &held);
		agent_complete(held.agent, held.slot, now_ns);
		agent_send(held.agent);
	}
	if (load->options.beat_ms && now_ns >= pace->beat_ns) {
		for (uint32_t i = 0; i < load->options.agents; i++) {
			agent_beat(&load->agents[i]);
		}
		pace->beat_ns = now_ns + load->options.beat_ms * BERTH_NS_PER_MS;
	}
}

static int64_t next_due_ns(const struct load *load, const struct pace *pace, int64_t end_ns)
{
	int64_t due_ns = end_ns;
	const struct held *first = load->options.rate <= 0 ? ring_first(&load->held) : NULL;
	due_ns = load->options.rate > 0 && pace->next_ns < due_ns ? pace->next_ns : due_ns;
	due_ns = first && first->due_ns < due_ns ? first->due_ns : due_ns;
	return load->options.beat_ms && pace->beat_ns < due_ns ? pace->beat_ns : due_ns;
}

static void run_until(struct load *load, struct pace *pace, int64_t end_ns)
{
	while (berth_boot_ns() < end_ns && load->over < load->options.agents) {
		struct line_event event;
		complete_due(load, pace);
		if (line_next(load->queue, next_due_ns(load, pace, end_ns), &event)) {
			agent_event(event.owner, &event);
		}
	}
}

// --- a run ---

static void connect_all(struct load *load)
{
	struct line_event event;
	load->agents = berth_alloc(load->options.agents * sizeof *load->agents);
	for (uint32_t i = 0; i < load->options.agents; i++) {
		agent_open(load, &load->agents[i], i);
	}
	int64_t end_ns = berth_boot_ns() + CONNECT_MS * BERTH_NS_PER_MS;
	while (load->ready < load->options.agents) {
		if (berth_boot_ns() > end_ns || load->over) {
			bench_fail("only %u of %u agents are in a session", load->ready, load->options.agents);
		}
		if (line_next(load->queue, end_ns, &event)) {
			agent_event(event.owner, &event);
		}
	}
}

static void submit(struct load *load)
{
	char key[BERTH_ID_SIZE];
	berth_random_id(key);
	load->trials_count = load->options.tasks * load->options.attempts;
	load->trials = berth_alloc((load->trials_count + 1) * sizeof *load->trials);
	load->submitted_ns = berth_boot_ns();
	if (load->trials_count) {
		struct job_request request = {key, load->options.tasks, load->options.attempts, load->options.paid};
		operator_submit(&load->operator_, &request, load->job, &load->submit_ns);
	}
}

struct spent {
	double server_us, own_us;
	int64_t ns;
};

static struct spent spent_now(const struct load *load)
{
	return (struct spent){process_cpu_us(load->options.server), own_cpu_us(), berth_boot_ns()};
}

static void print_run(const struct load *load, struct spent began, struct spent ended)
{
	double seconds = (double)(ended.ns - began.ns) / 1e9;
	double server_us = ended.server_us - began.server_us;
	uint64_t durable = load->granted + load->completed;
	printf("{\"seconds\":%.3f,\"granted\":%llu,\"completed\":%llu,\"cycles_per_s\":%.1f,\"server_cpu_s\":%.3f,"
	       "\"server_us_per_durable_op\":%.2f,\"load_us_per_cycle\":%.2f,\"load_cpu_share\":%.3f,\"beats_per_s\":%."
	       "1f,"
	       "\"messages\":%llu,\"doubled\":%llu,\"revoked\":%llu,\"rss_kb\":%ld,\"submit_ms\":%.2f,\"first_grant_"
	       "ms\":%.2f,"
	       "\"late\":%zu,\"grant\":",
		seconds, (unsigned long long)load->granted, (unsigned long long)load->completed,
		(double)load->completed / seconds, server_us / 1e6, durable ? server_us / (double)durable : 0,
		load->completed ? (ended.own_us - began.own_us) / (double)load->completed : 0,
		(ended.own_us - began.own_us) / 1e6 / seconds, (double)load->beats / seconds,
		(unsigned long long)load->messages, (unsigned long long)load->doubled,
		(unsigned long long)load->revoked, process_rss_kb(load->options.server), (double)load->submit_ns / 1e6,
		load->first_grant_ns ? (double)(load->first_grant_ns - load->submitted_ns) / 1e6 : 0, load->late.count);
	histogram_print(stdout, &load->grant);
	fputs(",\"complete\":", stdout);
	histogram_print(stdout, &load->complete);
	fputs(",\"regrant\":", stdout);
	histogram_print(stdout, &load->regrant);
	puts("}");
	fflush(stdout);
}

static uint32_t count_granted(const struct load *load)
{
	uint32_t granted = 0;
	for (uint32_t i = 0; i < load->trials_count; i++) {
		granted += load->trials[i].generation != 0;
	}
	return granted;
}

static void drain(struct load *load, struct pace *pace)
{
	for (uint32_t left = 1; left && !load->over;) {
		run_until(load, pace, berth_boot_ns() + DRAIN_MS * BERTH_NS_PER_MS);
		left = 0;
		for (uint32_t i = 0; i < load->trials_count; i++) {
			left += !load->trials[i].acknowledged;
		}
	}
}

static void run(struct load *load)
{
	const struct load_options *options = &load->options;
	size_t slots = (size_t)options->agents * options->slots;
	load->held = ring_new(sizeof(struct held), slots + 1);
	load->late = ring_new(sizeof(int64_t), 10000000);
	load->queue = line_queue_new();
	connect_all(load);
	submit(load);
	struct pace pace = {.next_ns = berth_boot_ns(), .beat_ns = berth_boot_ns()};
	run_until(load, &pace, berth_boot_ns() + options->warm_ms * BERTH_NS_PER_MS);
	load->measuring = true;
	fputs("measuring\n", stderr); // for who watches the server meanwhile
	struct spent began = spent_now(load);
	run_until(load, &pace, berth_boot_ns() + options->measure_ms * BERTH_NS_PER_MS);
	struct spent ended = spent_now(load);
	load->measuring = false;
	if (load->over) {
		bench_fail("the coordinator ended %u of %u sessions", load->over, options->agents);
	}
	if (!options->hold && !options->drain && count_granted(load) == load->trials_count) {
		bench_fail("the job of %u trials was too small: it was over before the load", load->trials_count);
	}
	print_run(load, began, ended);
	if (options->drain) {
		drain(load, &pace);
	}
	if (options->journal) {
		run_until(load, &pace, berth_boot_ns() + GONE_MS * BERTH_NS_PER_MS);
		journal_write(load);
	}
}

int main(int argc, char **argv)
{
	struct load *load = berth_alloc(sizeof *load);
	load->options = (struct load_options){.agents = 1,
		.slots = 1,
		.batch = 1,
		.warm_ms = 1000,
		.measure_ms = 3000,
		.tasks = 1,
		.attempts = 10000};
	parse(argc, argv, &load->options);
	signal(SIGPIPE, SIG_IGN);
	operator_connect(&load->operator_, load->options.credentials, load->options.port, load->options.blobs_port);
	if (argc > 1 && strcmp(argv[1], "check") == 0) {
		return journal_check(load);
	}
	run(load);
	_exit(0); // the streams end with the process, as those of a host that is switched off
}
