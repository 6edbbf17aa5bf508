// SPDX-License-Identifier: Apache-2.0
// The parts of loading a job that lie in files of their own, in the order that they run in.
#pragma once

#include <stdbool.h>

#include "common/codec/json.h"
#include "common/task/jobfile.h"
#include "common/task/schema_internal.h"

// Older spellings become today's, in place; what was written in today's own wins.
void berth_job_migrate(berth_json *tree);
// Puts the flags over the file's tree.
bool berth_job_apply_flags(berth_json *tree, const struct berth_job_flags *flags, struct berth_error *err);
// Fills `job` from the tree; what Berth can't do is refused by name.
bool berth_job_read(struct berth_reading *reading, const berth_json *tree, struct berth_job *job);
// Datasets and tasks of the tree become job->tasks.
bool berth_job_expand(struct berth_reading *reading, const berth_json *tree, struct berth_job *job);
// What Harbor's config.json would hold: known keys without their defaults, secrets masked.
berth_json *berth_job_config(const berth_json *tree);

// The object at `key`, made when it is missing or null.
berth_json *berth_job_object(berth_json *tree, const char *key);
