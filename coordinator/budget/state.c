// SPDX-License-Identifier: Apache-2.0
#include "coordinator/budget/state.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"

struct berth_budgets *berth_budgets_new(void)
{
	return berth_alloc(sizeof(struct berth_budgets));
}

static void free_account(struct account *account)
{
	free(account->name);
	free(account->key);
}

static void free_budget(struct budget *budget)
{
	struct account *account, *next;
	HASH_ITER (hh, budget->subs, account, next) {
		HASH_DEL(budget->subs, account);
		free_account(account);
		free(account);
	}
	for (size_t i = 0; i < budget->phases_count; i++) {
		free_account(&budget->phases[i]);
	}
	free(budget->phases);
	free_account(&budget->total);
	berth_tariffs_free(budget->tariffs);
	berth_proto_free(budget->policy);
	free(budget->name);
	free(budget);
}

void berth_budgets_free(struct berth_budgets *budgets)
{
	if (!budgets) {
		return;
	}
	struct reservation *reservation, *next_reservation;
	HASH_ITER (hh, budgets->by_id, reservation, next_reservation) {
		HASH_DEL(budgets->by_id, reservation);
		berth_proto_free(reservation->row);
		free(reservation);
	}
	struct budget *budget, *next;
	HASH_ITER (hh, budgets->by_name, budget, next) {
		HASH_DEL(budgets->by_name, budget);
		free_budget(budget);
	}
	free(budgets);
}

struct budget *find_budget(const struct berth_budgets *budgets, const char *name)
{
	struct budget *budget = NULL;
	HASH_FIND_STR(budgets->by_name, name, budget);
	return budget;
}

struct reservation *find_reservation(const struct berth_budgets *budgets, const char *id)
{
	struct reservation *reservation = NULL;
	HASH_FIND_STR(budgets->by_id, id, reservation);
	return reservation;
}

struct account *find_phase(const struct budget *budget, const char *phase)
{
	for (size_t i = 0; i < budget->phases_count; i++) {
		if (strcmp(budget->phases[i].name, phase) == 0) {
			return &budget->phases[i];
		}
	}
	return NULL;
}

static const char *sub_prefix(enum account_kind kind)
{
	return kind == ACCOUNT_JOB ? "job/" : "user/";
}

static char *sub_key(enum account_kind kind, const char *name)
{
	return berth_format("%s%s", sub_prefix(kind), name);
}

// Asked several times for each reservation, so the key is not formatted.
struct account *find_sub(const struct budget *budget, enum account_kind kind, const char *name)
{
	char small[128];
	bool is_small = strlen(name) + sizeof "user/" <= sizeof small;
	BERTH_AUTO_FREE char *large = is_small ? NULL : sub_key(kind, name);
	const char *key = is_small ? small : large;
	if (is_small) {
		stpcpy(stpcpy(small, sub_prefix(kind)), name);
	}
	struct account *account = NULL;
	HASH_FIND_STR(budget->subs, key, account);
	return account;
}

struct account *make_sub(struct budget *budget, enum account_kind kind, const char *name)
{
	struct account *account = find_sub(budget, kind, name);
	if (!account) {
		account = berth_alloc(sizeof *account);
		account->kind = kind;
		account->name = berth_strdup(name);
		account->key = sub_key(kind, name);
		HASH_ADD_KEYPTR(hh, budget->subs, account->key, strlen(account->key), account);
	}
	return account;
}

int64_t account_exposure(const struct account *account)
{
	// No part is ever above a limit in force, so that the sum is not above 63 bits.
	return account->settled + account->reserved + account->forfeited;
}

int64_t account_limit(const struct budget *budget, enum account_kind kind, const struct account *account)
{
	if (kind <= ACCOUNT_PHASE || (account && account->limited)) {
		return account->limit;
	}
	int64_t limit = kind == ACCOUNT_JOB ? budget->policy->job_limit_nano_usd : budget->policy->user_limit_nano_usd;
	return limit > 0 ? limit : -1;
}

void account_totals(int64_t limit, const struct account *account, Berth__V1__BudgetTotals *totals)
{
	berth__v1__budget_totals__init(totals);
	totals->limit_nano_usd = limit;
	totals->remaining_nano_usd = limit > 0 ? limit : 0;
	if (account) {
		int64_t exposure = account_exposure(account);
		totals->settled_nano_usd = account->settled;
		totals->reserved_nano_usd = account->reserved;
		totals->forfeited_nano_usd = account->forfeited;
		totals->overrun_nano_usd = account->overrun;
		totals->remaining_nano_usd = limit > exposure ? limit - exposure : 0;
	}
}

struct reservation *link_reservation(struct berth_budgets *budgets, struct budget *budget, Berth__V1__Reservation *row)
{
	struct reservation *reservation = berth_alloc(sizeof *reservation);
	reservation->row = row;
	reservation->budget = budget;
	reservation->meter = berth_tariffs_find(budget->tariffs, row->meter_id);
	reservation->accounts[ACCOUNT_TOTAL] = &budget->total;
	reservation->accounts[ACCOUNT_PHASE] = find_phase(budget, row->scope->phase);
	if (row->job_id[0]) {
		reservation->accounts[ACCOUNT_JOB] = make_sub(budget, ACCOUNT_JOB, row->job_id);
	}
	if (row->user[0]) {
		reservation->accounts[ACCOUNT_USER] = make_sub(budget, ACCOUNT_USER, row->user);
	}
	HASH_ADD_KEYPTR(hh, budgets->by_id, row->reservation_id, strlen(row->reservation_id), reservation);
	return reservation;
}

void unlink_reservation(struct berth_budgets *budgets, struct reservation *reservation)
{
	HASH_DEL(budgets->by_id, reservation);
	free(reservation);
}

struct budget *make_budget(
	struct berth_budgets *budgets, const char *name, const Berth__V1__BudgetPolicy *policy, struct berth_error *err)
{
	struct berth_tariffs *tariffs = berth_tariffs_new(policy, err);
	struct berth_digest digest;
	if (!tariffs || !berth_policy_digest(policy, &digest, err)) {
		berth_tariffs_free(tariffs);
		return NULL;
	}
	struct budget *budget = berth_alloc(sizeof *budget);
	budget->name = berth_strdup(name);
	budget->policy = berth_proto_clone(policy);
	budget->tariffs = tariffs;
	berth_digest_text(&digest, budget->digest);
	budget->total = (struct account){.kind = ACCOUNT_TOTAL, .limit = policy->hard_limit_nano_usd};
	budget->phases_count = policy->n_phase_limits;
	budget->phases = berth_alloc(budget->phases_count * sizeof *budget->phases);
	for (size_t i = 0; i < budget->phases_count; i++) {
		budget->phases[i] = (struct account){
			.kind = ACCOUNT_PHASE,
			.name = berth_strdup(policy->phase_limits[i]->phase),
			.limit = policy->phase_limits[i]->limit_nano_usd,
		};
	}
	HASH_ADD_KEYPTR(hh, budgets->by_name, budget->name, strlen(budget->name), budget);
	return budget;
}

bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

bool same_message(const void *a, const void *b)
{
	if (!a || !b) {
		return a == b;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf left = {0}, right = {0};
	berth_proto_pack(a, &left);
	berth_proto_pack(b, &right);
	return left.size == right.size && (left.size == 0 || memcmp(left.data, right.data, left.size) == 0);
}
