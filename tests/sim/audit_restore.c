// SPDX-License-Identifier: Apache-2.0
// What a restore may lose, and what it may not: the model goes back to the backup, and what was known beyond it is kept
// here. Nothing of it runs uncounted, and a result that was told comes again.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/sim/audit_internal.h"
#include "tests/sim/check.h"

struct lost_lease {
	char id[33], agent[24];
	bool paid;
	UT_hash_handle hh;
};

struct lost_result {
	char job_id[33];
	uint32_t index, generation;
	bool scored;
	struct lost_result *next;
};

static struct {
	struct lost_lease *leases;
	struct lost_result *results;
} lost;

void audit_restore_forget(void)
{
	struct lost_lease *lease, *next;
	HASH_ITER (hh, lost.leases, lease, next) {
		HASH_DEL(lost.leases, lease);
		free(lease);
	}
	while (lost.results) {
		struct lost_result *result = lost.results;
		lost.results = result->next;
		free(result);
	}
}

// --- going back ---
static void keep_leases(void)
{
	const struct audit_lease *lease, *next;
	HASH_ITER (hh, audit.leases, lease, next) {
		struct lost_lease *kept = berth_alloc(sizeof *kept);
		snprintf(kept->id, sizeof kept->id, "%s", lease->id);
		snprintf(kept->agent, sizeof kept->agent, "%s", lease->agent);
		kept->paid = lease->paid;
		HASH_ADD_STR(lost.leases, id, kept);
	}
}

static void keep_results(void)
{
	const struct audit_job *job, *next;
	HASH_ITER (hh, audit.jobs, job, next) {
		for (uint32_t i = 0; i < job->cells_count; i++) {
			if (!job->cells[i].ended) {
				continue;
			}
			struct lost_result *result = berth_alloc(sizeof *result);
			snprintf(result->job_id, sizeof result->job_id, "%s", job->id);
			result->index = i;
			result->generation = job->cells[i].generation;
			result->scored = job->cells[i].scored;
			result->next = lost.results;
			lost.results = result;
		}
	}
}

void sim_audit_losing(void)
{
	sim_audit_read();
	keep_leases();
	keep_results();
}

void sim_audit_restored(void)
{
	struct audit_nonce *incarnations = audit.incarnations;
	audit.incarnations = NULL;
	audit_forget();
	audit.rereads = true;
	sim_audit_read();
	audit.rereads = false;
	struct audit_nonce **last = &audit.incarnations;
	while (*last) {
		last = &(*last)->next;
	}
	*last = incarnations;
	for (unsigned i = 0; i < audit.enrolled_count; i++) {
		audit.enrolled[i].resends = sim_audit_is_agent(audit.enrolled[i].name);
	}
}

bool sim_audit_resends(void)
{
	for (unsigned i = 0; i < audit.enrolled_count; i++) {
		if (audit.enrolled[i].resends) {
			return true;
		}
	}
	return false;
}

bool audit_was_lost(const char *lease_id, const char *agent)
{
	const struct lost_lease *lease;
	HASH_FIND_STR(lost.leases, lease_id, lease);
	return lease && strcmp(lease->agent, agent) == 0;
}

void audit_resent(const Berth__Store__V1__AgentResent *event)
{
	struct audit_enrolled *enrolled = audit_enrolled(event->agent);
	if (!enrolled || !enrolled->resends) {
		sim_violation("I14", "%s has resent, and nobody waits for it", event->agent);
		return;
	}
	enrolled->resends = false;
	audit.resent_ns = sim_now();
}

// --- at the end ---
void audit_restore_whole(void)
{
	const struct lost_lease *lease, *next;
	HASH_ITER (hh, lost.leases, lease, next) {
		if (lease->paid && sim_docker_was_asked(lease->id) && !audit_money_knows(lease->id)) {
			sim_violation("P1",
				"a container was asked for under lease %.8s of %s, and no ledger accounts for it",
				lease->id, lease->agent);
		}
	}
	for (const struct lost_result *result = lost.results; result; result = result->next) {
		const struct audit_job *job = audit_job(result->job_id);
		const struct audit_cell *cell = job ? &job->cells[result->index] : NULL;
		bool is_kept =
			cell && cell->ended && cell->generation == result->generation && cell->scored == result->scored;
		if (cell && !job->cancelling && !is_kept) {
			sim_violation("P4", "trial %.8s/%u was told %s in generation %u, and is %s in generation %u",
				result->job_id, result->index, result->scored ? "scored" : "without a score",
				result->generation,
				!cell->ended   ? "open"
				: cell->scored ? "scored"
					       : "without a score",
				cell->generation);
		}
	}
}
