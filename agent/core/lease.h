// SPDX-License-Identifier: Apache-2.0
// The life of one lease on an agent: every mark durable before the effect that it announces, one create controller, one
// way to retire. The order of writes and effects is here and nowhere else; what writes and what acts comes as
// functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/runner/runner.h"
#include "berth/v1/fleet.pb-c.h"

// Where marks go. Returns only when the move is synced (false: the disk failed, nothing may follow).
struct berth_lease_book {
	bool (*mark)(void *context, const Berth__V1__LeaseMove *move, struct berth_error *err);
	void *context;
};

#define BERTH_CREATE_DEADLINE_MS  (120 * 1000) // absolute, for all attempts under one lease
#define BERTH_CREATE_ATTEMPTS_MAX 4
#define BERTH_RETIRE_DEADLINE_MS  (120 * 1000)
#define BERTH_RETIRE_ATTEMPTS_MAX 3

struct berth_lease_driver {
	struct berth_runner *runner;
	struct berth_lease_book book;
};

// Marks DISPATCHING, creates, marks ACTIVE with the resource id. NOT_DISPATCHED and REJECTED may be tried again under
// the same lease within the deadline when err says that trying can help (EXHAUSTED, UNAVAILABLE). After AMBIGUOUS
// nothing is sent again: the lease is killed once the placement bound has passed, and the create has failed. On failure
// the lease is RETIRED with its proof, or CLEANUP_FAILED. `until` ends waiting between attempts; a create in flight is
// awaited, never abandoned.
bool berth_lease_create(const struct berth_lease_driver *driver, const struct berth_environment_plan *plan,
	struct berth_created *created, struct berth_until until, struct berth_error *err);

// Kills, reads absence back, marks KILL_PROVED and RETIRED (ABSENCE_SEEN). Not stopped by the trial's cancel token:
// `until` has a deadline only. On failure CLEANUP_FAILED is marked with what happened, and err says it.
bool berth_lease_retire(const struct berth_lease_driver *driver, const char *lease_id, struct berth_until until,
	struct berth_error *err);
// For a lease that was begun and never dispatched: RETIRED with NEVER_DISPATCHED.
bool berth_lease_drop(const struct berth_lease_driver *driver, const char *lease_id, struct berth_error *err);
