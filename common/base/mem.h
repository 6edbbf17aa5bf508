// SPDX-License-Identifier: Apache-2.0
// Memory with one owner: cleanup attributes free what a scope owns, BERTH_STEAL hands it over.
//
// Allocation never fails: without memory the process ends, and every state it must keep is on disk (crash-only).
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

// A variable that is only there for its cleanup is used.
#define BERTH_AUTO(cleanup_function) __attribute__((cleanup(cleanup_function), unused))
#define BERTH_AUTO_FREE              BERTH_AUTO(berth_free_cleanup)
#define BERTH_AUTO_CLOSE             BERTH_AUTO(berth_close_cleanup)
// Takes the pointer out of a variable that cleans up, so that the caller's caller owns it.
#define BERTH_STEAL(variable)                                                                                          \
	({                                                                                                             \
		__typeof__(variable) berth_stolen_ = (variable);                                                       \
		(variable) = NULL;                                                                                     \
		berth_stolen_;                                                                                         \
	})
#define BERTH_COUNT(array) (sizeof(array) / sizeof((array)[0]))

void *berth_alloc(size_t size); // zeroed
// For megabytes that are soon used as a whole: from large pages where the kernel gives them, not zeroed.
void *berth_alloc_large(size_t size);
void *berth_realloc_array(void *old, size_t count, size_t size);
// Room for one more item after `count` in an array that began as NULL and grew by this alone: it moves when it doubles.
void *berth_grow_array(void *old, size_t count, size_t size);
char *berth_strdup(const char *text); // NULL for NULL
char *berth_strndup(const char *text, size_t length);
void *berth_memdup(const void *data, size_t size);
// Into an array of `size`, cut when the text is longer.
void berth_copy_text(char *into, size_t size, const char *text);
char *berth_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *berth_vformat(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

void berth_free_cleanup(void *pointer_to_pointer);
void berth_close_cleanup(const int *fd); // a negative descriptor is none
