// SPDX-License-Identifier: Apache-2.0
// Leases without a trial: what an earlier life of this agent left, what a trial could not clean up, and containers that
// carry a lease that nobody holds.
#include <stdlib.h>
#include <string.h>

#include "agent/session/session_internal.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

static struct berth_lease_driver driver_of(struct session *session)
{
	return (struct berth_lease_driver){.runner = session->runner, .book = agent_store_book(session->store)};
}

// What one Docker daemon does not show proves nothing of what was made on another.
static bool is_of_this_daemon(const struct session *session, const Berth__V1__Lease *lease, struct berth_error *err)
{
	const char *now = session->facts.daemon_id;
	return !lease->daemon_id[0] || strcmp(lease->daemon_id, now) == 0 ||
	       berth_fail(err, BERTH_ERROR_CONFLICT,
		       "lease %s was begun on another Docker daemon (%.64s) than this agent uses now (%.64s), so "
		       "nothing "
		       "here shows what became of it: start the agent with that daemon again (--docker), or, when it "
		       "is "
		       "gone for good, give this agent up (berth agent forget) and enroll it with an empty state "
		       "folder",
		       lease->lease_id, lease->daemon_id, now);
}

static bool retire(
	struct session *session, const Berth__V1__Lease *lease, struct berth_until until, struct berth_error *err)
{
	struct berth_lease_driver driver = driver_of(session);
	if (lease->state == BERTH__V1__LEASE_STATE__LEASE_CREATING) {
		return berth_lease_drop(&driver, lease->lease_id, err);
	}
	if (lease->state != BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED) {
		if (!is_of_this_daemon(session, lease, err)) {
			return false;
		}
		return berth_lease_retire(&driver, lease->lease_id, until, err);
	}
	// Its absence was proven and written down; only the last mark is missing.
	Berth__V1__LeaseMove move = BERTH__V1__LEASE_MOVE__INIT;
	move.lease_id = lease->lease_id;
	move.state = BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	move.proof = BERTH__V1__DEATH_PROOF__ABSENCE_SEEN;
	return driver.book.mark(driver.book.context, &move, err);
}

// One that can't be settled must not keep the others waiting: the first failure is told, the rest is done.
static void keep_first(bool *all, struct berth_error *first, const struct berth_error *failure)
{
	if (*all) {
		*first = *failure;
	}
	*all = false;
}

static bool retire_loose(struct session *session, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO_FREE Berth__Store__V1__HeldLease **leases = NULL;
	size_t count = agent_store_leases(session->store, true, &leases);
	bool all = true;
	for (size_t i = 0; i < count; i++) {
		const Berth__V1__Lease *lease = leases[i]->lease;
		struct berth_error failure = {0};
		if (retire(session, lease, until, &failure)) {
			berth_log_info("settled a lease that was left", "lease=%s boot=%s", lease->lease_id,
				leases[i]->boot_id);
		} else {
			keep_first(&all, err, &failure);
		}
		berth_proto_free(leases[i]);
	}
	return all;
}

static bool kill_one(struct session *session, const char *lease_id, struct berth_until until, struct berth_error *err)
{
	if (agent_store_holds(session->store, lease_id)) {
		return true;
	}
	berth_log_warn("killing what carries a lease that this agent does not hold", "lease=%s", lease_id);
	until = berth_until_at_most_ms(until, BERTH_RETIRE_DEADLINE_MS);
	return session->runner->kill(session->runner, lease_id, until, err);
}

// What the runner shows is asked for first: a lease is held from before its resource exists until after it is gone.
static bool kill_unknown(struct session *session, struct berth_until until, struct berth_error *err)
{
	char **shown = NULL;
	size_t count = 0;
	struct berth_until listing = berth_until_at_most_ms(until, BERTH_RETIRE_DEADLINE_MS);
	if (!session->runner->list_leases(session->runner, &shown, &count, listing, err)) {
		return false;
	}
	bool all = true;
	for (size_t i = 0; i < count; i++) {
		struct berth_error failure = {0};
		if (!kill_one(session, shown[i], until, &failure)) {
			keep_first(&all, err, &failure);
		}
		free(shown[i]);
	}
	free(shown);
	return all;
}

// Its failure is no reason to leave leases alone, nor to hold an agent back.
static void tidy(struct session *session, struct berth_until until)
{
	struct berth_error err = {0};
	struct berth_runner *runner = session->runner;
	if (runner->tidy && !runner->tidy(runner, berth_until_at_most_ms(until, BERTH_RETIRE_DEADLINE_MS), &err)) {
		berth_log_warn("the runner is not in order", "error=%s", berth_log_quote(err.message));
	}
}

bool session_settle(struct session *session, struct berth_until until, struct berth_error *err)
{
	struct berth_error failure = {0};
	bool all = true;
	if (!retire_loose(session, until, &failure)) {
		keep_first(&all, err, &failure);
	}
	if (!kill_unknown(session, until, &failure)) {
		keep_first(&all, err, &failure);
	}
	tidy(session, until);
	return all;
}

void *session_sweeper(void *context)
{
	struct session *session = context;
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = session->close};
	while (berth_sleep_ms(session->options.sweep_ms, until, NULL)) {
		struct berth_error err = {0};
		// Each lease has its own bound, which is longer than the runner's placement bound: before that one is
		// over, nothing-there proves nothing.
		if (!session_settle(session, until, &err) && !berth_until_over(until)) {
			berth_log_warn(
				"leases are left unsettled; trying again", "error=%s", berth_log_quote(err.message));
		}
	}
	return NULL;
}
