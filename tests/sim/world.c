// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/sim/audit.h"
#include "tests/sim/blobs.h"
#include "tests/sim/check.h"
#include "tests/sim/seam.h"
#include "tests/sim/trial.h"

#define S              INT64_C(1000000000)
#define DRIFT_PPM_MOST 23000 // two clocks differ by at most 5 % of each other
#define WALL_BASE_S    1800000000
#define SUBMIT_S_MOST  120
#define AMEND_S_MOST   240
#define AGING_S_LEAST  20
#define AGING_S_FEW    60 // at most, in half of the seeds: most runs are over before longer ones
#define AGING_S_MOST   600
#define HOLD_S_LEAST   8
#define HOLD_S_MOST    60
#define PORTION_MOST   20
#define BEATS_A_HOLD   8
#define HOLDS_CHANGE   400 // in 1000 seeds
#define FEW_AND_LONG   400 // trials: they outlive holds, and hosts are free for their next generation
#define CLOCKS_APART   350

#define PRICE_NANO_USD 20000 // a run holds at most about this for an environment
#define USE_NANO_USD   4000  // and uses less than this in all its generations

struct sim_world sim_world;

static struct sim_host new_host(const char *name)
{
	struct sim_random *random = &sim_world.random;
	struct sim_host host = {.boot_base_ns = sim_random_between(random, 100, 1000000) * S,
		.wall_base_ns = (WALL_BASE_S + sim_random_between(random, -300, 300)) * S,
		.drift_ppm = sim_random_between(random, -DRIFT_PPM_MOST, DRIFT_PPM_MOST)};
	if (sim_random_chance(random, 500)) { // bounds are met, or not, at their ends
		host.drift_ppm = host.drift_ppm < 0 ? -DRIFT_PPM_MOST : DRIFT_PPM_MOST;
	}
	snprintf(host.name, sizeof host.name, "%s", name);
	return host;
}

// Every agent's clock differs from the coordinator's by as much as they may.
static void set_clocks_apart(void)
{
	int64_t ppm = sim_random_chance(&sim_world.random, 500) ? DRIFT_PPM_MOST : -DRIFT_PPM_MOST;
	sim_world.coordinator.host.drift_ppm = ppm;
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		sim_world.agents[i].host.drift_ppm = -ppm;
	}
}

static bool coordinator_is_reachable(void)
{
	return sim_world.coordinator.serves && !sim_world.coordinator.process.stopped;
}

static void make_job(struct sim_job *job, unsigned number)
{
	struct sim_random *random = &sim_world.random;
	snprintf(job->key, sizeof job->key, "job-%u", number);
	job->tasks = (uint32_t)sim_random_between(random, 1, sim_world.few_and_long ? 3 : 10);
	job->attempts = (uint32_t)sim_random_between(random, 1, sim_world.few_and_long ? 2 : 4);
	job->concurrent = sim_random_chance(random, 350) ? (uint32_t)sim_random_between(random, 1, 4) : 0;
	job->retries = sim_random_chance(random, 500) ? 2 : 0;
	job->priority = sim_random_chance(random, 500) ? (int)sim_random_between(random, 1, 100) : 0;
	job->separate_verifier = sim_random_chance(random, 300);
	job->submit_at_ns = number ? sim_random_between(random, 0, SUBMIT_S_MOST) * S : 0;
	job->cancels = sim_random_chance(random, 200);
	job->cancel_at_ns = job->submit_at_ns + sim_random_between(random, 0, SUBMIT_S_MOST) * S;
}

// Room for some runs at a time and for what all of them use, so that runs wait
// for money, but not for ever.
static void make_budget(void)
{
	struct sim_random *random = &sim_world.random;
	if (!sim_random_chance(random, 600)) {
		return;
	}
	sim_world.limit_nano_usd = sim_random_between(random, 2, 6) * PRICE_NANO_USD;
	for (unsigned i = 0; i < sim_world.jobs_count; i++) {
		struct sim_job *job = &sim_world.jobs[i];
		job->paid = sim_random_chance(random, 700);
		sim_world.limit_nano_usd += job->paid ? job->tasks * job->attempts * USE_NANO_USD : 0;
	}
	sim_world.amendments_count = (unsigned)sim_random_between(random, 0, SIM_AMENDMENTS_MAX);
	int64_t at_ns = 0;
	for (unsigned i = 0; i < sim_world.amendments_count; i++) {
		at_ns += sim_random_between(random, 1, AMEND_S_MOST / SIM_AMENDMENTS_MAX) * S;
		sim_world.amendments[i] = (struct sim_amendment){
			at_ns, sim_world.limit_nano_usd * sim_random_between(random, 1, 20) / 10};
	}
}

static void make_fleet(const char *folder)
{
	struct sim_random *random = &sim_world.random;
	sim_world.coordinator.host = new_host("coordinator");
	sim_coordinator_begin(&sim_world.coordinator, "coordinator", folder);
	sim_world.twin.is_twin = true;
	sim_world.twin.host = new_host("twin");
	sim_coordinator_begin(&sim_world.twin, "twin", folder);
	sim_world.agents_count = (unsigned)sim_random_between(random, 2, SIM_AGENTS_MAX);
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		struct sim_agent *agent = &sim_world.agents[i];
		agent->host = new_host("agent");
		agent->slots = (uint32_t)sim_random_between(random, 1, 4);
		agent->cpus = agent->slots;
		sim_agent_begin(agent, i, folder);
	}
	if (sim_random_chance(random, CLOCKS_APART)) {
		set_clocks_apart();
	}
	sim_world.jobs_count = (unsigned)sim_random_between(random, 1, SIM_JOBS_MAX);
	for (unsigned i = 0; i < sim_world.jobs_count; i++) {
		make_job(&sim_world.jobs[i], i);
	}
	sim_world.user_host = new_host("user");
	make_budget();
}

void sim_world_begin(uint64_t seed, const char *folder)
{
	sim_world = (struct sim_world){.seed = seed, .random = sim_random_stream(seed, SIM_STREAM_WORLD)};
	sim_sched_begin(seed);
	sim_seam_begin(seed);
	sim_net_begin(seed);
	sim_disks_begin(seed);
	sim_docker_begin(seed);
	sim_runs_begin(seed);
	sim_blobs_begin(seed, coordinator_is_reachable);
	struct sim_random *random = &sim_world.random;
	sim_world.hold_ms = sim_random_between(random, HOLD_S_LEAST, HOLD_S_MOST) * 1000;
	sim_world.heartbeat_ms = sim_world.hold_ms / BEATS_A_HOLD;
	sim_world.portion = (size_t)sim_random_between(random, 1, PORTION_MOST);
	sim_world.checkpoint_ms = sim_random_between(random, 500, 30000);
	sim_world.holds_change = sim_random_chance(random, HOLDS_CHANGE);
	sim_world.few_and_long = sim_random_chance(random, FEW_AND_LONG);
	int64_t aging_s = sim_random_chance(random, 500) ? AGING_S_FEW : AGING_S_MOST;
	sim_world.aging_ms = sim_random_between(random, AGING_S_LEAST, aging_s) * 1000;
	make_fleet(folder);
	sim_audit_begin();
	sim_process_begin(&sim_world.coordinator.process);
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		sim_process_begin(&sim_world.agents[i].process);
	}
	sim_user_begin();
	sim_operator_begin();
}

static void end_process(struct sim_process *process)
{
	if (!process->dead && process->threads_count) {
		sim_process_die(process);
	}
}

void sim_world_end(void)
{
	end_process(&sim_world.user);
	end_process(&sim_world.operator);
	sim_restore_end();
	sim_liar_end();
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		end_process(&sim_world.agents[i].process);
	}
	end_process(&sim_world.coordinator.process);
	end_process(&sim_world.twin.process);
	sim_sched_bury();
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		sim_docker_free(sim_world.agents[i].docker);
	}
	sim_net_end();
	sim_disks_end();
	sim_audit_end();
}

bool sim_world_is_settled(void)
{
	for (unsigned i = 0; i < sim_world.jobs_count; i++) {
		if (!sim_world.jobs[i].submitted) {
			return false;
		}
	}
	return sim_audit_is_settled() && sim_docker_alive() == 0;
}
