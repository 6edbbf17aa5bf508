// SPDX-License-Identifier: Apache-2.0
#include "common/task/glob_internal.h"

#include <string.h>

#include "common/task/python_text_internal.h"

struct span {
	const char *at;
	const char *end;
};

// Takes one character; bytes that are no UTF-8 stand for themselves.
static uint32_t take(struct span *span)
{
	uint32_t point;
	size_t length;
	if (!berth_utf8_next(span->at, (size_t)(span->end - span->at), &point, &length)) {
		point = 0x110000 + (unsigned char)*span->at;
		length = 1;
	}
	span->at += length;
	return point;
}

// A set whose "[" was taken: where it ends, or NULL when there is no "]" and "[" is literal.
static const char *set_end(struct span set)
{
	if (set.at < set.end && (*set.at == '!' || *set.at == '^')) {
		set.at++;
	}
	if (set.at < set.end && *set.at == ']') {
		set.at++;
	}
	return set.at < set.end ? memchr(set.at, ']', (size_t)(set.end - set.at)) : NULL;
}

static bool set_holds(struct span set, bool escapes, uint32_t point)
{
	bool negated = set.at < set.end && (*set.at == '!' || (escapes && *set.at == '^'));
	set.at += negated;
	bool found = false;
	while (set.at < set.end) {
		uint32_t low = take(&set);
		if (escapes && low == '\\' && set.at < set.end) {
			low = take(&set);
		}
		uint32_t high = low;
		if (set.end - set.at >= 2 && *set.at == '-') {
			set.at++;
			high = take(&set);
		}
		found |= point >= low && point <= high;
	}
	return found != negated;
}

// Matches one pattern element other than "*" against one character, moving both on success.
static bool step(struct span *pattern, struct span *text, bool escapes)
{
	if (pattern->at == pattern->end || text->at == text->end) {
		return false;
	}
	struct span after_pattern = *pattern, after_text = *text;
	uint32_t wanted = take(&after_pattern), point = take(&after_text);
	bool matches;
	const char *end = wanted == '[' ? set_end(after_pattern) : NULL;
	if (end) {
		matches = set_holds((struct span){after_pattern.at, end}, escapes, point);
		after_pattern.at = end + 1;
	} else if (wanted == '?') {
		matches = true;
	} else {
		if (escapes && wanted == '\\' && after_pattern.at < after_pattern.end) {
			wanted = take(&after_pattern);
		}
		matches = wanted == point;
	}
	if (matches) {
		*pattern = after_pattern;
		*text = after_text;
	}
	return matches;
}

bool berth_glob_matches(const char *pattern, size_t pattern_size, const char *text, size_t text_size, bool escapes)
{
	struct span p = {pattern, pattern + pattern_size}, t = {text, text + text_size};
	struct span star = {0}, retry = {0}; // what to go back to: after the last "*", and where it stands in the text
	for (;;) {
		if (p.at < p.end && *p.at == '*') {
			p.at++;
			star = p;
			retry = t;
		} else if (p.at == p.end && t.at == t.end) {
			return true;
		} else if (!step(&p, &t, escapes)) {
			if (!star.end || retry.at == retry.end) {
				return false;
			}
			take(&retry);
			p = star;
			t = retry;
		}
	}
}
