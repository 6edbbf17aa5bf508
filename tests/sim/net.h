// SPDX-License-Identifier: Apache-2.0
// The network: what common/rpc does over gRPC, done here, with the same contract. Messages of one stream arrive in
// their order or not at all. A link can be slow, blocked in one direction or both, and broken; an end learns of a break
// at once, or only when its keepalive finds out. What is blocked arrives when the link is free again, if the stream
// lives.
#pragma once

#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "tests/sim/sched.h"

#define SIM_LINKS_MAX 16

struct sim_net_faults {
	int64_t delay_ns_least, delay_ns_most;
	unsigned break_per_mille;     // of messages: the stream breaks under it
	unsigned half_open_per_mille; // of breaks: one end does not learn of it until its keepalive
	unsigned straggle_per_mille;  // of breaks: what is under way to the server comes after what is sent next
	                              // elsewhere
	unsigned strange_per_mille;   // of an agent's messages, both ways: with a field that this version does not know
	unsigned full_per_mille;      // of the server's sends: the reader is slow and the queue of the call is full
};

// Between a client's host and the address that it connects to.
struct sim_link {
	bool blocked[2]; // from the client, to the client
};

void sim_net_begin(uint64_t seed);
void sim_net_end(void);
struct sim_net_faults *sim_net_faults(void);
struct sim_link *sim_net_link(unsigned number);
void sim_net_unblock(struct sim_link *link); // what waited goes on its way
// Breaks what goes over a link.
void sim_net_break(unsigned link);
void sim_net_process_died(struct sim_process *process);

// A channel of a client. `address` and `certificate` (NULL: none is looked at) are read at each connect: they may
// change.
struct berth_rpc_channel *sim_net_channel(
	const char *const *address, unsigned link, enum berth_rpc_role role, const char *name, const char *certificate);

// What passes, for the checks: in the sender's thread, before it leaves.
struct sim_net_watch {
	void (*from_agent)(const char *agent, const ProtobufCMessage *batch);
	void (*to_agent)(struct sim_process *coordinator, const char *agent, const ProtobufCMessage *batch);
};
void sim_net_watch(const struct sim_net_watch *watch);
