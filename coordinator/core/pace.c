// SPDX-License-Identifier: Apache-2.0
// Pacing of creates: every lease of a run needs a permit of the fleet's governor before money is reserved for it. The
// permit's ticket is the lease's id. Volatile: a restart paces anew, and counts what lives.
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/core/state.h"

#define ACCOUNT "local" // every daemon of the fleet draws on one policy

void pace_free(struct berth_core *core)
{
	berth_governor_free(core->governor);
}

void pace_begin(struct berth_core *core, struct berth_core_now now)
{
	struct berth_error err;
	if (!core->config.create_policy.dispatches) {
		return;
	}
	core->governor = berth_governor_new(now.boot_ns);
	if (!berth_governor_set(core->governor, ACCOUNT, &core->config.create_policy, &err)) {
		berth_governor_free(core->governor); // the program has checked its flags
		core->governor = NULL;
		return;
	}
	const struct lease *lease, *next;
	HASH_ITER (hh, core->leases, lease, next) {
		if (lease_is_open(lease->record)) {
			berth_governor_lives(core->governor, ACCOUNT, lease->record->lease_id, &err);
		}
	}
}

// Takes the next permit into core->permits, asking for it with a fresh id first. False: it is not due yet.
static bool take_permit(struct berth_core *core, const char *fresh, bool *asked, struct berth_core_now now)
{
	struct berth_permit permit;
	struct berth_error err;
	if (!core->permit_asked) {
		core->permit_asked = *asked =
			berth_governor_ask(core->governor, ACCOUNT, fresh, INT64_MAX, now.boot_ns, &err);
	}
	if (!berth_governor_grant(core->governor, now.boot_ns, &permit)) {
		core->permit_due_ns = berth_governor_due_ns(core->governor);
		wake_at(core, core->permit_due_ns);
		return false;
	}
	core->permit_asked = false;
	snprintf(core->permits[core->permits_count++], BERTH_ID_SIZE, "%s", permit.ticket);
	return true;
}

// Uses one permit; an expired one is lost.
static bool use_permit(struct berth_core *core, char id[static BERTH_ID_SIZE], struct berth_core_now now)
{
	memcpy(id, core->permits[--core->permits_count], BERTH_ID_SIZE);
	return berth_governor_use(core->governor, id, now.boot_ns);
}

bool pace_take(const struct decision *decision, size_t count, char (*fresh)[BERTH_ID_SIZE], char (*ids)[BERTH_ID_SIZE])
{
	struct berth_core *core = decision->core;
	if (!core->governor) {
		memcpy(ids, fresh, count * sizeof *ids);
		return true;
	}
	size_t used = 0, taken = 0;
	core->permit_due_ns = 0;
	// All of a run's permits are held before the first is used.
	while (core->permits_count < count) {
		bool asked = false;
		if (used == count || !take_permit(core, fresh[used], &asked, decision->now)) {
			return false;
		}
		used += asked;
	}
	while (taken < count && core->permits_count) {
		taken += use_permit(core, ids[taken], decision->now);
	}
	if (taken == count) {
		return true;
	}
	for (size_t i = 0; i < taken; i++) { // the others had expired: begin again
		berth_governor_end(core->governor, ids[i], decision->now.boot_ns);
	}
	core->place_wanted = true;
	return false;
}

void pace_end(struct berth_core *core, const char *lease_id, struct berth_core_now now)
{
	if (core->governor) {
		berth_governor_end(core->governor, lease_id, now.boot_ns);
		core->permit_due_ns = 0;
		core->place_wanted = true;
	}
}

bool pace_waits(const struct berth_core *core, struct berth_core_now now)
{
	return core->permit_due_ns > now.boot_ns;
}
