// SPDX-License-Identifier: Apache-2.0
// Inside a session: session.c makes commands of what an agent says, session_send.c messages of what was decided.
#pragma once

#include "common/base/table.h"
#include "coordinator/service/daemon.h"

struct session {
	struct berth_daemon *daemon;
	struct berth_rpc_call *call;
	char agent[BERTH_RPC_NAME_MAX];
	uint64_t id;
	bool welcomed;
	uint64_t seen_sequence;   // of its Hello, here and below
	uint64_t obeyed;          // number of the incarnation
	bool seen_held;           // this ledger holds what it saw
	uint8_t *signing_key_der; // set before the first message after Hello is taken
	size_t signing_key_size;
	struct berth_checked_group checked; // of that key; whoever takes the session's newest message
	UT_hash_handle hh;                  // by id
	// The engine's thread only.
	bool had_secrets; // its stream may still hold some in its buffers
	Berth__V1__CoordinatorBatch outgoing;
	size_t outgoing_size; // bytes
	bool decided;         // what it said last: the next is read once the answer is sent
	bool pending;         // in the list of those with something to do
	struct session *pending_prev, *pending_next;
};

struct berth_sessions {
	pthread_mutex_t lock; // guards by_id and last_id
	struct session *by_id;
	uint64_t last_id;
	// The engine's thread only.
	struct session *pending;             // those that are answered, or read from, after the batch
	char without_secrets[BERTH_ID_SIZE]; // the job that was last seen to have none: it never gets any
};

// Engine's thread. Has the session flushed once the engine's batch is delivered.
void session_await_flush(struct session *session);
// Engine's thread. Sends what is outgoing and reads on where all is decided; forgets what is outgoing.
void session_flush(struct session *session);
void session_forget(struct session *session);
