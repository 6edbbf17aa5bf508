// SPDX-License-Identifier: Apache-2.0
// One line an event on stderr, in logfmt: ts, level, component, msg, then the caller's pairs. Any thread may log; a
// line is one write. Values never hold secrets: callers pass names, ids and digests.
#pragma once

#include <stdbool.h>

enum berth_log_level { BERTH_LOG_DEBUG, BERTH_LOG_INFO, BERTH_LOG_WARN, BERTH_LOG_ERROR };

// `component` is kept by reference (a literal). Lines below `least` are dropped. Under journald (JOURNAL_STREAM is set)
// each line starts with its priority.
void berth_log_setup(const char *component, enum berth_log_level least);
// False for an unknown name ("debug", "info", "warn", "error").
bool berth_log_level_parse(const char *name, enum berth_log_level *level);

// `pairs` is a printf format of logfmt pairs, such as "job=%s trial=%s"; a value that may need quotes goes through
// berth_log_quote.
void berth_log(enum berth_log_level level, const char *message, const char *pairs, ...)
	__attribute__((format(printf, 3, 4)));

#define berth_log_debug(message, ...) berth_log(BERTH_LOG_DEBUG, message, __VA_ARGS__)
#define berth_log_info(message, ...)  berth_log(BERTH_LOG_INFO, message, __VA_ARGS__)
#define berth_log_warn(message, ...)  berth_log(BERTH_LOG_WARN, message, __VA_ARGS__)
#define berth_log_error(message, ...) berth_log(BERTH_LOG_ERROR, message, __VA_ARGS__)

// A logfmt value in quotes, with quotes, backslashes and control characters escaped, cut to fit; for use as an argument
// of one berth_log call: the text is valid until the same thread has quoted eight more.
const char *berth_log_quote(const char *text);
