// SPDX-License-Identifier: Apache-2.0
#include "coordinator/budget/text.h"

#include <string.h>

#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/codec/json.h"

#define LOWER            "abcdefghijklmnopqrstuvwxyz"
#define UPPER            "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS           "0123456789"
#define FAILURE_TYPE_MAX 64

static bool is_ascii(const char *text)
{
	while (*text && (unsigned char)*text < 0x80) {
		text++;
	}
	return !*text;
}

// A JSON string replaces what is no UTF-8: two texts with one digest.
static bool is_utf8(const char *text)
{
	if (is_ascii(text)) {
		return true;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *value = berth_json_string(text);
	return strcmp(berth_json_as_string(value), text) == 0;
}

static bool is_edge(char c)
{
	return (unsigned char)c <= ' ' || (unsigned char)c == 0x7f;
}

bool text_is_name(const char *text, size_t max)
{
	size_t size = strlen(text);
	return size > 0 && size <= max && !is_edge(text[0]) && !is_edge(text[size - 1]) && is_utf8(text);
}

bool text_is_digest(const char *text)
{
	struct berth_digest digest;
	return strncmp(text, "sha256:", 7) == 0 && berth_unhex(text + 7, digest.bytes, sizeof digest.bytes);
}

static bool is_of(const char *text, const char *first, const char *rest, size_t max)
{
	size_t size = strlen(text);
	return size > 0 && size <= max && strchr(first, text[0]) && strspn(text, rest) == size;
}

bool text_is_dotted(const char *text, size_t max)
{
	return is_of(text, LOWER, LOWER DIGITS "_.-", max);
}

bool text_is_failure_type(const char *text)
{
	return is_of(text, LOWER UPPER, LOWER UPPER DIGITS "_", FAILURE_TYPE_MAX);
}

bool text_is_id(const char *text, size_t max)
{
	return is_of(text, LOWER UPPER DIGITS "_.:-", LOWER UPPER DIGITS "_.:-", max);
}
