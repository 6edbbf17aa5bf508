// SPDX-License-Identifier: Apache-2.0
// A class of timed resources: what a machine is and how long it may exist at most. Processor and memory enter a price
// only through the class: a meter names the digest of its class, and its rate is an upper bound for that class.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "berth/v1/budget.pb-c.h"
#include "common/base/digest.h"
#include "common/base/error.h"

#define BERTH_METER_ID_SIZE    129
#define BERTH_TTL_LADDER_COUNT 6 // 15 min, 1, 2, 4, 8 and 24 h

struct berth_resource_class {
	const char *backend; // "local" or "e2b"
	const char *role;    // of berth_resource_role
	int64_t cpu_count, memory_mb, provider_ttl_seconds, create_request_timeout_seconds, cleanup_horizon_seconds;
};

// The name of a lease role in policies and classes; NULL for none.
const char *berth_resource_role(Berth__V1__LeaseRole role);

bool berth_resource_class_check(const struct berth_resource_class *class, struct berth_error *err);
bool berth_resource_class_digest(
	const struct berth_resource_class *class, struct berth_digest *digest, struct berth_error *err);
// Create, life and cleanup together: the longest that a host may have to watch it. INVALID on overflow.
bool berth_resource_class_horizon(const struct berth_resource_class *class, int64_t *seconds, struct berth_error *err);
// A meter prices this class and no other, and long enough. CORRUPT says what differs.
bool berth_resource_class_fits_meter(
	const struct berth_resource_class *class, const Berth__V1__Meter *meter, struct berth_error *err);

// The time to live that a trial gets which needs `needed_seconds`: up the ladder, and at most the plan's limit. INVALID
// when the plan does not allow what it needs.
bool berth_resource_ttl(int64_t needed_seconds, int64_t plan_max_seconds, int64_t *seconds, struct berth_error *err);
// The class of a rate at that time to live; it borrows the rate's texts. And the id of its derived meter.
bool berth_resource_class_of_rate(const Berth__V1__Rate *rate, int64_t needed_seconds,
	struct berth_resource_class *class, struct berth_error *err);
void berth_resource_class_meter_id(const struct berth_resource_class *class, char id[static BERTH_METER_ID_SIZE]);
