// SPDX-License-Identifier: Apache-2.0
// Who there is: a coordinator (and, at times, its twin on a copy of its disk), agents with an Engine each, and a user.
#pragma once

#include "coordinator/service/server.h"
#include "tests/sim/disk.h"
#include "tests/sim/docker.h"
#include "tests/sim/net.h"
#include "tests/sim/sched.h"

#define SIM_AGENTS_MAX 6
#define SIM_JOBS_MAX   3
#define SIM_BUDGET     "tide"

#define SIM_AMENDMENTS_MAX 3

struct sim_coordinator {
	struct sim_process process; // first: it is cast back
	struct sim_host host;
	char folder[256], ledger_folder[280];
	const char *address;
	struct berth_cancel *stop;
	bool serves, is_twin;
	bool has_copy;    // a twin, of the ledger
	bool is_lost;     // its disk: it begins again on the backup
	bool has_to_look; // somebody is to be enrolled
	bool power;       // its next death takes the power
	unsigned starts, failed_starts;
	uint64_t life;
};

struct sim_agent {
	struct sim_process process; // first
	struct sim_host host;
	char name[16], folder[256], store_folder[280];
	uint32_t slots, cpus;
	const char *address;         // where its next connection leads
	char certificate[16];        // that it shows there
	char newest_certificate[16]; // that it is to be enrolled with
	bool has_no_network;         // for a runner that begins
	char greeted_as[40];         // the life that has said Hello
	int64_t beat_ns;             // of its newest heartbeat
	int64_t free_ns;             // since when each of them says that it takes more; 0: the newest does not
	struct berth_cancel *stop;
	struct sim_docker *docker;
	bool power;
	unsigned number; // of its link, too
};

struct sim_job {
	char key[16], id[33];
	uint32_t tasks, attempts, concurrent, retries;
	int priority;
	bool separate_verifier, cancels;
	int64_t submit_at_ns, cancel_at_ns;
	bool submitted, answered_cancel;
	bool paid; // from the budget
	uint64_t folder;
};

struct sim_amendment {
	int64_t at_ns, limit_nano_usd;
};

struct sim_world {
	uint64_t seed;
	struct sim_coordinator coordinator, twin;
	struct sim_agent agents[SIM_AGENTS_MAX];
	unsigned agents_count;
	struct sim_job jobs[SIM_JOBS_MAX];
	unsigned jobs_count;
	int64_t limit_nano_usd; // of the budget, as it is opened; 0: there is none
	struct sim_amendment amendments[SIM_AMENDMENTS_MAX];
	unsigned amendments_count;
	struct sim_process user, operator, liar;
	struct sim_host user_host;
	const char *user_address;
	struct berth_cancel *user_stop;
	int64_t hold_ms, heartbeat_ms; // the longest
	bool holds_change;             // a coordinator that starts again has another hold, at most so long
	bool few_and_long;             // trials
	int64_t checkpoint_ms, aging_ms;
	size_t portion;    // of a checkpoint, at most
	bool healing;      // faults are over: what died comes back at once
	int64_t healed_ns; // since then
	struct sim_random random;
	bool backs_up;     // a backup is made, or was
	unsigned restores; // from it
	unsigned coordinator_deaths, agent_deaths;
};
extern struct sim_world sim_world;

// `folder` is an empty one for the files that are written beside the disks.
void sim_world_begin(uint64_t seed, const char *folder);
void sim_world_end(void);
// Every job has ended, its leases are closed, and nothing is alive on any Engine.
bool sim_world_is_settled(void);

// coordinator.c, agent.c, user.c, operator.c
void sim_coordinator_begin(struct sim_coordinator *coordinator, const char *name, const char *folder);
// twin.c: false while some agent could still take the copy for the fleet's own ledger.
bool sim_twin_begin(void);
void sim_twin_copy(void);
void sim_agent_begin(struct sim_agent *agent, unsigned number, const char *folder);
void sim_agent_rotate(struct sim_agent *agent); // it is enrolled again, and shows its old certificate for a while
void sim_agent_take_certificate(struct sim_agent *agent);
void sim_coordinator_look(struct sim_coordinator *coordinator); // who waits to be enrolled?
void sim_user_begin(void);
void sim_operator_begin(void);
void sim_user_restored(void); // what the ledger does not have (any more) is to be asked for again
void sim_operator_restored(void);
// restore.c
void sim_restore_begin(int64_t lost_after_ns);
void sim_restore_put_back(struct sim_coordinator *coordinator);
void sim_restore_end(void);
// liar.c
void sim_liar_begin(void);
void sim_liar_end(void);
bool sim_operator_has_opened(void); // the budget, where there is one
