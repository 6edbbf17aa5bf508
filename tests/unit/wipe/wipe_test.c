// SPDX-License-Identifier: Apache-2.0
// What is left of a secret in memory that was given back. Read through /proc/self/mem, since the compiler may think
// what it likes of freed memory.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "tests/support/test.h"

#define SECRET     "correct horse battery staple"
#define KEPT_BYTES 8192 // by what is as small as can be: less than two pages

// Occurrences of the secret's bytes from `at` on; what is not mapped any more holds none.
static size_t left_at(uintptr_t at, size_t size)
{
	char *copy = calloc(1, size);
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ssize_t got = pread(memory, copy, size, (off_t)at);
	size_t found = 0;
	for (ssize_t i = 0; got > 0 && i + (ssize_t)strlen(SECRET) <= got; i++) {
		found += memcmp(copy + i, SECRET, strlen(SECRET)) == 0;
	}
	close(memory);
	free(copy);
	return found;
}

static char *secrets(size_t size)
{
	char *room = malloc(size);
	for (size_t at = 0; at + strlen(SECRET) <= size; at += strlen(SECRET)) {
		memcpy(room + at, SECRET, strlen(SECRET));
	}
	return room;
}

static const size_t sizes[] = {40, 1000, 5000, 100000, 1000000};

static void freed_memory_keeps_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_COUNT(sizes); i++) {
		char *room = secrets(sizes[i]);
		uintptr_t at = (uintptr_t)room;
		assert_true(left_at(at, sizes[i]) > 0);
		free(room);
		assert_int_equal(left_at(at, sizes[i]), 0);
	}
}

static void memory_that_grew_keeps_nothing_where_it_was(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_COUNT(sizes); i++) {
		char *room = secrets(sizes[i]);
		uintptr_t at = (uintptr_t)room;
		char *larger = realloc(room, 4 * sizes[i]);
		assert_memory_equal(larger, SECRET, strlen(SECRET));
		if ((uintptr_t)larger != at) {
			assert_int_equal(left_at(at, sizes[i]), 0);
		}
		char *smaller = realloc(larger, 30);
		assert_memory_equal(smaller, SECRET, strlen(SECRET));
		if (4 * sizes[i] > KEPT_BYTES) {
			assert_int_equal(left_at((uintptr_t)larger + KEPT_BYTES, 4 * sizes[i] - KEPT_BYTES), 0);
		}
		free(smaller);
	}
}

static void realloc_begins_and_ends_like_malloc_and_free(void **state)
{
	(void)state;
	char *room = realloc(NULL, 10);
	assert_non_null(room);
	assert_null(realloc(room, 0));
	free(NULL);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	return 0; // its allocator fills nothing
#endif
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(freed_memory_keeps_nothing),
		cmocka_unit_test(memory_that_grew_keeps_nothing_where_it_was),
		cmocka_unit_test(realloc_begins_and_ends_like_malloc_and_free),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
