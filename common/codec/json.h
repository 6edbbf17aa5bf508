// SPDX-License-Identifier: Apache-2.0
// JSON values: strict parsing, exact 64-bit integers, key order kept, and two writers.
//
// A value is reference counted by its container as in the library underneath; `berth_json_free` drops the caller's
// reference. Functions named get borrow, functions named take or add hand the reference over. Not thread-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"

typedef struct json_t berth_json;

enum berth_json_type {
	BERTH_JSON_NULL,
	BERTH_JSON_BOOL,
	BERTH_JSON_INTEGER,
	BERTH_JSON_REAL,
	BERTH_JSON_STRING,
	BERTH_JSON_ARRAY,
	BERTH_JSON_OBJECT,
};

#define BERTH_JSON_DEPTH_MAX 256

// Strict RFC 8259 text of `size` bytes, nothing after it but white space. `name` stands in errors
// ("name:line:column:"). Duplicate keys: the last one wins, as Python's json does. NULL with INVALID on failure.
berth_json *berth_json_parse(const void *text, size_t size, const char *name, struct berth_error *err);
// The same, and a duplicate key is refused: for documents of our own, where the last one must not win in silence.
berth_json *berth_json_parse_unique(const void *text, size_t size, const char *name, struct berth_error *err);

berth_json *berth_json_null(void);
berth_json *berth_json_bool(bool value);
berth_json *berth_json_integer(int64_t value);
berth_json *berth_json_real(double value);	 // finite; a whole number is written with ".0"
berth_json *berth_json_string(const char *text); // invalid UTF-8 is replaced by U+FFFD; NULL gives null
berth_json *berth_json_string_n(const char *text, size_t length);
berth_json *berth_json_array(void);
berth_json *berth_json_object(void);
berth_json *berth_json_copy(const berth_json *value); // deep
void berth_json_free(berth_json *value);	      // NULL is allowed
void berth_json_cleanup(berth_json **value);	      // for BERTH_AUTO

enum berth_json_type berth_json_type(const berth_json *value); // NULL counts as null
bool berth_json_is(const berth_json *value, enum berth_json_type type);
bool berth_json_equal(const berth_json *a, const berth_json *b); // 1 and 1.0 differ

// Readers of one value; a value of another type gives the zero of the result.
bool berth_json_as_bool(const berth_json *value);
int64_t berth_json_as_integer(const berth_json *value);
double berth_json_as_number(const berth_json *value);	   // integer or real
const char *berth_json_as_string(const berth_json *value); // NULL when it is no string
size_t berth_json_string_size(const berth_json *value);

// Objects. `get` borrows and gives NULL for a missing key; `set` takes the value's reference.
berth_json *berth_json_get(const berth_json *object, const char *key);
const char *berth_json_get_string(const berth_json *object, const char *key);
int64_t berth_json_get_integer(const berth_json *object, const char *key);
bool berth_json_get_bool(const berth_json *object, const char *key);
void berth_json_set(berth_json *object, const char *key, berth_json *value);
void berth_json_remove(berth_json *object, const char *key);
// Iterates in insertion order: start with *cursor = NULL; false at the end.
bool berth_json_next(const berth_json *object, void **cursor, const char **key, berth_json **value);

// Arrays, and the number of members of an object.
size_t berth_json_size(const berth_json *value);
berth_json *berth_json_at(const berth_json *array, size_t index);
void berth_json_append(berth_json *array, berth_json *value);

// Canonical form, the one that digests are taken of: keys sorted by code point, no spaces, non-ASCII kept as UTF-8.
// INVALID when the value holds a NaN or an infinity.
bool berth_json_write_canonical(const berth_json *value, struct berth_buf *out, struct berth_error *err);
// Indented by `indent` spaces in insertion order, UTF-8 unescaped, reals as Python prints them (1.0, 1e-05, 0.1).
// indent 0 gives one line with ", " and ": ".
void berth_json_write(const berth_json *value, int indent, struct berth_buf *out);
