// SPDX-License-Identifier: Apache-2.0
// Meters of a policy by id, given and derived. The derivation is part of what replays: it never changes.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/charge.h"
#include "coordinator/budget/policy.h"
#include "coordinator/budget/resource_class.h"

struct berth_tariffs {
	Berth__V1__Meter **items; // by id
	size_t count, capacity;
};

static void add(struct berth_tariffs *tariffs, Berth__V1__Meter *meter)
{
	if (tariffs->count == tariffs->capacity) {
		tariffs->capacity = tariffs->capacity ? 2 * tariffs->capacity : 8;
		tariffs->items = berth_realloc_array(tariffs->items, tariffs->capacity, sizeof(*tariffs->items));
	}
	tariffs->items[tariffs->count++] = meter;
}

static Berth__V1__Meter *meter_of(const Berth__V1__Rate *rate, const struct berth_resource_class *class,
	const struct berth_digest *digest, int64_t horizon)
{
	char id[BERTH_METER_ID_SIZE], text[BERTH_DIGEST_TEXT_SIZE];
	berth_resource_class_meter_id(class, id);
	berth_digest_text(digest, text);
	Berth__V1__Meter *meter = berth_alloc(sizeof *meter);
	berth__v1__meter__init(meter);
	berth_proto_set_string(&meter->meter_id, id);
	meter->kind_case = BERTH__V1__METER__KIND_TIMED;
	meter->timed = berth_alloc(sizeof *meter->timed);
	berth__v1__timed_meter__init(meter->timed);
	berth_proto_set_string(&meter->timed->resource_type, rate->role);
	berth_proto_set_string(&meter->timed->resource_class_digest, text);
	meter->timed->fixed_nano_usd = rate->fixed_nano_usd;
	meter->timed->nano_usd_per_second = rate->nano_usd_per_second;
	meter->timed->billing_quantum_seconds = rate->billing_quantum_seconds;
	meter->timed->max_billing_seconds = horizon;
	return meter;
}

static bool check_rate(const Berth__V1__Rate *rate, const Berth__V1__Meter *meter, struct berth_error *err)
{
	if (rate->fixed_nano_usd < 0 || rate->nano_usd_per_second < 0 ||
		(rate->fixed_nano_usd == 0 && rate->nano_usd_per_second == 0)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"fixed_nano_usd and nano_usd_per_second are not negative, and one is above 0");
	}
	int64_t ceiling;
	return berth_charge_ceiling(meter->timed, &ceiling, err);
}

// The rungs of the ladder: each asks for one second more than the one below.
static bool derive(struct berth_tariffs *tariffs, const Berth__V1__Rate *rate, struct berth_error *err)
{
	if (rate->billing_quantum_seconds < 1 || rate->provider_ttl_max_seconds < 1) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"billing_quantum_seconds and provider_ttl_max_seconds are at least 1");
	}
	int64_t needed = 1;
	struct berth_resource_class class;
	while (berth_resource_class_of_rate(rate, needed, &class, NULL)) {
		struct berth_digest digest;
		int64_t horizon;
		if (!berth_resource_class_digest(&class, &digest, err) ||
			!berth_resource_class_horizon(&class, &horizon, err)) {
			return false;
		}
		Berth__V1__Meter *meter = meter_of(rate, &class, &digest, horizon);
		add(tariffs, meter);
		if (!check_rate(rate, meter, err)) {
			return false;
		}
		needed = class.provider_ttl_seconds + 1;
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	return strcmp((*(Berth__V1__Meter *const *)a)->meter_id, (*(Berth__V1__Meter *const *)b)->meter_id);
}

static bool fill(struct berth_tariffs *tariffs, const Berth__V1__BudgetPolicy *policy, struct berth_error *err)
{
	for (size_t i = 0; i < policy->n_meters; i++) {
		add(tariffs, berth_proto_clone(policy->meters[i]));
	}
	for (size_t i = 0; i < policy->n_rates; i++) {
		const Berth__V1__Rate *rate = policy->rates[i];
		if (!derive(tariffs, rate, err)) {
			return berth_error_wrap(err, "rate of %.64s %.64s with %lld CPUs and %lld MB", rate->backend,
				rate->role, (long long)rate->cpu_count, (long long)rate->memory_mb);
		}
	}
	qsort(tariffs->items, tariffs->count, sizeof *tariffs->items, compare);
	for (size_t i = 1; i < tariffs->count; i++) {
		if (compare(&tariffs->items[i - 1], &tariffs->items[i]) == 0) {
			return berth_fail(err, BERTH_ERROR_INVALID,
				"meters.%s: a meter that a rate gives has this id: name yours otherwise",
				tariffs->items[i]->meter_id);
		}
	}
	return true;
}

struct berth_tariffs *berth_tariffs_new(const Berth__V1__BudgetPolicy *policy, struct berth_error *err)
{
	if (!berth_policy_check(policy, err)) {
		return NULL;
	}
	struct berth_tariffs *tariffs = berth_alloc(sizeof *tariffs);
	if (!fill(tariffs, policy, err)) {
		berth_tariffs_free(tariffs);
		return NULL;
	}
	return tariffs;
}

void berth_tariffs_free(struct berth_tariffs *tariffs)
{
	if (tariffs) {
		for (size_t i = 0; i < tariffs->count; i++) {
			berth_proto_free(tariffs->items[i]);
		}
		free(tariffs->items);
		free(tariffs);
	}
}

const Berth__V1__Meter *berth_tariffs_find(const struct berth_tariffs *tariffs, const char *meter_id)
{
	Berth__V1__Meter wanted = {.meter_id = (char *)meter_id};
	const Berth__V1__Meter *key = &wanted;
	Berth__V1__Meter **found = bsearch(&key, tariffs->items, tariffs->count, sizeof *tariffs->items, compare);
	return found ? *found : NULL;
}

size_t berth_tariffs_count(const struct berth_tariffs *tariffs)
{
	return tariffs->count;
}

const Berth__V1__Meter *berth_tariffs_at(const struct berth_tariffs *tariffs, size_t index)
{
	return tariffs->items[index];
}
