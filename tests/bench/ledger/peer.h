// SPDX-License-Identifier: Apache-2.0
// The same load on other systems: a cycle is one task leased and then removed, each answered by the server. One thread,
// `connections` of them, each with one cycle (redis: `depth` cycles) at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/bench/ledger/measure.h"

#define PEER_BODY  256 // bytes of a task
#define PEER_DEPTH 64  // cycles of one connection at most

struct peer_options {
	const char *address; // "host:port", or a connection text
	pid_t server;
	uint32_t connections, depth;
	double rate; // cycles a second, Poisson; 0: as fast as they go
	int64_t warm_ms, measure_ms;
	uint32_t tasks;      // that are there at the start
	const char *journal; // go on until the server is gone, then write what was acknowledged
};

enum task_state { TASK_READY, TASK_LEASED, TASK_REMOVING, TASK_REMOVED }; // as the load was told

struct peer {
	struct peer_options options;
	uint8_t *tasks; // enum task_state, by number
	bool gone;      // the server ended a connection
	bool measuring;
	uint64_t granted, completed, doubled;
	struct histogram grant, complete;
};

// A server's protocol. Connections are numbered; every call is from the one thread.
struct peer_kind {
	const char *name;
	void (*fill)(struct peer *peer); // connects, and makes the tasks
	void (*begin)(struct peer *peer, uint32_t connection);
	void (*wait)(struct peer *peer, int64_t deadline_ns); // and takes what came
	// Fills state (TASK_READY, TASK_LEASED or TASK_REMOVED) of each task as the server has it now.
	void (*look)(struct peer *peer, uint8_t *state);
};
extern const struct peer_kind peer_redis, peer_etcd, peer_postgres;

// What a kind tells: the task was leased, its removal is on its way, was answered; and all cycles of the connection are
// over.
void peer_leased(struct peer *peer, uint32_t connection, uint32_t task);
void peer_removing(struct peer *peer, uint32_t task);
void peer_removed(struct peer *peer, uint32_t connection, uint32_t task);
void peer_idle(struct peer *peer, uint32_t connection);

// A task's text: its number, then filler up to PEER_BODY bytes, without a NUL.
void peer_body(uint32_t task, char body[static PEER_BODY]);
// For redis: a socket to "host:port" that does not wait.
int peer_connect(const char *address);
