// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/runner/local/internal.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"

#define LOOK_AT_CANCEL_MS 50

void local_lease_free(struct local_lease *lease)
{
	free(lease->lease_id);
	free(lease->image_id);
	*lease = (struct local_lease){0};
}

static struct local_lease **find(struct local *local, const char *lease_id)
{
	struct local_lease **place = &local->leases;
	while (*place && strcmp((*place)->lease_id, lease_id) != 0) {
		place = &(*place)->next;
	}
	return place;
}

static void unlink_lease(struct local_lease **place)
{
	struct local_lease *lease = *place;
	*place = lease->next;
	local_lease_free(lease);
	free(lease);
}

bool local_lease_get(struct local *local, const char *lease_id, struct local_lease *copy)
{
	*copy = (struct local_lease){0};
	pthread_mutex_lock(&local->lock);
	const struct local_lease *lease = *find(local, lease_id);
	if (lease) {
		*copy = (struct local_lease){
			.lease_id = berth_strdup(lease->lease_id),
			.image_id = berth_strdup(lease->image_id),
			.answered = lease->answered,
		};
	}
	pthread_mutex_unlock(&local->lock);
	return lease != NULL;
}

int64_t local_lease_sent_ns(struct local *local, const char *lease_id)
{
	pthread_mutex_lock(&local->lock);
	int64_t sent_ns = *find(local, lease_id) ? berth_boot_ns() : local->others_sent_ns;
	pthread_mutex_unlock(&local->lock);
	return sent_ns;
}

void local_lease_put(struct local *local, const char *lease_id, const char *image_id)
{
	struct local_lease *lease = berth_alloc(sizeof *lease);
	*lease = (struct local_lease){
		.lease_id = berth_strdup(lease_id),
		.image_id = berth_strdup(image_id),
	};
	pthread_mutex_lock(&local->lock);
	struct local_lease **place = find(local, lease_id);
	if (*place) {
		unlink_lease(place);
	}
	size_t count = 0;
	for (place = &local->leases; *place; place = &(*place)->next) {
		count++;
	}
	*place = lease;
	if (count >= LOCAL_LEASES_MAX) {
		unlink_lease(&local->leases);
		local->others_sent_ns = berth_boot_ns();
	}
	pthread_mutex_unlock(&local->lock);
}

void local_lease_answered(struct local *local, const char *lease_id)
{
	pthread_mutex_lock(&local->lock);
	struct local_lease *lease = *find(local, lease_id);
	if (lease) {
		lease->answered = true;
	}
	pthread_mutex_unlock(&local->lock);
}

void local_lease_forget(struct local *local, const char *lease_id)
{
	pthread_mutex_lock(&local->lock);
	struct local_lease **place = find(local, lease_id);
	if (*place) {
		unlink_lease(place);
	}
	pthread_mutex_unlock(&local->lock);
}

static struct local_flight **find_flight(struct local *local, const char *key)
{
	struct local_flight **place = &local->flights;
	while (*place && ((*place)->done || strcmp((*place)->key, key) != 0)) {
		place = &(*place)->next;
	}
	return place;
}

// With the lock held: the last one who looks at a flight frees it.
static void leave_flight(struct local *local, struct local_flight *flight)
{
	if (--flight->waiting > 0) {
		return;
	}
	struct local_flight **place = &local->flights;
	while (*place != flight) {
		place = &(*place)->next;
	}
	*place = flight->next;
	free(flight->key);
	free(flight);
}

static void wait_a_little(struct local *local)
{
	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_nsec += LOOK_AT_CANCEL_MS * BERTH_NS_PER_MS;
	at.tv_sec += at.tv_nsec / BERTH_NS_PER_S;
	at.tv_nsec %= BERTH_NS_PER_S;
	pthread_cond_timedwait(&local->landed, &local->lock, &at);
}

static bool lead(struct local *local, struct local_flight *flight,
	bool (*make)(void *context, struct berth_until until, struct berth_error *err), void *context,
	struct berth_until until, struct berth_error *err)
{
	struct berth_error failure = {0};
	bool good = make(context, until, &failure);
	pthread_mutex_lock(&local->lock);
	flight->err = failure;
	flight->done = true;
	pthread_cond_broadcast(&local->landed);
	leave_flight(local, flight);
	pthread_mutex_unlock(&local->lock);
	return good || berth_fail(err, failure.code, "%s", failure.message);
}

// A leader that was stopped says nothing about the image: its followers go on themselves.
static bool leader_was_stopped(const struct berth_error *err)
{
	return err->code == BERTH_ERROR_CANCELLED || err->code == BERTH_ERROR_TIMEOUT;
}

bool local_single_flight(struct local *local, const char *key,
	bool (*make)(void *context, struct berth_until until, struct berth_error *err), void *context,
	struct berth_until until, struct berth_error *err)
{
	for (;;) {
		pthread_mutex_lock(&local->lock);
		struct local_flight **place = find_flight(local, key);
		struct local_flight *flight = *place;
		if (!flight) {
			flight = *place = berth_alloc(sizeof *flight);
			*flight = (struct local_flight){.key = berth_strdup(key), .waiting = 1};
			pthread_mutex_unlock(&local->lock);
			return lead(local, flight, make, context, until, err);
		}
		flight->waiting++;
		while (!flight->done && !berth_until_over(until)) {
			wait_a_little(local);
		}
		bool done = flight->done;
		struct berth_error shared = flight->err;
		leave_flight(local, flight);
		pthread_mutex_unlock(&local->lock);
		if (!done) {
			return berth_fail_until(until, err, "waiting for the same image");
		}
		if (!leader_was_stopped(&shared)) {
			return shared.code == BERTH_ERROR_OK || berth_fail(err, shared.code, "%s", shared.message);
		}
	}
}
