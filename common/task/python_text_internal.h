// SPDX-License-Identifier: Apache-2.0
// Python's notions of white space and digits in UTF-8 text.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The code point at `text` and its size in bytes; false when it is no valid UTF-8 there or `size` is 0.
bool berth_utf8_next(const char *text, size_t size, uint32_t *point, size_t *length);
// As str.strip() sees it.
bool berth_python_is_space(uint32_t point);
// The value 0 to 9 of a decimal digit of any script, else -1.
int berth_python_digit(uint32_t point);
// The text without white space around it: a view into `text`.
const char *berth_python_strip(const char *text, size_t size, size_t *stripped_size);
