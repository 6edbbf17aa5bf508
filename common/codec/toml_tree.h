// SPDX-License-Identifier: Apache-2.0
// The C face of the C++ TOML parser; for toml.c alone.
#pragma once

#include <stddef.h>

#include "common/codec/json.h"

#define BERTH_TOML_REASON_SIZE 256

#ifdef __cplusplus
extern "C" {
#endif

struct berth_toml_problem {
	int line, column;
	char reason[BERTH_TOML_REASON_SIZE];
};

// The document as a tree in source order; `lines` (an object) gets the line of each dotted path. NULL on failure.
berth_json *berth_toml_tree(const char *text, size_t size, berth_json *lines, struct berth_toml_problem *problem);

#ifdef __cplusplus
}
#endif
