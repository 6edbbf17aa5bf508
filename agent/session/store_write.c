// SPDX-License-Identifier: Apache-2.0
// The one thread that writes. While a group is being synced the next one gathers.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/session/store_internal.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

// How long a full disk is waited for. Well below the shortest usual hold, so that nothing runs on unwatched.
#define FULL_DISK_WAIT_S 120

struct agent_write *agent_write_new(void)
{
	return berth_alloc(sizeof(struct agent_write));
}

void agent_write_free(struct agent_write *write)
{
	struct agent_change *change, *after;
	LL_FOREACH_SAFE(write->changes, change, after)
	{
		free(change->key);
		free(change->value);
		free(change);
	}
	berth_proto_free(write->report);
	free(write);
}

void agent_write_report(struct agent_write *write, const Berth__V1__Report *report)
{
	write->report = berth_proto_clone(report);
}

static struct agent_change *add_change(struct agent_write *write, const char *key)
{
	struct agent_change *change = berth_alloc(sizeof *change);
	change->key = berth_strdup(key);
	if (write->last) {
		write->last->next = change;
	} else {
		write->changes = change;
	}
	write->last = change;
	return change;
}

void agent_write_put(struct agent_write *write, const char *key, const void *message)
{
	struct agent_change *change = add_change(write, key);
	struct berth_buf value = {0};
	berth_buf_reserve(&value, 1);
	berth_proto_pack(message, &value);
	change->value = value.data;
	change->size = value.size;
}

void agent_write_delete(struct agent_write *write, const char *key)
{
	add_change(write, key);
}

static void give(struct agent_store *store, struct agent_write *write)
{
	pthread_mutex_lock(&store->lock);
	DL_APPEND(store->pending, write);
	pthread_cond_broadcast(&store->changed);
	while (!write->later && !write->synced) {
		pthread_cond_wait(&store->changed, &store->lock);
	}
	pthread_mutex_unlock(&store->lock);
}

void agent_store_write(struct agent_store *store, struct agent_write *write)
{
	give(store, write);
	agent_write_free(write);
}

void agent_store_write_later(struct agent_store *store, struct agent_write *write)
{
	if (!write->changes && !write->report) {
		agent_write_free(write);
		return;
	}
	write->later = true;
	pthread_mutex_lock(&store->lock);
	DL_APPEND(store->pending, write);
	pthread_cond_broadcast(&store->changed);
	pthread_mutex_unlock(&store->lock);
}

static size_t take_group(struct agent_store *store, struct agent_write *group[static AGENT_STORE_GROUP_MAX])
{
	size_t count = 0;
	pthread_mutex_lock(&store->lock);
	while (!store->pending && !store->closing) {
		pthread_cond_wait(&store->changed, &store->lock);
	}
	while (store->pending && count < AGENT_STORE_GROUP_MAX) {
		group[count++] = store->pending;
		DL_DELETE(store->pending, store->pending);
	}
	pthread_mutex_unlock(&store->lock);
	return count;
}

static void put_report(struct agent_store *store, struct berth_store_batch *batch, Berth__V1__Report *report)
{
	report->sequence = ++store->sequence;
	berth_proto_set_string(&report->boot_id, store->boot_id);
	BERTH_AUTO_FREE char *key =
		berth_format(AGENT_STORE_KEY_OUTBOX "%s/%016" PRIx64, store->boot_id, report->sequence);
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	berth_proto_pack(report, &value);
	berth_store_batch_put(batch, AGENT_STORE_FAMILY, key, strlen(key), value.data, value.size);
}

static void fill(struct agent_store *store, struct berth_store_batch *batch, struct agent_write *write)
{
	if (write->report) {
		put_report(store, batch, write->report);
	}
	struct agent_change *change;
	LL_FOREACH (write->changes, change) {
		if (change->value) {
			berth_store_batch_put(batch, AGENT_STORE_FAMILY, change->key, strlen(change->key),
				change->value, change->size);
		} else {
			berth_store_batch_delete(batch, AGENT_STORE_FAMILY, change->key, strlen(change->key));
		}
	}
}

static void commit(struct agent_store *store, struct berth_store_batch *batch)
{
	struct berth_error err;
	for (int second = 0; !berth_store_commit(store->store, batch, &err); second++) {
		// Room is worth waiting for only while the batch is whole: after a write that failed every other is
		// refused.
		bool whole = berth_store_writable(store->store, NULL);
		if (err.code != BERTH_ERROR_EXHAUSTED || !whole || second == FULL_DISK_WAIT_S) {
			berth_log_error(
				"the agent's store failed; the agent ends", "error=%s", berth_log_quote(err.message));
			_exit(EXIT_FAILURE);
		}
		if (second == 0) {
			berth_log_error("the disk is full; the agent waits", "error=%s", berth_log_quote(err.message));
			berth_store_release_ballast(store->store);
		}
		sleep(1);
	}
}

static void finish(struct agent_store *store, struct agent_write **group, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (group[i]->report && store->options.committed) {
			store->options.committed(store->options.context, group[i]->report);
		}
	}
	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < count; i++) {
		if (group[i]->later) {
			agent_write_free(group[i]);
		} else {
			group[i]->synced = true;
		}
	}
	pthread_cond_broadcast(&store->changed);
	pthread_mutex_unlock(&store->lock);
}

void *agent_store_writer(void *context)
{
	struct agent_store *store = context;
	struct berth_store_batch *batch = berth_store_batch_new(store->store);
	struct agent_write *group[AGENT_STORE_GROUP_MAX];
	size_t count;
	while ((count = take_group(store, group))) {
		agent_store_sign(store, group, count);
		for (size_t i = 0; i < count; i++) {
			fill(store, batch, group[i]);
		}
		commit(store, batch);
		finish(store, group, count);
	}
	berth_store_batch_free(batch);
	return NULL;
}
