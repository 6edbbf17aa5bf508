// SPDX-License-Identifier: Apache-2.0
// What is done with a coordinator that may die at any moment, in steps that go on where they were: after a death the
// coordinator is started again, the agent joins, and what was acknowledged must be there.
#pragma once

#include "tests/crash/desk.h"
#include "tests/crash/hand.h"

#define SCRIPT_LIVES_MOST 3

struct script {
	struct port port;
	struct hand hand;
	const char *const *plans[SCRIPT_LIVES_MOST]; // of the first lives; NULL: none
	bool first_life;                             // of a run whose plan is the second's
	bool joined;                                 // the agent takes part
	bool budget_open;
	uint32_t amendments;            // acknowledged
	char job[DESK_ID];              // newest that was acknowledged; empty: none
	uint32_t scored;                // of it, as last told
	uint64_t jobs, trials, cancels; // ended
	uint64_t checks;                // lives that were asked for what was acknowledged before
};

// Starts the coordinator, as often as it dies, until it serves and holds what it acknowledged.
void script_recover(struct script *script);
// Calls again after a death until it succeeds: for what changes nothing when it is asked twice.
#define SCRIPT_DO(script, call)                                                                                        \
	while (!(call)) {                                                                                              \
		script_recover(script);                                                                                \
	}
// Calls once: what it said is in the agent's outbox and is sent again by itself.
#define SCRIPT_SAY(script, call)                                                                                       \
	if (!(call)) {                                                                                                 \
		script_recover(script);                                                                                \
	}

// A paid job of this many cells, each run to its score; `batched` sends a trial's reports without waiting between them.
void script_score(struct script *script, const char *key, uint32_t cells, bool batched);
// A paid job that is cancelled while its create is under way; the lease is given up, which forfeits its money.
void script_forfeit(struct script *script, const char *key);
// Raises the limit so that exactly this many runs have room.
void script_amend(struct script *script, unsigned runs);

// A start, credentials, a budget and the agent's session.
void script_begin(struct script *script);
// Holds the sums against what was done, ends in order, and looks once more from a new life.
void script_end(struct script *script);

// The whole scripted job, from an empty folder to an orderly end and a last look from a new life; `second` kills the
// first life after its first trial, so that the second life recovers under its plan.
void script_run(struct script *script, bool second);
