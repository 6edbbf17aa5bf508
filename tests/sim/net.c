// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/net.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/sim/net_internal.h"

#define KEEPALIVE_NS INT64_C(20000000000)
#define MS           INT64_C(1000000)

#define STRAGGLE_NS_MOST (15000 * MS)
#define STRANGE_FIELD    1999

struct sim_net sim_net;

void sim_net_begin(uint64_t seed)
{
	sim_net = (struct sim_net){.random = sim_random_stream(seed, SIM_STREAM_NET)};
	sim_net.faults = (struct sim_net_faults){.delay_ns_least = MS / 5, .delay_ns_most = 20 * MS};
}

void sim_net_end(void)
{
	while (sim_net.streams) {
		sim_stream_free(sim_net.streams);
	}
	struct berth_rpc_channel *channel, *next;
	LL_FOREACH_SAFE(sim_net.channels, channel, next)
	{
		free(channel);
	}
}

struct sim_net_faults *sim_net_faults(void)
{
	return &sim_net.faults;
}

struct sim_link *sim_net_link(unsigned number)
{
	return &sim_net.links[number];
}

void sim_net_watch(const struct sim_net_watch *watch)
{
	sim_net.watch = *watch;
}

struct berth_rpc_channel *sim_net_channel(
	const char *const *address, unsigned link, enum berth_rpc_role role, const char *name, const char *certificate)
{
	struct berth_rpc_channel *channel = berth_alloc(sizeof *channel);
	channel->address = address;
	channel->certificate = certificate;
	channel->link = link;
	channel->principal.role = role;
	snprintf(channel->principal.fleet, sizeof channel->principal.fleet, "%s", SIM_FLEET);
	snprintf(channel->principal.name, sizeof channel->principal.name, "%s", name);
	LL_PREPEND(sim_net.channels, channel);
	return channel;
}

// --- ends of a stream ---
static struct sim_end *end_of(struct sim_stream *stream, enum sim_side side)
{
	return &stream->ends[side];
}

static void free_item(struct sim_item *item)
{
	berth_proto_free(item->message);
	free(item);
}

static void wake_end(struct sim_stream *stream, enum sim_side side)
{
	struct sim_end *end = end_of(stream, side);
	if (end->process) {
		sim_wake(end->process, end);
	}
}

static void arrive(struct sim_stream *stream, enum sim_side side, struct sim_item *item)
{
	struct sim_end *end = end_of(stream, side);
	if (end->over) {
		free_item(item);
		return;
	}
	DL_APPEND(end->arrived, item);
	wake_end(stream, side);
}

static bool is_blocked(const struct sim_stream *stream, enum sim_side to)
{
	return sim_net.links[stream->link].blocked[to == SIM_CLIENT];
}

// What may arrive by now, does.
static void deliver(struct sim_stream *stream, enum sim_side to)
{
	struct sim_end *end = end_of(stream, to);
	struct sim_item *item;
	while ((item = end->travelling) && item->due_ns <= sim_now() && !is_blocked(stream, to)) {
		DL_DELETE(end->travelling, item);
		arrive(stream, to, item);
	}
}

static void on_due(void *context)
{
	struct sim_timer *timer = context;
	struct sim_stream *stream = sim_stream_of(timer->stream);
	if (stream && timer->breaks) {
		sim_stream_end(stream, timer->side);
	} else if (stream && !stream->accepted && timer->side == SIM_SERVER) {
		sim_stream_accept(stream);
	}
	if (stream && !timer->breaks) {
		deliver(stream, timer->side);
	}
	free(timer);
}

static void set_timer(const struct sim_stream *stream, enum sim_side side, int64_t at_ns, bool breaks)
{
	struct sim_timer *timer = berth_alloc(sizeof *timer);
	*timer = (struct sim_timer){.stream = stream->id, .side = side, .breaks = breaks};
	sim_at(at_ns, on_due, timer);
}

static void clear_items(struct sim_item **items)
{
	struct sim_item *item, *next;
	DL_FOREACH_SAFE (*items, item, next) {
		free_item(item);
	}
	*items = NULL;
}

void sim_stream_end(struct sim_stream *stream, enum sim_side side)
{
	struct sim_end *end = end_of(stream, side);
	if (!end->over) {
		end->over = true;
		clear_items(&end->travelling);
		wake_end(stream, side);
	}
}

// What the server is still to get arrives late, and only then does it learn of the end: after the client has come back
// on another stream.
static int64_t straggle(struct sim_stream *stream)
{
	struct sim_end *end = end_of(stream, SIM_SERVER);
	int64_t late_ns = sim_random_between(&sim_net.random, 1000 * MS, STRAGGLE_NS_MOST);
	struct sim_item *item;
	DL_FOREACH (end->travelling, item) {
		item->due_ns += late_ns;
		set_timer(stream, SIM_SERVER, item->due_ns, false);
	}
	return late_ns + MS;
}

void sim_stream_break(struct sim_stream *stream, int64_t client_ns, int64_t server_ns)
{
	if (stream->broken) {
		return;
	}
	stream->broken = true;
	if (server_ns && sim_random_chance(&sim_net.random, sim_net.faults.straggle_per_mille)) {
		server_ns += end_of(stream, SIM_SERVER)->newest_due_ns - sim_now() + straggle(stream);
		server_ns = server_ns > 0 ? server_ns : MS;
	}
	set_timer(stream, SIM_CLIENT, sim_now() + client_ns, true);
	set_timer(stream, SIM_SERVER, sim_now() + server_ns, true);
}

static int64_t notice_ns(void)
{
	return sim_random_chance(&sim_net.random, sim_net.faults.half_open_per_mille)
	               ? sim_random_between(&sim_net.random, KEEPALIVE_NS, 2 * KEEPALIVE_NS)
	               : sim_random_between(&sim_net.random, 0, 50 * MS);
}

void sim_net_break(unsigned link)
{
	struct sim_stream *stream;
	DL_FOREACH (sim_net.streams, stream) {
		if (stream->link == link) {
			sim_stream_break(stream, notice_ns(), notice_ns());
		}
	}
}

// --- sending ---
static int64_t delay_ns(void)
{
	return sim_random_between(&sim_net.random, sim_net.faults.delay_ns_least, sim_net.faults.delay_ns_most);
}

// As a peer of a newer version writes it: through bytes, with a field more.
static ProtobufCMessage *strange(ProtobufCMessage *message)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	berth_proto_pack(message, &packed);
	static const uint8_t field[] = {(STRANGE_FIELD << 3 & 0x7f) | 0x80, STRANGE_FIELD >> 4, 1};
	berth_buf_add(&packed, field, sizeof field);
	ProtobufCMessage *read = berth_proto_unpack(message->descriptor, packed.data, packed.size, "a message", NULL);
	berth_proto_free(message);
	return read;
}

void sim_stream_send(struct sim_stream *stream, enum sim_side to, struct sim_item *item)
{
	if (item->message && stream->principal.role == BERTH_ROLE_AGENT &&
		sim_random_chance(&sim_net.random, sim_net.faults.strange_per_mille)) {
		item->message = strange(item->message);
	}
	struct sim_end *end = end_of(stream, to);
	int64_t due_ns = sim_now() + delay_ns();
	end->newest_due_ns = due_ns > end->newest_due_ns ? due_ns : end->newest_due_ns;
	item->due_ns = end->newest_due_ns;
	if (stream->broken || end->over) {
		free_item(item);
		return;
	}
	DL_APPEND(end->travelling, item);
	set_timer(stream, to, item->due_ns, false);
	if (sim_random_chance(&sim_net.random, sim_net.faults.break_per_mille)) {
		sim_stream_break(stream, notice_ns(), notice_ns());
	}
}

// A stream whose link stayed blocked too long is given up by the keepalives of its ends.
static void watch_keepalive(void *context)
{
	struct sim_timer *timer = context;
	struct sim_stream *stream = sim_stream_of(timer->stream);
	if (!stream) {
		free(timer);
		return;
	}
	const struct sim_link *link = &sim_net.links[stream->link];
	stream->blocked_beats = link->blocked[0] || link->blocked[1] ? stream->blocked_beats + 1 : 0;
	if (stream->blocked_beats >= 2) {
		sim_stream_break(stream, sim_random_between(&sim_net.random, 0, KEEPALIVE_NS / 2),
			sim_random_between(&sim_net.random, 0, KEEPALIVE_NS / 2));
	}
	sim_at(sim_now() + KEEPALIVE_NS / 2, watch_keepalive, timer);
}

void sim_net_unblock(struct sim_link *link)
{
	link->blocked[0] = link->blocked[1] = false;
	struct sim_stream *stream;
	DL_FOREACH (sim_net.streams, stream) {
		for (int side = 0; side < 2; side++) {
			if (stream->ends[side].travelling || !stream->accepted) {
				set_timer(stream, (enum sim_side)side, sim_now() + delay_ns(), false);
			}
		}
	}
}

// --- streams ---
struct sim_stream *sim_stream_of(uint64_t id)
{
	struct sim_stream *stream;
	DL_FOREACH (sim_net.streams, stream) {
		if (stream->id == id) {
			return stream;
		}
	}
	return NULL;
}

struct sim_stream *sim_stream_new(struct berth_rpc_channel *channel, const char *service, const char *method)
{
	struct sim_stream *stream = berth_alloc(sizeof *stream);
	stream->id = ++sim_net.last_id;
	stream->link = channel->link;
	stream->principal = channel->principal;
	snprintf(stream->principal.certificate_sha256, sizeof stream->principal.certificate_sha256, "%s",
		channel->certificate ? channel->certificate : "");
	stream->references = 1;
	snprintf(stream->address, sizeof stream->address, "%s", *channel->address);
	snprintf(stream->service, sizeof stream->service, "%s", service);
	snprintf(stream->method, sizeof stream->method, "%s", method);
	stream->ends[SIM_CLIENT].process = sim_self();
	DL_APPEND(sim_net.streams, stream);
	struct sim_end *server = end_of(stream, SIM_SERVER);
	server->newest_due_ns = sim_now() + delay_ns();
	set_timer(stream, SIM_SERVER, server->newest_due_ns, false);
	struct sim_timer *timer = berth_alloc(sizeof *timer);
	timer->stream = stream->id;
	sim_at(sim_now() + KEEPALIVE_NS / 2, watch_keepalive, timer);
	return stream;
}

void sim_stream_free(struct sim_stream *stream)
{
	DL_DELETE(sim_net.streams, stream);
	for (int side = 0; side < 2; side++) {
		clear_items(&stream->ends[side].travelling);
		clear_items(&stream->ends[side].arrived);
	}
	free(stream);
}

void sim_stream_release(struct sim_stream *stream)
{
	if (--stream->references == 0) {
		sim_stream_free(stream);
	}
}

void sim_net_process_died(struct sim_process *process)
{
	struct sim_stream *stream;
	DL_FOREACH (sim_net.streams, stream) {
		bool client = stream->ends[SIM_CLIENT].process == process;
		bool server = stream->ends[SIM_SERVER].process == process;
		if (client || server) {
			// The dead end knows at once, the living one when it is told.
			sim_stream_break(stream, client ? 0 : notice_ns(), server ? 0 : notice_ns());
			sim_stream_end(stream, client ? SIM_CLIENT : SIM_SERVER);
		}
	}
}
