// SPDX-License-Identifier: Apache-2.0
// redis: the list `ready` holds tasks; LMOVE to `leased` leases one, LREM from there removes it. Its protocol (RESP2)
// is spoken here: what a pipeline of `depth` commands needs of it is little.
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "tests/bench/ledger/peer.h"

#define EVENTS_MAX 64
#define FILL_CHUNK 500
#define READ_BYTES 65536

struct connection {
	int fd;
	struct berth_buf in;
	bool removing;
	uint32_t answered; // of `depth`
	uint32_t tasks[PEER_DEPTH];
};

static struct {
	struct connection *connections;
	int epoll;
} redis;

int peer_connect(const char *address)
{
	BERTH_AUTO_FREE char *host = berth_strdup(address);
	char *port = strrchr(host, ':');
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	if (!port) {
		bench_fail("%s is no host:port", address);
	}
	*port++ = 0;
	if (getaddrinfo(host, port, &hints, &found) != 0) {
		bench_fail("%s is not known", address);
	}
	int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
		bench_fail("cannot connect to %s: %s", address, strerror(errno));
	}
	freeaddrinfo(found);
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

static void send_all(struct peer *peer, int fd, const struct berth_buf *out)
{
	for (size_t at = 0; at < out->size;) {
		ssize_t sent = send(fd, out->data + at, out->size - at, MSG_NOSIGNAL);
		if (sent <= 0) {
			peer->gone = true;
			return;
		}
		at += (size_t)sent;
	}
}

// Blocks until `size` bytes are there, or a line when size is 0; gives where it ends in `in`.
static const char *line_of(struct berth_buf *in, int fd, size_t from)
{
	for (;;) {
		const char *end = in->size > from ? memmem(in->data + from, in->size - from, "\r\n", 2) : NULL;
		if (end) {
			return end;
		}
		char chunk[READ_BYTES];
		ssize_t got = recv(fd, chunk, sizeof chunk, 0);
		if (got <= 0) {
			bench_fail("redis ended the connection");
		}
		berth_buf_add(in, chunk, (size_t)got);
	}
}

static void fill_redis(struct peer *peer)
{
	char body[PEER_BODY];
	redis.epoll = epoll_create1(EPOLL_CLOEXEC);
	redis.connections = berth_alloc(peer->options.connections * sizeof *redis.connections);
	for (uint32_t i = 0; i < peer->options.connections; i++) {
		redis.connections[i].fd = peer_connect(peer->options.address);
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
		epoll_ctl(redis.epoll, EPOLL_CTL_ADD, redis.connections[i].fd, &event);
	}
	int fd = peer_connect(peer->options.address);
	for (uint32_t task = 0; task < peer->options.tasks;) {
		BERTH_AUTO(berth_buf_free) struct berth_buf out = {0}, in = {0};
		uint32_t left = peer->options.tasks - task, count = left < FILL_CHUNK ? left : FILL_CHUNK;
		berth_buf_printf(&out, "*%u\r\n$5\r\nRPUSH\r\n$5\r\nready\r\n", count + 2);
		for (uint32_t i = 0; i < count; i++) {
			peer_body(task++, body);
			berth_buf_printf(&out, "$%d\r\n", PEER_BODY);
			berth_buf_add(&out, body, sizeof body);
			berth_buf_add(&out, "\r\n", 2);
		}
		send_all(peer, fd, &out);
		line_of(&in, fd, 0);
		if (in.data[0] != ':') {
			bench_fail("redis: %s", berth_buf_text(&in));
		}
	}
	close(fd);
}

static void begin_redis(struct peer *peer, uint32_t number)
{
	static const char command[] =
		"*5\r\n$5\r\nLMOVE\r\n$5\r\nready\r\n$6\r\nleased\r\n$4\r\nLEFT\r\n$5\r\nRIGHT\r\n";
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	struct connection *connection = &redis.connections[number];
	connection->removing = false;
	connection->answered = 0;
	for (uint32_t i = 0; i < peer->options.depth; i++) {
		berth_buf_add(&out, command, sizeof command - 1);
	}
	send_all(peer, connection->fd, &out);
}

static void remove_all(struct peer *peer, struct connection *connection)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	char body[PEER_BODY];
	connection->removing = true;
	connection->answered = 0;
	for (uint32_t i = 0; i < peer->options.depth; i++) {
		peer_removing(peer, connection->tasks[i]);
		peer_body(connection->tasks[i], body);
		berth_buf_printf(&out, "*4\r\n$4\r\nLREM\r\n$6\r\nleased\r\n$1\r\n1\r\n$%d\r\n", PEER_BODY);
		berth_buf_add(&out, body, sizeof body);
		berth_buf_add(&out, "\r\n", 2);
	}
	send_all(peer, connection->fd, &out);
}

// Takes one answer from the front; false when it is not whole yet.
static bool take_answer(struct peer *peer, struct connection *connection, uint32_t number)
{
	struct berth_buf *in = &connection->in;
	const char *end = in->size ? memmem(in->data, in->size, "\r\n", 2) : NULL;
	if (!end) {
		return false;
	}
	size_t size = (size_t)(end - (const char *)in->data) + 2;
	if (!connection->removing) {
		if (in->data[0] != '$' || in->data[1] == '-') {
			bench_fail("redis has no task left, or refuses: %.60s", (const char *)in->data);
		}
		if (in->size < size + PEER_BODY + 2) {
			return false;
		}
		uint32_t task = (uint32_t)strtoul((const char *)in->data + size, NULL, 10);
		size += PEER_BODY + 2;
		connection->tasks[connection->answered] = task;
		peer_leased(peer, number, task);
	} else {
		if (in->data[0] != ':' || in->data[1] != '1') {
			bench_fail("redis did not remove a task: %.60s", (const char *)in->data);
		}
		peer_removed(peer, number, connection->tasks[connection->answered]);
	}
	connection->answered++;
	berth_buf_consume(in, size);
	return true;
}

static void take(struct peer *peer, uint32_t number)
{
	struct connection *connection = &redis.connections[number];
	char chunk[READ_BYTES];
	ssize_t got = recv(connection->fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (got <= 0) {
		peer->gone |= got == 0 || errno != EAGAIN;
		return;
	}
	berth_buf_add(&connection->in, chunk, (size_t)got);
	while (take_answer(peer, connection, number)) {
		if (connection->answered < peer->options.depth) {
			continue;
		}
		if (connection->removing) {
			peer_idle(peer, number);
		} else {
			remove_all(peer, connection);
		}
	}
}

static void wait_redis(struct peer *peer, int64_t deadline_ns)
{
	struct epoll_event events[EVENTS_MAX];
	int64_t left_ns = deadline_ns - berth_boot_ns();
	left_ns = left_ns > 0 ? left_ns : 0;
	struct timespec left = {left_ns / BERTH_NS_PER_S, left_ns % BERTH_NS_PER_S};
	int count = epoll_pwait2(redis.epoll, events, EVENTS_MAX, &left, NULL);
	for (int i = 0; i < count; i++) {
		take(peer, events[i].data.u32);
	}
}

static void look_at(struct peer *peer, const char *list, uint8_t found, uint8_t *state)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0}, in = {0};
	int fd = peer_connect(peer->options.address);
	berth_buf_printf(&out, "*4\r\n$6\r\nLRANGE\r\n$%zu\r\n%s\r\n$1\r\n0\r\n$2\r\n-1\r\n", strlen(list), list);
	send_all(peer, fd, &out);
	const char *end = line_of(&in, fd, 0);
	size_t count = strtoul((const char *)in.data + 1, NULL, 10);
	berth_buf_consume(&in, (size_t)(end - (const char *)in.data) + 2);
	for (size_t i = 0; i < count; i++) {
		line_of(&in, fd, 0);
		size_t head = (size_t)(line_of(&in, fd, 0) - (const char *)in.data) + 2;
		size_t whole = (size_t)(line_of(&in, fd, head) - (const char *)in.data) + 2;
		uint32_t task = (uint32_t)strtoul((const char *)in.data + head, NULL, 10);
		if (task < peer->options.tasks) {
			state[task] = found;
		}
		berth_buf_consume(&in, whole);
	}
	close(fd);
}

static void look_redis(struct peer *peer, uint8_t *state)
{
	memset(state, TASK_REMOVED, peer->options.tasks);
	look_at(peer, "leased", TASK_LEASED, state);
	look_at(peer, "ready", TASK_READY, state);
}

const struct peer_kind peer_redis = {"redis", fill_redis, begin_redis, wait_redis, look_redis};
