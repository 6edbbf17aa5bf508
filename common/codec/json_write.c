// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/json.h"

#define REAL_DIGITS_MAX 17
#define REAL_TEXT_SIZE	40

struct style {
	bool sorted;
	int indent; // 0: one line
	const char *comma, *colon;
};

static void write_string(const char *text, size_t size, struct berth_buf *out)
{
	static const char escapes[][2] = {
		{'"', '"'}, {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'\f', 'f'}, {'\b', 'b'}};
	berth_buf_add_byte(out, '"');
	for (size_t i = 0; i < size; i++) {
		char escape = 0;
		for (size_t k = 0; k < BERTH_COUNT(escapes); k++) {
			escape = escapes[k][0] == text[i] ? escapes[k][1] : escape;
		}
		if (escape) {
			berth_buf_add_byte(out, '\\');
			berth_buf_add_byte(out, (uint8_t)escape);
		} else if ((unsigned char)text[i] < 0x20) {
			berth_buf_printf(out, "\\u%04x", (unsigned)text[i]);
		} else {
			berth_buf_add_byte(out, (uint8_t)text[i]);
		}
	}
	berth_buf_add_byte(out, '"');
}

// One unit more in the last of the decimal digits at the front of "d.ddde+xx"; false when that carries out.
static bool step_up(char *text)
{
	for (char *at = strchr(text, 'e') - 1; at >= text; at--) {
		if (*at >= '0' && *at < '9') {
			(*at)++;
			return true;
		}
		if (*at == '9') {
			*at = '0';
		}
	}
	return false;
}

// The shortest "d.ddde+xx" that reads back as `value`, which is positive. Below a power of two the doubles lie closer,
// so that there the nearest text of some length can miss while its upper neighbour hits.
static void shortest(double value, char text[static REAL_TEXT_SIZE])
{
	for (int digits = 1; digits <= REAL_DIGITS_MAX; digits++) {
		snprintf(text, REAL_TEXT_SIZE, "%.*e", digits - 1, value);
		if (strtod(text, NULL) == value) {
			return;
		}
		if (digits < REAL_DIGITS_MAX && step_up(text) && strtod(text, NULL) == value) {
			return;
		}
	}
}

// As Python's repr: positional between 1e-4 and 1e16, else with an exponent of two digits or more.
static void write_real(double value, struct berth_buf *out)
{
	if (signbit(value)) {
		berth_buf_add_byte(out, '-');
		value = -value;
	}
	if (value == 0) {
		berth_buf_add_text(out, "0.0");
		return;
	}
	char text[REAL_TEXT_SIZE];
	shortest(value, text);
	char *mark = strchr(text, 'e');
	int point = atoi(mark + 1) + 1; // where the decimal point stands, counted in digits
	char digits[REAL_DIGITS_MAX + 1];
	int count = 0;
	for (const char *at = text; at < mark && count < REAL_DIGITS_MAX; at++) {
		if (*at != '.') {
			digits[count++] = *at;
		}
	}
	while (count > 1 && digits[count - 1] == '0') {
		count--;
	}
	if (point <= -4 || point > 16) {
		berth_buf_printf(out, "%c%s%.*se%c%02d", digits[0], count > 1 ? "." : "", count - 1, digits + 1,
			point > 0 ? '+' : '-', abs(point - 1));
	} else if (point <= 0) {
		berth_buf_printf(out, "0.%.*s%.*s", -point, "0000", count, digits);
	} else if (point >= count) {
		berth_buf_printf(out, "%.*s%.*s.0", count, digits, point - count, "0000000000000000");
	} else {
		berth_buf_printf(out, "%.*s.%.*s", point, digits, count - point, digits + point);
	}
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b); // UTF-8 sorts by code point
}

static void line_break(const struct style *style, int depth, struct berth_buf *out)
{
	if (style->indent > 0) {
		berth_buf_printf(out, "\n%*s", style->indent * depth, "");
	}
}

static bool write_value(const berth_json *value, const struct style *style, int depth, struct berth_buf *out);

static bool write_object(const berth_json *object, const struct style *style, int depth, struct berth_buf *out)
{
	size_t count = berth_json_size(object);
	BERTH_AUTO_FREE const char **keys = berth_alloc((count + 1) * sizeof *keys);
	void *cursor = NULL;
	for (size_t i = 0; berth_json_next(object, &cursor, &keys[i], NULL);) {
		i++;
	}
	if (style->sorted) {
		qsort(keys, count, sizeof *keys, compare_keys);
	}
	berth_buf_add_byte(out, '{');
	for (size_t i = 0; i < count; i++) {
		berth_buf_add_text(out, i > 0 ? style->comma : "");
		line_break(style, depth + 1, out);
		write_string(keys[i], strlen(keys[i]), out);
		berth_buf_add_text(out, style->colon);
		if (!write_value(berth_json_get(object, keys[i]), style, depth + 1, out)) {
			return false;
		}
	}
	if (count > 0) {
		line_break(style, depth, out);
	}
	berth_buf_add_byte(out, '}');
	return true;
}

static bool write_array(const berth_json *array, const struct style *style, int depth, struct berth_buf *out)
{
	size_t count = berth_json_size(array);
	berth_buf_add_byte(out, '[');
	for (size_t i = 0; i < count; i++) {
		berth_buf_add_text(out, i > 0 ? style->comma : "");
		line_break(style, depth + 1, out);
		if (!write_value(berth_json_at(array, i), style, depth + 1, out)) {
			return false;
		}
	}
	if (count > 0) {
		line_break(style, depth, out);
	}
	berth_buf_add_byte(out, ']');
	return true;
}

static bool write_value(const berth_json *value, const struct style *style, int depth, struct berth_buf *out)
{
	switch (berth_json_type(value)) {
	case BERTH_JSON_NULL:
		berth_buf_add_text(out, "null");
		return true;
	case BERTH_JSON_BOOL:
		berth_buf_add_text(out, berth_json_as_bool(value) ? "true" : "false");
		return true;
	case BERTH_JSON_INTEGER:
		berth_buf_printf(out, "%lld", (long long)berth_json_as_integer(value));
		return true;
	case BERTH_JSON_REAL:
		if (!isfinite(berth_json_as_number(value))) {
			return false;
		}
		write_real(berth_json_as_number(value), out);
		return true;
	case BERTH_JSON_STRING:
		write_string(berth_json_as_string(value), berth_json_string_size(value), out);
		return true;
	case BERTH_JSON_ARRAY:
		return write_array(value, style, depth, out);
	case BERTH_JSON_OBJECT:
		return write_object(value, style, depth, out);
	}
	return false;
}

bool berth_json_write_canonical(const berth_json *value, struct berth_buf *out, struct berth_error *err)
{
	const struct style style = {.sorted = true, .comma = ",", .colon = ":"};
	return write_value(value, &style, 0, out) ||
	       berth_fail(err, BERTH_ERROR_INVALID, "a JSON number is no finite value and has no canonical form");
}

void berth_json_write(const berth_json *value, int indent, struct berth_buf *out)
{
	const struct style style = {.indent = indent, .comma = indent > 0 ? "," : ", ", .colon = ": "};
	write_value(value, &style, 0, out);
}
