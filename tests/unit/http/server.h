// SPDX-License-Identifier: Apache-2.0
// A small real HTTP/1.1 server for tests: a thread a connection, and a handler that may misbehave as it likes.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"

struct test_server;

struct test_request {
	struct test_server *server;
	int fd;
	char method[16];
	char target[2048];
	struct berth_buf head; // request line and headers
	struct berth_buf rest; // bytes read after the head: the body's start
	size_t body_read;      // by test_request_body
	bool body_ended;
};

// Answers one request by writing to request->fd. True keeps the connection for the next request.
typedef bool (*test_handler)(void *context, struct test_request *request);

// Listens on a unix socket (`path` is its address) or on 127.0.0.1.
struct test_server *test_server_unix(const char *path, test_handler handler, void *context);
struct test_server *test_server_tcp(test_handler handler, void *context);
int test_server_port(const struct test_server *server);
// Cuts every connection, waits for their threads and frees.
void test_server_stop(struct test_server *server);
// Sleeps in a handler until the server stops or the peer has closed.
void test_server_hang(struct test_request *request);

// The body's next bytes, chunks joined: 0 at its end or when the peer is gone.
size_t test_request_body(struct test_request *request, void *data, size_t size);
size_t test_request_drain(struct test_request *request); // reads the rest of the body, gives its size
bool test_send(struct test_request *request, const void *data, size_t size);
bool test_send_text(struct test_request *request, const char *text);
// Status line, Content-Length and body.
bool test_answer(struct test_request *request, int status, const char *body);
