// SPDX-License-Identifier: Apache-2.0
// Whom the agent obeys (promise P7), and what it remembers of the ledger.
#include <string.h>

#include "tests/unit/agent_core/peer.h"

static void hello_tells_what_was_obeyed_seen_and_is_running(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_load(&peer, PEER_OLDER, 3);
	peer_in_session(&peer);
	peer_assign(&peer, "job", 2, 1);
	peer_stream_down(&peer);
	peer_stream_up(&peer);
	const Berth__V1__Hello *hello = peer_action(&peer, BERTH_AGENT_SEND, 0)->message->hello;
	assert_int_equal(hello->obeyed->number, 1);
	assert_int_equal(hello->obeyed->nonce.len, 16);
	assert_int_equal(hello->seen->sequence, 5);
	assert_int_equal(hello->seen->leaf_hash.data[31], peer_leaf_of(5));
	assert_int_equal(hello->outbox_first, 3);
	assert_string_equal(hello->boot_id, PEER_BOOT);
	assert_int_equal(hello->protocol->least, BERTH_PROTOCOL_LEAST);
	assert_int_equal(hello->protocol->most, BERTH_PROTOCOL_MOST);
	assert_int_equal(hello->capacity->slots, 4);
	assert_string_equal(peer_running(&peer), "2.1");
	peer_close(&peer);
}

static void a_welcome_is_saved_before_reports_and_a_heartbeat_go_out(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_load(&peer, PEER_OLDER, 9);
	peer_load(&peer, PEER_BOOT, 1);
	peer_load(&peer, PEER_BOOT, 2);
	peer_stream_up(&peer);
	peer_welcome(&peer, &(struct peer_welcome){.number = 1, .nonce = 7, .head = 5, .applied_through = 1});
	assert_string_equal(peer_trace(&peer), "S 1:9 2:2 B");
	const Berth__Store__V1__Obeyed *obeyed = peer_action(&peer, BERTH_AGENT_SAVE_OBEYED, 0)->obeyed;
	assert_int_equal(obeyed->incarnation->number, 1);
	assert_int_equal(obeyed->seen->sequence, 5);
	peer_close(&peer);
}

static void what_was_saved_is_not_saved_again_by_the_same_welcome(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_stream_down(&peer);
	peer_stream_up(&peer);
	peer_welcome(&peer, &(struct peer_welcome){.number = 1, .nonce = 7, .head = 5, .seen = 5});
	assert_string_equal(peer_trace(&peer), "B");
	peer_close(&peer);
}

// An agent that obeyed incarnation 3 at event 50, from its store.
static void open_experienced(struct peer *peer)
{
	uint8_t nonce[16], leaf[32];
	memset(nonce, 7, sizeof nonce);
	memset(leaf, peer_leaf_of(50), sizeof leaf);
	Berth__V1__Incarnation incarnation = BERTH__V1__INCARNATION__INIT;
	incarnation.number = 3;
	incarnation.nonce = (ProtobufCBinaryData){.data = nonce, .len = sizeof nonce};
	Berth__V1__LedgerHead seen = BERTH__V1__LEDGER_HEAD__INIT;
	seen.sequence = 50;
	seen.leaf_hash = (ProtobufCBinaryData){.data = leaf, .len = sizeof leaf};
	Berth__Store__V1__Obeyed obeyed = BERTH__STORE__V1__OBEYED__INIT;
	obeyed.incarnation = &incarnation;
	obeyed.seen = &seen;
	peer_open(peer, 4, &obeyed);
	peer_load(peer, PEER_BOOT, 1);
	peer_stream_up(peer);
}

static void a_coordinator_that_must_not_be_trusted_is_refused_and_never_obeyed(void **state)
{
	(void)state;
	static const struct {
		struct peer_welcome welcome;
		const char *reason;
	} rows[] = {
		{{.protocol = 2, .number = 3, .nonce = 7, .head = 50, .seen = 50}, "speaks protocol 2"},
		{{.fleet = "other", .number = 3, .nonce = 7, .head = 50, .seen = 50}, "of the fleet \"other\""},
		{{.number = 2, .nonce = 7, .head = 60, .seen = 50}, "older than 3"},
		{{.number = 3, .nonce = 8, .head = 60, .seen = 50}, "a twin of incarnation 3"},
		{{.number = 0, .nonce = 7, .head = 60, .seen = 50}, "names no incarnation"},
		{{.number = 4, .nonce = 9, .head = 60, .seen = 50, .seen_leaf = 99}, "does not hold event 50"},
		{{.number = 3, .nonce = 7, .head = 60, .seen = 50, .seen_leaf = 99}, "does not hold event 50"},
		{{.number = 4, .nonce = 9, .head = 60}, "does not hold event 50"},
		{{.number = 4, .nonce = 9, .head = 49, .seen = 50}, "ends at event 49"},
		{{.number = 4, .nonce = 9, .head = 50, .head_leaf = 99, .seen = 50}, "was forked"},
		{{.number = 3, .nonce = 7, .head = 60, .seen = 50, .applied_through = 2}, "report 2"},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct peer peer;
		open_experienced(&peer);
		peer_welcome(&peer, &rows[i].welcome);
		assert_string_equal(peer_trace(&peer), "C");
		const char *reason = peer_action(&peer, BERTH_AGENT_CLOSE, 0)->reason;
		if (!strstr(reason, rows[i].reason)) {
			fail_msg("row %zu: \"%s\" lacks \"%s\"", i, reason, rows[i].reason);
		}
		assert_false(berth_agent_core_in_session(peer.core));
		// What it still sends changes nothing, and neither does a second Welcome that would be good.
		peer_assign(&peer, "job", 1, 1);
		assert_int_equal(peer.actions.count, 0);
		peer_welcome(&peer, &(struct peer_welcome){.number = 3, .nonce = 7, .head = 50, .seen = 50});
		assert_int_equal(peer.actions.count, 0);
		peer_tick(&peer, S(1000));
		assert_int_equal(peer.actions.count, 0);
		// The next stream starts from what was obeyed before.
		peer_stream_down(&peer);
		peer_stream_up(&peer);
		assert_int_equal(peer_action(&peer, BERTH_AGENT_SEND, 0)->message->hello->obeyed->number, 3);
		peer_welcome(&peer, &(struct peer_welcome){.number = 3, .nonce = 7, .head = 50, .seen = 50});
		assert_string_equal(peer_trace(&peer), "2:1 B");
		peer_close(&peer);
	}
}

static void a_higher_incarnation_that_holds_the_seen_event_is_obeyed(void **state)
{
	(void)state;
	struct peer peer;
	open_experienced(&peer);
	peer_welcome(&peer, &(struct peer_welcome){.number = 5, .nonce = 9, .head = 50, .seen = 50});
	assert_string_equal(peer_trace(&peer), "S 2:1 B");
	assert_true(berth_agent_core_in_session(peer.core));
	peer_close(&peer);
}

static void messages_before_welcome_are_ignored(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_stream_up(&peer);
	peer_assign(&peer, "job", 1, 1);
	assert_int_equal(peer.actions.count, 0);
	peer_heartbeat_ack(&peer, 1, 9, 0, 0);
	assert_int_equal(peer.actions.count, 0);
	assert_int_equal(berth_agent_core_running(peer.core), 0);
	peer_close(&peer);
}

static void a_second_welcome_on_one_stream_ends_it(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_welcome(&peer, &(struct peer_welcome){.number = 2, .nonce = 8, .head = 6, .seen = 5});
	assert_string_equal(peer_trace(&peer), "C");
	peer_close(&peer);
}

static void heads_move_forward_and_are_saved_at_most_once_a_second(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer); // at 100 s
	peer.now_ns = S(100.3);
	peer_heartbeat_ack(&peer, 1, 6, 0, 0);
	assert_int_equal(peer.actions.count, 0);
	peer.now_ns = S(100.6);
	peer_heartbeat_ack(&peer, 1, 8, 0, 0);
	assert_int_equal(peer.actions.count, 0);
	assert_int_equal(berth_agent_core_next_tick_ns(peer.core), S(101));
	peer_tick(&peer, S(101));
	assert_int_equal(peer_action(&peer, BERTH_AGENT_SAVE_OBEYED, 0)->obeyed->seen->sequence, 8);
	peer_heartbeat_ack(&peer, 2, 8, 0, 0);
	peer_tick(&peer, S(103));
	assert_int_equal(peer_count(&peer, BERTH_AGENT_SAVE_OBEYED), 0);
	peer_heartbeat_ack(&peer, 2, 9, 0, 0);
	assert_string_equal(peer_trace(&peer), "S");
	peer_close(&peer);
}

static void a_head_behind_or_another_leaf_at_the_same_place_ends_the_stream(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_heartbeat_ack(&peer, 1, 4, 0, 0);
	assert_string_equal(peer_trace(&peer), "C");
	peer_close(&peer);
	peer_open(&peer, 4, NULL);
	peer_in_session(&peer);
	peer_heartbeat_ack(&peer, 1, 5, 99, 0);
	assert_string_equal(peer_trace(&peer), "C");
	assert_non_null(strstr(peer_action(&peer, BERTH_AGENT_CLOSE, 0)->reason, "forked"));
	peer_close(&peer);
}

static void heartbeats_go_out_at_once_and_then_at_the_asked_pace(void **state)
{
	(void)state;
	struct peer peer;
	peer_open(&peer, 4, NULL);
	berth_agent_core_condition(peer.core, false, "docker: gone", 77);
	peer_in_session(&peer);
	const Berth__V1__Heartbeat *beat = peer_action(&peer, BERTH_AGENT_SEND, 0)->message->heartbeat;
	assert_int_equal(beat->sequence, 1);
	assert_false(beat->accepting);
	assert_string_equal(beat->trouble, "docker: gone");
	assert_int_equal(beat->disk_free_mb, 77);
	assert_int_equal(berth_agent_core_next_tick_ns(peer.core), S(101));
	peer_tick(&peer, S(100.9));
	assert_int_equal(peer.actions.count, 0);
	peer_tick(&peer, S(101));
	assert_string_equal(peer_trace(&peer), "B");
	assert_int_equal(peer_action(&peer, BERTH_AGENT_SEND, 0)->message->heartbeat->sequence, 2);
	peer_close(&peer);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(hello_tells_what_was_obeyed_seen_and_is_running),
	cmocka_unit_test(a_welcome_is_saved_before_reports_and_a_heartbeat_go_out),
	cmocka_unit_test(what_was_saved_is_not_saved_again_by_the_same_welcome),
	cmocka_unit_test(a_coordinator_that_must_not_be_trusted_is_refused_and_never_obeyed),
	cmocka_unit_test(a_higher_incarnation_that_holds_the_seen_event_is_obeyed),
	cmocka_unit_test(messages_before_welcome_are_ignored),
	cmocka_unit_test(a_second_welcome_on_one_stream_ends_it),
	cmocka_unit_test(heads_move_forward_and_are_saved_at_most_once_a_second),
	cmocka_unit_test(a_head_behind_or_another_leaf_at_the_same_place_ends_the_stream),
	cmocka_unit_test(heartbeats_go_out_at_once_and_then_at_the_asked_pace),
};
BERTH_TEST_MAIN(tests)
