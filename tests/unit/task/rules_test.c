// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/task.h"
#include "tests/support/test.h"

static void sizes_are_read_as_harbor_reads_them(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t mb;
	} good[] = {{"2G", 2048}, {"2g", 2048}, {" 4G ", 4096}, {"0.5G", 512}, {"1.5G", 1536}, {"512M", 512},
		{"512.9M", 512}, {"1024K", 1}, {"1000K", 0}, {"2 G", 2048}, {"1e1G", 10240}, {"-1G", -1024},
		{"1_0M", 10}};
	struct berth_error err;
	for (size_t i = 0; i < BERTH_COUNT(good); i++) {
		int64_t mb = -7;
		assert_ok(berth_size_mb(good[i].text, &mb, &err), err);
		assert_int_equal(mb, good[i].mb);
	}
	static const char *const bad[] = {
		"2GB", "2Gi", "2048", "512MB", "G", "nanM", "infG", "", " ", "1e300G", "G2", "2T"};
	for (size_t i = 0; i < BERTH_COUNT(bad); i++) {
		int64_t mb;
		assert_fails(berth_size_mb(bad[i], &mb, &err), err, BERTH_ERROR_INVALID, "as in \"2G\"");
	}
}

static void only_a_value_that_is_one_template_is_a_template(void **state)
{
	(void)state;
	static const struct {
		const char *value, *variable, *fallback;
	} rows[] = {{"${A}", "A", NULL}, {"${A:-}", "A", ""}, {"${A:-x}", "A", "x"}, {"${A:-${B}}", "A", "${B}"},
		{"${a b}", "a b", NULL}, {"${A:-:-}", "A", ":-"}, {"pre${A}", NULL, NULL}, {"${A}post", NULL, NULL},
		{"$A", NULL, NULL}, {"${A:x}", NULL, NULL}, {"${}", NULL, NULL}, {"${A}${B}", NULL, NULL},
		{"${A:-x\ny}", NULL, NULL}, {"", NULL, NULL}, {"$", NULL, NULL}, {"${", NULL, NULL},
		{"${:-x}", NULL, NULL}, {"${A:}", NULL, NULL}, {"${A", NULL, NULL}, {"$$", NULL, NULL}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_template template = berth_template_parse(rows[i].value);
		assert_int_equal(template.variable != NULL, rows[i].variable != NULL);
		assert_int_equal(template.default_value != NULL, rows[i].fallback != NULL);
		if (rows[i].variable) {
			assert_string_equal(template.variable, rows[i].variable);
		}
		if (rows[i].fallback) {
			assert_string_equal(template.default_value, rows[i].fallback);
		}
		berth_template_free(&template);
	}
}

static const char *lookup(void *context, const char *name)
{
	return berth_env_get(context, name);
}

static void templates_take_the_hosts_values_and_name_what_is_missing(void **state)
{
	(void)state;
	BERTH_AUTO(berth_env_free) struct berth_env host = {0}, env = {0};
	berth_env_set(&host, "SET", "value");
	berth_env_set(&host, "EMPTY", "");
	berth_env_set(&env, "a", "${SET}");
	berth_env_set(&env, "b", "${EMPTY:-fallback}");
	berth_env_set(&env, "c", "${UNSET:-fallback}");
	berth_env_set(&env, "d", "x-${SET}");
	struct berth_error err;
	assert_ok(berth_env_resolve(&env, "[environment.env]", lookup, &host, &err), err);
	assert_string_equal(berth_env_get(&env, "a"), "value");
	assert_string_equal(berth_env_get(&env, "b"), "");
	assert_string_equal(berth_env_get(&env, "c"), "fallback");
	assert_string_equal(berth_env_get(&env, "d"), "x-${SET}");
	berth_env_set(&env, "e", "${UNSET}");
	assert_fails(berth_env_resolve(&env, "[environment.env]", lookup, &host, &err), err, BERTH_ERROR_INVALID,
		"[environment.env]: e needs the variable UNSET");
}

static void the_environment_laid_over_wins_and_order_is_kept(void **state)
{
	(void)state;
	BERTH_AUTO(berth_env_free) struct berth_env env = {0}, over = {0};
	berth_env_set(&env, "a", "1");
	berth_env_set(&env, "b", "2");
	berth_env_set(&over, "a", "3");
	berth_env_set(&over, "c", "4");
	berth_env_merge(&env, &over);
	assert_int_equal(env.count, 3);
	assert_string_equal(env.names[0], "a");
	assert_string_equal(env.values[0], "3");
	assert_string_equal(env.names[2], "c");
	assert_null(berth_env_get(&env, "d"));
}

static void names_of_secrets_are_told_by_their_words(void **state)
{
	(void)state;
	static const char *const secret[] = {
		"OPENAI_API_KEY", "my_secret", "Token", "DB_PASSWORD", "CREDENTIALS", "AUTHOR", "monkey"};
	static const char *const open[] = {"PATH", "QUAY_NAME", "PASSWD", ""};
	for (size_t i = 0; i < BERTH_COUNT(secret); i++) {
		assert_true(berth_env_name_is_sensitive(secret[i]));
	}
	for (size_t i = 0; i < BERTH_COUNT(open); i++) {
		assert_false(berth_env_name_is_sensitive(open[i]));
	}
}

static void timeouts_follow_harbors_arithmetic(void **state)
{
	(void)state;
	static const struct {
		double base, max, specific, global, wanted;
		bool immediate;
	} rows[] = {{600, 0, -1, 1, 600, false}, {600, 300, -1, 1, 300, false}, {600, 900, -1, 2, 1200, false},
		{600, 300, 0.5, 4, 150, false}, {0, 300, -1, 1, 0, false}, {600, 0, 0, 2, 0, true},
		{600, 300, -1, 0, 0, true}, {0, 0, 0, 0, 0, false}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		bool immediate = !rows[i].immediate;
		double timeout =
			berth_timeout_sec(rows[i].base, rows[i].max, rows[i].specific, rows[i].global, &immediate);
		assert_true(timeout == rows[i].wanted);
		assert_int_equal(immediate, rows[i].immediate);
	}
}

static void trial_names_cut_the_task_name_at_32_characters(void **state)
{
	(void)state;
	static const struct {
		const char *task, *wanted;
	} rows[] = {{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
		{"01kavebeh9sq8w7veabgyqnksh-suave-http-data-bleeding", "01kavebeh9sq8w7veabgyqnksh-suave"},
		{"short-", "short"}, {"x_x_x_x_x_x_x_x_x_x_x_x_x_x_x_x_x_x_x_x_", "x_x_x_x_x_x_x_x_x_x_x_x_x_x_x_x"},
		{"", ""}, {"__--", ""},
		{"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3"
		 "\xa9\xc3\xa9\xc3\xa9"
		 "\xc3\xa9zzzzzzzzzzzzzzzzzzz",
			"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3"
			"\xa9\xc3\xa9\xc3\xa9\xc3"
			"\xa9\xc3\xa9zzzzzzzzzzzzzzzz"}};
	uint8_t random[BERTH_TRIAL_NAME_RANDOM_SIZE];
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		memset(random, (int)(37 * i), sizeof random);
		BERTH_AUTO_FREE char *name = berth_trial_name(rows[i].task, random);
		size_t length = strlen(rows[i].wanted);
		assert_int_equal(strlen(name), length + 2 + 7);
		assert_memory_equal(name, rows[i].wanted, length);
		assert_memory_equal(name + length, "__", 2);
		assert_int_equal(
			strspn(name + length + 2, "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"), 7);
	}
}

static void different_random_bytes_give_different_trial_names(void **state)
{
	(void)state;
	uint8_t random[BERTH_TRIAL_NAME_RANDOM_SIZE] = {0};
	BERTH_AUTO_FREE char *zero = berth_trial_name("t", random);
	assert_string_equal(zero, "t__2222222");
	for (size_t i = 0; i < 7; i++) {
		memset(random, 0, sizeof random);
		random[2 * i + 1] = 56;
		BERTH_AUTO_FREE char *other = berth_trial_name("t", random);
		assert_int_equal(other[3 + i], 'z');
	}
}

static void compose_projects_are_named_as_harbor_names_them(void **state)
{
	(void)state;
	static const char *const rows[][2] = {{"hello-world__aB3dE5f__env", "hello-world__ab3de5f__env"},
		{"T\xc3\xa2"
		 "che__x__env",
			"t-che__x__env"},
		{"_x.y", "0_x-y"}, {"my.task v2__Zz9__verifier__trial", "my-task-v2__zz9__verifier__trial"},
		{"\xc3\xa9t\xc3\xa9", "0-t-"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		BERTH_AUTO_FREE char *project = berth_compose_project(rows[i][0]);
		assert_string_equal(project, rows[i][1]);
	}
}

static void canary_lines_are_stripped_from_the_front_only(void **state)
{
	(void)state;
	static const char *const rows[][2] = {{"<!-- harbor-canary GUID 1 -->\nText\n", "Text\n"},
		{"# CANARY abc\n#canary\n\n \t\nText", "Text"}, {"  <!-- canary -->  \nText", "Text"},
		{"## Title\n", "## Title\n"}, {"<!-- canary\nText", "<!-- canary\nText"},
		{"text canary\n", "text canary\n"}, {"\n\nText", "Text"},
		{"# canary\n\n# canary\nText", "# canary\nText"}, {"Text\n# canary\n", "Text\n# canary\n"},
		{"# canary", ""}, {"", ""}, {"<!--canary-->", ""}, {"<!-->", "<!-->"},
		{"\xc2\xa0# canary\xc2\xa0\nText", "Text"}, {"<!-- x --> canary -->\nT", "T"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		BERTH_AUTO_FREE char *stripped = berth_instruction_strip(rows[i][0]);
		assert_string_equal(stripped, rows[i][1]);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(sizes_are_read_as_harbor_reads_them),
	cmocka_unit_test(only_a_value_that_is_one_template_is_a_template),
	cmocka_unit_test(templates_take_the_hosts_values_and_name_what_is_missing),
	cmocka_unit_test(the_environment_laid_over_wins_and_order_is_kept),
	cmocka_unit_test(names_of_secrets_are_told_by_their_words),
	cmocka_unit_test(timeouts_follow_harbors_arithmetic),
	cmocka_unit_test(trial_names_cut_the_task_name_at_32_characters),
	cmocka_unit_test(different_random_bytes_give_different_trial_names),
	cmocka_unit_test(compose_projects_are_named_as_harbor_names_them),
	cmocka_unit_test(canary_lines_are_stripped_from_the_front_only),
};

BERTH_TEST_MAIN(tests)
