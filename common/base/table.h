// SPDX-License-Identifier: Apache-2.0
// uthash's tables, with a hash that takes eight bytes at a time: its own takes one, which is most of finding an id.
// Nothing depends on the order that it gives: tables are walked in the order of their additions.
#pragma once

#include <stdint.h>
#include <string.h>

#define HASH_FUNCTION(key, size, hash) ((hash) = berth_table_hash((key), (size)))
#include <uthash.h>

static inline uint64_t berth_table_mix(uint64_t hash, uint64_t part)
{
	hash = (hash ^ part) * 0x9e3779b97f4a7c15U;
	return hash ^ hash >> 32;
}

static inline unsigned berth_table_hash(const void *key, size_t size)
{
	const uint8_t *at = key;
	uint64_t hash = size, part;
	for (; size >= sizeof part; size -= sizeof part, at += sizeof part) {
		memcpy(&part, at, sizeof part);
		hash = berth_table_mix(hash, part);
	}
	part = 0;
	memcpy(&part, at, size);
	return (unsigned)berth_table_mix(hash, part);
}
