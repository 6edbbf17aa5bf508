// SPDX-License-Identifier: Apache-2.0
#include "coordinator/budget/policy.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/budget/charge.h"
#include "coordinator/budget/money.h"
#include "coordinator/budget/resource_class.h"
#include "coordinator/budget/text.h"

#define RESOURCE_TYPE_MAX 64

static int compare_phases(const void *a, const void *b)
{
	return strcmp((*(Berth__V1__PhaseLimit *const *)a)->phase, (*(Berth__V1__PhaseLimit *const *)b)->phase);
}

static int compare_meters(const void *a, const void *b)
{
	return strcmp((*(Berth__V1__Meter *const *)a)->meter_id, (*(Berth__V1__Meter *const *)b)->meter_id);
}

static int compare_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_rates(const void *a, const void *b)
{
	const Berth__V1__Rate *left = *(Berth__V1__Rate *const *)a, *right = *(Berth__V1__Rate *const *)b;
	int order = strcmp(left->backend, right->backend);
	order = order ? order : strcmp(left->role, right->role);
	order = order ? order : compare_numbers(left->cpu_count, right->cpu_count);
	return order ? order : compare_numbers(left->memory_mb, right->memory_mb);
}

static void sort(void *list, size_t count, int (*compare)(const void *, const void *))
{
	if (count > 1) {
		qsort(list, count, sizeof(void *), compare);
	}
}

void berth_policy_sort(Berth__V1__BudgetPolicy *policy)
{
	sort(policy->phase_limits, policy->n_phase_limits, compare_phases);
	sort(policy->meters, policy->n_meters, compare_meters);
	sort(policy->rates, policy->n_rates, compare_rates);
}

// Strictly ascending: sorted, and nothing twice.
static bool ascends(void *list, size_t count, int (*compare)(const void *, const void *))
{
	void *const *items = list;
	for (size_t i = 1; i < count; i++) {
		if (compare(&items[i - 1], &items[i]) >= 0) {
			return false;
		}
	}
	return true;
}

static bool check_authority(const Berth__V1__ExternalSpendAuthority *authority, struct berth_error *err)
{
	if (!text_is_name(authority->provider, BERTH_POLICY_TEXT_MAX) ||
		!text_is_name(authority->account_identity, BERTH_POLICY_TEXT_MAX) ||
		!text_is_digest(authority->verifier_digest)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"external_spend_authority needs provider, account_identity and verifier_digest (sha256:...)");
	}
	return true;
}

static bool check_timed(const Berth__V1__TimedMeter *meter, struct berth_error *err)
{
	if (!text_is_dotted(meter->resource_type, RESOURCE_TYPE_MAX)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"resource_type is 1 to %d of a-z 0-9 _ . - and starts with a letter", RESOURCE_TYPE_MAX);
	}
	if (!text_is_digest(meter->resource_class_digest)) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "resource_class_digest is sha256: and 64 lowercase hex digits");
	}
	if (meter->fixed_nano_usd < 0 || meter->nano_usd_per_second < 0 ||
		(meter->fixed_nano_usd == 0 && meter->nano_usd_per_second == 0)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"fixed_nano_usd and nano_usd_per_second are not negative, and one is above 0");
	}
	if (meter->billing_quantum_seconds < 1 || meter->max_billing_seconds < 1) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "billing_quantum_seconds and max_billing_seconds are at least 1");
	}
	int64_t ceiling;
	return (!meter->external_spend_authority || check_authority(meter->external_spend_authority, err)) &&
	       (berth_charge_ceiling(meter, &ceiling, err) || berth_error_wrap(err, "the most that it can charge"));
}

static bool check_tokens(const Berth__V1__TokenMeter *meter, struct berth_error *err)
{
	if (!text_is_name(meter->provider_config, BERTH_POLICY_TEXT_MAX)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "provider_config is missing or blank");
	}
	if (meter->input_nano_usd_per_token < 0 || meter->output_nano_usd_per_token < 0 ||
		(meter->input_nano_usd_per_token == 0 && meter->output_nano_usd_per_token == 0)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "prices of tokens are not negative, and one is above 0");
	}
	if (strcmp(meter->input_estimator, "canonical-json-utf8-v1") != 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "input_estimator is canonical-json-utf8-v1");
	}
	if (meter->input_overhead_tokens < 1) {
		return berth_fail(err, BERTH_ERROR_INVALID, "input_overhead_tokens is at least 1");
	}
	return true;
}

static bool check_meter(const Berth__V1__Meter *meter, struct berth_error *err)
{
	if (!text_is_name(meter->meter_id, BERTH_METER_NAME_MAX)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a meter's id is blank, too long or not trimmed");
	}
	bool fine = meter->kind_case == BERTH__V1__METER__KIND_TIMED ? check_timed(meter->timed, err)
	            : meter->kind_case == BERTH__V1__METER__KIND_TOKENS
	                    ? check_tokens(meter->tokens, err)
	                    : berth_fail(err, BERTH_ERROR_INVALID, "it has no kind");
	return fine || berth_error_wrap(err, "meters.%s", meter->meter_id);
}

static bool check_limits(const Berth__V1__BudgetPolicy *policy, struct berth_error *err)
{
	if (policy->hard_limit_nano_usd < 1) {
		return berth_fail(err, BERTH_ERROR_INVALID, "hard_limit_nano_usd is at least 1");
	}
	if (policy->job_limit_nano_usd < 0 || policy->user_limit_nano_usd < 0) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "job_limit_nano_usd and user_limit_nano_usd are not negative");
	}
	if (policy->n_phase_limits == 0 || policy->n_phase_limits > BERTH_POLICY_PHASES_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "phase_limits_nano_usd names 1 to %d phases",
			BERTH_POLICY_PHASES_MAX);
	}
	int64_t sum = 0;
	for (size_t i = 0; i < policy->n_phase_limits; i++) {
		const Berth__V1__PhaseLimit *limit = policy->phase_limits[i];
		if (!text_is_name(limit->phase, BERTH_METER_NAME_MAX)) {
			return berth_fail(err, BERTH_ERROR_INVALID, "a phase's name is blank, too long or not trimmed");
		}
		if (!berth_money_add(sum, limit->limit_nano_usd, &sum, err)) {
			return berth_error_wrap(err, "phase_limits_nano_usd.%s", limit->phase);
		}
	}
	if (sum > policy->hard_limit_nano_usd) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"the phase limits sum to %lld nano-USD, above the hard limit of %lld", (long long)sum,
			(long long)policy->hard_limit_nano_usd);
	}
	return true;
}

bool berth_policy_check(const Berth__V1__BudgetPolicy *policy, struct berth_error *err)
{
	if (!text_is_name(policy->study_id, BERTH_POLICY_TEXT_MAX)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "study_id is blank, too long or not trimmed");
	}
	if (!text_is_digest(policy->manifest_digest)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "manifest_digest is sha256: and 64 lowercase hex digits");
	}
	if (policy->n_meters > BERTH_POLICY_METERS_MAX || policy->n_rates > BERTH_POLICY_RATES_MAX ||
		policy->n_meters + policy->n_rates == 0) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"a policy has a meter or a rate, and at most %d meters and %d rates", BERTH_POLICY_METERS_MAX,
			BERTH_POLICY_RATES_MAX);
	}
	if (!ascends(policy->phase_limits, policy->n_phase_limits, compare_phases) ||
		!ascends(policy->meters, policy->n_meters, compare_meters) ||
		!ascends(policy->rates, policy->n_rates, compare_rates)) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "a phase, a meter or a rate is given twice or out of order");
	}
	for (size_t i = 0; i < policy->n_meters; i++) {
		if (!check_meter(policy->meters[i], err)) {
			return false;
		}
	}
	return check_limits(policy, err);
}
