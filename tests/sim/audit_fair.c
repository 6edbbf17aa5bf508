// SPDX-License-Identifier: Apache-2.0
// I13: who is next. Only jobs that are sure to have something to place are compared: unpaid ones (nothing waits for
// money), below their own limit, whose waiting trials have never run (nothing waits out a pause). All trials are of one
// size, so a host that takes one of them could have taken any other.
#include <string.h>

#include "tests/sim/audit_internal.h"
#include "tests/sim/check.h"

#define S              INT64_C(1000000000)
#define MS             INT64_C(1000000)
#define WEIGHT_DEFAULT 10
#define CLOCK_PER_CENT 5        // what the coordinator's clock may differ by from true time
#define HELD_UP_NS     (60 * S) // without faults: of a trial beside a free host

static bool is_sure(const struct audit_job *job)
{
	bool full = job->concurrent && job->running >= job->concurrent;
	return !job->paid && !job->cancelling && !job->ended && !full && job->fresh && !job->again;
}

// When something was decided, which is seen when it is synced. A restart begins every wait anew.
static int64_t waited_ns(const struct audit_job *job)
{
	int64_t since_ns = job->submitted_ns > audit.started_ns ? job->submitted_ns : audit.started_ns;
	return audit.decided_ns - since_ns;
}

static int64_t aging_ns(int per_cent)
{
	return sim_world.aging_ms * MS * per_cent / 100;
}

// That are on a host.
static uint64_t share(const struct audit_job *job)
{
	return job->running - job->deferred;
}

static unsigned weight(const struct audit_job *job)
{
	return job->priority > 0 ? (unsigned)job->priority : WEIGHT_DEFAULT;
}

static void compare(const struct audit_job *job, const struct audit_job *other, int64_t cell_waited_ns)
{
	if (waited_ns(other) > aging_ns(100 + CLOCK_PER_CENT) + S &&
		cell_waited_ns < aging_ns(100 - CLOCK_PER_CENT) - S) {
		sim_violation("I13",
			"a trial of job %.8s is placed after %.0f s, and one of job %.8s waits for %.0f s with an "
			"aging bound "
			"of %.0f s",
			job->id, (double)cell_waited_ns / S, other->id, (double)waited_ns(other) / S,
			(double)sim_world.aging_ms / 1000);
	} else if (!audit.ages && share(job) * weight(other) > share(other) * weight(job)) {
		sim_violation("I13",
			"job %.8s is given a host beside %u that it has, with weight %u; job %.8s has %u with weight "
			"%u, and "
			"waits",
			job->id, (unsigned)share(job), weight(job), other->id, (unsigned)share(other), weight(other));
	}
}

// Whether some trial has waited so long, or nearly, that shares may not count.
static bool something_ages(void)
{
	const struct audit_job *job, *next;
	HASH_ITER (hh, audit.jobs, job, next) {
		bool waits = !job->ended && !job->cancelling && job->over_count + job->running < job->cells_count;
		if (waits && waited_ns(job) > aging_ns(100 - CLOCK_PER_CENT) - S) {
			return true;
		}
	}
	return false;
}

void audit_fair_assigned(struct audit_job *job, const struct audit_cell *cell)
{
	const struct audit_job *other, *next;
	int64_t since_ns = cell->generation ? cell->queued_ns : job->submitted_ns;
	since_ns = since_ns > audit.started_ns ? since_ns : audit.started_ns;
	if (audit.rereads) {
		return;
	}
	audit.ages = something_ages();
	HASH_ITER (hh, audit.jobs, other, next) {
		if (other != job && is_sure(other)) {
			compare(job, other, audit.decided_ns - since_ns);
		}
	}
	job->placed_ns = sim_now();
}

// A host that says again and again that it takes more.
static bool is_free(const struct sim_agent *agent)
{
	return agent->free_ns && sim_now() - agent->free_ns > HELD_UP_NS &&
	       sim_now() - agent->beat_ns < BEATS_MISSED_MOST * sim_world.heartbeat_ms * MS;
}

static bool has_free_host(void)
{
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		if (is_free(&sim_world.agents[i])) {
			return true;
		}
	}
	return false;
}

void sim_audit_check_waits(void)
{
	const struct audit_job *job, *next;
	if (sim_audit_resends()) {
		return; // nothing is placed meanwhile
	}
	HASH_ITER (hh, audit.jobs, job, next) {
		int64_t since_ns = sim_world.healed_ns > audit.started_ns ? sim_world.healed_ns : audit.started_ns;
		since_ns = job->submitted_ns > since_ns ? job->submitted_ns : since_ns;
		since_ns = audit.resent_ns > since_ns ? audit.resent_ns : since_ns;
		since_ns = job->placed_ns > since_ns ? job->placed_ns : since_ns;
		if (is_sure(job) && sim_now() - since_ns > HELD_UP_NS && has_free_host()) {
			sim_violation("I13", "job %.8s has waited for %.0f s beside a free host", job->id,
				(double)(sim_now() - since_ns) / S);
		}
	}
}
