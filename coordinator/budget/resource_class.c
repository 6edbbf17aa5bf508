// SPDX-License-Identifier: Apache-2.0
#include "coordinator/budget/resource_class.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/json.h"
#include "coordinator/budget/money.h"

#define SCHEMA_VERSION 1

static const int64_t ladder_seconds[BERTH_TTL_LADDER_COUNT] = {900, 3600, 7200, 14400, 28800, 86400};

static const char *const roles[] = {
	[BERTH__V1__LEASE_ROLE__AGENT_RUNNER] = "agent_runner",
	[BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT] = "task_environment",
	[BERTH__V1__LEASE_ROLE__VERIFIER_ENVIRONMENT] = "verifier_environment",
	[BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT_BUILD] = "task_environment_build",
	[BERTH__V1__LEASE_ROLE__PROPOSER_PROJECT] = "proposer_project",
};

const char *berth_resource_role(Berth__V1__LeaseRole role)
{
	return role > 0 && (size_t)role < BERTH_COUNT(roles) ? roles[role] : NULL;
}

static bool is_role(const char *text)
{
	for (size_t i = 1; i < BERTH_COUNT(roles); i++) {
		if (strcmp(roles[i], text) == 0) {
			return true;
		}
	}
	return false;
}

bool berth_resource_class_check(const struct berth_resource_class *class, struct berth_error *err)
{
	if (strcmp(class->backend, "local") != 0 && strcmp(class->backend, "e2b") != 0) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "backend \"%.64s\" is neither local nor e2b", class->backend);
	}
	if (!is_role(class->role)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "\"%.64s\" is no role of a lease", class->role);
	}
	if (class->cpu_count < 1 || class->memory_mb < 1 || class->provider_ttl_seconds < 1 ||
		class->create_request_timeout_seconds < 1 || class->cleanup_horizon_seconds < 1) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"CPU count, memory, time to live, create timeout and cleanup horizon are each at least 1");
	}
	return true;
}

bool berth_resource_class_digest(
	const struct berth_resource_class *class, struct berth_digest *digest, struct berth_error *err)
{
	if (!berth_resource_class_check(class, err)) {
		return false;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *object = berth_json_object();
	berth_json_set(object, "schema_version", berth_json_integer(SCHEMA_VERSION));
	berth_json_set(object, "backend", berth_json_string(class->backend));
	berth_json_set(object, "role", berth_json_string(class->role));
	berth_json_set(object, "cpu_count", berth_json_integer(class->cpu_count));
	berth_json_set(object, "memory_mb", berth_json_integer(class->memory_mb));
	berth_json_set(object, "provider_ttl_seconds", berth_json_integer(class->provider_ttl_seconds));
	berth_json_set(
		object, "create_request_timeout_seconds", berth_json_integer(class->create_request_timeout_seconds));
	berth_json_set(object, "cleanup_horizon_seconds", berth_json_integer(class->cleanup_horizon_seconds));
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_json_write_canonical(object, &text, err)) {
		return false;
	}
	*digest = berth_sha256(text.data, text.size);
	return true;
}

bool berth_resource_class_horizon(const struct berth_resource_class *class, int64_t *seconds, struct berth_error *err)
{
	int64_t sum;
	if (!berth_money_add(class->create_request_timeout_seconds, class->provider_ttl_seconds, &sum, NULL) ||
		!berth_money_add(sum, class->cleanup_horizon_seconds, &sum, NULL)) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "create, life and cleanup are longer than 63 bits of seconds");
	}
	*seconds = sum;
	return true;
}

bool berth_resource_class_fits_meter(
	const struct berth_resource_class *class, const Berth__V1__Meter *meter, struct berth_error *err)
{
	const Berth__V1__TimedMeter *timed = meter->kind_case == BERTH__V1__METER__KIND_TIMED ? meter->timed : NULL;
	if (!timed) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "meter %s prices tokens, not time", meter->meter_id);
	}
	struct berth_digest digest;
	int64_t horizon;
	if (!berth_resource_class_digest(class, &digest, err) || !berth_resource_class_horizon(class, &horizon, err)) {
		return false;
	}
	if (strcmp(timed->resource_type, class->role) != 0) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "meter %s: its role %s differs from %s", meter->meter_id,
			timed->resource_type, class->role);
	}
	char text[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&digest, text);
	if (strcmp(timed->resource_class_digest, text) != 0) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "meter %s: its class differs from the resource's, %s",
			meter->meter_id, text);
	}
	if (timed->max_billing_seconds < horizon) {
		return berth_fail(err, BERTH_ERROR_CORRUPT,
			"meter %s bills %lld s at most, below the horizon of %lld s", meter->meter_id,
			(long long)timed->max_billing_seconds, (long long)horizon);
	}
	return true;
}

bool berth_resource_ttl(int64_t needed_seconds, int64_t plan_max_seconds, int64_t *seconds, struct berth_error *err)
{
	int64_t most = ladder_seconds[BERTH_TTL_LADDER_COUNT - 1];
	most = plan_max_seconds < most ? plan_max_seconds : most;
	if (needed_seconds < 1 || needed_seconds > most) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"%lld s are needed, and a resource may live 1 to %lld s: shorten the timeouts of the task",
			(long long)needed_seconds, (long long)most);
	}
	size_t step = 0;
	while (ladder_seconds[step] < needed_seconds) {
		step++;
	}
	*seconds = ladder_seconds[step] < most ? ladder_seconds[step] : most;
	return true;
}

bool berth_resource_class_of_rate(const Berth__V1__Rate *rate, int64_t needed_seconds,
	struct berth_resource_class *class, struct berth_error *err)
{
	*class = (struct berth_resource_class){
		.backend = rate->backend,
		.role = rate->role,
		.cpu_count = rate->cpu_count,
		.memory_mb = rate->memory_mb,
		.create_request_timeout_seconds = rate->create_request_timeout_seconds,
		.cleanup_horizon_seconds = rate->cleanup_horizon_seconds,
	};
	return berth_resource_ttl(needed_seconds, rate->provider_ttl_max_seconds, &class->provider_ttl_seconds, err);
}

void berth_resource_class_meter_id(const struct berth_resource_class *class, char id[static BERTH_METER_ID_SIZE])
{
	snprintf(id, BERTH_METER_ID_SIZE, "%s.%s.c%lld.m%lld.t%lld", class->backend, class->role,
		(long long)class->cpu_count, (long long)class->memory_mb, (long long)class->provider_ttl_seconds);
}
