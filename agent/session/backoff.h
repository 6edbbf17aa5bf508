// SPDX-License-Identifier: Apache-2.0
// Pauses between attempts: full jitter below a doubling bound, so that a fleet that lost its coordinator comes back
// spread out.
#pragma once

#include <stdint.h>

#include "common/base/digest.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MOST_MS  5000
#define BACKOFF_DOUBLES  6

// `attempt` counts from 0.
static inline int64_t backoff_ms(unsigned attempt)
{
	uint64_t bound = (uint64_t)BACKOFF_FIRST_MS << (attempt < BACKOFF_DOUBLES ? attempt : BACKOFF_DOUBLES);
	bound = bound < BACKOFF_MOST_MS ? bound : BACKOFF_MOST_MS;
	uint32_t random;
	berth_random(&random, sizeof random);
	return (int64_t)(random % bound) + 1;
}
