// SPDX-License-Identifier: Apache-2.0
#include "common/base/heap.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

#define KIB  ((size_t)1024)
#define MIB  (1024 * KIB)
#define SIZE (2 * MIB)

// Whether the kernel was asked for large pages where this address is.
static bool wants_large_pages(const void *address)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	assert_non_null(file);
	char line[512];
	bool here = false, wants = false;
	while (fgets(line, sizeof line, file)) {
		char *dash, *end;
		uintptr_t from = strtoull(line, &dash, 16);
		if (*dash == '-') {
			here = from <= (uintptr_t)address && (uintptr_t)address < strtoull(dash + 1, &end, 16);
		} else if (here && strncmp(line, "VmFlags:", strlen("VmFlags:")) == 0) {
			wants = strstr(line, " hg") != NULL;
		}
	}
	fclose(file);
	return wants;
}

static void *allocate(void *context)
{
	(void)context;
	berth_heap_large_pages(SIZE);
	void *parts[8];
	bool large = true;
	for (size_t i = 0; i < 8; i++) {
		parts[i] = malloc(SIZE / 10);
		memset(parts[i], 1, SIZE / 10);
		large = large && wants_large_pages(parts[i]);
	}
	for (size_t i = 0; i < 8; i++) {
		free(parts[i]);
	}
	return large ? "" : NULL;
}

static void a_heap_that_was_not_set_up_stays_as_it_is(void **state)
{
	(void)state;
	assert_null(allocate(NULL));
}

static void what_a_thread_allocates_first_comes_from_large_pages(void **state)
{
	(void)state;
	berth_heap_setup(32 * MIB, MIB);
	assert_non_null(allocate(NULL));
	pthread_t thread;
	void *large = NULL;
	assert_int_equal(pthread_create(&thread, NULL, allocate, NULL), 0);
	assert_int_equal(pthread_join(thread, &large), 0);
	assert_non_null(large);
}

static void larger_memory_is_still_mapped_by_itself(void **state)
{
	(void)state;
	char *volatile large = malloc(4 * MIB);
	memset(large, 1, 4 * MIB);
	assert_true(((const size_t *)(const void *)large)[-1] & 2); // glibc's own mark of it
	free(large);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_heap_that_was_not_set_up_stays_as_it_is),
	cmocka_unit_test(what_a_thread_allocates_first_comes_from_large_pages),
	cmocka_unit_test(larger_memory_is_still_mapped_by_itself),
};

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0; // its allocator is another
#endif
	return cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL) != 0;
}
