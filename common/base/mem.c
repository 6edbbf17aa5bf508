// SPDX-License-Identifier: Apache-2.0
#include "common/base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *checked(void *memory)
{
	if (!memory) {
		abort();
	}
	return memory;
}

void *berth_alloc(size_t size)
{
	return checked(calloc(1, size ? size : 1));
}

void *berth_alloc_large(size_t size)
{
	const size_t page = (size_t)2 * 1024 * 1024;
	if (size < page) {
		return checked(malloc(size));
	}
	size_t whole = (size + page - 1) / page * page;
	void *memory = checked(aligned_alloc(page, whole));
	madvise(memory, whole, MADV_HUGEPAGE); // a wish
	return memory;
}

void *berth_realloc_array(void *old, size_t count, size_t size)
{
	return checked(reallocarray(old, count ? count : 1, size));
}

void *berth_grow_array(void *old, size_t count, size_t size)
{
	bool full = (count & (count - 1)) == 0; // 0 or a power of two
	return full ? berth_realloc_array(old, count ? 2 * count : 1, size) : old;
}

char *berth_strdup(const char *text)
{
	return text ? checked(strdup(text)) : NULL;
}

char *berth_strndup(const char *text, size_t length)
{
	return checked(strndup(text, length));
}

void *berth_memdup(const void *data, size_t size)
{
	void *copy = berth_alloc(size);
	if (size) {
		memcpy(copy, data, size);
	}
	return copy;
}

char *berth_vformat(const char *format, va_list args)
{
	char *text = NULL;
	if (vasprintf(&text, format, args) < 0) {
		abort();
	}
	return text;
}

void berth_copy_text(char *into, size_t size, const char *text)
{
	size_t length = strnlen(text, size - 1);
	memcpy(into, text, length);
	into[length] = 0;
}

char *berth_format(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text = berth_vformat(format, args);
	va_end(args);
	return text;
}

void berth_free_cleanup(void *pointer_to_pointer)
{
	free(*(void **)pointer_to_pointer);
}

void berth_close_cleanup(const int *fd)
{
	if (*fd >= 0) {
		close(*fd);
	}
}
