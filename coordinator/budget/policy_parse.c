// SPDX-License-Identifier: Apache-2.0
// JSON to policy: types, required and unknown fields. What the values may be is berth_policy_check's.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/policy.h"
#include "coordinator/budget/text.h"

#define PATH_SIZE 256
#define REQUIRED  (-1) // as a default: there is none

// One object of the document and where it stands.
struct reader {
	const berth_json *object;
	char path[PATH_SIZE]; // ends with "." unless it is empty
	struct berth_error *err;
};

static bool fail(const struct reader *reader, const char *key, const char *what)
{
	return berth_fail(reader->err, BERTH_ERROR_INVALID, "%s%.64s: %s", reader->path, key, what);
}

static bool is_listed(const char *key, const char *list)
{
	size_t size = strlen(key);
	for (const char *at = list; (at = strstr(at, key)); at += size) {
		if ((at == list || at[-1] == ' ') && (at[size] == ' ' || at[size] == 0)) {
			return true;
		}
	}
	return false;
}

// `fields` are the names that may stand there, with spaces between.
static bool open_object(struct reader *reader, const berth_json *value, const char *fields)
{
	if (!berth_json_is(value, BERTH_JSON_OBJECT)) {
		return berth_fail(
			reader->err, BERTH_ERROR_INVALID, "%s is not an object", reader->path[0] ? reader->path : "it");
	}
	reader->object = value;
	void *cursor = NULL;
	const char *key;
	while (fields && berth_json_next(value, &cursor, &key, NULL)) {
		if (!key[0] || strchr(key, ' ') || !is_listed(key, fields)) {
			return fail(reader, key, "unknown field");
		}
	}
	return true;
}

static struct reader inner(const struct reader *outer, const char *key)
{
	struct reader reader = {.err = outer->err};
	// Cut where names are overlong: it only stands in messages.
	BERTH_AUTO_FREE char *path = berth_format("%s%s.", outer->path, key);
	snprintf(reader.path, sizeof reader.path, "%s", path);
	return reader;
}

static bool read_integer(const struct reader *reader, const char *key, int64_t fallback, int64_t *out)
{
	const berth_json *value = berth_json_get(reader->object, key);
	if (!value) {
		*out = fallback;
		return fallback != REQUIRED || fail(reader, key, "is missing");
	}
	if (!berth_json_is(value, BERTH_JSON_INTEGER)) {
		return fail(reader, key, "is not a whole number");
	}
	*out = berth_json_as_integer(value);
	return *out >= 0 || fail(reader, key, "is negative");
}

static bool read_text(const struct reader *reader, const char *key, const char *fallback, char **out)
{
	const berth_json *value = berth_json_get(reader->object, key);
	if (!value) {
		berth_proto_set_string(out, fallback);
		return fallback || fail(reader, key, "is missing");
	}
	const char *text = berth_json_as_string(value);
	if (!text || strlen(text) != berth_json_string_size(value)) {
		return fail(reader, key, "is not text");
	}
	berth_proto_set_string(out, text);
	return true;
}

static bool read_authority(const struct reader *outer, Berth__V1__TimedMeter *meter)
{
	const char *key = "external_spend_authority";
	const berth_json *value = berth_json_get(outer->object, key);
	if (!value || berth_json_is(value, BERTH_JSON_NULL)) {
		return true;
	}
	struct reader reader = inner(outer, key);
	meter->external_spend_authority = berth_alloc(sizeof *meter->external_spend_authority);
	Berth__V1__ExternalSpendAuthority *authority = meter->external_spend_authority;
	berth__v1__external_spend_authority__init(authority);
	return open_object(&reader, value, "provider account_identity verifier_digest") &&
	       read_text(&reader, "provider", NULL, &authority->provider) &&
	       read_text(&reader, "account_identity", NULL, &authority->account_identity) &&
	       read_text(&reader, "verifier_digest", NULL, &authority->verifier_digest);
}

static bool read_timed(struct reader *reader, const berth_json *value, Berth__V1__Meter *meter)
{
	meter->kind_case = BERTH__V1__METER__KIND_TIMED;
	meter->timed = berth_alloc(sizeof *meter->timed);
	Berth__V1__TimedMeter *timed = meter->timed;
	berth__v1__timed_meter__init(timed);
	return open_object(reader, value,
		       "kind resource_type resource_class_digest fixed_nano_usd nano_usd_per_second "
		       "billing_quantum_seconds max_billing_seconds external_spend_authority") &&
	       read_text(reader, "resource_type", NULL, &timed->resource_type) &&
	       read_text(reader, "resource_class_digest", NULL, &timed->resource_class_digest) &&
	       read_integer(reader, "fixed_nano_usd", 0, &timed->fixed_nano_usd) &&
	       read_integer(reader, "nano_usd_per_second", 0, &timed->nano_usd_per_second) &&
	       read_integer(reader, "billing_quantum_seconds", 1, &timed->billing_quantum_seconds) &&
	       read_integer(reader, "max_billing_seconds", REQUIRED, &timed->max_billing_seconds) &&
	       read_authority(reader, timed);
}

static bool read_tokens(struct reader *reader, const berth_json *value, Berth__V1__Meter *meter)
{
	meter->kind_case = BERTH__V1__METER__KIND_TOKENS;
	meter->tokens = berth_alloc(sizeof *meter->tokens);
	Berth__V1__TokenMeter *tokens = meter->tokens;
	berth__v1__token_meter__init(tokens);
	struct reader price = inner(reader, "price");
	return open_object(reader, value, "kind provider_config price input_estimator input_overhead_tokens") &&
	       read_text(reader, "provider_config", NULL, &tokens->provider_config) &&
	       read_text(reader, "input_estimator", "canonical-json-utf8-v1", &tokens->input_estimator) &&
	       read_integer(reader, "input_overhead_tokens", 8192, &tokens->input_overhead_tokens) &&
	       open_object(
		       &price, berth_json_get(value, "price"), "input_nano_usd_per_token output_nano_usd_per_token") &&
	       read_integer(&price, "input_nano_usd_per_token", REQUIRED, &tokens->input_nano_usd_per_token) &&
	       read_integer(&price, "output_nano_usd_per_token", REQUIRED, &tokens->output_nano_usd_per_token);
}

static bool read_meter(
	const struct reader *outer, const char *id, const berth_json *value, Berth__V1__BudgetPolicy *policy)
{
	if (policy->n_meters == BERTH_POLICY_METERS_MAX) {
		return fail(outer, id, "is one meter too many");
	}
	Berth__V1__Meter *meter = berth_alloc(sizeof *meter);
	berth__v1__meter__init(meter);
	berth_proto_append(&policy->n_meters, &policy->meters, meter);
	berth_proto_set_string(&meter->meter_id, id);
	struct reader reader = inner(outer, id);
	if (!berth_json_is(value, BERTH_JSON_OBJECT)) {
		return fail(outer, id, "is not an object");
	}
	const char *kind = berth_json_get_string(value, "kind");
	if (kind && strcmp(kind, "timed_resource") == 0) {
		return read_timed(&reader, value, meter);
	}
	if (kind && strcmp(kind, "provider_tokens") == 0) {
		return read_tokens(&reader, value, meter);
	}
	return fail(&reader, "kind", "is neither timed_resource nor provider_tokens");
}

static bool read_meters(const struct reader *outer, Berth__V1__BudgetPolicy *policy)
{
	struct reader reader = inner(outer, "meters");
	void *cursor = NULL;
	const char *id;
	berth_json *value;
	const berth_json *meters = berth_json_get(outer->object, "meters");
	if (!meters && berth_json_get(outer->object, "rates")) {
		return true;
	}
	if (!open_object(&reader, meters, NULL)) {
		return false;
	}
	while (berth_json_next(meters, &cursor, &id, &value)) {
		if (!read_meter(&reader, id, value, policy)) {
			return false;
		}
	}
	return true;
}

static bool read_phases(const struct reader *outer, Berth__V1__BudgetPolicy *policy)
{
	struct reader reader = inner(outer, "phase_limits_nano_usd");
	const berth_json *phases = berth_json_get(outer->object, "phase_limits_nano_usd");
	void *cursor = NULL;
	const char *phase;
	if (!open_object(&reader, phases, NULL)) {
		return false;
	}
	while (berth_json_next(phases, &cursor, &phase, NULL)) {
		if (policy->n_phase_limits == BERTH_POLICY_PHASES_MAX) {
			return fail(&reader, phase, "is one phase too many");
		}
		Berth__V1__PhaseLimit *limit = berth_alloc(sizeof *limit);
		berth__v1__phase_limit__init(limit);
		berth_proto_append(&policy->n_phase_limits, &policy->phase_limits, limit);
		berth_proto_set_string(&limit->phase, phase);
		if (!read_integer(&reader, phase, REQUIRED, &limit->limit_nano_usd)) {
			return false;
		}
	}
	return true;
}

static bool read_rate(
	const struct reader *outer, const berth_json *value, size_t index, Berth__V1__BudgetPolicy *policy)
{
	char place[32];
	snprintf(place, sizeof place, "rates[%zu]", index);
	struct reader reader = inner(outer, place);
	Berth__V1__Rate *rate = berth_alloc(sizeof *rate);
	berth__v1__rate__init(rate);
	berth_proto_append(&policy->n_rates, &policy->rates, rate);
	return open_object(&reader, value,
		       "backend role cpu_count memory_mb fixed_nano_usd nano_usd_per_second billing_quantum_seconds "
		       "create_request_timeout_seconds cleanup_horizon_seconds provider_ttl_max_seconds") &&
	       read_text(&reader, "backend", NULL, &rate->backend) && read_text(&reader, "role", NULL, &rate->role) &&
	       read_integer(&reader, "cpu_count", REQUIRED, &rate->cpu_count) &&
	       read_integer(&reader, "memory_mb", REQUIRED, &rate->memory_mb) &&
	       read_integer(&reader, "fixed_nano_usd", 0, &rate->fixed_nano_usd) &&
	       read_integer(&reader, "nano_usd_per_second", 0, &rate->nano_usd_per_second) &&
	       read_integer(&reader, "billing_quantum_seconds", 1, &rate->billing_quantum_seconds) &&
	       read_integer(&reader, "create_request_timeout_seconds", 253, &rate->create_request_timeout_seconds) &&
	       read_integer(&reader, "cleanup_horizon_seconds", 600, &rate->cleanup_horizon_seconds) &&
	       read_integer(&reader, "provider_ttl_max_seconds", 86400, &rate->provider_ttl_max_seconds);
}

static bool read_additions(const struct reader *reader, Berth__V1__BudgetPolicy *policy)
{
	const berth_json *rates = berth_json_get(reader->object, "rates");
	const berth_json *forfeit = berth_json_get(reader->object, "forfeit_undispatched");
	if (rates && (!berth_json_is(rates, BERTH_JSON_ARRAY) || berth_json_size(rates) > BERTH_POLICY_RATES_MAX)) {
		return fail(reader, "rates", "is not a list, or is too long");
	}
	for (size_t i = 0; i < berth_json_size(rates); i++) {
		if (!read_rate(reader, berth_json_at(rates, i), i, policy)) {
			return false;
		}
	}
	if (forfeit && !berth_json_is(forfeit, BERTH_JSON_BOOL)) {
		return fail(reader, "forfeit_undispatched", "is neither true nor false");
	}
	policy->forfeit_undispatched = berth_json_as_bool(forfeit);
	return read_integer(reader, "job_limit_nano_usd", 0, &policy->job_limit_nano_usd) &&
	       read_integer(reader, "user_limit_nano_usd", 0, &policy->user_limit_nano_usd);
}

static bool read_policy(const berth_json *document, Berth__V1__BudgetPolicy *policy, struct berth_error *err)
{
	struct reader reader = {.err = err};
	return open_object(&reader, document,
		       "study_id manifest_digest hard_limit_nano_usd phase_limits_nano_usd meters rates "
		       "job_limit_nano_usd user_limit_nano_usd forfeit_undispatched") &&
	       read_text(&reader, "study_id", NULL, &policy->study_id) &&
	       read_text(&reader, "manifest_digest", NULL, &policy->manifest_digest) &&
	       read_integer(&reader, "hard_limit_nano_usd", REQUIRED, &policy->hard_limit_nano_usd) &&
	       read_phases(&reader, policy) && read_meters(&reader, policy) && read_additions(&reader, policy);
}

Berth__V1__BudgetPolicy *berth_policy_parse(const void *text, size_t size, const char *name, struct berth_error *err)
{
	struct berth_error why = {0};
	if (size > BERTH_POLICY_SIZE_MAX) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s is larger than %d bytes", name, BERTH_POLICY_SIZE_MAX);
		return NULL;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *document = berth_json_parse_unique(text, size, name, err);
	if (!document) {
		return NULL;
	}
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__BudgetPolicy *policy = berth_alloc(sizeof *policy);
	berth__v1__budget_policy__init(policy);
	bool fine = read_policy(document, policy, &why);
	struct berth_tariffs *tariffs = NULL;
	if (fine) {
		berth_policy_sort(policy);
		tariffs = berth_tariffs_new(policy, &why);
		berth_tariffs_free(tariffs);
	}
	if (!tariffs) {
		berth_fail(err, why.code, "%s: %s", name, why.message);
		return NULL;
	}
	return BERTH_STEAL(policy);
}
