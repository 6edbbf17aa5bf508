// SPDX-License-Identifier: Apache-2.0
// An Engine a host, and agent/runner's interface to it. The Engine outlives the agents that speak to it: a create that
// is on its way becomes a container whether or not anyone waits for it.
#pragma once

#include "agent/runner/runner.h"
#include "tests/sim/sched.h"

#define SIM_PLACEMENT_BOUND_MS  60000
#define SIM_NANO_USD_PER_SECOND 10 // what a container costs

struct sim_docker;

// Chances in a thousand.
struct sim_docker_faults {
	unsigned busy;      // a create is refused, and may be tried again
	unsigned refused;   // refused for good
	unsigned ambiguous; // created, but the answer is lost, at once or late, or never created
	unsigned kill_fails, kill_hangs, kill_lost; // the removal has an error, no answer, or no effect
	unsigned list_omits;                        // a listing of all leaves some out
	unsigned early_death;                       // a container ends by itself
	unsigned crash;                             // the agent dies around a create
};

void sim_docker_begin(uint64_t seed);
struct sim_docker_faults *sim_docker_faults(void);
struct sim_docker *sim_docker_new(const char *host);
void sim_docker_free(struct sim_docker *docker);
void sim_docker_set_down(struct sim_docker *docker, bool down); // calls fail; what runs runs on
bool sim_docker_is_down(const struct sim_docker *docker);
struct berth_runner *sim_docker_runner(struct sim_docker *docker);

bool sim_docker_is_alive(const char *lease_id);             // on any host, or on its way
bool sim_docker_was_asked(const char *lease_id);            // some create reached an Engine
int64_t sim_docker_lifetime_ns(const char *lease_id);       // of true time, until now where it runs
unsigned sim_docker_alive(void);                            // containers of all hosts
unsigned sim_docker_shown(const struct sim_docker *docker); // of one, that a listing shows
const char *sim_docker_any_alive(void);                     // a lease
// Told before a create reaches the Engine, and when one has made a container.
void sim_docker_on_create(void (*asked)(const char *agent, const char *lease_id), void (*born)(const char *lease_id));

// --- an open environment: whether it still runs ---
bool sim_docker_runs(struct berth_environment *environment);
