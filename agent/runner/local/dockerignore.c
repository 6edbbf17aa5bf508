// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/local/dockerignore.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define FILE_SIZE_MAX   (256 * 1024)
#define MATCH_STEPS_MAX 100000

// "a/b" of " /a//./b/ "; an own copy.
static char *clean_pattern(const char *text, size_t size)
{
	char *clean = berth_alloc(size + 1);
	size_t used = 0;
	for (size_t i = 0; i < size;) {
		size_t part = 0;
		while (i + part < size && text[i + part] != '/') {
			part++;
		}
		if (part > 0 && !(part == 1 && text[i] == '.')) {
			if (used > 0) {
				clean[used++] = '/';
			}
			memcpy(clean + used, text + i, part);
			used += part;
		}
		i += part + 1;
	}
	clean[used] = 0;
	return clean;
}

static void add_line(const char *line, size_t size, struct dockerignore *ignore)
{
	if (size > 0 && *line == '#') {
		return;
	}
	while (size > 0 && strchr(" \t\r", line[size - 1])) {
		size--;
	}
	while (size > 0 && strchr(" \t", *line)) {
		line++;
		size--;
	}
	bool keep = size > 0 && *line == '!';
	char *pattern = clean_pattern(line + keep, size - keep);
	if (!*pattern) {
		free(pattern);
		return;
	}
	ignore->rules = berth_realloc_array(ignore->rules, ignore->count + 1, sizeof *ignore->rules);
	ignore->rules[ignore->count++] = (struct dockerignore_rule){pattern, keep};
	ignore->any_keep = ignore->any_keep || keep;
}

void dockerignore_parse(const char *text, struct dockerignore *ignore)
{
	if (strncmp(text, "\xEF\xBB\xBF", 3) == 0) {
		text += 3;
	}
	while (*text) {
		size_t size = strcspn(text, "\n");
		add_line(text, size, ignore);
		text += size + (text[size] == '\n');
	}
}

bool dockerignore_read(const char *folder, struct dockerignore *ignore, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, ".dockerignore");
	if (!berth_file_exists(path)) {
		return true;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_file_read(path, FILE_SIZE_MAX, &text, err)) {
		return false;
	}
	dockerignore_parse(berth_buf_text(&text), ignore);
	return true;
}

void dockerignore_free(struct dockerignore *ignore)
{
	for (size_t i = 0; i < ignore->count; i++) {
		free(ignore->rules[i].pattern);
	}
	free(ignore->rules);
	*ignore = (struct dockerignore){0};
}

// One character class, `*pattern` behind its "[". False for one that is not closed: it then fits nothing.
static bool match_class(const char **pattern, char wanted)
{
	const char *at = *pattern;
	bool negate = *at == '^';
	at += negate;
	bool found = false;
	for (bool first = true; *at && (first || *at != ']'); first = false) {
		at += *at == '\\' && at[1];
		char low = *at++, high = low;
		if (*at == '-' && at[1] && at[1] != ']') {
			at++;
			at += *at == '\\' && at[1];
			high = *at++;
		}
		found = found || (low <= wanted && wanted <= high);
	}
	if (*at != ']') {
		return false;
	}
	*pattern = at + 1;
	return found != negate;
}

// `*` and `?` stay within a part of the path, `**` goes over parts. Fits a whole path, not a piece of it. Each call
// takes one step of the budget, so that no pattern can keep the agent busy.
static bool match(const char *pattern, const char *path, int *budget)
{
	if (--*budget < 0) {
		return false;
	}
	for (; *pattern; pattern++, path++) {
		if (*pattern == '*') {
			bool over_parts = pattern[1] == '*';
			bool at_parts = over_parts && pattern[2] == '/';
			const char *rest = pattern + 1 + over_parts + at_parts;
			for (const char *from = path;; from++) {
				if ((!at_parts || from == path || from[-1] == '/') && match(rest, from, budget)) {
					return true;
				}
				if (!*from || (*from == '/' && !over_parts)) {
					return false;
				}
			}
		}
		if (!*path || (*path == '/' && *pattern != '/')) {
			return false;
		}
		if (*pattern == '[') {
			pattern++;
			if (!match_class(&pattern, *path)) {
				return false;
			}
			pattern--;
			continue;
		}
		bool any = *pattern == '?';
		pattern += *pattern == '\\' && pattern[1];
		if (!any && *pattern != *path) {
			return false;
		}
	}
	return !*path;
}

// A rule fits a path when it fits the path or any folder above it.
static bool rule_fits(const char *pattern, const char *path)
{
	BERTH_AUTO_FREE char *piece = berth_strdup(path);
	for (int budget = MATCH_STEPS_MAX;;) {
		if (match(pattern, piece, &budget)) {
			return true;
		}
		char *slash = strrchr(piece, '/');
		if (!slash) {
			return false;
		}
		*slash = 0;
	}
}

bool dockerignore_excludes(const struct dockerignore *ignore, const char *path)
{
	for (size_t i = ignore->count; i > 0; i--) {
		if (rule_fits(ignore->rules[i - 1].pattern, path)) {
			return !ignore->rules[i - 1].keep;
		}
	}
	return false;
}

bool dockerignore_skip(void *context, const char *path, bool is_folder)
{
	const struct dockerignore *ignore = context;
	if (strcmp(path, "Dockerfile") == 0 || strcmp(path, ".dockerignore") == 0 || (is_folder && ignore->any_keep)) {
		return false;
	}
	return dockerignore_excludes(ignore, path);
}
