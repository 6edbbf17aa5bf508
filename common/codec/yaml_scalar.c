// SPDX-License-Identifier: Apache-2.0
#include "common/codec/yaml_scalar.h"

#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"

#define SCALAR_SIZE_MAX 128 // longer plain scalars are text

// YAML 1.1 as PyYAML resolves it: "1e3" without a point is text, "1:30" is base 60, "010" is octal.
static const char *const patterns[BERTH_YAML_KINDS] = {
	[BERTH_YAML_NULL] = "^(~|null|Null|NULL|)$",
	[BERTH_YAML_BOOL] = "^(yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$",
	[BERTH_YAML_INTEGER] = "^([-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+"
			       "|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+)$",
	[BERTH_YAML_FLOAT] = "^([-+]?[0-9][0-9_]*\\.[0-9_]*([eE][-+][0-9]+)?|\\.[0-9][0-9_]*([eE][-+][0-9]+)?"
			     "|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\\.[0-9_]*|[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN))$",
	[BERTH_YAML_MERGE] = "^<<$",
};

struct berth_yaml_rules {
	regex_t compiled[BERTH_YAML_KINDS];
};

struct berth_yaml_rules *berth_yaml_rules_new(void)
{
	struct berth_yaml_rules *rules = berth_alloc(sizeof *rules);
	for (int kind = BERTH_YAML_TEXT + 1; kind < BERTH_YAML_KINDS; kind++) {
		if (regcomp(&rules->compiled[kind], patterns[kind], REG_EXTENDED | REG_NOSUB) != 0) {
			abort();
		}
	}
	return rules;
}

void berth_yaml_rules_free(struct berth_yaml_rules *rules)
{
	for (int kind = BERTH_YAML_TEXT + 1; rules && kind < BERTH_YAML_KINDS; kind++) {
		regfree(&rules->compiled[kind]);
	}
	free(rules);
}

enum berth_yaml_kind berth_yaml_resolve(const struct berth_yaml_rules *rules, const char *text, size_t size)
{
	if (size > SCALAR_SIZE_MAX || memchr(text, 0, size) || memchr(text, '\n', size)) {
		return BERTH_YAML_TEXT;
	}
	for (int kind = BERTH_YAML_TEXT + 1; kind < BERTH_YAML_KINDS; kind++) {
		if (regexec(&rules->compiled[kind], text, 0, NULL, 0) == 0) {
			return (enum berth_yaml_kind)kind;
		}
	}
	return BERTH_YAML_TEXT;
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
