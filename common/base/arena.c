// SPDX-License-Identifier: Apache-2.0
#include "common/base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define ALIGNMENT      sizeof(uint64_t)
#define BLOCK_SIZE_MIN ((size_t)512)
#define BLOCK_SIZE_MAX ((size_t)4 * 1024 * 1024 - sizeof(struct block))
#define ALONE_SHARE    4 // a part larger than one in this many of a block does not go into one

struct block {
	struct block *next;
	uint64_t room[];
};

struct berth_arena {
	char *at, *end;       // what is left of the newest block
	size_t next_size;     // of the next block
	struct block *shared; // blocks after the first
	struct block *alone;  // those with one part
	uint64_t room[];      // the first block
};

static struct block *block_new(size_t size, struct block **list)
{
	if (size > SIZE_MAX / 2) {
		abort(); // as an allocation that fails
	}
	struct block *block = berth_alloc_large(sizeof *block + size);
	block->next = *list;
	*list = block;
	return block;
}

static void blocks_free(struct block *block)
{
	while (block) {
		struct block *next = block->next;
		free(block);
		block = next;
	}
}

struct berth_arena *berth_arena_new(size_t first_size)
{
	if (first_size > BLOCK_SIZE_MAX - sizeof(struct berth_arena)) {
		first_size = BLOCK_SIZE_MAX - sizeof(struct berth_arena);
	}
	first_size = (first_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	struct berth_arena *arena = berth_alloc_large(sizeof *arena + first_size);
	size_t next_size = first_size < BLOCK_SIZE_MIN / 2 ? BLOCK_SIZE_MIN : 2 * first_size;
	*arena = (struct berth_arena){
		.at = (char *)arena->room,
		.end = (char *)arena->room + first_size,
		.next_size = next_size < BLOCK_SIZE_MAX ? next_size : BLOCK_SIZE_MAX,
	};
	return arena;
}

static void *take_more(struct berth_arena *arena, size_t size)
{
	if (size > arena->next_size / ALONE_SHARE) {
		return block_new(size, &arena->alone)->room;
	}
	struct block *block = block_new(arena->next_size, &arena->shared);
	arena->at = (char *)block->room + size;
	arena->end = (char *)block->room + arena->next_size;
	arena->next_size = arena->next_size < BLOCK_SIZE_MAX / 2 ? 2 * arena->next_size : BLOCK_SIZE_MAX;
	return block->room;
}

void *berth_arena_take(struct berth_arena *arena, size_t size)
{
	if (size > SIZE_MAX / 2) {
		abort();
	}
	size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if ((size_t)(arena->end - arena->at) < size) {
		return take_more(arena, size);
	}
	void *part = arena->at;
	arena->at += size;
	return part;
}

void *berth_arena_take_zeroed(struct berth_arena *arena, size_t size)
{
	return memset(berth_arena_take(arena, size), 0, size);
}

char *berth_arena_text(struct berth_arena *arena, const char *text)
{
	size_t size = strlen(text) + 1;
	return memcpy(berth_arena_take(arena, size), text, size);
}

void berth_arena_give_back(struct berth_arena *arena, void *part)
{
	for (struct block **at = &arena->alone; *at; at = &(*at)->next) {
		struct block *block = *at;
		if ((void *)block->room == part) {
			*at = block->next;
			free(block);
			return;
		}
	}
}

struct berth_arena *berth_arena_of(void *first_part)
{
	return (struct berth_arena *)((char *)first_part - offsetof(struct berth_arena, room));
}

void berth_arena_free(struct berth_arena *arena)
{
	if (arena) {
		blocks_free(arena->shared);
		blocks_free(arena->alone);
		free(arena);
	}
}
