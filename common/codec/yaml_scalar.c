// SPDX-License-Identifier: Apache-2.0
#include "common/codec/yaml_scalar.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"

#define DIGITS "0123456789"

static bool is_word(const char *text, const char *const words[])
{
	for (; *words; words++) {
		if (strcmp(*words, text) == 0) {
			return true;
		}
	}
	return false;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_all(const char *text, const char *set)
{
	size_t length = strspn(text, set);
	return length > 0 && !text[length];
}

// After one or more ":59" parts of base 60, or NULL when there is none or a malformed one.
static const char *skip_sixties(const char *at)
{
	if (*at != ':') {
		return NULL;
	}
	while (*at == ':') {
		at++;
		if (!is_digit(*at)) {
			return NULL;
		}
		at += *at <= '5' && is_digit(at[1]) ? 2 : 1;
	}
	return at;
}

// "010" is octal and "1:30" is base 60.
static bool is_integer(const char *text)
{
	const char *at = text + (*text == '-' || *text == '+');
	if (*at == '0') {
		return !at[1] || (at[1] == 'b' && is_all(at + 2, "01_")) ||
		       (at[1] == 'x' && is_all(at + 2, DIGITS "abcdefABCDEF_")) || is_all(at + 1, "01234567_");
	}
	if (!is_digit(*at)) {
		return false;
	}
	at += strspn(at, DIGITS "_");
	const char *end = *at ? skip_sixties(at) : at;
	return end && !*end;
}

// Nothing, or an exponent, which must have a sign, up to the end.
static bool ends_as_float(const char *at)
{
	return !*at || ((*at == 'e' || *at == 'E') && (at[1] == '-' || at[1] == '+') && is_all(at + 2, DIGITS));
}

// A point is a must: "1e3" is text.
static bool is_float(const char *text)
{
	static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
	static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
	const char *at = text + (*text == '-' || *text == '+');
	if (is_word(at, infinities) || is_word(text, nans)) {
		return true;
	}
	if (*text == '.' && is_digit(text[1])) {
		return ends_as_float(text + 1 + strspn(text + 1, DIGITS "_"));
	}
	if (!is_digit(*at)) {
		return false;
	}
	at += strspn(at, DIGITS "_");
	const char *after = skip_sixties(at);
	const char *point = after ? after : at;
	if (*point != '.') {
		return false;
	}
	const char *end = point + 1 + strspn(point + 1, DIGITS "_");
	return after ? !*end : ends_as_float(end);
}

enum berth_yaml_kind berth_yaml_resolve(const char *text, size_t size)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const booleans[] = {"yes", "Yes", "YES", "no", "No", "NO", "true", "True", "TRUE", "false",
		"False", "FALSE", "on", "On", "ON", "off", "Off", "OFF", NULL};
	if (memchr(text, 0, size)) {
		return BERTH_YAML_TEXT;
	}
	return is_word(text, nulls)      ? BERTH_YAML_NULL
	       : is_word(text, booleans) ? BERTH_YAML_BOOL
	       : is_integer(text)        ? BERTH_YAML_INTEGER
	       : is_float(text)          ? BERTH_YAML_FLOAT
	       : strcmp(text, "<<") == 0 ? BERTH_YAML_MERGE
	                                 : BERTH_YAML_TEXT;
}

// Base 60 parts after the first, as "1:30:00".
static bool sexagesimal(const char *text, int64_t *value)
{
	int64_t total = 0;
	for (const char *at = text; *at;) {
		char *end;
		errno = 0;
		int64_t part = strtoll(at, &end, 10);
		if (end == at || errno != 0 || __builtin_mul_overflow(total, 60, &total) ||
			__builtin_add_overflow(total, part, &total)) {
			return false;
		}
		at = *end == ':' ? end + 1 : end;
		if (*end && *end != ':') {
			return false;
		}
	}
	*value = total;
	return true;
}

static bool unsigned_magnitude(const char *text, uint64_t *value)
{
	int base = 10;
	if (text[0] == '0' && text[1]) {
		base = text[1] == 'b' ? 2 : text[1] == 'x' ? 16 : 8;
		text += base == 8 ? 1 : 2;
	}
	char *end;
	errno = 0;
	*value = strtoull(text, &end, base);
	return errno == 0 && end != text && *end == 0 && text[0] != '-' && text[0] != '+';
}

static berth_json *integer(const char *text, struct berth_error *err)
{
	bool negative = text[0] == '-';
	const char *digits = text + (text[0] == '-' || text[0] == '+');
	uint64_t magnitude = 0;
	int64_t parts = 0;
	if (strchr(digits, ':')) {
		if (sexagesimal(digits, &parts)) {
			return berth_json_integer(negative ? -parts : parts);
		}
	} else if (unsigned_magnitude(digits, &magnitude) && magnitude <= (uint64_t)INT64_MAX + negative) {
		return berth_json_integer(negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude);
	}
	berth_fail(err, BERTH_ERROR_INVALID, "%s is no whole number of 64 bits", text);
	return NULL;
}

static berth_json *real(const char *text, struct berth_error *err)
{
	double value = 0, sign = text[0] == '-' ? -1 : 1;
	const char *at = text + (text[0] == '-' || text[0] == '+');
	char *end = NULL;
	for (; strchr(at, ':'); at = strchr(at, ':') + 1) {
		value = (value + (double)strtoll(at, NULL, 10)) * 60;
	}
	if (strspn(at, "0123456789.") > 0) {
		value += strtod(at, &end);
	}
	if (end && end != at && *end == 0 && isfinite(value)) {
		return berth_json_real(sign * value);
	}
	berth_fail(err, BERTH_ERROR_INVALID, "%s is no finite number", text);
	return NULL;
}

static berth_json *boolean(const char *text, struct berth_error *err)
{
	static const char *const words[][2] = {{"no", "yes"}, {"false", "true"}, {"off", "on"}};
	for (size_t i = 0; i < BERTH_COUNT(words); i++) {
		for (int value = 0; value < 2; value++) {
			if (strcasecmp(text, words[i][value]) == 0) {
				return berth_json_bool(value);
			}
		}
	}
	berth_fail(err, BERTH_ERROR_INVALID, "%s is neither true nor false", text);
	return NULL;
}

berth_json *berth_yaml_scalar(enum berth_yaml_kind kind, const char *text, size_t size, struct berth_error *err)
{
	if (kind == BERTH_YAML_TEXT || kind == BERTH_YAML_MERGE) {
		return berth_json_string_n(text, size);
	}
	if (kind == BERTH_YAML_NULL) {
		return berth_json_null();
	}
	if (kind == BERTH_YAML_BOOL) {
		return boolean(text, err);
	}
	BERTH_AUTO_FREE char *digits = berth_strndup(text, size);
	char *to = digits;
	for (const char *from = digits; *from; from++) {
		if (*from != '_') {
			*to++ = *from;
		}
	}
	*to = 0;
	return kind == BERTH_YAML_INTEGER ? integer(digits, err) : real(digits, err);
}
