// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/task_internal.h"

static bool read_version(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	free(*(char **)member);
	*(char **)member = NULL;
	const char *text;
	if (!berth_schema_text(reading, path, value, &text)) {
		return false;
	}
	if (!*text) {
		return berth_schema_fail(reading, path, "must not be empty");
	}
	*(char **)member = berth_strdup(text);
	return true;
}

// "organisation/name" of letters, digits, ".", "_" and "-", each part starting with a letter or digit, without "..".
static bool is_package_name(const char *name)
{
	size_t slashes = 0;
	bool start = true;
	for (const char *at = name; *at; at++) {
		bool alphanumeric = isalnum((unsigned char)*at);
		if (*at == '/' ? start || ++slashes > 1 : !alphanumeric && (start || !strchr("._-", *at))) {
			return false;
		}
		start = *at == '/';
	}
	return slashes == 1 && !start && !strstr(name, "..");
}

static bool read_name(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	const char *text;
	if (!berth_schema_text(reading, path, value, &text)) {
		return false;
	}
	if (!is_package_name(text)) {
		return berth_schema_fail(reading, path,
			"must be \"organisation/name\" of letters, digits, \".\", \"_\" and \"-\", not \"%s\"", text);
	}
	free(*(char **)member);
	*(char **)member = berth_strdup(text);
	return true;
}

#define TASK(member) offsetof(struct berth_task, member)
BERTH_TABLE(package_table, struct berth_task,
	{.key = "name", .kind = BERTH_FIELD_CUSTOM, .offset = TASK(name), .required = true, .read = read_name},
	{.key = "version", .kind = BERTH_FIELD_CUSTOM, .offset = TASK(version), .read = read_version},
	{.key = "description", .kind = BERTH_FIELD_TEXT, .offset = TASK(description)},
	{.key = "authors", .kind = BERTH_FIELD_IGNORED},
	{.key = "keywords", .kind = BERTH_FIELD_STRINGS, .offset = BERTH_NO_STORE})
}
;

BERTH_TABLE(solution_table, struct berth_env, {.key = "env", .kind = BERTH_FIELD_ENV})
}
;

static const char *const strategies[] = {"mean", "final", NULL};

BERTH_TABLE(root_table, struct berth_task,
	{.key = "schema_version", .kind = BERTH_FIELD_TEXT, .offset = BERTH_NO_STORE},
	{.key = "version", .kind = BERTH_FIELD_TEXT, .offset = BERTH_NO_STORE},
	{.key = "source", .kind = BERTH_FIELD_TEXT, .offset = TASK(source)},
	{.key = "multi_step_reward_strategy",
		.kind = BERTH_FIELD_WORD,
		.offset = TASK(reward_strategy),
		.choices = strategies},
	{.key = "multi_step_reward_mode", .kind = BERTH_FIELD_IGNORED},
	{.key = "artifacts", .kind = BERTH_FIELD_CUSTOM, .offset = TASK(artifacts), .read = berth_task_read_artifacts},
	{.key = "task", .kind = BERTH_FIELD_TABLE, .table = &package_table},
	{.key = "metadata", .kind = BERTH_FIELD_IGNORED},
	{.key = "verifier", .kind = BERTH_FIELD_CUSTOM, .offset = TASK(verifier), .read = berth_task_read_verifier},
	{.key = "agent", .kind = BERTH_FIELD_CUSTOM, .offset = TASK(agent), .read = berth_task_read_agent},
	{.key = "environment",
		.kind = BERTH_FIELD_CUSTOM,
		.offset = TASK(environment),
		.read = berth_task_read_environment},
	{.key = "solution", .kind = BERTH_FIELD_TABLE, .offset = TASK(solution_env), .table = &solution_table},
	{.key = "steps",
		.kind = BERTH_FIELD_LIST,
		.offset = TASK(steps),
		.count_offset = TASK(steps_count),
		.table = &berth_task_steps_table})
}
;

static struct berth_task *new_task(const char *folder)
{
	struct berth_task *task = berth_alloc(sizeof *task);
	task->folder = berth_strdup(folder);
	task->base_name = berth_path_base(folder);
	task->reward_strategy = berth_strdup("mean");
	task->verifier.timeout_sec = 600;
	berth_task_environment_defaults(&task->environment);
	return task;
}

static bool read_document(
	struct berth_task *task, const char *file, const struct berth_toml *document, struct berth_error *err)
{
	struct berth_reading reading = {.file = file,
		.warning_file = "task.toml",
		.document = document,
		.warnings = &task->warnings,
		.err = err};
	if (!berth_schema_read(&reading, &root_table, "", berth_toml_root(document), task) ||
		!berth_task_check_step_names(&reading, task)) {
		return false;
	}
	task->name = task->name ? task->name : berth_strdup(task->base_name);
	const char *slash = strchr(task->name, '/');
	task->short_name = berth_strdup(slash ? slash + 1 : task->name);
	return true;
}

static bool read_task(struct berth_task *task, const char *file, bool verification_disabled, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_file_read(file, BERTH_TASK_FILE_SIZE_MAX, &text, err)) {
		return false;
	}
	struct berth_toml *document = berth_toml_parse(berth_buf_text(&text), text.size, file, err);
	bool read = document && read_document(task, file, document, err) &&
	            berth_task_check_files(task, verification_disabled, err);
	berth_toml_free(document);
	return read;
}

bool berth_task_load(const char *folder, bool verification_disabled, struct berth_task **task, struct berth_error *err)
{
	BERTH_AUTO_FREE char *absolute = realpath(folder, NULL);
	if (!absolute) {
		return berth_fail_errno(err, "task folder %s", folder);
	}
	struct berth_task *loading = new_task(absolute);
	BERTH_AUTO_FREE char *file = berth_path_join(folder, "task.toml");
	if (!read_task(loading, file, verification_disabled, err)) {
		berth_task_free(loading);
		return false;
	}
	*task = loading;
	return true;
}

bool berth_task_is_folder(const char *folder)
{
	BERTH_AUTO_FREE char *file = berth_path_join(folder, "task.toml");
	return berth_file_exists(file);
}
