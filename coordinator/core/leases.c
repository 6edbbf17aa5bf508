// SPDX-License-Identifier: Apache-2.0
// Questions about leases: which are open, which nothing uses any more, and what each may still cost.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

// Why nothing uses an open lease any more; NULL: its trial runs.
static char *why_orphaned(const struct lease *lease)
{
	const struct job *job = lease->job;
	const struct cell *cell = job->cells ? &job->cells[lease->record->trial_index] : NULL;
	if (job->state == BERTH__V1__JOB_STATE__JOB_CANCELLING || job->state == BERTH__V1__JOB_STATE__JOB_CANCELLED) {
		return berth_strdup("its job was cancelled");
	}
	if (!cell || cell_is_over(cell)) {
		return berth_strdup("its trial has ended");
	}
	if (lease->record->generation < cell->generation) {
		return berth_format("its trial runs elsewhere, as generation %u", cell->generation);
	}
	if (cell->agent != lease->agent) {
		return berth_strdup("its trial waits to be run again");
	}
	return lease->agent->lost ? berth_format("agent %s is lost", lease->agent->name) : NULL;
}

static void fill_money(const struct berth_core *core, const char *id, Berth__V1__LeaseDetail *detail)
{
	static const char *const states[] = {[BERTH__V1__RESERVATION_STATE__RESERVED] = "reserved",
		[BERTH__V1__RESERVATION_STATE__SETTLED] = "settled",
		[BERTH__V1__RESERVATION_STATE__FORFEITED] = "forfeited",
		[BERTH__V1__RESERVATION_STATE__BREACHED] = "breached",
		[BERTH__V1__RESERVATION_STATE__RELEASED] = "released"};
	const Berth__V1__Reservation *row = id[0] ? berth_budgets_reservation(core->budgets, id) : NULL;
	if (!row || (size_t)row->state >= BERTH_COUNT(states)) {
		return;
	}
	berth_proto_set_string(&detail->budget, row->budget);
	berth_proto_set_string(&detail->reservation, states[row->state]);
	detail->charged_nano_usd = row->ending ? row->ending->charged_nano_usd : 0;
	detail->worst_nano_usd = row->ending ? row->ending->charged_nano_usd : row->max_nano_usd;
}

static Berth__V1__LeaseDetail *detail_of(const struct berth_core *core, const struct lease *lease)
{
	Berth__V1__LeaseDetail *detail = berth_alloc(sizeof *detail);
	berth__v1__lease_detail__init(detail);
	if (lease_is_open(lease->record)) {
		BERTH_AUTO_FREE char *why = why_orphaned(lease);
		berth_proto_set_string(&detail->orphaned, why);
		if (lease->record->provider_expiry_at_ns) {
			detail->dead_by_ns =
				lease->record->provider_expiry_at_ns + BERTH_BUDGET_SKEW_SECONDS * BERTH_NS_PER_S;
		}
	}
	fill_money(core, lease->record->reservation_id, detail);
	return detail;
}

static bool is_wanted(const struct lease *lease, enum berth_core_lease_filter filter)
{
	if (filter == BERTH_LEASES_ALL || !lease_is_open(lease->record)) {
		return filter == BERTH_LEASES_ALL;
	}
	BERTH_AUTO_FREE char *why = filter == BERTH_LEASES_ORPHANED ? why_orphaned(lease) : NULL;
	return filter == BERTH_LEASES_OPEN || why;
}

static int compare_ids(const void *a, const void *b)
{
	const struct lease *one = *(const struct lease *const *)a, *other = *(const struct lease *const *)b;
	return strcmp(one->record->lease_id, other->record->lease_id);
}

size_t berth_core_leases(const struct berth_core *core, const char *job_id, enum berth_core_lease_filter filter,
	const char *after, size_t limit, Berth__V1__Lease **leases, Berth__V1__LeaseDetail **details)
{
	BERTH_AUTO_FREE const struct lease **all =
		berth_realloc_array(NULL, HASH_COUNT(core->leases) + 1, sizeof(*all));
	size_t count = 0;
	const struct lease *lease, *next;
	HASH_ITER (hh, core->leases, lease, next) {
		if ((!job_id || strcmp(lease->job->id, job_id) == 0) &&
			(!after || strcmp(lease->record->lease_id, after) > 0) && is_wanted(lease, filter)) {
			all[count++] = lease;
		}
	}
	qsort(all, count, sizeof(*all), compare_ids);
	count = count > limit ? limit : count;
	for (size_t i = 0; i < count; i++) {
		leases[i] = berth_proto_clone(all[i]->record);
		details[i] = detail_of(core, all[i]);
	}
	return count;
}

bool berth_core_lease(const struct berth_core *core, const char *text, Berth__V1__Lease **record,
	Berth__V1__LeaseDetail **detail, struct berth_error *err)
{
	const struct lease *found = core_lease(core, text), *lease, *next;
	if (!found && strlen(text) >= BERTH_ID_PREFIX_MIN) {
		HASH_ITER (hh, core->leases, lease, next) {
			if (strncmp(lease->record->lease_id, text, strlen(text)) != 0) {
				continue;
			}
			if (found) {
				return berth_fail(
					err, BERTH_ERROR_CONFLICT, "more than one lease starts with %s", text);
			}
			found = lease;
		}
	}
	if (!found) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND,
			"no lease is %s: `berth lease list` shows those that are open, `--all` the others", text);
	}
	*record = berth_proto_clone(found->record);
	*detail = detail_of(core, found);
	return true;
}
