// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"
#include "common/task/task_internal.h"

// Keys that are older spellings of others, until all are read.
struct draft {
	struct berth_task_environment environment;
	bool allow_internet, has_allow_internet;
	int64_t memory_mb, storage_mb; // from memory and storage; -1: not given
};

static bool read_os(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	const char *text;
	if (!berth_schema_text(reading, path, value, &text)) {
		return false;
	}
	bool windows = strcasecmp(text, "windows") == 0;
	if (!windows && strcasecmp(text, "linux") != 0) {
		return berth_schema_fail(reading, path, "must be linux or windows, not \"%s\"", text);
	}
	free(*(char **)member);
	*(char **)member = berth_strdup(windows ? "windows" : "linux");
	return true;
}

static bool read_size(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	if (!berth_json_is(value, BERTH_JSON_STRING)) {
		berth_schema_warn(
			reading, path, "is no text and has no effect: write %s_mb instead", strrchr(path, '.') + 1);
		return true;
	}
	struct berth_error why;
	const char *text;
	if (!berth_schema_text(reading, path, value, &text)) {
		return false;
	}
	return berth_size_mb(text, member, &why) || berth_schema_fail(reading, path, "is wrong: %s", why.message);
}

static bool read_allow_internet(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	struct draft *draft = member;
	draft->has_allow_internet = true;
	return berth_schema_bool(reading, path, value, &draft->allow_internet);
}

static bool read_tpu(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	*(bool *)member = true;
	return berth_json_is(value, BERTH_JSON_OBJECT) || berth_schema_fail(reading, path, "must be a table");
}

static bool read_transport(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	static const char *const known[] = {"sse", "streamable-http", "stdio"};
	const char *text;
	if (!berth_schema_text(reading, path, value, &text)) {
		return false;
	}
	text = strcmp(text, "http") == 0 ? "streamable-http" : text;
	for (size_t i = 0; i < BERTH_COUNT(known); i++) {
		if (strcmp(known[i], text) == 0) {
			free(*(char **)member);
			*(char **)member = berth_strdup(text);
			return true;
		}
	}
	return berth_schema_fail(reading, path, "must be one of sse, streamable-http, stdio, not \"%s\"", text);
}

static void mcp_defaults(void *members)
{
	((struct berth_task_mcp_server *)members)->transport = berth_strdup("sse");
}

#define MCP(member) offsetof(struct berth_task_mcp_server, member)
BERTH_TABLE(mcp_table, struct berth_task_mcp_server,
	{.key = "name", .kind = BERTH_FIELD_TEXT, .offset = MCP(name), .required = true},
	{.key = "transport", .kind = BERTH_FIELD_CUSTOM, .offset = MCP(transport), .read = read_transport},
	{.key = "url", .kind = BERTH_FIELD_TEXT, .offset = MCP(url)},
	{.key = "command", .kind = BERTH_FIELD_TEXT, .offset = MCP(command)},
	{.key = "args", .kind = BERTH_FIELD_STRINGS, .offset = MCP(args)}),
	.defaults = mcp_defaults
}
;

void berth_task_healthcheck_defaults(void *members)
{
	struct berth_task_healthcheck *healthcheck = members;
	*healthcheck = (struct berth_task_healthcheck){
		.interval_sec = 5, .timeout_sec = 30, .start_interval_sec = 5, .retries = 3};
}

#define HEALTH(member) offsetof(struct berth_task_healthcheck, member)
static const struct berth_field healthcheck_fields[] = {
	{.key = "command", .kind = BERTH_FIELD_TEXT, .offset = HEALTH(command), .required = true},
	{.key = "interval_sec", .kind = BERTH_FIELD_NUMBER, .offset = HEALTH(interval_sec)},
	{.key = "timeout_sec", .kind = BERTH_FIELD_NUMBER, .offset = HEALTH(timeout_sec), .positive = true},
	{.key = "start_period_sec", .kind = BERTH_FIELD_NUMBER, .offset = HEALTH(start_period_sec)},
	{.key = "start_interval_sec", .kind = BERTH_FIELD_NUMBER, .offset = HEALTH(start_interval_sec)},
	{.key = "retries", .kind = BERTH_FIELD_INTEGER, .offset = HEALTH(retries)},
};
const struct berth_table berth_task_healthcheck_table = {.fields = healthcheck_fields,
	.count = BERTH_COUNT(healthcheck_fields),
	.size = sizeof(struct berth_task_healthcheck)};

#define ENVIRONMENT(member) (offsetof(struct draft, environment) + offsetof(struct berth_task_environment, member))
BERTH_TABLE(environment_table, struct draft,
	{.key = "build_timeout_sec",
		.kind = BERTH_FIELD_NUMBER,
		.offset = ENVIRONMENT(build_timeout_sec),
		.positive = true},
	{.key = "docker_image", .kind = BERTH_FIELD_TEXT, .offset = ENVIRONMENT(docker_image)},
	{.key = "os", .kind = BERTH_FIELD_CUSTOM, .offset = ENVIRONMENT(os), .read = read_os},
	{.key = "cpus", .kind = BERTH_FIELD_INTEGER, .offset = ENVIRONMENT(cpus)},
	{.key = "memory_mb", .kind = BERTH_FIELD_INTEGER, .offset = ENVIRONMENT(memory_mb)},
	{.key = "storage_mb", .kind = BERTH_FIELD_INTEGER, .offset = ENVIRONMENT(storage_mb)},
	{.key = "gpus", .kind = BERTH_FIELD_INTEGER, .offset = ENVIRONMENT(gpus)},
	{.key = "gpu_types", .kind = BERTH_FIELD_STRINGS, .offset = ENVIRONMENT(gpu_types)},
	{.key = "tpu", .kind = BERTH_FIELD_CUSTOM, .offset = ENVIRONMENT(has_tpu), .read = read_tpu},
	{.key = "network_mode",
		.kind = BERTH_FIELD_CHOICE,
		.offset = ENVIRONMENT(network.mode),
		.choices = berth_task_network_modes},
	{.key = "allowed_hosts", .kind = BERTH_FIELD_STRINGS, .offset = ENVIRONMENT(network.allowed_hosts)},
	{.key = "allow_internet", .kind = BERTH_FIELD_CUSTOM, .read = read_allow_internet},
	{.key = "mcp_servers",
		.kind = BERTH_FIELD_LIST,
		.offset = ENVIRONMENT(mcp_servers),
		.count_offset = ENVIRONMENT(mcp_servers_count),
		.table = &mcp_table},
	{.key = "env", .kind = BERTH_FIELD_ENV, .offset = ENVIRONMENT(env)},
	{.key = "skills_dir", .kind = BERTH_FIELD_TEXT, .offset = ENVIRONMENT(skills_dir)},
	{.key = "healthcheck",
		.kind = BERTH_FIELD_TABLE,
		.offset = ENVIRONMENT(healthcheck),
		.table = &berth_task_healthcheck_table},
	{.key = "workdir", .kind = BERTH_FIELD_TEXT, .offset = ENVIRONMENT(workdir)},
	{.key = "memory", .kind = BERTH_FIELD_CUSTOM, .offset = offsetof(struct draft, memory_mb), .read = read_size},
	{.key = "storage", .kind = BERTH_FIELD_CUSTOM, .offset = offsetof(struct draft, storage_mb), .read = read_size})
}
;

void berth_task_environment_defaults(struct berth_task_environment *environment)
{
	*environment = (struct berth_task_environment){.build_timeout_sec = 600,
		.os = berth_strdup("linux"),
		.cpus = -1,
		.memory_mb = -1,
		.storage_mb = -1,
		.gpus = -1};
	berth_task_healthcheck_defaults(&environment->healthcheck);
}

static bool apply_size(
	struct berth_reading *reading, const char *path, const char *key, int64_t old_spelling, int64_t *megabytes)
{
	BERTH_AUTO_FREE char *inner = berth_schema_path(path, key);
	if (old_spelling == -1) {
		return true;
	}
	if (old_spelling < 0) {
		return berth_schema_fail(reading, inner, "must not be below 0");
	}
	if (*megabytes >= 0 && *megabytes != old_spelling) {
		return berth_schema_fail(reading, inner, "means %lld MB and %s_mb says %lld: keep %s_mb alone",
			(long long)old_spelling, key, (long long)*megabytes, key);
	}
	*megabytes = old_spelling;
	return true;
}

static bool check_mcp(struct berth_reading *reading, const char *path, const struct berth_task_environment *environment)
{
	for (size_t i = 0; i < environment->mcp_servers_count; i++) {
		const struct berth_task_mcp_server *server = &environment->mcp_servers[i];
		bool stdio = strcmp(server->transport, "stdio") == 0;
		if (stdio ? !server->command : !server->url) {
			BERTH_AUTO_FREE char *inner = berth_format("%s%smcp_servers.%zu", path, *path ? "." : "", i);
			return berth_schema_fail(reading, inner, "has transport %s and needs %s", server->transport,
				stdio ? "a command" : "a url");
		}
	}
	return true;
}

static bool finish(struct berth_reading *reading, const char *path, struct draft *draft)
{
	struct berth_task_environment *environment = &draft->environment;
	if (draft->has_allow_internet && environment->network.mode == BERTH_NETWORK_UNSET &&
		environment->network.allowed_hosts.count == 0) {
		environment->network.mode = draft->allow_internet ? BERTH_NETWORK_PUBLIC : BERTH_NETWORK_NONE;
	}
	return apply_size(reading, path, "memory", draft->memory_mb, &environment->memory_mb) &&
	       apply_size(reading, path, "storage", draft->storage_mb, &environment->storage_mb) &&
	       check_mcp(reading, path, environment) && berth_task_check_network(reading, path, &environment->network);
}

bool berth_task_read_environment(struct berth_reading *reading, const char *path, const berth_json *value, void *member)
{
	// The defaults are in place; the draft borrows the struct and gives it back, read or not.
	struct berth_task_environment *environment = member;
	struct draft draft = {.environment = *environment, .memory_mb = -1, .storage_mb = -1};
	bool read =
		berth_schema_read(reading, &environment_table, path, value, &draft) && finish(reading, path, &draft);
	*environment = draft.environment;
	return read;
}
