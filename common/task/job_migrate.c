// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/job_internal.h"

berth_json *berth_job_object(berth_json *tree, const char *key)
{
	berth_json *object = berth_json_get(tree, key);
	if (berth_json_is(object, BERTH_JSON_NULL)) {
		berth_json_set(tree, key, berth_json_object());
		object = berth_json_get(tree, key);
	}
	return object;
}

static void set_default(berth_json *tree, const char *key, const berth_json *value)
{
	if (!berth_json_get(tree, key) && !berth_json_is(value, BERTH_JSON_NULL)) {
		berth_json_set(tree, key, berth_json_copy(value));
	}
}

// orchestrator: {type, n_concurrent_trials, quiet, retry, kwargs}
static void migrate_orchestrator(berth_json *tree)
{
	static const char *const moved[] = {"n_concurrent_trials", "quiet", "retry"};
	const berth_json *orchestrator = berth_json_get(tree, "orchestrator");
	if (!berth_json_is(orchestrator, BERTH_JSON_OBJECT)) {
		return;
	}
	for (size_t i = 0; i < BERTH_COUNT(moved); i++) {
		set_default(tree, moved[i], berth_json_get(orchestrator, moved[i]));
	}
	berth_json_remove(tree, "orchestrator");
}

// env: ["K=V"] becomes env: {K: V}. A member that is no text stays, for the reader to refuse.
static void migrate_env(berth_json *holder)
{
	const berth_json *list = berth_json_get(holder, "env");
	if (!berth_json_is(list, BERTH_JSON_ARRAY)) {
		return;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *env = berth_json_object();
	for (size_t i = 0; i < berth_json_size(list); i++) {
		const char *text = berth_json_as_string(berth_json_at(list, i));
		const char *equals = text ? strchr(text, '=') : NULL;
		if (!equals) {
			return;
		}
		BERTH_AUTO_FREE char *name = berth_strndup(text, (size_t)(equals - text));
		berth_json_set(env, name, berth_json_string(equals + 1));
	}
	berth_json_set(holder, "env", BERTH_STEAL(env));
}

// registry: {name, url | path}
static void migrate_dataset(berth_json *dataset)
{
	const berth_json *registry = berth_json_get(dataset, "registry");
	if (!berth_json_is(registry, BERTH_JSON_OBJECT)) {
		return;
	}
	set_default(dataset, "registry_url", berth_json_get(registry, "url"));
	set_default(dataset, "registry_path", berth_json_get(registry, "path"));
	berth_json_remove(dataset, "registry");
}

void berth_job_migrate(berth_json *tree)
{
	migrate_orchestrator(tree);
	berth_json_remove(tree, "plugins");
	berth_json_remove(tree, "trial_configs");
	berth_json *environment = berth_json_get(tree, "environment");
	if (berth_json_is(environment, BERTH_JSON_OBJECT)) {
		migrate_env(environment);
		set_default(environment, "mounts", berth_json_get(environment, "mounts_json"));
		berth_json_remove(environment, "mounts_json");
	}
	const berth_json *datasets = berth_json_get(tree, "datasets");
	for (size_t i = 0; berth_json_is(datasets, BERTH_JSON_ARRAY) && i < berth_json_size(datasets); i++) {
		if (berth_json_is(berth_json_at(datasets, i), BERTH_JSON_OBJECT)) {
			migrate_dataset(berth_json_at(datasets, i));
		}
	}
}
