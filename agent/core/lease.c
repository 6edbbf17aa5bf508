// SPDX-License-Identifier: Apache-2.0
#include "agent/core/lease.h"

#include <stdlib.h>

#include "common/base/cancel.h"
#include "common/base/digest.h"

#define CREATE_PAUSE_FIRST_MS    250
#define RETIRE_PAUSE_FIRST_MS    100
#define RETIRE_PAUSE_GROWTH      5
#define CREATE_PAUSE_GROWTH      2
#define AMBIGUOUS_KILL_MARGIN_MS BERTH_RETIRE_DEADLINE_MS

static bool mark(const struct berth_lease_driver *driver, const char *lease_id, Berth__V1__LeaseState state,
	Berth__V1__LeaseMove *move, struct berth_error *err)
{
	move->lease_id = (char *)lease_id;
	move->state = state;
	return driver->book.mark(driver->book.context, move, err) ||
	       berth_error_wrap(err, "lease %s: its move could not be made durable", lease_id);
}

static bool mark_retired(const struct berth_lease_driver *driver, const char *lease_id, Berth__V1__DeathProof proof,
	struct berth_error *err)
{
	Berth__V1__LeaseMove move = BERTH__V1__LEASE_MOVE__INIT;
	move.proof = proof;
	return mark(driver, lease_id, BERTH__V1__LEASE_STATE__LEASE_RETIRED, &move, err);
}

// Between half and all of the pause: agents that were refused together come back apart.
static int64_t jittered_ms(int64_t pause_ms)
{
	uint32_t random;
	berth_random(&random, sizeof random);
	return pause_ms / 2 + (int64_t)(random % (uint32_t)(pause_ms / 2 + 1));
}

static bool can_help(const struct berth_error *failure)
{
	return failure->code == BERTH_ERROR_EXHAUSTED || failure->code == BERTH_ERROR_UNAVAILABLE;
}

// Kills until the runner proves the absence. The marks that follow the proof are the only ones.
static bool kill_and_retire(const struct berth_lease_driver *driver, const char *lease_id, struct berth_until until,
	struct berth_error *err)
{
	struct berth_error failure = {0};
	int64_t pause_ms = RETIRE_PAUSE_FIRST_MS;
	for (int attempt = 1; attempt <= BERTH_RETIRE_ATTEMPTS_MAX; attempt++) {
		if (driver->runner->kill(driver->runner, lease_id, until, &failure)) {
			Berth__V1__LeaseMove proved = BERTH__V1__LEASE_MOVE__INIT;
			proved.proof = BERTH__V1__DEATH_PROOF__ABSENCE_SEEN;
			return mark(driver, lease_id, BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED, &proved, err) &&
			       mark_retired(driver, lease_id, BERTH__V1__DEATH_PROOF__ABSENCE_SEEN, err);
		}
		if (attempt == BERTH_RETIRE_ATTEMPTS_MAX || !berth_sleep_ms(pause_ms, until, NULL)) {
			break;
		}
		pause_ms *= RETIRE_PAUSE_GROWTH;
	}
	Berth__V1__LeaseMove failed = BERTH__V1__LEASE_MOVE__INIT;
	failed.failure = failure.message;
	if (!mark(driver, lease_id, BERTH__V1__LEASE_STATE__LEASE_CLEANUP_FAILED, &failed, err)) {
		return false;
	}
	return berth_fail(err, failure.code, "lease %s: its end is not proven, the agent goes on trying: %s", lease_id,
		failure.message);
}

bool berth_lease_retire(const struct berth_lease_driver *driver, const char *lease_id, struct berth_until until,
	struct berth_error *err)
{
	until.cancel = NULL;
	return kill_and_retire(driver, lease_id, berth_until_at_most_ms(until, BERTH_RETIRE_DEADLINE_MS), err);
}

bool berth_lease_drop(const struct berth_lease_driver *driver, const char *lease_id, struct berth_error *err)
{
	return mark_retired(driver, lease_id, BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED, err);
}

// One create after another until one had an effect, or trying again can't help. *rejected: some attempt was refused.
static enum berth_create_outcome create_some(const struct berth_lease_driver *driver,
	const struct berth_environment_plan *plan, struct berth_created *created, struct berth_until until,
	bool *rejected, struct berth_error *failure)
{
	struct berth_until in_flight = berth_within_ms(BERTH_CREATE_DEADLINE_MS, NULL);
	struct berth_until between = berth_until_at_most_ms(until, BERTH_CREATE_DEADLINE_MS);
	int64_t pause_ms = CREATE_PAUSE_FIRST_MS;
	for (int attempt = 1;; attempt++) {
		*created = (struct berth_created){0};
		enum berth_create_outcome outcome =
			driver->runner->create(driver->runner, plan, created, in_flight, failure);
		*rejected = *rejected || outcome == BERTH_CREATE_REJECTED;
		if (outcome == BERTH_CREATE_CREATED || outcome == BERTH_CREATE_AMBIGUOUS) {
			return outcome;
		}
		if (attempt == BERTH_CREATE_ATTEMPTS_MAX || !can_help(failure) ||
			!berth_sleep_ms(jittered_ms(pause_ms), between, NULL)) {
			return outcome;
		}
		pause_ms *= CREATE_PAUSE_GROWTH;
	}
}

// The create's own failure is what the caller learns, unless the lease's end is not proven: that outranks it.
static bool end_failed_create(const struct berth_lease_driver *driver, const char *lease_id,
	enum berth_create_outcome outcome, bool rejected, const struct berth_error *failure, struct berth_error *err)
{
	bool ended;
	if (outcome == BERTH_CREATE_AMBIGUOUS) {
		// A runner's kill calls nothing-there a proof only after its placement bound.
		int64_t bound_ms = driver->runner->placement_bound_ms + AMBIGUOUS_KILL_MARGIN_MS;
		ended = kill_and_retire(driver, lease_id, berth_within_ms(bound_ms, NULL), err);
	} else {
		ended = mark_retired(driver, lease_id,
			rejected ? BERTH__V1__DEATH_PROOF__REJECTED : BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED, err);
	}
	if (!ended) {
		return berth_error_wrap(err, "after a create that failed (%.200s)", failure->message);
	}
	return berth_fail(err, failure->code, "%s", failure->message);
}

bool berth_lease_create(const struct berth_lease_driver *driver, const struct berth_environment_plan *plan,
	struct berth_created *created, struct berth_until until, struct berth_error *err)
{
	struct berth_error failure = {0};
	if (berth_until_over(until)) {
		berth_fail_until(until, &failure, "the create");
		return end_failed_create(driver, plan->lease_id, BERTH_CREATE_NOT_DISPATCHED, false, &failure, err);
	}
	Berth__V1__LeaseMove dispatching = BERTH__V1__LEASE_MOVE__INIT;
	if (!mark(driver, plan->lease_id, BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, &dispatching, err)) {
		return false;
	}
	bool rejected = false;
	enum berth_create_outcome outcome = create_some(driver, plan, created, until, &rejected, &failure);
	if (outcome != BERTH_CREATE_CREATED) {
		return end_failed_create(driver, plan->lease_id, outcome, rejected, &failure, err);
	}
	Berth__V1__LeaseMove active = BERTH__V1__LEASE_MOVE__INIT;
	active.resource_id = created->resource_id;
	active.expected_end_at_ns = created->expected_end_at_ns;
	if (!mark(driver, plan->lease_id, BERTH__V1__LEASE_STATE__LEASE_ACTIVE, &active, err)) {
		free(created->resource_id);
		*created = (struct berth_created){0};
		return false;
	}
	return true;
}
