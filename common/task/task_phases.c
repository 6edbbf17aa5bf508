// SPDX-License-Identifier: Apache-2.0
// The tables that say how the agent and the verifier run, for the task and for each step.
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/task_internal.h"

#define VERIFIER_TIMEOUT_SEC 600.0
#define COLLECT_TIMEOUT_SEC  60.0

#define AGENT(member) offsetof(struct berth_task_agent, member)
BERTH_TABLE(agent_table, struct berth_task_agent,
	{.key = "timeout_sec", .kind = BERTH_FIELD_NUMBER, .offset = AGENT(timeout_sec)},
	{.key = "user", .kind = BERTH_FIELD_USER, .offset = AGENT(user)},
	{.key = "network_mode",
		.kind = BERTH_FIELD_CHOICE,
		.offset = AGENT(network.mode),
		.choices = berth_task_network_modes},
	{.key = "allowed_hosts", .kind = BERTH_FIELD_STRINGS, .offset = AGENT(network.allowed_hosts)})
}
;

bool berth_task_read_agent(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	struct berth_task_agent *agent = member;
	return berth_schema_read(reading, &agent_table, path, value, agent) &&
	       berth_task_check_network(reading, path, &agent->network);
}

static void collect_defaults(void *members)
{
	struct berth_task_collect *collect = members;
	collect->service = berth_strdup("main");
	collect->timeout_sec = COLLECT_TIMEOUT_SEC;
}

#define COLLECT(member) offsetof(struct berth_task_collect, member)
BERTH_TABLE(collect_table, struct berth_task_collect,
	{.key = "command", .kind = BERTH_FIELD_TEXT, .offset = COLLECT(command), .required = true},
	{.key = "service", .kind = BERTH_FIELD_TEXT, .offset = COLLECT(service)},
	{.key = "timeout_sec", .kind = BERTH_FIELD_NUMBER, .offset = COLLECT(timeout_sec), .positive = true},
	{.key = "user", .kind = BERTH_FIELD_USER, .offset = COLLECT(user)}),
	.defaults = collect_defaults
}
;

static bool read_own_environment(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	struct berth_task_environment **environment = member;
	*environment = berth_alloc(sizeof **environment);
	berth_task_environment_defaults(*environment);
	return berth_task_read_environment(reading, path, value, *environment);
}

static const char *const environment_modes[] = {"shared", "separate", NULL};

#define VERIFIER(member) offsetof(struct berth_task_verifier, member)
BERTH_TABLE(verifier_table, struct berth_task_verifier,
	{.key = "timeout_sec", .kind = BERTH_FIELD_NUMBER, .offset = VERIFIER(timeout_sec), .positive = true},
	{.key = "env", .kind = BERTH_FIELD_ENV, .offset = VERIFIER(env)},
	{.key = "user", .kind = BERTH_FIELD_USER, .offset = VERIFIER(user)},
	{.key = "network_mode",
		.kind = BERTH_FIELD_CHOICE,
		.offset = VERIFIER(network.mode),
		.choices = berth_task_network_modes},
	{.key = "allowed_hosts", .kind = BERTH_FIELD_STRINGS, .offset = VERIFIER(network.allowed_hosts)},
	{.key = "environment_mode", .kind = BERTH_FIELD_CHOICE, .offset = VERIFIER(mode), .choices = environment_modes},
	{.key = "environment",
		.kind = BERTH_FIELD_CUSTOM,
		.offset = VERIFIER(environment),
		.read = read_own_environment},
	{.key = "collect",
		.kind = BERTH_FIELD_LIST,
		.offset = VERIFIER(collect),
		.count_offset = VERIFIER(collect_count),
		.table = &collect_table})
}
;

bool berth_task_read_verifier(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	struct berth_task_verifier *verifier = member;
	if (!berth_schema_read(reading, &verifier_table, path, value, verifier)) {
		return false;
	}
	if (verifier->mode == BERTH_VERIFIER_SHARED && verifier->environment) {
		BERTH_AUTO_FREE char *key = berth_schema_path(path, "environment_mode");
		return berth_schema_fail(reading, key,
			"is \"shared\" beside an environment of the verifier's own: write \"separate\", or drop that "
			"environment");
	}
	return berth_task_check_network(reading, path, &verifier->network);
}

enum berth_verifier_mode berth_task_verifier_mode(const struct berth_task *task, const struct berth_task_step *step)
{
	const struct berth_task_verifier *levels[] = {step ? &step->verifier : NULL, &task->verifier};
	for (size_t i = 0; i < BERTH_COUNT(levels); i++) {
		if (levels[i] && levels[i]->mode != BERTH_VERIFIER_UNSET) {
			return levels[i]->mode;
		}
		if (levels[i] && levels[i]->environment) {
			return BERTH_VERIFIER_SEPARATE;
		}
	}
	return BERTH_VERIFIER_SHARED;
}

static void step_defaults(void *members)
{
	struct berth_task_step *step = members;
	step->verifier.timeout_sec = VERIFIER_TIMEOUT_SEC;
	berth_task_healthcheck_defaults(&step->healthcheck);
}

static bool read_min_reward(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	struct berth_task_step *step = member;
	step->has_min_reward = true;
	if (!berth_json_is(value, BERTH_JSON_OBJECT)) {
		return berth_schema_number(reading, path, value, &step->min_reward);
	}
	step->min_rewards = berth_json_object();
	void *cursor = NULL;
	const char *key;
	berth_json *item;
	while (berth_json_next(value, &cursor, &key, &item)) {
		BERTH_AUTO_FREE char *inner = berth_schema_path(path, key);
		double number = 0;
		if (!berth_schema_number(reading, inner, item, &number)) {
			return false;
		}
		berth_json_set(step->min_rewards, key, berth_json_real(number));
	}
	return true;
}

#define STEP(member) offsetof(struct berth_task_step, member)
static const struct berth_field step_fields[] = {
	{.key = "name", .kind = BERTH_FIELD_TEXT, .offset = STEP(name), .required = true},
	{.key = "agent", .kind = BERTH_FIELD_CUSTOM, .offset = STEP(agent), .read = berth_task_read_agent},
	{.key = "verifier", .kind = BERTH_FIELD_CUSTOM, .offset = STEP(verifier), .read = berth_task_read_verifier},
	{.key = "min_reward", .kind = BERTH_FIELD_CUSTOM, .read = read_min_reward},
	{.key = "healthcheck",
		.kind = BERTH_FIELD_TABLE,
		.offset = STEP(healthcheck),
		.table = &berth_task_healthcheck_table},
	{.key = "artifacts", .kind = BERTH_FIELD_CUSTOM, .offset = STEP(artifacts), .read = berth_task_read_artifacts},
};
const struct berth_table berth_task_steps_table = {.fields = step_fields,
	.count = BERTH_COUNT(step_fields),
	.size = sizeof(struct berth_task_step),
	.defaults = step_defaults};

bool berth_task_check_step_names(struct berth_reading *reading, const struct berth_task *task)
{
	for (size_t i = 0; i < task->steps_count; i++) {
		const char *name = task->steps[i].name;
		BERTH_AUTO_FREE char *path = berth_format("steps.%zu.name", i);
		if (!berth_path_is_safe(name) || strchr(name, '/')) {
			return berth_schema_fail(
				reading, path, "must be the name of a folder below steps/, not \"%s\"", name);
		}
		for (size_t k = 0; k < i; k++) {
			if (strcmp(task->steps[k].name, name) == 0) {
				return berth_schema_fail(
					reading, path, "is \"%s\" twice: give each step a name of its own", name);
			}
		}
	}
	return true;
}
