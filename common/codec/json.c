// SPDX-License-Identifier: Apache-2.0
#include "common/codec/json.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

// Out of memory ends the process (common/base/mem.h); the library reports it as NULL.
static berth_json *must(berth_json *value)
{
	if (!value) {
		abort();
	}
	return value;
}

static bool depth_fits(const json_t *value, int depth)
{
	if (depth == BERTH_JSON_DEPTH_MAX && (json_is_array(value) || json_is_object(value))) {
		return false;
	}
	void *cursor = NULL;
	const char *key;
	json_t *member;
	for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
		if (!depth_fits(json_array_get(value, i), depth + 1)) {
			return false;
		}
	}
	while (berth_json_next(value, &cursor, &key, &member)) {
		if (!depth_fits(member, depth + 1)) {
			return false;
		}
	}
	return true;
}

static json_t *parse(const void *text, size_t size, size_t flags, const char *name, struct berth_error *err)
{
	json_error_t why;
	json_t *value = json_loadb(text ? text : "", size, JSON_DECODE_ANY | JSON_ALLOW_NUL | flags, &why);
	if (!value) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s:%d:%d: not JSON: %s", name, why.line < 1 ? 1 : why.line,
			why.column < 1 ? 1 : why.column, why.text);
		return NULL;
	}
	if (!depth_fits(value, 0)) {
		json_decref(value);
		berth_fail(
			err, BERTH_ERROR_INVALID, "%s:1:1: nested deeper than %d levels", name, BERTH_JSON_DEPTH_MAX);
		return NULL;
	}
	return value;
}

berth_json *berth_json_parse(const void *text, size_t size, const char *name, struct berth_error *err)
{
	return parse(text, size, 0, name, err);
}

berth_json *berth_json_parse_unique(const void *text, size_t size, const char *name, struct berth_error *err)
{
	return parse(text, size, JSON_REJECT_DUPLICATES, name, err);
}

berth_json *berth_json_null(void)
{
	return json_null();
}

berth_json *berth_json_bool(bool value)
{
	return json_boolean(value);
}

berth_json *berth_json_integer(int64_t value)
{
	return must(json_integer(value));
}

berth_json *berth_json_real(double value)
{
	assert(isfinite(value));
	return must(json_real(value));
}

// The length of the valid UTF-8 sequence at `text`, or 0; *bad gets how many bytes a replacement stands for.
static size_t sequence(const uint8_t *text, size_t size, size_t *bad)
{
	uint8_t lead = text[0];
	size_t length = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : (lead & 0xf0) == 0xe0 ? 3 : 4;
	*bad = 1;
	if (length == 4 && (lead < 0xf0 || lead > 0xf4)) {
		return 0;
	}
	for (size_t i = 1; i < length; i++) {
		uint8_t low = 0x80, high = 0xbf;
		if (i == 1) {
			low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
			high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
		}
		if (i >= size || text[i] < low || text[i] > high) {
			*bad = i;
			return 0;
		}
	}
	return length;
}

static char *repaired(const char *text, size_t length, size_t *repaired_length)
{
	struct berth_buf out = {0};
	const uint8_t *bytes = (const uint8_t *)text;
	for (size_t at = 0; at < length;) {
		size_t bad;
		size_t good = sequence(bytes + at, length - at, &bad);
		if (good) {
			berth_buf_add(&out, bytes + at, good);
		} else {
			berth_buf_add_text(&out, "\xef\xbf\xbd");
		}
		at += good ? good : bad;
	}
	*repaired_length = out.size;
	return berth_buf_steal(&out);
}

berth_json *berth_json_string_n(const char *text, size_t length)
{
	if (!text) {
		return json_null();
	}
	json_t *value = json_stringn(text, length);
	if (value) {
		return value;
	}
	BERTH_AUTO_FREE char *clean = repaired(text, length, &length);
	return must(json_stringn(clean, length));
}

berth_json *berth_json_string(const char *text)
{
	return berth_json_string_n(text, text ? strlen(text) : 0);
}

berth_json *berth_json_array(void)
{
	return must(json_array());
}

berth_json *berth_json_object(void)
{
	return must(json_object());
}

berth_json *berth_json_copy(const berth_json *value)
{
	return value ? must(json_deep_copy(value)) : json_null();
}

void berth_json_free(berth_json *value)
{
	json_decref(value);
}

void berth_json_cleanup(berth_json **value)
{
	json_decref(*value);
	*value = NULL;
}

enum berth_json_type berth_json_type(const berth_json *value)
{
	if (!value) {
		return BERTH_JSON_NULL;
	}
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return BERTH_JSON_OBJECT;
	case JSON_ARRAY:
		return BERTH_JSON_ARRAY;
	case JSON_STRING:
		return BERTH_JSON_STRING;
	case JSON_INTEGER:
		return BERTH_JSON_INTEGER;
	case JSON_REAL:
		return BERTH_JSON_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		return BERTH_JSON_BOOL;
	case JSON_NULL:
		break;
	}
	return BERTH_JSON_NULL;
}

bool berth_json_is(const berth_json *value, enum berth_json_type type)
{
	return berth_json_type(value) == type;
}

bool berth_json_equal(const berth_json *a, const berth_json *b)
{
	if (berth_json_is(a, BERTH_JSON_NULL) || berth_json_is(b, BERTH_JSON_NULL)) {
		return berth_json_type(a) == berth_json_type(b);
	}
	return json_equal(a, b);
}

bool berth_json_as_bool(const berth_json *value)
{
	return json_is_true(value);
}

int64_t berth_json_as_integer(const berth_json *value)
{
	return json_integer_value(value);
}

double berth_json_as_number(const berth_json *value)
{
	return json_number_value(value);
}

const char *berth_json_as_string(const berth_json *value)
{
	return json_string_value(value);
}

size_t berth_json_string_size(const berth_json *value)
{
	return json_string_length(value);
}

berth_json *berth_json_get(const berth_json *object, const char *key)
{
	return json_object_get(object, key);
}

const char *berth_json_get_string(const berth_json *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

int64_t berth_json_get_integer(const berth_json *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

bool berth_json_get_bool(const berth_json *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

void berth_json_set(berth_json *object, const char *key, berth_json *value)
{
	assert(json_is_object(object) && key && value != object);
	value = value ? value : json_null();
	json_incref(value);
	if (json_object_set_new(object, key, value) != 0) {
		// Only a key that is no UTF-8 is refused.
		size_t length;
		BERTH_AUTO_FREE char *clean = repaired(key, strlen(key), &length);
		if (json_object_set(object, clean, value) != 0) {
			abort();
		}
	}
	json_decref(value);
}

void berth_json_remove(berth_json *object, const char *key)
{
	json_object_del(object, key);
}

bool berth_json_next(const berth_json *object, void **cursor, const char **key, berth_json **value)
{
	json_t *mutable_object =
		(json_t *)(uintptr_t)object; // the library's iterators take no const, but write nothing
	*cursor = *cursor ? json_object_iter_next(mutable_object, *cursor) : json_object_iter(mutable_object);
	if (!*cursor) {
		return false;
	}
	if (key) {
		*key = json_object_iter_key(*cursor);
	}
	if (value) {
		*value = json_object_iter_value(*cursor);
	}
	return true;
}

size_t berth_json_size(const berth_json *value)
{
	return json_is_object(value) ? json_object_size(value) : json_array_size(value);
}

berth_json *berth_json_at(const berth_json *array, size_t index)
{
	return json_array_get(array, index);
}

void berth_json_append(berth_json *array, berth_json *value)
{
	assert(json_is_array(array) && value != array);
	if (json_array_append_new(array, value ? value : json_null()) != 0) {
		abort();
	}
}
