// SPDX-License-Identifier: Apache-2.0
// sim --seed N [--steps N] [--trace] [--only 1,4,7]
// sim --seeds A..B [--jobs N] [--results FILE]
// sim --seeds A..B --first                       the first seed that breaks something
//
// A failing seed prints what was broken, the faults that are needed for it, the end of its trace, and the command that
// shows it again. Seeds run in processes of their own, so one that aborts is one that failed.
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/run.h"

#define JOBS_MAX       64
#define RANGE_SEEDS    1000 // a line of the results
#define TRACE_LINES    60
#define LIFE_SEEDS     200 // of one worker process
#define FAILURES_SHOWN 5

// Of a range, a build with an address sanitizer runs only the first part: it is that much slower.
#if defined(__SANITIZE_ADDRESS__)
#define SEED_PART 20
#else
#define SEED_PART 1
#endif

// Memory of a process that died at its _exit is lost with it, as it would be there.
#if defined(__SANITIZE_ADDRESS__)
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}
#endif

struct totals {
	uint64_t seeds, failed, steps, events, coordinator_deaths, agent_deaths;
};

struct worker {
	uint64_t seed; // that it is at
	struct totals totals;
	uint64_t failures[FAILURES_SHOWN]; // seeds
};

struct arguments {
	uint64_t seed, first, last, steps_most;
	bool has_seed, has_range, tracing, has_only, first_only;
	unsigned jobs;
	const char *results;
	bool kept[SIM_FAULTS_MAX];
};

static void make_folder(char folder[static 64])
{
	const char *const roots[] = {"/dev/shm", getenv("TEST_TMPDIR"), "/tmp"};
	for (size_t i = 0; i < BERTH_COUNT(roots); i++) {
		if (roots[i]) {
			snprintf(folder, 64, "%.40s/berth-sim-XXXXXX", roots[i]);
			if (mkdtemp(folder)) {
				return;
			}
		}
	}
	fprintf(stderr, "sim: no folder can be made for the files beside the disks\n");
	exit(EXIT_FAILURE);
}

static struct sim_result run_one(
	const struct arguments *arguments, uint64_t seed, bool tracing, struct sim_faults *faults)
{
	char folder[64];
	make_folder(folder);
	struct sim_options options = {.seed = seed,
		.steps_most = arguments->steps_most,
		.tracing = tracing,
		.kept = arguments->has_only ? arguments->kept : NULL,
		.folder = folder};
	return sim_run_seed(&options, faults);
}

// --- one seed, shown ---
static void print_command(const struct sim_faults *faults, uint64_t seed)
{
	printf("again: bazel run //tests/sim:sim -- --seed %" PRIu64 " --trace --only ", seed);
	const char *comma = "";
	bool any = false;
	for (size_t i = 0; i < faults->count; i++) {
		if (!faults->items[i].left_out) {
			printf("%s%zu", comma, i);
			comma = ",";
			any = true;
		}
	}
	printf("%s\n", any ? "" : "none");
}

static int show_seed(const struct arguments *arguments, uint64_t seed)
{
	struct sim_faults faults;
	struct sim_result result = run_one(arguments, seed, arguments->tracing, &faults);
	if (arguments->tracing) {
		sim_trace_print(stdout, UINT32_MAX);
	}
	if (result.stuck) {
		printf("%" PRIu64 " threads of the dead did not end\n", result.stuck);
	}
	printf("seed %" PRIu64 ": %" PRIu64 " steps, %" PRIu64
	       " events, %.0f s of time, %u deaths of the coordinator, %u of "
	       "agents\n",
		seed, result.steps, result.events, (double)result.settled_ns / 1e9, result.coordinator_deaths,
		result.agent_deaths);
	if (!result.failed) {
		printf("every promise was kept\n");
		return EXIT_SUCCESS;
	}
	if (!arguments->has_only) {
		char folder[64];
		make_folder(folder);
		struct sim_options options = {.seed = seed, .steps_most = arguments->steps_most, .folder = folder};
		sim_reduce(&options, &faults);
		struct arguments smaller = *arguments;
		smaller.has_only = true;
		for (size_t i = 0; i < faults.count; i++) {
			smaller.kept[i] = !faults.items[i].left_out;
		}
		result = run_one(&smaller, seed, true, &faults);
		sim_trace_print(stdout, TRACE_LINES);
	}
	printf("seed %" PRIu64 " breaks %s\nwith these faults:\n", seed, result.violation);
	sim_faults_print(stdout, &faults);
	print_command(&faults, seed);
	return EXIT_FAILURE;
}

// --- many ---
static void add_result(struct worker *worker, uint64_t seed, const struct sim_result *result)
{
	struct totals *totals = &worker->totals;
	totals->seeds++;
	totals->steps += result->steps;
	totals->events += result->events;
	totals->coordinator_deaths += result->coordinator_deaths;
	totals->agent_deaths += result->agent_deaths;
	if (result->failed) {
		if (totals->failed < FAILURES_SHOWN) {
			worker->failures[totals->failed] = seed;
		}
		totals->failed++;
		printf("seed %" PRIu64 " breaks %s\n", seed, result->violation);
		fflush(stdout);
	}
}

static void work(const struct arguments *arguments, struct worker *worker, uint64_t last)
{
	for (unsigned i = 0; i < LIFE_SEEDS && worker->seed <= last; i++) {
		if (arguments->first_only && worker->totals.failed) {
			return;
		}
		struct sim_faults faults;
		struct sim_result result = run_one(arguments, worker->seed, false, &faults);
		add_result(worker, worker->seed, &result);
		worker->seed += arguments->jobs;
	}
}

static void begin_worker(const struct arguments *arguments, struct worker *worker, uint64_t last)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		work(arguments, worker, last);
		fflush(stdout);
		exit(EXIT_SUCCESS);
	}
	int status;
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS) {
		struct sim_result died = {.failed = true};
		snprintf(died.violation, sizeof died.violation, "its process (it died, status %d)",
			child < 0 ? -1 : status);
		add_result(worker, worker->seed, &died);
		worker->seed += arguments->jobs;
	}
}

// Each worker's seeds are those of one remainder, in processes of bounded life.
static void run_range(const struct arguments *arguments, uint64_t first, uint64_t last, struct worker *workers)
{
	pid_t children[JOBS_MAX];
	fflush(stdout);
	for (unsigned i = 0; i < arguments->jobs; i++) {
		workers[i] = (struct worker){.seed = first + i};
		children[i] = fork();
		if (children[i] == 0) {
			while (workers[i].seed <= last) {
				begin_worker(arguments, &workers[i], last);
			}
			fflush(stdout);
			exit(EXIT_SUCCESS);
		}
	}
	for (unsigned i = 0; i < arguments->jobs; i++) {
		int status;
		waitpid(children[i], &status, 0);
	}
}

static uint64_t first_not_recorded(const struct arguments *arguments)
{
	FILE *file = arguments->results ? fopen(arguments->results, "r") : NULL;
	uint64_t next = arguments->first, from, to;
	char line[512];
	while (file && fgets(line, sizeof line, file)) {
		if (sscanf(line, "seeds %" SCNu64 "..%" SCNu64, &from, &to) == 2 && from <= next && to >= next) {
			next = to + 1;
		}
	}
	if (file) {
		fclose(file);
	}
	return next;
}

static void record(
	const struct arguments *arguments, uint64_t first, uint64_t last, const struct totals *totals, double seconds)
{
	FILE *file = arguments->results ? fopen(arguments->results, "a") : stdout;
	if (!file) {
		fprintf(stderr, "sim: cannot write %s\n", arguments->results);
		exit(EXIT_FAILURE);
	}
	fprintf(file,
		"seeds %" PRIu64 "..%" PRIu64 " broken %" PRIu64 " steps %" PRIu64 " events %" PRIu64
		" coordinator_deaths %" PRIu64 " agent_deaths %" PRIu64 " seconds %.0f\n",
		first, last, totals->failed, totals->steps, totals->events, totals->coordinator_deaths,
		totals->agent_deaths, seconds);
	if (file == stdout) {
		fflush(file);
	} else {
		fclose(file);
	}
}

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int run_all(const struct arguments *arguments)
{
	struct worker *workers =
		mmap(NULL, JOBS_MAX * sizeof *workers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t passed = 0, failed = 0, shown = 0;
	for (uint64_t first = first_not_recorded(arguments); first <= arguments->last; first += RANGE_SEEDS) {
		uint64_t last = first + RANGE_SEEDS - 1 < arguments->last ? first + RANGE_SEEDS - 1 : arguments->last;
		double begun_s = now_s();
		run_range(arguments, first, last, workers);
		struct totals totals = {0};
		for (unsigned i = 0; i < arguments->jobs; i++) {
			const struct totals *one = &workers[i].totals;
			totals.seeds += one->seeds;
			totals.failed += one->failed;
			totals.steps += one->steps;
			totals.events += one->events;
			totals.coordinator_deaths += one->coordinator_deaths;
			totals.agent_deaths += one->agent_deaths;
		}
		record(arguments, first, last, &totals, now_s() - begun_s);
		passed += totals.seeds - totals.failed;
		failed += totals.failed;
		for (unsigned i = 0; i < arguments->jobs && totals.failed && shown < 1; i++) {
			if (workers[i].totals.failed) {
				show_seed(arguments, workers[i].failures[0]);
				shown++;
			}
		}
	}
	printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, failed);
	return failed || !passed ? EXIT_FAILURE : EXIT_SUCCESS;
}

// One process for each part of the range: a broken program may well abort.
static int find_first(const struct arguments *arguments)
{
	struct worker *worker = mmap(NULL, sizeof *worker, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	worker->seed = arguments->first;
	while (worker->seed <= arguments->last && !worker->totals.failed) {
		begin_worker(arguments, worker, arguments->last);
	}
	printf("%" PRIu64 " passed, %" PRIu64 " failed\n", worker->totals.seeds - worker->totals.failed,
		worker->totals.failed);
	return worker->totals.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

// --- arguments ---
static bool read_only(struct arguments *arguments, const char *text)
{
	arguments->has_only = true;
	while (*text && strcmp(text, "none") != 0) {
		char *end;
		unsigned long number = strtoul(text, &end, 10);
		if (end == text || number >= SIM_FAULTS_MAX) {
			return false;
		}
		arguments->kept[number] = true;
		text = *end == ',' ? end + 1 : end;
	}
	return true;
}

static bool read_arguments(struct arguments *arguments, int argc, char **argv)
{
	static const struct option options[] = {{"seed", required_argument, NULL, 's'},
		{"seeds", required_argument, NULL, 'r'}, {"steps", required_argument, NULL, 'n'},
		{"trace", no_argument, NULL, 't'}, {"first", no_argument, NULL, '1'},
		{"only", required_argument, NULL, 'o'}, {"jobs", required_argument, NULL, 'j'},
		{"results", required_argument, NULL, 'f'}, {0}};
	bool good = true;
	int option;
	while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			arguments->has_seed = sscanf(optarg, "%" SCNu64, &arguments->seed) == 1;
			break;
		case 'r':
			arguments->has_range =
				sscanf(optarg, "%" SCNu64 "..%" SCNu64, &arguments->first, &arguments->last) == 2;
			break;
		case 'n':
			good = sscanf(optarg, "%" SCNu64, &arguments->steps_most) == 1;
			break;
		case 't':
			arguments->tracing = true;
			break;
		case '1':
			arguments->first_only = true;
			break;
		case 'o':
			good = read_only(arguments, optarg);
			break;
		case 'j':
			good = sscanf(optarg, "%u", &arguments->jobs) == 1 && arguments->jobs >= 1 &&
			       arguments->jobs <= JOBS_MAX;
			break;
		case 'f':
			arguments->results = optarg;
			break;
		default:
			good = false;
		}
	}
	return good && arguments->has_seed != arguments->has_range && optind == argc;
}

int main(int argc, char **argv)
{
	struct arguments arguments = {.jobs = 1};
	const char *folder = getenv("BUILD_WORKING_DIRECTORY"); // of `bazel run`: where its caller stands
	if (folder && chdir(folder) < 0) {
		fprintf(stderr, "sim: cannot go to %s\n", folder);
		return EXIT_FAILURE;
	}
	if (!read_arguments(&arguments, argc, argv)) {
		fprintf(stderr, "sim --seed N [--steps N] [--trace] [--only 1,4,7]\n"
				"sim --seeds A..B [--jobs N] [--results FILE] [--first]\n");
		return 2;
	}
#if defined(__SANITIZE_THREAD__)
	printf("skipped: one thread at a time runs here, on stacks that a thread sanitizer does not know\n"
	       "0 passed, 0 failed, 1 skipped\n");
	return EXIT_SUCCESS;
#endif
	arguments.last = arguments.first + (arguments.last - arguments.first) / SEED_PART;
	berth_log_setup("sim", BERTH_LOG_ERROR + 1);
	return arguments.first_only  ? find_first(&arguments)
	       : arguments.has_range ? run_all(&arguments)
	                             : show_seed(&arguments, arguments.seed);
}
