// SPDX-License-Identifier: Apache-2.0
// The governor in front of placement: how fast environments are begun, and how many live.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define HOLD_MS 60000
#define HALF_MS 500

// Two creates a second; `places` may live at once.
static struct test_fleet *paced(uint32_t places)
{
	struct test_fleet *fleet = test_fleet_new_paced(
		HOLD_MS, (struct berth_governor_policy){
				 .dispatches = 2, .period_ms = 1000, .places = places, .permit_ms = 30000});
	test_enroll(fleet, "north");
	test_enroll(fleet, "south");
	return fleet;
}

// As the engine does: it wakes when something is due, and places as long as the core wants it.
static uint32_t place_all(struct test_fleet *fleet)
{
	uint32_t assigned = 0;
	if (fleet->now.boot_ns >= berth_core_next_tick_ns(fleet->core)) {
		test_tick(fleet);
	}
	while (berth_core_wants_place(fleet->core, fleet->now)) {
		test_place(fleet);
		assigned += (uint32_t)test_effects(fleet, BERTH_EFFECT_ASSIGN);
	}
	return assigned;
}

static void creates_of_the_whole_fleet_are_evenly_spaced(void **state)
{
	(void)state;
	struct test_fleet *fleet = paced(0);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 6, 1);
	uint64_t north = test_join(fleet, "north", BOOT_A, 3), south = test_join(fleet, "south", BOOT_B, 3);
	assert_int_equal(place_all(fleet), 0); // as if one had been created just before this life began
	for (uint32_t i = 0; i < 6; i++) {
		assert_true(berth_core_next_tick_ns(fleet->core) <= fleet->now.boot_ns + HALF_MS * BERTH_NS_PER_MS);
		test_advance_ms(fleet, HALF_MS - 1);
		assert_int_equal(place_all(fleet), 0);
		test_advance_ms(fleet, 1);
		assert_int_equal(place_all(fleet), 1);
		if (i % 2) { // keep both in session
			test_beat(fleet, "north", north, NULL, 0);
			test_beat(fleet, "south", south, NULL, 0);
		}
	}
	test_fleet_free(fleet);
}

static void a_full_account_waits_for_a_proven_death(void **state)
{
	(void)state;
	struct test_fleet *fleet = paced(1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 2, 1);
	uint64_t north = test_join(fleet, "north", BOOT_A, 2);
	test_advance_ms(fleet, HALF_MS);
	assert_int_equal(place_all(fleet), 1);
	test_advance_ms(fleet, 2 * HALF_MS);
	assert_int_equal(place_all(fleet), 0);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	test_live_and_retire(fleet, "north", north, BOOT_A, 1, lease);
	assert_int_equal(place_all(fleet), 1);
	test_fleet_free(fleet);
}

static void a_restart_counts_what_lives(void **state)
{
	(void)state;
	struct test_fleet *fleet = paced(1);
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 2, 1);
	test_join(fleet, "north", BOOT_A, 2);
	test_advance_ms(fleet, HALF_MS);
	assert_int_equal(place_all(fleet), 1);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, job, 0));
	test_restart(fleet);
	const Berth__V1__TrialKey key = test_key(job, 0, 1);
	uint64_t north = test_join(fleet, "north", BOOT_A, 2);
	test_beat(fleet, "north", north, &key, 1);
	test_advance_ms(fleet, 2 * HALF_MS);
	assert_int_equal(place_all(fleet), 0);
	test_live_and_retire(fleet, "north", north, BOOT_A, 1, lease);
	test_beat(fleet, "north", north, &key, 1);
	test_advance_ms(fleet, 2 * HALF_MS);
	assert_int_equal(place_all(fleet), 1);
	test_fleet_free(fleet);
}

// A separate verifier environment is a create of its own.
static void a_run_of_two_environments_holds_both_permits_first(void **state)
{
	(void)state;
	struct test_fleet *fleet = paced(0);
	fleet->verifier = true;
	BERTH_AUTO_FREE const char *job = test_submit(fleet, "j", 1, 1);
	test_join(fleet, "north", BOOT_A, 2);
	test_advance_ms(fleet, HALF_MS);
	assert_int_equal(place_all(fleet), 0);
	test_advance_ms(fleet, HALF_MS);
	assert_int_equal(place_all(fleet), 1);
	test_fleet_free(fleet);
}

// A run that its budget has no room for gives its place back.
static void a_run_without_money_keeps_no_place(void **state)
{
	(void)state;
	struct test_fleet *fleet = paced(1);
	test_open_budget(fleet, "b", TEST_PRICE, TEST_PRICE, "");
	BERTH_AUTO_FREE char *paid = (char *)test_submit_paid(fleet, "p", 2, "b");
	uint64_t north = test_join(fleet, "north", BOOT_A, 2);
	test_advance_ms(fleet, HALF_MS);
	assert_int_equal(place_all(fleet), 1);
	BERTH_AUTO_FREE char *lease = berth_strdup(test_lease(fleet, paid, 0));
	test_report_lease(fleet, "north", north, BOOT_A, 1, lease, BERTH__V1__LEASE_STATE__LEASE_RETIRED,
		BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
	test_advance_ms(fleet, HALF_MS);
	BERTH_AUTO_FREE char *free_job = (char *)test_submit(fleet, "f", 1, 1);
	assert_int_equal(place_all(fleet), 1);
	test_fleet_free(fleet);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(creates_of_the_whole_fleet_are_evenly_spaced),
	cmocka_unit_test(a_full_account_waits_for_a_proven_death),
	cmocka_unit_test(a_restart_counts_what_lives),
	cmocka_unit_test(a_run_of_two_environments_holds_both_permits_first),
	cmocka_unit_test(a_run_without_money_keeps_no_place),
};
BERTH_TEST_MAIN(tests)
