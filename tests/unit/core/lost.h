// SPDX-License-Identifier: Apache-2.0
// A fleet of one agent, and a run of it that a restored ledger lacks.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define HOLD_MS     5000
#define FENCE_MS    (HOLD_MS * 105 / 100 + BERTH_FENCE_EXTRA_MS)
#define LEASE(name) BERTH__V1__LEASE_STATE__LEASE_##name
#define PROOF(name) BERTH__V1__DEATH_PROOF__##name
#define TRIAL(name) BERTH__V1__TRIAL_STATE__TRIAL_##name

struct lost { // a run that was assigned after the backup
	char job[BERTH_ID_SIZE];
	char lease[BERTH_ID_SIZE];
	char older[BERTH_ID_SIZE]; // of lose_a_rerun: the lease of the run that the backup has
	Berth__V1__Assignment *assignment;
	uint64_t backup; // its events
	uint64_t last;   // of the ledger that was lost
};

static inline int setup(void **state)
{
	*state = test_fleet_new(HOLD_MS);
	test_enroll(*state, "north");
	return 0;
}

static inline int teardown(void **state)
{
	test_fleet_free(*state);
	return 0;
}

static inline bool wants_place(const struct test_fleet *fleet)
{
	return berth_core_wants_place(fleet->core, fleet->now);
}

static inline void assert_sums(const struct test_fleet *fleet, int64_t settled, int64_t reserved, int64_t forfeited)
{
	Berth__V1__BudgetTotals totals = test_totals(fleet, "b");
	assert_int_equal(totals.settled_nano_usd, settled);
	assert_int_equal(totals.reserved_nano_usd, reserved);
	assert_int_equal(totals.forfeited_nano_usd, forfeited);
}

static inline void assert_refused(const struct test_fleet *fleet, enum berth_error_code code, const char *part)
{
	assert_fails(fleet->outcome.error.code == BERTH_ERROR_OK, fleet->outcome.error, code, part);
}

// A paid job of one task in the backup; its run is assigned after it.
static inline struct lost lose_a_run(struct test_fleet *fleet)
{
	struct lost lost = {0};
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	snprintf(lost.job, sizeof lost.job, "%s", job);
	test_join(fleet, "north", BOOT_A, 1);
	lost.backup = test_disk_last(fleet->disk);
	test_place(fleet);
	lost.assignment = test_assignment(fleet, lost.job, 0);
	snprintf(lost.lease, sizeof lost.lease, "%s", lost.assignment->leases[0]->lease_id);
	lost.last = test_disk_last(fleet->disk);
	fleet->obeyed = 1;
	fleet->seen_elsewhere = lost.last;
	return lost;
}

// In the backup generation 1 of the job's trial runs on north. After it north was lost, and south was given
// generation 2.
static inline struct lost lose_a_rerun(struct test_fleet *fleet)
{
	struct lost lost = {0};
	test_enroll(fleet, "south");
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	BERTH_AUTO_FREE const char *job = test_submit_paid(fleet, "j", 1, "b");
	snprintf(lost.job, sizeof lost.job, "%s", job);
	test_join(fleet, "north", BOOT_A, 1);
	test_place(fleet);
	snprintf(lost.older, sizeof lost.older, "%s", test_lease(fleet, lost.job, 0));
	lost.backup = test_disk_last(fleet->disk);
	test_advance_ms(fleet, FENCE_MS + 1);
	test_tick(fleet);
	test_join(fleet, "south", BOOT_B, 1);
	test_place(fleet);
	lost.assignment = test_assignment(fleet, lost.job, 0);
	assert_int_equal(lost.assignment->trial->generation, 2);
	snprintf(lost.lease, sizeof lost.lease, "%s", lost.assignment->leases[0]->lease_id);
	lost.last = test_disk_last(fleet->disk);
	fleet->obeyed = 1;
	fleet->seen_elsewhere = lost.last;
	return lost;
}

// The session of its agent on the restored ledger; what the outbox holds is still to come.
static inline uint64_t lose_a_run_and_resend(struct test_fleet *fleet, struct lost *lost)
{
	*lost = lose_a_run(fleet);
	test_restore(fleet, lost->backup);
	return test_hello(fleet, "north", BOOT_A, 1);
}

static inline void give(struct test_fleet *fleet, const struct lost *lost)
{
	fleet->given_lease = lost->assignment->leases[0];
	fleet->given_reservation = lost->assignment->reservations[0];
}

static inline void take_back(struct test_fleet *fleet, struct lost *lost)
{
	fleet->given_lease = NULL;
	fleet->given_reservation = NULL;
	berth_proto_free(lost->assignment);
}
