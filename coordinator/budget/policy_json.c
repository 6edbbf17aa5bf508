// SPDX-License-Identifier: Apache-2.0
#include "common/base/mem.h"
#include "coordinator/budget/policy.h"

static void set_integer(berth_json *object, const char *key, int64_t value)
{
	berth_json_set(object, key, berth_json_integer(value));
}

static void set_text(berth_json *object, const char *key, const char *value)
{
	berth_json_set(object, key, berth_json_string(value));
}

static berth_json *timed_json(const Berth__V1__TimedMeter *meter)
{
	berth_json *object = berth_json_object();
	set_text(object, "kind", "timed_resource");
	set_text(object, "resource_type", meter->resource_type);
	set_text(object, "resource_class_digest", meter->resource_class_digest);
	set_integer(object, "fixed_nano_usd", meter->fixed_nano_usd);
	set_integer(object, "nano_usd_per_second", meter->nano_usd_per_second);
	set_integer(object, "billing_quantum_seconds", meter->billing_quantum_seconds);
	set_integer(object, "max_billing_seconds", meter->max_billing_seconds);
	const Berth__V1__ExternalSpendAuthority *authority = meter->external_spend_authority;
	if (authority) {
		berth_json *inner = berth_json_object();
		set_text(inner, "provider", authority->provider);
		set_text(inner, "account_identity", authority->account_identity);
		set_text(inner, "verifier_digest", authority->verifier_digest);
		berth_json_set(object, "external_spend_authority", inner);
	}
	return object;
}

static berth_json *tokens_json(const Berth__V1__TokenMeter *meter)
{
	berth_json *object = berth_json_object(), *price = berth_json_object();
	set_text(object, "kind", "provider_tokens");
	set_text(object, "provider_config", meter->provider_config);
	set_integer(price, "input_nano_usd_per_token", meter->input_nano_usd_per_token);
	set_integer(price, "output_nano_usd_per_token", meter->output_nano_usd_per_token);
	berth_json_set(object, "price", price);
	set_text(object, "input_estimator", meter->input_estimator);
	set_integer(object, "input_overhead_tokens", meter->input_overhead_tokens);
	return object;
}

static berth_json *rate_json(const Berth__V1__Rate *rate)
{
	berth_json *object = berth_json_object();
	set_text(object, "backend", rate->backend);
	set_text(object, "role", rate->role);
	set_integer(object, "cpu_count", rate->cpu_count);
	set_integer(object, "memory_mb", rate->memory_mb);
	set_integer(object, "fixed_nano_usd", rate->fixed_nano_usd);
	set_integer(object, "nano_usd_per_second", rate->nano_usd_per_second);
	set_integer(object, "billing_quantum_seconds", rate->billing_quantum_seconds);
	set_integer(object, "create_request_timeout_seconds", rate->create_request_timeout_seconds);
	set_integer(object, "cleanup_horizon_seconds", rate->cleanup_horizon_seconds);
	set_integer(object, "provider_ttl_max_seconds", rate->provider_ttl_max_seconds);
	return object;
}

static void set_additions(berth_json *object, const Berth__V1__BudgetPolicy *policy)
{
	if (policy->n_rates > 0) {
		berth_json *rates = berth_json_array();
		for (size_t i = 0; i < policy->n_rates; i++) {
			berth_json_append(rates, rate_json(policy->rates[i]));
		}
		berth_json_set(object, "rates", rates);
	}
	if (policy->job_limit_nano_usd) {
		set_integer(object, "job_limit_nano_usd", policy->job_limit_nano_usd);
	}
	if (policy->user_limit_nano_usd) {
		set_integer(object, "user_limit_nano_usd", policy->user_limit_nano_usd);
	}
	if (policy->forfeit_undispatched) {
		berth_json_set(object, "forfeit_undispatched", berth_json_bool(true));
	}
}

berth_json *berth_policy_json(const Berth__V1__BudgetPolicy *policy)
{
	berth_json *object = berth_json_object(), *phases = berth_json_object(), *meters = berth_json_object();
	set_text(object, "study_id", policy->study_id);
	set_text(object, "manifest_digest", policy->manifest_digest);
	set_integer(object, "hard_limit_nano_usd", policy->hard_limit_nano_usd);
	for (size_t i = 0; i < policy->n_phase_limits; i++) {
		set_integer(phases, policy->phase_limits[i]->phase, policy->phase_limits[i]->limit_nano_usd);
	}
	berth_json_set(object, "phase_limits_nano_usd", phases);
	for (size_t i = 0; i < policy->n_meters; i++) {
		const Berth__V1__Meter *meter = policy->meters[i];
		berth_json_set(meters, meter->meter_id,
			meter->kind_case == BERTH__V1__METER__KIND_TIMED ? timed_json(meter->timed)
									 : tokens_json(meter->tokens));
	}
	berth_json_set(object, "meters", meters);
	set_additions(object, policy);
	return object;
}

bool berth_policy_digest(const Berth__V1__BudgetPolicy *policy, struct berth_digest *digest, struct berth_error *err)
{
	if (!berth_policy_check(policy, err)) {
		return false;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *object = berth_policy_json(policy);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_json_write_canonical(object, &text, err)) {
		return false;
	}
	*digest = berth_sha256(text.data, text.size);
	return true;
}
