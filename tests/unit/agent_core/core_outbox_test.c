// SPDX-License-Identifier: Apache-2.0
// Reports: in order, sent again until acknowledged, and kept as long as a restored coordinator could lack them.
#include <string.h>

#include "tests/unit/agent_core/peer.h"

static void a_report_is_sent_at_once_in_a_session_and_waits_without_one(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_reported(&peer, 1);
	assert_int_equal(peer.actions.count, 0);
	peer_in_session(&peer);
	assert_string_equal(peer_trace(&peer), "S 2:1 B");
	peer_reported(&peer, 2);
	assert_string_equal(peer_trace(&peer), "2:2");
	peer_close(&peer);
}

static void what_is_not_acknowledged_is_sent_again_in_order_after_a_reconnect(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_load(&peer, PEER_OLDER, 4);
	peer_load(&peer, PEER_OLDER, 5);
	peer_in_session(&peer);
	for (uint64_t sequence = 1; sequence <= 3; sequence++) {
		peer_reported(&peer, sequence);
	}
	peer_report_ack(&peer, PEER_OLDER, 4);
	peer_report_ack(&peer, PEER_BOOT, 1);
	peer_stream_down(&peer);
	peer_reported(&peer, 4);
	peer_stream_up(&peer);
	assert_int_equal(peer_action(&peer, BERTH_AGENT_SEND, 0)->message->hello->outbox_first, 5);
	peer_welcome(
		&peer, &(struct peer_welcome){.number = 1, .nonce = 7, .head = 5, .seen = 5, .applied_through = 1});
	const Berth__V1__Heartbeat *beat = peer_action(&peer, BERTH_AGENT_SEND, 4)->message->heartbeat;
	assert_int_equal(beat->outbox_first, 5);
	assert_int_equal(beat->outbox_last, 4); // of this life
	assert_string_equal(peer_trace(&peer), "1:5 2:2 2:3 2:4 B");
	peer_close(&peer);
}

static void without_backups_reports_are_dropped_when_acknowledged(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_load(&peer, PEER_OLDER, 4);
	peer_in_session(&peer);
	peer_reported(&peer, 1);
	peer_reported(&peer, 2);
	peer_report_ack(&peer, PEER_BOOT, 1);
	assert_int_equal(peer.actions.count, 0); // nothing was announced yet
	peer_heartbeat_ack(&peer, 1, 5, 0, 0);
	assert_string_equal(peer_trace(&peer), "D2:1");
	peer_report_ack(&peer, PEER_OLDER, 4);
	assert_string_equal(peer_trace(&peer), "D1:4");
	peer_report_ack(&peer, PEER_BOOT, 2);
	assert_string_equal(peer_trace(&peer), "D2:2");
	peer_report_ack(&peer, PEER_BOOT, 2);
	assert_int_equal(peer.actions.count, 0);
	peer_close(&peer);
}

static void with_backups_reports_stay_until_one_covers_them(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	for (uint64_t sequence = 1; sequence <= 5; sequence++) {
		peer_reported(&peer, sequence);
	}
	peer_heartbeat_ack(&peer, 1, 5, 0, 4);
	assert_int_equal(peer.actions.count, 0); // nothing is acknowledged
	peer_report_ack(&peer, PEER_BOOT, 3);
	assert_string_equal(peer_trace(&peer), "D2:3");
	peer_report_ack(&peer, PEER_BOOT, 5);
	assert_string_equal(peer_trace(&peer), "D2:4");
	peer_heartbeat_ack(&peer, 1, 5, 0, 5);
	assert_string_equal(peer_trace(&peer), "D2:5");
	peer_close(&peer);
}

static void before_the_first_backup_nothing_is_dropped(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_load(&peer, PEER_OLDER, 4);
	peer_in_session(&peer);
	peer_reported(&peer, 1);
	peer.keeps_reports = true;
	peer_heartbeat_ack(&peer, 1, 5, 0, 0);
	peer_report_ack(&peer, PEER_OLDER, 4);
	peer_report_ack(&peer, PEER_BOOT, 1);
	peer_heartbeat_ack(&peer, 1, 5, 0, 0);
	assert_int_equal(peer_count(&peer, BERTH_AGENT_DROP_REPORTS), 0);
	peer_heartbeat_ack(&peer, 1, 5, 0, 1);
	assert_string_equal(peer_trace(&peer), "D1:4 D2:1"); // what covers this life covers the one before
	peer_close(&peer);
}

// Backups may have begun while it was away.
static void a_new_stream_drops_nothing_before_it_was_told_whether_backups_are_kept(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_heartbeat_ack(&peer, 1, 5, 0, 0); // none is kept
	peer_reported(&peer, 1);
	peer_stream_down(&peer);
	peer_stream_up(&peer);
	peer_welcome(&peer, &(struct peer_welcome){.number = 1, .nonce = 7, .head = 5, .seen = 5});
	peer_report_ack(&peer, PEER_BOOT, 1);
	assert_int_equal(peer_count(&peer, BERTH_AGENT_DROP_REPORTS), 0);
	peer.keeps_reports = true;
	peer_heartbeat_ack(&peer, 2, 5, 0, 0);
	assert_int_equal(peer_count(&peer, BERTH_AGENT_DROP_REPORTS), 0);
	peer_close(&peer);
}

static void an_outbox_that_no_backup_covers_takes_no_new_trial(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer.keeps_reports = true;
	BERTH_AUTO_FREE uint8_t *folder = berth_alloc(1024 * 1024);
	Berth__V1__TrialDone done = BERTH__V1__TRIAL_DONE__INIT;
	Berth__V1__Report report = BERTH__V1__REPORT__INIT;
	done.folder = (ProtobufCBinaryData){.data = folder, .len = 1024 * 1024};
	report.boot_id = (char *)PEER_BOOT;
	report.body_case = BERTH__V1__REPORT__BODY_DONE;
	report.done = &done;
	for (report.sequence = 1; report.sequence <= BERTH_AGENT_OUTBOX_MAX / (1024 * 1024); report.sequence++) {
		berth_agent_actions_clear(&peer.actions);
		berth_agent_core_reported(peer.core, &report, &peer.actions);
	}
	peer_report_ack(&peer, PEER_BOOT, report.sequence - 1);
	peer_tick(&peer, peer.now_ns + S(1));
	const Berth__V1__Heartbeat *beat = peer_action(&peer, BERTH_AGENT_SEND, 0)->message->heartbeat;
	assert_false(beat->accepting);
	assert_non_null(strstr(beat->trouble, "berth ledger backup"));
	peer_heartbeat_ack(&peer, beat->sequence, 5, 0, report.sequence - 1);
	peer_tick(&peer, peer.now_ns + S(1));
	assert_true(peer_action(&peer, BERTH_AGENT_SEND, 0)->message->heartbeat->accepting);
	peer_close(&peer);
}

static void a_restored_coordinator_gets_again_what_it_lost(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_load(&peer, PEER_OLDER, 9);
	peer_in_session(&peer);
	for (uint64_t sequence = 1; sequence <= 4; sequence++) {
		peer_reported(&peer, sequence);
	}
	peer_heartbeat_ack(&peer, 1, 5, 0, 1);
	peer_report_ack(&peer, PEER_BOOT, 4); // drops 1, keeps 2 to 4
	peer_stream_down(&peer);
	peer_stream_up(&peer);
	peer_welcome(
		&peer, &(struct peer_welcome){.number = 2, .nonce = 8, .head = 5, .seen = 5, .applied_through = 2});
	assert_string_equal(peer_trace(&peer), "S 1:9 2:3 2:4 B");
	peer_close(&peer);
}

static void the_same_incarnation_does_not_get_twice_what_it_acknowledged(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_load(&peer, PEER_OLDER, 9);
	peer_in_session(&peer);
	peer_reported(&peer, 1);
	peer_report_ack(&peer, PEER_OLDER, 9);
	peer_report_ack(&peer, PEER_BOOT, 1);
	peer_stream_down(&peer);
	peer_stream_up(&peer);
	assert_int_equal(peer_action(&peer, BERTH_AGENT_SEND, 0)->message->hello->outbox_first, 0);
	peer_welcome(
		&peer, &(struct peer_welcome){.number = 1, .nonce = 7, .head = 5, .seen = 5, .applied_through = 1});
	assert_string_equal(peer_trace(&peer), "B");
	peer_close(&peer);
}

static void a_long_outbox_goes_out_in_windows(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	for (uint64_t sequence = 1; sequence <= 700; sequence++) {
		peer_load(&peer, PEER_BOOT, sequence);
	}
	peer_in_session(&peer);
	assert_int_equal(peer_count(&peer, BERTH_AGENT_SEND), 256 + 1);
	uint64_t next = 257;
	for (uint64_t acked = 100; acked <= 700; acked += 100) {
		peer_report_ack(&peer, PEER_BOOT, acked);
		for (size_t i = 0; i < peer_count(&peer, BERTH_AGENT_SEND); i++) {
			const Berth__V1__AgentMessage *sent = peer_action(&peer, BERTH_AGENT_SEND, i)->message;
			assert_int_equal(sent->report->sequence, next++);
		}
	}
	assert_int_equal(next, 701);
	peer_close(&peer);
}

static void an_acknowledgement_of_what_was_never_written_ends_the_stream(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_reported(&peer, 1);
	peer_report_ack(&peer, "00000000000000000000000000000001", 12); // of a life without reports: not known here
	assert_int_equal(peer.actions.count, 0);
	peer_report_ack(&peer, PEER_BOOT, 2);
	assert_string_equal(peer_trace(&peer), "C");
	peer_close(&peer);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_report_is_sent_at_once_in_a_session_and_waits_without_one),
	cmocka_unit_test(what_is_not_acknowledged_is_sent_again_in_order_after_a_reconnect),
	cmocka_unit_test(without_backups_reports_are_dropped_when_acknowledged),
	cmocka_unit_test(with_backups_reports_stay_until_one_covers_them),
	cmocka_unit_test(before_the_first_backup_nothing_is_dropped),
	cmocka_unit_test(a_new_stream_drops_nothing_before_it_was_told_whether_backups_are_kept),
	cmocka_unit_test(an_outbox_that_no_backup_covers_takes_no_new_trial),
	cmocka_unit_test(a_restored_coordinator_gets_again_what_it_lost),
	cmocka_unit_test(the_same_incarnation_does_not_get_twice_what_it_acknowledged),
	cmocka_unit_test(a_long_outbox_goes_out_in_windows),
	cmocka_unit_test(an_acknowledgement_of_what_was_never_written_ends_the_stream),
};
BERTH_TEST_MAIN(tests)
