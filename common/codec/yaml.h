// SPDX-License-Identifier: Apache-2.0
// One YAML 1.1 document as a JSON tree, with the scalar rules of PyYAML's safe loader (null, booleans, integers,
// floats; all else is text), anchors and merge keys. Aliases are expanded within a bound.
#pragma once

#include <stddef.h>

#include "common/base/error.h"
#include "common/codec/json.h"

#define BERTH_YAML_NODES_MAX 100000

berth_json *berth_yaml_parse(const char *text, size_t size, const char *name, struct berth_error *err);
// The same, and *lines gets an object of the line (from 1) of each dotted path, as "agents.0.name", for messages.
berth_json *berth_yaml_parse_lines(
	const char *text, size_t size, const char *name, berth_json **lines, struct berth_error *err);
