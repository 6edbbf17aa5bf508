// SPDX-License-Identifier: Apache-2.0
// Takes secret values out of what a trial leaves: text files by bytes, JSON files inside their string values only.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"

#define REDACTED "[REDACTED]"
// Shorter values are left alone: three bytes meet by chance in every text of some size ("1", "yes", "0.5" are results),
// and someone who wants to guess them needs no file of ours. Four is the shortest where a hit is rather meant.
#define REDACT_SIZE_MIN 4

struct redactor {
	struct redactor_value {
		char *text;
		size_t size;
	} * values; // longest first
	size_t count, size_max;
	bool starts[256];
};

void redactor_add(struct redactor *redactor, const char *value);
void redactor_free(struct redactor *redactor);
// True when a value was found and replaced; `out` gets the whole text either way.
bool redact_bytes(const struct redactor *redactor, const void *data, size_t size, struct berth_buf *out);
// A piece of a longer text: redacts what no later byte can change and gives its size; `last` ends the text.
size_t redact_window(
	const struct redactor *redactor, const void *data, size_t size, bool last, struct berth_buf *out, bool *found);
// Replaces an owned string.
void redact_string(const struct redactor *redactor, char **text);
// Inside string values; keys, numbers and layout keep their bytes. False when it is no JSON.
bool redact_json(const struct redactor *redactor, const void *data, size_t size, struct berth_buf *out, bool *changed);
// Every regular file below the folder, links not followed. Goes on after a file that fails; err has the first.
bool redact_folder(const struct redactor *redactor, const char *folder, struct berth_error *err);
