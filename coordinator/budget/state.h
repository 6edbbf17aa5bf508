// SPDX-License-Identifier: Apache-2.0
// The authority's state, for the files of this folder only.
#pragma once

#include <utlist.h>

#include "common/base/table.h"
#include "coordinator/budget/budget.h"
#include "coordinator/budget/policy.h"

#define SUB_LIMIT_NAME_MAX 256 // bytes of a job or user

enum account_kind {
	ACCOUNT_TOTAL,
	ACCOUNT_PHASE,
	ACCOUNT_JOB,
	ACCOUNT_USER,
	ACCOUNT_KINDS,
};

struct account { // sums against one limit
	enum account_kind kind;
	char *name; // of the phase, job or user
	char *key;  // "KIND/NAME", of subs
	int64_t settled, reserved, forfeited, overrun;
	int64_t limit; // JOB, USER: only where limited
	bool limited;
	uint64_t open;
	UT_hash_handle hh;
};

struct budget {
	char *name;
	Berth__V1__BudgetPolicy *policy; // as opened
	char digest[BERTH_DIGEST_TEXT_SIZE];
	struct berth_tariffs *tariffs;
	struct account total;
	struct account *phases; // by name
	size_t phases_count;
	struct account *subs; // jobs and users
	uint64_t amendments;
	struct berth_digest amendment_digest;
	bool breached;
	UT_hash_handle hh;
};

struct reservation {
	Berth__V1__Reservation *row;
	struct budget *budget;
	const Berth__V1__Meter *meter;
	struct account *accounts[ACCOUNT_KINDS]; // NULL: it has no job, or no user
	struct reservation *prev, *next;         // in ended
	UT_hash_handle hh;
};

struct berth_budgets {
	struct budget *by_name;
	struct reservation *by_id;
	struct reservation *ended; // oldest end first
	size_t ended_count;
};

struct budget *find_budget(const struct berth_budgets *budgets, const char *name);
struct reservation *find_reservation(const struct berth_budgets *budgets, const char *id);
struct account *find_phase(const struct budget *budget, const char *phase);
struct account *find_sub(const struct budget *budget, enum account_kind kind, const char *name); // NULL: no row yet
struct account *make_sub(struct budget *budget, enum account_kind kind, const char *name);

int64_t account_exposure(const struct account *account);
// -1: none. `account` may be NULL for a job or user without a row.
int64_t account_limit(const struct budget *budget, enum account_kind kind, const struct account *account);
void account_totals(int64_t limit, const struct account *account, Berth__V1__BudgetTotals *totals);

// Puts a row in memory with its accounts; takes the row. The caller has checked it.
struct reservation *link_reservation(struct berth_budgets *budgets, struct budget *budget, Berth__V1__Reservation *row);
void unlink_reservation(struct berth_budgets *budgets, struct reservation *reservation); // frees all but the row
struct budget *make_budget(struct berth_budgets *budgets, const char *name, const Berth__V1__BudgetPolicy *policy,
	struct berth_error *err);

// Room for `wanted` beside what is there and what a batch has taken already; fills the refusal's sums, and false.
struct want {
	const char *budget, *phase, *job_id, *user;
	int64_t amount;
};
bool has_room(const struct budget *budget, const struct want *want, const struct want *taken, size_t taken_count,
	struct berth_budget_refusal *refusal);

// What is wrong with a reservation by itself: meter, exact maximum, texts. NULL budget: unknown.
bool check_reservation(
	const struct budget *budget, const Berth__V1__Reservation *row, struct berth_budget_refusal *refusal);
// An ending against its reservation's tariff; the same for deciding, replaying and loading.
bool check_ending(const Berth__V1__Meter *meter, const Berth__V1__Reservation *row,
	const Berth__V1__ReservationEnding *ending, struct berth_error *err);
// Charge, overrun, state and breach kind from ending->usage.
bool price_ending(const Berth__V1__Meter *meter, const Berth__V1__Reservation *row,
	Berth__V1__ReservationEnding *ending, struct berth_error *err);
Berth__V1__ReservationEnding *new_ending(Berth__V1__ReservationState state);
char *account_key(const struct budget *budget, const struct account *account); // of its row; the caller frees
void add_ending(struct reservation *reservation, const Berth__V1__ReservationEnding *ending, int sign);
// The row that a command speaks of: in memory, or brought along. NULL: unknown.
const Berth__V1__Reservation *row_of(
	const struct berth_budgets *budgets, const char *id, const Berth__V1__Reservation *prior);

bool refuse_budget(struct berth_budget_refusal *refusal, enum berth_budget_reason reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool corrupt_budget(struct berth_error *err, const char *what, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool same_text(const char *a, const char *b);    // NULL and empty are the same
bool same_message(const void *a, const void *b); // packed bytes; NULL is only the same as NULL
