// SPDX-License-Identifier: Apache-2.0
#include "agent/trial/redact.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/json.h"

static int longer_first(const void *a, const void *b)
{
	const struct redactor_value *one = a, *other = b;
	return one->size < other->size ? 1 : one->size > other->size ? -1 : strcmp(one->text, other->text);
}

static void add_form(struct redactor *redactor, const char *text)
{
	size_t size = strlen(text);
	for (size_t i = 0; i < redactor->count; i++) {
		if (strcmp(redactor->values[i].text, text) == 0) {
			return;
		}
	}
	redactor->values = berth_realloc_array(redactor->values, redactor->count + 1, sizeof *redactor->values);
	redactor->values[redactor->count++] = (struct redactor_value){berth_strdup(text), size};
	redactor->starts[(uint8_t)*text] = true;
	redactor->size_max = size > redactor->size_max ? size : redactor->size_max;
	qsort(redactor->values, redactor->count, sizeof *redactor->values, longer_first);
}

// As it stands between the quotes of JSON: logs of one object a line are no JSON file and hold this form.
static char *escaped_form(const char *value)
{
	berth_json *json = berth_json_string(value);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_json_write(json, 0, &text);
	berth_json_free(json);
	return berth_strndup(berth_buf_text(&text) + 1, text.size - 2);
}

void redactor_add(struct redactor *redactor, const char *value)
{
	if (strlen(value) < REDACT_SIZE_MIN) {
		return;
	}
	add_form(redactor, value);
	BERTH_AUTO_FREE char *escaped = escaped_form(value);
	add_form(redactor, escaped);
}

void redactor_free(struct redactor *redactor)
{
	for (size_t i = 0; i < redactor->count; i++) {
		free(redactor->values[i].text);
	}
	free(redactor->values);
	*redactor = (struct redactor){0};
}

static const struct redactor_value *value_at(const struct redactor *redactor, const uint8_t *at, size_t left)
{
	if (left == 0 || !redactor->starts[*at]) {
		return NULL;
	}
	for (size_t i = 0; i < redactor->count; i++) {
		const struct redactor_value *value = &redactor->values[i];
		if (value->size <= left && memcmp(at, value->text, value->size) == 0) {
			return value;
		}
	}
	return NULL;
}

size_t redact_window(
	const struct redactor *redactor, const void *data, size_t size, bool last, struct berth_buf *out, bool *found)
{
	const uint8_t *bytes = data;
	size_t kept = 0, at = 0;
	while (at < size && (last || size - at >= redactor->size_max)) {
		const struct redactor_value *value = value_at(redactor, bytes + at, size - at);
		if (!value) {
			at++;
			continue;
		}
		berth_buf_add(out, bytes + kept, at - kept);
		berth_buf_add_text(out, REDACTED);
		at += value->size;
		kept = at;
		*found = true;
	}
	berth_buf_add(out, bytes + kept, at - kept);
	return at;
}

bool redact_bytes(const struct redactor *redactor, const void *data, size_t size, struct berth_buf *out)
{
	bool found = false;
	redact_window(redactor, data, size, true, out, &found);
	return found;
}

void redact_string(const struct redactor *redactor, char **text)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	if (*text && redact_bytes(redactor, *text, strlen(*text), &out)) {
		free(*text);
		*text = berth_buf_steal(&out);
	}
}

// The size of the string token at `text`, quotes included. The text is known to be JSON.
static size_t token_size(const char *text)
{
	size_t at = 1;
	while (text[at] != '"') {
		at += text[at] == '\\' ? 2 : 1;
	}
	return at + 1;
}

static bool is_key(const char *behind, size_t left)
{
	size_t at = 0;
	while (at < left && strchr(" \t\r\n", behind[at])) {
		at++;
	}
	return at < left && behind[at] == ':';
}

// Decoded, so that no way of escaping hides a value.
static bool redact_token(const struct redactor *redactor, const char *token, size_t size, struct berth_buf *out)
{
	berth_json *string = berth_json_parse(token, size, "string", NULL);
	BERTH_AUTO(berth_buf_free) struct berth_buf clean = {0};
	bool found =
		string && redact_bytes(redactor, berth_json_as_string(string), berth_json_string_size(string), &clean);
	if (found) {
		berth_json *replaced = berth_json_string_n(berth_buf_text(&clean), clean.size);
		berth_json_write(replaced, 0, out);
		berth_json_free(replaced);
	} else {
		berth_buf_add(out, token, size);
	}
	berth_json_free(string);
	return found;
}

bool redact_json(const struct redactor *redactor, const void *data, size_t size, struct berth_buf *out, bool *changed)
{
	berth_json *json = berth_json_parse(data, size, "file", NULL);
	if (!json) {
		return false;
	}
	berth_json_free(json);
	const char *text = data;
	*changed = false;
	for (size_t at = 0; at < size;) {
		if (text[at] != '"') {
			berth_buf_add_byte(out, (uint8_t)text[at++]);
			continue;
		}
		size_t token = token_size(text + at);
		if (is_key(text + at + token, size - at - token)) {
			berth_buf_add(out, text + at, token);
		} else {
			*changed = redact_token(redactor, text + at, token, out) || *changed;
		}
		at += token;
	}
	return true;
}
