// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/jobfile.h"
#include "common/task/python_text_internal.h"

static berth_json *python_value(const char *text, size_t size)
{
	berth_json *value = berth_json_parse(text, size, "value", NULL);
	if (value) {
		return value;
	}
	BERTH_AUTO_FREE char *word = berth_strndup(text, size);
	if (strcmp(word, "True") == 0 || strcmp(word, "False") == 0) {
		return berth_json_bool(*word == 'T');
	}
	return strcmp(word, "None") == 0 ? berth_json_null() : berth_json_string(word);
}

bool berth_kwarg_parse(const char *text, char **key, berth_json **value, struct berth_error *err)
{
	const char *equals = strchr(text, '=');
	if (!equals) {
		return berth_fail(err, BERTH_ERROR_INVALID, "\"%s\" has no \"=\": write key=value", text);
	}
	size_t size;
	const char *start = berth_python_strip(text, (size_t)(equals - text), &size);
	*key = berth_strndup(start, size);
	start = berth_python_strip(equals + 1, strlen(equals + 1), &size);
	*value = python_value(start, size);
	return true;
}
