// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "agent/runner/local/dockerignore.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

static void rules_leave_out_what_docker_leaves_out(void **state)
{
	(void)state;
	static const struct {
		const char *rules, *path;
		bool excluded;
	} rows[] = {
		{"*.log", "a.log", true},
		{"*.log", "sub/a.log", false},
		{"**/*.log", "a.log", true},
		{"**/*.log", "sub/deep/a.log", true},
		{"**/cache", "sub/cache/page", true},
		{"/build/", "build/x", true},
		{"build", "builder", false},
		{"a/**", "a/b/c", true},
		{"a/**/c", "a/c", true},
		{"a/**/c", "a/x/y/c", true},
		{"?.txt", "a.txt", true},
		{"?.txt", "ab.txt", false},
		{"[a-c].txt", "b.txt", true},
		{"[^a-c].txt", "b.txt", false},
		{"*.md\n!README.md", "README.md", false},
		{"*.md\n!README.md", "OTHER.md", true},
		{"!README.md\n*.md", "README.md", true},
		{"# *.md\n\n  \n./x", "x", true},
		{"# *.md", "a.md", false},
		{"[", "[", false},
		{"*a*a*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct dockerignore ignore = {0};
		dockerignore_parse(rows[i].rules, &ignore);
		if (dockerignore_excludes(&ignore, rows[i].path) != rows[i].excluded) {
			fail_msg("%s for %s", rows[i].rules, rows[i].path);
		}
		dockerignore_free(&ignore);
	}
}

static void the_recipe_itself_is_always_sent(void **state)
{
	(void)state;
	struct dockerignore ignore = {0};
	dockerignore_parse("*\n", &ignore);
	assert_false(dockerignore_skip(&ignore, "Dockerfile", false));
	assert_true(dockerignore_skip(&ignore, "data", true));
	dockerignore_free(&ignore);
	dockerignore_parse("data\n!data/kept", &ignore);
	assert_false(dockerignore_skip(&ignore, "data", true));
	assert_true(dockerignore_skip(&ignore, "data/other", false));
	assert_false(dockerignore_skip(&ignore, "data/kept", false));
	dockerignore_free(&ignore);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(rules_leave_out_what_docker_leaves_out),
	cmocka_unit_test(the_recipe_itself_is_always_sent),
};
BERTH_TEST_MAIN(tests)
