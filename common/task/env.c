// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/task.h"

void berth_env_set(struct berth_env *env, const char *name, const char *value)
{
	for (size_t i = 0; i < env->count; i++) {
		if (strcmp(env->names[i], name) == 0) {
			char *copy = berth_strdup(value); // `value` may be the one that is replaced
			free(env->values[i]);
			env->values[i] = copy;
			return;
		}
	}
	env->names = berth_realloc_array(env->names, env->count + 1, sizeof *env->names);
	env->values = berth_realloc_array(env->values, env->count + 1, sizeof *env->values);
	env->names[env->count] = berth_strdup(name);
	env->values[env->count++] = berth_strdup(value);
}

const char *berth_env_get(const struct berth_env *env, const char *name)
{
	for (size_t i = 0; i < env->count; i++) {
		if (strcmp(env->names[i], name) == 0) {
			return env->values[i];
		}
	}
	return NULL;
}

void berth_env_merge(struct berth_env *env, const struct berth_env *over)
{
	for (size_t i = 0; i < over->count; i++) {
		berth_env_set(env, over->names[i], over->values[i]);
	}
}

void berth_env_free(struct berth_env *env)
{
	for (size_t i = 0; i < env->count; i++) {
		free(env->names[i]);
		free(env->values[i]);
	}
	free(env->names);
	free(env->values);
	*env = (struct berth_env){0};
}

void berth_strings_add(struct berth_strings *list, const char *text)
{
	list->items = berth_realloc_array(list->items, list->count + 1, sizeof *list->items);
	list->items[list->count++] = berth_strdup(text);
}

void berth_strings_free(struct berth_strings *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i]);
	}
	free(list->items);
	*list = (struct berth_strings){0};
}

// Exactly "${NAME}" or "${NAME:-default}", NAME without "}" and ":", the default on one line.
struct berth_template berth_template_parse(const char *value)
{
	struct berth_template none = {0};
	size_t length = strlen(value);
	if (strncmp(value, "${", 2) != 0 || value[length - 1] != '}') {
		return none;
	}
	const char *name = value + 2, *end = value + length - 1;
	size_t name_length = strcspn(name, "}:");
	if (name_length == 0) {
		return none;
	}
	if (name + name_length == end) {
		return (struct berth_template){.variable = berth_strndup(name, name_length)};
	}
	const char *fallback = name + name_length + 2;
	if (strncmp(name + name_length, ":-", 2) != 0 || memchr(fallback, '\n', (size_t)(end - fallback))) {
		return none;
	}
	return (struct berth_template){.variable = berth_strndup(name, name_length),
		.default_value = berth_strndup(fallback, (size_t)(end - fallback))};
}

void berth_template_free(struct berth_template *template)
{
	free(template->variable);
	free(template->default_value);
	*template = (struct berth_template){0};
}

bool berth_env_resolve(struct berth_env *env, const char *where, const char *(*lookup)(void *context, const char *name),
	void *context, struct berth_error *err)
{
	for (size_t i = 0; i < env->count; i++) {
		BERTH_AUTO(berth_template_free) struct berth_template template = berth_template_parse(env->values[i]);
		if (!template.variable) {
			continue;
		}
		const char *value = lookup(context, template.variable);
		value = value ? value : template.default_value;
		if (!value) {
			return berth_fail(err, BERTH_ERROR_INVALID,
				"%s: %s needs the variable %s, which is not set here: set it, or give it a default as "
				"in ${%s:-...}",
				where, env->names[i], template.variable, template.variable);
		}
		berth_env_set(env, env->names[i], value);
	}
	return true;
}

bool berth_env_name_is_sensitive(const char *name)
{
	static const char *const words[] = {"KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL", "AUTH"};
	for (size_t i = 0; i < BERTH_COUNT(words); i++) {
		if (strcasestr(name, words[i])) {
			return true;
		}
	}
	return false;
}
