// SPDX-License-Identifier: Apache-2.0
// The budget authority of a fleet, pure: no I/O, no clock, no randomness. `decide` functions check a command against
// the state, change nothing, and give what is to become an event, or a typed refusal. `apply` functions are the only
// code that changes the state; they refuse what a decide could not have given: wrong tariffs, passed caps, duplicates,
// a second end. The cost of an operation does not grow with what was spent before.
//
// Repeats: the same command again succeeds and gives nothing (NULL); the same id with another payload is a conflict.
// An ended reservation may leave memory (berth_budgets_forget); a command about it then brings its row in `prior`,
// which the caller has read from its family. Pointers in commands are borrowed. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/store/v1/event.pb-c.h"
#include "berth/v1/budget.pb-c.h"
#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/error.h"

#define BERTH_BUDGET_NAME_MAX     63
#define BERTH_BUDGETS_MAX         1024
#define BERTH_RESERVATION_ID_MAX  128
#define BERTH_RESERVE_BATCH_MAX   16
#define BERTH_BUDGET_REASON_MAX   500
#define BERTH_BUDGET_SUB_MAX      64 // sub-limits in one amendment
#define BERTH_AMENDMENT_TYPE      "application/vnd.berth.budget-amendment+json"
#define BERTH_BUDGET_SKEW_SECONDS 30 // an agent's duration may pass the coordinator's by so much

// reason, error code, whether a trial waits for it (`budget_blocked`) until money comes back or limits are amended
#define BERTH_BUDGET_REASONS(X)                                                                                        \
	X(NONE, OK, false)                                                                                             \
	X(INVALID, INVALID, false)                                                                                     \
	X(UNKNOWN_BUDGET, BUDGET, false)                                                                               \
	X(UNKNOWN_PHASE, BUDGET, false)                                                                                \
	X(UNKNOWN_METER, BUDGET, false)                                                                                \
	X(UNKNOWN_RESERVATION, NOT_FOUND, false)                                                                       \
	X(NOT_EXACT, INVALID, false)                                                                                   \
	X(CONFLICT, CONFLICT, false)                                                                                   \
	X(NOT_SIGNED, DENIED, false)                                                                                   \
	X(NOT_PROVEN, DENIED, false)                                                                                   \
	X(BREACHED, BUDGET, false)                                                                                     \
	X(HARD_LIMIT, BUDGET, true)                                                                                    \
	X(PHASE_LIMIT, BUDGET, true)                                                                                   \
	X(JOB_LIMIT, BUDGET, true)                                                                                     \
	X(USER_LIMIT, BUDGET, true)

enum berth_budget_reason {
#define X(name, code, waits) BERTH_BUDGET_##name,
	BERTH_BUDGET_REASONS(X)
#undef X
};
bool berth_budget_waits(enum berth_budget_reason reason);

struct berth_budget_refusal {
	enum berth_budget_reason reason;
	size_t index;                 // of a batch: the command that was refused
	int64_t wanted_nano_usd;      // of a limit, here and below
	Berth__V1__BudgetTotals sums; // of the budget, phase, job or user whose limit it is
	struct berth_error error;     // carries the sums in its message
};

struct berth_budgets;
struct berth_budgets *berth_budgets_new(void);
void berth_budgets_free(struct berth_budgets *budgets); // NULL is allowed

// --- commands ---

// A new budget. The policy is sorted into the event.
bool berth_budget_decide_open(const struct berth_budgets *budgets, const Berth__V1__CreateBudgetRequest *request,
	Berth__Store__V1__BudgetOpened **event, struct berth_budget_refusal *refusal);

// New limits, by an operator. `signature_ok`: request->signature verifies over berth_budget_amendment_text under the
// enrolled key request->key_id of an operator. Below exposure only stops new grants.
bool berth_budget_decide_amend(const struct berth_budgets *budgets, const Berth__V1__AmendBudgetRequest *request,
	bool signature_ok, Berth__Store__V1__BudgetAmended **event, struct berth_budget_refusal *refusal);
// What an operator signs, as berth_sign's BERTH_AMENDMENT_TYPE: "berth-budget-amendment-v1", a NUL, and canonical JSON
// that binds the policy's digest, the number and all that changes. INVALID for texts that are no UTF-8.
bool berth_budget_amendment_text(const char *policy_digest, const Berth__V1__AmendBudgetRequest *request,
	struct berth_buf *out, struct berth_error *err);

// A job's own limit (its quote), before it reserves anything.
bool berth_budget_decide_limit_job(const struct berth_budgets *budgets, const char *budget, const char *job_id,
	int64_t limit_nano_usd, Berth__Store__V1__BudgetJobLimited **event, struct berth_budget_refusal *refusal);

struct berth_budget_reserve {
	const char *budget;
	const char *reservation_id; // equal to the lease id, where it pays for one
	const Berth__V1__Scope *scope;
	const char *meter_id;
	int64_t max_nano_usd;        // of a timed meter exactly its ceiling; 0: that
	const char *job_id, *user;   // NULL or empty: no sub-limit applies
	int64_t input_token_ceiling; // of a token meter, which then is held exactly; both 0: a slice of max_nano_usd
	int64_t output_token_ceiling;
	const Berth__V1__Reservation *prior;
};
// All or nothing, at most BERTH_RESERVE_BATCH_MAX. rows[i] is owned by the caller; NULL where it is a repeat.
bool berth_budget_decide_reserve(const struct berth_budgets *budgets, const struct berth_budget_reserve *commands,
	size_t count, Berth__V1__Reservation **rows, struct berth_budget_refusal *refusal);

// Use that ended, of a resource whose cleanup was proven. Cost above the reservation is recorded as overrun, outside
// the sums; one that the provider confirms (always so for tokens) is a breach, and a breached budget grants nothing
// more.
struct berth_budget_settle {
	const char *reservation_id;
	int64_t elapsed_ns;       // of a timed meter: the agent's monotonic duration, from dispatch
	int64_t elapsed_bound_ns; // the coordinator's own time since the reservation where it is sure of it; 0: it is
	                          // not
	int64_t input_tokens, output_tokens; // of a token meter
	bool provider_confirmed;
	const Berth__V1__TerminalProvenance *provenance; // NULL: none
	const Berth__V1__Reservation *prior;
};
bool berth_budget_decide_settle(const struct berth_budgets *budgets, const struct berth_budget_settle *command,
	Berth__Store__V1__BudgetEnded **event, struct berth_budget_refusal *refusal);

// The whole ceiling is charged: use is unknown. `failure_type` is a code of letters, digits and "_".
bool berth_budget_decide_forfeit(const struct berth_budgets *budgets, const char *reservation_id,
	const char *failure_type, const Berth__V1__Reservation *prior, Berth__Store__V1__BudgetEnded **event,
	struct berth_budget_refusal *refusal);

// Nothing is charged: NEVER_DISPATCHED or REJECTED was proven. Under a policy with forfeit_undispatched it gives a
// forfeit instead, PreDispatchFailure or CreateRejected.
bool berth_budget_decide_release(const struct berth_budgets *budgets, const char *reservation_id,
	Berth__V1__DeathProof proof, const Berth__V1__Reservation *prior, Berth__Store__V1__BudgetEnded **event,
	struct berth_budget_refusal *refusal);

// A forfeit against the receipt of its own lease, retired with a proof. ABSENCE_SEEN charges the coordinator's time
// from the reservation to the retirement; NEVER_DISPATCHED and REJECTED release it. Anything else proves nothing.
struct berth_budget_appeal {
	const char *reservation_id;
	const Berth__V1__Lease *lease; // RETIRED; the caller has verified the receipt that says so
	const char *receipt_digest;    // "sha256:..."
	const Berth__V1__Reservation *prior;
};
bool berth_budget_decide_appeal(const struct berth_budgets *budgets, const struct berth_budget_appeal *command,
	Berth__Store__V1__BudgetAppealed **event, struct berth_budget_refusal *refusal);

// --- events: CORRUPT when it does not fit, with the state unchanged. `at_ns` is the event's recorded_at_ns. ---

bool berth_budgets_apply_opened(
	struct berth_budgets *budgets, const Berth__Store__V1__BudgetOpened *opened, struct berth_error *err);
bool berth_budgets_apply_amended(
	struct berth_budgets *budgets, const Berth__Store__V1__BudgetAmended *amended, struct berth_error *err);
bool berth_budgets_apply_job_limited(
	struct berth_budgets *budgets, const Berth__Store__V1__BudgetJobLimited *limited, struct berth_error *err);
bool berth_budgets_apply_reserved(
	struct berth_budgets *budgets, const Berth__V1__Reservation *reserved, int64_t at_ns, struct berth_error *err);
bool berth_budgets_apply_ended(struct berth_budgets *budgets, const Berth__Store__V1__BudgetEnded *ended, int64_t at_ns,
	struct berth_error *err);
bool berth_budgets_apply_appealed(struct berth_budgets *budgets, const Berth__Store__V1__BudgetAppealed *appealed,
	int64_t at_ns, struct berth_error *err);
// Any event: those of budgets, and the reservations of an assignment (one after the other). Others change nothing.
bool berth_budgets_apply(struct berth_budgets *budgets, const Berth__Store__V1__Event *event, struct berth_error *err);

// --- questions; messages are the caller's, rows are borrowed until the next apply or forget ---

Berth__V1__Budget *berth_budgets_get(const struct berth_budgets *budgets, const char *name); // NULL: unknown
size_t berth_budgets_count(const struct berth_budgets *budgets);
// By name; *list is the caller's, its texts are not.
size_t berth_budgets_names(const struct berth_budgets *budgets, const char ***list);
const Berth__V1__Reservation *berth_budgets_reservation(const struct berth_budgets *budgets, const char *id);
// By id, after `after` (NULL: from the first), at most `limit`; *list is the caller's.
size_t berth_budgets_reservations(const struct berth_budgets *budgets, const char *budget, bool open_only,
	const char *after, size_t limit, const Berth__V1__Reservation ***list);
// A meter of a budget, given or derived; NULL: there is none. And the one of a lease's class.
const Berth__V1__Meter *berth_budgets_meter(
	const struct berth_budgets *budgets, const char *budget, const char *meter_id);
// What a reservation of this timed meter holds.
bool berth_budgets_ceiling(const struct berth_budgets *budgets, const char *budget, const char *meter_id,
	int64_t *nano_usd, struct berth_error *err);
// The rate of a budget for a machine; NULL: it has none.
const Berth__V1__Rate *berth_budgets_rate(const struct berth_budgets *budgets, const char *budget, const char *backend,
	const char *role, int64_t cpu_count, int64_t memory_mb);
// Whether a budget has any rate for a backend.
bool berth_budgets_prices(const struct berth_budgets *budgets, const char *budget, const char *backend);
bool berth_budgets_is_breached(const struct berth_budgets *budgets, const char *budget);
// Totals of a phase (job_id and user NULL), of a job or of a user; the limit is -1 where there is none.
bool berth_budgets_totals(const struct berth_budgets *budgets, const char *budget, const char *phase,
	const char *job_id, const char *user, Berth__V1__BudgetTotals *totals);

// --- rows ---

// Every row that is in memory, by key: for the state digest and for the family on disk.
typedef void (*berth_budget_row_fn)(void *context, const char *key, const struct berth_buf *value);
void berth_budgets_rows(const struct berth_budgets *budgets, berth_budget_row_fn each, void *context);
// One of them; false: there is none. `value` may be NULL.
bool berth_budgets_row(const struct berth_budgets *budgets, const char *key, struct berth_buf *value);
// The keys of the rows that an event changes or makes, whether it is applied already or not.
typedef void (*berth_budget_key_fn)(void *context, const char *key);
// Of whom the caller knows already that the sums changed: those of a reservation of his are not told again. One event
// after the other is paid by the same.
struct berth_budget_payer {
	bool follows;                           // becomes the one of each reservation that is told
	char budget[BERTH_BUDGET_NAME_MAX + 1]; // empty: nobody
	char phase[64], job_id[64], user[128];
};
void berth_budgets_keys(const struct berth_budgets *budgets, const Berth__Store__V1__Event *event,
	struct berth_budget_payer *payer, berth_budget_key_fn each, void *context); // payer NULL: all are told
// The same rows, given back in key order; then one check that the sums of open reservations agree with the sum rows.
bool berth_budgets_load(
	struct berth_budgets *budgets, const char *key, const void *value, size_t size, struct berth_error *err);
bool berth_budgets_loaded(const struct berth_budgets *budgets, struct berth_error *err);
// Hands over the row of an ended reservation and forgets it; NULL when it is open or not in memory. NULL as id: the one
// that has been ended longest.
Berth__V1__Reservation *berth_budgets_forget(struct berth_budgets *budgets, const char *id);
size_t berth_budgets_open_count(const struct berth_budgets *budgets);
size_t berth_budgets_ended_count(const struct berth_budgets *budgets);
