// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/job_internal.h"

// Harbor's defaults; a key that is in neither list is unknown to it. `null` stands for keys that default to nothing.
static const char job_defaults[] =
	"{\"job_name\":null,\"jobs_dir\":\"jobs\",\"n_attempts\":1,\"install_only\":false,\"timeout_multiplier\":1.0,"
	"\"agent_timeout_multiplier\":null,\"verifier_timeout_multiplier\":null,\"agent_setup_timeout_multiplier\":"
        "null,"
	"\"environment_build_timeout_multiplier\":null,\"debug\":false,\"n_concurrent_trials\":4,\"quiet\":false,"
	"\"retry\":{\"max_retries\":0,\"include_exceptions\":null,\"exclude_exceptions\":null,\"wait_multiplier\":1.0,"
	"\"min_wait_sec\":1.0,\"max_wait_sec\":60.0},"
	"\"environment\":{\"type\":\"docker\",\"import_path\":null,\"force_build\":false,\"delete\":true,"
	"\"cpu_enforcement_policy\":\"auto\",\"memory_enforcement_policy\":\"auto\",\"override_cpus\":null,"
	"\"override_memory_mb\":null,\"override_storage_mb\":null,\"override_gpus\":null,\"override_tpu\":null,"
        "\"mounts\":null,"
	"\"extra_docker_compose\":[],\"env\":{},\"kwargs\":{},\"extra_allowed_hosts\":[]},"
	"\"verifier\":{\"override_timeout_sec\":null,\"max_timeout_sec\":null,\"include_logs\":[],\"exclude_logs\":[],"
        "\"env\":{},"
	"\"import_path\":null,\"kwargs\":{},\"disable\":false},"
	"\"metrics\":[],\"agents\":null,\"user_agent\":null,\"datasets\":[],\"tasks\":[],\"artifacts\":[],"
	"\"extra_instruction_paths\":[],\"extra_instructions\":[],\"source_jobs\":[]}";
static const char agent_defaults[] =
	"{\"name\":null,\"import_path\":null,\"model_name\":null,\"n_concurrent\":null,\"concurrency_group\":null,"
	"\"skills\":[],\"override_timeout_sec\":null,\"override_setup_timeout_sec\":null,\"max_timeout_sec\":null,"
	"\"resume_trajectory\":false,\"load_trajectory\":null,\"extra_allowed_hosts\":[],\"include_logs\":[],"
	"\"exclude_logs\":[],\"kwargs\":{},\"env\":{},\"mcp_servers\":[]}";

static bool equals_default(const berth_json *value, const berth_json *standard)
{
	bool numbers = (berth_json_is(value, BERTH_JSON_INTEGER) || berth_json_is(value, BERTH_JSON_REAL)) &&
	               (berth_json_is(standard, BERTH_JSON_INTEGER) || berth_json_is(standard, BERTH_JSON_REAL));
	return numbers ? berth_json_as_number(value) == berth_json_as_number(standard)
	               : berth_json_equal(value, standard);
}

// Members of `value` that `standard` knows and that differ from it; sub-objects are gone through where the standard has
// members of its own.
static berth_json *without_defaults(const berth_json *value, const berth_json *standard)
{
	berth_json *kept = berth_json_object();
	void *cursor = NULL;
	const char *key;
	berth_json *usual;
	while (berth_json_next(standard, &cursor, &key, &usual)) {
		const berth_json *member = berth_json_get(value, key);
		if (berth_json_is(member, BERTH_JSON_NULL) || equals_default(member, usual)) {
			continue;
		}
		if (berth_json_is(usual, BERTH_JSON_OBJECT) && berth_json_size(usual) > 0) {
			berth_json *inner = without_defaults(member, usual);
			if (berth_json_size(inner) > 0) {
				berth_json_set(kept, key, inner);
			} else {
				berth_json_free(inner);
			}
		} else {
			berth_json_set(kept, key, berth_json_copy(member));
		}
	}
	return kept;
}

static size_t points(const char *text)
{
	size_t count = 0;
	for (; *text; text++) {
		count += ((unsigned char)*text & 0xc0) != 0x80;
	}
	return count;
}

// Where the code point `index` starts.
static const char *point_at(const char *text, size_t index)
{
	for (; *text; text++) {
		if (((unsigned char)*text & 0xc0) != 0x80 && index-- == 0) {
			break;
		}
	}
	return text;
}

// A secret as Harbor writes it down: its variable when it has that one's value, a template as it is, else its ends.
static berth_json *masked(const char *name, const char *value)
{
	BERTH_AUTO(berth_template_free) struct berth_template template = berth_template_parse(value);
	if (template.variable) {
		return berth_json_string(value);
	}
	const char *here = getenv(name);
	if (here && strcmp(here, value) == 0) {
		BERTH_AUTO_FREE char *reference = berth_format("${%s}", name);
		return berth_json_string(reference);
	}
	size_t length = points(value);
	if (length <= 8) {
		return berth_json_string("****");
	}
	BERTH_AUTO_FREE char *ends =
		berth_format("%.*s****%s", (int)(point_at(value, 4) - value), value, point_at(value, length - 3));
	return berth_json_string(ends);
}

static void mask_env(berth_json *holder)
{
	berth_json *env = berth_json_get(holder, "env");
	BERTH_AUTO(berth_json_cleanup) berth_json *names = berth_json_copy(env);
	void *cursor = NULL;
	const char *name;
	berth_json *value;
	while (berth_json_is(names, BERTH_JSON_OBJECT) && berth_json_next(names, &cursor, &name, &value)) {
		if (berth_env_name_is_sensitive(name) && berth_json_as_string(value)) {
			berth_json_set(env, name, masked(name, berth_json_as_string(value)));
		}
	}
}

berth_json *berth_job_config(const berth_json *tree)
{
	BERTH_AUTO(berth_json_cleanup)
	berth_json *usual = berth_json_parse(job_defaults, strlen(job_defaults), "defaults", NULL);
	BERTH_AUTO(berth_json_cleanup)
	berth_json *usual_agent = berth_json_parse(agent_defaults, strlen(agent_defaults), "defaults", NULL);
	berth_json *config = without_defaults(tree, usual);
	berth_json *agents = berth_json_array();
	const berth_json *given = berth_json_get(tree, "agents");
	for (size_t i = 0; i < berth_json_size(given); i++) {
		berth_json *agent = without_defaults(berth_json_at(given, i), usual_agent);
		mask_env(agent);
		berth_json_append(agents, agent);
	}
	if (berth_json_size(agents) > 0) {
		berth_json_set(config, "agents", agents);
	} else {
		berth_json_free(agents);
		berth_json_remove(config, "agents");
	}
	mask_env(berth_json_get(config, "environment"));
	mask_env(berth_json_get(config, "verifier"));
	return config;
}
