// SPDX-License-Identifier: Apache-2.0
// The state digest: SHA-256 over the durable records in key order. What is volatile, or only says when a cell may run
// again, is not in it; replaying the log from its first event gives the same digest.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

struct record {
	char *key;
	struct berth_buf value;
};

struct records {
	struct record *items;
	size_t count;
};

static struct berth_buf *add(struct records *records, char *key)
{
	records->items = berth_realloc_array(records->items, records->count + 1, sizeof *records->items);
	records->items[records->count] = (struct record){.key = key};
	return &records->items[records->count++].value;
}

static void add_number(struct berth_buf *buf, uint64_t number)
{
	for (int shift = 56; shift >= 0; shift -= 8) {
		berth_buf_add_byte(buf, (uint8_t)(number >> shift));
	}
}

static void add_text(struct berth_buf *buf, const char *text)
{
	add_number(buf, text ? strlen(text) + 1 : 0);
	berth_buf_add_text(buf, text ? text : "");
}

static void add_job(struct records *records, const struct job *job)
{
	struct berth_buf *buf = add(records, berth_format("job/%s", job->id));
	add_text(buf, job->name);
	add_text(buf, job->client_key);
	add_text(buf, job->submitter);
	add_text(buf, job->reason);
	add_number(buf, job->state);
	add_number(buf, (uint64_t)job->submitted_at_ns);
	add_number(buf, (uint64_t)job->ended_at_ns);
	add_number(buf, job->sequence);
	add_number(buf, job->cells_count);
	berth_buf_add(buf, job->request_digest.bytes, BERTH_DIGEST_SIZE);
	for (uint32_t i = 0; i < job->cells_count; i++) {
		const struct cell *cell = &job->cells[i];
		struct berth_buf *row = add(records, berth_format("trial/%s/%08x", job->id, i));
		add_number(row, cell->state);
		add_number(row, cell->generation);
		add_number(row, cell->failures);
		add_number(row, cell->retries);
		add_number(row, cell->errored);
		add_number(row, cell->result_sequence);
		add_number(row, (uint64_t)cell->assigned_at_ns);
		uint64_t reward;
		memcpy(&reward, &cell->reward, sizeof reward);
		add_number(row, reward);
		add_text(row, cell->agent ? cell->agent->name : NULL);
	}
}

static void add_agent(struct records *records, const struct agent *agent)
{
	struct berth_buf *buf = add(records, berth_format("agent/%s", agent->name));
	add_text(buf, agent->certificate_sha256);
	add_text(buf, agent->boot_id);
	add_text(buf, agent->daemon_id);
	add_text(buf, agent->platform);
	add_number(buf, agent->capacity.cpus);
	add_number(buf, agent->capacity.memory_mb);
	add_number(buf, agent->capacity.slots);
	berth_buf_add(buf, agent->signing_key_der, agent->signing_key_size);
	const struct boot *boot;
	LL_FOREACH (agent->boots, boot) {
		add_number(add(records, berth_format("report/%s/%s", agent->name, boot->id)), boot->applied_through);
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct record *)a)->key, ((const struct record *)b)->key);
}

static struct berth_digest finish(struct records *records)
{
	qsort(records->items, records->count, sizeof *records->items, compare);
	struct berth_hasher *hasher = berth_hasher_new();
	for (size_t i = 0; i < records->count; i++) {
		struct record *record = &records->items[i];
		berth_hasher_add(hasher, record->key, strlen(record->key) + 1);
		berth_hasher_add(hasher, record->value.data, record->value.size);
		free(record->key);
		berth_buf_free(&record->value);
	}
	free(records->items);
	return berth_hasher_finish(hasher);
}

struct berth_digest berth_core_digest(const struct berth_core *core)
{
	struct records records = {0};
	struct berth_buf *self = add(&records, berth_strdup("coordinator"));
	add_number(self, core->incarnation_number);
	berth_buf_add(self, core->incarnation_nonce, sizeof core->incarnation_nonce);
	add_number(self, core->last_sequence);
	const struct job *job;
	DL_FOREACH (core->jobs, job) {
		add_job(&records, job);
	}
	const struct agent *agent, *next_agent;
	HASH_ITER (hh, core->agents, agent, next_agent) {
		add_agent(&records, agent);
	}
	const struct person *person, *next_person;
	HASH_ITER (hh, core->people, person, next_person) {
		add_text(add(&records, berth_format("person/%s", person->name)), person->certificate_sha256);
	}
	const struct lease *lease, *next_lease;
	HASH_ITER (hh, core->leases, lease, next_lease) {
		berth_proto_pack(lease->record, add(&records, berth_format("lease/%s", lease->record->lease_id)));
	}
	return finish(&records);
}
