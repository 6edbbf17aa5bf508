// SPDX-License-Identifier: Apache-2.0
// The patterns of a .gitignore file as Harbor's packager applies them: the last one that matches a file decides.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct berth_ignore;

// Reads "\n"-separated patterns.
struct berth_ignore *berth_ignore_new(const char *text);
void berth_ignore_free(struct berth_ignore *ignore); // NULL is allowed
// `path` is a file's, relative, with "/".
bool berth_ignore_matches(const struct berth_ignore *ignore, const char *path);
