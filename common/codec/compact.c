// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "common/base/arena.h"
#include "common/codec/proto.h"
#include "common/codec/proto_copy.h"

#define FIRST_SIZE ((size_t)1024)

static void *take(void *arena, size_t size)
{
	return berth_arena_take(arena, size);
}

void *berth_proto_compact(const void *message)
{
	return message ? berth_proto_copy_in(berth_arena_new(FIRST_SIZE), message) : NULL;
}

void *berth_proto_copy_in(struct berth_arena *arena, const void *message)
{
	return message ? proto_copy(message, take, arena) : NULL;
}

void berth_proto_compact_free(void *message)
{
	berth_arena_free(message ? berth_arena_of(message) : NULL);
}
