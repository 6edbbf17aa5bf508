// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/arena.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

#define PARTS 2000

struct part {
	uint8_t *at;
	size_t size;
};

static void fill(const struct part *part, int mark)
{
	assert_non_null(part->at);
	assert_int_equal((uintptr_t)part->at % sizeof(uint64_t), 0);
	memset(part->at, mark, part->size);
}

static void assert_filled(const struct part *part, int mark)
{
	for (size_t i = 0; i < part->size; i++) {
		assert_int_equal(part->at[i], (uint8_t)mark);
	}
}

static void take_all(size_t first_size, size_t size_max)
{
	struct berth_arena *arena = berth_arena_new(first_size);
	struct part parts[PARTS];
	for (size_t i = 0; i < PARTS; i++) {
		parts[i].size = i * 7919 % (size_max + 1);
		parts[i].at = berth_arena_take(arena, parts[i].size);
		fill(&parts[i], (int)i);
	}
	for (size_t i = 0; i < PARTS; i++) {
		assert_filled(&parts[i], (int)i);
	}
	berth_arena_free(arena);
}

static void parts_of_any_size_lie_beside_each_other(void **state)
{
	(void)state;
	static const size_t first_sizes[] = {0, 1, 100, 64 * 1024, SIZE_MAX};
	for (size_t i = 0; i < BERTH_COUNT(first_sizes); i++) {
		take_all(first_sizes[i], 0);
		take_all(first_sizes[i], 40);
		take_all(first_sizes[i], 9000);
	}
	berth_arena_free(NULL);
}

static void what_was_expected_fits_into_one_block(void **state)
{
	(void)state;
	struct berth_arena *arena = berth_arena_new(800);
	char *first = berth_arena_take(arena, 8);
	for (size_t i = 1; i < 100; i++) {
		assert_ptr_equal(berth_arena_take(arena, 8), first + 8 * i);
	}
	assert_ptr_equal(berth_arena_of(first), arena);
	berth_arena_free(arena);
}

static void a_large_part_leaves_the_room_of_the_others_and_may_go_before_them(void **state)
{
	(void)state;
	struct berth_arena *arena = berth_arena_new(1024);
	char *before = berth_arena_take(arena, 16);
	struct part large[3];
	for (size_t i = 0; i < 3; i++) {
		large[i].size = 1000000 * (i + 1);
		large[i].at = berth_arena_take(arena, large[i].size);
		fill(&large[i], (int)i);
	}
	assert_ptr_equal(berth_arena_take(arena, 16), before + 16);
	berth_arena_give_back(arena, large[1].at);
	berth_arena_give_back(arena, before); // stays: its block is not its own
	assert_filled(&large[0], 0);
	assert_filled(&large[2], 2);
	berth_arena_give_back(arena, large[2].at);
	berth_arena_give_back(arena, large[0].at);
	memset(before, 1, 32);
	berth_arena_free(arena);
}

static void zeroed_parts_and_texts_are_copies(void **state)
{
	(void)state;
	struct berth_arena *arena = berth_arena_new(64);
	memset(berth_arena_take(arena, 64), 0xff, 64);
	static const char zeros[300];
	assert_memory_equal(berth_arena_take_zeroed(arena, sizeof zeros), zeros, sizeof zeros);
	char text[] = "a job";
	const char *copy = berth_arena_text(arena, text);
	text[0] = 0;
	assert_string_equal(copy, "a job");
	assert_string_equal(berth_arena_text(arena, ""), "");
	berth_arena_free(arena);
}

static void a_size_that_overflows_ends_the_program(void **state)
{
	(void)state;
	static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2 + 1};
	for (size_t i = 0; i < BERTH_COUNT(sizes); i++) {
		pid_t child = fork();
		if (child == 0) {
			berth_arena_take(berth_arena_new(64), sizes[i]);
			_exit(0);
		}
		int status;
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(parts_of_any_size_lie_beside_each_other),
	cmocka_unit_test(what_was_expected_fits_into_one_block),
	cmocka_unit_test(a_large_part_leaves_the_room_of_the_others_and_may_go_before_them),
	cmocka_unit_test(zeroed_parts_and_texts_are_copies),
	cmocka_unit_test(a_size_that_overflows_ends_the_program),
};
BERTH_TEST_MAIN(tests)
