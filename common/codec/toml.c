// SPDX-License-Identifier: Apache-2.0
#include "common/codec/toml.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "common/codec/toml_depth.h"
#include "common/codec/toml_tree.h"

struct berth_toml {
	berth_json *root;
	berth_json *lines; // dotted path to line
};

struct berth_toml *berth_toml_parse(const char *text, size_t size, const char *name, struct berth_error *err)
{
	struct berth_toml_problem problem = {.line = 1, .column = 1};
	if (!berth_toml_depth_fits(text ? text : "", size, &problem.line)) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s:%d:1: nested deeper than %d brackets or %d dots", name,
			problem.line, BERTH_TOML_BRACKETS_MAX, BERTH_TOML_DOTS_MAX);
		return NULL;
	}
	berth_json *lines = berth_json_object();
	berth_json *root = berth_toml_tree(text ? text : "", size, lines, &problem);
	if (!root) {
		berth_json_free(lines);
		berth_fail(
			err, BERTH_ERROR_INVALID, "%s:%d:%d: %s", name, problem.line, problem.column, problem.reason);
		return NULL;
	}
	struct berth_toml *document = berth_alloc(sizeof *document);
	document->root = root;
	document->lines = lines;
	return document;
}

const berth_json *berth_toml_root(const struct berth_toml *document)
{
	return document->root;
}

int berth_toml_line(const struct berth_toml *document, const char *path)
{
	return (int)berth_json_get_integer(document->lines, path);
}

void berth_toml_free(struct berth_toml *document)
{
	if (document) {
		berth_json_free(document->root);
		berth_json_free(document->lines);
		free(document);
	}
}
