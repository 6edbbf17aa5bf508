// SPDX-License-Identifier: Apache-2.0
// What a YAML 1.1 scalar means, by the rules of PyYAML's safe loader.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/codec/json.h"

enum berth_yaml_kind {
	BERTH_YAML_TEXT,
	BERTH_YAML_NULL,
	BERTH_YAML_BOOL,
	BERTH_YAML_INTEGER,
	BERTH_YAML_FLOAT,
	BERTH_YAML_MERGE,
	BERTH_YAML_KINDS,
};

// The kind of a plain scalar without a tag.
enum berth_yaml_kind berth_yaml_resolve(const char *text, size_t size);
// The value of `text` as `kind`; NULL when it is none, with the reason (no place) in err.
berth_json *berth_yaml_scalar(enum berth_yaml_kind kind, const char *text, size_t size, struct berth_error *err);
