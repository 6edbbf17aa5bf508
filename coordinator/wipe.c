// SPDX-License-Identifier: Apache-2.0
// Freed memory is overwritten, so that secrets of ended jobs are in no core dump, whichever library held them. glibc's
// own M_PERTURB fills what is allocated as well and has no effect on its thread caches, which a coordinator can't do
// without: this program's free and realloc take the place of glibc's and do the filling alone. A sanitizer has its own.
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#define FREED_BYTE 0x5a

// glibc's own under the names that stay when a program brings others.
extern void __libc_free(void *memory);                  // NOLINT(bugprone-reserved-identifier)
extern void *__libc_realloc(void *memory, size_t size); // NOLINT(bugprone-reserved-identifier)

// What glibc took from the kernel for one allocation alone goes back to it at once and is in no dump: the word before
// such memory says so.
static bool is_mapped_alone(const void *memory)
{
	const size_t mapped_bit = 2;
	return ((const size_t *)memory)[-1] & mapped_bit;
}

void free(void *memory)
{
	if (memory) {
		if (!is_mapped_alone(memory)) {
			memset(memory, FREED_BYTE, malloc_usable_size(memory));
		}
		__libc_free(memory);
	}
}

void *realloc(void *old, size_t size)
{
	size_t had = old ? malloc_usable_size(old) : 0;
	if (old && size == 0) {
		free(old);
		return NULL;
	}
	if (size <= had && size >= had / 2) {
		return old;
	}
	if (old && is_mapped_alone(old)) {
		return __libc_realloc(old, size); // its pages move as they are, and what is cut off goes to the kernel
	}
	void *fresh = malloc(size);
	if (fresh && old) {
		memcpy(fresh, old, size < had ? size : had);
		free(old);
	}
	return fresh;
}

#endif
