// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/check.h"

#include <stdarg.h>
#include <string.h>

#include "tests/sim/sched.h"

#define LINE_SIZE  240
#define LINES_KEPT 4096

static struct {
	bool tracing, violated;
	char violation[1024];
	char (*lines)[LINE_SIZE];
	uint64_t count;
} check;

static char lines[LINES_KEPT][LINE_SIZE];

void sim_check_begin(bool tracing)
{
	check.tracing = tracing;
	check.violated = false;
	check.lines = lines;
	check.count = 0;
}

bool sim_is_tracing(void)
{
	return check.tracing;
}

static void add_line(const char *format, va_list args)
{
	char *line = check.lines[check.count++ % LINES_KEPT];
	int used = snprintf(line, LINE_SIZE, "%10.3f ", (double)sim_now() / 1e9);
	vsnprintf(line + used, LINE_SIZE - (size_t)used, format, args);
}

void sim_trace(const char *format, ...)
{
	if (check.tracing) {
		va_list args;
		va_start(args, format);
		add_line(format, args);
		va_end(args);
	}
}

void sim_violation(const char *promise, const char *format, ...)
{
	if (check.violated) {
		return;
	}
	check.violated = true;
	int used = snprintf(check.violation, sizeof check.violation, "%s: ", promise);
	va_list args;
	va_start(args, format);
	vsnprintf(check.violation + used, sizeof check.violation - (size_t)used, format, args);
	va_end(args);
	sim_trace("BROKEN %s", check.violation);
}

const char *sim_first_violation(void)
{
	return check.violated ? check.violation : NULL;
}

const bool *sim_is_violated(void)
{
	return &check.violated;
}

void sim_trace_print(FILE *out, unsigned most)
{
	uint64_t kept = check.count < LINES_KEPT ? check.count : LINES_KEPT;
	uint64_t shown = kept < most ? kept : most;
	for (uint64_t i = check.count - shown; i < check.count; i++) {
		fprintf(out, "%s\n", check.lines[i % LINES_KEPT]);
	}
}
