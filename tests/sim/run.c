// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/run.h"

#include <string.h>

#include "common/base/file.h"
#include "tests/sim/audit.h"
#include "tests/sim/check.h"
#include "tests/sim/trial.h"
#include "tests/sim/world.h"

#define MS              INT64_C(1000000)
#define S               INT64_C(1000000000)
#define SLICE_NS        (5 * S)
#define SETTLE_BOUND_NS (3600 * S) // I16: after the faults, until every job has ended and nothing is alive

static void leave_out(struct sim_faults *faults, const bool *kept)
{
	for (size_t i = 0; kept && i < faults->count; i++) {
		faults->items[i].left_out = !kept[i];
	}
}

static void run_until(int64_t ns, uint64_t steps_most)
{
	while (sim_now() < ns && !*sim_is_violated() && (!steps_most || sim_steps() < steps_most)) {
		int64_t slice_ns = sim_now() + SLICE_NS;
		sim_sched_run(slice_ns < ns ? slice_ns : ns, sim_is_violated());
	}
}

static void settle(void)
{
	int64_t until_ns = sim_now() + SETTLE_BOUND_NS;
	while (!*sim_is_violated() && !sim_world_is_settled()) {
		if (sim_now() >= until_ns) {
			char text[400];
			sim_audit_describe(text, sizeof text);
			sim_violation("I16", "an hour after the last fault:%s %u containers are alive (%.8s)", text,
				sim_docker_alive(), sim_docker_any_alive());
			return;
		}
		sim_sched_run(sim_now() + SLICE_NS, sim_is_violated());
		sim_runs_check_current(sim_world.hold_ms * MS);
		sim_audit_check_waits();
	}
}

struct sim_result sim_run_seed(const struct sim_options *options, struct sim_faults *faults)
{
	sim_check_begin(options->tracing);
	sim_faults_draw(faults, options->seed);
	leave_out(faults, options->kept);
	sim_world_begin(options->seed, options->folder);
	sim_faults_begin(faults);
	run_until(faults->over_ns, options->steps_most);
	sim_faults_end();
	settle();
	if (!*sim_is_violated()) {
		sim_audit_whole();
	}
	struct sim_result result = {.failed = *sim_is_violated(),
		.steps = sim_steps(),
		.events = sim_audit_events(),
		.settled_ns = sim_now(),
		.stuck = sim_stuck(),
		.coordinator_deaths = sim_world.coordinator_deaths,
		.agent_deaths = sim_world.agent_deaths};
	if (result.failed) {
		snprintf(result.violation, sizeof result.violation, "%.500s", sim_first_violation());
	}
	sim_world_end();
	struct berth_error err;
	berth_remove_all(options->folder, &err);
	return result;
}

static bool same_promise(const char *a, const char *b)
{
	size_t length = strcspn(a, ":");
	return strncmp(a, b, length + 1) == 0;
}

void sim_reduce(const struct sim_options *options, struct sim_faults *faults)
{
	bool kept[SIM_FAULTS_MAX];
	struct sim_options smaller = *options;
	smaller.kept = kept;
	struct sim_faults drawn;
	for (size_t i = 0; i < faults->count; i++) {
		kept[i] = !options->kept || options->kept[i];
	}
	char promise[512];
	struct sim_result whole = sim_run_seed(&smaller, &drawn);
	memcpy(promise, whole.violation, sizeof promise);
	// Halves first, then smaller parts, then one by one.
	for (size_t part = faults->count / 2; part > 0; part = part == 1 ? 0 : (part + 1) / 2) {
		for (size_t from = 0; from < faults->count; from += part) {
			bool before[SIM_FAULTS_MAX];
			memcpy(before, kept, sizeof before);
			memset(kept + from, 0, from + part < faults->count ? part : faults->count - from);
			if (memcmp(before, kept, faults->count) == 0) {
				continue;
			}
			struct sim_result result = sim_run_seed(&smaller, &drawn);
			if (!result.failed || !same_promise(promise, result.violation)) {
				memcpy(kept, before, sizeof before);
			}
		}
	}
	leave_out(faults, kept);
}
