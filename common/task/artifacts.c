// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/task_internal.h"

#define ARTIFACT(member) offsetof(struct berth_task_artifact, member)
BERTH_TABLE(artifact_table, struct berth_task_artifact,
	{.key = "source", .kind = BERTH_FIELD_TEXT, .offset = ARTIFACT(source), .required = true},
	{.key = "destination", .kind = BERTH_FIELD_TEXT, .offset = ARTIFACT(destination)},
	{.key = "exclude", .kind = BERTH_FIELD_STRINGS, .offset = ARTIFACT(exclude)},
	{.key = "service", .kind = BERTH_FIELD_TEXT, .offset = ARTIFACT(service)})
}
;

static bool has_parent_part(const char *path)
{
	while (*path) {
		size_t length = strcspn(path, "/");
		if (length == 2 && strncmp(path, "..", 2) == 0) {
			return true;
		}
		path += length + (path[length] == '/');
	}
	return false;
}

static bool is_service_name(const char *name)
{
	if (!isalnum((unsigned char)*name)) {
		return false;
	}
	for (; *name; name++) {
		if (!isalnum((unsigned char)*name) && !strchr("_.-", *name)) {
			return false;
		}
	}
	return true;
}

static bool check_artifact(struct berth_reading *reading, const char *path, struct berth_task_artifact *artifact)
{
	if (!*artifact->source || has_parent_part(artifact->source)) {
		return berth_schema_fail(
			reading, path, "must name a path without \"..\", not \"%s\"", artifact->source);
	}
	if (artifact->destination && !*artifact->destination) {
		free(BERTH_STEAL(artifact->destination));
	}
	const char *destination = artifact->destination;
	if (destination && (*destination == '/' || strchr(destination, '\\') || has_parent_part(destination) ||
				   strcmp(destination, "manifest.json") == 0)) {
		return berth_schema_fail(reading, path,
			"has the destination \"%s\": write a relative path without \"..\" and backslashes, other than "
			"manifest.json",
			destination);
	}
	const char *service = artifact->service;
	if (service && !is_service_name(service)) {
		return berth_schema_fail(reading, path, "names the service \"%s\", which is no service name", service);
	}
	if (service && strcmp(service, "main") != 0 && *artifact->source != '/') {
		return berth_schema_fail(reading, path, "is of another service than main and needs an absolute source");
	}
	return true;
}

bool berth_task_read_artifacts(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	struct berth_task_artifacts *artifacts = member;
	if (!berth_json_is(value, BERTH_JSON_ARRAY)) {
		return berth_schema_fail(reading, path, "must be a list of paths or tables");
	}
	for (size_t i = 0; i < berth_json_size(value); i++) {
		BERTH_AUTO_FREE char *inner = *path ? berth_format("%s.%zu", path, i) : berth_format("%zu", i);
		const berth_json *item = berth_json_at(value, i);
		artifacts->items =
			berth_realloc_array(artifacts->items, artifacts->count + 1, sizeof *artifacts->items);
		struct berth_task_artifact *artifact = &artifacts->items[artifacts->count++];
		*artifact = (struct berth_task_artifact){0};
		if (berth_json_is(item, BERTH_JSON_OBJECT)) {
			if (!berth_schema_read(reading, &artifact_table, inner, item, artifact)) {
				return false;
			}
		} else {
			const char *source;
			if (!berth_schema_text(reading, inner, item, &source)) {
				return false;
			}
			artifact->source = berth_strdup(source);
		}
		if (!check_artifact(reading, inner, artifact)) {
			return false;
		}
	}
	return true;
}

bool berth_task_artifacts_parse(
	const berth_json *list, const char *where, struct berth_task_artifacts *artifacts, struct berth_error *err)
{
	BERTH_AUTO(berth_strings_free) struct berth_strings warnings = {0};
	struct berth_reading reading = {.file = where, .warning_file = where, .warnings = &warnings, .err = err};
	if (!berth_task_read_artifacts(&reading, "artifacts", list, artifacts)) {
		berth_task_artifacts_free(artifacts);
		return false;
	}
	return true;
}

void berth_task_artifacts_free(struct berth_task_artifacts *artifacts)
{
	for (size_t i = 0; i < artifacts->count; i++) {
		free(artifacts->items[i].source);
		free(artifacts->items[i].destination);
		free(artifacts->items[i].service);
		berth_strings_free(&artifacts->items[i].exclude);
	}
	free(artifacts->items);
	*artifacts = (struct berth_task_artifacts){0};
}
