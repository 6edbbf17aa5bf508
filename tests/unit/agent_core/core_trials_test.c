// SPDX-License-Identifier: Apache-2.0
// Assignments: which trials run here, and until when.
#include <string.h>

#include "tests/unit/agent_core/peer.h"

static void a_duplicate_assignment_is_ignored(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 2);
	assert_string_equal(peer_trace(&peer), "+1.2");
	peer_assign(&peer, "job", 1, 2);
	assert_int_equal(peer.actions.count, 0);
	peer_assign(&peer, "job", 1, 1); // out of date
	assert_int_equal(peer.actions.count, 0);
	peer_assign(&peer, "other", 1, 1); // another job's cell
	assert_string_equal(peer_trace(&peer), "+1.1");
	peer_close(&peer);
}

static void a_trial_whose_result_is_in_the_outbox_is_not_started_again(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1);
	peer_reported_done(&peer, 1, "job", 1, 1);
	peer_ended(&peer, "job", 1, 1);
	peer_assign(&peer, "job", 1, 1);
	assert_int_equal(peer.actions.count, 0);
	peer_assign(&peer, "job", 1, 2);
	assert_string_equal(peer_trace(&peer), "+1.2");
	peer_close(&peer);
}

static void a_newer_generation_starts_after_the_older_one_has_ended(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1);
	peer_assign(&peer, "job", 1, 2);
	assert_string_equal(peer_trace(&peer), "-1.1");
	assert_false(peer_action(&peer, BERTH_AGENT_STOP, 0)->expired);
	peer_tick(&peer, S(101));
	assert_string_equal(peer_trace(&peer), "B");
	assert_string_equal(peer_running(&peer), "1.1 1.2");
	peer_ended(&peer, "job", 1, 1);
	assert_int_equal(berth_agent_core_next_tick_ns(peer.core), 0);
	peer_tick(&peer, S(101.1));
	assert_string_equal(peer_trace(&peer), "+1.2");
	peer_close(&peer);
}

static void a_waiting_trial_that_is_withdrawn_is_started_and_stopped_to_retire_its_leases(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1);
	peer_assign(&peer, "job", 1, 2);
	peer_assign(&peer, "job", 1, 3);
	assert_int_equal(peer.actions.count, 0); // 1 is stopping already, 2 has not started
	peer_ended(&peer, "job", 1, 1);
	peer_tick(&peer, S(100.1));
	assert_string_equal(peer_trace(&peer), "+1.2 -1.2");
	peer_ended(&peer, "job", 1, 2);
	peer_tick(&peer, S(100.2));
	assert_string_equal(peer_trace(&peer), "+1.3");
	peer_close(&peer);
}

static void no_more_trials_run_than_there_are_slots(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 2, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1);
	peer_assign(&peer, "job", 2, 1);
	peer_assign(&peer, "job", 3, 1);
	assert_int_equal(peer.actions.count, 0);
	peer_ended(&peer, "job", 1, 1);
	peer_tick(&peer, S(100.1));
	assert_string_equal(peer_trace(&peer), "+3.1");
	peer_close(&peer);
}

static void a_hold_is_counted_from_the_heartbeat_before_the_assignment_and_not_from_its_receipt(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer); // heartbeat 1 at 100 s
	peer.now_ns = S(103);
	peer_heartbeat_ack(&peer, 1, 5, 0, 0);
	peer_assign(&peer, "job", 1, 1);
	peer_stream_down(&peer);
	assert_int_equal(berth_agent_core_next_tick_ns(peer.core), S(110));
	peer_tick(&peer, S(110) - 1);
	assert_int_equal(peer.actions.count, 0);
	peer_tick(&peer, S(110));
	assert_string_equal(peer_trace(&peer), "-1.1");
	assert_true(peer_action(&peer, BERTH_AGENT_STOP, 0)->expired);
	peer_tick(&peer, S(120));
	assert_int_equal(peer.actions.count, 0); // once
	assert_int_equal(berth_agent_core_next_tick_ns(peer.core), INT64_MAX);
	peer_close(&peer);
}

// The coordinator has long given it to another host.
static void an_assignment_that_a_sleeping_host_takes_after_its_hold_is_stopped_at_once(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer); // heartbeat 1 at 100 s
	peer_heartbeat_ack(&peer, 1, 5, 0, 0);
	peer.now_ns = S(300);
	peer_assign(&peer, "job", 1, 1);
	assert_string_equal(peer_trace(&peer), "+1.1");
	peer_tick(&peer, S(300));
	assert_int_equal(berth_agent_core_running(peer.core), 1);
	assert_true(peer_action(&peer, BERTH_AGENT_STOP, 0)->expired);
	peer_close(&peer);
}

static void a_hold_is_renewed_from_the_send_of_an_acknowledged_heartbeat_not_from_its_answer(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1);
	peer_tick(&peer, S(104)); // heartbeat 2
	peer_tick(&peer, S(106)); // heartbeat 3, never acknowledged
	peer.now_ns = S(109);
	peer_heartbeat_ack(&peer, 2, 5, 0, 0);
	peer_heartbeat_ack(&peer, 1, 5, 0, 0);  // an older answer that comes late
	peer_heartbeat_ack(&peer, 99, 5, 0, 0); // of no heartbeat
	peer_stream_down(&peer);
	peer_tick(&peer, S(114) - 1);
	assert_int_equal(peer.actions.count, 0);
	peer_tick(&peer, S(114));
	assert_string_equal(peer_trace(&peer), "-1.1");
	peer_close(&peer);
}

static void a_stream_that_comes_back_does_not_revive_a_trial(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1);
	peer_stream_down(&peer);
	peer_tick(&peer, S(110));
	assert_string_equal(peer_trace(&peer), "-1.1");
	peer_stream_up(&peer);
	assert_string_equal(peer_running(&peer), "1.1"); // it is stopping
	peer_welcome(&peer, &(struct peer_welcome){.number = 1, .nonce = 7, .head = 5, .seen = 5});
	peer_heartbeat_ack(&peer, 2, 5, 0, 0);
	peer_assign(&peer, "job", 1, 1);
	assert_int_equal(peer.actions.count, 0);
	peer_revoke(&peer, "job", 1, 1); // now its result is not wanted either
	assert_string_equal(peer_trace(&peer), "-1.1");
	assert_false(peer_action(&peer, BERTH_AGENT_STOP, 0)->expired);
	peer_close(&peer);
}

static void a_shorter_hold_of_a_new_welcome_counts_at_once_and_a_longer_one_when_acknowledged(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1); // until 110 s
	peer_stream_down(&peer);
	peer_stream_up(&peer);
	struct peer_welcome welcome = {.number = 1, .nonce = 7, .head = 5, .seen = 5, .hold_ms = 60000};
	peer_welcome(&peer, &welcome); // heartbeat 2 at 100 s
	peer_stream_down(&peer);
	assert_int_equal(berth_agent_core_next_tick_ns(peer.core), S(110));
	peer_stream_up(&peer);
	welcome.hold_ms = 4000;
	peer_welcome(&peer, &welcome);
	peer_stream_down(&peer);
	assert_int_equal(berth_agent_core_next_tick_ns(peer.core), S(104));
	peer_close(&peer);
}

static void a_revoked_trial_is_stopped_once_and_listed_until_it_has_ended(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1);
	peer_revoke(&peer, "job", 1, 2); // not this generation
	assert_int_equal(peer.actions.count, 0);
	peer_revoke(&peer, "job", 1, 1);
	assert_string_equal(peer_trace(&peer), "-1.1");
	peer_revoke(&peer, "job", 1, 1);
	assert_int_equal(peer.actions.count, 0);
	peer_tick(&peer, S(101));
	assert_string_equal(peer_running(&peer), "1.1");
	peer_ended(&peer, "job", 1, 1);
	peer_tick(&peer, S(102));
	assert_string_equal(peer_running(&peer), "");
	peer_close(&peer);
}

static void a_trial_with_an_unacknowledged_result_counts_as_running(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1);
	peer_reported_done(&peer, 1, "job", 1, 1);
	peer_ended(&peer, "job", 1, 1);
	peer_stream_down(&peer);
	peer_stream_up(&peer);
	assert_string_equal(peer_running(&peer), "1.1");
	peer_welcome(
		&peer, &(struct peer_welcome){.number = 1, .nonce = 7, .head = 5, .seen = 5, .applied_through = 1});
	assert_string_equal(peer_running(&peer), "");
	peer_close(&peer);
}

static void a_trial_of_an_older_life_is_listed_until_its_result_is_reported(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	Berth__V1__TrialKey key = BERTH__V1__TRIAL_KEY__INIT;
	key.job_id = (char *)"job";
	key.index = 6;
	key.generation = 2;
	berth_agent_core_resume(peer.core, &key);
	peer_in_session(&peer);
	assert_string_equal(peer_running(&peer), "6.2");
	peer_tick(&peer, S(5000)); // no hold ends it
	assert_string_equal(peer_trace(&peer), "B");
	peer_assign(&peer, "job", 6, 3);
	assert_string_equal(peer_trace(&peer), "-6.2");
	peer_ended(&peer, "job", 6, 2);
	peer_tick(&peer, S(5000));
	assert_string_equal(peer_trace(&peer), "+6.3");
	peer_close(&peer);
}

static void progress_is_told_now_and_again_to_each_new_stream(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 1, 1);
	Berth__V1__TrialKey key = BERTH__V1__TRIAL_KEY__INIT;
	key.job_id = (char *)"job";
	key.index = 1;
	key.generation = 1;
	berth_agent_actions_clear(&peer.actions);
	berth_agent_core_progress(peer.core, &key, "verifier", &peer.actions);
	assert_string_equal(peer_action(&peer, BERTH_AGENT_SEND, 0)->message->progress->phase, "verifier");
	peer_stream_down(&peer);
	berth_agent_core_progress(peer.core, &key, "cleanup", &peer.actions);
	assert_int_equal(peer.actions.count, 0);
	peer_stream_up(&peer);
	peer_welcome(&peer, &(struct peer_welcome){.number = 1, .nonce = 7, .head = 5, .seen = 5});
	assert_string_equal(peer_trace(&peer), "B P");
	assert_string_equal(peer_action(&peer, BERTH_AGENT_SEND, 1)->message->progress->phase, "cleanup");
	peer_close(&peer);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_duplicate_assignment_is_ignored),
	cmocka_unit_test(a_trial_whose_result_is_in_the_outbox_is_not_started_again),
	cmocka_unit_test(a_newer_generation_starts_after_the_older_one_has_ended),
	cmocka_unit_test(a_waiting_trial_that_is_withdrawn_is_started_and_stopped_to_retire_its_leases),
	cmocka_unit_test(no_more_trials_run_than_there_are_slots),
	cmocka_unit_test(a_hold_is_counted_from_the_heartbeat_before_the_assignment_and_not_from_its_receipt),
	cmocka_unit_test(an_assignment_that_a_sleeping_host_takes_after_its_hold_is_stopped_at_once),
	cmocka_unit_test(a_hold_is_renewed_from_the_send_of_an_acknowledged_heartbeat_not_from_its_answer),
	cmocka_unit_test(a_stream_that_comes_back_does_not_revive_a_trial),
	cmocka_unit_test(a_shorter_hold_of_a_new_welcome_counts_at_once_and_a_longer_one_when_acknowledged),
	cmocka_unit_test(a_revoked_trial_is_stopped_once_and_listed_until_it_has_ended),
	cmocka_unit_test(a_trial_with_an_unacknowledged_result_counts_as_running),
	cmocka_unit_test(a_trial_of_an_older_life_is_listed_until_its_result_is_reported),
	cmocka_unit_test(progress_is_told_now_and_again_to_each_new_stream),
};
BERTH_TEST_MAIN(tests)
