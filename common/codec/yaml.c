// SPDX-License-Identifier: Apache-2.0
#include "common/codec/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/base/mem.h"
#include "common/codec/yaml_scalar.h"

#define ANCHORS_MAX     1024
#define PATH_LENGTH_MAX 512 // of the paths whose lines are kept

struct anchor {
	char *name;
	berth_json *value;
};

struct loader {
	yaml_parser_t parser;
	yaml_event_t event;
	bool has_event;
	const char *name;
	struct anchor anchors[ANCHORS_MAX];
	size_t anchors_count;
	size_t nodes;
	berth_json *lines; // NULL: nobody asked
	struct berth_buf path;
	struct berth_error *err;
};

static berth_json *fail_at(struct loader *loader, yaml_mark_t mark, const char *what)
{
	berth_fail(
		loader->err, BERTH_ERROR_INVALID, "%s:%zu:%zu: %s", loader->name, mark.line + 1, mark.column + 1, what);
	return NULL;
}

static bool next(struct loader *loader)
{
	if (loader->has_event) {
		yaml_event_delete(&loader->event);
	}
	loader->has_event = yaml_parser_parse(&loader->parser, &loader->event);
	if (!loader->has_event) {
		const yaml_parser_t *parser = &loader->parser;
		fail_at(loader, parser->problem_mark, parser->problem ? parser->problem : "not readable as YAML");
	}
	return loader->has_event;
}

static bool count_nodes(struct loader *loader, const berth_json *value)
{
	if (++loader->nodes > BERTH_YAML_NODES_MAX) {
		fail_at(loader, loader->event.start_mark, "too many values: aliases expand beyond the limit");
		return false;
	}
	void *cursor = NULL;
	berth_json *member;
	for (size_t i = 0; berth_json_is(value, BERTH_JSON_ARRAY) && i < berth_json_size(value); i++) {
		if (!count_nodes(loader, berth_json_at(value, i))) {
			return false;
		}
	}
	while (berth_json_is(value, BERTH_JSON_OBJECT) && berth_json_next(value, &cursor, NULL, &member)) {
		if (!count_nodes(loader, member)) {
			return false;
		}
	}
	return true;
}

static berth_json *alias(struct loader *loader)
{
	const char *name = (const char *)loader->event.data.alias.anchor;
	for (size_t i = loader->anchors_count; i-- > 0;) {
		if (strcmp(loader->anchors[i].name, name) == 0) {
			const berth_json *value = loader->anchors[i].value;
			return count_nodes(loader, value) ? berth_json_copy(value) : NULL;
		}
	}
	return fail_at(loader, loader->event.start_mark, "an alias without an anchor before it");
}

static bool remember(struct loader *loader, const char *name, const berth_json *value)
{
	if (loader->anchors_count == ANCHORS_MAX) {
		fail_at(loader, loader->event.start_mark, "too many anchors");
		return false;
	}
	if (!count_nodes(loader, value)) {
		return false;
	}
	loader->anchors[loader->anchors_count++] = (struct anchor){berth_strdup(name), berth_json_copy(value)};
	return true;
}

// False for a tag that a safe loader does not know for this kind of node.
static bool tag_is(const yaml_char_t *tag, const char *wanted)
{
	return !tag || strcmp((const char *)tag, "!") == 0 || strcmp((const char *)tag, wanted) == 0;
}

static bool scalar_kind(struct loader *loader, enum berth_yaml_kind *kind)
{
	static const char *const tags[BERTH_YAML_KINDS] = {
		[BERTH_YAML_TEXT] = YAML_STR_TAG,
		[BERTH_YAML_NULL] = YAML_NULL_TAG,
		[BERTH_YAML_BOOL] = YAML_BOOL_TAG,
		[BERTH_YAML_INTEGER] = YAML_INT_TAG,
		[BERTH_YAML_FLOAT] = YAML_FLOAT_TAG,
		[BERTH_YAML_MERGE] = "tag:yaml.org,2002:merge",
	};
	const char *tag = (const char *)loader->event.data.scalar.tag;
	if (!tag || strcmp(tag, "!") == 0) {
		bool plain = loader->event.data.scalar.plain_implicit && !tag;
		*kind = plain ? berth_yaml_resolve(
					(const char *)loader->event.data.scalar.value, loader->event.data.scalar.length)
		              : BERTH_YAML_TEXT;
		return true;
	}
	for (int i = 0; i < BERTH_YAML_KINDS; i++) {
		if (strcmp(tag, tags[i]) == 0) {
			*kind = (enum berth_yaml_kind)i;
			return true;
		}
	}
	fail_at(loader, loader->event.start_mark,
		"an unknown tag: only YAML's own scalars, lists and mappings are read");
	return false;
}

static berth_json *scalar(struct loader *loader)
{
	enum berth_yaml_kind kind;
	if (!scalar_kind(loader, &kind)) {
		return NULL;
	}
	struct berth_error why;
	berth_json *value = berth_yaml_scalar(
		kind, (const char *)loader->event.data.scalar.value, loader->event.data.scalar.length, &why);
	return value ? value : fail_at(loader, loader->event.start_mark, why.message);
}

static berth_json *node(struct loader *loader, int depth);

// The value below `key`, whose line is kept.
static berth_json *member(struct loader *loader, const char *key, size_t line, int depth)
{
	size_t length = loader->path.size;
	if (loader->lines && length + strlen(key) < PATH_LENGTH_MAX) {
		berth_buf_printf(&loader->path, "%s%s", length > 0 ? "." : "", key);
		berth_json_set(loader->lines, berth_buf_text(&loader->path), berth_json_integer((int64_t)line + 1));
	}
	berth_json *value = node(loader, depth + 1);
	loader->path.size = length; // back to the parent; the bytes stay
	return value;
}

static berth_json *sequence(struct loader *loader, int depth)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *list = berth_json_array();
	for (;;) {
		if (!next(loader)) {
			return NULL;
		}
		if (loader->event.type == YAML_SEQUENCE_END_EVENT) {
			return BERTH_STEAL(list);
		}
		char index[24];
		snprintf(index, sizeof index, "%zu", berth_json_size(list));
		berth_json *item = member(loader, index, loader->event.start_mark.line, depth);
		if (!item) {
			return NULL;
		}
		berth_json_append(list, item);
	}
}

static void fill(berth_json *into, const berth_json *from)
{
	void *cursor = NULL;
	const char *key;
	berth_json *value;
	while (berth_json_next(from, &cursor, &key, &value)) {
		if (!berth_json_get(into, key)) {
			berth_json_set(into, key, berth_json_copy(value));
		}
	}
}

// The values of "<<" keys: one mapping or a list of them, the first one wins.
static bool merge(struct loader *loader, berth_json *merged, const berth_json *value)
{
	if (berth_json_is(value, BERTH_JSON_OBJECT)) {
		fill(merged, value);
		return true;
	}
	bool fits = berth_json_is(value, BERTH_JSON_ARRAY);
	for (size_t i = 0; fits && i < berth_json_size(value); i++) {
		fits = berth_json_is(berth_json_at(value, i), BERTH_JSON_OBJECT);
	}
	for (size_t i = 0; fits && i < berth_json_size(value); i++) {
		fill(merged, berth_json_at(value, i));
	}
	if (!fits) {
		fail_at(loader, loader->event.start_mark, "<<: takes a mapping or a list of mappings");
	}
	return fits;
}

// One key: *is_merge for "<<". Keys of other kinds keep the text that they were written with.
static char *mapping_key(struct loader *loader, bool *is_merge)
{
	const char *text = NULL;
	size_t length = 0;
	BERTH_AUTO(berth_json_cleanup) berth_json *aliased = NULL;
	*is_merge = false;
	if (loader->event.type == YAML_SCALAR_EVENT) {
		enum berth_yaml_kind kind;
		text = (const char *)loader->event.data.scalar.value;
		length = loader->event.data.scalar.length;
		if (!scalar_kind(loader, &kind)) {
			return NULL;
		}
		*is_merge = kind == BERTH_YAML_MERGE;
		const char *anchor = (const char *)loader->event.data.scalar.anchor;
		aliased = anchor ? scalar(loader) : NULL;
		if (anchor && (!aliased || !remember(loader, anchor, aliased))) {
			return NULL;
		}
	} else if (loader->event.type == YAML_ALIAS_EVENT) {
		aliased = alias(loader);
		if (!aliased) {
			return NULL;
		}
		text = berth_json_as_string(aliased);
		length = berth_json_string_size(aliased);
	}
	if (!text || memchr(text, 0, length)) {
		fail_at(loader, loader->event.start_mark, "a key must be plain text");
		return NULL;
	}
	return berth_strndup(text, length);
}

static berth_json *mapping(struct loader *loader, int depth)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *own = berth_json_object();
	BERTH_AUTO(berth_json_cleanup) berth_json *merged = berth_json_object();
	for (;;) {
		if (!next(loader)) {
			return NULL;
		}
		if (loader->event.type == YAML_MAPPING_END_EVENT) {
			break;
		}
		bool is_merge;
		size_t line = loader->event.start_mark.line;
		BERTH_AUTO_FREE char *key = mapping_key(loader, &is_merge);
		if (!key || !next(loader)) {
			return NULL;
		}
		BERTH_AUTO(berth_json_cleanup) berth_json *value = member(loader, key, line, depth);
		if (!value || (is_merge && !merge(loader, merged, value))) {
			return NULL;
		}
		if (!is_merge) {
			berth_json_set(own, key, BERTH_STEAL(value));
		}
	}
	if (berth_json_size(merged) == 0) {
		return BERTH_STEAL(own);
	}
	void *cursor = NULL;
	const char *key;
	berth_json *value;
	while (berth_json_next(own, &cursor, &key, &value)) {
		berth_json_set(merged, key, berth_json_copy(value));
	}
	return BERTH_STEAL(merged);
}

static berth_json *tagged(struct loader *loader, int depth)
{
	switch (loader->event.type) {
	case YAML_SCALAR_EVENT:
		return scalar(loader);
	case YAML_SEQUENCE_START_EVENT:
		if (tag_is(loader->event.data.sequence_start.tag, YAML_SEQ_TAG)) {
			return sequence(loader, depth);
		}
		break;
	case YAML_MAPPING_START_EVENT:
		if (tag_is(loader->event.data.mapping_start.tag, YAML_MAP_TAG)) {
			return mapping(loader, depth);
		}
		break;
	default:
		break;
	}
	return fail_at(loader, loader->event.start_mark, "an unknown tag: only YAML's own lists and mappings are read");
}

// The value that the current event starts.
static berth_json *node(struct loader *loader, int depth)
{
	if (depth > BERTH_JSON_DEPTH_MAX) {
		return fail_at(loader, loader->event.start_mark, "nested too deep");
	}
	if (++loader->nodes > BERTH_YAML_NODES_MAX) {
		return fail_at(loader, loader->event.start_mark, "too many values");
	}
	const yaml_event_t *event = &loader->event;
	if (event->type == YAML_ALIAS_EVENT) {
		return alias(loader);
	}
	const yaml_char_t *anchor = event->type == YAML_SCALAR_EVENT           ? event->data.scalar.anchor
	                            : event->type == YAML_SEQUENCE_START_EVENT ? event->data.sequence_start.anchor
	                            : event->type == YAML_MAPPING_START_EVENT  ? event->data.mapping_start.anchor
	                                                                       : NULL;
	BERTH_AUTO_FREE char *anchor_name = berth_strdup((const char *)anchor);
	berth_json *value = tagged(loader, depth);
	if (value && anchor_name && !remember(loader, anchor_name, value)) {
		berth_json_free(value);
		return NULL;
	}
	return value;
}

static berth_json *document(struct loader *loader)
{
	if (!next(loader) || !next(loader)) { // the stream's start, then the document's or the stream's end
		return NULL;
	}
	if (loader->event.type == YAML_STREAM_END_EVENT) {
		return berth_json_null();
	}
	if (!next(loader)) {
		return NULL;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *value = node(loader, 0);
	if (!value || !next(loader) || !next(loader)) {
		return NULL;
	}
	if (loader->event.type != YAML_STREAM_END_EVENT) {
		return fail_at(loader, loader->event.start_mark, "a second document: one is expected");
	}
	return BERTH_STEAL(value);
}

berth_json *berth_yaml_parse(const char *text, size_t size, const char *name, struct berth_error *err)
{
	return berth_yaml_parse_lines(text, size, name, NULL, err);
}

berth_json *berth_yaml_parse_lines(
	const char *text, size_t size, const char *name, berth_json **lines, struct berth_error *err)
{
	struct berth_error unused;
	struct loader *loader = berth_alloc(sizeof *loader);
	loader->name = name;
	loader->err = err ? err : &unused;
	loader->lines = lines ? berth_json_object() : NULL;
	if (!yaml_parser_initialize(&loader->parser)) {
		abort();
	}
	yaml_parser_set_input_string(&loader->parser, (const unsigned char *)(text ? text : ""), size);
	berth_json *value = document(loader);
	if (loader->has_event) {
		yaml_event_delete(&loader->event);
	}
	yaml_parser_delete(&loader->parser);
	for (size_t i = 0; i < loader->anchors_count; i++) {
		free(loader->anchors[i].name);
		berth_json_free(loader->anchors[i].value);
	}
	if (value && lines) {
		*lines = BERTH_STEAL(loader->lines);
	}
	berth_json_free(loader->lines);
	berth_buf_free(&loader->path);
	free(loader);
	return value;
}
