// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/json.h"
#include "tests/support/test.h"

static berth_json *parse(const char *text)
{
	struct berth_error err;
	berth_json *value = berth_json_parse(text, strlen(text), "x.json", &err);
	assert_ok(value, err);
	return value;
}

static void assert_written(const berth_json *value, int indent, const char *wanted)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	berth_json_write(value, indent, &out);
	assert_string_equal(berth_buf_text(&out), wanted);
}

static void assert_canonical(const char *text, const char *wanted)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *value = parse(text);
	BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
	struct berth_error err;
	assert_ok(berth_json_write_canonical(value, &out, &err), err);
	assert_string_equal(berth_buf_text(&out), wanted);
}

static void canonical_text_sorts_keys_by_code_point_and_has_no_spaces(void **state)
{
	(void)state;
	assert_canonical(" { \"b\" : [ 1 , 2.0, null ] , \"a\" : {\"y\":true, \"x\":false}, \"B\": {} , \"\": []}",
		"{\"\":[],\"B\":{},\"a\":{\"x\":false,\"y\":true},\"b\":[1,2.0,null]}");
	// U+FF61 sorts before U+1F600, which UTF-16 order has the other way round.
	assert_canonical(
		"{\"\\ud83d\\ude00\":1,\"\\uff61\":2,\"z\":3}", "{\"z\":3,\"\xef\xbd\xa1\":2,\"\xf0\x9f\x98\x80\":1}");
}

static void control_characters_are_escaped_as_python_does(void **state)
{
	(void)state;
	assert_canonical("\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\\\/\\u007f\\u00e9\\u2028\"",
		"\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\x7f\xc3\xa9\xe2\x80\xa8\"");
}

static void reals_print_as_python_prints_them(void **state)
{
	(void)state;
	static const struct {
		double value;
		const char *text;
	} rows[] = {{1, "1.0"}, {0.1, "0.1"}, {1e-05, "1e-05"}, {1e16, "1e+16"}, {0, "0.0"}, {-0.0, "-0.0"},
		{0.0001, "0.0001"}, {123456789.125, "123456789.125"}, {1e15, "1000000000000000.0"},
		{9999999999999998, "9999999999999998.0"}, {-2.5e-7, "-2.5e-07"}, {1e22, "1e+22"},
		{1.7976931348623157e308, "1.7976931348623157e+308"}, {5e-324, "5e-324"},
		{2.2250738585072014e-308, "2.2250738585072014e-308"}, {1.0 / 3, "0.3333333333333333"},
		{0.1 + 0.2, "0.30000000000000004"}, {1e100, "1e+100"}, {12345e10, "123450000000000.0"},
		// Powers of two whose nearest 16 digits miss while the text above them hits.
		{0x1p-44, "5.684341886080802e-14"}, {0x1p-24, "5.960464477539063e-08"},
		{0x1p122, "5.316911983139664e+36"}, {0x1p976, "6.386688990511104e+293"},
		{0x1p-1017, "7.120236347223045e-307"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		BERTH_AUTO(berth_json_cleanup) berth_json *value = berth_json_real(rows[i].value);
		assert_written(value, 0, rows[i].text);
	}
}

static void every_real_reads_back_to_the_same_bits(void **state)
{
	(void)state;
	uint64_t seed = 42;
	for (int i = 0; i < 20000; i++) {
		seed = seed * 6364136223846793005U + 1442695040888963407U;
		double value;
		uint64_t bits = seed ^ seed >> 29;
		memcpy(&value, &bits, sizeof value);
		if (!isfinite(value)) {
			continue;
		}
		BERTH_AUTO(berth_json_cleanup) berth_json *real = berth_json_real(value);
		BERTH_AUTO(berth_buf_free) struct berth_buf out = {0};
		berth_json_write(real, 0, &out);
		BERTH_AUTO(berth_json_cleanup) berth_json *back = parse(berth_buf_text(&out));
		double other = berth_json_as_number(back);
		assert_memory_equal(&value, &other, sizeof value);
		assert_true(berth_json_is(back, BERTH_JSON_REAL));
	}
}

static void integers_of_64_bits_are_exact_and_larger_ones_refused(void **state)
{
	(void)state;
	assert_canonical("[9223372036854775807,-9223372036854775808,613568564549284544,-0]",
		"[9223372036854775807,-9223372036854775808,613568564549284544,0]");
	struct berth_error err;
	assert_fails(berth_json_parse("9223372036854775808", 19, "n", &err), err, BERTH_ERROR_INVALID, "n:1:");
}

static void indented_text_keeps_insertion_order(void **state)
{
	(void)state;
	BERTH_AUTO(berth_json_cleanup)
	berth_json *value = parse("{\"b\":{\"k\":[1,{\"x\":1.5}]},\"a\":[],\"c\":{},\"d\":\"\xc3\xa9\"}");
	assert_written(value, 4,
		"{\n    \"b\": {\n        \"k\": [\n            1,\n            {\n                \"x\": 1.5\n        "
		"    "
		"}\n        ]\n    },\n    \"a\": [],\n    \"c\": {},\n    \"d\": \"\xc3\xa9\"\n}");
	assert_written(value, 0, "{\"b\": {\"k\": [1, {\"x\": 1.5}]}, \"a\": [], \"c\": {}, \"d\": \"\xc3\xa9\"}");
}

static void text_that_is_not_json_is_refused_with_its_place(void **state)
{
	(void)state;
	static const char *const bad[] = {"", " ", "{", "{\"a\":1,}", "{'a':1}", "01", "1 x", "[1 2]", "NaN",
		"Infinity", "-", "\"\\ud800\"", "\"\x80\"", "\"a\nb\"", "\xef\xbb\xbf{}", "nul", "1e400", "{\"a\" 1}",
		"[1,]", "+1", ".5", "1."};
	for (size_t i = 0; i < BERTH_COUNT(bad); i++) {
		struct berth_error err;
		assert_fails(berth_json_parse(bad[i], strlen(bad[i]), "r.json", &err), err, BERTH_ERROR_INVALID,
			"r.json:1:");
	}
	struct berth_error err;
	const char *text = "{\n  \"a\": 1\n  \"b\": 2\n}";
	assert_fails(berth_json_parse(text, strlen(text), "r.json", &err), err, BERTH_ERROR_INVALID, "r.json:3:");
}

static void nesting_is_bounded(void **state)
{
	(void)state;
	char text[4 * BERTH_JSON_DEPTH_MAX];
	for (int depth = BERTH_JSON_DEPTH_MAX; depth <= BERTH_JSON_DEPTH_MAX + 1; depth++) {
		memset(text, '[', (size_t)depth);
		memset(text + depth, ']', (size_t)depth);
		struct berth_error err;
		berth_json *value = berth_json_parse(text, 2 * (size_t)depth, "deep", &err);
		assert_int_equal(value != NULL, depth == BERTH_JSON_DEPTH_MAX);
		berth_json_free(value);
	}
}

static void the_last_of_duplicate_keys_wins(void **state)
{
	(void)state;
	BERTH_AUTO(berth_json_cleanup) berth_json *value = parse("{\"a\":1,\"b\":0,\"a\":2}");
	assert_written(value, 0, "{\"a\": 2, \"b\": 0}");
}

static void a_duplicate_key_is_refused_where_it_must_be_unique(void **state)
{
	(void)state;
	const char *text = "{\"a\":{\"b\":1,\"b\":2}}";
	struct berth_error err = {0};
	assert_fails(berth_json_parse_unique(text, strlen(text), "t", &err), err, BERTH_ERROR_INVALID, "duplicate");
	BERTH_AUTO(berth_json_cleanup) berth_json *value = berth_json_parse_unique("{\"a\":1}", 7, "t", &err);
	assert_int_equal(berth_json_get_integer(value, "a"), 1);
}

static void bytes_that_are_no_utf8_become_replacement_characters(void **state)
{
	(void)state;
	static const struct {
		const char *bytes, *wanted;
	} rows[] = {{"a\x80z", "a\xef\xbf\xbdz"}, {"\xe2\x82", "\xef\xbf\xbd"}, {"\xe2\x82z", "\xef\xbf\xbdz"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xf0\x9f\x98", "\xef\xbf\xbd"}, {"\xf5", "\xef\xbf\xbd"}, {"\xc3\xa9", "\xc3\xa9"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		BERTH_AUTO(berth_json_cleanup) berth_json *value = berth_json_string(rows[i].bytes);
		assert_string_equal(berth_json_as_string(value), rows[i].wanted);
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *object = berth_json_object();
	berth_json_set(object, "k\xff", berth_json_integer(1));
	assert_int_equal(berth_json_get_integer(object, "k\xef\xbf\xbd"), 1);
}

static void readers_of_the_wrong_type_give_zeroes(void **state)
{
	(void)state;
	BERTH_AUTO(berth_json_cleanup)
	berth_json *value = parse("{\"i\":7,\"r\":1.5,\"s\":\"t\",\"n\":null,\"b\":true}");
	assert_null(berth_json_get_string(value, "i"));
	assert_int_equal(berth_json_get_integer(value, "r"), 0);
	assert_false(berth_json_get_bool(value, "s"));
	assert_true(berth_json_get_bool(value, "b"));
	assert_true(berth_json_as_number(berth_json_get(value, "i")) == 7.0);
	assert_null(berth_json_get(value, "missing"));
	assert_true(berth_json_is(NULL, BERTH_JSON_NULL));
	assert_int_equal(berth_json_size(berth_json_get(value, "s")), 0);
	assert_null(berth_json_get(berth_json_get(value, "s"), "x"));
}

static void whole_and_real_numbers_are_not_equal(void **state)
{
	(void)state;
	BERTH_AUTO(berth_json_cleanup) berth_json *one = parse("[1,{\"a\":1,\"b\":2}]");
	BERTH_AUTO(berth_json_cleanup) berth_json *other_order = parse("[1,{\"b\":2,\"a\":1}]");
	BERTH_AUTO(berth_json_cleanup) berth_json *real = parse("[1.0,{\"a\":1,\"b\":2}]");
	BERTH_AUTO(berth_json_cleanup) berth_json *null = berth_json_null();
	assert_true(berth_json_equal(one, other_order));
	assert_false(berth_json_equal(one, real));
	assert_true(berth_json_equal(null, NULL));
	assert_false(berth_json_equal(one, NULL));
}

static void a_copy_does_not_follow_its_original(void **state)
{
	(void)state;
	BERTH_AUTO(berth_json_cleanup) berth_json *value = parse("{\"list\":[1]}");
	BERTH_AUTO(berth_json_cleanup) berth_json *copy = berth_json_copy(value);
	berth_json_append(berth_json_get(value, "list"), berth_json_string(NULL));
	berth_json_remove(copy, "absent");
	assert_written(value, 0, "{\"list\": [1, null]}");
	assert_written(copy, 0, "{\"list\": [1]}");
	berth_json_remove(value, "list");
	assert_int_equal(berth_json_size(value), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(canonical_text_sorts_keys_by_code_point_and_has_no_spaces),
	cmocka_unit_test(control_characters_are_escaped_as_python_does),
	cmocka_unit_test(reals_print_as_python_prints_them),
	cmocka_unit_test(every_real_reads_back_to_the_same_bits),
	cmocka_unit_test(integers_of_64_bits_are_exact_and_larger_ones_refused),
	cmocka_unit_test(indented_text_keeps_insertion_order),
	cmocka_unit_test(text_that_is_not_json_is_refused_with_its_place),
	cmocka_unit_test(nesting_is_bounded),
	cmocka_unit_test(the_last_of_duplicate_keys_wins),
	cmocka_unit_test(a_duplicate_key_is_refused_where_it_must_be_unique),
	cmocka_unit_test(bytes_that_are_no_utf8_become_replacement_characters),
	cmocka_unit_test(readers_of_the_wrong_type_give_zeroes),
	cmocka_unit_test(whole_and_real_numbers_are_not_equal),
	cmocka_unit_test(a_copy_does_not_follow_its_original),
};

BERTH_TEST_MAIN(tests)
