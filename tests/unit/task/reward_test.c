// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/reward.h"
#include "common/task/task.h"
#include "tests/support/test.h"
#include "tests/unit/task/folder.h"

static void assert_rewards(const berth_json *rewards, const char *wanted)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	berth_json_write(rewards, 0, &out);
	assert_string_equal(berth_buf_text(&out), wanted);
}

struct row {
	const char *bytes;
	size_t size;
	const char *rewards;   // NULL: an exception
	const char *exception; // NULL: rewards
};
#define GOOD(bytes, rewards)                                                                                           \
	{                                                                                                              \
		bytes, sizeof bytes - 1, rewards, NULL                                                                 \
	}
#define BAD(bytes, exception)                                                                                          \
	{                                                                                                              \
		bytes, sizeof bytes - 1, NULL, exception                                                               \
	}

static void assert_rows(
	const struct row *rows, size_t count, void (*parse)(const char *, size_t, struct berth_reward *))
{
	for (size_t i = 0; i < count; i++) {
		BERTH_AUTO(berth_reward_free) struct berth_reward reward;
		parse(rows[i].bytes, rows[i].size, &reward);
		if (rows[i].rewards) {
			if (!reward.rewards) {
				fail_msg("\"%s\": %s: %s", rows[i].bytes, reward.exception, reward.message);
			}
			assert_rewards(reward.rewards, rows[i].rewards);
			assert_null(reward.exception);
			assert_null(reward.message);
		} else {
			if (!reward.exception || strcmp(reward.exception, rows[i].exception) != 0) {
				fail_msg("\"%s\": wanted %s", rows[i].bytes, rows[i].exception);
			}
			assert_null(reward.rewards);
			assert_non_null(strstr(reward.message, "reward."));
		}
	}
}

#define PARSE_ERROR "VerifierOutputParseError"

static void reward_text_is_what_python_float_takes(void **state)
{
	(void)state;
	static const struct row rows[] = {GOOD("1", "{\"reward\": 1.0}"), GOOD("1\n", "{\"reward\": 1.0}"),
		GOOD(" 0.5 \r\n", "{\"reward\": 0.5}"), GOOD("+1", "{\"reward\": 1.0}"),
		GOOD(".5", "{\"reward\": 0.5}"), GOOD("5.", "{\"reward\": 5.0}"), GOOD("1e-3", "{\"reward\": 0.001}"),
		GOOD("1_0", "{\"reward\": 10.0}"),
		GOOD("\xc2\xa0"
		     "1\xc2\xa0",
			"{\"reward\": 1.0}"),
		GOOD("\xd9\xa3", "{\"reward\": 3.0}"), GOOD("-0", "{\"reward\": -0.0}"),
		GOOD("1e-05", "{\"reward\": 1e-05}"),
		GOOD("\xe3\x80\x80\xef\xbc\x91.\xef\xbc\x95", "{\"reward\": 1.5}"), BAD("inf", PARSE_ERROR),
		BAD("-Infinity", PARSE_ERROR), BAD("nan", PARSE_ERROR), BAD("NaN", PARSE_ERROR),
		BAD("1e400", PARSE_ERROR), BAD("1/1", PARSE_ERROR), BAD("true", PARSE_ERROR), BAD("True", PARSE_ERROR),
		BAD("0x10", PARSE_ERROR), BAD("1,0", PARSE_ERROR), BAD("1 0", PARSE_ERROR), BAD("1e", PARSE_ERROR),
		BAD("--1", PARSE_ERROR), BAD("1d", PARSE_ERROR), BAD("\n", PARSE_ERROR),
		BAD("\xef\xbb\xbf"
		    "1",
			PARSE_ERROR),
		BAD("1\0", PARSE_ERROR), BAD("\xff", PARSE_ERROR), BAD("1__0", PARSE_ERROR), BAD("_1", PARSE_ERROR),
		BAD("1_", PARSE_ERROR), BAD("1_.0", PARSE_ERROR), BAD("0x1p3", PARSE_ERROR), BAD("nan(1)", PARSE_ERROR),
		BAD("1.2.3", PARSE_ERROR), BAD(".", PARSE_ERROR), BAD("+", PARSE_ERROR),
		BAD("\x1c"
		    "1",
			PARSE_ERROR),
		BAD("", "RewardFileEmptyError")};
	assert_rows(rows, BERTH_COUNT(rows), berth_reward_parse_text);
}

static void reward_json_is_an_object_of_numbers(void **state)
{
	(void)state;
	static const struct row rows[] = {GOOD("{\"reward\":1}", "{\"reward\": 1}"),
		GOOD("{\"reward\":1.0}", "{\"reward\": 1.0}"), GOOD("{\"reward\":-0}", "{\"reward\": 0}"),
		GOOD("{\"a\":1,\"a\":2}", "{\"a\": 2}"), GOOD("{}", "{}"),
		GOOD("{\"reward\": 1}\n\n", "{\"reward\": 1}"), GOOD("{\"reward\":true}", "{\"reward\": 1.0}"),
		GOOD("{\"reward\":\"0.5\"}", "{\"reward\": 0.5}"), GOOD("{\"reward\":\" 1 \"}", "{\"reward\": 1.0}"),
		GOOD("{\"content_id\":613568564549284544}", "{\"content_id\": 613568564549284544}"),
		GOOD("{\"b\":1,\"a\":0.1}", "{\"b\": 1, \"a\": 0.1}"), BAD("{\"reward\":NaN}", PARSE_ERROR),
		BAD("{\"reward\":Infinity}", PARSE_ERROR), BAD("{\"reward\":1e400}", PARSE_ERROR),
		BAD("{\"reward\":\"nan\"}", PARSE_ERROR), BAD("null", PARSE_ERROR), BAD("1", "ValidationError"),
		BAD("[1]", "ValidationError"), BAD("\"\"", "ValidationError"),
		BAD("{\"a\":{\"b\":1}}", "ValidationError"), BAD("{\"status\":\"pass\"}", "ValidationError"),
		BAD("{\"failures\":[]}", "ValidationError"), BAD("{\"reward\":null}", "ValidationError"),
		BAD("{\"score\":1.0,\"status\":\"pass\"}", "ValidationError"), BAD("{\"reward\":1,}", PARSE_ERROR),
		BAD("{'reward':1}", PARSE_ERROR), BAD("{\"reward\":01}", PARSE_ERROR),
		BAD("{\"reward\":1} x", PARSE_ERROR), BAD("\xef\xbb\xbf{}", PARSE_ERROR), BAD("\n", PARSE_ERROR),
		BAD("{\"a\":1\xff}", PARSE_ERROR), BAD("", "RewardFileEmptyError")};
	assert_rows(rows, BERTH_COUNT(rows), berth_reward_parse_json);
}

static void the_message_shows_what_was_not_understood(void **state)
{
	(void)state;
	BERTH_AUTO(berth_reward_free) struct berth_reward reward;
	berth_reward_parse_text("1/1\n", 4, &reward);
	assert_string_equal(reward.message, "reward.txt holds no number: \"1/1\\n\"");
	char large[5000];
	memset(large, 'x', sizeof large);
	berth_reward_free(&reward);
	berth_reward_parse_text(large, sizeof large, &reward);
	assert_true(strlen(reward.message) < 300);
}

static const char *read_exception(const char *folder, const char *wanted)
{
	BERTH_AUTO(berth_reward_free) struct berth_reward reward;
	berth_reward_read(folder, &reward);
	if (reward.rewards) {
		assert_rewards(reward.rewards, wanted);
	}
	return reward.exception;
}

static void reward_json_is_read_before_reward_txt(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	assert_string_equal(read_exception(folder, ""), "RewardFileNotFoundError");
	test_write(folder, "reward.txt", "0.25\n");
	assert_null(read_exception(folder, "{\"reward\": 0.25}"));
	test_write(folder, "reward.json", "{\"reward\": 1}");
	assert_null(read_exception(folder, "{\"reward\": 1}"));
	test_write(folder, "reward.json", "");
	assert_string_equal(read_exception(folder, ""), "RewardFileEmptyError");
	assert_string_equal(read_exception("/nonexistent/verifier", ""), "RewardFileNotFoundError");
}

static void folders_links_and_pipes_are_no_rewards(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *inside = berth_path_join(folder, "verifier");
	BERTH_AUTO_FREE char *file = berth_path_join(inside, "reward.txt");
	test_write(folder, "secret", "1\n");
	test_write(inside, "score", "0.5\n");
	assert_int_equal(symlink("nowhere", file), 0);
	assert_string_equal(read_exception(inside, ""), "RewardFileNotFoundError");
	unlink(file);
	assert_int_equal(symlink("score", file), 0);
	assert_null(read_exception(inside, "{\"reward\": 0.5}"));
	unlink(file);
	// What the sandbox wrote must not make this host read outside of the folder.
	assert_int_equal(symlink("../secret", file), 0);
	assert_string_equal(read_exception(inside, ""), PARSE_ERROR);
	unlink(file);
	BERTH_AUTO_FREE char *secret = berth_path_join(folder, "secret");
	assert_int_equal(symlink(secret, file), 0);
	assert_string_equal(read_exception(inside, ""), PARSE_ERROR);
	unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_string_equal(read_exception(inside, ""), PARSE_ERROR);
	unlink(file);
	assert_int_equal(mkdir(file, 0700), 0);
	assert_string_equal(read_exception(inside, ""), "IsADirectoryError");
}

static void a_reward_file_beyond_the_limit_is_not_read(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *file = berth_path_join(folder, "reward.txt");
	test_write(folder, "reward.txt", "1");
	assert_int_equal(truncate(file, (off_t)1 << 40), 0);
	assert_string_equal(read_exception(folder, ""), PARSE_ERROR);
}

static void the_mean_counts_a_missing_key_as_zero_and_leaves_out_unscored_steps(void **state)
{
	(void)state;
	BERTH_AUTO(berth_json_cleanup) berth_json *first = berth_json_parse("{\"reward\":1.0}", 14, "a", NULL);
	BERTH_AUTO(berth_json_cleanup)
	berth_json *second = berth_json_parse("{\"reward\":0.5,\"lines\":3}", 24, "b", NULL);
	const berth_json *const steps[] = {first, NULL, second};
	BERTH_AUTO(berth_json_cleanup) berth_json *mean = berth_reward_aggregate("mean", steps, 3);
	assert_rewards(mean, "{\"reward\": 0.75, \"lines\": 1.5}");
	BERTH_AUTO(berth_json_cleanup) berth_json *last = berth_reward_aggregate("final", steps, 3);
	assert_rewards(last, "{\"reward\": 0.5, \"lines\": 3}");
	assert_null(berth_reward_aggregate("final", steps, 2));
	assert_null(berth_reward_aggregate("final", steps, 0));
	assert_null(berth_reward_aggregate("mean", steps + 1, 1));
}

static void a_step_without_the_key_is_below_every_minimum(void **state)
{
	(void)state;
	BERTH_AUTO(berth_json_cleanup)
	berth_json *rewards = berth_json_parse("{\"reward\":0.5,\"b\":1}", 20, "a", NULL);
	struct berth_task_step step = {0};
	assert_true(berth_reward_meets(&step, NULL));
	step.has_min_reward = true;
	step.min_reward = 0.5;
	assert_true(berth_reward_meets(&step, rewards));
	step.min_reward = 0.6;
	assert_false(berth_reward_meets(&step, rewards));
	step.min_reward = -1;
	assert_false(berth_reward_meets(&step, NULL));
	BERTH_AUTO(berth_json_cleanup) berth_json *both = berth_json_parse("{\"reward\":0.5,\"b\":1.0}", 22, "a", NULL);
	BERTH_AUTO(berth_json_cleanup) berth_json *other = berth_json_parse("{\"c\":-5}", 8, "a", NULL);
	step.min_rewards = both;
	assert_true(berth_reward_meets(&step, rewards));
	step.min_rewards = other;
	assert_false(berth_reward_meets(&step, rewards));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reward_text_is_what_python_float_takes),
	cmocka_unit_test(reward_json_is_an_object_of_numbers),
	cmocka_unit_test(the_message_shows_what_was_not_understood),
	cmocka_unit_test(reward_json_is_read_before_reward_txt),
	cmocka_unit_test(folders_links_and_pipes_are_no_rewards),
	cmocka_unit_test(a_reward_file_beyond_the_limit_is_not_read),
	cmocka_unit_test(the_mean_counts_a_missing_key_as_zero_and_leaves_out_unscored_steps),
	cmocka_unit_test(a_step_without_the_key_is_below_every_minimum),
};

BERTH_TEST_MAIN(tests)
