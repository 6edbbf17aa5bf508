// SPDX-License-Identifier: Apache-2.0
// The auditor's model (audit_model.c), and what passes it (audit.c).
#pragma once

#include "common/base/table.h"
#include "tests/sim/audit.h"

#define BEATS_MISSED_MOST 3 // an agent that is silent for longer is given nothing new

enum audit_cell_state { AUDIT_QUEUED, AUDIT_RUNNING, AUDIT_OVER };

struct audit_cell {
	uint32_t generation;
	enum audit_cell_state state;
	int64_t queued_ns;    // again, since
	bool scored, ended;   // by a result; `ended` only once
	uint64_t deferred_at; // the event of the result that waits until every agent has resent; 0: none
	char agent[24];
};

struct audit_job {
	char id[33];
	struct audit_cell *cells;
	uint32_t cells_count, over_count, open_leases;
	uint32_t running, fresh, again; // of those that wait: never run, run before
	uint32_t deferred;              // of the running ones: on no host, since their results wait
	uint32_t concurrent;            // at once; 0: no limit
	int priority;
	bool paid;
	int64_t submitted_ns, placed_ns;
	bool cancelling, ended;
	UT_hash_handle hh;
};

struct audit_lease {
	char id[33];
	struct audit_job *job;
	uint32_t index, generation;
	char agent[24];
	Berth__V1__LeaseState state;
	Berth__V1__DeathProof proof;
	bool paid; // by a reservation of its id
	UT_hash_handle hh;
};

struct audit_boot {
	char name[64]; // agent/boot
	uint64_t applied;
	UT_hash_handle hh;
};

struct audit_nonce {
	uint8_t nonce[16];
	uint64_t number;
	struct audit_nonce *next;
};

struct audit_reservation {
	char id[33];
	int64_t max;
	bool ended;
	UT_hash_handle hh;
};

struct audit_enrolled {
	char name[24], certificate[16];
	bool resends; // an agent, since a restore
};

struct audit_money {
	int64_t limit, settled, reserved, forfeited;
	int64_t limit_most; // that was ever in force
	uint64_t amendments;
	int64_t dearest; // reservation
};

struct audit {
	uint64_t last; // event that was read
	struct audit_job *jobs;
	struct audit_lease *leases;
	struct audit_boot *boots;
	struct audit_reservation *reservations;
	struct audit_money money;
	struct audit_nonce *incarnations;
	struct audit_enrolled enrolled[SIM_AGENTS_MAX + 4]; // agents, and who else is
	unsigned enrolled_count;
	uint64_t incarnation;
	int64_t started_ns; // the newest one
	int64_t decided_ns; // of the newest events, before they were synced
	bool ages;          // some trial has waited for about the aging bound
	bool rereads;       // what was looked at before, when it happened
	int64_t resent_ns;  // by the last agent, since a restore
};
extern struct audit audit;

void sim_audit_read(void); // everything that is durable by now
void audit_event(const Berth__Store__V1__Event *event);
struct audit_job *audit_job(const char *id);
bool sim_audit_is_agent(const char *name); // one of the world's own
struct audit_enrolled *audit_enrolled(const char *name);
struct audit_lease *audit_lease(const char *id);
uint64_t audit_applied(const char *agent, const char *boot_id);
void audit_forget(void);

// audit_fair.c: before the cell is given its generation
void audit_fair_assigned(struct audit_job *job, const struct audit_cell *cell);

// audit_restore.c
bool audit_was_lost(const char *lease_id, const char *agent);
void audit_resent(const Berth__Store__V1__AgentResent *event);
void audit_restore_whole(void);
void audit_restore_forget(void);

// audit_money.c
void audit_money_reserved_again(const Berth__V1__Reservation *row);
bool audit_money_knows(const char *lease_id); // a reservation of it, open or not
void audit_money_amended(const Berth__Store__V1__BudgetAmended *event);
void audit_money_opened(const Berth__Store__V1__BudgetOpened *event);
void audit_money_reserved(const Berth__V1__Reservation *row, const struct audit_lease *lease);
void audit_money_ended(const Berth__Store__V1__BudgetEnded *event);
void audit_money_appealed(const Berth__Store__V1__BudgetAppealed *event);
bool audit_money_is_reserved(const char *lease_id);
const char *audit_money_open(void); // a reservation that is open, or NULL
void audit_money_whole(void);
void audit_money_forget(void);
