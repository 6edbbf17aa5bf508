// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/reward.h"
#include "common/task/task.h"

static double total_of(const char *key, const berth_json *const *steps, size_t count)
{
	double total = 0;
	for (size_t i = 0; i < count; i++) {
		total += berth_json_as_number(berth_json_get(steps[i], key));
	}
	return total;
}

static berth_json *mean(const berth_json *const *steps, size_t count)
{
	size_t scored = 0;
	for (size_t i = 0; i < count; i++) {
		scored += berth_json_is(steps[i], BERTH_JSON_OBJECT);
	}
	if (scored == 0) {
		return NULL;
	}
	berth_json *rewards = berth_json_object();
	for (size_t i = 0; i < count; i++) {
		void *cursor = NULL;
		const char *key;
		while (berth_json_is(steps[i], BERTH_JSON_OBJECT) && berth_json_next(steps[i], &cursor, &key, NULL)) {
			double value = total_of(key, steps, count) / (double)scored;
			berth_json_set(rewards, key, isfinite(value) ? berth_json_real(value) : berth_json_null());
		}
	}
	return rewards;
}

berth_json *berth_reward_aggregate(const char *strategy, const berth_json *const *steps, size_t count)
{
	if (strategy && strcmp(strategy, "final") == 0) {
		const berth_json *last = count > 0 ? steps[count - 1] : NULL;
		return berth_json_is(last, BERTH_JSON_OBJECT) ? berth_json_copy(last) : NULL;
	}
	return mean(steps, count);
}

static bool reaches(const berth_json *rewards, const char *key, double least)
{
	const berth_json *value = berth_json_get(rewards, key);
	return !berth_json_is(value, BERTH_JSON_NULL) && berth_json_as_number(value) >= least;
}

bool berth_reward_meets(const struct berth_task_step *step, const berth_json *rewards)
{
	if (!step->has_min_reward) {
		return true;
	}
	if (!step->min_rewards) {
		return reaches(rewards, "reward", step->min_reward);
	}
	void *cursor = NULL;
	const char *key;
	berth_json *least;
	while (berth_json_next(step->min_rewards, &cursor, &key, &least)) {
		if (!reaches(rewards, key, berth_json_as_number(least))) {
			return false;
		}
	}
	return true;
}
