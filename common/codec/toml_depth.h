// SPDX-License-Identifier: Apache-2.0
// Bounds the nesting of a TOML text before it is parsed: the parser recurses once for each level, dots included.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define BERTH_TOML_BRACKETS_MAX 64 // open brackets and braces at once
#define BERTH_TOML_DOTS_MAX	32 // parts of one dotted key

// False when the text nests deeper; *line gets where.
bool berth_toml_depth_fits(const char *text, size_t size, int *line);
