// SPDX-License-Identifier: Apache-2.0
// The auditor: reads what is durable in the coordinator's log and on the agents' disks, keeps a small model of its own,
// and compares it with what was said, what was run, and what is alive. It shares no code with the cores.
#pragma once

#include "coordinator/service/daemon.h"
#include "tests/sim/world.h"

void sim_audit_begin(void);
void sim_audit_end(void);

// --- told by the processes ---
bool sim_audit_is_enrolled(const char *name, const char *certificate); // with this one, newest
void sim_audit_submitted(const char *job_id);                          // the user has the answer
void sim_audit_cancelled(const char *job_id);
void sim_audit_amended(uint64_t number, int64_t limit_nano_usd);
bool sim_audit_money_is_short(void); // nothing is reserved, and what is left pays no run
// A coordinator (the context) has recovered: on its engine's thread, where everything decided is durable.
void sim_audit_started(const struct berth_core *core, void *coordinator);
void sim_audit_start_failed(struct sim_coordinator *coordinator, const struct berth_error *err);
// The log is about to lose what came after a backup; and has.
void sim_audit_losing(void);
void sim_audit_restored(void);
bool sim_audit_resends(void);                           // some agent, since then
bool sim_audit_has_paused(void);                        // a trial that ran waits to run again
void sim_audit_fenced(void);                            // the coordinator has heard of a newer one
bool sim_audit_knows_incarnation(const uint8_t *nonce); // one of the coordinator's own

bool sim_audit_has_job(const char *job_id, bool *cancelling);
uint64_t sim_audit_amendments(int64_t *limit_nano_usd); // and the limit in force; 0: no budget

// Whether the log still has this generation of a trial running.
bool sim_audit_is_current(const char *job_id, uint32_t index, uint32_t generation);

// Some lease and its trial, an open one as a rule; false where there is none of its kind.
bool sim_audit_pick(struct sim_random *random, Berth__V1__TrialKey *trial, char lease_id[static 33]);

// --- the whole, at the end ---
bool sim_audit_is_settled(void); // every answered job has ended and has no open lease
void sim_audit_whole(void);      // Merkle tree, a flipped bit
uint64_t sim_audit_events(void);
void sim_audit_check_waits(void);                 // I13, after the faults, from time to time
void sim_audit_describe(char *text, size_t size); // what is not settled
