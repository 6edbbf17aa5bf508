// SPDX-License-Identifier: Apache-2.0
// State records of the ledger: what is asked about objects that have left memory.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/daemon.h"

// --- forgotten jobs ---
static void *read_record(
	struct berth_daemon *daemon, const char *key, const ProtobufCMessageDescriptor *type, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	return berth_ledger_row(daemon->ledger, key, &packed, err)
	               ? berth_proto_unpack(type, packed.data, packed.size, key, err)
	               : NULL;
}

Berth__V1__Trial *berth_read_trial(struct berth_daemon *daemon, const char *job_id, uint32_t index,
	const Berth__V1__JobSpec *spec, uint64_t *result_sequence, struct berth_error *err)
{
	BERTH_AUTO_FREE char *job_key = berth_format("job/%s", job_id);
	BERTH_AUTO_FREE char *key = berth_format("trial/%s/%08x", job_id, index);
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__JobRow *job = read_record(daemon, job_key, &berth__store__v1__job_row__descriptor, err);
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__TrialRow *row =
		job ? read_record(daemon, key, &berth__store__v1__trial_row__descriptor, err) : NULL;
	return row ? berth_core_recorded_trial(job, row, spec, result_sequence) : NULL;
}

struct trials {
	const Berth__Store__V1__JobRow *job;
	const Berth__V1__JobSpec *spec;
	Berth__V1__Trial **trials;
	uint64_t *sequences;
	size_t count, limit;
	struct berth_error *err;
	bool failed;
};

static bool take_trial(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	(void)slot;
	struct trials *trials = context;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__TrialRow *row =
		berth_proto_unpack(&berth__store__v1__trial_row__descriptor, value, size, key, trials->err);
	trials->failed = !row;
	if (row) {
		trials->trials[trials->count] =
			berth_core_recorded_trial(trials->job, row, trials->spec, &trials->sequences[trials->count]);
		trials->count++;
	}
	return row && trials->count < trials->limit;
}

bool berth_read_trials(struct berth_daemon *daemon, const char *job_id, const Berth__V1__JobSpec *spec, uint32_t from,
	size_t limit, Berth__V1__Trial **into, uint64_t *sequences, size_t *count, struct berth_error *err)
{
	BERTH_AUTO_FREE char *job_key = berth_format("job/%s", job_id);
	BERTH_AUTO_FREE char *prefix = berth_format("trial/%s/", job_id);
	BERTH_AUTO_FREE char *after = from ? berth_format("%s%08x", prefix, from - 1) : NULL;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__JobRow *job = read_record(daemon, job_key, &berth__store__v1__job_row__descriptor, err);
	struct trials trials = {
		.job = job, .spec = spec, .trials = into, .sequences = sequences, .limit = limit, .err = err};
	bool ok = job && berth_ledger_rows(daemon->ledger, prefix, after, take_trial, &trials, err) && !trials.failed;
	*count = trials.count;
	return ok;
}

// --- pages ---
struct page {
	void **items; // by id
	size_t count, limit;
	const char *after;
	const ProtobufCMessageDescriptor *type;
	const char *(*id_of)(const void *item);
	const char *budget; // of reservations
};

static const char *lease_id(const void *item)
{
	return ((const Berth__V1__Lease *)item)->lease_id;
}

static const char *reservation_id(const void *item)
{
	return ((const Berth__V1__Reservation *)item)->reservation_id;
}

// Where the id is, or would be.
static size_t place_of(const struct page *page, const char *id)
{
	size_t low = 0, high = page->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(page->id_of(page->items[middle]), id) < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static bool is_wanted(const struct page *page, const void *item)
{
	return !page->budget || strcmp(((const Berth__V1__Reservation *)item)->budget, page->budget) == 0;
}

// Of all that come, the first `limit` by id stay; what is there already is newer than a record.
static bool take_item(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	(void)slot;
	struct page *page = context;
	const char *id = strrchr(key, '/') + 1;
	size_t at = place_of(page, id);
	if (at == page->limit || (page->after && strcmp(id, page->after) <= 0) ||
		(at < page->count && strcmp(page->id_of(page->items[at]), id) == 0)) {
		return true;
	}
	struct berth_error err;
	BERTH_AUTO(berth_proto_cleanup) void *item = berth_proto_unpack(page->type, value, size, key, &err);
	if (!item || !is_wanted(page, item)) {
		return true; // a damaged record of what has ended hides no other
	}
	if (page->count == page->limit) {
		berth_proto_free(page->items[--page->count]);
	}
	memmove(&page->items[at + 1], &page->items[at], (page->count - at) * sizeof(*page->items));
	page->items[at] = BERTH_STEAL(item);
	page->count++;
	return true;
}

bool berth_read_leases(struct berth_daemon *daemon, const char *job_id, const char *after, size_t limit,
	Berth__V1__Lease **into, size_t *count, struct berth_error *err)
{
	BERTH_AUTO_FREE char *prefix = job_id ? berth_format("lease/%s/", job_id) : berth_strdup("lease/");
	struct page page = {.items = (void **)into,
		.count = *count,
		.limit = limit,
		.after = after,
		.type = &berth__v1__lease__descriptor,
		.id_of = lease_id};
	bool ok = berth_ledger_rows(daemon->ledger, prefix, NULL, take_item, &page, err);
	*count = page.count;
	return ok;
}

bool berth_read_reservations(struct berth_daemon *daemon, const char *budget, const char *after, size_t limit,
	Berth__V1__Reservation **into, size_t *count, struct berth_error *err)
{
	struct page page = {.items = (void **)into,
		.count = *count,
		.limit = limit,
		.after = after,
		.type = &berth__v1__reservation__descriptor,
		.id_of = reservation_id,
		.budget = budget};
	bool ok = berth_ledger_rows(daemon->ledger, "reservation/", NULL, take_item, &page, err);
	*count = page.count;
	return ok;
}
