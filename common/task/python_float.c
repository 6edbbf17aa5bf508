// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/task/python_text_internal.h"
#include "common/task/reward.h"

// ASCII for digits of any script and a blank for white space. False for invalid UTF-8 and for every other character.
static bool to_ascii(const char *text, size_t size, struct berth_buf *out)
{
	for (size_t at = 0; at < size;) {
		uint32_t point;
		size_t length;
		if (!berth_utf8_next(text + at, size - at, &point, &length) || point == 0) {
			return false;
		}
		int digit = berth_python_digit(point);
		if (digit >= 0) {
			berth_buf_add_byte(out, (uint8_t)('0' + digit));
		} else if (berth_python_is_space(point) && (point < 0x1c || point >= 0x20)) {
			berth_buf_add_byte(out, ' '); // float() does not take the four separators from U+001C on
		} else if (point < 0x80) {
			berth_buf_add_byte(out, (uint8_t)point);
		} else {
			return false;
		}
		at += length;
	}
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

// Takes underscores out in place; false when one does not stand between two digits.
static bool drop_underscores(char *text)
{
	char *to = text;
	for (const char *from = text; *from; from++) {
		if (*from != '_') {
			*to++ = *from;
		} else if (from == text || !is_digit(from[-1]) || !is_digit(from[1])) {
			return false;
		}
	}
	*to = 0;
	return true;
}

static bool is_decimal(const char *text)
{
	const char *at = text + (*text == '+' || *text == '-');
	if (strcasecmp(at, "inf") == 0 || strcasecmp(at, "infinity") == 0 || strcasecmp(at, "nan") == 0) {
		return true;
	}
	size_t whole = strspn(at, "0123456789");
	at += whole;
	size_t part = 0;
	if (*at == '.') {
		part = strspn(at + 1, "0123456789");
		at += 1 + part;
	}
	if (whole + part == 0) {
		return false;
	}
	if (*at == 'e' || *at == 'E') {
		at += 1 + (at[1] == '+' || at[1] == '-');
		size_t exponent = strspn(at, "0123456789");
		at += exponent;
		return exponent > 0 && *at == 0;
	}
	return *at == 0;
}

bool berth_python_float(const char *text, size_t size, double *value)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf ascii = {0};
	if (!to_ascii(text, size, &ascii) || ascii.size == 0) {
		return false;
	}
	char *start = (char *)ascii.data + strspn((char *)ascii.data, " ");
	for (size_t length = strlen(start); length > 0 && start[length - 1] == ' '; length--) {
		start[length - 1] = 0;
	}
	if (!drop_underscores(start) || !is_decimal(start)) {
		return false;
	}
	*value = strtod(start, NULL);
	return true;
}
