// SPDX-License-Identifier: Apache-2.0
// postgres: a lease is an UPDATE of the first ready row that nobody holds (SKIP LOCKED), a removal an UPDATE by its
// key; each its own transaction, prepared.
#include <errno.h>
#include <postgresql/libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "tests/bench/ledger/peer.h"

#define EVENTS_MAX 64
#define LEASE                                                                                                          \
	"UPDATE task SET state = 1 WHERE id = (SELECT id FROM task WHERE state = 0 ORDER BY id FOR UPDATE SKIP "       \
	"LOCKED "                                                                                                      \
	"LIMIT 1) RETURNING id"
#define REMOVE "UPDATE task SET state = 2 WHERE id = $1"

struct connection {
	PGconn *to;
	bool removing;
	uint32_t task;
};

static struct {
	struct connection *connections;
	int epoll;
} postgres;

static PGconn *open_to(const struct peer *peer)
{
	PGconn *to = PQconnectdb(peer->options.address);
	if (PQstatus(to) != CONNECTION_OK) {
		bench_fail("postgres: %s", PQerrorMessage(to));
	}
	return to;
}

static PGresult *ask(PGconn *to, const char *text)
{
	PGresult *result = PQexec(to, text);
	if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
		bench_fail("postgres: %s", PQerrorMessage(to));
	}
	return result;
}

static void fill_postgres(struct peer *peer)
{
	PGconn *to = open_to(peer);
	BERTH_AUTO_FREE char *fill = berth_format("INSERT INTO task SELECT i, 0, lpad(i::text, %d, 'x') FROM "
						  "generate_series(0, %u) AS i",
		PEER_BODY, peer->options.tasks - 1);
	const char *const texts[] = {"DROP TABLE IF EXISTS task",
		"CREATE TABLE task (id bigint PRIMARY KEY, state smallint NOT NULL, body text NOT NULL) WITH "
		"(fillfactor = 50)",
		fill, "CREATE INDEX task_ready ON task (id) WHERE state = 0", "ANALYZE task", "CHECKPOINT"};
	for (size_t i = 0; i < BERTH_COUNT(texts); i++) {
		PQclear(ask(to, texts[i]));
	}
	PQfinish(to);
	postgres.epoll = epoll_create1(EPOLL_CLOEXEC);
	postgres.connections = berth_alloc(peer->options.connections * sizeof *postgres.connections);
	for (uint32_t i = 0; i < peer->options.connections; i++) {
		to = postgres.connections[i].to = open_to(peer);
		PQclear(PQprepare(to, "lease", LEASE, 0, NULL));
		PQclear(PQprepare(to, "remove", REMOVE, 1, NULL));
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
		epoll_ctl(postgres.epoll, EPOLL_CTL_ADD, PQsocket(to), &event);
	}
}

static void begin_postgres(struct peer *peer, uint32_t number)
{
	struct connection *connection = &postgres.connections[number];
	connection->removing = false;
	peer->gone |= !PQsendQueryPrepared(connection->to, "lease", 0, NULL, NULL, NULL, 0);
}

static void take_result(struct peer *peer, struct connection *connection, uint32_t number, PGresult *result)
{
	if (connection->removing) {
		peer->gone |= PQresultStatus(result) != PGRES_COMMAND_OK;
		if (!peer->gone) {
			peer_removed(peer, number, connection->task);
		}
		return;
	}
	peer->gone |= PQresultStatus(result) != PGRES_TUPLES_OK;
	if (!peer->gone && PQntuples(result) != 1) {
		bench_fail("postgres has no task left");
	}
	if (!peer->gone) {
		connection->task = (uint32_t)strtoul(PQgetvalue(result, 0, 0), NULL, 10);
		peer_leased(peer, number, connection->task);
	}
}

static void go_on(struct peer *peer, struct connection *connection, uint32_t number)
{
	if (peer->gone) {
		return;
	}
	if (connection->removing) {
		peer_idle(peer, number);
		return;
	}
	char text[16];
	const char *values[] = {text};
	snprintf(text, sizeof text, "%u", connection->task);
	connection->removing = true;
	peer_removing(peer, connection->task);
	peer->gone |= !PQsendQueryPrepared(connection->to, "remove", 1, values, NULL, NULL, 0);
}

static void take(struct peer *peer, uint32_t number)
{
	struct connection *connection = &postgres.connections[number];
	if (!PQconsumeInput(connection->to)) {
		peer->gone = true;
		return;
	}
	bool answered = false;
	while (!PQisBusy(connection->to)) {
		PGresult *result = PQgetResult(connection->to);
		if (!result) {
			if (answered) {
				go_on(peer, connection, number);
			}
			return;
		}
		take_result(peer, connection, number, result);
		answered = true;
		PQclear(result);
	}
}

static void wait_postgres(struct peer *peer, int64_t deadline_ns)
{
	struct epoll_event events[EVENTS_MAX];
	int64_t left_ns = deadline_ns - berth_boot_ns();
	left_ns = left_ns > 0 ? left_ns : 0;
	struct timespec left = {left_ns / BERTH_NS_PER_S, left_ns % BERTH_NS_PER_S};
	int count = epoll_pwait2(postgres.epoll, events, EVENTS_MAX, &left, NULL);
	for (int i = 0; i < count && !peer->gone; i++) {
		take(peer, events[i].data.u32);
	}
}

static void look_postgres(struct peer *peer, uint8_t *state)
{
	static const uint8_t states[] = {TASK_READY, TASK_LEASED, TASK_REMOVED};
	PGconn *to = open_to(peer);
	PGresult *result = ask(to, "SELECT id, state FROM task");
	for (int i = 0; i < PQntuples(result); i++) {
		uint32_t task = (uint32_t)strtoul(PQgetvalue(result, i, 0), NULL, 10);
		unsigned long found = strtoul(PQgetvalue(result, i, 1), NULL, 10);
		if (task < peer->options.tasks && found < BERTH_COUNT(states)) {
			state[task] = states[found];
		}
	}
	PQclear(result);
	PQfinish(to);
}

const struct peer_kind peer_postgres = {"postgres", fill_postgres, begin_postgres, wait_postgres, look_postgres};
