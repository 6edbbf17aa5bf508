// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/session/store_internal.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/codec/proto.h"

#define DISK_FREE_MIN_BYTES (32 * 1024 * 1024)
#define BALLAST_BYTES       (16 * 1024 * 1024)
#define LIFE_DIGITS         16

static bool get(
	struct agent_store *store, const char *key, struct berth_buf *value, bool *found, struct berth_error *err)
{
	struct berth_error failure;
	*found = berth_store_get(store->store, AGENT_STORE_FAMILY, key, strlen(key), value, &failure);
	if (!*found && failure.code != BERTH_ERROR_NOT_FOUND) {
		return berth_fail(err, failure.code, "cannot read %s: %s", key, failure.message);
	}
	return true;
}

// The number of this life comes first in its boot id, so that keys of the outbox sort by age.
static bool begin_life(struct agent_store *store, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	bool found;
	if (!get(store, AGENT_STORE_KEY_LIFE, &value, &found, err)) {
		return false;
	}
	uint64_t life = found ? strtoull(berth_buf_text(&value), NULL, 16) + 1 : 1;
	char random[BERTH_ID_SIZE];
	berth_random_id(random);
	snprintf(store->boot_id, sizeof store->boot_id, "%016" PRIx64 "%.16s", life, random);
	struct berth_store_batch *batch = berth_store_batch_new(store->store);
	berth_store_batch_put(batch, AGENT_STORE_FAMILY, AGENT_STORE_KEY_LIFE, strlen(AGENT_STORE_KEY_LIFE),
		store->boot_id, LIFE_DIGITS);
	bool done = berth_store_commit(store->store, batch, err);
	berth_store_batch_free(batch);
	return done;
}

static bool name_key(struct agent_store *store, struct berth_error *err)
{
	BERTH_AUTO_FREE uint8_t *public_der = NULL;
	size_t size;
	if (!store->options.signing_key) {
		return true;
	}
	if (!berth_signing_key_public(store->options.signing_key, &public_der, &size, err)) {
		return false;
	}
	berth_signing_key_id(public_der, size, store->key_id);
	return true;
}

static void free_store(struct agent_store *store)
{
	agent_store_free_leases(store);
	berth_store_close(store->store);
	pthread_cond_destroy(&store->changed);
	pthread_mutex_destroy(&store->lock);
	free(store);
}

struct agent_store *agent_store_open(const struct agent_store_options *options, struct berth_error *err)
{
	static const char *const families[] = {"agent", NULL};
	struct berth_store_options store_options = {.families = families,
		.disk_free_min_bytes = DISK_FREE_MIN_BYTES,
		.ballast_bytes = BALLAST_BYTES,
		.cut_tail = options->cut_tail};
	struct agent_store *store = berth_alloc(sizeof *store);
	store->options = *options;
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->changed, NULL);
	store->store = berth_store_open(options->folder, &store_options, err);
	if (!store->store && err->code == BERTH_ERROR_CORRUPT && !options->cut_tail) {
		berth_error_wrap(err,
			"this agent's state is damaged; after a power cut, and only then, start once with "
			"--cut-tail");
	}
	if (!store->store || !name_key(store, err) || !begin_life(store, err) || !agent_store_load_leases(store, err) ||
		!berth_thread_start(&store->writer, "store", agent_store_writer, store, err)) {
		free_store(store);
		return NULL;
	}
	return store;
}

void agent_store_close(struct agent_store *store)
{
	if (!store) {
		return;
	}
	pthread_mutex_lock(&store->lock);
	store->closing = true;
	pthread_cond_broadcast(&store->changed);
	pthread_mutex_unlock(&store->lock);
	pthread_join(store->writer, NULL);
	free_store(store);
}

const char *agent_store_boot_id(const struct agent_store *store)
{
	return store->boot_id;
}

Berth__Store__V1__Obeyed *agent_store_obeyed(struct agent_store *store)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
	bool found;
	if (!get(store, AGENT_STORE_KEY_OBEYED, &value, &found, NULL) || !found) {
		return NULL;
	}
	return berth_proto_unpack(&berth__store__v1__obeyed__descriptor, value.data, value.size, "obeyed", NULL);
}

void agent_store_save_obeyed(struct agent_store *store, const Berth__Store__V1__Obeyed *obeyed, bool later)
{
	struct agent_write *write = agent_write_new();
	agent_write_put(write, AGENT_STORE_KEY_OBEYED, obeyed);
	if (later) {
		agent_store_write_later(store, write);
	} else {
		agent_store_write(store, write);
	}
}

char *agent_store_finished_key(const Berth__V1__TrialKey *trial)
{
	return berth_format(AGENT_STORE_KEY_DONE "%s/%08x/%08x", trial->job_id, trial->index, trial->generation);
}

// --- reading records of one kind ---
struct reading {
	const ProtobufCMessageDescriptor *type;
	agent_store_visit *visit;
	void *context;
	struct berth_error *err;
	bool failed;
};

static bool read_record(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct reading *reading = context;
	BERTH_AUTO_FREE char *name = berth_strndup(key, key_size);
	BERTH_AUTO(berth_proto_cleanup)
	void *message = berth_proto_unpack(reading->type, value, value_size, name, reading->err);
	reading->failed = !message;
	if (message) {
		reading->visit(reading->context, message);
	}
	return message != NULL;
}

static bool each(struct agent_store *store, const char *prefix, struct reading *reading)
{
	size_t size = strlen(prefix);
	return berth_store_scan(store->store, AGENT_STORE_FAMILY, prefix, size, prefix, size, read_record, reading,
		       reading->err) &&
	       !reading->failed;
}

bool agent_store_each_report(
	struct agent_store *store, agent_store_visit *visit, void *context, struct berth_error *err)
{
	struct reading reading = {
		.type = &berth__v1__report__descriptor, .visit = visit, .context = context, .err = err};
	return each(store, AGENT_STORE_KEY_OUTBOX, &reading);
}

bool agent_store_each_finished(
	struct agent_store *store, agent_store_visit *visit, void *context, struct berth_error *err)
{
	struct reading reading = {
		.type = &berth__store__v1__finished_trial__descriptor, .visit = visit, .context = context, .err = err};
	return each(store, AGENT_STORE_KEY_DONE, &reading);
}

static void take_lease(void *context, const void *message)
{
	struct agent_store *store = context;
	struct agent_held *held = berth_alloc(sizeof *held);
	held->record = berth_proto_clone(message);
	held->next = store->held;
	store->held = held;
}

bool agent_store_load_leases(struct agent_store *store, struct berth_error *err)
{
	struct reading reading = {
		.type = &berth__store__v1__held_lease__descriptor, .visit = take_lease, .context = store, .err = err};
	return each(store, AGENT_STORE_KEY_LEASE, &reading);
}

// --- dropping reports ---
struct dropping {
	struct agent_write *write;
	char *last; // key
};

static bool drop_record(void *context, const void *key, size_t key_size, const void *value, size_t value_size)
{
	(void)value;
	(void)value_size;
	struct dropping *dropping = context;
	BERTH_AUTO_FREE char *name = berth_strndup(key, key_size);
	if (strcmp(name, dropping->last) > 0) {
		return false;
	}
	agent_write_delete(dropping->write, name);
	return true;
}

void agent_store_drop_reports(struct agent_store *store, const char *boot_id, uint64_t through)
{
	BERTH_AUTO_FREE char *prefix = berth_format(AGENT_STORE_KEY_OUTBOX "%s/", boot_id);
	BERTH_AUTO_FREE char *last = berth_format("%s%016" PRIx64, prefix, through);
	struct dropping dropping = {.write = agent_write_new(), .last = last};
	// A report that could not be read now is dropped with the next ones: the coordinator knows it already.
	berth_store_scan(store->store, AGENT_STORE_FAMILY, prefix, strlen(prefix), prefix, strlen(prefix), drop_record,
		&dropping, NULL);
	agent_store_write_later(store, dropping.write);
}
