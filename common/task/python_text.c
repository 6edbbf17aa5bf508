// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "common/task/python_text_internal.h"

// The zero of each run of ten decimal digits (category Nd of Unicode 14), ASCII left out.
static const uint32_t zeros[] = {0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
	0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0,
	0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066,
	0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50,
	0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0,
	0x1e950, 0x1fbf0};

bool berth_utf8_next(const char *text, size_t size, uint32_t *point, size_t *length)
{
	const uint8_t *bytes = (const uint8_t *)text;
	if (size == 0) {
		return false;
	}
	size_t wanted = bytes[0] < 0x80 ? 1 : bytes[0] < 0xc2 ? 0 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
	if (wanted == 0 || bytes[0] > 0xf4 || wanted > size) {
		return false;
	}
	uint32_t value = wanted == 1 ? bytes[0] : bytes[0] & (0x7fU >> wanted);
	for (size_t i = 1; i < wanted; i++) {
		if ((bytes[i] & 0xc0) != 0x80) {
			return false;
		}
		value = value << 6 | (bytes[i] & 0x3fU);
	}
	static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
	if (value < lowest[wanted] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
		return false;
	}
	*point = value;
	*length = wanted;
	return true;
}

bool berth_python_is_space(uint32_t point)
{
	return (point >= 0x09 && point <= 0x0d) || (point >= 0x1c && point <= 0x20) || point == 0x85 || point == 0xa0 ||
	       point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
	       point == 0x202f || point == 0x205f || point == 0x3000;
}

int berth_python_digit(uint32_t point)
{
	if (point >= '0' && point <= '9') {
		return (int)(point - '0');
	}
	for (size_t i = 0; i < BERTH_COUNT(zeros) && zeros[i] <= point; i++) {
		if (point < zeros[i] + 10) {
			return (int)(point - zeros[i]);
		}
	}
	return -1;
}

const char *berth_python_strip(const char *text, size_t size, size_t *stripped_size)
{
	size_t start = size, end = 0;
	for (size_t at = 0; at < size;) {
		uint32_t point;
		size_t length = 1;
		bool space = berth_utf8_next(text + at, size - at, &point, &length) && berth_python_is_space(point);
		if (!space) {
			start = start < at ? start : at;
			end = at + length;
		}
		at += length;
	}
	*stripped_size = end > start ? end - start : 0;
	return text + (end > start ? start : size);
}
