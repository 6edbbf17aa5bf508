// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/schema_internal.h"

#define KEY_LENGTH_MAX 64 // of known keys; longer ones are near none

char *berth_schema_path(const char *path, const char *key)
{
	return *path ? berth_format("%s.%s", path, key) : berth_strdup(key);
}

// "steps.0.agent.user" as "[steps.agent].user" in TOML, and as "steps[0].agent.user" elsewhere.
static char *shown_path(const struct berth_reading *reading, const char *path)
{
	struct berth_buf out = {0};
	const char *last = strrchr(path, '.');
	bool tables = reading->document && last;
	for (const char *at = path; *at;) {
		size_t length = strcspn(at, ".");
		bool index = strspn(at, "0123456789") == length && at > path;
		if (index && !reading->document) {
			berth_buf_printf(&out, "[%.*s]", (int)length, at);
		} else if (!index) {
			berth_buf_add_text(&out, tables && at == last + 1 ? "]." : at > path ? "." : tables ? "[" : "");
			berth_buf_add(&out, at, length);
		} else if (tables && at == last + 1) {
			berth_buf_add_text(&out, "]");
		}
		at += length + (at[length] == '.');
	}
	berth_buf_add_text(&out, "");
	return berth_buf_steal(&out);
}

// The line of a path, or of the nearest table above it; 0 when none is known.
static int line_of(const struct berth_reading *reading, const char *path)
{
	BERTH_AUTO_FREE char *parent = berth_strdup(path);
	while (*parent) {
		int line = reading->document ? berth_toml_line(reading->document, parent)
		                             : (int)berth_json_get_integer(reading->lines, parent);
		if (line > 0) {
			return line;
		}
		char *dot = strrchr(parent, '.');
		*(dot ? dot : parent) = 0;
	}
	return reading->document || reading->lines ? 1 : 0;
}

static char *place(const struct berth_reading *reading, const char *file, const char *path)
{
	int line = line_of(reading, path);
	return line > 0 ? berth_format("%s:%d", file, line) : berth_strdup(file);
}

bool berth_schema_fail(struct berth_reading *reading, const char *path, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *what = berth_vformat(format, args);
	va_end(args);
	BERTH_AUTO_FREE char *where = place(reading, reading->file, path);
	BERTH_AUTO_FREE char *key = shown_path(reading, path);
	return berth_fail(reading->err, BERTH_ERROR_INVALID, "%s: %s%s%s", where, key, *key ? " " : "", what);
}

void berth_schema_warn(struct berth_reading *reading, const char *path, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *what = berth_vformat(format, args);
	va_end(args);
	BERTH_AUTO_FREE char *where = place(reading, reading->warning_file, path);
	BERTH_AUTO_FREE char *key = shown_path(reading, path);
	BERTH_AUTO_FREE char *warning = berth_format("%s: %s %s", where, key, what);
	berth_strings_add(reading->warnings, warning);
}

static size_t edits(const char *a, const char *b)
{
	size_t rows[2][KEY_LENGTH_MAX + 1];
	size_t a_length = strlen(a), b_length = strlen(b);
	if (a_length > KEY_LENGTH_MAX || b_length > KEY_LENGTH_MAX) {
		return KEY_LENGTH_MAX;
	}
	for (size_t k = 0; k <= b_length; k++) {
		rows[0][k] = k;
	}
	for (size_t i = 1; i <= a_length; i++) {
		const size_t *above = rows[(i - 1) % 2];
		size_t *row = rows[i % 2];
		row[0] = i;
		for (size_t k = 1; k <= b_length; k++) {
			size_t best = above[k - 1] + (a[i - 1] != b[k - 1]);
			best = above[k] + 1 < best ? above[k] + 1 : best;
			row[k] = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
		}
	}
	return rows[a_length % 2][b_length];
}

const char *berth_schema_nearest(const struct berth_table *table, const char *key)
{
	const char *nearest = NULL;
	size_t fewest = 3;
	for (size_t i = 0; i < table->count; i++) {
		size_t distance = edits(key, table->fields[i].key);
		if (distance < fewest && distance < strlen(key)) {
			fewest = distance;
			nearest = table->fields[i].key;
		}
	}
	return nearest;
}

static bool check_keys(
	struct berth_reading *reading, const struct berth_table *table, const char *path, const berth_json *value)
{
	void *cursor = NULL;
	const char *key;
	while (berth_json_next(value, &cursor, &key, NULL)) {
		bool known = false;
		for (size_t i = 0; i < table->count && !known; i++) {
			known = strcmp(table->fields[i].key, key) == 0;
		}
		if (known) {
			continue;
		}
		BERTH_AUTO_FREE char *inner = berth_schema_path(path, key);
		const char *nearest = berth_schema_nearest(table, key);
		if (nearest && reading->misspelt_is_error) {
			return berth_schema_fail(reading, inner, "is an unknown key: write %s", nearest);
		}
		berth_schema_warn(reading, inner, "is an unknown key and has no effect%s%s%s",
			nearest ? ": did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
	}
	return true;
}

static bool read_list(struct berth_reading *reading, const struct berth_field *field, const char *path,
	const berth_json *value, void *members)
{
	char **items = (char **)((char *)members + field->offset);
	size_t *count = (size_t *)((char *)members + field->count_offset);
	if (!berth_json_is(value, BERTH_JSON_ARRAY)) {
		return berth_schema_fail(reading, path, "must be a list of tables");
	}
	*items = berth_alloc(berth_json_size(value) * field->table->size + 1);
	for (size_t i = 0; i < berth_json_size(value); i++) {
		BERTH_AUTO_FREE char *inner = berth_format("%s.%zu", path, i);
		void *item = *items + i * field->table->size;
		if (field->table->defaults) {
			field->table->defaults(item);
		}
		(*count)++;
		if (!berth_schema_read(reading, field->table, inner, berth_json_at(value, i), item)) {
			return false;
		}
	}
	return true;
}

static bool read_word(struct berth_reading *reading, const struct berth_field *field, const char *path,
	const berth_json *value, void *member)
{
	const char *text;
	if (!berth_schema_text(reading, path, value, &text)) {
		return false;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf all = {0};
	for (int i = 0; field->choices[i]; i++) {
		if (strcmp(field->choices[i], text) != 0) {
			berth_buf_printf(&all, "%s%s", i > 0 ? ", " : "", field->choices[i]);
		} else if (field->kind == BERTH_FIELD_CHOICE) {
			*(int *)member = i + 1;
			return true;
		} else {
			free(*(char **)member);
			*(char **)member = berth_strdup(text);
			return true;
		}
	}
	return berth_schema_fail(reading, path, "must be one of %s, not \"%s\"", berth_buf_text(&all), text);
}

static bool read_strings(
	struct berth_reading *reading, const char *path, const berth_json *value, struct berth_strings *list)
{
	if (!berth_json_is(value, BERTH_JSON_ARRAY)) {
		const char *key = strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
		return berth_schema_fail(reading, path, "must be a list of texts: write %s = [\"...\"]", key);
	}
	for (size_t i = 0; i < berth_json_size(value); i++) {
		BERTH_AUTO_FREE char *inner = berth_format("%s.%zu", path, i);
		const char *text;
		if (!berth_schema_text(reading, inner, berth_json_at(value, i), &text)) {
			return false;
		}
		if (list) {
			berth_strings_add(list, text);
		}
	}
	return true;
}

static bool read_env(struct berth_reading *reading, const char *path, const berth_json *value, struct berth_env *env)
{
	if (!berth_json_is(value, BERTH_JSON_OBJECT)) {
		return berth_schema_fail(reading, path, "must be a table of texts");
	}
	void *cursor = NULL;
	const char *key;
	berth_json *member;
	while (berth_json_next(value, &cursor, &key, &member)) {
		BERTH_AUTO_FREE char *inner = berth_schema_path(path, key);
		const char *text;
		if (!berth_schema_text(reading, inner, member, &text)) {
			return false;
		}
		if (!*key || strchr(key, '=')) {
			return berth_schema_fail(reading, inner, "is no name of a variable");
		}
		berth_env_set(env, key, text);
	}
	return true;
}

static bool read_text(struct berth_reading *reading, const struct berth_field *field, const char *path,
	const berth_json *value, void *member)
{
	const char *text;
	int64_t number;
	BERTH_AUTO_FREE char *digits = NULL;
	bool is_number = berth_json_is(value, BERTH_JSON_INTEGER) || berth_json_is(value, BERTH_JSON_REAL);
	if (field->kind == BERTH_FIELD_USER && is_number) {
		if (!berth_schema_integer(reading, path, value, &number)) {
			return false;
		}
		text = digits = berth_format("%lld", (long long)number);
	} else if (!berth_schema_text(reading, path, value, &text)) {
		return false;
	}
	if (member) {
		free(*(char **)member);
		*(char **)member = berth_strdup(text);
	}
	return true;
}

static bool read_number(struct berth_reading *reading, const struct berth_field *field, const char *path,
	const berth_json *value, void *member)
{
	double number = 0;
	int64_t whole = 0;
	bool integer = field->kind == BERTH_FIELD_INTEGER;
	if (integer ? !berth_schema_integer(reading, path, value, &whole)
		    : !berth_schema_number(reading, path, value, &number)) {
		return false;
	}
	double shown = integer ? (double)whole : number;
	if (shown < 0 || (field->positive && shown == 0)) {
		return berth_schema_fail(
			reading, path, "must %s, not %g", field->positive ? "be above 0" : "not be below 0", shown);
	}
	if (!member) {
		return true;
	}
	if (integer) {
		*(int64_t *)member = whole;
	} else {
		*(double *)member = number;
	}
	return true;
}

static bool read_tree(struct berth_reading *reading, const char *path, const berth_json *value, berth_json **tree)
{
	if (!berth_json_is(value, BERTH_JSON_OBJECT)) {
		return berth_schema_fail(reading, path, "must be a table");
	}
	berth_json_free(*tree);
	*tree = berth_json_copy(value);
	return true;
}

static bool read_field(struct berth_reading *reading, const struct berth_field *field, const char *path,
	const berth_json *value, void *members)
{
	void *member = field->offset == BERTH_NO_STORE ? NULL : (char *)members + field->offset;
	switch (field->kind) {
	case BERTH_FIELD_TEXT:
	case BERTH_FIELD_USER:
		return read_text(reading, field, path, value, member);
	case BERTH_FIELD_INTEGER:
	case BERTH_FIELD_NUMBER:
		return read_number(reading, field, path, value, member);
	case BERTH_FIELD_BOOL:
		return berth_schema_bool(reading, path, value, member);
	case BERTH_FIELD_CHOICE:
	case BERTH_FIELD_WORD:
		return read_word(reading, field, path, value, member);
	case BERTH_FIELD_STRINGS:
		return read_strings(reading, path, value, member);
	case BERTH_FIELD_ENV:
		return read_env(reading, path, value, member);
	case BERTH_FIELD_TREE:
		return read_tree(reading, path, value, member);
	case BERTH_FIELD_TABLE:
		return berth_schema_read(reading, field->table, path, value, member);
	case BERTH_FIELD_LIST:
		return read_list(reading, field, path, value, members);
	case BERTH_FIELD_CUSTOM:
		return field->read(reading, path, value, member);
	case BERTH_FIELD_IGNORED:
		break;
	}
	return true;
}

bool berth_schema_read(struct berth_reading *reading, const struct berth_table *table, const char *path,
	const berth_json *value, void *members)
{
	if (!berth_json_is(value, BERTH_JSON_OBJECT)) {
		return berth_schema_fail(reading, path, "must be a table");
	}
	if (!check_keys(reading, table, path, value)) {
		return false;
	}
	for (size_t i = 0; i < table->count; i++) {
		const struct berth_field *field = &table->fields[i];
		const berth_json *member = berth_json_get(value, field->key);
		BERTH_AUTO_FREE char *inner = berth_schema_path(path, field->key);
		if (berth_json_is(member, BERTH_JSON_NULL)) {
			if (field->required) {
				return berth_schema_fail(reading, inner, "is missing");
			}
		} else if (!read_field(reading, field, inner, member, members)) {
			return false;
		}
	}
	return true;
}
