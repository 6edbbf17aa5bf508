// SPDX-License-Identifier: Apache-2.0
// A budget's policy: what may be spent, and what everything costs. Its JSON is read strictly: an unknown, duplicate or
// missing field is refused by name, and nothing is coerced. Its digest is SHA-256 of the canonical JSON, in which what
// is empty and younger than the first ledgers (external_spend_authority, rates, sub-limits, forfeit_undispatched) is
// left out, so that a digest never changes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/v1/budget.pb-c.h"
#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/codec/json.h"

#define BERTH_POLICY_SIZE_MAX   (256 * 1024)
#define BERTH_POLICY_PHASES_MAX 64
#define BERTH_POLICY_METERS_MAX 256
#define BERTH_POLICY_RATES_MAX  64
#define BERTH_POLICY_TEXT_MAX   512 // bytes of a name, an account, a provider configuration
#define BERTH_METER_NAME_MAX    128 // bytes of a meter's id, and of a phase

// A checked and sorted policy; the caller frees it with berth_proto_free. `name` stands in errors.
Berth__V1__BudgetPolicy *berth_policy_parse(const void *text, size_t size, const char *name, struct berth_error *err);
// Phases by name, meters by id, rates by machine, as everything else wants them. For a policy from the wire.
void berth_policy_sort(Berth__V1__BudgetPolicy *policy);
// INVALID names the field. Every meter's ceiling is computed, so that an overflow shows here.
bool berth_policy_check(const Berth__V1__BudgetPolicy *policy, struct berth_error *err);
berth_json *berth_policy_json(const Berth__V1__BudgetPolicy *policy);
bool berth_policy_digest(const Berth__V1__BudgetPolicy *policy, struct berth_digest *digest, struct berth_error *err);

// Every meter of a policy, those derived from its rates too. It owns copies. NULL with INVALID when the policy does not
// check or a derived meter has the id of another.
struct berth_tariffs *berth_tariffs_new(const Berth__V1__BudgetPolicy *policy, struct berth_error *err);
void berth_tariffs_free(struct berth_tariffs *tariffs); // NULL is allowed
const Berth__V1__Meter *berth_tariffs_find(const struct berth_tariffs *tariffs, const char *meter_id); // NULL: none
size_t berth_tariffs_count(const struct berth_tariffs *tariffs);
const Berth__V1__Meter *berth_tariffs_at(const struct berth_tariffs *tariffs, size_t index); // by id
