// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/yaml.h"
#include "tests/support/test.h"

static void assert_tree(const char *text, const char *wanted)
{
	struct berth_error err;
	BERTH_AUTO(berth_json_cleanup) berth_json *value = berth_yaml_parse(text, strlen(text), "job.yaml", &err);
	assert_ok(value, err);
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	berth_json_write(value, 0, &out);
	assert_string_equal(berth_buf_text(&out), wanted);
}

static void plain_scalars_follow_yaml_1_1(void **state)
{
	(void)state;
	assert_tree("[1, -7, 010, 0x1F, 0b101, 1_000, 1:30, +5]", "[1, -7, 8, 31, 5, 1000, 90, 5]");
	assert_tree("[1.5, .5, 1., 1.0e+3, -0.0, 1:30.5]", "[1.5, 0.5, 1.0, 1000.0, -0.0, 90.5]");
	assert_tree("[1e3, 09, 1.0e3, '1', \"2\", 1.2.3, 2026-01-02]",
		"[\"1e3\", \"09\", \"1.0e3\", \"1\", \"2\", \"1.2.3\", \"2026-01-02\"]");
	assert_tree("[yes, No, TRUE, off, y, n, tRUE]", "[true, false, true, false, \"y\", \"n\", \"tRUE\"]");
	assert_tree("[0b, 0x, 1:60, 1:6:07, 1:5.5:1, .5e+3, 1.5e3, +.5, -.inf1, 0_1, 1_:2, +1:00, 08.5, ...]",
		"[\"0b\", \"0x\", \"1:60\", 3967, \"1:5.5:1\", 500.0, \"1.5e3\", \"+.5\", \"-.inf1\", 1, 62, 60, 8.5, "
	        "\"...\"]");
	assert_tree("a: ~\nb: null\nc:\nd: Null\ne: 'null'\n",
		"{\"a\": null, \"b\": null, \"c\": null, \"d\": null, \"e\": \"null\"}");
}

static void tags_force_a_kind(void **state)
{
	(void)state;
	assert_tree(
		"[!!str 1, !!int \"3\", !!float 2, !!bool 'yes', !!null x, ! 7]", "[\"1\", 3, 2.0, true, null, \"7\"]");
}

static void anchors_and_merge_keys_are_expanded(void **state)
{
	(void)state;
	assert_tree("base: &b {x: 1, y: 2}\nmine:\n  y: 3\n  <<: *b\nlist: [*b, &n 5, *n]\n",
		"{\"base\": {\"x\": 1, \"y\": 2}, \"mine\": {\"x\": 1, \"y\": 3}, \"list\": [{\"x\": 1, \"y\": 2}, 5, "
		"5]}");
	assert_tree("a: &a {k: 1}\nb: &b {k: 2, l: 3}\nc: {<<: [*a, *b]}\n",
		"{\"a\": {\"k\": 1}, \"b\": {\"k\": 2, \"l\": 3}, \"c\": {\"k\": 1, \"l\": 3}}");
}

static void documents_without_a_value_are_null(void **state)
{
	(void)state;
	assert_tree("", "null");
	assert_tree("# only a comment\n", "null");
	assert_tree("---\n", "null");
	assert_tree("{}", "{}");
}

static void keys_keep_their_text_and_the_last_wins(void **state)
{
	(void)state;
	assert_tree("1: a\nyes: b\n1: c\n", "{\"1\": \"c\", \"yes\": \"b\"}");
}

static void what_is_not_one_plain_document_is_refused_with_its_place(void **state)
{
	(void)state;
	static const struct {
		const char *text, *part;
	} rows[] = {{"a: 1\nb: [\n", "job.yaml:3:"}, {"a: *nowhere\n", "job.yaml:1:4: an alias"},
		{"a: &x [*x]\n", "an alias"}, {"--- 1\n--- 2\n", "job.yaml:2:1: a second document"},
		{"a: !!python/object:os.system x\n", "job.yaml:1:4: an unknown tag"}, {"? [a]\n: 1\n", "a key must be"},
		{"a: .inf\n", "job.yaml:1:4: .inf is no finite number"},
		{"a: 99999999999999999999\n", "job.yaml:1:4: 99999999999999999999 is no whole number"},
		{"<<: 5\n", "<<: takes"}, {"a: !!int x\n", "job.yaml:1:4: x is no whole"}, {"\ta: 1\n", "job.yaml:1:"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct berth_error err;
		assert_fails(berth_yaml_parse(rows[i].text, strlen(rows[i].text), "job.yaml", &err), err,
			BERTH_ERROR_INVALID, rows[i].part);
	}
}

static void aliases_can_not_grow_a_document_without_bound(void **state)
{
	(void)state;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_buf_add_text(&text, "a0: &a0 [x, x, x, x, x, x, x, x]\n");
	for (int i = 1; i < 12; i++) {
		berth_buf_printf(&text, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1, i - 1,
			i - 1, i - 1, i - 1);
	}
	struct berth_error err;
	assert_fails(berth_yaml_parse(berth_buf_text(&text), text.size, "bomb", &err), err, BERTH_ERROR_INVALID,
		"too many values");
	berth_buf_reset(&text);
	for (int i = 0; i < 5000; i++) {
		berth_buf_add_text(&text, "[");
	}
	assert_fails(
		berth_yaml_parse(berth_buf_text(&text), text.size, "deep", &err), err, BERTH_ERROR_INVALID, "deep:1:");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(plain_scalars_follow_yaml_1_1),
	cmocka_unit_test(tags_force_a_kind),
	cmocka_unit_test(anchors_and_merge_keys_are_expanded),
	cmocka_unit_test(documents_without_a_value_are_null),
	cmocka_unit_test(keys_keep_their_text_and_the_last_wins),
	cmocka_unit_test(what_is_not_one_plain_document_is_refused_with_its_place),
	cmocka_unit_test(aliases_can_not_grow_a_document_without_bound),
};

BERTH_TEST_MAIN(tests)
