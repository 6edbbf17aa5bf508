// SPDX-License-Identifier: Apache-2.0
// The money that the log moves, against the limit, and against what the
// Engines' clocks say that was used.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/evidence/sign.h"
#include "tests/sim/audit_internal.h"
#include "tests/sim/check.h"

#define S              INT64_C(1000000000)
#define DRIFT_PER_CENT 5 // what an agent's clock may be slow by

static struct audit_reservation *find(const char *id)
{
	struct audit_reservation *reservation = NULL;
	HASH_FIND_STR(audit.reservations, id, reservation);
	return reservation;
}

// When something is granted: a limit that was lowered since stops new grants alone.
static void check_limit(void)
{
	const struct audit_money *money = &audit.money;
	int64_t all = money->settled + money->reserved + money->forfeited;
	if (all > money->limit) {
		sim_violation("I6",
			"settled %lld, reserved %lld and forfeited %lld are more "
			"than the limit of %lld",
			(long long)money->settled, (long long)money->reserved, (long long)money->forfeited,
			(long long)money->limit);
	}
}

void audit_money_opened(const Berth__Store__V1__BudgetOpened *event)
{
	audit.money.limit = audit.money.limit_most = event->policy->hard_limit_nano_usd;
}

void audit_money_amended(const Berth__Store__V1__BudgetAmended *event)
{
	struct audit_money *money = &audit.money;
	if (event->number != money->amendments + 1 || event->signature.len != BERTH_SIGNATURE_SIZE) {
		sim_violation("I6", "amendment %llu follows %llu", (unsigned long long)event->number,
			(unsigned long long)money->amendments);
	}
	money->amendments = event->number;
	money->limit = event->hard_limit_nano_usd;
	money->limit_most = money->limit > money->limit_most ? money->limit : money->limit_most;
	sim_trace("log: the limit is %lld", (long long)money->limit);
}

void sim_audit_amended(uint64_t number, int64_t limit_nano_usd)
{
	sim_audit_read();
	if (audit.money.amendments != number || audit.money.limit != limit_nano_usd) {
		sim_violation("I4", "amendment %llu is answered and not durable", (unsigned long long)number);
	}
}

static void add(const Berth__V1__Reservation *row)
{
	struct audit_reservation *reservation = berth_alloc(sizeof *reservation);
	snprintf(reservation->id, sizeof reservation->id, "%s", row->reservation_id);
	reservation->max = row->max_nano_usd;
	HASH_ADD_STR(audit.reservations, id, reservation);
	audit.money.reserved += row->max_nano_usd;
	audit.money.dearest = row->max_nano_usd > audit.money.dearest ? row->max_nano_usd : audit.money.dearest;
	check_limit();
}

void audit_money_reserved(const Berth__V1__Reservation *row, const struct audit_lease *lease)
{
	if (find(row->reservation_id)) {
		sim_violation("P3", "reservation %.8s is made twice", row->reservation_id);
		return;
	}
	if (!lease || strcmp(lease->id, row->reservation_id) != 0) {
		sim_violation("P3", "reservation %.8s is not of the lease that it is for", row->reservation_id);
	}
	add(row);
}

void audit_money_reserved_again(const Berth__V1__Reservation *row)
{
	if (find(row->reservation_id) || !audit_was_lost(row->reservation_id, row->scope->lane)) {
		sim_violation("P3", "reservation %.8s is made again, and was not lost", row->reservation_id);
		return;
	}
	add(row);
}

// P1: nothing that ran for a time is charged for less than that time.
static void check_charge(const struct audit_reservation *reservation, const Berth__V1__ReservationEnding *ending)
{
	int64_t lived_s = sim_docker_lifetime_ns(reservation->id) * (100 - DRIFT_PER_CENT) / 100 / S;
	int64_t cost = lived_s * SIM_NANO_USD_PER_SECOND;
	cost = cost < reservation->max ? cost : reservation->max;
	if (ending->charged_nano_usd < cost) {
		sim_violation("P1",
			"reservation %.8s is charged %lld, and its container ran for "
			"%lld s, which cost %lld",
			reservation->id, (long long)ending->charged_nano_usd, (long long)lived_s, (long long)cost);
	}
	if (ending->charged_nano_usd > reservation->max) {
		sim_violation("P1", "reservation %.8s is charged more than it held", reservation->id);
	}
}

bool sim_audit_money_is_short(void)
{
	enum { LEASES_A_RUN = 2 };
	const struct audit_money *money = &audit.money;
	int64_t left = money->limit - money->settled - money->forfeited - money->reserved;
	return !money->reserved && left < LEASES_A_RUN * money->dearest;
}

void audit_money_ended(const Berth__Store__V1__BudgetEnded *event)
{
	struct audit_reservation *reservation = find(event->reservation_id);
	struct audit_money *money = &audit.money;
	if (!reservation || reservation->ended) {
		sim_violation("I6", "reservation %.8s ends and is not open", event->reservation_id);
		return;
	}
	reservation->ended = true;
	money->reserved -= reservation->max;
	if (event->ending->state == BERTH__V1__RESERVATION_STATE__FORFEITED) {
		money->forfeited += event->ending->charged_nano_usd;
	} else {
		money->settled += event->ending->charged_nano_usd;
	}
	sim_trace("log: reservation %.8s ends (%d), charged %lld", reservation->id, (int)event->ending->state,
		(long long)event->ending->charged_nano_usd);
	check_charge(reservation, event->ending);
}

void audit_money_appealed(const Berth__Store__V1__BudgetAppealed *event)
{
	struct audit_money *money = &audit.money;
	money->forfeited -= event->forfeited->ending ? event->forfeited->ending->charged_nano_usd : 0;
	money->settled += event->ending->charged_nano_usd;
}

bool audit_money_is_reserved(const char *lease_id)
{
	const struct audit_reservation *reservation = find(lease_id);
	return reservation && !reservation->ended;
}

bool audit_money_knows(const char *lease_id)
{
	return find(lease_id) != NULL;
}

uint64_t sim_audit_amendments(int64_t *limit_nano_usd)
{
	*limit_nano_usd = audit.money.limit;
	return audit.money.amendments;
}

const char *audit_money_open(void)
{
	const struct audit_reservation *reservation, *next;
	HASH_ITER (hh, audit.reservations, reservation, next) {
		if (!reservation->ended) {
			return reservation->id;
		}
	}
	return NULL;
}

void audit_money_whole(void)
{
	const struct audit_reservation *reservation, *next;
	int64_t bill = 0;
	HASH_ITER (hh, audit.reservations, reservation, next) {
		bill += sim_docker_lifetime_ns(reservation->id) / S * SIM_NANO_USD_PER_SECOND;
	}
	if (bill > audit.money.limit_most) {
		sim_violation("P1", "the Engines ran for %lld, and the limit is %lld", (long long)bill,
			(long long)audit.money.limit_most);
	}
}

void audit_money_forget(void)
{
	struct audit_reservation *reservation, *next;
	HASH_ITER (hh, audit.reservations, reservation, next) {
		HASH_DEL(audit.reservations, reservation);
		free(reservation);
	}
}
