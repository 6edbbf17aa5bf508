// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/trial/redact.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/test.h"

static struct redactor redactor_of(const char *const *values)
{
	struct redactor redactor = {0};
	for (; *values; values++) {
		redactor_add(&redactor, *values);
	}
	return redactor;
}
#define REDACTOR(...) redactor_of((const char *const[]){__VA_ARGS__, NULL})

static void assert_text(const struct redactor *redactor, const char *text, const char *wanted)
{
	struct berth_buf out = {0};
	redact_bytes(redactor, text, strlen(text), &out);
	assert_string_equal(berth_buf_text(&out), wanted);
	berth_buf_free(&out);
}

static void assert_json(const struct redactor *redactor, const char *text, const char *wanted)
{
	struct berth_buf out = {0};
	bool changed;
	assert_true(redact_json(redactor, text, strlen(text), &out, &changed));
	assert_string_equal(berth_buf_text(&out), wanted);
	assert_int_equal(changed, strcmp(text, wanted) != 0);
	berth_buf_free(&out);
}

static void the_longest_value_wins(void **state)
{
	(void)state;
	struct redactor redactor = REDACTOR("hunter", "hunter2000", "quay");
	assert_text(&redactor, "hunter2000 hunter2 quayquay", "[REDACTED] [REDACTED]2 [REDACTED][REDACTED]");
	redactor_free(&redactor);
}

static void short_values_destroy_no_result(void **state)
{
	(void)state;
	struct redactor redactor = REDACTOR("1", "0.5", "yes", "");
	assert_int_equal(redactor.count, 0);
	assert_text(&redactor, "reward 1 or 0.5, yes", "reward 1 or 0.5, yes");
	redactor_free(&redactor);
}

static void json_is_redacted_in_string_values_only(void **state)
{
	(void)state;
	struct redactor redactor = REDACTOR("2024", "fallback");
	assert_json(&redactor, "{\"fallback\" : 2024,\n \"b\":[\"x2024y\", 2024.5e1, {\"2024\":\"fallback\"}]}",
		"{\"fallback\" : 2024,\n \"b\":[\"x[REDACTED]y\", 2024.5e1, {\"2024\":\"[REDACTED]\"}]}");
	assert_json(&redactor, "\"\\u0066allb\\u0061ck\"", "\"[REDACTED]\"");
	assert_json(&redactor, "[\"a\\\\\", \"b\\\"fallback\"]", "[\"a\\\\\", \"b\\\"[REDACTED]\"]");
	redactor_free(&redactor);
}

static void a_value_is_found_in_its_escaped_form_too(void **state)
{
	(void)state;
	struct redactor redactor = REDACTOR("tide\"line\nlow");
	assert_text(&redactor, "{\"a\":\"tide\\\"line\\nlow\"} tide\"line\nlow", "{\"a\":\"[REDACTED]\"} [REDACTED]");
	redactor_free(&redactor);
}

static void a_value_on_the_edge_of_two_pieces_is_found(void **state)
{
	(void)state;
	struct redactor redactor = REDACTOR("secret-value", "secret-value-longer");
	const char *text = "a secret-value and a secret-value-longer end";
	for (size_t cut = 1; cut < strlen(text); cut++) {
		struct berth_buf window = {0}, out = {0};
		bool found = false;
		berth_buf_add(&window, text, cut);
		berth_buf_consume(&window, redact_window(&redactor, window.data, window.size, false, &out, &found));
		berth_buf_add_text(&window, text + cut);
		redact_window(&redactor, window.data, window.size, true, &out, &found);
		assert_true(found);
		assert_string_equal(berth_buf_text(&out), "a [REDACTED] and a [REDACTED] end");
		berth_buf_free(&window);
		berth_buf_free(&out);
	}
	redactor_free(&redactor);
}

static void write_file(const char *folder, const char *name, const void *data, size_t size, mode_t mode)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	struct berth_error err = {0};
	assert_ok(berth_file_write(path, data, size, mode, &err), err);
}

static void assert_file(const char *folder, const char *name, const void *data, size_t size)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	struct berth_error err = {0};
	assert_ok(berth_file_read(path, 64 * 1024 * 1024, &text, &err), err);
	assert_int_equal(text.size, size);
	assert_memory_equal(text.data, data, size);
}
#define TEXT(text) text, sizeof(text) - 1

static void a_folder_is_redacted_and_no_link_followed(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *outside = berth_test_folder();
	BERTH_AUTO_FREE char *deep = berth_format("%s/a/b", folder);
	BERTH_AUTO_FREE char *link = berth_path_join(folder, "link.txt");
	BERTH_AUTO_FREE char *target = berth_path_join(outside, "out.txt");
	BERTH_AUTO_FREE char *log = berth_path_join(folder, "a/b/run.log");
	berth_mkdir_all(deep, 0755, NULL);
	write_file(outside, "out.txt", TEXT("hunter2000"), 0644);
	assert_int_equal(symlink(target, link), 0);
	write_file(folder, "a/b/run.log", TEXT("\xff\xfe broken hunter2000 \xe2\x82"), 0640);
	write_file(folder, "binary", TEXT("\0 hunter2000"), 0644);
	write_file(folder, "result.json", TEXT("{\"hunter2000\": \"hunter2000\"}"), 0644);
	write_file(folder, "torn.json", TEXT("{\"hunter2000\": \"hunter2000"), 0644);
	struct redactor redactor = REDACTOR("hunter2000");
	struct berth_error err = {0};
	assert_ok(redact_folder(&redactor, folder, &err), err);
	redactor_free(&redactor);
	assert_file(outside, "out.txt", TEXT("hunter2000"));
	assert_file(folder, "a/b/run.log", TEXT("\xff\xfe broken [REDACTED] \xe2\x82"));
	assert_file(folder, "binary", TEXT("\0 hunter2000"));
	assert_file(folder, "result.json", TEXT("{\"hunter2000\": \"[REDACTED]\"}"));
	assert_file(folder, "torn.json", TEXT("{\"[REDACTED]\": \"[REDACTED]"));
	struct stat stat_of;
	assert_int_equal(stat(log, &stat_of), 0);
	assert_int_equal(stat_of.st_mode & 07777, 0640);
}

static void a_large_file_is_redacted_across_its_pieces(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct berth_buf text = {0}, wanted = {0};
	// 13 does not divide the size of a piece, so that values fall on every kind of edge.
	for (int i = 0; i < 100000; i++) {
		berth_buf_add_text(&text, "hunter2000 .\n");
		berth_buf_add_text(&wanted, "[REDACTED] .\n");
	}
	write_file(folder, "large.txt", text.data, text.size, 0644);
	struct redactor redactor = REDACTOR("hunter2000");
	struct berth_error err = {0};
	assert_ok(redact_folder(&redactor, folder, &err), err);
	redactor_free(&redactor);
	assert_file(folder, "large.txt", wanted.data, wanted.size);
	berth_buf_free(&text);
	berth_buf_free(&wanted);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_longest_value_wins),
	cmocka_unit_test(short_values_destroy_no_result),
	cmocka_unit_test(json_is_redacted_in_string_values_only),
	cmocka_unit_test(a_value_is_found_in_its_escaped_form_too),
	cmocka_unit_test(a_value_on_the_edge_of_two_pieces_is_found),
	cmocka_unit_test(a_folder_is_redacted_and_no_link_followed),
	cmocka_unit_test(a_large_file_is_redacted_across_its_pieces),
};
BERTH_TEST_MAIN(tests)
