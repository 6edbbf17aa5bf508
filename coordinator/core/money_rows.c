// SPDX-License-Identifier: Apache-2.0
// Records of the budgets: the rows of coordinator/budget under their keys, but a reservation under its job's, so that a
// start reads those of the jobs that it keeps in memory and no others. One of a job that the ledger never had, or lost
// with its newest part, is with those of no job, which a start reads as well.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

#define RESERVATION "reservation/"
#define NO_JOB      "-"

static const Berth__V1__Reservation *reservation_of(const struct berth_budgets *budgets, const char *key)
{
	bool is_one = strncmp(key, RESERVATION, strlen(RESERVATION)) == 0;
	return is_one ? berth_budgets_reservation(budgets, key + strlen(RESERVATION)) : NULL;
}

// An open one is money that is held. Any other end than a forfeit that may be appealed is final.
static bool is_final(const Berth__V1__Reservation *row)
{
	return row->state != BERTH__V1__RESERVATION_STATE__RESERVED && !may_be_appealed(row);
}

static char *record_key(const char *key, const Berth__V1__Reservation *row, bool of_no_job)
{
	return row ? berth_format(RESERVATION "%s/%s", of_no_job ? NO_JOB : row->job_id, row->reservation_id)
	           : berth_strdup(key);
}

void money_rows_add(struct rows *rows, const struct money_row *money)
{
	const Berth__V1__Reservation *reservation = reservation_of(money->budgets, money->key);
	struct row *row = rows_add(rows, record_key(money->key, reservation, money->of_no_job));
	berth_budgets_row(money->budgets, money->key, &row->value);
}

static bool is_of_no_job(const struct berth_core *core, const Berth__V1__Reservation *row)
{
	return row && !core_job(core, row->job_id);
}

static struct money_row *find(const struct berth_core *core, const char *key)
{
	struct money_row *money = NULL;
	HASH_FIND_STR(core->money, key, money);
	return money;
}

struct all {
	const struct berth_core *core;
	struct rows *rows;
};

static void add_current(void *context, const char *key, const struct berth_buf *value)
{
	const struct all *all = context;
	const Berth__V1__Reservation *row = reservation_of(all->core->budgets, key);
	if (!row || !is_final(row)) {
		const struct money_row *money = find(all->core, key);
		bool of_no_job = money ? money->of_no_job : is_of_no_job(all->core, row);
		berth_buf_add(&rows_add(all->rows, record_key(key, row, of_no_job))->value, value->data, value->size);
	}
}

void money_rows_all(const struct berth_core *core, struct rows *rows)
{
	struct all all = {core, rows};
	berth_budgets_rows(core->budgets, add_current, &all);
}

static struct money_row *make(struct berth_core *core, const char *key)
{
	struct money_row *money = berth_alloc(sizeof *money + strlen(key) + 1);
	money->budgets = core->budgets;
	money->of_no_job = is_of_no_job(core, reservation_of(core->budgets, key));
	memcpy(money->key, key, strlen(key) + 1);
	HASH_ADD_STR(core->money, key, money);
	return money;
}

static void touch(void *context, const char *key)
{
	struct berth_core *core = context;
	struct money_row *money = find(core, key);
	// Before the event that makes it there is no row to keep.
	if (!money && berth_budgets_row(core->budgets, key, NULL)) {
		money = make(core, key);
	}
	rows_touch(core, ROW_MONEY, money);
}

void money_rows_touch(struct berth_core *core, const Berth__Store__V1__Event *event, bool made)
{
	if (core->payer_epoch != core->epoch) {
		core->payer_epoch = core->epoch;
		core->payer.budget[0] = 0;
	}
	core->payer.follows = made; // before, its rows need not be there to be noted
	berth_budgets_keys(core->budgets, event, &core->payer, touch, core);
}

void money_rows_forget(struct berth_core *core, struct money_row *money)
{
	const Berth__V1__Reservation *row = reservation_of(core->budgets, money->key);
	if (money->recorded.changed_in || !row || !is_final(row)) {
		return;
	}
	berth_proto_free(berth_budgets_forget(core->budgets, row->reservation_id));
	HASH_DEL(core->money, money);
	free(money);
}

bool money_rows_load(struct berth_core *core, const char *key, unsigned slot, const void *value, size_t size,
	struct berth_error *err)
{
	const char *id = strrchr(key, '/') + 1;
	BERTH_AUTO_FREE char *row_key = strncmp(key, RESERVATION, strlen(RESERVATION)) == 0
	                                        ? berth_format(RESERVATION "%s", id)
	                                        : berth_strdup(key);
	if (!berth_budgets_load(core->budgets, row_key, value, size, err)) {
		return false;
	}
	const Berth__V1__Reservation *row = reservation_of(core->budgets, row_key);
	if (row && is_final(row)) {
		berth_proto_free(berth_budgets_forget(core->budgets, id));
		return true;
	}
	struct money_row *money = make(core, row_key);
	money->recorded.slot = (uint8_t)slot;
	money->of_no_job = strncmp(key, RESERVATION NO_JOB "/", strlen(RESERVATION NO_JOB "/")) == 0;
	return true;
}

void money_rows_free(struct berth_core *core)
{
	struct money_row *money, *next;
	HASH_ITER (hh, core->money, money, next) {
		HASH_DEL(core->money, money);
		free(money);
	}
}
