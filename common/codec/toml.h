// SPDX-License-Identifier: Apache-2.0
// TOML 1.0 documents as JSON trees in source order, with the line of each key for error messages.
#pragma once

#include <stddef.h>

#include "common/base/error.h"
#include "common/codec/json.h"

struct berth_toml;

// `name` stands in errors ("name:line:column: what is wrong"). Dates and times become strings in their TOML form.
struct berth_toml *berth_toml_parse(const char *text, size_t size, const char *name, struct berth_error *err);
const berth_json *berth_toml_root(const struct berth_toml *document);
// The line (from 1) of a dotted path such as "environment.cpus" or "steps.0.name"; 0 when it does not exist.
int berth_toml_line(const struct berth_toml *document, const char *path);
void berth_toml_free(struct berth_toml *document); // NULL is allowed
