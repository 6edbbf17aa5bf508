// SPDX-License-Identifier: Apache-2.0
// What goes wrong in a seed: a list that is drawn before the run begins. Each seed draws from a random part of all
// kinds, and as many whatever the part, so that some seeds are full of one kind and free of the others. Any part of a
// list can be left out and the rest stays what it was: that is how a failing seed is made smaller.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_FAULTS_MAX 64

#define SIM_FAULT_KINDS(X)                                                                                             \
	/* a time and a target */                                                                                      \
	X(COORDINATOR_KILL, "coordinator killed")                                                                      \
	X(COORDINATOR_POWER, "coordinator loses power")                                                                \
	X(COORDINATOR_STOP, "coordinator stopped")                                                                     \
	X(AGENT_KILL, "agent killed")                                                                                  \
	X(AGENT_POWER, "agent loses power")                                                                            \
	X(AGENT_STOP, "agent stopped")                                                                                 \
	X(ALL_KILL, "all killed")                                                                                      \
	X(LINK_DOWN, "link down")                                                                                      \
	X(LINK_FROM, "link blocked from the agent")                                                                    \
	X(LINK_TO, "link blocked to the agent")                                                                        \
	X(LINK_FLAP, "link flaps")                                                                                     \
	X(LINK_TURN, "link blocked to the agent, then from it")                                                        \
	X(LINK_KILL, "link down, and then the coordinator killed")                                                     \
	X(LINK_BREAK, "streams break")                                                                                 \
	X(NET_SLOW, "network slow")                                                                                    \
	X(ENGINE_DOWN, "Engine down")                                                                                  \
	X(WALL_STEP, "wall clock stepped")                                                                             \
	X(TWIN, "twin started")                                                                                        \
	X(WALL_FREEZE, "wall clock stands still")                                                                      \
	X(DISK_LOW, "disk below its watermark")                                                                        \
	X(DISK_FULL, "disk full")                                                                                      \
	X(POOL_EMPTY, "no network left for an agent that starts")                                                      \
	X(CERTIFICATE, "certificate rotated")                                                                          \
	X(LIAR, "an enrolled agent lies")                                                                              \
	X(RESTORE, "ledger lost, and restored from a backup")                                                          \
	/* a rate, all along */                                                                                        \
	X(MESSAGE_BREAK, "streams break under messages")                                                               \
	X(HALF_OPEN, "breaks are half open")                                                                           \
	X(STRAGGLE, "messages outlive their stream")                                                                   \
	X(STRANGE, "fields of a newer version")                                                                        \
	X(QUEUE_FULL, "slow readers")                                                                                  \
	X(SYNC_STALL, "syncs stall")                                                                                   \
	X(SYNC_CRASH, "crashes around syncs")                                                                          \
	X(SYNC_FAIL, "syncs fail")                                                                                     \
	X(CREATE_BUSY, "creates refused for a while")                                                                  \
	X(CREATE_REFUSED, "creates refused")                                                                           \
	X(CREATE_AMBIGUOUS, "creates ambiguous")                                                                       \
	X(CREATE_CRASH, "crashes around creates")                                                                      \
	X(KILL_FAIL, "removals fail")                                                                                  \
	X(KILL_HANG, "removals hang")                                                                                  \
	X(KILL_LOST, "removals without effect")                                                                        \
	X(LIST_OMIT, "listings leave out")                                                                             \
	X(EARLY_DEATH, "containers end early")

#define SIM_FAULT_ENUM(name, text) SIM_##name,
enum sim_fault_kind { SIM_FAULT_KINDS(SIM_FAULT_ENUM) SIM_FAULT_KINDS_COUNT };
#undef SIM_FAULT_ENUM
#define SIM_FIRST_RATE SIM_MESSAGE_BREAK

struct sim_fault {
	enum sim_fault_kind kind;
	int64_t at_ns, for_ns;
	unsigned target; // an agent
	bool seeks;      // instead, the coordinator, or the next agent that runs a trial at that time
	int64_t amount;  // a step in ns, a rate or a part of a heartbeat in thousandths
	bool left_out;
	bool armed;           // it waits for the next trial of its target
	int64_t armed_for_ns; // and comes so long after that was assigned; 0: before the agent hears of it
	unsigned remaining;   // of a flapping link
};

struct sim_faults {
	struct sim_fault items[SIM_FAULTS_MAX];
	size_t count;
	int64_t over_ns; // from then on nothing goes wrong
};

void sim_faults_draw(struct sim_faults *faults, uint64_t seed);
// Puts them to work in the world, which has just begun.
void sim_faults_begin(struct sim_faults *faults);
// Ends every one that lasts, brings back what died, and lets nothing else go wrong.
void sim_faults_end(void);
// An agent is about to be sent a trial: what waits for that moment is due.
void sim_faults_assigned(unsigned agent);
void sim_faults_print(FILE *out, const struct sim_faults *faults);
const char *sim_fault_text(enum sim_fault_kind kind);
