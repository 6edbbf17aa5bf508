// SPDX-License-Identifier: Apache-2.0
// Datasets and single tasks of a job become one list of task folders.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/glob_internal.h"
#include "common/task/job_internal.h"
#include "common/task/tree_internal.h"

#define JOB_TASKS_MAX 100000

struct entry { // of either list, as far as it is served
	char *path;
	struct berth_strings include, exclude;
	int64_t n_tasks; // 0: all
	char *source;
};

static bool refuse_remote(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	(void)member;
	(void)value;
	berth_schema_fail(
		reading, path, "is not supported here: clone or download what it names and give the folder as path");
	if (reading->err) {
		reading->err->code = BERTH_ERROR_UNSUPPORTED;
	}
	return false;
}

#define ENTRY(member) offsetof(struct entry, member)
#define REMOTE(name)                                                                                                   \
	{                                                                                                              \
		.key = name, .kind = BERTH_FIELD_CUSTOM, .read = refuse_remote                                         \
	}
BERTH_TABLE(dataset_table, struct entry, {.key = "path", .kind = BERTH_FIELD_TEXT, .offset = ENTRY(path)},
	{.key = "task_names", .kind = BERTH_FIELD_STRINGS, .offset = ENTRY(include)},
	{.key = "exclude_task_names", .kind = BERTH_FIELD_STRINGS, .offset = ENTRY(exclude)},
	{.key = "n_tasks", .kind = BERTH_FIELD_INTEGER, .offset = ENTRY(n_tasks), .positive = true}, REMOTE("name"),
	REMOTE("repo"), REMOTE("ref"), REMOTE("registry_url"), REMOTE("registry_path"),
	{.key = "version", .kind = BERTH_FIELD_IGNORED}, {.key = "overwrite", .kind = BERTH_FIELD_IGNORED},
	{.key = "download_dir", .kind = BERTH_FIELD_IGNORED})
}
;

BERTH_TABLE(task_table, struct entry, {.key = "path", .kind = BERTH_FIELD_TEXT, .offset = ENTRY(path)},
	{.key = "source", .kind = BERTH_FIELD_TEXT, .offset = ENTRY(source)}, REMOTE("name"), REMOTE("git_url"),
	REMOTE("git_commit_id"), REMOTE("ref"), {.key = "overwrite", .kind = BERTH_FIELD_IGNORED},
	{.key = "download_dir", .kind = BERTH_FIELD_IGNORED})
}
;

static void free_entry(struct entry *entry)
{
	free(entry->path);
	free(entry->source);
	berth_strings_free(&entry->include);
	berth_strings_free(&entry->exclude);
}

static bool add_task(struct berth_job *job, const char *path, const char *source, struct berth_error *err)
{
	if (job->tasks_count == JOB_TASKS_MAX) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED, "a job holds at most %d tasks", JOB_TASKS_MAX);
	}
	job->tasks = berth_realloc_array(job->tasks, job->tasks_count + 1, sizeof *job->tasks);
	job->tasks[job->tasks_count++] =
		(struct berth_job_task){.path = berth_strdup(path), .source = berth_strdup(source)};
	return true;
}

static bool matches_any(const struct berth_strings *patterns, const char *name)
{
	for (size_t i = 0; i < patterns->count; i++) {
		if (berth_glob_matches(patterns->items[i], strlen(patterns->items[i]), name, strlen(name), false)) {
			return true;
		}
	}
	return false;
}

static bool check_includes(const struct entry *entry, const struct berth_strings *names, struct berth_error *err)
{
	for (size_t i = 0; i < entry->include.count; i++) {
		const struct berth_strings one = {.items = &entry->include.items[i], .count = 1};
		bool found = false;
		for (size_t k = 0; k < names->count && !found; k++) {
			found = matches_any(&one, names->items[k]);
		}
		if (!found) {
			return berth_fail(err, BERTH_ERROR_INVALID, "dataset %s: no task is named \"%s\"", entry->path,
				entry->include.items[i]);
		}
	}
	return true;
}

// Task folders that load, by name; one that does not is left out with a warning, as Harbor leaves it out in silence.
static bool list_tasks(struct berth_job *job, const char *path, struct berth_strings *names, struct berth_error *err)
{
	BERTH_AUTO(berth_tree_folder_free) struct berth_tree_folder folder = {0};
	if (!berth_tree_list(path, &folder, err)) {
		return berth_error_wrap(err, "dataset");
	}
	for (size_t i = 0; i < folder.count; i++) {
		BERTH_AUTO_FREE char *inner = berth_path_join(path, folder.entries[i].name);
		if (!folder.entries[i].is_folder || !berth_task_is_folder(inner)) {
			continue;
		}
		struct berth_task *task = NULL;
		struct berth_error why;
		if (berth_task_load(inner, job->verifier_disable, &task, &why)) {
			berth_strings_add(names, folder.entries[i].name);
			berth_task_free(task);
		} else {
			BERTH_AUTO_FREE char *warning = berth_format("task %s is left out: %s", inner, why.message);
			berth_strings_add(&job->warnings, warning);
		}
	}
	return true;
}

static bool expand_dataset(struct berth_job *job, const struct entry *entry, struct berth_error *err)
{
	BERTH_AUTO(berth_strings_free) struct berth_strings names = {0};
	if (!list_tasks(job, entry->path, &names, err)) {
		return false;
	}
	if (names.count == 0) {
		const char *why = job->warnings.count > 0 ? job->warnings.items[job->warnings.count - 1]
		                                          : "it has no folder with a task.toml";
		return berth_fail(
			err, BERTH_ERROR_INVALID, "%s is neither a task nor a folder of tasks: %s", entry->path, why);
	}
	if (!check_includes(entry, &names, err)) {
		return false;
	}
	BERTH_AUTO_FREE char *source = berth_path_base(entry->path);
	int64_t taken = 0;
	for (size_t i = 0; i < names.count && (entry->n_tasks == 0 || taken < entry->n_tasks); i++) {
		const char *name = names.items[i];
		if ((entry->include.count > 0 && !matches_any(&entry->include, name)) ||
			matches_any(&entry->exclude, name)) {
			continue;
		}
		BERTH_AUTO_FREE char *path = berth_path_join(entry->path, name);
		if (!add_task(job, path, source, err)) {
			return false;
		}
		taken++;
	}
	return true;
}

static bool expand_task(struct berth_job *job, const struct entry *entry, struct berth_error *err)
{
	struct berth_task *task = NULL;
	if (!berth_task_load(entry->path, job->verifier_disable, &task, err)) {
		return false;
	}
	berth_task_free(task);
	return add_task(job, entry->path, entry->source, err);
}

static bool expand_list(struct berth_reading *reading, const berth_json *tree, const char *key,
	const struct berth_table *table,
	bool (*expand)(struct berth_job *job, const struct entry *entry, struct berth_error *err),
	struct berth_job *job)
{
	const berth_json *list = berth_json_get(tree, key);
	if (!berth_json_is(list, BERTH_JSON_ARRAY)) {
		return berth_json_is(list, BERTH_JSON_NULL) ||
		       berth_schema_fail(reading, key, "must be a list of tables");
	}
	for (size_t i = 0; i < berth_json_size(list); i++) {
		BERTH_AUTO(free_entry) struct entry entry = {0};
		BERTH_AUTO_FREE char *path = berth_format("%s.%zu", key, i);
		if (!berth_schema_read(reading, table, path, berth_json_at(list, i), &entry)) {
			return false;
		}
		if (!entry.path) {
			return berth_schema_fail(reading, path, "needs a path");
		}
		if (!expand(job, &entry, reading->err)) {
			return false;
		}
	}
	return true;
}

bool berth_job_expand(struct berth_reading *reading, const berth_json *tree, struct berth_job *job)
{
	if (!expand_list(reading, tree, "tasks", &task_table, expand_task, job) ||
		!expand_list(reading, tree, "datasets", &dataset_table, expand_dataset, job)) {
		return false;
	}
	if (job->tasks_count == 0) {
		return berth_fail(reading->err, BERTH_ERROR_INVALID,
			"%s: no task is left to run: give -p a task folder or a folder of them, or check -i and -x",
			reading->file);
	}
	return true;
}
