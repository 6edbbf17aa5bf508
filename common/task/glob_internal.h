// SPDX-License-Identifier: Apache-2.0
// Shell patterns: "*", "?", "[a-z]", "[!a-z]" on UTF-8 text.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Whether the whole of `text` matches, as Python's fnmatchcase has it ("*" takes "/" too). `escapes`: a backslash takes
// the next character literally, as in ignore files.
bool berth_glob_matches(const char *pattern, size_t pattern_size, const char *text, size_t text_size, bool escapes);
