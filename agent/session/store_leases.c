// SPDX-License-Identifier: Apache-2.0
// The lease book: a move's report and the lease's record go to the disk in one write. One lease is moved by one thread
// at a time: its trial's, and after that whoever settles it.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "agent/session/store_internal.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

static bool is_trials(const struct agent_held *held, const Berth__V1__TrialKey *trial)
{
	const Berth__V1__TrialKey *key = held->record->trial;
	return key && key->index == trial->index && key->generation == trial->generation &&
	       strcmp(key->job_id, trial->job_id) == 0;
}

static struct agent_held *find(struct agent_store *store, const char *lease_id)
{
	struct agent_held *held;
	LL_FOREACH (store->held, held) {
		if (strcmp(held->record->lease->lease_id, lease_id) == 0) {
			return held;
		}
	}
	return NULL;
}

static char *key_of(const char *lease_id)
{
	return berth_format(AGENT_STORE_KEY_LEASE "%s", lease_id);
}

static void free_held(struct agent_held *held)
{
	berth_proto_free(held->record);
	free(held);
}

void agent_store_free_leases(struct agent_store *store)
{
	struct agent_held *held, *after;
	LL_FOREACH_SAFE(store->held, held, after)
	{
		free_held(held);
	}
}

static const Berth__V1__Reservation *reservation_of(
	const Berth__V1__Assignment *assignment, const Berth__V1__Lease *lease)
{
	for (size_t i = 0; i < assignment->n_reservations; i++) {
		if (strcmp(assignment->reservations[i]->reservation_id, lease->lease_id) == 0) {
			return assignment->reservations[i];
		}
	}
	return NULL;
}

static struct agent_held *hold(
	struct agent_store *store, const Berth__V1__Assignment *assignment, const Berth__V1__Lease *lease)
{
	struct agent_held *held = berth_alloc(sizeof *held);
	held->record = berth_alloc(sizeof *held->record);
	berth__store__v1__held_lease__init(held->record);
	held->record->lease = berth_proto_clone(lease);
	held->record->trial = berth_proto_clone(assignment->trial);
	held->record->reservation = berth_proto_clone(reservation_of(assignment, lease));
	berth_proto_set_string(&held->record->boot_id, store->boot_id);
	held->of_running_trial = true;
	return held;
}

void agent_store_hold_leases(struct agent_store *store, const Berth__V1__Assignment *assignment)
{
	struct agent_write *write = agent_write_new();
	struct agent_held *fresh = NULL, *held, *after;
	for (size_t i = 0; i < assignment->n_leases; i++) {
		held = hold(store, assignment, assignment->leases[i]);
		LL_PREPEND(fresh, held);
		BERTH_AUTO_FREE char *key = key_of(assignment->leases[i]->lease_id);
		agent_write_put(write, key, held->record);
	}
	// Known before it is written: a sweep that finds the record finds its owner too.
	pthread_mutex_lock(&store->lock);
	LL_FOREACH_SAFE(fresh, held, after)
	{
		LL_PREPEND(store->held, held);
	}
	pthread_mutex_unlock(&store->lock);
	agent_store_write(store, write);
}

void agent_store_release_leases(struct agent_store *store, const Berth__V1__TrialKey *trial)
{
	struct agent_held *held;
	pthread_mutex_lock(&store->lock);
	LL_FOREACH (store->held, held) {
		if (is_trials(held, trial)) {
			held->of_running_trial = false;
		}
	}
	pthread_mutex_unlock(&store->lock);
}

// The record as the move leaves it. NULL: the lease is not held here.
static Berth__Store__V1__HeldLease *moved(struct agent_store *store, const Berth__V1__LeaseMove *move)
{
	pthread_mutex_lock(&store->lock);
	struct agent_held *held = find(store, move->lease_id);
	Berth__Store__V1__HeldLease *record = held ? berth_proto_clone(held->record) : NULL;
	pthread_mutex_unlock(&store->lock);
	if (!record) {
		return NULL;
	}
	Berth__V1__Lease *lease = record->lease;
	lease->state = move->state;
	lease->proof = move->proof;
	berth_proto_set_string(&lease->failure, move->failure);
	if (move->resource_id[0]) {
		berth_proto_set_string(&lease->resource_id, move->resource_id);
	}
	if (!lease->provider_expiry_at_ns) { // fixed once
		lease->provider_expiry_at_ns = move->provider_expiry_at_ns;
	}
	if (move->expected_end_at_ns) {
		lease->expected_end_at_ns = move->expected_end_at_ns;
	}
	return record;
}

static void replace(struct agent_store *store, const Berth__V1__LeaseMove *move, Berth__Store__V1__HeldLease *record)
{
	pthread_mutex_lock(&store->lock);
	struct agent_held *held = find(store, move->lease_id);
	if (move->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		LL_DELETE(store->held, held);
		free_held(held);
		berth_proto_free(record);
	} else {
		berth_proto_free(held->record);
		held->record = record;
	}
	pthread_mutex_unlock(&store->lock);
}

// A cleanup that fails again in the same way is no news: a daemon that is down for a day must not fill the outbox.
static bool is_news(struct agent_store *store, const Berth__V1__LeaseMove *move)
{
	if (move->state != BERTH__V1__LEASE_STATE__LEASE_CLEANUP_FAILED) {
		return true;
	}
	pthread_mutex_lock(&store->lock);
	struct agent_held *held = find(store, move->lease_id);
	bool news = !held || held->record->lease->state != BERTH__V1__LEASE_STATE__LEASE_CLEANUP_FAILED ||
	            strcmp(held->record->lease->failure, move->failure) != 0;
	pthread_mutex_unlock(&store->lock);
	return news;
}

// What a lease costs is counted from the mark before its create to the proof of its death, once. A life that did not
// see its beginning does not know.
static int64_t elapsed_ns(struct agent_store *store, const Berth__V1__LeaseMove *move)
{
	int64_t now_ns = berth_boot_ns(), elapsed_ns = 0;
	pthread_mutex_lock(&store->lock);
	struct agent_held *held = find(store, move->lease_id);
	if (held && move->state == BERTH__V1__LEASE_STATE__LEASE_DISPATCHING && !held->dispatched_ns) {
		held->dispatched_ns = now_ns;
	} else if (held && move->state == BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED && held->dispatched_ns) {
		held->elapsed_ns = now_ns - held->dispatched_ns;
	}
	if (held) {
		elapsed_ns = held->elapsed_ns;
	}
	pthread_mutex_unlock(&store->lock);
	return elapsed_ns;
}

// The first move of a lease also says what it was given: a coordinator that was restored from a backup may know nothing
// of it. The record is the caller's.
static Berth__Store__V1__HeldLease *as_given(struct agent_store *store, const char *lease_id)
{
	pthread_mutex_lock(&store->lock);
	const struct agent_held *held = find(store, lease_id);
	bool first = held && held->record->lease->state == BERTH__V1__LEASE_STATE__LEASE_CREATING;
	Berth__Store__V1__HeldLease *given = first ? berth_proto_clone(held->record) : NULL;
	pthread_mutex_unlock(&store->lock);
	return given;
}

// And so about the others of its trial that have not moved yet.
static void add_others(
	struct agent_store *store, const char *lease_id, const Berth__V1__TrialKey *trial, Berth__V1__LeaseMove *move)
{
	const struct agent_held *held;
	pthread_mutex_lock(&store->lock);
	LL_FOREACH (store->held, held) {
		const Berth__Store__V1__HeldLease *record = held->record;
		if (record->lease->state != BERTH__V1__LEASE_STATE__LEASE_CREATING || !is_trials(held, trial) ||
			strcmp(record->lease->lease_id, lease_id) == 0) {
			continue;
		}
		Berth__V1__LeaseGrant *grant = berth_alloc(sizeof *grant);
		berth__v1__lease_grant__init(grant);
		grant->lease = berth_proto_clone(record->lease);
		grant->reservation = berth_proto_clone(record->reservation);
		berth_proto_append(&move->n_others, &move->others, grant);
	}
	pthread_mutex_unlock(&store->lock);
}

static void free_others(Berth__V1__LeaseMove *move)
{
	for (size_t i = 0; i < move->n_others; i++) {
		berth_proto_free(move->others[i]);
	}
	free(move->others);
}

static bool mark(void *context, const Berth__V1__LeaseMove *move, struct berth_error *err)
{
	struct agent_store *store = context;
	if (!is_news(store, move)) {
		return true;
	}
	Berth__Store__V1__HeldLease *record = moved(store, move);
	if (!record) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "lease %s is not held by this agent", move->lease_id);
	}
	Berth__V1__Report report = BERTH__V1__REPORT__INIT;
	report.body_case = BERTH__V1__REPORT__BODY_LEASE;
	Berth__V1__LeaseMove timed = *move;
	timed.elapsed_ns = elapsed_ns(store, move);
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__HeldLease *given = as_given(store, move->lease_id);
	timed.lease = given ? given->lease : NULL;
	timed.reservation = given ? given->reservation : NULL;
	if (given) {
		add_others(store, move->lease_id, given->trial, &timed);
	}
	report.lease = &timed;
	struct agent_write *write = agent_write_new();
	agent_write_report(write, &report);
	free_others(&timed);
	BERTH_AUTO_FREE char *key = key_of(move->lease_id);
	if (move->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		agent_write_delete(write, key);
	} else {
		agent_write_put(write, key, record);
	}
	agent_store_write(store, write);
	replace(store, move, record);
	return true;
}

struct berth_lease_book agent_store_book(struct agent_store *store)
{
	return (struct berth_lease_book){.mark = mark, .context = store};
}

size_t agent_store_leases(struct agent_store *store, bool loose_only, Berth__Store__V1__HeldLease ***leases)
{
	pthread_mutex_lock(&store->lock);
	struct agent_held *held;
	size_t most = 0, count = 0;
	LL_COUNT(store->held, held, most);
	*leases = berth_realloc_array(NULL, most + 1, sizeof **leases);
	LL_FOREACH (store->held, held) {
		if (!loose_only || !held->of_running_trial) {
			(*leases)[count++] = berth_proto_clone(held->record);
		}
	}
	pthread_mutex_unlock(&store->lock);
	return count;
}

bool agent_store_holds(struct agent_store *store, const char *lease_id)
{
	pthread_mutex_lock(&store->lock);
	bool holds = find(store, lease_id) != NULL;
	pthread_mutex_unlock(&store->lock);
	return holds;
}
