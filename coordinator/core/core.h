// SPDX-License-Identifier: Apache-2.0
// The coordinator's decisions, pure: no I/O, no clock, no randomness. A command and the time come in; events to make
// durable and effects to carry out afterwards come out. `decide` validates against the state and applies what it emits;
// `apply` is the only code that changes durable state, and replaying the log through it gives the same state.
//
// One thread. Effects leave the process only after the events of their batch are synced.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/store/v1/event.pb-c.h"
#include "berth/store/v1/state.pb-c.h"
#include "berth/v1/budget.pb-c.h"
#include "berth/v1/fleet.pb-c.h"
#include "berth/v1/job.pb-c.h"
#include "berth/v1/lease.pb-c.h"
#include "berth/v1/ledger.pb-c.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "coordinator/governor/governor.h"

#define BERTH_HOLD_MS_DEFAULT       (10 * 60 * 1000)
#define BERTH_HOLD_MS_MIN           2000
#define BERTH_MAX_GENERATIONS       5
#define BERTH_PLACE_IDS             64
#define BERTH_AGING_MS_DEFAULT      (10 * 60 * 1000)
#define BERTH_JOB_CELLS_MAX         1000000
#define BERTH_FENCE_EXTRA_MS        5000 // the fencing wait is hold_ms * 1.05 + this
#define BERTH_OPEN_LEASES_NAMED_MAX 100
#define BERTH_EFFECT_REASON_MAX     160

struct berth_core;

struct berth_core_config {
	const char *fleet;
	int64_t hold_ms;
	int64_t heartbeat_ms;
	uint32_t max_generations;
	int64_t aging_ms; // a cell that waits longer than this keeps hosts free for itself
	bool allow_unmetered_local;
	// The public half of the ledger's key (SubjectPublicKeyInfo), which signs incarnations; outlives the core. Size
	// 0: there is none, and agents are believed.
	const uint8_t *ledger_key_der;
	size_t ledger_key_size;
	struct berth_governor_policy
		create_policy; // how fast environments are begun, in the whole fleet; all 0: as they come
};

struct berth_core_now {
	int64_t boot_ns; // liveness and pacing
	int64_t wall_ns; // recorded, and for retry times
};

enum berth_command_kind {
	BERTH_COMMAND_START,
	BERTH_COMMAND_ENROLL,
	BERTH_COMMAND_HELLO,
	BERTH_COMMAND_HEARTBEAT,
	BERTH_COMMAND_REPORT,
	BERTH_COMMAND_PROGRESS,
	BERTH_COMMAND_STREAM_DOWN,
	BERTH_COMMAND_SUBMIT,
	BERTH_COMMAND_CANCEL,
	BERTH_COMMAND_TICK,
	BERTH_COMMAND_PLACE,
	BERTH_COMMAND_CREATE_BUDGET,
	BERTH_COMMAND_AMEND_BUDGET,
	BERTH_COMMAND_KEEP_REPORTS,
	BERTH_COMMAND_BACKUP_VERIFIED,
	BERTH_COMMAND_FORGET_AGENT,
};

// The backup that a ledger goes on from: its head, and why.
struct berth_core_restored {
	uint64_t size;
	struct berth_digest leaf, root;
	const char *reason;
};

// Only the members that the kind names are read. Pointers are borrowed for the call.
struct berth_command {
	enum berth_command_kind kind;
	const char *actor; // "role/name"

	// START
	const uint8_t *nonce; // 16 bytes
	const char *version;
	const struct berth_core_restored *restored; // its first start since it was restored; else NULL

	// ENROLL
	const char *role, *name, *certificate_sha256, *signing_key_id;
	const uint8_t *signing_key_der;
	size_t signing_key_size;

	// HELLO, HEARTBEAT, REPORT, PROGRESS, STREAM_DOWN; FORGET_AGENT
	const char *agent;
	uint64_t session; // unique in this process: which stream of the agent
	const Berth__V1__Hello *hello;
	bool seen_held; // this ledger has hello->seen.leaf_hash at hello->seen.sequence (or nothing was seen);
	                // BACKUP_VERIFIED: it has backup->head
	const Berth__V1__Heartbeat *heartbeat;
	const Berth__V1__Report *report;
	const char *evidence_fault; // of a TrialDone: why its evidence does not verify; NULL when it does
	double reward;              // of a TrialDone: the number under the key "reward", 0 without one
	const Berth__V1__Progress *progress;

	// SUBMIT
	const Berth__V1__SubmitJobRequest *submit;
	const char *job_id;       // fresh
	const uint8_t *name_seed; // 16 fresh bytes
	struct berth_digest request_digest, secrets_digest;
	bool disk_low; // the data disk is under its watermark; `disk_message` says so
	const char *disk_message;

	// CANCEL: job_id (or prefix, or name) and reason; FORGET_AGENT: reason
	const char *reason;

	// PLACE: BERTH_PLACE_IDS fresh ids
	char (*ids)[BERTH_ID_SIZE];

	// CREATE_BUDGET, AMEND_BUDGET
	const Berth__V1__CreateBudgetRequest *create_budget;
	const Berth__V1__AmendBudgetRequest *amend_budget;
	bool signature_ok; // amend_budget->signature verifies under berth_core_amendment_key

	// BACKUP_VERIFIED
	const Berth__V1__FinishBackupRequest *backup;
};

enum berth_effect_kind {
	BERTH_EFFECT_WELCOME,        // to agent: obeys `applied_through`
	BERTH_EFFECT_REFUSE,         // end the agent's stream: code, reason
	BERTH_EFFECT_HEARTBEAT_ACK,  // to agent: sequence
	BERTH_EFFECT_REPORT_ACK,     // to agent: boot_id, sequence
	BERTH_EFFECT_ASSIGN,         // to agent: trial, by job, index and generation
	BERTH_EFFECT_REVOKE,         // to agent: trial, reason
	BERTH_EFFECT_JOB_CHANGED,    // watchers
	BERTH_EFFECT_TRIAL_CHANGED,  // watchers
	BERTH_EFFECT_BUDGET_CHANGED, // watchers
	BERTH_EFFECT_DROP_SECRETS,   // of job: in the same batch as its end
	BERTH_EFFECT_STOP_SERVING,   // a higher incarnation exists
};

struct berth_effect {
	enum berth_effect_kind kind;
	char agent[64];
	char budget[64];
	uint64_t session;
	char job_id[BERTH_ID_SIZE];
	char boot_id[BERTH_ID_SIZE];
	uint32_t index, generation;
	uint64_t sequence;
	enum berth_error_code code;           // REFUSE
	char reason[BERTH_EFFECT_REASON_MAX]; // REFUSE, REVOKE; the last, since a new effect is zeroed only up to here
};

struct berth_outcome {
	Berth__Store__V1__Event **events; // they borrow from the command
	size_t events_count, events_capacity;
	struct berth_arena *memory; // of the events
	void **owned;               // what of them is not in it
	size_t owned_count;
	struct berth_effect *effects;
	size_t effects_count, effects_capacity;
	struct berth_error error;   // code OK: the command was taken
	char job_id[BERTH_ID_SIZE]; // SUBMIT, CANCEL
	bool existed;               // SUBMIT
};
void berth_outcome_clear(struct berth_outcome *outcome);
// Empty again, for another decision: keeps the memory of its lists, unless one grew beyond the usual.
void berth_outcome_reset(struct berth_outcome *outcome);
// The events alone, once they are packed, and before what the command borrows ends: their memory serves the next
// decision while it is still near.
void berth_outcome_drop_events(struct berth_outcome *outcome);

struct berth_core *berth_core_new(const struct berth_core_config *config);
void berth_core_free(struct berth_core *core); // NULL is allowed

// A committed event, at recovery. CORRUPT when it does not fit the state: the log is not one that this code wrote.
bool berth_core_apply(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
void berth_core_decide(struct berth_core *core, const struct berth_command *command, struct berth_core_now now,
	struct berth_outcome *outcome);
// When (boot clock) the next TICK is due: before it time alone changes nothing. INT64_MAX: never.
int64_t berth_core_next_tick_ns(const struct berth_core *core);
// True when trials wait and an agent has room: the caller then decides a PLACE with fresh ids.
bool berth_core_wants_place(const struct berth_core *core, struct berth_core_now now);
// --- records: the durable state as the ledger keeps it beside the log (berth/store/v1/state.proto) ---
// A checkpoint is the state as it was at one event. It is begun at once, taken in portions between other decisions, and
// ended when all of it, with its sequence as the marker, is on disk. What has ended for good then leaves memory: its
// records stay.

// A record has two places, `slot` 0 and 1: a new one takes the place of the older, so that the newest of the last whole
// checkpoint stands until the next is whole.
typedef void berth_core_row_sink(void *context, const char *key, unsigned slot, const void *value, size_t size);

// Records that changed since the last checkpoint began.
size_t berth_core_changed(const struct berth_core *core);
// False when one is under way, or there is nothing yet.
bool berth_core_checkpoint_begin(struct berth_core *core);
// Hands over at most `most` records. When none is left: the sequence of the checkpoint, else 0.
uint64_t berth_core_checkpoint_take(struct berth_core *core, size_t most, berth_core_row_sink *sink, void *context);
void berth_core_checkpoint_end(struct berth_core *core);

typedef bool berth_core_record_visit(void *context, const char *key, unsigned slot, const void *value, size_t size);

struct berth_core_records {
	// Every record whose key starts so, as of the marker and with its place, until visit returns false.
	bool (*scan)(void *context, const char *prefix, berth_core_record_visit *visit, void *visitor,
		struct berth_error *err);
	// The spec in the JobSubmitted of this sequence; the core's from then on.
	Berth__V1__JobSpec *(*spec)(void *context, uint64_t sequence, struct berth_error *err);
	void *context;
};

// A new core as of the marker; the events after it are applied next. CORRUPT names the record.
bool berth_core_load(struct berth_core *core, const struct berth_core_records *records, struct berth_error *err);

// SHA-256 over the records in key order, but those of trials and leases of jobs that are sealed, of settled leases and
// of reservations whose end is final.
struct berth_digest berth_core_digest(const struct berth_core *core);
Berth__V1__Incarnation berth_core_incarnation(const struct berth_core *core); // nonce points into the core

// --- what the service asks; messages are the caller's (protobuf_c_message_free_unpacked) ---

// By id, a prefix of at least six digits that one job has, or a name that one job has.
bool berth_core_find_job(
	const struct berth_core *core, const char *text, char job_id[static BERTH_ID_SIZE], struct berth_error *err);
// What the job would take on, and why it would be refused, if it would; `missing` is left to the caller. disk_message:
// why the disk takes no new job, NULL: it does.
void berth_core_plan(const struct berth_core *core, const Berth__V1__SubmitJobRequest *submit, const char *user,
	const char *disk_message, struct berth_core_now now, Berth__V1__PlanJobResponse *plan);
Berth__V1__Job *berth_core_job(const struct berth_core *core, const char *job_id); // NULL: unknown
// Sequence of the JobSubmitted event: where the whole spec is.
uint64_t berth_core_job_sequence(const struct berth_core *core, const char *job_id);
uint32_t berth_core_job_cells(const struct berth_core *core, const char *job_id);
bool berth_core_job_is_over(const struct berth_core *core, const char *job_id); // all its trials have ended
// Newest first, older than `before` (NULL: from the newest); at most `limit`.
size_t berth_core_jobs(const struct berth_core *core, const char *before, size_t limit, Berth__V1__Job **jobs);
// The trial without its result; *result_sequence is the event that has it, 0 for none. NULL: unknown. `spec` is the
// job's where the caller has read it from its event: an ended job's is not in memory, and its trials have no name
// without it.
Berth__V1__Trial *berth_core_trial(const struct berth_core *core, const char *job_id, uint32_t index,
	const Berth__V1__JobSpec *spec, uint64_t *result_sequence);
// True when the job's trials and leases have left memory: the caller finds their records.
bool berth_core_is_forgotten(const struct berth_core *core, const char *job_id);
// As berth_core_trial, from the records of the trial and its job. Any thread.
Berth__V1__Trial *berth_core_recorded_trial(const Berth__Store__V1__JobRow *job,
	const Berth__Store__V1__TrialRow *trial, const Berth__V1__JobSpec *spec, uint64_t *result_sequence);
// For ASSIGN: the trial's leases as begun. What the message points at is the core's until the next decision, and this
// struct's own. False when the assignment is not current any more.
#define BERTH_RUN_LEASES_MAX 2
struct berth_core_assignment {
	Berth__V1__Assignment message; // without trial_name and secrets: the caller's
	Berth__V1__TrialKey trial;
	Berth__V1__JobSpec spec;
	Berth__V1__Lease *leases[BERTH_RUN_LEASES_MAX];
	Berth__V1__Reservation *reservations[BERTH_RUN_LEASES_MAX]; // of those that are paid for
};
bool berth_core_assignment(const struct berth_core *core, const char *job_id, uint32_t index, uint32_t generation,
	struct berth_core_assignment *assignment);
// The name of a trial of a job that has not ended; the caller frees.
char *berth_core_trial_name(const struct berth_core *core, const char *job_id, uint32_t index);
size_t berth_core_agents(const struct berth_core *core, Berth__V1__Agent **agents, size_t limit);
Berth__V1__Agent *berth_core_agent(const struct berth_core *core, const char *name);
// Keys of what runs on an agent, at most `limit`.
size_t berth_core_agent_trials(
	const struct berth_core *core, const char *name, Berth__V1__TrialKey **keys, size_t limit);
// Orphaned: open, and nothing runs that uses it.
enum berth_core_lease_filter { BERTH_LEASES_ALL, BERTH_LEASES_OPEN, BERTH_LEASES_ORPHANED };
// By lease id after `after`; job_id NULL: every job. A detail for each.
size_t berth_core_leases(const struct berth_core *core, const char *job_id, enum berth_core_lease_filter filter,
	const char *after, size_t limit, Berth__V1__Lease **leases, Berth__V1__LeaseDetail **details);
// By id, or a prefix of at least BERTH_ID_PREFIX_MIN digits that one lease in memory has.
#define BERTH_ID_PREFIX_MIN 6
bool berth_core_lease(const struct berth_core *core, const char *text, Berth__V1__Lease **lease,
	Berth__V1__LeaseDetail **detail, struct berth_error *err);
// The certificate that is in force for a principal; NULL when that name was never enrolled.
const char *berth_core_certificate(const struct berth_core *core, const char *role, const char *name);

// The budget with its blocked trials counted; NULL: unknown.
Berth__V1__Budget *berth_core_budget(const struct berth_core *core, const char *name);
// By name; the list and the messages are the caller's.
size_t berth_core_budgets(const struct berth_core *core, Berth__V1__Budget ***budgets);
// By id after `after` (NULL: from the first); ended ones leave memory and are records from then on.
size_t berth_core_reservations(const struct berth_core *core, const char *budget, bool open_only, const char *after,
	size_t limit, Berth__V1__Reservation **reservations);
// The enrolled key of an operator with this id. False: there is none.
bool berth_core_amendment_key(const struct berth_core *core, const char *key_id, const uint8_t **der, size_t *size);

// --- backups and restores (restore.c) ---

// Reports of the agent's current life that a verified backup covers; *keeps_reports: it must keep the others.
uint64_t berth_core_stable_through(const struct berth_core *core, const char *agent, bool *keeps_reports);
struct berth_core_backup { // the newest that was verified
	uint64_t size;
	struct berth_digest root;
	int64_t verified_at_ns;
	char operator[128];
};
bool berth_core_backup(const struct berth_core *core, struct berth_core_backup *backup); // false: none yet
// Of every agent: reports that the ledger holds, by life. The caller frees each, and the list.
size_t berth_core_applied(const struct berth_core *core, Berth__V1__AppliedReports ***applied);

struct berth_core_restore {
	uint64_t size; // of the backup, here and below
	struct berth_digest leaf, root;
	uint64_t incarnation; // the first that goes on from it
};
// Why this ledger may lack event `seen`, which an agent that obeyed this incarnation saw; NULL: it may not.
const struct berth_core_restore *berth_core_restore_after(
	const struct berth_core *core, const Berth__V1__Incarnation *obeyed, uint64_t seen);
size_t berth_core_restores(const struct berth_core *core, const struct berth_core_restore **restores); // oldest first
// Agents whose streams have not acknowledged yet that reports are kept: how many, and at most `limit` of their names. A
// backup that is copied before may lack a report that its agent drops.
size_t berth_core_unaware(const struct berth_core *core, const char **names, size_t limit);
// Agents that have not resent since the newest restore: how many, and at most `limit` of their names.
size_t berth_core_resending(const struct berth_core *core, const char **names, size_t limit);

// The signing key of an agent. False when it is not enrolled.
bool berth_core_signing_key(const struct berth_core *core, const char *agent, const uint8_t **der, size_t *size);
