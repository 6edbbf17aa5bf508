// SPDX-License-Identifier: Apache-2.0
// One error value for the whole project: a code, and a message that names the thing and the next step.
//
// A function that can fail returns false (or NULL) and fills the `struct berth_error *` that it got, once. On success
// it does not touch it. The caller adds context on the way up with berth_error_wrap, and only the outermost one prints.
// NULL is allowed for a caller that needs no reason.
#pragma once

#include <stdarg.h>
#include <stdbool.h>

// code, gRPC status, exit code, text
#define BERTH_ERROR_CODES(X)                                                                                           \
	X(OK, 0, 0, "ok")                                                                                              \
	X(CANCELLED, 1, 130, "cancelled")                                                                              \
	X(INVALID, 3, 2, "invalid input")                                                                              \
	X(TIMEOUT, 4, 124, "timed out")                                                                                \
	X(NOT_FOUND, 5, 3, "not found")                                                                                \
	X(CONFLICT, 6, 4, "conflict")                                                                                  \
	X(DENIED, 7, 1, "permission denied")                                                                           \
	X(BUDGET, 8, 5, "budget refused")                                                                              \
	X(EXHAUSTED, 8, 1, "limit reached")                                                                            \
	X(FENCED, 9, 4, "fenced")                                                                                      \
	X(UNSUPPORTED, 12, 1, "not supported")                                                                         \
	X(INTERNAL, 13, 1, "internal error")                                                                           \
	X(IO, 13, 1, "input/output error")                                                                             \
	X(UNAVAILABLE, 14, 7, "unreachable")                                                                           \
	X(NOT_SERVING, 14, 9, "not serving")                                                                           \
	X(CORRUPT, 15, 8, "verification failed")                                                                       \
	X(UNAUTHENTICATED, 16, 1, "not authenticated")

enum berth_error_code {
#define X(name, grpc, exit, text) BERTH_ERROR_##name,
	BERTH_ERROR_CODES(X)
#undef X
};

#define BERTH_ERROR_MESSAGE_MAX 1024

struct berth_error {
	enum berth_error_code code;
	char message[BERTH_ERROR_MESSAGE_MAX];
};

// Fills err (if any) and returns false, so that `return berth_fail(err, ...)` is one line. Longer messages are cut.
bool berth_fail(struct berth_error *err, enum berth_error_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

// As berth_fail, with ": strerror(errno)" appended. The code is IO, or NOT_FOUND, DENIED, EXHAUSTED where errno says
// so.
bool berth_fail_errno(struct berth_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Puts "context: " before the message of an error that is set, and returns false.
bool berth_error_wrap(struct berth_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

int berth_error_grpc_status(enum berth_error_code code);
int berth_error_exit_code(enum berth_error_code code);
const char *berth_error_text(enum berth_error_code code);
// The code that a peer meant by a gRPC status number; `name` is the code's name as sent in ErrorInfo.reason, or NULL.
enum berth_error_code berth_error_from_grpc(int status, const char *name);
const char *berth_error_name(enum berth_error_code code);
enum berth_error_code berth_error_from_name(const char *name); // INTERNAL for one that this release does not know
