// SPDX-License-Identifier: Apache-2.0
// Agents that lease trials and complete them, as fast as a coordinator lets them or at a given rate. One thread.
//
// A cycle is a lease that was granted (an assignment came) and its trial's completion (acknowledged): the least that
// the protocol allows is one move of the lease, CREATING to RETIRED, and a TrialDone without rewards, with its signed
// statement. A whole cycle makes all four moves and is scored, with attestation and receipt.
#pragma once

#include "berth/v1/fleet.pb-c.h"
#include "tests/bench/ledger/line.h"
#include "tests/bench/ledger/measure.h"
#include "tests/bench/ledger/operator.h"

#define LOAD_BATCH_MAX 48 // completions of one message
#define LOAD_MOVES_MAX 4

struct load_options {
	const char *credentials; // folder
	int port, blobs_port;
	pid_t server;
	uint32_t agents, slots;
	uint32_t batch;   // completions of one message at most
	double rate;      // completions a second, Poisson; 0: as soon as a trial is held
	int64_t think_us; // that a held trial waits; without a rate
	int64_t warm_ms, measure_ms;
	int64_t beat_ms;          // 0: as the coordinator says
	uint32_t tasks, attempts; // of the job
	bool whole, paid, hold;   // hold: complete nothing
	// The fencing wait; not 0: who is granted a trial for the first time falls silent, and what counts is how long
	// after the wait another one is granted it.
	int64_t fence_ms;
	bool drain;          // go on until every trial of the job is over
	const char *journal; // go on until the server is gone, then write what was acknowledged
};

// What a load knows of a trial of its job.
struct trial {
	uint32_t generation; // granted; 0: never
	bool sent, acknowledged;
	int64_t fenced_ns; // when its first agent's fencing wait is over
};

struct slot { // a trial that an agent holds
	uint32_t index, generation;
	char lease[BERTH_ID_SIZE];
	bool busy;
};

struct completion { // sent, not acknowledged
	uint64_t through;
	uint32_t index;
	int64_t began_ns;
};

struct ring { // of items of one size, first in, first out
	void *items;
	size_t item_size, head, count, size;
};
struct ring ring_new(size_t item_size, size_t size);
void ring_push(struct ring *ring, const void *item);
bool ring_pop(struct ring *ring, void *item);
const void *ring_first(const struct ring *ring);  // NULL: empty
bool ring_pop_any(struct ring *ring, void *item); // any, all alike

struct planned { // to be completed
	uint32_t slot;
	int64_t began_ns; // when it was due
};

struct agent {
	struct load *load;
	char name[32], boot[BERTH_ID_SIZE];
	struct credentials credentials;
	grpc_channel *channel;
	struct line *line;
	bool sending, ready, over, beat_due, silent;
	int64_t beat_ns; // when the last heartbeat was sent
	uint64_t reports, beats, beats_answered;
	struct slot *slots;
	struct ring outbox, unacknowledged, freed; // planned; completion; when a slot became free
};

struct held {
	struct agent *agent;
	uint32_t slot;
	int64_t due_ns;
};

struct load {
	struct load_options options;
	struct operator_ operator_;
	grpc_completion_queue *queue;
	struct agent *agents;
	struct ring held; // with a rate: any of them may end next; else the first, when it has waited
	struct ring late; // scheduled completions that found nothing held
	char job[BERTH_ID_SIZE];
	struct trial *trials;
	uint32_t trials_count, ready, over;
	int64_t submitted_ns, submit_ns, first_grant_ns;
	// counted while measuring
	bool measuring;
	uint64_t granted, completed, beats, messages, doubled, revoked;
	struct histogram grant, complete, regrant;
};

// agent.c
void agent_open(struct load *load, struct agent *agent, uint32_t number);
void agent_event(struct agent *agent, struct line_event *event);
// The slot's trial has ended: it is reported with the next message, which _send sends unless one is on its way. What
// the coordinator said in one batch is answered in one message, as an agent's driver does it.
void agent_complete(struct agent *agent, uint32_t slot, int64_t began_ns);
void agent_send(struct agent *agent);
void agent_beat(struct agent *agent);
// load.c: a trial is held from now on.
void load_holds(struct load *load, struct agent *agent, uint32_t slot);

// report.c: messages of an agent, packed
grpc_byte_buffer *report_hello(const struct agent *agent);
grpc_byte_buffer *report_beat(struct agent *agent);
grpc_byte_buffer *report_completions(struct agent *agent, const struct planned *planned, size_t count);

// check.c
void journal_write(const struct load *load);
int journal_check(struct load *load);
