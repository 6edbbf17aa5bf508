// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/audit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "berth/store/v1/agent.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/ledger/ledger.h"
#include "tests/sim/audit_internal.h"
#include "tests/sim/check.h"
#include "tests/sim/faults.h"

#define LOG_FAMILY   0   // of the ledger
#define AGENT_FAMILY 0   // the only one of an agent
#define PICK_OPEN    800 // permille

static struct sim_disk *ledger(void)
{
	return sim_disk_of(sim_world.coordinator.ledger_folder);
}

static Berth__Store__V1__Event *event_at(const struct sim_disk *disk, size_t at)
{
	const struct sim_entry *entry = sim_disk_entry(disk, LOG_FAMILY, at);
	return berth_proto_unpack(
		&berth__store__v1__event__descriptor, entry->value, entry->value_size, "an event", NULL);
}

// Everything that is durable by now.
void sim_audit_read(void)
{
	const struct sim_disk *disk = ledger();
	size_t count = sim_disk_count(disk, LOG_FAMILY);
	if (count < audit.last) {
		sim_violation("I3", "the log ends at %zu, and %llu events were durable", count,
			(unsigned long long)audit.last);
	}
	audit.decided_ns = sim_disk_asked_ns(disk);
	while (audit.last < count) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__Event *event = event_at(disk, audit.last++);
		audit_event(event);
	}
}

// --- P7: whom agents obey ---
static void check_obeyed(const struct sim_agent *agent, const struct sim_disk *disk)
{
	const struct sim_entry *entry = sim_disk_find(disk, AGENT_FAMILY, "obeyed", strlen("obeyed"));
	if (!entry) {
		return;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__Obeyed *obeyed = berth_proto_unpack(
		&berth__store__v1__obeyed__descriptor, entry->value, entry->value_size, "obeyed", NULL);
	if (obeyed->incarnation && obeyed->incarnation->nonce.len == 16 &&
		!sim_audit_knows_incarnation(obeyed->incarnation->nonce.data)) {
		sim_violation("P7", "%s obeys a twin, incarnation %llu", agent->name,
			(unsigned long long)obeyed->incarnation->number);
	}
}

bool sim_audit_knows_incarnation(const uint8_t *nonce)
{
	sim_audit_read();
	for (const struct audit_nonce *known = audit.incarnations; known; known = known->next) {
		if (memcmp(known->nonce, nonce, sizeof known->nonce) == 0) {
			return true;
		}
	}
	return false;
}

static void on_synced(struct sim_disk *disk)
{
	if (disk == ledger()) {
		sim_audit_read();
		return;
	}
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		if (strcmp(sim_disk_folder(disk), sim_world.agents[i].store_folder) == 0) {
			check_obeyed(&sim_world.agents[i], disk);
		}
	}
}

// --- I7, I8, P2: before a create, and when it has become a container ---
static struct sim_agent *agent_named(const char *name)
{
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		if (strcmp(sim_world.agents[i].name, name) == 0) {
			return &sim_world.agents[i];
		}
	}
	return NULL;
}

bool sim_audit_is_agent(const char *name)
{
	return agent_named(name) != NULL;
}

static void on_asked(const char *agent, const char *lease_id)
{
	sim_audit_read();
	const struct audit_lease *lease = audit_lease(lease_id);
	const struct audit_enrolled *enrolled = audit_enrolled(agent);
	bool lost = !lease && enrolled && enrolled->resends && audit_was_lost(lease_id, agent);
	if (!lost && (!lease || strcmp(lease->agent, agent) != 0)) {
		sim_violation("I7", "%s creates under lease %.8s, which the log did not give it", agent, lease_id);
		return;
	}
	if (lease && lease->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		sim_violation("P2", "%s creates under lease %.8s, which is retired", agent, lease_id);
	}
	if (lease && lease->paid && !audit_money_is_reserved(lease_id)) {
		sim_violation("I7", "%s creates under lease %.8s, which holds no reservation", agent, lease_id);
	}
	if (sim_docker_was_asked(lease_id)) {
		sim_violation("P2", "%s creates a second time under lease %.8s", agent, lease_id);
	}
	const struct sim_disk *disk = sim_disk_of(agent_named(agent)->store_folder);
	BERTH_AUTO_FREE char *key = berth_format("lease/%s", lease_id);
	const struct sim_entry *entry = sim_disk_find(disk, AGENT_FAMILY, key, strlen(key));
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__HeldLease *held = entry ? berth_proto_unpack(&berth__store__v1__held_lease__descriptor,
							    entry->value, entry->value_size, key, NULL)
	                                          : NULL;
	if (!held || held->lease->state != BERTH__V1__LEASE_STATE__LEASE_DISPATCHING || sim_disk_unsynced(disk)) {
		sim_violation("I8", "%s creates under lease %.8s before its intent is on the disk", agent, lease_id);
	}
}

static void on_born(const char *lease_id)
{
	const struct audit_lease *lease = audit_lease(lease_id);
	if (lease && lease->state == BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
		sim_violation("P2", "a container of lease %.8s appears after the lease was retired", lease_id);
	}
}

// --- what passes between agents and the coordinator ---
static void check_report(const char *agent, const Berth__V1__Report *report)
{
	const struct sim_disk *disk = sim_disk_of(agent_named(agent)->store_folder);
	BERTH_AUTO_FREE char *key = berth_format("outbox/%s/%016" PRIx64, report->boot_id, report->sequence);
	bool durable = sim_disk_find(disk, AGENT_FAMILY, key, strlen(key)) && !sim_disk_unsynced(disk);
	if (!durable && report->sequence > audit_applied(agent, report->boot_id)) {
		sim_violation("P1", "%s sends report %llu, which is not on its disk", agent,
			(unsigned long long)report->sequence);
	}
}

// The first Hello of a life: nothing of the lives before it is left on the
// host.
static void check_hello(struct sim_agent *agent, const Berth__V1__Hello *hello)
{
	if (strcmp(agent->greeted_as, hello->boot_id) == 0) {
		return;
	}
	snprintf(agent->greeted_as, sizeof agent->greeted_as, "%s", hello->boot_id);
	unsigned left = sim_docker_shown(agent->docker);
	if (left) {
		sim_violation("P2",
			"%s says Hello in a new life, and %u containers of an "
			"earlier one are there",
			agent->name, left);
	}
}

// An agent that works for an incarnation has written down that it obeys it.
static void check_heartbeat(struct sim_agent *agent, const Berth__V1__Heartbeat *heartbeat)
{
	bool is_free = heartbeat->accepting && heartbeat->n_running < agent->slots;
	bool goes_on = sim_now() - agent->beat_ns < BEATS_MISSED_MOST * sim_world.heartbeat_ms * INT64_C(1000000);
	agent->free_ns = !is_free ? 0 : agent->free_ns && goes_on ? agent->free_ns : sim_now();
	agent->beat_ns = sim_now();
	const struct sim_disk *disk = sim_disk_of(agent->store_folder);
	if (!sim_disk_find(disk, AGENT_FAMILY, "obeyed", strlen("obeyed"))) {
		sim_violation("P7", "%s obeys a coordinator and has not written it down", agent->name);
	}
}

static void from_agent(const char *agent, const ProtobufCMessage *message)
{
	const Berth__V1__AgentBatch *batch = (const Berth__V1__AgentBatch *)message;
	if (!agent_named(agent)) {
		return; // one that lies
	}
	for (size_t i = 0; message->descriptor == &berth__v1__agent_batch__descriptor && i < batch->n_messages; i++) {
		const Berth__V1__AgentMessage *one = batch->messages[i];
		if (one->body_case == BERTH__V1__AGENT_MESSAGE__BODY_REPORT) {
			check_report(agent, one->report);
		} else if (one->body_case == BERTH__V1__AGENT_MESSAGE__BODY_HELLO) {
			check_hello(agent_named(agent), one->hello);
		} else if (one->body_case == BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT) {
			check_heartbeat(agent_named(agent), one->heartbeat);
		}
	}
}

static void check_head(const Berth__V1__LedgerHead *head)
{
	if (head && head->sequence > audit.last) {
		sim_violation("P5", "a head names event %llu, and %llu are durable", (unsigned long long)head->sequence,
			(unsigned long long)audit.last);
	}
}

static void check_assignment(const char *agent, const Berth__V1__Assignment *assignment)
{
	const struct audit_job *job = audit_job(assignment->trial->job_id);
	const struct audit_cell *cell =
		job && assignment->trial->index < job->cells_count ? &job->cells[assignment->trial->index] : NULL;
	if (!cell || cell->generation < assignment->trial->generation) {
		sim_violation("I4", "%s is given trial %.8s/%u generation %u, which is not durable", agent,
			assignment->trial->job_id, assignment->trial->index, assignment->trial->generation);
	}
}

static void check_message(const char *agent, const Berth__V1__CoordinatorMessage *message)
{
	switch (message->body_case) {
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_WELCOME:
		check_head(message->welcome->head);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_HEARTBEAT_ACK:
		check_head(message->heartbeat_ack->head);
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_REPORT_ACK:
		if (message->report_ack->through > audit_applied(agent, message->report_ack->boot_id)) {
			sim_violation("I3", "report %llu of %s is acknowledged and not durable",
				(unsigned long long)message->report_ack->through, agent);
		}
		break;
	case BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT:
		check_assignment(agent, message->assignment);
		sim_faults_assigned(agent_named(agent)->number);
		break;
	default:
		break;
	}
}

static void to_agent(struct sim_process *coordinator, const char *agent, const ProtobufCMessage *message)
{
	if (coordinator != &sim_world.coordinator.process || !agent_named(agent) ||
		message->descriptor != &berth__v1__coordinator_batch__descriptor) {
		return; // a twin speaks of its own log
	}
	sim_audit_read();
	const Berth__V1__CoordinatorBatch *batch = (const Berth__V1__CoordinatorBatch *)message;
	for (size_t i = 0; i < batch->n_messages; i++) {
		check_message(agent, batch->messages[i]);
	}
}

// --- told by the processes ---
bool sim_audit_is_enrolled(const char *name, const char *certificate)
{
	sim_audit_read();
	const struct audit_enrolled *enrolled = audit_enrolled(name);
	return enrolled && strcmp(enrolled->certificate, certificate) == 0;
}

void sim_audit_submitted(const char *job_id)
{
	sim_audit_read();
	if (!audit_job(job_id)) {
		sim_violation("I4", "job %.8s is answered and not durable", job_id);
	}
}

void sim_audit_cancelled(const char *job_id)
{
	sim_audit_read();
	const struct audit_job *job = audit_job(job_id);
	if (!job || (!job->cancelling && !job->ended)) {
		sim_violation("I4", "the cancel of job %.8s is answered and not durable", job_id);
	}
}

bool sim_audit_has_job(const char *job_id, bool *cancelling)
{
	const struct audit_job *job = audit_job(job_id);
	*cancelling = job && job->cancelling;
	return job;
}

void sim_audit_fenced(void)
{
	sim_violation("P7", "the coordinator was told of a newer incarnation, and "
			    "only a twin can be one");
}

static struct berth_core *replay_from_genesis(void)
{
	struct berth_core_config config = {.fleet = "quay",
		.hold_ms = sim_world.hold_ms,
		.heartbeat_ms = sim_world.heartbeat_ms,
		.max_generations = 6};
	struct berth_core *core = berth_core_new(&config);
	struct berth_error err = {0};
	for (size_t i = 0; i < sim_disk_count(ledger(), LOG_FAMILY); i++) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__Event *event = event_at(ledger(), i);
		if (!berth_core_apply(core, event, &err)) {
			sim_violation("I3", "the log does not replay: %s", err.message);
			break;
		}
	}
	return core;
}

static void compare_counts(const struct berth_core *core)
{
	const struct audit_job *job, *next;
	HASH_ITER (hh, audit.jobs, job, next) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__Job *seen = berth_core_job(core, job->id);
		if (!seen) {
			sim_violation("I4", "job %.8s is durable and unknown after a start", job->id);
			return;
		}
		const Berth__V1__JobCounts *counts = seen->counts;
		uint32_t over = counts->scored + counts->unscored + counts->quarantined + counts->cancelled;
		if (over != job->over_count || counts->total != job->cells_count ||
			over + counts->queued + counts->running + counts->budget_blocked != counts->total) {
			sim_violation("I14", "job %.8s shows %u of %u trials over, and its log %u of %u", job->id, over,
				counts->total, job->over_count, job->cells_count);
		}
	}
}

void sim_audit_started(const struct berth_core *core, void *context)
{
	const struct sim_coordinator *coordinator = context;
	if (coordinator->is_twin || coordinator->process.dead) {
		return;
	}
	sim_audit_read();
	struct berth_core *whole = replay_from_genesis();
	struct berth_digest live = berth_core_digest(core), replayed = berth_core_digest(whole);
	if (!berth_digest_equal(&live, &replayed)) {
		sim_violation("I4", "the state after a start is not the one that the log gives");
	}
	compare_counts(core);
	berth_core_free(whole);
}

void sim_audit_start_failed(struct sim_coordinator *coordinator, const struct berth_error *err)
{
	sim_trace("%s: cannot start: %s", coordinator->process.name, err->message);
	coordinator->failed_starts++;
	if (!coordinator->is_twin && err->code == BERTH_ERROR_CORRUPT) {
		sim_violation("I3", "the coordinator cannot take up its own ledger: %s", err->message);
	}
}

// --- the whole ---
void sim_audit_begin(void)
{
	sim_disks_on_synced(on_synced);
	sim_docker_on_create(on_asked, on_born);
	sim_net_watch(&(struct sim_net_watch){.from_agent = from_agent, .to_agent = to_agent});
}

void sim_audit_end(void)
{
	audit_forget();
	audit_restore_forget();
}

uint64_t sim_audit_events(void)
{
	return audit.last;
}

bool sim_audit_is_current(const char *job_id, uint32_t index, uint32_t generation)
{
	const struct audit_job *job = audit_job(job_id);
	return job && job->cells[index].state == AUDIT_RUNNING && job->cells[index].generation == generation;
}

bool sim_audit_has_paused(void)
{
	const struct audit_job *job, *next;
	HASH_ITER (hh, audit.jobs, job, next) {
		if (job->again) {
			return true;
		}
	}
	return false;
}

bool sim_audit_is_settled(void)
{
	const struct audit_job *job, *next;
	HASH_ITER (hh, audit.jobs, job, next) {
		if (!job->ended || job->open_leases) {
			return false;
		}
	}
	return !sim_audit_resends() && !audit_money_open();
}

void sim_audit_describe(char *text, size_t size)
{
	const struct audit_job *job, *next;
	size_t used = 0;
	text[0] = 0;
	HASH_ITER (hh, audit.jobs, job, next) {
		const struct audit_lease *lease, *next_lease;
		HASH_ITER (hh, audit.leases, lease, next_lease) {
			if (lease->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED && used < size) {
				used += (size_t)snprintf(text + used, size - used, " lease %.8s of %s is in state %d;",
					lease->id, lease->agent, (int)lease->state);
			}
		}
		if ((!job->ended || job->open_leases) && used < size) {
			used += (size_t)snprintf(text + used, size - used,
				" job %.8s %s, %u of %u trials over, %u open leases;", job->id,
				job->ended ? "has ended" : "is open", job->over_count, job->cells_count,
				job->open_leases);
		}
	}
	const char *open = audit_money_open();
	if (open && used < size) {
		snprintf(text + used, size - used, " reservation %.8s is open;", open);
	}
}

bool sim_audit_pick(struct sim_random *random, Berth__V1__TrialKey *trial, char lease_id[static 33])
{
	const struct audit_lease *lease = NULL, *each, *next;
	bool open = sim_random_chance(random, PICK_OPEN);
	uint64_t seen = 0;
	HASH_ITER (hh, audit.leases, each, next) {
		if (open == (each->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED) &&
			!sim_random_below(random, ++seen)) {
			lease = each;
		}
	}
	if (lease) {
		trial->job_id = lease->job->id;
		trial->index = lease->index;
		trial->generation = lease->generation;
		snprintf(lease_id, 33, "%s", lease->id);
	}
	return lease;
}

// F8, F9: a flipped bit in a stored event, one that is stored in another's place, and one that was never stored are
// found.
static const char *damage(struct sim_disk *copy, struct sim_random *random, size_t *at)
{
	size_t count = sim_disk_count(copy, LOG_FAMILY);
	*at = (size_t)sim_random_below(random, count);
	size_t other = (*at + 1) % count;
	switch (sim_random_below(random, count > 1 ? 3 : 1)) {
	case 0:
		sim_disk_flip(copy, LOG_FAMILY, *at, (size_t)sim_random_below(random, 1 << 20));
		return "a flipped bit";
	case 1:
		sim_disk_misdirect(copy, LOG_FAMILY, other, *at);
		return "a misdirected write";
	default:
		sim_disk_lose(copy, LOG_FAMILY, *at);
		return "a lost write";
	}
}

static void check_damage(struct sim_disk *copy, struct sim_random *random)
{
	size_t at;
	const char *what = damage(copy, random, &at);
	struct berth_error err = {0};
	BERTH_AUTO_FREE char *folder = berth_format("%s/flipped", sim_world.coordinator.folder);
	struct berth_ledger_options options = {0};
	struct berth_ledger *opened = berth_ledger_open(folder, &options, &err);
	if (opened && berth_ledger_verify(opened, &err)) {
		sim_violation("P5", "%s of event %zu is not found", what, at + 1);
	}
	berth_ledger_close(opened);
}

void sim_audit_whole(void)
{
	audit_money_whole();
	audit_restore_whole();
	struct sim_random random = sim_random_stream(sim_world.seed, SIM_STREAM_WORLD + 300);
	if (!sim_disk_count(ledger(), LOG_FAMILY)) {
		return;
	}
	BERTH_AUTO_FREE char *folder = berth_format("%s/flipped/ledger", sim_world.coordinator.folder);
	struct sim_disk *copy = sim_disk_of(folder);
	sim_disk_copy(ledger(), copy);
	check_damage(copy, &random);
}
