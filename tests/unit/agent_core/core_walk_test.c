// SPDX-License-Identifier: Apache-2.0
// A seeded random walk: a coordinator that restarts, is a twin, is an older copy, loses its stream at any message, and
// answers late, against the core. Checked all along: which incarnation is obeyed, how long a hold lasts, and in which
// order reports arrive; and at the end, with a coordinator that behaves, that every report is applied once.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/proto.h"
#include "tests/unit/agent_core/peer.h"

#define SEEDS        400
#define STEPS        600
#define REPORTS_MAX  4096
#define CELLS        6
#define SLOTS        3
#define HOLD_NS      (PEER_HOLD_MS * BERTH_NS_PER_MS)
#define HEARTBEATS_N 8192

struct walk {
	struct peer peer;
	uint64_t random;
	bool up;
	bool welcomed; // the coordinator sent its Welcome on this stream
	// The coordinator.
	uint64_t number, head, applied, stable;
	uint8_t nonce;
	bool backups;
	uint64_t obeyed; // highest number that the agent saved
	// The agent's host.
	uint64_t written;
	bool running[CELLS], stopped[CELLS];
	uint32_t generation[CELLS]; // newest that was assigned
	uint32_t started[CELLS];
	uint64_t done_at[CELLS]; // the report with its result
	int64_t received_ns[CELLS];
	int64_t renewed_ns; // bound of what the coordinator acknowledged
	int64_t sent_ns[HEARTBEATS_N];
	uint64_t beats, beats_of_stream; // newest, and the newest before this stream
	uint64_t last_received;          // report on this stream
};

static uint64_t draw(struct walk *walk, uint64_t below)
{
	walk->random ^= walk->random << 13;
	walk->random ^= walk->random >> 7;
	walk->random ^= walk->random << 17;
	return walk->random % below;
}

static void take_report(struct walk *walk, const Berth__V1__Report *report)
{
	assert_true(report->sequence > walk->last_received);
	walk->last_received = report->sequence;
	// Applied once and in order: what comes again is known by its sequence.
	assert_true(report->sequence <= walk->applied + 1);
	if (report->sequence == walk->applied + 1 && draw(walk, 4)) {
		walk->applied++;
		walk->head++;
	} else if (report->sequence == walk->applied + 1) {
		walk->up = false; // the coordinator died with it
	}
}

static void take_message(struct walk *walk, const Berth__V1__AgentMessage *message)
{
	if (message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_HEARTBEAT) {
		walk->beats = message->heartbeat->sequence;
		walk->sent_ns[walk->beats % HEARTBEATS_N] = walk->peer.now_ns;
	} else if (message->body_case == BERTH__V1__AGENT_MESSAGE__BODY_REPORT && walk->up) {
		take_report(walk, message->report);
	}
}

static void take_action(struct walk *walk, const struct berth_agent_action *action)
{
	uint32_t cell;
	switch (action->kind) {
	case BERTH_AGENT_SEND:
		take_message(walk, action->message);
		break;
	case BERTH_AGENT_RESTORED:
		fail_msg("no restore was told");
		break;
	case BERTH_AGENT_SAVE_OBEYED:
		assert_true(action->obeyed->incarnation->number >= walk->obeyed);
		walk->obeyed = action->obeyed->incarnation->number;
		break;
	case BERTH_AGENT_START:
		cell = action->assignment->trial->index;
		assert_false(walk->running[cell]);
		assert_true(action->assignment->trial->generation > walk->started[cell]);
		walk->started[cell] = action->assignment->trial->generation;
		walk->running[cell] = true;
		walk->stopped[cell] = false;
		break;
	case BERTH_AGENT_STOP:
		cell = action->trial->index;
		assert_true(walk->running[cell] && action->trial->generation == walk->started[cell]);
		walk->stopped[cell] = true;
		break;
	case BERTH_AGENT_DROP_REPORTS:
		assert_true(action->through <= walk->applied);
		assert_true(walk->stable == 0 || action->through <= walk->stable);
		break;
	case BERTH_AGENT_CLOSE:
		walk->up = false;
		break;
	}
}

static void carry_out(struct walk *walk)
{
	for (size_t i = 0; i < walk->peer.actions.count; i++) {
		take_action(walk, &walk->peer.actions.items[i]);
	}
	size_t running = 0;
	for (uint32_t cell = 0; cell < CELLS; cell++) {
		running += walk->running[cell];
	}
	assert_true(running <= SLOTS);
}

static void tick(struct walk *walk, int64_t now_ns)
{
	peer_tick(&walk->peer, now_ns);
	carry_out(walk);
	for (uint32_t cell = 0; cell < CELLS; cell++) {
		if (walk->running[cell] && !walk->stopped[cell]) {
			int64_t from_ns = walk->received_ns[cell];
			from_ns = walk->renewed_ns > from_ns ? walk->renewed_ns : from_ns;
			assert_true(now_ns < from_ns + HOLD_NS);
		}
	}
}

static void connect_stream(struct walk *walk)
{
	if (walk->up) {
		return;
	}
	peer_stream_down(&walk->peer);
	carry_out(walk);
	walk->up = true;
	walk->welcomed = false;
	walk->last_received = 0;
	walk->beats_of_stream = walk->beats;
	peer_stream_up(&walk->peer);
	carry_out(walk);
}

static void greet(struct walk *walk, bool honest)
{
	if (!walk->up || walk->welcomed) {
		return;
	}
	struct peer_welcome welcome = {.number = walk->number, .nonce = walk->nonce, .head = walk->head};
	welcome.applied_through = walk->applied;
	// The core's own memory of what it saw is told by Hello; an honest ledger holds it.
	peer_stream_down(&walk->peer);
	peer_stream_up(&walk->peer);
	welcome.seen = peer_action(&walk->peer, BERTH_AGENT_SEND, 0)->message->hello->seen->sequence;
	uint64_t lie = honest ? 9 : draw(walk, 4);
	welcome.number -= lie == 0 && welcome.number > 1;
	welcome.nonce += lie == 1;
	welcome.seen_leaf = lie == 2 ? 251 : 0;
	bool good = welcome.number == walk->number && lie != 1 && (lie != 2 || welcome.seen == 0);
	bool twin_of_nothing = lie == 1 && walk->number > walk->obeyed;
	walk->welcomed = true;
	peer_welcome(&walk->peer, &welcome);
	if (good) {
		assert_true(berth_agent_core_in_session(walk->peer.core));
	} else if (welcome.number < walk->obeyed || (lie == 1 && !twin_of_nothing) || (lie == 2 && welcome.seen)) {
		assert_false(berth_agent_core_in_session(walk->peer.core));
	}
	if (twin_of_nothing) {
		walk->nonce = welcome.nonce; // nobody can tell: the twin came first and is the coordinator now
	}
	carry_out(walk);
}

static void acknowledge(struct walk *walk)
{
	if (!walk->up || !walk->welcomed) {
		return;
	}
	if (draw(walk, 2) && walk->beats > walk->beats_of_stream) {
		uint64_t beat = walk->beats_of_stream + 1 + draw(walk, walk->beats - walk->beats_of_stream);
		int64_t sent_ns = walk->sent_ns[beat % HEARTBEATS_N];
		walk->renewed_ns = sent_ns > walk->renewed_ns ? sent_ns : walk->renewed_ns;
		if (walk->backups && walk->applied) {
			walk->stable = walk->stable ? walk->stable : 1;
			walk->stable += draw(walk, walk->applied - walk->stable + 1);
		}
		peer_heartbeat_ack(&walk->peer, beat, walk->head, 0, walk->stable);
	} else {
		peer_report_ack(&walk->peer, PEER_BOOT, walk->applied);
	}
	carry_out(walk);
}

static void assign(struct walk *walk)
{
	if (!walk->up || !walk->welcomed || !berth_agent_core_in_session(walk->peer.core)) {
		return;
	}
	uint32_t cell = (uint32_t)draw(walk, CELLS);
	if (draw(walk, 3) == 0) {
		peer_revoke(&walk->peer, "job", cell, walk->generation[cell]);
	} else {
		bool ended = walk->started[cell] == walk->generation[cell] && !walk->running[cell] &&
		             walk->done_at[cell] <= walk->applied;
		walk->generation[cell] += ended || draw(walk, 3) > 0;
		if (walk->generation[cell] == 0) {
			return;
		}
		if (!walk->running[cell] || walk->started[cell] < walk->generation[cell]) {
			walk->received_ns[cell] = walk->peer.now_ns;
		}
		peer_assign(&walk->peer, "job", cell, walk->generation[cell]);
	}
	carry_out(walk);
}

static void report(struct walk *walk)
{
	if (walk->written < REPORTS_MAX) {
		peer_reported(&walk->peer, ++walk->written);
		carry_out(walk);
	}
}

static void end_trial(struct walk *walk)
{
	uint32_t cell = (uint32_t)draw(walk, CELLS);
	if (walk->running[cell] && walk->written < REPORTS_MAX) {
		walk->done_at[cell] = walk->written + 1;
		peer_reported_done(&walk->peer, ++walk->written, "job", cell, walk->started[cell]);
		walk->running[cell] = false;
		carry_out(walk);
		peer_ended(&walk->peer, "job", cell, walk->started[cell]);
	}
}

// Sometimes from its newest backup, which has forgotten what was applied since.
static void restart(struct walk *walk)
{
	if (walk->up || draw(walk, 2)) {
		return;
	}
	walk->number++;
	if (walk->stable && draw(walk, 4) == 0) {
		walk->applied = walk->stable;
	}
}

static void step(struct walk *walk)
{
	switch (draw(walk, 10)) {
	case 0:
		walk->up = walk->up && draw(walk, 3);
		break;
	case 1:
		connect_stream(walk);
		break;
	case 2:
		greet(walk, draw(walk, 3) > 0);
		break;
	case 3:
		restart(walk);
		break;
	case 4:
		assign(walk);
		break;
	case 5:
		report(walk);
		break;
	case 6:
		end_trial(walk);
		break;
	case 7:
	case 8:
		acknowledge(walk);
		break;
	default:
		tick(walk, walk->peer.now_ns + (int64_t)draw(walk, 3000) * BERTH_NS_PER_MS);
		break;
	}
}

static void settle(struct walk *walk)
{
	for (int round = 0; walk->applied < walk->written && round < 10 * REPORTS_MAX; round++) {
		connect_stream(walk);
		greet(walk, true);
		acknowledge(walk);
		tick(walk, walk->peer.now_ns + 100 * BERTH_NS_PER_MS);
	}
	assert_int_equal(walk->applied, walk->written);
	assert_true(walk->written > 0);
}

static void whatever_the_coordinator_does_the_agent_keeps_its_promises(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		BERTH_AUTO_FREE struct walk *walk = berth_alloc(sizeof *walk);
		walk->random = seed * UINT64_C(0x9E3779B97F4A7C15);
		walk->number = 1;
		walk->nonce = 7;
		walk->head = 5;
		walk->backups = seed % 2;
		walk->renewed_ns = INT64_MIN / 2;
		peer_open(&walk->peer, SLOTS, NULL);
		for (int i = 0; i < STEPS; i++) {
			step(walk);
		}
		settle(walk);
		peer_close(&walk->peer);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(whatever_the_coordinator_does_the_agent_keeps_its_promises),
};
BERTH_TEST_MAIN(tests)
