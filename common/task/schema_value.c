// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"
#include "common/task/reward.h"
#include "common/task/schema_internal.h"

#define SHOWN_SIZE_MAX 80

// The last part of a path: what the fix writes.
static const char *key_of(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot ? dot + 1 : path;
}

static char *shown(const berth_json *value)
{
	struct berth_buf out = {0};
	berth_json_write(value, 0, &out);
	if (out.size > SHOWN_SIZE_MAX) {
		size_t cut = SHOWN_SIZE_MAX;
		while (cut > 0 && (out.data[cut] & 0xc0) == 0x80) {
			cut--;
		}
		char *text = berth_format("%.*s...", (int)cut, berth_buf_text(&out));
		berth_buf_free(&out);
		return text;
	}
	return berth_buf_steal(&out);
}

// JSON files and YAML write "key: value", TOML "key = value".
static const char *assign(const struct berth_reading *reading)
{
	return reading->document ? " =" : ":";
}

bool berth_schema_text(struct berth_reading *reading, const char *path, const berth_json *value, const char **text)
{
	if (!berth_json_is(value, BERTH_JSON_STRING)) {
		BERTH_AUTO_FREE char *is = shown(value);
		bool scalar = !berth_json_is(value, BERTH_JSON_ARRAY) && !berth_json_is(value, BERTH_JSON_OBJECT);
		return scalar ? berth_schema_fail(reading, path, "must be text, not %s: write %s%s \"%s\"", is,
					key_of(path), assign(reading), is)
		              : berth_schema_fail(reading, path, "must be text, not %s", is);
	}
	*text = berth_json_as_string(value);
	if (strlen(*text) != berth_json_string_size(value)) {
		return berth_schema_fail(reading, path, "must not hold a NUL character");
	}
	return true;
}

bool berth_schema_number(struct berth_reading *reading, const char *path, const berth_json *value, double *number)
{
	switch (berth_json_type(value)) {
	case BERTH_JSON_INTEGER:
	case BERTH_JSON_REAL:
		*number = berth_json_as_number(value);
		return true;
	case BERTH_JSON_BOOL:
		*number = berth_json_as_bool(value);
		return true;
	case BERTH_JSON_STRING:
		if (berth_python_float(berth_json_as_string(value), berth_json_string_size(value), number) &&
			isfinite(*number)) {
			return true;
		}
		break;
	default:
		break;
	}
	BERTH_AUTO_FREE char *is = shown(value);
	return berth_schema_fail(
		reading, path, "must be a finite number, not %s: write %s%s 60.0", is, key_of(path), assign(reading));
}

bool berth_schema_integer(struct berth_reading *reading, const char *path, const berth_json *value, int64_t *number)
{
	if (berth_json_is(value, BERTH_JSON_INTEGER)) {
		*number = berth_json_as_integer(value);
		return true;
	}
	double real = NAN;
	enum berth_json_type type = berth_json_type(value);
	if (type == BERTH_JSON_REAL || type == BERTH_JSON_BOOL) {
		real = type == BERTH_JSON_REAL ? berth_json_as_number(value) : berth_json_as_bool(value);
	} else if (type == BERTH_JSON_STRING && !strpbrk(berth_json_as_string(value), "eEnN") &&
		   !berth_python_float(berth_json_as_string(value), berth_json_string_size(value), &real)) {
		real = NAN;
	}
	if (real == trunc(real) && fabs(real) < 0x1p53) {
		*number = (int64_t)real;
		return true;
	}
	BERTH_AUTO_FREE char *is = shown(value);
	int64_t fix = isfinite(real) && real > 1 && real < 0x1p53 ? (int64_t)ceil(real) : 1;
	return berth_schema_fail(reading, path, "must be a whole number, not %s: write %s%s %lld", is, key_of(path),
		assign(reading), (long long)fix);
}

bool berth_schema_bool(struct berth_reading *reading, const char *path, const berth_json *value, bool *truth)
{
	static const char *const words[2][6] = {
		{"0", "off", "f", "false", "n", "no"}, {"1", "on", "t", "true", "y", "yes"}};
	double number = berth_json_as_number(value);
	enum berth_json_type type = berth_json_type(value);
	if (type == BERTH_JSON_BOOL) {
		*truth = berth_json_as_bool(value);
		return true;
	}
	if ((type == BERTH_JSON_INTEGER || type == BERTH_JSON_REAL) && (number == 0 || number == 1)) {
		*truth = number == 1;
		return true;
	}
	for (size_t i = 0; type == BERTH_JSON_STRING && i < 2 * BERTH_COUNT(words[0]); i++) {
		if (strcasecmp(words[i % 2][i / 2], berth_json_as_string(value)) == 0) {
			*truth = i % 2;
			return true;
		}
	}
	BERTH_AUTO_FREE char *is = shown(value);
	return berth_schema_fail(
		reading, path, "must be true or false, not %s: write %s%s true", is, key_of(path), assign(reading));
}
