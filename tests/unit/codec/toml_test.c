// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/toml.h"
#include "tests/support/test.h"

static struct berth_toml *parse(const char *text)
{
	struct berth_error err;
	struct berth_toml *document = berth_toml_parse(text, strlen(text), "task.toml", &err);
	assert_ok(document, err);
	return document;
}

static void assert_tree(const char *text, const char *wanted)
{
	struct berth_toml *document = parse(text);
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	berth_json_write(berth_toml_root(document), 0, &out);
	assert_string_equal(berth_buf_text(&out), wanted);
	berth_toml_free(document);
}

static void keys_come_in_source_order(void **state)
{
	(void)state;
	assert_tree("z = 1\na = 2\n[m]\ny = 1\nb = 2\n[c.d]\nk = 1\n[c.a]\nq = {w = 1, e = 2}\n[[s]]\nn = "
		    "'x'\n[[s]]\nn = 'y'\n",
		"{\"z\": 1, \"a\": 2, \"m\": {\"y\": 1, \"b\": 2}, \"c\": {\"d\": {\"k\": 1}, \"a\": {\"q\": {\"w\": "
		"1, \"e\": "
		"2}}}, \"s\": [{\"n\": \"x\"}, {\"n\": \"y\"}]}");
}

static void types_keep_their_kind(void **state)
{
	(void)state;
	assert_tree("i = 0x10\nf = 2.0\ne = 1e3\nb = true\ns = \"\"\"a\nb\"\"\"\nd = 1979-05-27\nt = 07:32:00\n"
		    "o = 1979-05-27T07:32:00Z\nn = nan\np = -inf\na = [1, \"x\", [2.5]]\n",
		"{\"i\": 16, \"f\": 2.0, \"e\": 1000.0, \"b\": true, \"s\": \"a\\nb\", \"d\": \"1979-05-27\", \"t\": "
		"\"07:32:00\", "
		"\"o\": \"1979-05-27T07:32:00Z\", \"n\": \"nan\", \"p\": \"-inf\", \"a\": [1, \"x\", [2.5]]}");
}

static void letters_of_other_scripts_may_follow_a_line_end_in_a_string(void **state)
{
	(void)state;
	assert_tree("s = \"\"\"a \\\n \xc3\xa9\"\"\"\n# \xe2\x9a\x93\n", "{\"s\": \"a \xc3\xa9\"}");
}

static void each_key_has_its_line(void **state)
{
	(void)state;
	struct berth_toml *document =
		parse("# first\nversion = \"1.0\"\n\n[environment]\n\ncpus = 1\n[environment.env]\nA = \"b\"\n"
		      "[[steps]]\nname = \"x\"\n[[steps]]\n\nname = \"y\"\n");
	static const struct {
		const char *path;
		int line;
	} rows[] = {{"version", 2}, {"environment", 4}, {"environment.cpus", 6}, {"environment.env.A", 8},
		{"steps.0.name", 10}, {"steps.1", 11}, {"steps.1.name", 13}, {"absent", 0}, {"environment.memory", 0}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		assert_int_equal(berth_toml_line(document, rows[i].path), rows[i].line);
	}
	berth_toml_free(document);
}

static void errors_name_file_line_and_column(void **state)
{
	(void)state;
	static const struct {
		const char *text, *part;
	} rows[] = {{"a = 1\nb = \n", "task.toml:2:"}, {"a = 1\na = 2\n", "task.toml:2:"}, {"[x\n", "task.toml:1:"},
		{"a = \"\xff\"\n", "task.toml:1:"}, {"\n\n\"a\\u0000b\" = 1\n", "task.toml:3:"},
		{"a = 99999999999999999999\n", "task.toml:1:"},
		{"a = 1\n[`a.b]\nc = 2\n", "task.toml:2:1: a malformed key"}, {"a = 1 \xc3\xa9\n", "task.toml:1:"},
		{"[a.`b]\n", "task.toml:1:"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_error err;
		assert_fails(berth_toml_parse(rows[i].text, strlen(rows[i].text), "task.toml", &err), err,
			BERTH_ERROR_INVALID, rows[i].part);
	}
}

static void nesting_is_refused_before_it_is_parsed(void **state)
{
	(void)state;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_buf_add_text(&text, "ok = '''\n[[[\n'''\n[a");
	for (int i = 0; i < 300000; i++) {
		berth_buf_add_text(&text, ".a");
	}
	berth_buf_add_text(&text, "]\n");
	struct berth_error err;
	assert_fails(berth_toml_parse(berth_buf_text(&text), text.size, "deep", &err), err, BERTH_ERROR_INVALID,
		"deep:4:1: nested");
	// Dots and brackets inside strings and comments are no nesting.
	BERTH_AUTO(berth_buf_free) struct berth_buf flat = {0};
	berth_buf_add_text(&flat, "# ");
	for (int i = 0; i < 400; i++) {
		berth_buf_add_text(&flat, ".[");
	}
	berth_buf_printf(&flat, "\na = \"%.*s \\\" .\"\nb = '%.*s'\n", 600, berth_buf_text(&flat) + 2, 600,
		berth_buf_text(&flat) + 2);
	struct berth_toml *document = parse(berth_buf_text(&flat));
	assert_int_equal(berth_json_size(berth_toml_root(document)), 2);
	berth_toml_free(document);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(keys_come_in_source_order),
	cmocka_unit_test(types_keep_their_kind),
	cmocka_unit_test(letters_of_other_scripts_may_follow_a_line_end_in_a_string),
	cmocka_unit_test(each_key_has_its_line),
	cmocka_unit_test(errors_name_file_line_and_column),
	cmocka_unit_test(nesting_is_refused_before_it_is_parsed),
};

BERTH_TEST_MAIN(tests)
