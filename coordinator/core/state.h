// SPDX-License-Identifier: Apache-2.0
// The coordinator's state, for the files of this folder only. Durable members change in apply.c alone; what is marked
// volatile is rebuilt after a start and never replayed.
#pragma once

#include <utlist.h>

#include "common/base/buf.h"
#include "common/base/table.h"
#include "coordinator/budget/budget.h"
#include "coordinator/budget/resource_class.h"
#include "coordinator/core/core.h"

#define BERTH_NAME_SIZE        64
#define BERTH_IMAGES_KEPT      64 // environment ids that an agent is remembered to have run
#define BERTH_PHASE_SIZE       32
#define BERTH_NOTE_DETAIL_SIZE 200

struct job;
struct agent;

// Of an object that has a record: the epoch (core->epoch) in which it changed last and was noted as such (0: what is
// recorded is what it is), and in which of its two places its newest record is.
struct recorded {
	uint32_t changed_in;
	uint8_t slot;
};

enum row_kind { ROW_AGENT, ROW_PERSON, ROW_JOB, ROW_TRIAL, ROW_LEASE, ROW_MONEY };

struct row_ref {
	enum row_kind kind;
	void *object;
};

struct row_refs {
	struct row_ref *items;
	size_t count, capacity;
};

struct row { // a packed record
	char *key;
	uint8_t slot; // where it goes
	struct berth_buf value;
};

struct rows {
	struct row *items;
	size_t count, capacity;
};

struct note { // why an earlier generation was run again
	uint32_t generation;
	Berth__Store__V1__UnassignReason reason;
	char detail[BERTH_NOTE_DETAIL_SIZE];
	struct note *next;
};

struct cell {
	struct job *job;
	uint32_t index;
	uint32_t generation; // of the newest assignment; 0: never assigned
	struct recorded recorded;
	uint8_t state;    // Berth__V1__TrialState
	uint8_t failures; // generations that the fleet lost
	bool errored;
	uint32_t retries; // by Harbor's policy
	double reward;
	uint64_t result_sequence;
	int64_t assigned_at_ns;
	int64_t not_before_ns; // wall clock: queued, and waits until then
	struct note *notes;
	struct agent *agent; // while running
	struct agent *last_agent;
	struct lease *leases;     // of the newest generation
	struct cell *prev, *next; // in agent->running, job->delayed or core->deferred
	// Its result, which waits in core->deferred: the cell is running, and on no agent. NULL: none.
	Berth__Store__V1__TrialEnded *deferred;
	// volatile
	uint64_t sent_session;  // stream on which the assignment was sent
	uint64_t unlisted_beat; // first heartbeat in a row that did not list it; 0: none
	bool delayed;           // in job->delayed, not in job->ready
	int64_t due_boot_ns;    // until then: a wall clock that steps back must not make it wait longer
	int64_t queued_boot_ns;
	char phase[BERTH_PHASE_SIZE];
};

struct queue { // of cell indexes, a ring with room for every cell of the job
	uint32_t *items;
	uint32_t head, count, size;
};

struct job {
	char id[BERTH_ID_SIZE];
	char *name, *client_key, *submitter, *reason;
	Berth__V1__JobSpec *spec; // NULL once the job has ended
	uint8_t name_seed[16];
	struct berth_digest request_digest;
	Berth__V1__JobState state;
	int64_t submitted_at_ns, ended_at_ns;
	uint64_t sequence;  // of its JobSubmitted
	struct cell *cells; // NULL once they are forgotten
	uint32_t cells_count, tasks_count, agents_count;
	struct recorded recorded;
	uint64_t sealed_at; // the event after which nothing of it changes any more; 0: not yet
	uint32_t counts[BERTH__V1__TRIAL_STATE__TRIAL_BUDGET_BLOCKED + 1]; // by trial state
	uint32_t errored;
	double reward_sum;
	uint32_t open_leases;
	uint32_t *agent_running; // by agent config
	uint32_t running_cpus;
	uint32_t forfeits; // of its reservations that may be appealed
	int64_t *prices;   // by task, then agent: what one run holds at most; NULL: it names no budget, or has ended
	struct queue ready;
	struct cell *delayed; // queued with a time to wait for; volatile, as is the order of what waits
	// volatile: why its budget had no room for a run, NULL while none was refused, and from which price on
	char *blocked_reason;
	int64_t unpayable_nano_usd;
	struct job *prev, *next;           // oldest first
	struct job *open_prev, *open_next; // likewise, until it has ended
	UT_hash_handle by_id, by_key;
	char *key; // submitter, NUL, client key: of by_key
	size_t key_size;
};

struct lease {
	Berth__V1__Lease *record;
	struct recorded recorded;
	struct job *job;
	struct agent *agent;
	struct lease *next_of_cell;
	struct lease *prev, *next; // in agent->fresh while CREATING
	// volatile
	int64_t begun_boot_ns;            // 0: in an earlier life of the coordinator
	uint64_t idle_session, idle_beat; // the heartbeat from which on its agent was told of nothing that could use it
	bool of_older_life;               // of its agent
	UT_hash_handle hh;
};

struct boot { // reports applied of one life of an agent
	char id[BERTH_ID_SIZE];
	uint64_t applied_through;
	struct boot *next;
};

struct agent {
	char name[BERTH_NAME_SIZE];
	char certificate_sha256[BERTH_DIGEST_HEX_SIZE];
	struct recorded recorded;
	uint8_t *signing_key_der;
	size_t signing_key_size;
	char boot_id[BERTH_ID_SIZE]; // empty: never seen
	char *daemon_id, *platform, *version;
	Berth__V1__Capacity capacity;
	struct boot *boots;
	struct boot stable; // reports that a verified backup covers
	bool resending;     // since the newest restore
	bool forgotten;     // by an operator: not enrolled any more
	int64_t hold_ms;    // that it may still go by; 0: not noted
	struct cell *running;
	struct lease *fresh; // leases of which no mark was reported yet
	uint32_t running_count, running_cpus, open_leases;
	uint64_t running_memory_mb;
	// volatile
	uint64_t session; // 0: no stream
	bool ready;       // the first heartbeat of this stream has come
	bool accepting;
	bool lost; // silent past the fencing wait
	// Whether this stream has acknowledged that reports are kept. Until then it may drop one that is acknowledged.
	bool keeps_reports;
	uint64_t keeps_beat; // whose answer says so; 0: none has come
	char trouble[BERTH_NOTE_DETAIL_SIZE];
	int64_t beat_boot_ns; // receipt of the newest heartbeat that was acknowledged
	int64_t seen_at_ns;
	char images[BERTH_IMAGES_KEPT][BERTH_ID_SIZE];
	uint32_t images_next;
	UT_hash_handle hh;
};

struct person {                         // an enrolled user or operator
	char name[2 * BERTH_NAME_SIZE]; // "role/name"
	char certificate_sha256[BERTH_DIGEST_HEX_SIZE];
	char signing_key_id[BERTH_DIGEST_HEX_SIZE]; // empty: none
	uint8_t *signing_key_der;
	size_t signing_key_size;
	struct recorded recorded;
	UT_hash_handle hh;
};

struct money_row { // of a row of the budgets that is in memory
	const struct berth_budgets *budgets;
	struct recorded recorded;
	bool of_no_job; // a reservation for which the ledger has no job
	UT_hash_handle hh;
	char key[];
};

struct berth_core {
	struct berth_core_config config;
	char fleet[BERTH_NAME_SIZE];
	uint64_t last_sequence;
	int64_t recorded_at_ns; // of the newest event: time never goes back
	uint64_t incarnation_number;
	uint8_t incarnation_nonce[16];
	struct job *jobs_by_id, *jobs_by_key, *jobs;
	struct job *open_jobs; // those that have not ended: what is gone through for each decision
	struct agent *agents;
	struct person *people;
	struct lease *leases;
	struct berth_budgets *budgets;
	struct money_row *money; // by key
	bool keeps_reports;
	struct berth_core_backup backup;
	struct berth_core_restore *restores; // oldest first
	size_t restores_count;
	uint32_t resending;    // agents; nothing is assigned and no result counts while there are any
	struct cell *deferred; // whose results wait for them
	uint32_t blocked_jobs; // that were refused money; volatile
	// records
	uint32_t epoch;       // of checkpoints, from 1
	uint32_t payer_epoch; // in which the sums of the payer were noted
	struct berth_budget_payer payer;
	struct row_refs changed; // since the last checkpoint began
	struct row_refs writing; // of the checkpoint that is under way, from writing_at on
	size_t writing_at;
	struct rows early;        // of it too: what changed again before its turn, as it was
	struct recorded recorded; // of the coordinator itself
	uint64_t checkpoint_at;   // its event; 0: none is under way
	struct job **sealed;      // not forgotten yet, by sealed_at
	size_t sealed_count, sealed_capacity;
	// volatile
	bool started; // this process's incarnation is decided: until then nobody could have been heard
	bool place_wanted;
	struct berth_governor *governor;                   // NULL: creates are not paced, or nothing has started yet
	char permits[BERTH_RUN_LEASES_MAX][BERTH_ID_SIZE]; // granted and not used
	size_t permits_count;
	bool permit_asked;     // one more waits in the governor's line
	int64_t permit_due_ns; // nothing is placed before (boot clock)
	int64_t tick_due_ns;   // boot clock: nothing that time alone brings happens before
	bool stopped;          // a higher incarnation exists
};

// lookup
struct job *core_job(const struct berth_core *core, const char *id);
struct agent *core_agent(const struct berth_core *core, const char *name);
struct lease *core_lease(const struct berth_core *core, const char *id);
struct cell *core_cell(const struct berth_core *core, const Berth__V1__TrialKey *key);
struct boot *core_boot(const struct agent *agent, const char *id);
void core_free_notes(struct cell *cell);
void core_forget_cells(struct job *job);

// what apply.c and rows_load.c share
void core_add_job(struct berth_core *core, struct job *job);
void core_make_cells(struct job *job);                         // all queued, in no queue
void core_hold(struct cell *cell, struct agent *agent);        // it runs there
void core_release(struct berth_core *core, struct cell *cell); // it runs no more, and no result of it waits
void core_add_lease(struct berth_core *core, struct lease *lease);

// cells and their places; the index orders attempts outermost, then tasks, then agents, as Harbor expands a job
uint32_t cell_task(const struct cell *cell);
uint32_t cell_agent(const struct cell *cell);
uint32_t cell_attempt(const struct cell *cell);
uint32_t spec_cpus(const Berth__V1__JobSpec *spec, const Berth__V1__Task *task);
uint64_t spec_memory_mb(const Berth__V1__JobSpec *spec, const Berth__V1__Task *task);
uint32_t cell_cpus(const struct cell *cell);
uint64_t cell_memory_mb(const struct cell *cell);
bool cell_is_over(const struct cell *cell);
char *cell_name(const struct cell *cell, const Berth__V1__JobSpec *spec); // NULL without a spec; the caller frees

void queue_push(struct queue *queue, uint32_t item);
void queue_push_front(struct queue *queue, uint32_t item);
uint32_t queue_at(const struct queue *queue, uint32_t position);
void queue_remove(struct queue *queue, uint32_t position);

// records: rows.c makes them, rows_load.c makes objects of them
void rows_touch(struct berth_core *core, enum row_kind kind, void *object);
// Everything that the event changes, before it does, and then what it made.
void rows_touch_event(struct berth_core *core, const Berth__Store__V1__Event *event);
void rows_touch_made(struct berth_core *core, const Berth__Store__V1__Event *event);
// Every record but those of sealed jobs' trials and leases, in no order.
void rows_all(const struct berth_core *core, struct rows *rows);
void rows_clear(struct rows *rows);
void rows_free(struct berth_core *core);

// money_rows.c: rows of the budgets. What is open or forfeited is part of the state; other ended reservations are
// records.
void money_rows_all(const struct berth_core *core, struct rows *rows);
void money_rows_touch(struct berth_core *core, const Berth__Store__V1__Event *event, bool made);
void money_rows_add(struct rows *rows, const struct money_row *money);
void money_rows_forget(struct berth_core *core, struct money_row *money); // if it may leave memory
bool money_rows_load(struct berth_core *core, const char *key, unsigned slot, const void *value, size_t size,
	struct berth_error *err);
void money_rows_free(struct berth_core *core);
struct row *rows_add(struct rows *rows, char *key);                             // takes the key
Berth__Store__V1__TrialRow *rows_trial(const struct cell *cell);                // the caller frees
void rows_take_trial(struct cell *cell, const Berth__Store__V1__TrialRow *row); // all but its agent

// lease table: whether a lease may go from one state to another with this proof
bool lease_may_move(Berth__V1__LeaseState from, Berth__V1__LeaseState to, Berth__V1__DeathProof proof);
// Why an agent's move is not taken at this wall clock of the coordinator; NULL: it is. More than the table, which is
// all that replaying asks.
const char *lease_move_fault(const Berth__V1__Lease *lease, const Berth__V1__LeaseMove *move, int64_t wall_ns);
bool lease_is_open(const Berth__V1__Lease *lease);
bool lease_is_settled(const struct lease *lease);

// emitting: the event gets its sequence and time, is applied, and joins the outcome. It may borrow from the command,
// but not from the state, which the next event changes.
struct decision {
	struct berth_core *core;
	const struct berth_command *command;
	struct berth_core_now now;
	struct berth_outcome *outcome;
	bool from_report; // events carry the report as their origin
};
Berth__Store__V1__Event *emit_new(const struct decision *decision, Berth__Store__V1__Event__BodyCase body);
void emit(const struct decision *decision, Berth__Store__V1__Event *event);
// Parts of an event, which end with it: room for one, and copies.
void *emit_part(const struct decision *decision, size_t size);
char *emit_text(const struct decision *decision, const char *text); // NULL is the empty one
ProtobufCBinaryData emit_bytes(const struct decision *decision, const void *data, size_t size);
void *emit_copy(const struct decision *decision, const void *message);
// Appends to a list of an event.
void emit_append(const struct decision *decision, size_t *count, void *pointer_to_list, void *item);
// The message, which becomes part of an event and is freed with it.
void *emit_own(const struct decision *decision, void *message);
struct berth_effect *effect(const struct decision *decision, enum berth_effect_kind kind);
struct berth_effect *effect_cell(const struct decision *decision, enum berth_effect_kind kind, const struct cell *cell);
struct berth_effect *effect_agent(
	const struct decision *decision, enum berth_effect_kind kind, const struct agent *agent);
void effect_budget(const struct decision *decision, const char *name);
void refuse(const struct decision *decision, enum berth_error_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

// one file each
void decide_hello(const struct decision *decision);
void decide_heartbeat(const struct decision *decision);
void decide_stream_down(const struct decision *decision);
void decide_progress(const struct decision *decision);
void decide_enroll(const struct decision *decision);
void decide_report(const struct decision *decision);
void decide_submit(const struct decision *decision);
void decide_cancel(const struct decision *decision);
void decide_tick(const struct decision *decision);
void decide_place(const struct decision *decision);
void decide_create_budget(const struct decision *decision);
void decide_amend_budget(const struct decision *decision);
void decide_keep_reports(const struct decision *decision);
void decide_backup_verified(const struct decision *decision);
void decide_forget_agent(const struct decision *decision);

// price.c: which leases a run of a trial needs, and what they hold at most
#define RUN_LEASES_MAX BERTH_RUN_LEASES_MAX
struct run_lease {
	Berth__V1__LeaseRole role;
	char meter_id[BERTH_METER_ID_SIZE]; // empty: it is not paid for
};
struct run_plan {
	size_t count;
	struct run_lease leases[RUN_LEASES_MAX];
	int64_t price_nano_usd;
};
// BUDGET or INVALID when the budget that the spec names can't price it.
bool price_run(const struct berth_core *core, const Berth__V1__JobSpec *spec, uint32_t task, uint32_t agent,
	struct run_plan *plan, struct berth_error *err);
struct run_plan plan_of(const struct berth_core *core, const struct cell *cell);
// Of every task and agent; NULL without a budget. The caller frees.
bool price_job(
	const struct berth_core *core, const Berth__V1__JobSpec *spec, int64_t **prices, struct berth_error *err);
// Whether a job may be taken on the budget that it names, or without one; and its quote.
bool may_be_paid(const struct berth_core *core, const Berth__V1__JobSpec *spec, const char *user,
	int64_t *quote_nano_usd, struct berth_error *err);
int64_t most_runs(const struct berth_core *core, const Berth__V1__JobSpec *spec); // of one of its cells
// What the budget's limits leave for it; INT64_MAX without any.
int64_t room_for(const struct berth_core *core, const Berth__V1__JobSpec *spec, const char *user);
int64_t cell_price(const struct cell *cell);
bool cell_is_blocked(const struct cell *cell);                                  // it waits for money
bool may_be_paid_later(const struct berth_core *core, const struct cell *cell); // once what is open now has ended
uint32_t job_blocked(const struct job *job);                                    // how many

// pay.c: reservations of leases, from the assignment to the end
void limit_job(const struct decision *decision, const struct job *job, int64_t quote_nano_usd);
// Adds a reservation for each paid lease of the event, or says why not.
bool reserve_run(const struct decision *decision, const struct cell *cell, const struct run_plan *plan,
	Berth__Store__V1__TrialAssigned *assigned, struct berth_budget_refusal *refusal);
void refuse_run(const struct decision *decision, struct cell *cell, const struct berth_budget_refusal *refusal);
// After the lease was retired by this move.
void end_reservation(const struct decision *decision, const struct lease *lease, const Berth__V1__LeaseMove *move,
	Berth__V1__LeaseState from);
// A forfeit of use that is unknown; what a policy forfeits because it was never dispatched has its proof already.
bool may_be_appealed(const Berth__V1__Reservation *row);
// True when the move is about a forfeited reservation and was decided as its appeal.
bool appeal_forfeit(const struct decision *decision, const Berth__V1__LeaseMove *move);
void unblock_jobs(struct berth_core *core, const char *budget); // money of it may have come back
void forget_blocked(struct berth_core *core, struct job *job);

// pace.c
void pace_begin(struct berth_core *core, struct berth_core_now now);
void pace_free(struct berth_core *core);
// Ids for the leases of a run, whose creates may be sent: the fresh ones, or those of permits. False: they wait, and
// pace_waits until the next is due.
bool pace_take(const struct decision *decision, size_t count, char (*fresh)[BERTH_ID_SIZE], char (*ids)[BERTH_ID_SIZE]);
void pace_end(struct berth_core *core, const char *lease_id, struct berth_core_now now);
bool pace_waits(const struct berth_core *core, struct berth_core_now now);

// restore.c
void begin_restored(const struct decision *decision);
void raise_incarnation(const struct decision *decision, const struct agent *by); // above the one in its Hello
// A lease that this ledger does not know, from an agent that resends: *lease is NULL unless it was taken up. False: the
// session is refused, since its money can't be accounted for.
bool take_up_lease(const struct decision *decision, const Berth__V1__LeaseMove *move, const struct lease **lease);
// True when the move was the end of a reservation whose job is lost.
bool end_without_lease(const struct decision *decision, const Berth__V1__LeaseMove *move);
void end_resending(const struct decision *decision, struct agent *agent);

// deferred.c
void core_defer(struct berth_core *core, struct cell *cell, Berth__Store__V1__TrialEnded *ended); // takes it
void core_drop_deferred(struct berth_core *core, struct cell *cell);                              // if there is one
void defer_result(const struct decision *decision, struct cell *cell, Berth__Store__V1__TrialEnded *ended);
// If nobody is to resend any more: some of them, and the next ones at the next tick.
void count_deferred(const struct decision *decision);

// apply_fleet.c
bool apply_agent_enrolled(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
bool apply_agent_booted(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
bool apply_agent_hold(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);

// apply_restore.c
bool apply_reports_kept(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
bool apply_backup_verified(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
bool apply_ledger_restored(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
bool apply_incarnation_raised(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
bool apply_result_deferred(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
bool apply_agent_resent(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
bool apply_agent_forgotten(struct berth_core *core, const Berth__Store__V1__Event *event, struct berth_error *err);
bool corrupt_event(const Berth__Store__V1__Event *event, struct berth_error *err, const char *what); // false
void core_add_restore(struct berth_core *core, const struct berth_core_restore *restore);

// job.c: whether a job may be taken at all, money apart. disk_message: why the disk takes none; NULL: it does.
bool check_submit(const struct berth_core *core, const Berth__V1__SubmitJobRequest *submit, const char *disk_message,
	struct berth_error *err);

// shared by them
bool is_listed_trial(Berth__V1__TrialKey *const *running, size_t count, const struct cell *cell);
int64_t fenced_at_ns(const struct berth_core *core, const struct agent *agent);
bool agent_is_open(const struct berth_core *core, const struct agent *agent, struct berth_core_now now);
bool has_image(const struct agent *agent, const char *environment_id);
int64_t retry_delay_ns(const Berth__V1__RetryPolicy *policy, uint32_t attempt);
void resume_waits(const struct decision *decision); // of what waited before a restart: from now on, or for its delay
bool wants_retry(const struct cell *cell, const Berth__V1__TrialResult *result);
void unassign(const struct decision *decision, struct cell *cell, Berth__Store__V1__UnassignReason reason,
	const char *detail, const Berth__V1__TrialResult *result);
void move_lease(const struct decision *decision, const struct lease *lease, const Berth__V1__LeaseMove *move);
void end_job_if_over(const struct decision *decision, struct job *job);
void wake_at(struct berth_core *core, int64_t boot_ns);
