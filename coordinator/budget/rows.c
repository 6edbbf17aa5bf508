// SPDX-License-Identifier: Apache-2.0
// State as rows: "budget/NAME" (policy and limits), "budget_sum/NAME/total", "budget_sum/NAME/phase/P",
// "budget_sum/NAME/job/J", "budget_sum/NAME/user/U", and "reservation/ID". In key order a row comes after all that it
// needs.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/state.h"

#define WHAT "row of budgets"

struct row {
	char *key;
	struct berth_buf value;
};

struct rows {
	struct row *items;
	size_t count, capacity;
};

static struct berth_buf *add(struct rows *rows, char *key)
{
	if (rows->count == rows->capacity) {
		rows->capacity = rows->capacity ? 2 * rows->capacity : 64;
		rows->items = berth_realloc_array(rows->items, rows->capacity, sizeof *rows->items);
	}
	struct row *row = &rows->items[rows->count++];
	*row = (struct row){.key = key};
	return &row->value;
}

char *account_key(const struct budget *budget, const struct account *account)
{
	static const char *const kinds[] = {"total", "phase/", "job/", "user/"};
	return berth_format(
		"budget_sum/%s/%s%s", budget->name, kinds[account->kind], account->name ? account->name : "");
}

static void pack_account(const struct account *account, struct berth_buf *value)
{
	Berth__Store__V1__BudgetSumRow row = BERTH__STORE__V1__BUDGET_SUM_ROW__INIT;
	row.settled_nano_usd = account->settled;
	row.reserved_nano_usd = account->reserved;
	row.forfeited_nano_usd = account->forfeited;
	row.overrun_nano_usd = account->overrun;
	row.limited = account->limited;
	row.limit_nano_usd = account->limited ? account->limit : 0;
	berth_proto_pack(&row, value);
}

static void add_account(struct rows *rows, const struct budget *budget, const struct account *account)
{
	pack_account(account, add(rows, account_key(budget, account)));
}

static void pack_budget(const struct budget *budget, struct berth_buf *value)
{
	Berth__Store__V1__BudgetRow row = BERTH__STORE__V1__BUDGET_ROW__INIT;
	BERTH_AUTO_FREE Berth__V1__PhaseLimit *limits = berth_alloc(budget->phases_count * sizeof *limits);
	BERTH_AUTO_FREE Berth__V1__PhaseLimit **list = berth_alloc(budget->phases_count * sizeof(*list));
	for (size_t i = 0; i < budget->phases_count; i++) {
		berth__v1__phase_limit__init(&limits[i]);
		limits[i].phase = budget->phases[i].name;
		limits[i].limit_nano_usd = budget->phases[i].limit;
		list[i] = &limits[i];
	}
	row.name = budget->name;
	row.policy = budget->policy;
	row.policy_digest = (char *)budget->digest;
	row.hard_limit_nano_usd = budget->total.limit;
	row.n_phase_limits = budget->phases_count;
	row.phase_limits = list;
	row.breached = budget->breached;
	row.amendments = budget->amendments;
	if (budget->amendments) {
		row.amendment_digest.data = (uint8_t *)budget->amendment_digest.bytes;
		row.amendment_digest.len = BERTH_DIGEST_SIZE;
	}
	berth_proto_pack(&row, value);
}

static void add_budget(struct rows *rows, const struct budget *budget)
{
	pack_budget(budget, add(rows, berth_format("budget/%s", budget->name)));
	add_account(rows, budget, &budget->total);
	for (size_t i = 0; i < budget->phases_count; i++) {
		add_account(rows, budget, &budget->phases[i]);
	}
	const struct account *account, *next;
	HASH_ITER (hh, budget->subs, account, next) {
		add_account(rows, budget, account);
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->key, ((const struct row *)b)->key);
}

void berth_budgets_rows(const struct berth_budgets *budgets, berth_budget_row_fn each, void *context)
{
	struct rows rows = {0};
	const struct budget *budget, *next_budget;
	HASH_ITER (hh, budgets->by_name, budget, next_budget) {
		add_budget(&rows, budget);
	}
	const struct reservation *reservation, *next;
	HASH_ITER (hh, budgets->by_id, reservation, next) {
		char *key = berth_format("reservation/%s", reservation->row->reservation_id);
		berth_proto_pack(reservation->row, add(&rows, key));
	}
	if (rows.count > 0) {
		qsort(rows.items, rows.count, sizeof *rows.items, compare);
	}
	for (size_t i = 0; i < rows.count; i++) {
		each(context, rows.items[i].key, &rows.items[i].value);
		free(rows.items[i].key);
		berth_buf_free(&rows.items[i].value);
	}
	free(rows.items);
}

// --- loading ---

static bool load_budget(struct berth_budgets *budgets, const char *name, const Berth__Store__V1__BudgetRow *row,
	struct berth_error *err)
{
	struct berth_error why = {0};
	if (strcmp(name, row->name) != 0 || !row->policy || find_budget(budgets, name)) {
		return corrupt_budget(err, WHAT, "budget %.64s does not fit its key", name);
	}
	struct budget *budget = make_budget(budgets, name, row->policy, &why);
	if (!budget || strcmp(budget->digest, row->policy_digest) != 0 || row->n_phase_limits != budget->phases_count ||
		row->amendment_digest.len != (row->amendments ? BERTH_DIGEST_SIZE : 0)) {
		return corrupt_budget(err, WHAT, "budget %s: %s", name, why.code ? why.message : "its parts differ");
	}
	for (size_t i = 0; i < budget->phases_count; i++) {
		if (strcmp(row->phase_limits[i]->phase, budget->phases[i].name) != 0) {
			return corrupt_budget(err, WHAT, "budget %s has other phases than its policy", name);
		}
		budget->phases[i].limit = row->phase_limits[i]->limit_nano_usd;
	}
	budget->total.limit = row->hard_limit_nano_usd;
	budget->breached = row->breached;
	budget->amendments = row->amendments;
	if (row->amendments) {
		memcpy(budget->amendment_digest.bytes, row->amendment_digest.data, BERTH_DIGEST_SIZE);
	}
	return true;
}

// "NAME/KIND/OWNER" or "NAME/total". The row of a job or user is made when it is `made`, else NULL without one.
static struct account *account_of_key(const struct berth_budgets *budgets, const char *key, bool made)
{
	const char *slash = strchr(key, '/');
	BERTH_AUTO_FREE char *name = slash ? berth_strndup(key, (size_t)(slash - key)) : berth_strdup(key);
	struct budget *budget = find_budget(budgets, name);
	const char *kind = slash ? slash + 1 : "";
	if (!budget) {
		return NULL;
	}
	if (strcmp(kind, "total") == 0) {
		return &budget->total;
	}
	if (strncmp(kind, "phase/", 6) == 0) {
		return find_phase(budget, kind + 6);
	}
	bool of_job = strncmp(kind, "job/", 4) == 0;
	if (!of_job && strncmp(kind, "user/", 5) != 0) {
		return NULL;
	}
	enum account_kind sub = of_job ? ACCOUNT_JOB : ACCOUNT_USER;
	const char *owner = kind + (of_job ? 4 : 5);
	return made ? make_sub(budget, sub, owner) : find_sub(budget, sub, owner);
}

bool berth_budgets_row(const struct berth_budgets *budgets, const char *key, struct berth_buf *value)
{
	if (strncmp(key, "budget/", 7) == 0) {
		const struct budget *budget = find_budget(budgets, key + 7);
		if (budget && value) {
			pack_budget(budget, value);
		}
		return budget != NULL;
	}
	if (strncmp(key, "budget_sum/", 11) == 0) {
		const struct account *account = account_of_key(budgets, key + 11, false);
		if (account && value) {
			pack_account(account, value);
		}
		return account != NULL;
	}
	const struct reservation *reservation =
		strncmp(key, "reservation/", 12) == 0 ? find_reservation(budgets, key + 12) : NULL;
	if (reservation && value) {
		berth_proto_pack(reservation->row, value);
	}
	return reservation != NULL;
}

static bool load_sum(struct berth_budgets *budgets, const char *key, const Berth__Store__V1__BudgetSumRow *row,
	struct berth_error *err)
{
	struct account *account = account_of_key(budgets, key, true);
	if (!account || row->settled_nano_usd < 0 || row->reserved_nano_usd < 0 || row->forfeited_nano_usd < 0 ||
		row->overrun_nano_usd < 0 || (row->limited && account->kind <= ACCOUNT_PHASE)) {
		return corrupt_budget(err, WHAT, "sum %.200s has no sense", key);
	}
	account->settled = row->settled_nano_usd;
	account->reserved = row->reserved_nano_usd;
	account->forfeited = row->forfeited_nano_usd;
	account->overrun = row->overrun_nano_usd;
	if (row->limited) {
		account->limited = true;
		account->limit = row->limit_nano_usd;
	}
	return true;
}

static bool load_reservation(
	struct berth_budgets *budgets, const char *id, Berth__V1__Reservation **row, struct berth_error *err)
{
	struct budget *budget = find_budget(budgets, (*row)->budget);
	struct berth_budget_refusal refusal = {0};
	bool open = (*row)->state == BERTH__V1__RESERVATION_STATE__RESERVED;
	if (strcmp(id, (*row)->reservation_id) != 0 || !check_reservation(budget, *row, &refusal) ||
		open == ((*row)->ending != NULL) || (!open && (*row)->ending->state != (*row)->state) ||
		find_reservation(budgets, id)) {
		return corrupt_budget(err, WHAT, "reservation %.128s: %s", id,
			refusal.reason ? refusal.error.message : "it does not fit its key or its state");
	}
	struct reservation *reservation = link_reservation(budgets, budget, BERTH_STEAL(*row));
	for (size_t i = 0; i < ACCOUNT_KINDS && open; i++) {
		if (reservation->accounts[i]) {
			reservation->accounts[i]->open++;
		}
	}
	if (!open) {
		DL_APPEND(budgets->ended, reservation);
		budgets->ended_count++;
	}
	return true;
}

bool berth_budgets_load(
	struct berth_budgets *budgets, const char *key, const void *value, size_t size, struct berth_error *err)
{
	if (strncmp(key, "budget/", 7) == 0) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__BudgetRow *row =
			berth_proto_unpack(&berth__store__v1__budget_row__descriptor, value, size, key, err);
		return row && load_budget(budgets, key + 7, row, err);
	}
	if (strncmp(key, "budget_sum/", 11) == 0) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__BudgetSumRow *row =
			berth_proto_unpack(&berth__store__v1__budget_sum_row__descriptor, value, size, key, err);
		return row && load_sum(budgets, key + 11, row, err);
	}
	if (strncmp(key, "reservation/", 12) == 0) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__Reservation *row =
			berth_proto_unpack(&berth__v1__reservation__descriptor, value, size, key, err);
		return row && load_reservation(budgets, key + 12, &row, err);
	}
	return corrupt_budget(err, WHAT, "%.200s is none", key);
}

static void add_open(const struct berth_budgets *budgets, int sign)
{
	const struct reservation *reservation, *next;
	HASH_ITER (hh, budgets->by_id, reservation, next) {
		for (size_t i = 0; i < ACCOUNT_KINDS && !reservation->row->ending; i++) {
			if (reservation->accounts[i]) {
				reservation->accounts[i]->reserved += sign * reservation->row->max_nano_usd;
			}
		}
	}
}

bool berth_budgets_loaded(const struct berth_budgets *budgets, struct berth_error *err)
{
	// Taken off the sums, what is open must leave nothing; then it is put back.
	add_open(budgets, -1);
	bool agree = true;
	const struct budget *budget, *next_budget;
	HASH_ITER (hh, budgets->by_name, budget, next_budget) {
		agree &= budget->total.reserved == 0;
		for (size_t i = 0; i < budget->phases_count; i++) {
			agree &= budget->phases[i].reserved == 0;
		}
		const struct account *account, *next_account;
		HASH_ITER (hh, budget->subs, account, next_account) {
			agree &= account->reserved == 0;
		}
	}
	add_open(budgets, 1);
	return agree || corrupt_budget(err, WHAT, "open reservations do not sum to what is reserved");
}
