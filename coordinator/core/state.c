// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/state.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/task/task.h"

struct berth_core *berth_core_new(const struct berth_core_config *config)
{
	struct berth_core *core = berth_alloc(sizeof *core);
	core->config = *config;
	snprintf(core->fleet, sizeof core->fleet, "%s", config->fleet);
	core->config.fleet = core->fleet;
	core->epoch = 1;
	core->budgets = berth_budgets_new();
	return core;
}

void core_free_notes(struct cell *cell)
{
	struct note *note, *next;
	LL_FOREACH_SAFE(cell->notes, note, next)
	{
		free(note);
	}
}

void core_forget_cells(struct job *job)
{
	for (uint32_t i = 0; job->cells && i < job->cells_count; i++) {
		core_free_notes(&job->cells[i]);
		berth_proto_free(job->cells[i].deferred);
	}
	free(job->cells);
	free(job->agent_running);
	job->cells = NULL;
	job->agent_running = NULL;
}

static void free_job(struct job *job)
{
	core_forget_cells(job);
	berth_proto_compact_free(job->spec);
	free(job->ready.items);
	free(job->prices);
	free(job->blocked_reason);
	free(job->name);
	free(job->client_key);
	free(job->submitter);
	free(job->reason);
	free(job->key);
	free(job);
}

static void free_agent(struct agent *agent)
{
	struct boot *boot, *next;
	LL_FOREACH_SAFE(agent->boots, boot, next)
	{
		free(boot);
	}
	free(agent->signing_key_der);
	free(agent->daemon_id);
	free(agent->platform);
	free(agent->version);
	free(agent);
}

void berth_core_free(struct berth_core *core)
{
	if (!core) {
		return;
	}
	struct job *job, *next_job;
	HASH_CLEAR(by_id, core->jobs_by_id);
	HASH_CLEAR(by_key, core->jobs_by_key);
	DL_FOREACH_SAFE (core->jobs, job, next_job) {
		free_job(job);
	}
	struct agent *agent, *next_agent;
	HASH_ITER (hh, core->agents, agent, next_agent) {
		HASH_DEL(core->agents, agent);
		free_agent(agent);
	}
	struct person *person, *next_person;
	HASH_ITER (hh, core->people, person, next_person) {
		HASH_DEL(core->people, person);
		free(person->signing_key_der);
		free(person);
	}
	struct lease *lease, *next_lease;
	HASH_ITER (hh, core->leases, lease, next_lease) {
		HASH_DEL(core->leases, lease);
		berth_proto_free(lease->record);
		free(lease);
	}
	rows_free(core);
	berth_budgets_free(core->budgets);
	free(core->restores);
	pace_free(core);
	free(core);
}

void core_make_cells(struct job *job)
{
	size_t size = job->cells_count * sizeof *job->cells;
	job->cells = memset(berth_alloc_large(size), 0, size);
	job->agent_running = berth_alloc(job->agents_count * sizeof *job->agent_running);
	job->ready = (struct queue){
		.items = berth_alloc(job->cells_count * sizeof *job->ready.items), .size = job->cells_count};
	for (uint32_t i = 0; i < job->cells_count; i++) {
		job->cells[i].job = job;
		job->cells[i].index = i;
		job->cells[i].state = BERTH__V1__TRIAL_STATE__TRIAL_QUEUED;
	}
}

void core_add_job(struct berth_core *core, struct job *job)
{
	job->key_size = strlen(job->submitter) + 1 + strlen(job->client_key);
	job->key = berth_alloc(job->key_size + 1);
	memcpy(job->key, job->submitter, strlen(job->submitter) + 1);
	memcpy(job->key + strlen(job->submitter) + 1, job->client_key, strlen(job->client_key));
	HASH_ADD(by_id, core->jobs_by_id, id, BERTH_ID_SIZE - 1, job);
	HASH_ADD_KEYPTR(by_key, core->jobs_by_key, job->key, job->key_size, job);
	DL_APPEND(core->jobs, job);
	if (!job->ended_at_ns) {
		DL_APPEND2(core->open_jobs, job, open_prev, open_next);
	}
}

struct job *core_job(const struct berth_core *core, const char *id)
{
	struct job *job = NULL;
	HASH_FIND(by_id, core->jobs_by_id, id, strlen(id), job);
	return job;
}

struct agent *core_agent(const struct berth_core *core, const char *name)
{
	struct agent *agent = NULL;
	HASH_FIND_STR(core->agents, name, agent);
	return agent;
}

struct lease *core_lease(const struct berth_core *core, const char *id)
{
	struct lease *lease = NULL;
	HASH_FIND(hh, core->leases, id, strlen(id), lease);
	return lease;
}

struct cell *core_cell(const struct berth_core *core, const Berth__V1__TrialKey *key)
{
	struct job *job = key ? core_job(core, key->job_id) : NULL;
	return job && job->cells && key->index < job->cells_count ? &job->cells[key->index] : NULL;
}

struct boot *core_boot(const struct agent *agent, const char *id)
{
	struct boot *boot;
	LL_FOREACH (agent->boots, boot) {
		if (strcmp(boot->id, id) == 0) {
			return boot;
		}
	}
	return NULL;
}

uint32_t cell_agent(const struct cell *cell)
{
	return cell->index % cell->job->agents_count;
}

uint32_t cell_task(const struct cell *cell)
{
	return cell->index / cell->job->agents_count % cell->job->tasks_count;
}

uint32_t cell_attempt(const struct cell *cell)
{
	return cell->index / cell->job->agents_count / cell->job->tasks_count;
}

uint32_t spec_cpus(const Berth__V1__JobSpec *spec, const Berth__V1__Task *task)
{
	uint32_t cpus = spec->override_cpus > 0 ? (uint32_t)spec->override_cpus : task->cpus;
	return cpus ? cpus : 1; // a task that declares nothing takes its share of one
}

uint64_t spec_memory_mb(const Berth__V1__JobSpec *spec, const Berth__V1__Task *task)
{
	return spec->override_memory_mb > 0 ? (uint64_t)spec->override_memory_mb : task->memory_mb;
}

uint32_t cell_cpus(const struct cell *cell)
{
	return spec_cpus(cell->job->spec, cell->job->spec->tasks[cell_task(cell)]);
}

uint64_t cell_memory_mb(const struct cell *cell)
{
	return spec_memory_mb(cell->job->spec, cell->job->spec->tasks[cell_task(cell)]);
}

bool cell_is_over(const struct cell *cell)
{
	return cell->state != BERTH__V1__TRIAL_STATE__TRIAL_QUEUED &&
	       cell->state != BERTH__V1__TRIAL_STATE__TRIAL_RUNNING &&
	       cell->state != BERTH__V1__TRIAL_STATE__TRIAL_BUDGET_BLOCKED;
}

char *cell_name(const struct cell *cell, const Berth__V1__JobSpec *spec)
{
	if (!spec) {
		return NULL;
	}
	uint8_t seed[sizeof cell->job->name_seed + 4];
	memcpy(seed, cell->job->name_seed, sizeof cell->job->name_seed);
	for (size_t i = 0; i < 4; i++) {
		seed[sizeof cell->job->name_seed + i] = (uint8_t)(cell->index >> (24 - 8 * i));
	}
	struct berth_digest random = berth_sha256(seed, sizeof seed);
	return berth_trial_name(spec->tasks[cell_task(cell)]->base_name, random.bytes);
}

void queue_push(struct queue *queue, uint32_t item)
{
	queue->items[(queue->head + queue->count++) % queue->size] = item;
}

void queue_push_front(struct queue *queue, uint32_t item)
{
	queue->head = (queue->head + queue->size - 1) % queue->size;
	queue->items[queue->head] = item;
	queue->count++;
}

uint32_t queue_at(const struct queue *queue, uint32_t position)
{
	return queue->items[(queue->head + position) % queue->size];
}

void queue_remove(struct queue *queue, uint32_t position)
{
	// Placement takes from the first few positions, so what stands before the gap moves up.
	for (uint32_t i = position; i > 0; i--) {
		queue->items[(queue->head + i) % queue->size] = queue_at(queue, i - 1);
	}
	queue->head = (queue->head + 1) % queue->size;
	queue->count--;
}

#define FROM(state) (1u << BERTH__V1__LEASE_STATE__LEASE_##state)

bool lease_may_move(Berth__V1__LeaseState from, Berth__V1__LeaseState to, Berth__V1__DeathProof proof)
{
	// to, from which states; retiring needs a proof that fits the state it leaves.
	static const unsigned allowed[] = {
		[BERTH__V1__LEASE_STATE__LEASE_DISPATCHING] = FROM(CREATING) | FROM(DISPATCHING),
		[BERTH__V1__LEASE_STATE__LEASE_ACTIVE] = FROM(DISPATCHING) | FROM(ACTIVE),
		[BERTH__V1__LEASE_STATE__LEASE_CLEANUP_FAILED] =
			FROM(CREATING) | FROM(DISPATCHING) | FROM(ACTIVE) | FROM(CLEANUP_FAILED),
		[BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED] =
			FROM(CREATING) | FROM(DISPATCHING) | FROM(ACTIVE) | FROM(CLEANUP_FAILED),
		[BERTH__V1__LEASE_STATE__LEASE_RETIRED] =
			FROM(CREATING) | FROM(DISPATCHING) | FROM(ACTIVE) | FROM(KILL_PROVED) | FROM(CLEANUP_FAILED),
	};
	if (to >= BERTH_COUNT(allowed) || !(allowed[to] & 1u << from)) {
		return false;
	}
	if (to != BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		return true;
	}
	static const unsigned proof_from[] = {
		[BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED] = FROM(CREATING) | FROM(DISPATCHING),
		[BERTH__V1__DEATH_PROOF__REJECTED] = FROM(DISPATCHING),
		[BERTH__V1__DEATH_PROOF__ABSENCE_SEEN] = FROM(KILL_PROVED),
		[BERTH__V1__DEATH_PROOF__EXPIRY_PASSED] = FROM(DISPATCHING) | FROM(CLEANUP_FAILED),
		[BERTH__V1__DEATH_PROOF__GIVEN_UP] =
			FROM(CREATING) | FROM(DISPATCHING) | FROM(ACTIVE) | FROM(KILL_PROVED) | FROM(CLEANUP_FAILED),
	};
	return proof < BERTH_COUNT(proof_from) && (proof_from[proof] & 1u << from);
}

#define PROVIDER_SKEW_NS (30 * BERTH_NS_PER_S)

// When a provider has ended what the lease stands for, by its own bound and whatever its clock says; 0: never. What was
// observed of the resource goes before what its create asked for.
static int64_t gone_by_ns(const Berth__V1__Lease *lease)
{
	int64_t end_ns = lease->expected_end_at_ns;
	if (!end_ns) {
		return lease->provider_expiry_at_ns;
	}
	return end_ns > INT64_MAX - PROVIDER_SKEW_NS ? INT64_MAX : end_ns + PROVIDER_SKEW_NS;
}

const char *lease_move_fault(const Berth__V1__Lease *lease, const Berth__V1__LeaseMove *move, int64_t wall_ns)
{
	if (!lease_may_move(lease->state, move->state, move->proof)) {
		return "the lease may not move so";
	}
	int64_t expiry_ns = move->provider_expiry_at_ns, end_ns = move->expected_end_at_ns;
	if ((expiry_ns && expiry_ns <= lease->created_at_ns) || (end_ns && end_ns <= lease->created_at_ns)) {
		return "the lease cannot end before it began";
	}
	int64_t gone_ns = gone_by_ns(lease);
	bool by_expiry = move->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED &&
	                 move->proof == BERTH__V1__DEATH_PROOF__EXPIRY_PASSED;
	return by_expiry && (!gone_ns || wall_ns < gone_ns) ? "the provider's bound is not over" : NULL;
}

bool lease_is_open(const Berth__V1__Lease *lease)
{
	return lease->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED;
}

Berth__V1__Incarnation berth_core_incarnation(const struct berth_core *core)
{
	Berth__V1__Incarnation incarnation = BERTH__V1__INCARNATION__INIT;
	incarnation.number = core->incarnation_number;
	incarnation.nonce.data = (uint8_t *)core->incarnation_nonce;
	incarnation.nonce.len = sizeof core->incarnation_nonce;
	return incarnation;
}
