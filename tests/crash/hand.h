// SPDX-License-Identifier: Apache-2.0
// An agent, north, as the coordinator sees a real one across restarts of its own: reports are kept until they are
// acknowledged and sent again in their order, heartbeats list what runs, and nothing that was acknowledged may be gone.
//
// Functions return false when the coordinator is gone (port_is_gone): the caller starts it and calls hand_join.
#pragma once

#include "common/evidence/head.h"
#include "tests/crash/port.h"

#define HAND_TRIALS_MOST 8

struct hand_trial {
	Berth__V1__Assignment *assignment; // NULL: a free place
	bool revoked;
	bool ended; // by its report: no longer listed
};

struct hand_report {
	Berth__V1__AgentMessage *message;
	struct hand_report *next;
};

struct hand {
	struct port *port;
	struct berth_rpc_stream *stream;
	struct hand_trial trials[HAND_TRIALS_MOST];
	struct hand_report *outbox, *outbox_last;
	uint64_t reports, acknowledged; // sequences
	uint64_t beats;
	struct berth_head seen; // newest head that came
	uint64_t acks, heads;   // how many acknowledgements of each kind were held against a later life
};

void hand_free(struct hand *hand);
void hand_leave(struct hand *hand); // before the channels of a life are closed
// Hello, Welcome and what they must hold: every acknowledged report is applied, and the ledger continues the newest
// head.
bool hand_join(struct hand *hand);
// The assignment of a cell of this job that has not ended, waiting for it; *trial is one of hand->trials.
bool hand_take(struct hand *hand, const char *job, struct hand_trial **trial);
bool hand_wait_revoked(struct hand *hand, const struct hand_trial *trial);
// Puts a report into the outbox and sends it.
bool hand_move(
	struct hand *hand, const struct hand_trial *trial, Berth__V1__LeaseState to, Berth__V1__DeathProof proof);
bool hand_done(struct hand *hand, struct hand_trial *trial, enum quay_honesty honesty);
bool hand_flush(struct hand *hand); // until all reports are acknowledged
// Gives a trial's place free; its reports are acknowledged.
void hand_forget(struct hand_trial *trial);
