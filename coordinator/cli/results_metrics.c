// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/results_internal.h"

double results_pass_at_k(uint32_t n, uint32_t c, uint32_t k)
{
	if (n < c + k) {
		return 1.0;
	}
	long double all_fail = 1;
	for (uint32_t i = 0; i < k; i++) {
		all_fail *= (long double)(n - c - i) / (n - i);
	}
	return 1.0 - (double)all_fail;
}

uint32_t results_next_k(uint32_t k)
{
	uint32_t power = 2;
	while (power <= k) {
		power *= 2;
	}
	uint32_t five = (k / 5 + 1) * 5;
	return power < five ? power : five;
}

enum metric { MEAN, SUM, MIN, MAX, METRICS };
static const char *const METRIC_NAMES[METRICS] = {"mean", "sum", "min", "max"};

// `zeros` stands for values that are missing and count as 0.
static double aggregate(enum metric metric, const char *key, berth_json *const *rewards, size_t count, size_t zeros)
{
	double sum = 0, least = 0, most = 0;
	for (size_t i = 0; i < count; i++) {
		double value = berth_json_as_number(berth_json_get(rewards[i], key));
		sum += value;
		least = i == 0 || value < least ? value : least;
		most = i == 0 || value > most ? value : most;
	}
	if (zeros > 0) {
		least = count == 0 || least > 0 ? 0 : least;
		most = count == 0 || most < 0 ? 0 : most;
	}
	switch (metric) {
	case MEAN:
		return sum / (double)(count + zeros);
	case SUM:
		return sum;
	case MIN:
		return least;
	case MAX:
	case METRICS:
		break;
	}
	return most;
}

// Every key of the rewards, in the order of its first appearance, as an object of nulls.
static berth_json *keys_of(berth_json *const *rewards, size_t count)
{
	berth_json *keys = berth_json_object();
	for (size_t i = 0; i < count; i++) {
		void *cursor = NULL;
		const char *key;
		berth_json *value;
		while (berth_json_next(rewards[i], &cursor, &key, &value)) {
			if (!berth_json_get(keys, key)) {
				berth_json_set(keys, key, berth_json_null());
			}
		}
	}
	return keys;
}

berth_json *results_metric(const char *type, berth_json *const *rewards, size_t count, size_t unscored)
{
	size_t metric = 0;
	while (metric < METRICS && strcmp(type, METRIC_NAMES[metric]) != 0) {
		metric++;
	}
	if (metric == METRICS || count + unscored == 0) {
		return NULL;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *keys = keys_of(rewards, count);
	berth_json *result = berth_json_object();
	bool several = berth_json_size(keys) > 1;
	void *cursor = NULL;
	const char *key = "";
	berth_json *ignored;
	while (berth_json_next(keys, &cursor, &key, &ignored)) {
		berth_json_set(result, several ? key : type,
			berth_json_real(aggregate((enum metric)metric, key, rewards, count, unscored)));
	}
	if (berth_json_size(keys) == 0) {
		berth_json_set(result, type, berth_json_real(0));
	}
	return result;
}
