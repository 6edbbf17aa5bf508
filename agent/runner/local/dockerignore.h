// SPDX-License-Identifier: Apache-2.0
// .dockerignore: which files of a build context are not sent. The Engine leaves this to whoever sends the context.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

struct dockerignore_rule {
	char *pattern; // cleaned: no leading or trailing "/"
	bool keep;     // it began with "!"
};
struct dockerignore {
	struct dockerignore_rule *rules;
	size_t count;
	bool any_keep;
};

// A folder without the file has no rules.
bool dockerignore_read(const char *folder, struct dockerignore *ignore, struct berth_error *err);
void dockerignore_parse(const char *text, struct dockerignore *ignore);
void dockerignore_free(struct dockerignore *ignore);
// Whether the rules leave `path` out, itself or by a folder above it; the last rule that fits decides.
bool dockerignore_excludes(const struct dockerignore *ignore, const char *path);
// For berth_tar_options: the Dockerfile and .dockerignore themselves are always sent, and a folder is only left out
// whole when no rule could keep something in it.
bool dockerignore_skip(void *ignore, const char *path, bool is_folder);
