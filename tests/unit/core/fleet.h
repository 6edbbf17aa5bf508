// SPDX-License-Identifier: Apache-2.0
// A coordinator core with a second one that replays every event it emits, and short hands for what tests do to it.
#pragma once

#include "coordinator/core/core.h"
#include "tests/unit/core/disk.h"

struct test_fleet {
	struct berth_core *core, *replica; // the replica keeps no records and forgets nothing
	struct test_disk *disk;
	struct berth_core_config config;
	unsigned seed, decided;
	struct berth_core_now now;
	struct berth_outcome outcome; // of the newest command
	uint64_t sessions, ids, beats;
	uint64_t outbox_first, outbox_last;                  // of the next heartbeats
	uint64_t unanswered;                                 // whose answers are still on their way, besides the newest
	int64_t elapsed_ns;                                  // of the next lease moves
	int64_t expiry_ns;                                   // of the provider, in the next lease moves
	int64_t end_ns;                                      // expected, in the next lease moves
	int64_t memory_mb;                                   // of the next jobs' tasks; 0: 512, below 0: none
	uint32_t concurrent;                                 // trials at once of the next jobs; 0: no limit
	int priority;                                        // of the next jobs; 0: none given
	void (*vary)(Berth__V1__Task *task, uint32_t index); // of the next jobs' tasks; NULL: all alike
	bool verifier;    // the next jobs' tasks have a verifier environment of their own
	bool no_evidence; // the next results come without
	bool quick;       // states are not compared until it is false again
	// of the next reports of leases: what its agent was given with the assignment
	Berth__V1__Lease *given_lease;
	Berth__V1__Reservation *given_reservation;
	Berth__V1__LeaseGrant *given_other; // that has not moved yet; NULL: none
	// of the next Hello: the incarnation that was obeyed (0: none), and an event that this ledger does not hold (0:
	// none)
	uint64_t obeyed, seen_elsewhere;
	const char *daemon; // of the next Hello; NULL: "daemon"
};

struct test_fleet *test_fleet_new(int64_t hold_ms);
struct test_fleet *test_fleet_new_paced(int64_t hold_ms, struct berth_governor_policy creates);
void test_fleet_free(struct test_fleet *fleet);
#define TEST_HOLD_MS 5000
// Of a test: a fleet with agents north and south, and that hold.
int test_set_up_two(void **state);
int test_tear_down(void **state);

// Decides, replays the events on the replica, and fails the test when the two states differ. A checkpoint goes on with
// each decision, and now and then a core that recovers from records and log must have the same state too.
void test_decide(struct test_fleet *fleet, struct berth_command command);
// The core is gone; one that recovers from records and log goes on, as a new incarnation that has heard nobody.
void test_restart(struct test_fleet *fleet);
// As test_restart, from a backup of the first `size` events: what came after them is lost.
void test_restore(struct test_fleet *fleet, uint64_t size);
void test_advance_ms(struct test_fleet *fleet, int64_t ms);
void test_tick(struct test_fleet *fleet);
void test_place(struct test_fleet *fleet);

void test_enroll(struct test_fleet *fleet, const char *agent);
// Hello alone, and whatever is decided; the session's number.
uint64_t test_hello(struct test_fleet *fleet, const char *agent, const char *boot, uint32_t slots);
// Hello and first heartbeat; the session's number.
uint64_t test_join(struct test_fleet *fleet, const char *agent, const char *boot, uint32_t slots);
void test_beat(struct test_fleet *fleet, const char *agent, uint64_t session, const Berth__V1__TrialKey *running,
	size_t count);

// A job of `tasks` one-CPU tasks and one agent config; its id.
const char *test_submit(struct test_fleet *fleet, const char *key, uint32_t tasks, uint32_t attempts);
const char *test_submit_retrying(struct test_fleet *fleet, const char *key, uint32_t max_retries);

// A budget that rates local task environments of one CPU and 512 MB at 10 nano-USD a second, in quanta of 60 s, and
// TEST_PRICE is what one run of a trial of test_submit_paid holds. fleet->verifier rates verifier environments alike,
// with 20 nano-USD. `more` are fields of the policy, behind a ",".
#define TEST_VERIFIER_PRICE INT64_C(36000)
#define TEST_PRICE          INT64_C(45000)
void test_open_budget(struct test_fleet *fleet, const char *name, int64_t hard, int64_t phase, const char *more);
void test_amend_budget(struct test_fleet *fleet, const char *name, uint64_t number, int64_t hard, int64_t phase);
const char *test_submit_paid(struct test_fleet *fleet, const char *key, uint32_t tasks, const char *budget);
// As if the provider had confirmed that this open reservation cost more than it holds.
void test_breach(struct test_fleet *fleet, const char *budget, const char *reservation_id);
Berth__V1__BudgetTotals test_totals(const struct test_fleet *fleet, const char *budget);
// NULL when it has left memory; the caller frees.
Berth__V1__Reservation *test_reservation(const struct test_fleet *fleet, const char *budget, const char *id);

Berth__V1__TrialKey test_key(const char *job, uint32_t index, uint32_t generation);
// The lease id of a trial's newest assignment.
const char *test_lease(struct test_fleet *fleet, const char *job, uint32_t index);
// The whole newest assignment; the caller frees.
Berth__V1__Assignment *test_assignment(struct test_fleet *fleet, const char *job, uint32_t index);
void test_report_lease(struct test_fleet *fleet, const char *agent, uint64_t session, const char *boot,
	uint64_t sequence, const char *lease, Berth__V1__LeaseState state, Berth__V1__DeathProof proof);
void test_report_done(struct test_fleet *fleet, const char *agent, uint64_t session, const char *boot,
	uint64_t sequence, Berth__V1__TrialKey key, Berth__V1__Outcome outcome, const char *exception);
// Every mark of a lease's life from dispatching to retired, from report `sequence` on; the next sequence.
uint64_t test_live_and_retire(struct test_fleet *fleet, const char *agent, uint64_t session, const char *boot,
	uint64_t sequence, const char *lease);

size_t test_effects(const struct test_fleet *fleet, enum berth_effect_kind kind);
Berth__V1__TrialState test_state(const struct test_fleet *fleet, const char *job, uint32_t index);
uint32_t test_generation(const struct test_fleet *fleet, const char *job, uint32_t index);
Berth__V1__JobState test_job_state(const struct test_fleet *fleet, const char *job);

#define BOOT_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BOOT_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define BOOT_C "cccccccccccccccccccccccccccccccc"
