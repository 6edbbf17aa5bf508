// SPDX-License-Identifier: Apache-2.0
// Memory that is taken in many parts and freed as a whole: a received message, what a decision emits. A part costs some
// additions, and all parts together one or a few allocations. An arena belongs to one thread at a time.
#pragma once

#include <stddef.h>

struct berth_arena;

// `first_size`: what the parts will probably come to, as the first block has room for it. Blocks after it double.
struct berth_arena *berth_arena_new(size_t first_size);
// Not zeroed, aligned for pointers and numbers (8); valid until the arena is freed. Never NULL, also for 0 bytes.
void *berth_arena_take(struct berth_arena *arena, size_t size);
void *berth_arena_take_zeroed(struct berth_arena *arena, size_t size);
char *berth_arena_text(struct berth_arena *arena, const char *text); // a copy
// Frees a part before the others where that is possible: where it is so large that its block is its own.
void berth_arena_give_back(struct berth_arena *arena, void *part);
// The arena whose first part this is, for an owner that keeps that part alone.
struct berth_arena *berth_arena_of(void *first_part);
void berth_arena_free(struct berth_arena *arena); // NULL is allowed
