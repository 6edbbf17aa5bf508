// SPDX-License-Identifier: Apache-2.0
#include "common/task/ignore_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/glob_internal.h"

#define PATTERNS_MAX 10000

struct pattern {
	char *glob; // without "!", and without the slashes at its ends
	bool negated, folders_only;
};

struct berth_ignore {
	struct pattern *patterns;
	size_t count;
};

// Blanks at the end do not count, unless a backslash stands before the first of them.
static size_t trimmed(const char *line, size_t length)
{
	while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == '\r' || line[length - 1] == '\t')) {
		if (length > 1 && line[length - 1] == ' ' && line[length - 2] == '\\') {
			break;
		}
		length--;
	}
	return length;
}

static void add(struct berth_ignore *ignore, const char *line, size_t length)
{
	length = trimmed(line, length);
	if (length == 0 || line[0] == '#' || ignore->count == PATTERNS_MAX) {
		return;
	}
	struct pattern pattern = {.negated = line[0] == '!'};
	line += pattern.negated;
	length -= pattern.negated;
	pattern.folders_only = length > 0 && line[length - 1] == '/';
	length -= pattern.folders_only;
	if (length == 0) {
		return;
	}
	// A slash anywhere but at the end ties the pattern to the root; without one it may match at any depth.
	bool anchored = memchr(line, '/', length) != NULL;
	if (line[0] == '/') {
		line++;
		length--;
	}
	pattern.glob = berth_format("%s%.*s", anchored ? "" : "**/", (int)length, line);
	ignore->patterns = berth_realloc_array(ignore->patterns, ignore->count + 1, sizeof *ignore->patterns);
	ignore->patterns[ignore->count++] = pattern;
}

struct berth_ignore *berth_ignore_new(const char *text)
{
	struct berth_ignore *ignore = berth_alloc(sizeof *ignore);
	while (*text) {
		size_t length = strcspn(text, "\n");
		add(ignore, text, length);
		text += length + (text[length] == '\n');
	}
	return ignore;
}

void berth_ignore_free(struct berth_ignore *ignore)
{
	for (size_t i = 0; ignore && i < ignore->count; i++) {
		free(ignore->patterns[i].glob);
	}
	free(ignore ? ignore->patterns : NULL);
	free(ignore);
}

// Part by part. A path that goes on below the pattern's end matches too; one that ends with it is no folder. As with
// "*" in one part, only the last "**" needs to be tried again further on.
static bool parts_match(const char *glob, const char *path, bool folders_only)
{
	const char *star = NULL, *retry = NULL;
	for (;;) {
		size_t glob_length = strcspn(glob, "/"), path_length = strcspn(path, "/");
		if (glob_length == 2 && strncmp(glob, "**", 2) == 0) {
			if (!glob[2] || !*path) {
				return *path != 0;
			}
			glob += 3;
			star = glob;
			retry = path;
			continue;
		}
		bool matches = path_length > 0 && berth_glob_matches(glob, glob_length, path, path_length, true);
		if (matches && !glob[glob_length]) {
			return path[path_length] || !folders_only;
		}
		if (matches) {
			glob += glob_length + 1;
			path += path_length + (path[path_length] == '/');
			continue;
		}
		if (!star || !retry[strcspn(retry, "/")]) {
			return false;
		}
		retry += strcspn(retry, "/") + 1;
		glob = star;
		path = retry;
	}
}

bool berth_ignore_matches(const struct berth_ignore *ignore, const char *path)
{
	for (size_t i = ignore->count; i-- > 0;) {
		if (parts_match(ignore->patterns[i].glob, path, ignore->patterns[i].folders_only)) {
			return !ignore->patterns[i].negated;
		}
	}
	return false;
}
