// SPDX-License-Identifier: Apache-2.0
// A ledger that goes on from a backup: who has to say what came after it, and what it then knows.
#include "tests/unit/core/lost.h"

static void an_assignment_names_what_was_reserved_for_it(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_run(fleet);
	assert_int_equal(lost.assignment->n_reservations, 1);
	assert_string_equal(lost.assignment->reservations[0]->reservation_id, lost.lease);
	assert_int_equal(lost.assignment->reservations[0]->max_nano_usd, TEST_PRICE);
	take_back(fleet, &lost);
}

static void an_older_copy_is_refused_until_its_restore_is_accepted(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_run(fleet);
	test_hello(fleet, "north", BOOT_A, 1);
	assert_refused(fleet, BERTH_ERROR_FENCED, "older copy");
	test_restore(fleet, lost.backup);
	test_hello(fleet, "north", BOOT_A, 1);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_WELCOME), 1);
	take_back(fleet, &lost);
}

static void what_the_backup_holds_must_still_be_held(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_run(fleet);
	test_restore(fleet, lost.backup);
	fleet->seen_elsewhere = lost.backup; // another event in its place
	test_hello(fleet, "north", BOOT_A, 1);
	assert_refused(fleet, BERTH_ERROR_FENCED, "older copy");
	take_back(fleet, &lost);
}

static void nothing_is_assigned_before_every_agent_has_resent(void **state)
{
	struct test_fleet *fleet = *state;
	test_enroll(fleet, "south");
	struct lost lost;
	uint64_t north = lose_a_run_and_resend(fleet, &lost);
	fleet->outbox_first = 1;
	test_beat(fleet, "north", north, NULL, 0);
	assert_int_equal(berth_core_resending(fleet->core, NULL, 0), 2);
	fleet->outbox_first = 0;
	test_beat(fleet, "north", north, NULL, 0);
	const char *left[2];
	assert_int_equal(berth_core_resending(fleet->core, left, 2), 1);
	assert_string_equal(left[0], "south");
	assert_false(wants_place(fleet));
	test_join(fleet, "south", BOOT_B, 1);
	assert_int_equal(berth_core_resending(fleet->core, NULL, 0), 0);
	assert_true(wants_place(fleet));
	take_back(fleet, &lost);
}

static void a_lost_run_is_taken_up_and_its_result_counts(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_run(fleet);
	test_restore(fleet, lost.backup);
	assert_sums(fleet, 0, 0, 0);
	uint64_t north = test_hello(fleet, "north", BOOT_A, 1);
	fleet->outbox_first = 1;
	test_beat(fleet, "north", north, NULL, 0);
	give(fleet, &lost);
	fleet->elapsed_ns = 61 * BERTH_NS_PER_S;
	test_report_lease(fleet, "north", north, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	assert_sums(fleet, 0, TEST_PRICE, 0);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
	assert_int_equal(test_generation(fleet, lost.job, 0), 1);
	take_back(fleet, &lost);
	test_report_lease(fleet, "north", north, BOOT_A, 2, lost.lease, LEASE(ACTIVE), 0);
	test_report_lease(fleet, "north", north, BOOT_A, 3, lost.lease, LEASE(KILL_PROVED), 0);
	test_report_lease(fleet, "north", north, BOOT_A, 4, lost.lease, LEASE(RETIRED), PROOF(ABSENCE_SEEN));
	assert_sums(fleet, 120 * 10, 0, 0);
	test_report_done(
		fleet, "north", north, BOOT_A, 5, test_key(lost.job, 0, 1), BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	fleet->outbox_first = 0;
	test_beat(fleet, "north", north, NULL, 0);
	assert_int_equal(berth_core_resending(fleet->core, NULL, 0), 0);
	test_tick(fleet);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(SCORED));
	assert_int_equal(test_job_state(fleet, lost.job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
}

static void a_run_that_goes_on_is_not_revoked(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost;
	uint64_t north = lose_a_run_and_resend(fleet, &lost);
	Berth__V1__TrialKey key = test_key(lost.job, 0, 1);
	fleet->outbox_first = 1;
	test_beat(fleet, "north", north, &key, 1);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REVOKE), 0);
	give(fleet, &lost);
	test_report_lease(fleet, "north", north, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	take_back(fleet, &lost);
	fleet->outbox_first = 0;
	test_beat(fleet, "north", north, &key, 1);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REVOKE), 0);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_ASSIGN), 0);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
}

// The backup has the run, and its agent needs longer than the fencing wait to come back.
static void a_result_that_comes_late_after_a_restore_counts(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_run(fleet);
	fleet->obeyed = fleet->seen_elsewhere = 0;
	test_restore(fleet, lost.last);
	test_advance_ms(fleet, FENCE_MS + 1);
	test_tick(fleet);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
	uint64_t north = test_hello(fleet, "north", BOOT_A, 1);
	uint64_t sequence = test_live_and_retire(fleet, "north", north, BOOT_A, 1, lost.lease);
	test_report_done(fleet, "north", north, BOOT_A, sequence, test_key(lost.job, 0, 1),
		BERTH__V1__OUTCOME__OUTCOME_SCORED, NULL);
	test_beat(fleet, "north", north, NULL, 0);
	test_tick(fleet);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(SCORED));
	take_back(fleet, &lost);
}

// Its verifier's environment is yet to come, and nobody waits for an agent that has said everything.
static void the_leases_of_a_lost_run_are_taken_up_together(void **state)
{
	struct test_fleet *fleet = *state;
	fleet->verifier = true;
	struct lost lost = lose_a_run(fleet);
	const Berth__V1__Lease *verifier = lost.assignment->leases[1];
	Berth__V1__LeaseGrant other = BERTH__V1__LEASE_GRANT__INIT;
	other.lease = lost.assignment->leases[1];
	other.reservation = lost.assignment->reservations[1];
	test_restore(fleet, lost.backup);
	uint64_t north = test_hello(fleet, "north", BOOT_A, 1);
	give(fleet, &lost);
	fleet->given_other = &other;
	test_amend_budget(fleet, "b", 1, TEST_PRICE, TEST_PRICE); // room for one of both
	test_report_lease(fleet, "north", north, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	assert_refused(fleet, BERTH_ERROR_BUDGET, "can't be accounted for");
	assert_sums(fleet, 0, 0, 0); // the report is still to come, whole
	test_amend_budget(fleet, "b", 2, 1000000, 1000000);
	north = test_hello(fleet, "north", BOOT_A, 1);
	test_report_lease(fleet, "north", north, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	assert_sums(fleet, 0, TEST_PRICE + TEST_VERIFIER_PRICE, 0);
	fleet->given_other = NULL;
	Berth__V1__TrialKey key = test_key(lost.job, 0, 1);
	test_beat(fleet, "north", north, &key, 1);
	assert_int_equal(berth_core_resending(fleet->core, NULL, 0), 0);
	fleet->given_lease = NULL;
	fleet->given_reservation = NULL;
	test_report_lease(fleet, "north", north, BOOT_A, 2, verifier->lease_id, LEASE(DISPATCHING), 0);
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__Reservation *row = test_reservation(fleet, "b", verifier->lease_id);
	assert_int_equal(row->state, BERTH__V1__RESERVATION_STATE__RESERVED);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	take_back(fleet, &lost);
}

// It builds an image, say: it has reported nothing, and nothing of it is in the ledger.
static void a_lost_run_without_a_mark_is_stopped_before_its_trial_begins_elsewhere(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost;
	uint64_t north = lose_a_run_and_resend(fleet, &lost);
	Berth__V1__TrialKey key = test_key(lost.job, 0, 1);
	test_beat(fleet, "north", north, &key, 1);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REVOKE), 1);
	assert_int_equal(berth_core_resending(fleet->core, NULL, 0), 1);
	assert_false(wants_place(fleet));
	give(fleet, &lost);
	test_report_lease(fleet, "north", north, BOOT_A, 1, lost.lease, LEASE(RETIRED), PROOF(NEVER_DISPATCHED));
	take_back(fleet, &lost);
	assert_int_equal(test_generation(fleet, lost.job, 0), 1);
	assert_sums(fleet, 0, 0, 0);
	test_report_done(fleet, "north", north, BOOT_A, 2, key, BERTH__V1__OUTCOME__OUTCOME_CANCELLED, NULL);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(QUEUED)); // nobody cancelled its job
	test_beat(fleet, "north", north, NULL, 0);
	assert_int_equal(berth_core_resending(fleet->core, NULL, 0), 0);
	test_place(fleet);
	assert_int_equal(test_generation(fleet, lost.job, 0), 2);
}

static void a_mark_after_the_heartbeat_that_listed_its_run_is_taken_up(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost;
	uint64_t north = lose_a_run_and_resend(fleet, &lost);
	Berth__V1__TrialKey key = test_key(lost.job, 0, 1);
	test_beat(fleet, "north", north, &key, 1);
	give(fleet, &lost);
	test_report_lease(fleet, "north", north, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	take_back(fleet, &lost);
	assert_sums(fleet, 0, TEST_PRICE, 0);
	test_beat(fleet, "north", north, &key, 1);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
	assert_int_equal(berth_core_resending(fleet->core, NULL, 0), 0);
}

static void the_newest_generation_keeps_the_trial(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_rerun(fleet);
	test_restore(fleet, lost.backup);
	uint64_t south = test_hello(fleet, "south", BOOT_B, 1);
	give(fleet, &lost);
	test_report_lease(fleet, "south", south, BOOT_B, 1, lost.lease, LEASE(DISPATCHING), 0);
	take_back(fleet, &lost);
	assert_int_equal(test_generation(fleet, lost.job, 0), 2);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
	assert_sums(fleet, 0, 2 * TEST_PRICE, 0);
	uint64_t north = test_hello(fleet, "north", BOOT_A, 1);
	fleet->elapsed_ns = 1;
	test_live_and_retire(fleet, "north", north, BOOT_A, 1, lost.older);
	assert_sums(fleet, 60 * 10, TEST_PRICE, 0);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(RUNNING));
}

static void a_lost_jobs_money_still_counts(void **state)
{
	struct test_fleet *fleet = *state;
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	uint64_t backup = test_disk_last(fleet->disk);
	struct lost lost = {0};
	BERTH_AUTO_FREE char *job = (char *)test_submit_paid(fleet, "j", 1, "b");
	test_join(fleet, "north", BOOT_A, 1);
	test_place(fleet);
	lost.assignment = test_assignment(fleet, job, 0);
	BERTH_AUTO_FREE char *lease = berth_strdup(lost.assignment->leases[0]->lease_id);
	fleet->obeyed = 1;
	fleet->seen_elsewhere = test_disk_last(fleet->disk);
	test_restore(fleet, backup);
	uint64_t north = test_hello(fleet, "north", BOOT_A, 1);
	give(fleet, &lost);
	test_report_lease(fleet, "north", north, BOOT_A, 1, lease, LEASE(DISPATCHING), 0);
	take_back(fleet, &lost);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	assert_sums(fleet, 0, TEST_PRICE, 0);
	for (int i = 0; i < 20; i++) { // no log before it, but records alone
		test_disk_write(fleet->disk, fleet->core, 3);
	}
	test_restart(fleet);
	assert_sums(fleet, 0, TEST_PRICE, 0);
	north = test_hello(fleet, "north", BOOT_A, 1);
	fleet->elapsed_ns = 61 * BERTH_NS_PER_S;
	test_report_lease(fleet, "north", north, BOOT_A, 2, lease, LEASE(KILL_PROVED), 0);
	test_report_lease(fleet, "north", north, BOOT_A, 3, lease, LEASE(RETIRED), PROOF(ABSENCE_SEEN));
	assert_sums(fleet, 120 * 10, 0, 0);
}

// A budget that was made or raised after the backup: nothing is lost, and the agent is heard once it is as it was.
static void money_that_cannot_be_accounted_for_is_said_and_waits(void **state)
{
	struct test_fleet *fleet = *state;
	uint64_t backup = test_disk_last(fleet->disk);
	struct lost lost = lose_a_run(fleet);
	test_restore(fleet, backup);
	uint64_t north = test_hello(fleet, "north", BOOT_A, 1);
	give(fleet, &lost);
	test_report_lease(fleet, "north", north, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	assert_refused(fleet, BERTH_ERROR_BUDGET, "no budget is named b");
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REPORT_ACK), 0);
	// What its next life says of the lease is on the way behind it.
	test_report_lease(fleet, "north", north, BOOT_B, 1, lost.lease, LEASE(RETIRED), PROOF(NEVER_DISPATCHED));
	assert_refused(fleet, BERTH_ERROR_FENCED, "not the session");
	test_open_budget(fleet, "b", 1000000, 1000000, "");
	north = test_hello(fleet, "north", BOOT_A, 1);
	test_report_lease(fleet, "north", north, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	take_back(fleet, &lost);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	assert_sums(fleet, 0, TEST_PRICE, 0);
}

static void a_lease_that_nobody_lost_is_not_taken_up(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_run(fleet);
	test_restore(fleet, lost.backup);
	uint64_t north = test_join(fleet, "north", BOOT_A, 1); // has resent all
	give(fleet, &lost);
	test_report_lease(fleet, "north", north, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	take_back(fleet, &lost);
	assert_sums(fleet, 0, 0, 0);
	assert_int_equal(test_state(fleet, lost.job, 0), TRIAL(QUEUED));
}

static void the_incarnation_rises_above_those_that_were_lost(void **state)
{
	struct test_fleet *fleet = *state;
	test_enroll(fleet, "south");
	struct lost lost = lose_a_run(fleet);
	test_restore(fleet, lost.backup);
	test_hello(fleet, "north", BOOT_A, 1);
	assert_int_equal(berth_core_incarnation(fleet->core).number, 2);
	fleet->obeyed = 7; // the lost part had five restarts
	test_hello(fleet, "south", BOOT_B, 1);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	assert_int_equal(berth_core_incarnation(fleet->core).number, 8);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_REFUSE), 1); // north comes back and hears the new number
	const Berth__V1__Incarnation obeyed = {.number = 7};
	const struct berth_core_restore *restore = berth_core_restore_after(fleet->core, &obeyed, lost.last);
	assert_non_null(restore);
	assert_int_equal(restore->size, lost.backup);
	assert_int_equal(restore->incarnation, 8);
	take_back(fleet, &lost);
}

// The restored coordinator began again before it came: the number of a lost life is one that the ledger has had, too.
static void a_lost_life_whose_number_was_passed_is_told_from_the_ledgers_own(void **state)
{
	struct test_fleet *fleet = *state;
	test_enroll(fleet, "south");
	struct lost lost = lose_a_run(fleet);
	test_restore(fleet, lost.backup);
	test_restart(fleet);
	assert_int_equal(berth_core_incarnation(fleet->core).number, 3);
	fleet->obeyed = 2; // the lost part had one restart
	fleet->seen_elsewhere = lost.last;
	test_hello(fleet, "north", BOOT_A, 1);
	assert_ok(fleet->outcome.error.code == BERTH_ERROR_OK, fleet->outcome.error);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_WELCOME), 1);
	assert_int_equal(berth_core_incarnation(fleet->core).number, 4);
	test_hello(fleet, "south", BOOT_B, 1);
	assert_int_equal(test_effects(fleet, BERTH_EFFECT_WELCOME), 1);
	assert_int_equal(berth_core_incarnation(fleet->core).number, 4);
	take_back(fleet, &lost);
}

static void an_agent_that_resent_obeys_no_other(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_run(fleet);
	test_restore(fleet, lost.backup);
	test_join(fleet, "north", BOOT_A, 1);
	fleet->obeyed = 9;
	test_hello(fleet, "north", BOOT_A, 1);
	assert_refused(fleet, BERTH_ERROR_FENCED, "a newer one runs");
	take_back(fleet, &lost);
}

// --- backups ---

static void verify_backup(struct test_fleet *fleet, uint64_t size, uint64_t through, bool held)
{
	uint8_t root[BERTH_DIGEST_SIZE] = {1};
	Berth__V1__FinishBackupRequest request = BERTH__V1__FINISH_BACKUP_REQUEST__INIT;
	Berth__V1__LedgerHead head = BERTH__V1__LEDGER_HEAD__INIT;
	Berth__V1__AppliedReports applied = BERTH__V1__APPLIED_REPORTS__INIT, *list[] = {&applied};
	head.sequence = size;
	head.root_hash = (ProtobufCBinaryData){.len = sizeof root, .data = root};
	applied.agent = (char *)"north";
	applied.boot_id = (char *)BOOT_A;
	applied.through = through;
	request.head = &head;
	request.applied = list;
	request.n_applied = 1;
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_BACKUP_VERIFIED,
				   .actor = "operator/ann",
				   .backup = &request,
				   .seen_held = held});
}

static uint64_t stable(const struct test_fleet *fleet)
{
	bool keeps;
	return berth_core_stable_through(fleet->core, "north", &keeps);
}

static void reports_are_kept_until_a_verified_backup_covers_them(void **state)
{
	struct test_fleet *fleet = *state;
	struct lost lost = lose_a_run(fleet);
	bool keeps;
	fleet->obeyed = fleet->seen_elsewhere = 0;
	assert_int_equal(berth_core_stable_through(fleet->core, "north", &keeps), 0);
	assert_false(keeps);
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_KEEP_REPORTS, .actor = "operator/ann"});
	berth_core_stable_through(fleet->core, "north", &keeps);
	assert_true(keeps);
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_report_lease(fleet, "north", session, BOOT_A, 1, lost.lease, LEASE(DISPATCHING), 0);
	uint64_t size = test_disk_last(fleet->disk);
	test_report_lease(fleet, "north", session, BOOT_A, 2, lost.lease, LEASE(ACTIVE), 0);
	verify_backup(fleet, size, 3, true);
	assert_refused(fleet, BERTH_ERROR_INVALID, "reports of agent north");
	verify_backup(fleet, size, 1, false);
	assert_refused(fleet, BERTH_ERROR_INVALID, "not one of this ledger");
	verify_backup(fleet, size, 1, true);
	assert_int_equal(stable(fleet), 1);
	verify_backup(fleet, size - 1, 0, true); // an older one takes nothing back
	assert_int_equal(stable(fleet), 1);
	// A new life has none that is covered.
	test_join(fleet, "north", BOOT_B, 1);
	assert_int_equal(stable(fleet), 0);
	take_back(fleet, &lost);
}

static void a_stream_is_aware_of_backups_once_it_has_acknowledged_an_answer_that_says_so(void **state)
{
	struct test_fleet *fleet = *state;
	const char *names[1];
	uint64_t session = test_join(fleet, "north", BOOT_A, 1);
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_KEEP_REPORTS, .actor = "operator/ann"});
	assert_int_equal(berth_core_unaware(fleet->core, names, 1), 1);
	assert_string_equal(names[0], "north");
	test_beat(fleet, "north", session, NULL, 0); // acknowledges what was answered before
	assert_int_equal(berth_core_unaware(fleet->core, NULL, 0), 1);
	fleet->unanswered = 1;
	test_beat(fleet, "north", session, NULL, 0);
	assert_int_equal(berth_core_unaware(fleet->core, NULL, 0), 1);
	fleet->unanswered = 0;
	test_beat(fleet, "north", session, NULL, 0);
	assert_int_equal(berth_core_unaware(fleet->core, NULL, 0), 0);
	test_hello(fleet, "north", BOOT_A, 1); // drops nothing before its first answer
	assert_int_equal(berth_core_unaware(fleet->core, NULL, 0), 0);
}

// --- giving up ---

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	T(an_assignment_names_what_was_reserved_for_it),
	T(an_older_copy_is_refused_until_its_restore_is_accepted),
	T(what_the_backup_holds_must_still_be_held),
	T(nothing_is_assigned_before_every_agent_has_resent),
	T(a_lost_run_is_taken_up_and_its_result_counts),
	T(a_run_that_goes_on_is_not_revoked),
	T(a_result_that_comes_late_after_a_restore_counts),
	T(the_leases_of_a_lost_run_are_taken_up_together),
	T(a_lost_run_without_a_mark_is_stopped_before_its_trial_begins_elsewhere),
	T(a_mark_after_the_heartbeat_that_listed_its_run_is_taken_up),
	T(the_newest_generation_keeps_the_trial),
	T(a_lost_jobs_money_still_counts),
	T(money_that_cannot_be_accounted_for_is_said_and_waits),
	T(a_lease_that_nobody_lost_is_not_taken_up),
	T(the_incarnation_rises_above_those_that_were_lost),
	T(a_lost_life_whose_number_was_passed_is_told_from_the_ledgers_own),
	T(an_agent_that_resent_obeys_no_other),
	T(reports_are_kept_until_a_verified_backup_covers_them),
	T(a_stream_is_aware_of_backups_once_it_has_acknowledged_an_answer_that_says_so),
};
BERTH_TEST_MAIN(tests)
