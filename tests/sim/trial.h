// SPDX-License-Identifier: Apache-2.0
// A trial as it would be run: leases through the real driver on a simulated Engine, time that passes, and an outcome
// that only the simulation knows beforehand.
#pragma once

#include "agent/session/session.h"
#include "tests/sim/sched.h"

#define SIM_RUNS_MAX 8192

// A run that was begun, kept for the whole seed.
struct sim_run {
	char job_id[33];
	uint32_t index, generation;
	char agent[24];
	const struct sim_process *process;
	unsigned life;               // of the process
	struct berth_cancel *cancel; // while it goes on
	int64_t stale_since_ns;      // 0: current, as far as was seen
	bool over;                   // it has ended its leases, or its process died
	bool finished;               // it came to a result
	int outcome;                 // Berth__V1__Outcome, when it has
	char rewards[32];
};

void sim_runs_begin(uint64_t seed);
void sim_run_trial(const struct berth_trial_host *host, const struct berth_trial_input *input,
	struct berth_cancel *cancel, Berth__V1__TrialResult *result);
void sim_free_result(Berth__V1__TrialResult *result);
// The log says that its agent was silent past the fencing wait: it must have stopped, whoever runs the trial next.
void sim_runs_fenced(const char *job_id, uint32_t index, uint32_t generation);
void sim_runs_process_died(const struct sim_process *process);
// The process may run again: whether it is right that its runs still go on is to be seen soon.
void sim_runs_process_continued(const struct sim_process *process);
// Without faults, a run that the log has no place for any more is stopped before long: asked from time to time.
void sim_runs_check_current(int64_t bound_ns);
bool sim_runs_on(const struct sim_process *process);
struct sim_run *sim_run_of(const char *job_id, uint32_t index, uint32_t generation);
