// SPDX-License-Identifier: Apache-2.0
// What an agent keeps on its disk: the outbox, the incarnation that it obeys, the leases that it holds and the results
// that it has not reported yet. Records are those of berth/store/v1/agent.proto.
//
// Every write is synced before its caller goes on; writes of several threads that come together share one sync, and the
// results among them one signature. Any
// thread may call. A write that fails ends the process (crash-only: what is on the disk decides at the next start); a
// full disk is waited for, bounded.
#pragma once

#include <stdbool.h>

#include "agent/core/lease.h"
#include "berth/store/v1/agent.pb-c.h"
#include "berth/v1/fleet.pb-c.h"
#include "common/base/error.h"
#include "common/evidence/sign.h"

struct agent_store;
struct agent_write;

struct agent_store_options {
	const char *folder;
	bool cut_tail; // as in common/store
	// Signs the statements of results; outlives the store. NULL: they stay unsigned, and no coordinator takes them.
	const struct berth_signing_key *signing_key;
	// Told of each report when it is on the disk, in the order of their sequences, by the store's own thread.
	void (*committed)(void *context, const Berth__V1__Report *report);
	void *context;
};

// Opens the store and begins a new life of this agent: a boot id that sorts after every earlier one.
struct agent_store *agent_store_open(const struct agent_store_options *options, struct berth_error *err);
void agent_store_close(struct agent_store *store); // NULL is allowed
const char *agent_store_boot_id(const struct agent_store *store);
// NULL when this agent never obeyed a coordinator. The caller frees.
Berth__Store__V1__Obeyed *agent_store_obeyed(struct agent_store *store);

// --- writes: make one, fill it, give it ---
struct agent_write *agent_write_new(void);
// Appends to the outbox; the store gives sequence and boot id, and a result its signature. One in each write.
void agent_write_report(struct agent_write *write, const Berth__V1__Report *report);
void agent_write_put(struct agent_write *write, const char *key, const void *message);
void agent_write_delete(struct agent_write *write, const char *key);
// Takes the write. Returns when it is synced.
void agent_store_write(struct agent_store *store, struct agent_write *write);
// Takes the write and returns at once.
void agent_store_write_later(struct agent_store *store, struct agent_write *write);
// Returns when it is synced, or with `later` at once.
void agent_store_save_obeyed(struct agent_store *store, const Berth__Store__V1__Obeyed *obeyed, bool later);
// Deletes the reports of a boot up to `through`, some time soon.
void agent_store_drop_reports(struct agent_store *store, const char *boot_id, uint64_t through);

// --- the outbox and the results, at start ---
// Messages are freed after the call. Reports: older boots first, then by sequence.
typedef void agent_store_visit(void *context, const void *message);
bool agent_store_each_report(struct agent_store *store, agent_store_visit *visit, void *context,
	struct berth_error *err); // Berth__V1__Report
bool agent_store_each_finished(struct agent_store *store, agent_store_visit *visit, void *context,
	struct berth_error *err);                                 // Berth__Store__V1__FinishedTrial
char *agent_store_finished_key(const Berth__V1__TrialKey *trial); // the caller frees

// --- leases ---
// Writes down the leases of an assignment, and what pays for them, before anything may use them. They belong to its
// trial until agent_store_release_leases.
void agent_store_hold_leases(struct agent_store *store, const Berth__V1__Assignment *assignment);
// The trial has ended: what it left is anybody's to settle.
void agent_store_release_leases(struct agent_store *store, const Berth__V1__TrialKey *trial);
// Marks of leases that are held: report and record in one synced write.
struct berth_lease_book agent_store_book(struct agent_store *store);
// Copies of what is held; `loose_only` leaves out those of running trials. The caller frees each and the list.
size_t agent_store_leases(struct agent_store *store, bool loose_only, Berth__Store__V1__HeldLease ***leases);
bool agent_store_holds(struct agent_store *store, const char *lease_id);
