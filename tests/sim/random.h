// SPDX-License-Identifier: Apache-2.0
// Streams of numbers that a seed alone decides (SplitMix64). Each part of a run draws from a stream of its own, so that
// leaving a fault out does not change what the others do.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum sim_random_use {
	SIM_STREAM_ORDER,  // which thread runs next
	SIM_STREAM_WORLD,  // who there is and what they want
	SIM_STREAM_FAULTS, // what goes wrong, and when
	SIM_STREAM_NET,
	SIM_STREAM_DISK,
	SIM_STREAM_DOCKER,
	SIM_STREAM_LIAR,
	SIM_STREAM_IDS, // what the kernel's generator would give
};

struct sim_random {
	uint64_t state;
};

static inline uint64_t sim_random_next(struct sim_random *random)
{
	uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline struct sim_random sim_random_stream(uint64_t seed, uint64_t stream)
{
	struct sim_random random = {seed * 0x2545f4914f6cdd1du + stream};
	sim_random_next(&random);
	return (struct sim_random){sim_random_next(&random)};
}

// From 0 to below `bound`, which is not 0.
static inline uint64_t sim_random_below(struct sim_random *random, uint64_t bound)
{
	return sim_random_next(random) % bound;
}

static inline int64_t sim_random_between(struct sim_random *random, int64_t least, int64_t most)
{
	return least + (int64_t)sim_random_below(random, (uint64_t)(most - least) + 1);
}

static inline bool sim_random_chance(struct sim_random *random, unsigned per_mille)
{
	return sim_random_below(random, 1000) < per_mille;
}
