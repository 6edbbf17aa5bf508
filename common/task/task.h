// SPDX-License-Identifier: Apache-2.0
// A Harbor task folder (Harbor 0.22, schema 1.0 to 1.4): parsed, checked, hashed. Pure but for reading files.
//
// Where Harbor drops an unknown key in silence, a warning names file, line and key; a wrong type or value is INVALID
// and names them too, and the fix.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/codec/json.h"

#define BERTH_TASK_FILE_SIZE_MAX   (1024 * 1024)        // task.toml, instruction.md
#define BERTH_TASK_FOLDER_SIZE_MAX (1024 * 1024 * 1024) // default limit of a bundle; a flag of the CLI lowers it

// An ordered list of name and value, as written in an env table (templates unresolved).
struct berth_env {
	char **names;
	char **values;
	size_t count;
};
void berth_env_set(struct berth_env *env, const char *name, const char *value); // replaces or appends
const char *berth_env_get(const struct berth_env *env, const char *name);
void berth_env_merge(struct berth_env *env, const struct berth_env *over); // `over` wins
void berth_env_free(struct berth_env *env);

enum berth_network_mode { BERTH_NETWORK_UNSET, BERTH_NETWORK_PUBLIC, BERTH_NETWORK_NONE, BERTH_NETWORK_ALLOWLIST };
const char *berth_network_mode_name(enum berth_network_mode mode); // as Harbor spells it; UNSET is "public"

struct berth_strings {
	char **items;
	size_t count;
};
void berth_strings_add(struct berth_strings *list, const char *text);
void berth_strings_free(struct berth_strings *list);

struct berth_task_network {
	enum berth_network_mode mode; // UNSET: not declared here
	struct berth_strings allowed_hosts;
};

struct berth_task_artifact {
	char *source;
	char *destination; // NULL: the source without its leading "/"
	struct berth_strings exclude;
	char *service; // NULL: main
};
struct berth_task_artifacts {
	struct berth_task_artifact *items;
	size_t count;
};
// From a JSON list whose members are strings or objects, as in task.toml and job files.
bool berth_task_artifacts_parse(
	const berth_json *list, const char *where, struct berth_task_artifacts *artifacts, struct berth_error *err);
void berth_task_artifacts_free(struct berth_task_artifacts *artifacts);

struct berth_task_healthcheck {
	char *command; // NULL: none declared
	double interval_sec, timeout_sec, start_period_sec, start_interval_sec;
	int64_t retries;
};

struct berth_task_mcp_server {
	char *name, *transport, *url, *command;
	struct berth_strings args;
};

struct berth_task_environment {
	double build_timeout_sec;
	char *docker_image; // NULL: build environment/Dockerfile
	char *os;           // "linux" or "windows"
	int64_t cpus;       // -1: not declared
	int64_t memory_mb;  // -1
	int64_t storage_mb; // -1
	int64_t gpus;       // -1
	struct berth_strings gpu_types;
	bool has_tpu;
	struct berth_task_network network;
	struct berth_task_mcp_server *mcp_servers;
	size_t mcp_servers_count;
	struct berth_env env;
	char *skills_dir;
	struct berth_task_healthcheck healthcheck;
	char *workdir; // NULL: the image's
};

struct berth_task_agent {
	double timeout_sec; // 0: none declared, no timeout
	char *user;         // NULL: the image's user
	struct berth_task_network network;
};

struct berth_task_collect {
	char *command;
	char *service; // "main" by default
	double timeout_sec;
	char *user;
};

enum berth_verifier_mode { BERTH_VERIFIER_UNSET, BERTH_VERIFIER_SHARED, BERTH_VERIFIER_SEPARATE };

struct berth_task_verifier {
	double timeout_sec; // 600 by default
	struct berth_env env;
	char *user;
	struct berth_task_network network;
	enum berth_verifier_mode mode;
	struct berth_task_environment *environment; // NULL: none of its own
	struct berth_task_collect *collect;
	size_t collect_count;
};

struct berth_task_step {
	char *name;
	struct berth_task_agent agent;
	struct berth_task_verifier verifier;
	bool has_min_reward;
	double min_reward;       // for the key "reward", when min_rewards is NULL
	berth_json *min_rewards; // object of numbers, or NULL
	struct berth_task_healthcheck healthcheck;
	struct berth_task_artifacts artifacts;
};

struct berth_task {
	char *folder;                         // absolute
	char *name;                           // [task].name, or the folder's base name
	char *short_name;                     // the part after "/": environment_name
	char *base_name;                      // the folder's
	char *version, *description, *source; // NULL when absent
	char *reward_strategy;                // "mean" or "final"
	struct berth_task_agent agent;
	struct berth_task_verifier verifier;
	struct berth_task_environment environment;
	struct berth_env solution_env;
	struct berth_task_artifacts artifacts;
	struct berth_task_step *steps;
	size_t steps_count; // 0: single-step
	bool has_dockerfile, has_compose, has_solution, has_trajectory;
	struct berth_strings warnings; // "task.toml:12: unknown key ..."
};

// Reads and checks one task folder. `verification_disabled` drops the demand for test scripts.
bool berth_task_load(const char *folder, bool verification_disabled, struct berth_task **task, struct berth_error *err);
void berth_task_free(struct berth_task *task); // NULL is allowed
// True when the folder has a task.toml: what tells a task folder from a dataset folder.
bool berth_task_is_folder(const char *folder);
// The mode in force: a verifier environment implies separate, nothing declared is shared.
enum berth_verifier_mode berth_task_verifier_mode(const struct berth_task *task, const struct berth_task_step *step);

// The instruction as an agent gets it: canary lines and the blank lines after them stripped, CR LF as LF, extras joined
// by an empty line. step NULL for single-step tasks. The caller frees.
char *berth_task_instruction(const struct berth_task *task, const struct berth_task_step *step,
	const struct berth_strings *extra, struct berth_error *err);
// The same stripping on a text (harbor.md C.5 lists its vectors in tests).
char *berth_instruction_strip(const char *text);

// The three hashes of Harbor and, as ours, the key of a built image (context bytes with modes and links).
struct berth_task_hashes {
	struct berth_digest checksum;    // result.json task_checksum: dirhash of the whole folder, links followed
	struct berth_digest lock_digest; // lock.json task.digest
	char environment_id[33];
};
bool berth_task_hash(const struct berth_task *task, struct berth_task_hashes *hashes, struct berth_error *err);

// --- small rules, each exact ---

// "2G" to 2048 and so on. INVALID for everything that Harbor refuses.
bool berth_size_mb(const char *text, int64_t *mb, struct berth_error *err);

// A value that is exactly one ${NAME} or ${NAME:-default}. Literal text otherwise.
struct berth_template {
	char *variable;      // NULL: the value is literal
	char *default_value; // NULL: none, the variable must be set
};
struct berth_template berth_template_parse(const char *value);
void berth_template_free(struct berth_template *template);
// Replaces each template in `env` by the value that lookup gives (NULL: unset). INVALID names the variable, `where` and
// the fix when it is unset and has no default. `lookup` is getenv in the CLI.
bool berth_env_resolve(struct berth_env *env, const char *where, const char *(*lookup)(void *context, const char *name),
	void *context, struct berth_error *err);
// True for names that hold secrets by Harbor's rule (KEY, SECRET, TOKEN, PASSWORD, CREDENTIAL, AUTH).
bool berth_env_name_is_sensitive(const char *name);

// min(base, max) * (specific >= 0 ? specific : global); base 0 means none and stays none (0 returned); max 0 is no
// bound. A specific multiplier below 0 is absent. A result that is 0 by its multiplier is an immediate timeout:
// *immediate.
double berth_timeout_sec(double base, double max, double specific, double global, bool *immediate);

// basename[:32] without trailing "_" and "-", "__", then seven characters of Harbor's alphabet taken from `random`
// (which needs BERTH_TRIAL_NAME_RANDOM_SIZE bytes). The cut is by code points. The caller frees.
#define BERTH_TRIAL_NAME_RANDOM_SIZE 16
char *berth_trial_name(const char *task_base_name, const uint8_t random[static BERTH_TRIAL_NAME_RANDOM_SIZE]);

// Harbor's compose project name of a session id; the caller frees.
char *berth_compose_project(const char *session_id);
