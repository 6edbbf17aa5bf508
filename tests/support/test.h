// SPDX-License-Identifier: Apache-2.0
// What every cmocka test includes: cmocka in its needed order, and a main that fails on any number of failures.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/error.h"

// Fails the test with the error's message when `condition` is false.
#define assert_ok(condition, error)                                                                                    \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fail_msg("%s: %s", #condition, (error).message);                                               \
		}                                                                                                      \
	} while (0)

// Asserts that `condition` is false with this error code, and that the message contains `part`.
#define assert_fails(condition, error, wanted_code, part)                                                              \
	do {                                                                                                           \
		if (condition) {                                                                                       \
			fail_msg("%s: succeeded", #condition);                                                         \
		}                                                                                                      \
		if ((error).code != (wanted_code) || !strstr((error).message, (part))) {                               \
			fail_msg("%s: wanted %s with \"%s\", got %s: %s", #condition, berth_error_name(wanted_code),   \
				(part), berth_error_name((error).code), (error).message);                              \
		}                                                                                                      \
	} while (0)

// cmocka returns the number of failures, of which a process keeps eight bits.
#define BERTH_TEST_MAIN(tests)                                                                                         \
	int main(void)                                                                                                 \
	{                                                                                                              \
		return cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL) != 0;                                  \
	}

// A fresh folder under $TEST_TMPDIR or /tmp; the caller frees the name. Left behind for a look at it.
char *berth_test_folder(void);
// A path inside the source tree, for data of the test; the caller frees.
char *berth_test_data(const char *path);
