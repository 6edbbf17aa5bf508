// SPDX-License-Identifier: Apache-2.0
#include "common/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	const char *text;
	int grpc;
	int exit;
} codes[] = {
#define X(name, grpc, exit, text) [BERTH_ERROR_##name] = {#name, text, grpc, exit},
	BERTH_ERROR_CODES(X)
#undef X
};

#define CODES_COUNT (sizeof codes / sizeof codes[0])

__attribute__((format(printf, 3, 0))) static void set(
	struct berth_error *err, enum berth_error_code code, const char *format, va_list args)
{
	if (!err) {
		return;
	}
	err->code = code;
	vsnprintf(err->message, sizeof err->message, format, args);
}

bool berth_fail(struct berth_error *err, enum berth_error_code code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	set(err, code, format, args);
	va_end(args);
	return false;
}

static enum berth_error_code code_of_errno(int number)
{
	switch (number) {
	case ENOENT:
	case ENOTDIR:
		return BERTH_ERROR_NOT_FOUND;
	case EACCES:
	case EPERM:
		return BERTH_ERROR_DENIED;
	case ENOSPC:
	case EDQUOT:
	case EMFILE:
	case ENFILE:
		return BERTH_ERROR_EXHAUSTED;
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return BERTH_ERROR_UNAVAILABLE;
	default:
		return BERTH_ERROR_IO;
	}
}

bool berth_fail_errno(struct berth_error *err, const char *format, ...)
{
	int number = errno;
	char text[BERTH_ERROR_MESSAGE_MAX / 2];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	char reason[128];
	return berth_fail(err, code_of_errno(number), "%s: %s", text, strerror_r(number, reason, sizeof reason));
}

bool berth_error_wrap(struct berth_error *err, const char *format, ...)
{
	if (!err) {
		return false;
	}
	char context[BERTH_ERROR_MESSAGE_MAX];
	va_list args;
	va_start(args, format);
	vsnprintf(context, sizeof context, format, args);
	va_end(args);
	// The cause is worth more than the context: when both do not fit, the context is cut.
	size_t cause = strlen(err->message) + 1;
	size_t prefix = strlen(context);
	size_t room = sizeof err->message - cause;
	if (room < 2) {
		return false;
	}
	prefix = prefix > room - 2 ? room - 2 : prefix;
	memmove(err->message + prefix + 2, err->message, cause);
	memcpy(err->message, context, prefix);
	memcpy(err->message + prefix, ": ", 2);
	return false;
}

int berth_error_grpc_status(enum berth_error_code code)
{
	return codes[code].grpc;
}

int berth_error_exit_code(enum berth_error_code code)
{
	return codes[code].exit;
}

const char *berth_error_text(enum berth_error_code code)
{
	return codes[code].text;
}

const char *berth_error_name(enum berth_error_code code)
{
	return codes[code].name;
}

enum berth_error_code berth_error_from_name(const char *name)
{
	for (size_t i = 0; i < CODES_COUNT; i++) {
		if (strcmp(codes[i].name, name) == 0) {
			return (enum berth_error_code)i;
		}
	}
	return BERTH_ERROR_INTERNAL;
}

enum berth_error_code berth_error_from_grpc(int status, const char *name)
{
	enum berth_error_code first = BERTH_ERROR_INTERNAL;
	bool found = false;
	for (size_t i = 0; i < CODES_COUNT; i++) {
		if (codes[i].grpc != status) {
			continue;
		}
		if (name && strcmp(codes[i].name, name) == 0) {
			return (enum berth_error_code)i;
		}
		if (!found) {
			first = (enum berth_error_code)i;
			found = true;
		}
	}
	return first;
}
