// SPDX-License-Identifier: Apache-2.0
// Hazards of leases that docs/ACCEPTANCE.md lists, each shown impossible in the coordinator's own record.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/support/test.h"
#include "tests/unit/core/fleet.h"

#define HOLD_MS     5000
#define LEASE(name) BERTH__V1__LEASE_STATE__LEASE_##name
#define PROOF(name) BERTH__V1__DEATH_PROOF__##name

static int setup(void **state)
{
	*state = test_fleet_new(HOLD_MS);
	test_enroll(*state, "north");
	return 0;
}

static int teardown(void **state)
{
	test_fleet_free(*state);
	return 0;
}

// A job of `tasks` trials that run on north, whose next report is `sequence`.
struct run {
	struct test_fleet *fleet;
	uint64_t session, sequence;
	const char *job;
	char lease[BERTH_ID_SIZE]; // of the first trial
};

static struct run begin(struct test_fleet *fleet, uint32_t tasks)
{
	struct run run = {.fleet = fleet, .session = test_join(fleet, "north", BOOT_A, 4), .sequence = 1};
	run.job = test_submit(fleet, "j", tasks, 1);
	test_place(fleet);
	snprintf(run.lease, sizeof run.lease, "%s", test_lease(fleet, run.job, 0));
	return run;
}

static void end(struct run *run)
{
	free((char *)run->job);
}

static void move(struct run *run, Berth__V1__LeaseState state, Berth__V1__DeathProof proof)
{
	test_report_lease(run->fleet, "north", run->session, BOOT_A, run->sequence++, run->lease, state, proof);
	assert_int_equal(run->fleet->outcome.error.code, BERTH_ERROR_OK);
}

static Berth__V1__Lease *record(const struct run *run)
{
	Berth__V1__Lease *found[8];
	Berth__V1__LeaseDetail *details[BERTH_COUNT(found)];
	size_t count = berth_core_leases(
		run->fleet->core, run->job, BERTH_LEASES_ALL, NULL, BERTH_COUNT(found), found, details);
	Berth__V1__Lease *wanted = NULL;
	for (size_t i = 0; i < count; i++) {
		berth_proto_free(details[i]);
		if (strcmp(found[i]->lease_id, run->lease) == 0) {
			wanted = found[i];
		} else {
			berth_proto_free(found[i]);
		}
	}
	assert_non_null(wanted);
	return wanted;
}

static void assert_state(const struct run *run, Berth__V1__LeaseState wanted)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Lease *lease = record(run);
	assert_int_equal(lease->state, wanted);
}

static void h2_a_late_move_changes_nothing_of_a_lease_that_was_retired_meanwhile(void **state)
{
	static const struct {
		Berth__V1__LeaseState state;
		Berth__V1__DeathProof proof;
	} late[] = {{LEASE(CREATING), 0}, {LEASE(DISPATCHING), 0}, {LEASE(ACTIVE), 0}, {LEASE(CLEANUP_FAILED), 0},
		{LEASE(KILL_PROVED), 0}, {LEASE(RETIRED), PROOF(ABSENCE_SEEN)}, {LEASE(RETIRED), PROOF(REJECTED)}};
	BERTH_AUTO(end) struct run run = begin(*state, 1);
	move(&run, LEASE(DISPATCHING), 0);
	move(&run, LEASE(KILL_PROVED), 0); // a cancel was faster than the thread that opens
	move(&run, LEASE(RETIRED), PROOF(ABSENCE_SEEN));
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Lease *retired = record(&run);
	for (size_t i = 0; i < BERTH_COUNT(late); i++) {
		test_advance_ms(run.fleet, 1000);
		move(&run, late[i].state, late[i].proof);
		BERTH_AUTO(berth_proto_cleanup) Berth__V1__Lease *now = record(&run);
		assert_int_equal(now->state, LEASE(RETIRED));
		assert_int_equal(now->proof, PROOF(ABSENCE_SEEN));
		assert_int_equal(now->retired_at_ns, retired->retired_at_ns);
		assert_string_equal(now->resource_id, "");
	}
}

static void h5_a_providers_expiry_comes_with_the_dispatch_and_outlives_every_state(void **state)
{
	static const Berth__V1__LeaseState later[] = {LEASE(ACTIVE), LEASE(CLEANUP_FAILED), LEASE(KILL_PROVED)};
	BERTH_AUTO(end) struct run run = begin(*state, 1);
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Lease *fresh = record(&run);
	assert_int_equal(fresh->provider_expiry_at_ns, 0);
	test_advance_ms(run.fleet, 600000); // a long wait for a permit, and only then the create
	int64_t expiry_ns = run.fleet->now.wall_ns + 480 * BERTH_NS_PER_S;
	run.fleet->expiry_ns = expiry_ns;
	run.session = test_join(run.fleet, "north", BOOT_A, 4);
	move(&run, LEASE(DISPATCHING), 0);
	const int64_t told[] = {expiry_ns - BERTH_NS_PER_S, expiry_ns + BERTH_NS_PER_S, 0}; // sooner, later, none
	for (size_t i = 0; i < BERTH_COUNT(later); i++) {
		run.fleet->expiry_ns = told[i];
		move(&run, later[i], 0);
		BERTH_AUTO(berth_proto_cleanup) Berth__V1__Lease *lease = record(&run);
		assert_int_equal(lease->state, later[i]);
		assert_int_equal(lease->provider_expiry_at_ns, expiry_ns);
		assert_int_equal(lease->created_at_ns, fresh->created_at_ns);
		assert_string_equal(lease->owner_id, fresh->owner_id);
		assert_string_equal(lease->config_digest, fresh->config_digest);
	}
	move(&run, LEASE(RETIRED), PROOF(ABSENCE_SEEN));
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Lease *retired = record(&run);
	assert_int_equal(retired->provider_expiry_at_ns, expiry_ns);
}

static void h6_an_expiry_is_over_by_the_coordinators_clock_and_a_skew(void **state)
{
	BERTH_AUTO(end) struct run run = begin(*state, 1);
	int64_t begun_ns = run.fleet->now.wall_ns;
	run.fleet->expiry_ns = begun_ns + 480 * BERTH_NS_PER_S;
	move(&run, LEASE(DISPATCHING), 0);
	run.fleet->expiry_ns = 0;
	// What was observed goes before what was asked for, and gets a grace of 30 s.
	run.fleet->end_ns = begun_ns + 100 * BERTH_NS_PER_S;
	move(&run, LEASE(ACTIVE), 0);
	run.fleet->end_ns = 0;
	move(&run, LEASE(ACTIVE), 0); // a second mark without an end takes none away
	move(&run, LEASE(CLEANUP_FAILED), 0);
	run.fleet->now.wall_ns = begun_ns + 130 * BERTH_NS_PER_S - 1;
	move(&run, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
	assert_state(&run, LEASE(CLEANUP_FAILED));
	run.fleet->now.wall_ns++;
	move(&run, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
	assert_state(&run, LEASE(RETIRED));
}

static void h6_without_an_observed_end_the_persisted_expiry_is_the_bound(void **state)
{
	BERTH_AUTO(end) struct run run = begin(*state, 1);
	int64_t expiry_ns = run.fleet->now.wall_ns + 480 * BERTH_NS_PER_S;
	run.fleet->expiry_ns = expiry_ns;
	move(&run, LEASE(DISPATCHING), 0);
	run.fleet->now.wall_ns = expiry_ns - 1;
	run.fleet->expiry_ns = run.fleet->now.wall_ns - 1; // a later word about it moves no bound
	move(&run, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
	assert_state(&run, LEASE(DISPATCHING));
	run.fleet->now.wall_ns = expiry_ns;
	move(&run, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
	assert_state(&run, LEASE(RETIRED));
}

static void h6_what_has_no_end_of_its_own_is_never_over_by_time(void **state)
{
	BERTH_AUTO(end) struct run run = begin(*state, 1);
	move(&run, LEASE(DISPATCHING), 0);
	run.fleet->now.wall_ns += INT64_C(1000000) * BERTH_NS_PER_S;
	run.fleet->expiry_ns = run.fleet->now.wall_ns - 1; // told with the very claim
	move(&run, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
	assert_state(&run, LEASE(DISPATCHING));
	run.fleet->expiry_ns = 0;
	move(&run, LEASE(CLEANUP_FAILED), 0);
	move(&run, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
	assert_state(&run, LEASE(CLEANUP_FAILED));
}

static void a_lease_that_ends_before_it_began_is_not_taken(void **state)
{
	BERTH_AUTO(end) struct run run = begin(*state, 1);
	int64_t begun_ns = run.fleet->now.wall_ns;
	static const int64_t impossible[] = {0, -1, INT64_MIN / 2};
	for (size_t i = 0; i < BERTH_COUNT(impossible); i++) {
		run.fleet->expiry_ns = begun_ns + impossible[i];
		move(&run, LEASE(DISPATCHING), 0);
		assert_state(&run, LEASE(CREATING));
		run.fleet->expiry_ns = 0;
		run.fleet->end_ns = begun_ns + impossible[i];
		move(&run, LEASE(DISPATCHING), 0);
		assert_state(&run, LEASE(CREATING));
		run.fleet->end_ns = 0;
	}
	run.fleet->end_ns = INT64_MAX; // no provider means it; the sum with the grace is none below it
	run.fleet->expiry_ns = begun_ns + 1;
	move(&run, LEASE(DISPATCHING), 0);
	assert_state(&run, LEASE(DISPATCHING));
	move(&run, LEASE(RETIRED), PROOF(EXPIRY_PASSED));
	assert_state(&run, LEASE(DISPATCHING));
}

static void h10_no_lease_begins_under_an_id_that_was_used(void **state)
{
	BERTH_AUTO(end) struct run run = begin(*state, 1);
	move(&run, LEASE(RETIRED), PROOF(NEVER_DISPATCHED));
	BERTH_AUTO_FREE const char *next = test_submit(run.fleet, "next", 1, 1);
	struct berth_core *replica = test_disk_recover(run.fleet->disk, &run.fleet->config);
	// What a placement would log, with the id of the lease that is over.
	struct berth_error err = {0};
	test_place(run.fleet);
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__Event *event = berth_proto_clone(run.fleet->outcome.events[0]);
	assert_int_equal(event->body_case, BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED);
	berth_proto_set_string(&event->trial_assigned->leases[0]->lease_id, run.lease);
	assert_fails(berth_core_apply(replica, event, &err), err, BERTH_ERROR_CORRUPT, "whose id was used before");
	berth_core_free(replica);
	assert_state(&run, LEASE(RETIRED)); // kept, with its proof, beside the new one
}

static void x3_h13_a_result_without_evidence_costs_its_own_trial_alone(void **state)
{
	BERTH_AUTO(end) struct run run = begin(*state, 3);
	struct test_fleet *fleet = run.fleet;
	char leases[3][BERTH_ID_SIZE];
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(leases[i], sizeof leases[i], "%s", test_lease(fleet, run.job, i));
	}
	for (uint32_t i = 0; i < 3; i++) {
		run.sequence = test_live_and_retire(fleet, "north", run.session, BOOT_A, run.sequence, leases[i]);
		fleet->no_evidence = i == 1;
		test_report_done(fleet, "north", run.session, BOOT_A, run.sequence++, test_key(run.job, i, 1),
			BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
		assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
		fleet->no_evidence = false;
	}
	assert_int_equal(test_state(fleet, run.job, 0), BERTH__V1__TRIAL_STATE__TRIAL_SCORED);
	assert_int_equal(test_state(fleet, run.job, 1), BERTH__V1__TRIAL_STATE__TRIAL_QUEUED);
	assert_int_equal(test_state(fleet, run.job, 2), BERTH__V1__TRIAL_STATE__TRIAL_SCORED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(h2_a_late_move_changes_nothing_of_a_lease_that_was_retired_meanwhile),
	TEST(h5_a_providers_expiry_comes_with_the_dispatch_and_outlives_every_state),
	TEST(h6_an_expiry_is_over_by_the_coordinators_clock_and_a_skew),
	TEST(h6_without_an_observed_end_the_persisted_expiry_is_the_bound),
	TEST(h6_what_has_no_end_of_its_own_is_never_over_by_time),
	TEST(a_lease_that_ends_before_it_began_is_not_taken),
	TEST(h10_no_lease_begins_under_an_id_that_was_used),
	TEST(x3_h13_a_result_without_evidence_costs_its_own_trial_alone),
};

BERTH_TEST_MAIN(tests)
