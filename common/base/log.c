// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

#define LINE_MAX_SIZE 4096
#define QUOTE_SIZE    1200
#define QUOTES        8

static struct {
	const char *component;
	enum berth_log_level least;
	bool journal;
} setup = {.component = "berth", .least = BERTH_LOG_INFO};

static const char *const names[] = {"debug", "info", "warn", "error"};
static const int priorities[] = {7, 6, 4, 3};

void berth_log_setup(const char *component, enum berth_log_level least)
{
	setup.component = component;
	setup.least = least;
	setup.journal = getenv("JOURNAL_STREAM") != NULL;
}

bool berth_log_level_parse(const char *name, enum berth_log_level *level)
{
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strcmp(name, names[i]) == 0) {
			*level = (enum berth_log_level)i;
			return true;
		}
	}
	return false;
}

void berth_log(enum berth_log_level level, const char *message, const char *pairs, ...)
{
	if (level < setup.least) {
		return;
	}
	char line[LINE_MAX_SIZE];
	char time[BERTH_TIME_TEXT_SIZE];
	berth_time_harbor(berth_wall_ns(), time);
	size_t used = 0;
	if (setup.journal) {
		used = (size_t)snprintf(line, sizeof line, "<%d>", priorities[level]);
	}
	used += (size_t)snprintf(line + used, sizeof line - used, "ts=%s level=%s component=%s msg=%s ", time,
		names[level], setup.component, berth_log_quote(message));
	va_list args;
	va_start(args, pairs);
	int more = vsnprintf(line + used, sizeof line - used, pairs, args);
	va_end(args);
	used += more > 0 ? (size_t)more : 0;
	if (used > sizeof line - 2) {
		used = sizeof line - 2;
	}
	line[used++] = '\n';
	ssize_t written = write(STDERR_FILENO, line, used);
	(void)written;
}

const char *berth_log_quote(const char *text)
{
	static _Thread_local char quotes[QUOTES][QUOTE_SIZE];
	static _Thread_local unsigned next;
	char *out = quotes[next++ % QUOTES];
	size_t used = 0;
	out[used++] = '"';
	for (const char *at = text ? text : ""; *at && used < QUOTE_SIZE - 8; at++) {
		unsigned char c = (unsigned char)*at;
		if (c == '"' || c == '\\') {
			out[used++] = '\\';
			out[used++] = *at;
		} else if (c == '\n') {
			out[used++] = '\\';
			out[used++] = 'n';
		} else if (c < 0x20 || c == 0x7f) {
			used += (size_t)snprintf(out + used, 7, "\\u%04x", c);
		} else {
			out[used++] = *at;
		}
	}
	out[used++] = '"';
	out[used] = 0;
	return out;
}
