// SPDX-License-Identifier: Apache-2.0
// A raw stream over a unix socket after an HTTP/1.1 upgrade, with half-close: what an exec with stdin needs. Not
// thread-safe; every call takes a deadline and a cancel token.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/clock.h"
#include "common/base/error.h"

struct berth_hijack;

// POSTs `body` (JSON) to `target` on the socket with `Connection: Upgrade` and reads the answer's head. 101 and 200
// open the stream; any other status fails with what the body says (bounded), *status set.
struct berth_hijack *berth_hijack_open(const char *unix_socket, const char *target, const char *body, int *status,
	struct berth_until until, struct berth_error *err);
// Reads at most `size` bytes: 0 at the end of the stream, -1 on failure.
ssize_t berth_hijack_read(
	struct berth_hijack *stream, void *data, size_t size, struct berth_until until, struct berth_error *err);
bool berth_hijack_write(
	struct berth_hijack *stream, const void *data, size_t size, struct berth_until until, struct berth_error *err);
// For streams that go both ways at once: waits until something can be read, or written where `want_write` says so.
enum { BERTH_HIJACK_READABLE = 1, BERTH_HIJACK_WRITABLE = 2 };
// A set of the above, or 0 with err set.
int berth_hijack_wait(struct berth_hijack *stream, bool want_write, struct berth_until until, struct berth_error *err);
// Writes what goes without waiting: 0 when nothing does, -1 on failure.
ssize_t berth_hijack_write_some(struct berth_hijack *stream, const void *data, size_t size, struct berth_error *err);
bool berth_hijack_close_write(struct berth_hijack *stream, struct berth_error *err);
void berth_hijack_free(struct berth_hijack *stream); // closes; NULL is allowed
