// SPDX-License-Identifier: Apache-2.0
// Parts are taken one after the other from blocks that double in size, and none of them is ever given back alone.
#include <stddef.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/codec/proto_copy.h"

#define BLOCK_BYTES     ((size_t)1024)
#define BLOCK_BYTES_MAX ((size_t)4 * 1024 * 1024 - sizeof(struct block))

struct block {
	struct block *next;
	max_align_t room[];
};

struct compact {
	struct block *first; // the message itself is at the start of its room
	struct block *last;
	size_t used, size; // of the last
};

static void add_block(struct compact *compact, size_t size)
{
	struct block *block = berth_alloc_large(sizeof *block + size);
	block->next = NULL;
	if (compact->last) {
		compact->last->next = block;
	} else {
		compact->first = block;
	}
	compact->last = block;
	compact->used = 0;
	compact->size = size;
}

static void *take(void *context, size_t size)
{
	struct compact *compact = context;
	size = (size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
	if (compact->size - compact->used < size) {
		size_t next = compact->size ? 2 * compact->size : BLOCK_BYTES;
		next = next < BLOCK_BYTES_MAX ? next : BLOCK_BYTES_MAX;
		add_block(compact, next > size ? next : size);
	}
	void *part = (char *)compact->last->room + compact->used;
	compact->used += size;
	return part;
}

void *berth_proto_compact(const void *message)
{
	struct compact compact = {0};
	return message ? proto_copy(message, take, &compact) : NULL;
}

void berth_proto_compact_free(void *message)
{
	struct block *block = message ? (struct block *)((char *)message - offsetof(struct block, room)) : NULL;
	while (block) {
		struct block *next = block->next;
		free(block);
		block = next;
	}
}
