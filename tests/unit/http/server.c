// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/mem.h"

#define CONNECTIONS_MAX 256
#define HEAD_MAX        (64 * 1024)

struct connection {
	struct test_server *server;
	int fd;
	pthread_t thread;
};

struct test_server {
	int fd, stop_fd, port;
	test_handler handler;
	void *context;
	pthread_t thread;
	struct connection connections[CONNECTIONS_MAX];
	size_t count;
};

// False when the server stops or the peer is gone.
static bool readable(const struct test_server *server, int fd)
{
	struct pollfd polled[2] = {{.fd = fd, .events = POLLIN}, {.fd = server->stop_fd, .events = POLLIN}};
	while (poll(polled, 2, -1) < 0 && errno == EINTR) {
	}
	return polled[1].revents == 0;
}

static bool read_more(struct test_request *request)
{
	uint8_t *room = berth_buf_reserve(&request->rest, 65536);
	if (!readable(request->server, request->fd)) {
		return false;
	}
	ssize_t got = recv(request->fd, room, 65536, 0);
	if (got <= 0) {
		return false;
	}
	request->rest.size += (size_t)got;
	room[got] = 0;
	return true;
}

static bool read_head(struct test_request *request)
{
	char *end;
	berth_buf_reset(&request->head);
	request->body_read = 0;
	request->body_ended = false;
	berth_buf_reserve(&request->rest, 1);
	while (!(end = memmem(request->rest.data, request->rest.size, "\r\n\r\n", 4))) {
		if (request->rest.size > HEAD_MAX || !read_more(request)) {
			return false;
		}
	}
	size_t size = (size_t)(end + 4 - (char *)request->rest.data);
	berth_buf_add(&request->head, request->rest.data, size);
	berth_buf_consume(&request->rest, size);
	return sscanf(berth_buf_text(&request->head), "%15s %2047s", request->method, request->target) == 2;
}

static bool has_header(const struct test_request *request, const char *line)
{
	return strcasestr(berth_buf_text(&request->head), line) != NULL;
}

static size_t take(struct test_request *request, void *data, size_t size)
{
	size = size < request->rest.size ? size : request->rest.size;
	memcpy(data, request->rest.data, size);
	berth_buf_consume(&request->rest, size);
	return size;
}

// The empty line after the last chunk.
static bool end_chunks(struct test_request *request)
{
	request->body_ended = true;
	while (request->rest.size < 2 && read_more(request)) {
	}
	berth_buf_consume(&request->rest, 2);
	return false;
}

// Bytes left of the chunk at hand stand in body_read; a new chunk's size line is read when it is 0.
static bool next_chunk(struct test_request *request)
{
	for (;;) {
		char *text = (char *)request->rest.data;
		size_t blank = request->rest.size >= 2 && memcmp(text, "\r\n", 2) == 0 ? 2 : 0;
		char *end = text ? memmem(text + blank, request->rest.size - blank, "\r\n", 2) : NULL;
		if (end) {
			request->body_read = strtoul(text + blank, NULL, 16);
			berth_buf_consume(&request->rest, (size_t)(end + 2 - text));
			return request->body_read > 0 || end_chunks(request);
		}
		if (!read_more(request)) {
			return false;
		}
	}
}

size_t test_request_body(struct test_request *request, void *data, size_t size)
{
	size_t limit;
	bool chunked = has_header(request, "Transfer-Encoding: chunked");
	if (chunked) {
		if (request->body_ended) {
			return 0;
		}
		if (request->body_read == 0 && !next_chunk(request)) {
			return 0;
		}
		limit = request->body_read;
	} else {
		const char *line = strcasestr(berth_buf_text(&request->head), "Content-Length:");
		limit = (line ? strtoul(line + 15, NULL, 10) : 0) - request->body_read;
	}
	if (limit == 0 || (request->rest.size == 0 && !read_more(request))) {
		return 0;
	}
	size_t got = take(request, data, size < limit ? size : limit);
	request->body_read += chunked ? -got : got;
	return got;
}

size_t test_request_drain(struct test_request *request)
{
	size_t total = 0, got;
	BERTH_AUTO_FREE char *data = berth_alloc(65536);
	while ((got = test_request_body(request, data, 65536)) > 0) {
		total += got;
	}
	return total;
}

bool test_send(struct test_request *request, const void *data, size_t size)
{
	const char *rest = data;
	while (size > 0) {
		ssize_t sent = send(request->fd, rest, size, MSG_NOSIGNAL);
		if (sent <= 0) {
			return false;
		}
		rest += sent;
		size -= (size_t)sent;
	}
	return true;
}

bool test_send_text(struct test_request *request, const char *text)
{
	return test_send(request, text, strlen(text));
}

bool test_answer(struct test_request *request, int status, const char *body)
{
	BERTH_AUTO_FREE char *answer = berth_format(
		"HTTP/1.1 %d Because\r\nContent-Length: %zu\r\nX-Kind: test \r\n\r\n%s", status, strlen(body), body);
	return test_send_text(request, answer);
}

void test_server_hang(struct test_request *request)
{
	char data[4096];
	while (readable(request->server, request->fd) && recv(request->fd, data, sizeof data, 0) > 0) {
	}
}

static void *serve(void *context)
{
	struct connection *connection = context;
	struct test_request *request = berth_alloc(sizeof *request);
	request->server = connection->server;
	request->fd = connection->fd;
	while (read_head(request) && connection->server->handler(connection->server->context, request)) {
		test_request_drain(request);
	}
	shutdown(connection->fd, SHUT_RDWR);
	berth_buf_free(&request->head);
	berth_buf_free(&request->rest);
	free(request);
	return NULL;
}

static void *accept_all(void *context)
{
	struct test_server *server = context;
	while (server->count < CONNECTIONS_MAX && readable(server, server->fd)) {
		int fd = accept(server->fd, NULL, NULL);
		if (fd >= 0) {
			struct connection *connection = &server->connections[server->count++];
			*connection = (struct connection){.server = server, .fd = fd};
			pthread_create(&connection->thread, NULL, serve, connection);
		}
	}
	return NULL;
}

static struct test_server *start(int fd, int port, test_handler handler, void *context)
{
	struct test_server *server = berth_alloc(sizeof *server);
	server->fd = fd;
	server->stop_fd = eventfd(0, EFD_CLOEXEC);
	server->port = port;
	server->handler = handler;
	server->context = context;
	if (fd < 0 || server->stop_fd < 0 || listen(fd, 64) != 0) {
		abort();
	}
	pthread_create(&server->thread, NULL, accept_all, server);
	return server;
}

struct test_server *test_server_unix(const char *path, test_handler handler, void *context)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path) {
		abort();
	}
	strcpy(address.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
		abort();
	}
	return start(fd, 0, handler, context);
}

struct test_server *test_server_tcp(test_handler handler, void *context)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fd, (struct sockaddr *)&address, size) != 0 ||
		getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
		abort();
	}
	return start(fd, ntohs(address.sin_port), handler, context);
}

int test_server_port(const struct test_server *server)
{
	return server->port;
}

void test_server_stop(struct test_server *server)
{
	eventfd_write(server->stop_fd, 1);
	pthread_join(server->thread, NULL);
	for (size_t i = 0; i < server->count; i++) {
		shutdown(server->connections[i].fd, SHUT_RDWR);
	}
	for (size_t i = 0; i < server->count; i++) {
		pthread_join(server->connections[i].thread, NULL);
		close(server->connections[i].fd);
	}
	close(server->fd);
	close(server->stop_fd);
	free(server);
}
