// SPDX-License-Identifier: Apache-2.0
// What events of backups, restores and of agents that were given up change. A published event's rule never changes.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

typedef Berth__Store__V1__Event event_t;

static void end_waiting(struct berth_core *core, struct agent *agent)
{
	core->resending -= agent->resending;
	agent->resending = false;
}

bool apply_reports_kept(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	(void)event, (void)err;
	core->keeps_reports = true;
	return true;
}

bool apply_backup_verified(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__BackupVerified *verified = event->backup_verified;
	if (verified->size <= core->backup.size || verified->size >= event->sequence ||
		verified->root_hash.len != BERTH_DIGEST_SIZE) {
		return corrupt_event(event, err, "a backup that is older than the one before");
	}
	core->backup = (struct berth_core_backup){.size = verified->size, .verified_at_ns = event->recorded_at_ns};
	memcpy(core->backup.root.bytes, verified->root_hash.data, BERTH_DIGEST_SIZE);
	snprintf(core->backup.operator, sizeof core->backup.operator, "%s", event->actor);
	for (size_t i = 0; i < verified->n_stable; i++) {
		const Berth__Store__V1__StableReports *stable = verified->stable[i];
		struct agent *agent = core_agent(core, stable->agent);
		const struct boot *boot = agent ? core_boot(agent, stable->boot_id) : NULL;
		if (!boot || stable->through > boot->applied_through) {
			return corrupt_event(event, err, "a backup with reports that were never applied");
		}
		memcpy(agent->stable.id, stable->boot_id, BERTH_ID_SIZE);
		agent->stable.applied_through = stable->through;
	}
	return true;
}

void core_add_restore(struct berth_core *core, const struct berth_core_restore *restore)
{
	core->restores = berth_realloc_array(core->restores, core->restores_count + 1, sizeof(*core->restores));
	core->restores[core->restores_count++] = *restore;
}

bool apply_ledger_restored(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__LedgerRestored *restored = event->ledger_restored;
	if (restored->size != core->last_sequence || restored->leaf_hash.len != BERTH_DIGEST_SIZE ||
		restored->root_hash.len != BERTH_DIGEST_SIZE) {
		return corrupt_event(event, err, "a restore of another ledger");
	}
	struct berth_core_restore restore = {.size = restored->size, .incarnation = core->incarnation_number + 1};
	memcpy(restore.leaf.bytes, restored->leaf_hash.data, BERTH_DIGEST_SIZE);
	memcpy(restore.root.bytes, restored->root_hash.data, BERTH_DIGEST_SIZE);
	core_add_restore(core, &restore);
	struct agent *agent, *next;
	HASH_ITER (hh, core->agents, agent, next) {
		core->resending += !agent->resending && !agent->forgotten;
		agent->resending = !agent->forgotten;
	}
	return true;
}

bool apply_incarnation_raised(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	uint64_t number = event->incarnation_raised->number;
	if (number <= core->incarnation_number || !core->restores_count) {
		return corrupt_event(event, err, "an incarnation that is raised without a restore");
	}
	core->incarnation_number = number;
	core->restores[core->restores_count - 1].incarnation = number;
	return true;
}

bool apply_result_deferred(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__TrialEnded *ended = event->result_deferred->ended;
	struct cell *cell = ended ? core_cell(core, ended->trial) : NULL;
	if (!cell || !core->resending || !cell->agent || ended->trial->generation != cell->generation ||
		!ended->result) {
		return corrupt_event(event, err, "a result waits for a trial that does not run, or for nobody");
	}
	core_release(core, cell);
	Berth__Store__V1__TrialEnded *kept = berth_proto_clone(ended);
	kept->deferred_at = event->sequence;
	core_defer(core, cell, kept);
	return true;
}

bool apply_agent_resent(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	struct agent *agent = core_agent(core, event->agent_resent->agent);
	if (!agent || !agent->resending) {
		return corrupt_event(event, err, "an agent that nobody waits for has resent");
	}
	end_waiting(core, agent);
	core->place_wanted = true;
	return true;
}

bool apply_agent_forgotten(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	struct agent *agent = core_agent(core, event->agent_forgotten->agent);
	if (!agent || agent->forgotten || agent->running || agent->open_leases) {
		return corrupt_event(event, err, "an agent was given up that holds something");
	}
	end_waiting(core, agent);
	agent->forgotten = true;
	agent->boot_id[0] = 0;
	free(BERTH_STEAL(agent->daemon_id));
	free(BERTH_STEAL(agent->platform));
	free(BERTH_STEAL(agent->version));
	berth__v1__capacity__init(&agent->capacity);
	core->place_wanted = true;
	return true;
}
