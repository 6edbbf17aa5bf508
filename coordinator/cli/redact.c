// SPDX-License-Identifier: Apache-2.0
// Harbor's own rule for what a configuration keeps of a secret: the name of the host's variable that has this very
// value, or its first four and last three characters, or nothing.
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/submission.h"

#define SHORT_MAX 8
#define HEAD_SIZE 4
#define TAIL_SIZE 3

static char *redacted(const struct cli *cli, const char *name, const char *value)
{
	const struct berth_cli_io *io = cli->io;
	BERTH_AUTO(berth_template_free) struct berth_template template = berth_template_parse(value);
	if (template.variable || !berth_env_name_is_sensitive(name)) {
		return berth_strdup(value);
	}
	const char *here = io->lookup(io->lookup_context, name);
	size_t length = strlen(value);
	if (here && strcmp(here, value) == 0) {
		return berth_format("${%s}", name);
	}
	return length <= SHORT_MAX ? berth_strdup("****")
	                           : berth_format("%.*s****%s", HEAD_SIZE, value, value + length - TAIL_SIZE);
}

static void redact_object(const struct cli *cli, berth_json *env)
{
	void *cursor = NULL;
	const char *name;
	berth_json *value;
	BERTH_AUTO(berth_json_cleanup) berth_json *before = berth_json_copy(env);
	while (berth_json_next(before, &cursor, &name, &value)) {
		if (berth_json_as_string(value)) {
			BERTH_AUTO_FREE char *text = redacted(cli, name, berth_json_as_string(value));
			berth_json_set(env, name, berth_json_string(text));
		}
	}
}

// The old form of a table, ["NAME=value", ...], comes out as the new one.
static berth_json *object_of_list(const berth_json *list)
{
	berth_json *env = berth_json_object();
	for (size_t i = 0; i < berth_json_size(list); i++) {
		const char *text = berth_json_as_string(berth_json_at(list, i));
		const char *equals = text ? strchr(text, '=') : NULL;
		if (equals) {
			BERTH_AUTO_FREE char *name = berth_strndup(text, (size_t)(equals - text));
			berth_json_set(env, name, berth_json_string(equals + 1));
		}
	}
	return env;
}

static void redact_section(const struct cli *cli, berth_json *section)
{
	berth_json *env = berth_json_get(section, "env");
	if (berth_json_is(env, BERTH_JSON_ARRAY)) {
		berth_json_set(section, "env", object_of_list(env));
		env = berth_json_get(section, "env");
	}
	if (berth_json_is(env, BERTH_JSON_OBJECT)) {
		redact_object(cli, env);
	}
}

void cli_config_redact(const struct cli *cli, berth_json *config)
{
	const berth_json *agents = berth_json_get(config, "agents");
	redact_section(cli, berth_json_get(config, "environment"));
	redact_section(cli, berth_json_get(config, "verifier"));
	for (size_t i = 0; i < berth_json_size(agents); i++) {
		redact_section(cli, berth_json_at(agents, i));
	}
}
