// SPDX-License-Identifier: Apache-2.0
// The parts of loading a task that lie in files of their own.
#pragma once

#include <stdbool.h>

#include "common/task/schema_internal.h"
#include "common/task/task.h"

// Readers of one table each, for `berth_field.read`; `member` is the struct named.
bool berth_task_read_environment(
	struct berth_reading *reading, const char *path, const berth_json *value, void *environment);
bool berth_task_read_agent(struct berth_reading *reading, const char *path, const berth_json *value, void *agent);
bool berth_task_read_verifier(struct berth_reading *reading, const char *path, const berth_json *value, void *verifier);
bool berth_task_read_artifacts(
	struct berth_reading *reading, const char *path, const berth_json *value, void *artifacts);

extern const struct berth_table berth_task_healthcheck_table;
extern const struct berth_table berth_task_steps_table;
void berth_task_healthcheck_defaults(void *healthcheck);
void berth_task_environment_defaults(struct berth_task_environment *environment);
bool berth_task_check_step_names(struct berth_reading *reading, const struct berth_task *task);

extern const char *const berth_task_network_modes[];
// Lower case without a final dot, each one a host name, "*.name", address or network; only with an allow list.
bool berth_task_check_network(struct berth_reading *reading, const char *path, struct berth_task_network *network);

// Whether the files that the configuration asks for are there.
bool berth_task_check_files(struct berth_task *task, bool verification_disabled, struct berth_error *err);
