// SPDX-License-Identifier: Apache-2.0
// An agent's session core with the coordinator's messages made by hand: what goes in, and what came out.
#pragma once

#include "agent/core/core.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

#define PEER_FLEET   "quay"
#define PEER_BOOT    "000000000000000200000000000000aa"
#define PEER_OLDER   "000000000000000100000000000000bb"
#define PEER_HOLD_MS 10000
#define PEER_BEAT_MS 1000
#define S(seconds)   ((int64_t)((seconds)*1000) * BERTH_NS_PER_MS)

struct peer {
	struct berth_agent_core *core;
	struct berth_agent_actions actions; // of the last call
	int64_t now_ns;
	bool keeps_reports; // of the next acknowledgements; a stable_through says so too
};

void peer_open(struct peer *peer, uint32_t slots, const Berth__Store__V1__Obeyed *obeyed);
void peer_close(struct peer *peer);

// Each clears the last actions first.
void peer_stream_up(struct peer *peer);
void peer_stream_down(struct peer *peer);
void peer_tick(struct peer *peer, int64_t now_ns);

struct peer_welcome {
	uint32_t protocol; // 0: 1
	const char *fleet; // NULL: PEER_FLEET
	uint64_t number;
	uint8_t nonce; // repeated 16 times
	uint64_t head;
	uint8_t head_leaf; // repeated 32 times; 0: that of leaf_of(head)
	uint64_t seen;     // whose leaf hash is given
	uint8_t seen_leaf; // 0: leaf_of(seen)
	uint64_t applied_through;
	uint64_t hold_ms; // 0: PEER_HOLD_MS
};
uint8_t peer_leaf_of(uint64_t sequence);
void peer_welcome(struct peer *peer, const struct peer_welcome *welcome);
void peer_heartbeat_ack(struct peer *peer, uint64_t sequence, uint64_t head, uint8_t leaf, uint64_t stable_through);
void peer_report_ack(struct peer *peer, const char *boot_id, uint64_t through);
void peer_assign(struct peer *peer, const char *job_id, uint32_t index, uint32_t generation);
void peer_revoke(struct peer *peer, const char *job_id, uint32_t index, uint32_t generation);
void peer_ended(struct peer *peer, const char *job_id, uint32_t index, uint32_t generation);
// A lease move of this boot (or of another one, at load), or the result of a trial.
void peer_reported(struct peer *peer, uint64_t sequence);
void peer_reported_done(struct peer *peer, uint64_t sequence, const char *job_id, uint32_t index, uint32_t generation);
void peer_load(struct peer *peer, const char *boot_id, uint64_t sequence);

// Up and welcomed by incarnation 1, ledger at event 5.
void peer_in_session(struct peer *peer);

size_t peer_count(const struct peer *peer, enum berth_agent_action_kind kind);
// The n-th action of a kind; fails the test when there are fewer.
const struct berth_agent_action *peer_action(const struct peer *peer, enum berth_agent_action_kind kind, size_t n);
// "H" for Hello, "B" for heartbeats, "P" for progress, "<first digit of boot after zeros>:<sequence>" for reports, "S"
// for SAVE_OBEYED, "C" CLOSE, "+index.generation" START, "-index.generation" STOP, "D<through>" DROP; spaces between.
const char *peer_trace(const struct peer *peer);
// The running list of the newest Hello or heartbeat among the actions, as "index.generation" with spaces.
const char *peer_running(const struct peer *peer);
