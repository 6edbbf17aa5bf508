// SPDX-License-Identifier: Apache-2.0
#include "common/base/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 * 1024 * 1024)

static int mapped_alone_bytes;

void berth_heap_setup(size_t kept, size_t mapped_alone)
{
	mapped_alone_bytes = (int)mapped_alone;
	mallopt(M_TRIM_THRESHOLD, (int)kept);
	mallopt(M_MMAP_THRESHOLD, mapped_alone_bytes);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// glibc's own, under the name that stays when a program brings another: that might copy and wipe what nobody has
// touched.
extern void *__libc_realloc(void *memory, size_t size); // NOLINT(bugprone-reserved-identifier)

void berth_heap_large_pages(size_t size)
{
	if (!mapped_alone_bytes) {
		return;
	}
	mallopt(M_MMAP_THRESHOLD, (int)(2 * LARGE_PAGE + size)); // from the arena
	char *room = malloc(LARGE_PAGE + size);
	mallopt(M_MMAP_THRESHOLD, mapped_alone_bytes);
	if (room) {
		size_t before = -(uintptr_t)room % LARGE_PAGE;
		madvise(room + before, size, MADV_HUGEPAGE); // a wish
		// What is before the first large page stays taken: it would be used first. The rest is the arena's
		// again.
		room = __libc_realloc(room, before);
	}
}

#else

void berth_heap_large_pages(size_t size)
{
	(void)size;
}

#endif
