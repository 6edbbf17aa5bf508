// SPDX-License-Identifier: Apache-2.0
// What texts may be, for the files of this folder.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Not empty, at most `max` bytes of UTF-8, and no white space or control character at either end.
bool text_is_name(const char *text, size_t max);
// "sha256:" and 64 lowercase hex digits.
bool text_is_digest(const char *text);
// A lowercase letter, then lowercase letters, digits, "_", "." and "-".
bool text_is_dotted(const char *text, size_t max);
// A letter, then letters, digits and "_", 64 in all: a code, never free text.
bool text_is_failure_type(const char *text);
// Lease and reservation ids: letters, digits, "_", ".", ":" and "-".
bool text_is_id(const char *text, size_t max);
