// SPDX-License-Identifier: Apache-2.0
#include "common/http/hijack.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/http/hijack_head.h"

#define READ_SIZE       (16 * 1024)
#define ERROR_BODY_MAX  (16 * 1024)
#define ERROR_BODY_MS   2000
#define BACKLOG_WAIT_MS 10

struct berth_hijack {
	int fd;
	char *socket;
	struct berth_buf early; // stream bytes that came with the head
};

// Waits until `events` are possible, and tells which are. 0 with err set when `until` is over.
static short wait_for(int fd, short events, struct berth_until until, const char *what, struct berth_error *err)
{
	for (;;) {
		if (berth_until_over(until)) {
			berth_fail_until(until, err, what);
			return 0;
		}
		struct pollfd polled[2] = {{.fd = fd, .events = events},
			{.fd = until.cancel ? berth_cancel_fd(until.cancel) : -1, .events = POLLIN}};
		int ready = poll(polled, 2, berth_until_left_ms(until));
		if (ready < 0 && errno != EINTR) {
			berth_fail_errno(err, "cannot wait for %s", what);
			return 0;
		}
		if (ready > 0 && polled[0].revents) {
			return polled[0].revents;
		}
	}
}

static int connect_socket(const char *path, struct berth_until until, struct berth_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path) {
		berth_fail(err, BERTH_ERROR_INVALID, "the socket path %s is longer than %zu bytes", path,
			sizeof address.sun_path - 1);
		return -1;
	}
	strcpy(address.sun_path, path);
	BERTH_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		berth_fail_errno(err, "cannot make a socket");
		return -1;
	}
	while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
		// EAGAIN is a full backlog, which poll does not tell the end of.
		if (errno != EAGAIN && errno != EINTR) {
			berth_fail(err, BERTH_ERROR_UNAVAILABLE, "cannot connect to %s: %s", path, strerror(errno));
			return -1;
		}
		if (!berth_sleep_ms(BACKLOG_WAIT_MS, until, err)) {
			return -1;
		}
	}
	int connected = fd;
	fd = -1;
	return connected;
}

ssize_t berth_hijack_write_some(struct berth_hijack *stream, const void *data, size_t size, struct berth_error *err)
{
	for (;;) {
		ssize_t sent = send(stream->fd, data, size, MSG_NOSIGNAL);
		if (sent >= 0) {
			return sent;
		}
		if (errno == EAGAIN) {
			return 0;
		}
		if (errno != EINTR) {
			berth_fail(
				err, BERTH_ERROR_IO, "writing to %s was cut off: %s", stream->socket, strerror(errno));
			return -1;
		}
	}
}

bool berth_hijack_write(
	struct berth_hijack *stream, const void *data, size_t size, struct berth_until until, struct berth_error *err)
{
	const char *rest = data;
	while (size > 0) {
		ssize_t sent = berth_hijack_write_some(stream, rest, size, err);
		if (sent < 0 || (sent == 0 && !wait_for(stream->fd, POLLOUT, until, stream->socket, err))) {
			return false;
		}
		rest += sent;
		size -= (size_t)sent;
	}
	return true;
}

int berth_hijack_wait(struct berth_hijack *stream, bool want_write, struct berth_until until, struct berth_error *err)
{
	if (stream->early.size > 0) {
		return BERTH_HIJACK_READABLE;
	}
	short ready = wait_for(stream->fd, want_write ? POLLIN | POLLOUT : POLLIN, until, stream->socket, err);
	int set = (ready & (POLLIN | POLLHUP | POLLERR)) ? BERTH_HIJACK_READABLE : 0;
	return set | ((ready & POLLOUT) ? BERTH_HIJACK_WRITABLE : 0);
}

static ssize_t read_socket(
	struct berth_hijack *stream, void *data, size_t size, struct berth_until until, struct berth_error *err)
{
	for (;;) {
		ssize_t got = recv(stream->fd, data, size, 0);
		if (got >= 0) {
			return got;
		}
		if (errno == EAGAIN) {
			if (!wait_for(stream->fd, POLLIN, until, stream->socket, err)) {
				return -1;
			}
		} else if (errno != EINTR) {
			berth_fail(err, BERTH_ERROR_IO, "reading from %s was cut off: %s", stream->socket,
				strerror(errno));
			return -1;
		}
	}
}

ssize_t berth_hijack_read(
	struct berth_hijack *stream, void *data, size_t size, struct berth_until until, struct berth_error *err)
{
	if (stream->early.size > 0) {
		size = size < stream->early.size ? size : stream->early.size;
		memcpy(data, stream->early.data, size);
		berth_buf_consume(&stream->early, size);
		return (ssize_t)size;
	}
	// A stream that never pauses must not outlive its deadline.
	if (berth_until_over(until)) {
		berth_fail_until(until, err, stream->socket);
		return -1;
	}
	return read_socket(stream, data, size, until, err);
}

// Reads on until `early` holds a whole head.
static bool read_head(
	struct berth_hijack *stream, struct berth_hijack_head *head, struct berth_until until, struct berth_error *err)
{
	for (;;) {
		switch (berth_hijack_head_parse(stream->early.data, stream->early.size, head, err)) {
		case BERTH_HIJACK_HEAD:
			return true;
		case BERTH_HIJACK_BAD:
			return berth_error_wrap(err, "%s", stream->socket);
		case BERTH_HIJACK_MORE:
			break;
		}
		uint8_t *room = berth_buf_reserve(&stream->early, READ_SIZE);
		ssize_t got = read_socket(stream, room, READ_SIZE, until, err);
		if (got < 0) {
			return false;
		}
		if (got == 0) {
			return berth_fail(
				err, BERTH_ERROR_IO, "%s closed the connection instead of answering", stream->socket);
		}
		stream->early.size += (size_t)got;
	}
}

static bool body_is_whole(const struct berth_hijack_head *head, const struct berth_buf *body)
{
	if (head->chunked) {
		return body->size >= 5 && memcmp(body->data + body->size - 5, "0\r\n\r\n", 5) == 0;
	}
	return head->content_length >= 0 && body->size >= (size_t)head->content_length;
}

static enum berth_error_code code_of(int status)
{
	return status == 404   ? BERTH_ERROR_NOT_FOUND
	       : status == 409 ? BERTH_ERROR_CONFLICT
	       : status >= 500 ? BERTH_ERROR_INTERNAL
	                       : BERTH_ERROR_INVALID;
}

// The body is only the reason for a refusal: what of it does not come soon is done without.
static bool fail_refused(struct berth_hijack *stream, const struct berth_hijack_head *head, const char *target,
	struct berth_until until, struct berth_error *err)
{
	until = berth_until_at_most_ms(until, ERROR_BODY_MS);
	while (!body_is_whole(head, &stream->early) && stream->early.size < ERROR_BODY_MAX) {
		uint8_t *room = berth_buf_reserve(&stream->early, READ_SIZE);
		ssize_t got = read_socket(stream, room, READ_SIZE, until, NULL);
		if (got <= 0) {
			break;
		}
		stream->early.size += (size_t)got;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_hijack_body_text(head, stream->early.data, stream->early.size, &text);
	return berth_fail(err, code_of(head->status), "POST %s on %s: HTTP %d: %s", target, stream->socket,
		head->status, berth_buf_text(&text));
}

static bool open_stream(struct berth_hijack *stream, const char *target, const char *body, int *status,
	struct berth_until until, struct berth_error *err)
{
	if ((stream->fd = connect_socket(stream->socket, until, err)) < 0) {
		return false;
	}
	BERTH_AUTO_FREE char *request = berth_format("POST %s HTTP/1.1\r\nHost: docker\r\nContent-Type: "
						     "application/json\r\nContent-Length: %zu\r\n"
						     "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n%s",
		target, strlen(body), body);
	struct berth_hijack_head head;
	if (!berth_hijack_write(stream, request, strlen(request), until, err) ||
		!read_head(stream, &head, until, err)) {
		return false;
	}
	*status = head.status;
	berth_buf_consume(&stream->early, head.size);
	if (head.status != 101 && head.status != 200) {
		return fail_refused(stream, &head, target, until, err);
	}
	return !head.chunked || berth_fail(err, BERTH_ERROR_IO,
					"%s answered with chunks where a raw stream was asked for", stream->socket);
}

struct berth_hijack *berth_hijack_open(const char *unix_socket, const char *target, const char *body, int *status,
	struct berth_until until, struct berth_error *err)
{
	int ignored;
	status = status ? status : &ignored;
	*status = 0;
	struct berth_hijack *stream = berth_alloc(sizeof *stream);
	stream->fd = -1;
	stream->socket = berth_strdup(unix_socket);
	if (!open_stream(stream, target, body, status, until, err)) {
		berth_hijack_free(stream);
		return NULL;
	}
	return stream;
}

bool berth_hijack_close_write(struct berth_hijack *stream, struct berth_error *err)
{
	// A peer that has closed already needs no end of ours.
	return shutdown(stream->fd, SHUT_WR) == 0 || errno == ENOTCONN ||
	       berth_fail_errno(err, "cannot end the stream to %s", stream->socket);
}

void berth_hijack_free(struct berth_hijack *stream)
{
	if (!stream) {
		return;
	}
	if (stream->fd >= 0) {
		close(stream->fd);
	}
	berth_buf_free(&stream->early);
	free(stream->socket);
	free(stream);
}
