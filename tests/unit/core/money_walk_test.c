// SPDX-License-Identifier: Apache-2.0
// A seeded walk over everything that can become of paid leases: the replica and the recovered core check each event,
// and no limit that was in force is passed at any step.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define HOLD_MS     TEST_HOLD_MS
#define FENCE_MS    (HOLD_MS * 105 / 100 + BERTH_FENCE_EXTRA_MS)
#define LEASE(name) BERTH__V1__LEASE_STATE__LEASE_##name
#define PROOF(name) BERTH__V1__DEATH_PROOF__##name

struct walk {
	struct test_fleet *fleet;
	unsigned seed;
	uint64_t sessions[2], sequences[2], amendments;
	const char *jobs[3];
	int64_t limit, most; // the highest limit that was ever in force
	int64_t forfeited;   // the most that was
	bool blocked;
};

static const char *const names[] = {"north", "south"};
static const char *const boots[] = {BOOT_A, BOOT_B};

// No limit that was in force when they were granted is passed, and what is held is what open reservations say.
static void check_money(struct walk *walk)
{
	Berth__V1__BudgetTotals totals = test_totals(walk->fleet, "b");
	assert_true(totals.settled_nano_usd + totals.reserved_nano_usd + totals.forfeited_nano_usd <= walk->most);
	Berth__V1__Reservation *open[256];
	size_t count = berth_core_reservations(walk->fleet->core, "b", true, NULL, BERTH_COUNT(open), open);
	int64_t reserved = 0;
	for (size_t i = 0; i < count; i++) {
		reserved += open[i]->max_nano_usd;
		berth_proto_free(open[i]);
	}
	assert_int_equal(reserved, totals.reserved_nano_usd);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Budget *budget = berth_core_budget(walk->fleet->core, "b");
	walk->blocked |= budget->blocked_trials > 0;
	walk->forfeited = totals.forfeited_nano_usd > walk->forfeited ? totals.forfeited_nano_usd : walk->forfeited;
}

static void report(
	struct walk *walk, int who, const char *lease, Berth__V1__LeaseState state, Berth__V1__DeathProof proof)
{
	test_report_lease(
		walk->fleet, names[who], walk->sessions[who], boots[who], walk->sequences[who], lease, state, proof);
	walk->sequences[who] += walk->fleet->outcome.error.code == BERTH_ERROR_OK;
}

// Any lease of the budget, in memory still or not, meets one of the ends that there are.
static void end_some_lease(struct walk *walk, int who)
{
	Berth__V1__Reservation *rows[256];
	size_t count = berth_core_reservations(walk->fleet->core, "b", false, NULL, BERTH_COUNT(rows), rows);
	BERTH_AUTO_FREE char *lease =
		count ? berth_strdup(rows[(size_t)rand_r(&walk->seed) % count]->reservation_id) : NULL;
	for (size_t i = 0; i < count; i++) {
		berth_proto_free(rows[i]);
	}
	if (!lease || !walk->sessions[who]) {
		return;
	}
	walk->fleet->elapsed_ns = rand_r(&walk->seed) % 3 * (rand_r(&walk->seed) % 7000) * BERTH_NS_PER_S;
	switch (rand_r(&walk->seed) % 6) {
	case 0:
		report(walk, who, lease, LEASE(RETIRED), PROOF(NEVER_DISPATCHED));
		break;
	case 1:
		walk->fleet->expiry_ns = walk->fleet->now.wall_ns + BERTH_NS_PER_MS;
		report(walk, who, lease, LEASE(DISPATCHING), 0);
		walk->fleet->expiry_ns = 0;
		test_advance_ms(walk->fleet, 1);
		report(walk, who, lease, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
		break;
	case 2:
		report(walk, who, lease, LEASE(CLEANUP_FAILED), 0);
		report(walk, who, lease, LEASE(RETIRED), PROOF(GIVEN_UP));
		break;
	default:
		report(walk, who, lease, LEASE(DISPATCHING), 0);
		report(walk, who, lease, LEASE(KILL_PROVED), 0);
		report(walk, who, lease, LEASE(RETIRED), PROOF(ABSENCE_SEEN));
	}
}

static void end_some_trial(struct walk *walk, int who)
{
	const char *job = walk->jobs[rand_r(&walk->seed) % 3];
	uint32_t index = (uint32_t)rand_r(&walk->seed) % 6;
	uint32_t generation = test_generation(walk->fleet, job, index);
	if (walk->sessions[who] && generation) {
		test_report_done(walk->fleet, names[who], walk->sessions[who], boots[who], walk->sequences[who],
			test_key(job, index, generation),
			rand_r(&walk->seed) % 3 ? BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE
						: BERTH__V1__OUTCOME__OUTCOME_SCORED,
			"RuntimeError");
		walk->sequences[who] += walk->fleet->outcome.error.code == BERTH_ERROR_OK;
	}
}

static void amend_some_limit(struct walk *walk)
{
	walk->limit = (1 + rand_r(&walk->seed) % 20) * TEST_PRICE / 2;
	walk->most = walk->limit > walk->most ? walk->limit : walk->most;
	test_amend_budget(walk->fleet, "b", ++walk->amendments, walk->limit, walk->limit);
}

static void no_walk_passes_a_limit(void **state)
{
	struct walk walk = {.fleet = *state, .seed = 77, .sequences = {1, 1}, .most = 3 * TEST_PRICE};
	test_open_budget(walk.fleet, "b", walk.most, walk.most, "");
	for (size_t i = 0; i < BERTH_COUNT(walk.jobs); i++) {
		BERTH_AUTO_FREE char *key = berth_format("job-%zu", i);
		walk.jobs[i] = test_submit_paid(walk.fleet, key, 6, "b");
	}
	for (int step = 0; step < 3000; step++) {
		int who = rand_r(&walk.seed) % 2;
		switch (rand_r(&walk.seed) % 9) {
		case 0:
			walk.sessions[who] = test_join(walk.fleet, names[who], boots[who], 3);
			break;
		case 1:
			test_advance_ms(walk.fleet, rand_r(&walk.seed) % (2 * FENCE_MS));
			test_tick(walk.fleet);
			break;
		case 2:
		case 3:
			test_place(walk.fleet);
			break;
		case 4:
			end_some_trial(&walk, who);
			break;
		case 5:
			if (rand_r(&walk.seed) % 8 == 0) {
				amend_some_limit(&walk);
			}
			break;
		case 6:
			if (walk.sessions[who]) {
				test_beat(walk.fleet, names[who], walk.sessions[who], NULL, 0);
			}
			break;
		default:
			end_some_lease(&walk, who);
		}
		check_money(&walk);
	}
	Berth__V1__BudgetTotals totals = test_totals(walk.fleet, "b");
	// It has been everywhere: settlements, forfeits and their appeals, trials that waited.
	assert_true(totals.settled_nano_usd > 0 && walk.forfeited > totals.forfeited_nano_usd && walk.blocked);
	for (size_t i = 0; i < BERTH_COUNT(walk.jobs); i++) {
		free((char *)walk.jobs[i]);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(no_walk_passes_a_limit, test_set_up_two, test_tear_down),
};

BERTH_TEST_MAIN(tests)
