// SPDX-License-Identifier: Apache-2.0
#include "common/codec/toml_depth.h"

#include <string.h>

// The position after the string or comment that starts at `at`, or `at` itself. A string that does not end, or a line
// break inside a one-line string, is the parser's to report.
static size_t skip_text(const char *text, size_t size, size_t at)
{
	char quote = text[at];
	if (quote == '#') {
		const char *end = memchr(text + at, '\n', size - at);
		return end ? (size_t)(end - text) : size;
	}
	if (quote != '"' && quote != '\'') {
		return at;
	}
	bool triple = size - at >= 3 && text[at + 1] == quote && text[at + 2] == quote;
	for (at += triple ? 3 : 1; at < size; at++) {
		if (text[at] == '\\' && quote == '"') {
			at++;
		} else if (text[at] == '\n' && !triple) {
			return at;
		} else if (text[at] == quote && !triple) {
			return at + 1;
		} else if (text[at] == quote && size - at >= 3 && text[at + 1] == quote && text[at + 2] == quote) {
			return at + 3;
		}
	}
	return size;
}

bool berth_toml_depth_fits(const char *text, size_t size, int *line)
{
	int brackets = 0, dots = 0;
	*line = 1;
	for (size_t at = 0; at < size;) {
		size_t next = skip_text(text, size, at);
		if (next == at) {
			char c = text[at];
			brackets += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
			brackets = brackets < 0 ? 0 : brackets;
			dots = c == '.' ? dots + 1 : c == '\n' || c == ',' || c == '=' ? 0 : dots;
			next = at + 1;
		}
		if (brackets > BERTH_TOML_BRACKETS_MAX || dots >= BERTH_TOML_DOTS_MAX) {
			return false;
		}
		for (; at < next && at < size; at++) {
			*line += text[at] == '\n';
		}
		at = next;
	}
	return true;
}
