// SPDX-License-Identifier: Apache-2.0
// Tables that say which keys a configuration may hold, and one reader that turns a JSON tree into a struct by them:
// coercions, unknown keys and errors that name file, line, key and fix are in one place.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/codec/json.h"
#include "common/codec/toml.h"
#include "common/task/task.h"

#define BERTH_NO_STORE ((size_t)-1) // the value is checked and then dropped

enum berth_field_kind {
	BERTH_FIELD_TEXT,    // char *
	BERTH_FIELD_USER,    // char *; a whole number is kept as text
	BERTH_FIELD_INTEGER, // int64_t
	BERTH_FIELD_NUMBER,  // double
	BERTH_FIELD_BOOL,    // bool
	BERTH_FIELD_CHOICE,  // enum: one plus the place in `choices`
	BERTH_FIELD_WORD,    // char *: one of `choices`
	BERTH_FIELD_STRINGS, // struct berth_strings
	BERTH_FIELD_ENV,     // struct berth_env
	BERTH_FIELD_TREE,    // berth_json *: a table, copied
	BERTH_FIELD_TABLE,   // a struct read by `table`
	BERTH_FIELD_LIST,    // pointer to structs read by `table`, and their size_t count
	BERTH_FIELD_CUSTOM,  // `read`
	BERTH_FIELD_IGNORED,
};

struct berth_reading;
typedef bool berth_field_reader(struct berth_reading *reading, const char *path, const berth_json *value, void *member);

struct berth_table;
struct berth_field {
	const char *key;
	enum berth_field_kind kind;
	size_t offset;
	bool required;
	bool positive;              // numbers: zero is refused too, where else only what is below zero is
	const char *const *choices; // ends with NULL
	const struct berth_table *table;
	size_t count_offset; // LIST
	berth_field_reader *read;
};

struct berth_table {
	const struct berth_field *fields;
	size_t count;
	size_t size;                     // LIST: of one member
	void (*defaults)(void *members); // NULL: all zero
};
#define BERTH_TABLE(name, type, ...)                                                                                   \
	static const struct berth_field name##_fields[] = {__VA_ARGS__};                                               \
	static const struct berth_table name = {                                                                       \
		.fields = name##_fields, .count = BERTH_COUNT(name##_fields), .size = sizeof(type)

// One file that is read.
struct berth_reading {
	const char *file;                  // as errors name it
	const char *warning_file;          // as warnings name it
	const struct berth_toml *document; // NULL: the file is no TOML
	const berth_json *lines;           // for other files: the line of each dotted path; NULL: not known
	bool misspelt_is_error;            // an unknown key within two edits of a known one
	struct berth_strings *warnings;
	struct berth_error *err;
};

bool berth_schema_read(struct berth_reading *reading, const struct berth_table *table, const char *path,
	const berth_json *value, void *members);
// Fails with "FILE:LINE: [table].key " before the message.
bool berth_schema_fail(struct berth_reading *reading, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void berth_schema_warn(struct berth_reading *reading, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
// "path.key"; the caller frees.
char *berth_schema_path(const char *path, const char *key);

// Single values, as pydantic's lax mode takes them.
bool berth_schema_text(struct berth_reading *reading, const char *path, const berth_json *value, const char **text);
bool berth_schema_number(struct berth_reading *reading, const char *path, const berth_json *value, double *number);
bool berth_schema_integer(struct berth_reading *reading, const char *path, const berth_json *value, int64_t *number);
bool berth_schema_bool(struct berth_reading *reading, const char *path, const berth_json *value, bool *truth);

// The known key that is within two edits of `key`, or NULL.
const char *berth_schema_nearest(const struct berth_table *table, const char *key);
