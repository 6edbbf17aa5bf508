// SPDX-License-Identifier: Apache-2.0
// One seed, from an empty fleet to one where every job has ended.
#pragma once

#include "tests/sim/faults.h"

struct sim_result {
	bool failed;
	char violation[512];
	uint64_t steps, events;
	uint64_t stuck; // threads of the dead that did not end: lost memory, a fault of the simulation
	unsigned coordinator_deaths, agent_deaths;
	int64_t settled_ns; // true time at the end
};

struct sim_options {
	uint64_t seed;
	uint64_t steps_most; // 0: the bound of time alone
	bool tracing;
	const bool *kept;   // by number of fault; NULL: all
	const char *folder; // an empty one
};

// `faults` gives back what was drawn.
struct sim_result sim_run_seed(const struct sim_options *options, struct sim_faults *faults);
// Leaves out faults as long as the same promise stays broken; the rest is in `faults`.
void sim_reduce(const struct sim_options *options, struct sim_faults *faults);
