// SPDX-License-Identifier: Apache-2.0
// Inside the network: streams (net.c), the client's calls (net_client.c) and the server's (net_server.c).
#pragma once

#include "tests/sim/net.h"

#define SIM_FLEET        "quay"
#define SIM_ADDRESS_SIZE 32

enum sim_side { SIM_CLIENT, SIM_SERVER };

struct sim_item { // a message, or with none the sender's end of it
	ProtobufCMessage *message;
	bool ends;
	struct berth_error error; // of the server's end
	int64_t due_ns;
	struct sim_item *prev, *next;
};

struct sim_end {
	struct sim_process *process;
	struct sim_item *travelling, *arrived; // to this end
	int64_t newest_due_ns;
	bool over; // the stream is gone, as far as this end knows
};

struct sim_stream {
	uint64_t id;
	unsigned link;
	char address[SIM_ADDRESS_SIZE], service[64], method[64];
	struct berth_rpc_principal principal;
	struct sim_end ends[2];
	bool accepted, broken;
	unsigned blocked_beats;
	unsigned references; // of both ends
	struct sim_stream *prev, *next;
};

struct sim_timer {
	uint64_t stream;
	enum sim_side side;
	bool breaks;
};

struct berth_rpc_channel {
	const char *const *address;
	const char *certificate;
	unsigned link;
	struct berth_rpc_principal principal;
	struct berth_rpc_channel *next;
};

struct sim_net {
	struct sim_random random;
	struct sim_net_faults faults;
	struct sim_link links[SIM_LINKS_MAX];
	struct sim_stream *streams;
	struct berth_rpc_channel *channels;
	struct berth_rpc_server *servers;
	struct sim_net_watch watch;
	uint64_t last_id;
};
extern struct sim_net sim_net;

struct sim_stream *sim_stream_new(struct berth_rpc_channel *channel, const char *service, const char *method);
struct sim_stream *sim_stream_of(uint64_t id); // NULL: gone
// Takes the item.
void sim_stream_send(struct sim_stream *stream, enum sim_side to, struct sim_item *item);
void sim_stream_break(struct sim_stream *stream, int64_t client_ns, int64_t server_ns); // when each end learns
void sim_stream_end(struct sim_stream *stream, enum sim_side side);
void sim_stream_free(struct sim_stream *stream);
void sim_stream_release(struct sim_stream *stream);
void sim_stream_accept(struct sim_stream *stream); // net_server.c: it has reached its address
