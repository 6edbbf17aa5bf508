// SPDX-License-Identifier: Apache-2.0
// What a verifier left, as rewards (Harbor 0.22 reward rules). Exact: whole numbers stay whole, integers keep 64 bits.
#pragma once

#include <stdbool.h>

#include "common/base/error.h"
#include "common/codec/json.h"

#define BERTH_REWARD_FILE_SIZE_MAX (1024 * 1024)

struct berth_reward {
	berth_json *rewards;   // object of numbers; NULL when there is none
	const char *exception; // Harbor's class name ("RewardFileNotFoundError", ...), NULL when rewards is set
	char *message;	       // for exception_message: names the file, and shows the text that was not understood
};

// Reads reward.json, else reward.txt, below `verifier_folder` on this host. NaN and infinities, null and non-numeric
// members are exceptions with the raw text kept (VerifierOutputParseError or ValidationError as Harbor names them).
void berth_reward_read(const char *verifier_folder, struct berth_reward *reward);
void berth_reward_parse_text(const char *text, size_t size, struct berth_reward *reward);
void berth_reward_parse_json(const char *text, size_t size, struct berth_reward *reward);
void berth_reward_free(struct berth_reward *reward);

// Python's float() of a UTF-8 text: surrounding white space, underscores between digits, inf and nan, other scripts'
// digits. False when it would raise.
bool berth_python_float(const char *text, size_t size, double *value);

// Multi-step aggregation: `steps` holds each step's rewards object or NULL. "mean": per key over the steps that have
// rewards, a missing key counts 0; "final": the last member's. NULL when no step has rewards.
berth_json *berth_reward_aggregate(const char *strategy, const berth_json *const *steps, size_t count);
// Whether a step's rewards reach its min_reward (a missing key or no rewards is minus infinity).
struct berth_task_step;
bool berth_reward_meets(const struct berth_task_step *step, const berth_json *rewards);
