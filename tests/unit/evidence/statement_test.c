// SPDX-License-Identifier: Apache-2.0
// Statements that are signed together, each checked alone.
#include "common/evidence/statement.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/evidence/merkle.h"
#include "tests/support/key.h"
#include "tests/support/test.h"

#define TEXT_SIZE 40

struct fixture {
	struct test_key key;
};

static int set_up(void **state)
{
	struct fixture *fixture = berth_alloc(sizeof *fixture);
	fixture->key = test_key_make();
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	test_key_clear(&fixture->key);
	free(fixture);
	return 0;
}

struct signed_one { // a statement and all that it points into
	struct berth_signed_statement of;
	char text[TEXT_SIZE];
	struct berth_digest path[BERTH_STATEMENT_PATH_MAX + 1];
	uint8_t signature[BERTH_SIGNATURE_SIZE];
};

static void write_text(char text[static TEXT_SIZE], const char *name, size_t index)
{
	snprintf(text, TEXT_SIZE, "%.12s %zu", name, index);
}

// Number `index` of the group NAME 0 .. NAME count-1.
static void make(const struct fixture *fixture, const char *name, size_t count, size_t index, struct signed_one *one)
{
	struct berth_statement_group *group = berth_statement_group_new();
	struct berth_error err;
	for (size_t i = 0; i < count; i++) {
		write_text(one->text, name, i);
		berth_statement_group_add(group, one->text, strlen(one->text));
	}
	assert_int_equal(berth_statement_group_size(group), count);
	assert_ok(berth_statement_group_sign(group, fixture->key.own, one->signature, &err), err);
	write_text(one->text, name, index);
	size_t hashes = berth_statement_group_path(group, index, one->path);
	one->of = (struct berth_signed_statement){.statement = one->text,
		.size = strlen(one->text),
		.index = index,
		.group_size = count,
		.path = one->path[0].bytes,
		.path_size = hashes * BERTH_DIGEST_SIZE,
		.signature = one->signature,
		.signature_size = sizeof one->signature};
	berth_statement_group_free(group);
}

static bool verify(const struct fixture *fixture, const struct signed_one *one, struct berth_checked_group *checked,
	struct berth_error *err)
{
	return berth_statement_verify(fixture->key.der, fixture->key.der_size, &one->of, checked, err);
}

static void assert_refused(const struct fixture *fixture, const struct signed_one *one, enum berth_error_code code)
{
	struct berth_error err;
	struct berth_checked_group none = {0}, group = {0};
	assert_fails(verify(fixture, one, &none, &err), err, code, "");
	assert_int_equal(none.size, 0);
	// Nor is it taken beside one of its group that was good.
	struct signed_one good;
	make(fixture, "cell", 5, 0, &good);
	assert_ok(verify(fixture, &good, &group, &err), err);
	assert_fails(verify(fixture, one, &group, &err), err, code, "");
}

static void each_statement_of_a_group_of_any_size_is_proved_alone(void **state)
{
	static const size_t sizes[] = {1, 2, 3, 5, 8, 16, 63, 64, 65, 255, 256};
	for (size_t i = 0; i < BERTH_COUNT(sizes); i++) {
		for (size_t index = 0; index < sizes[i]; index += 1 + sizes[i] / 9) {
			struct signed_one one;
			struct berth_checked_group checked = {0};
			struct berth_error err;
			make(*state, "cell", sizes[i], index, &one);
			assert_ok(verify(*state, &one, &checked, &err), err);
			assert_int_equal(checked.size, sizes[i]);
		}
	}
}

static void one_statement_alone_has_an_empty_path_and_its_leaf_for_a_root(void **state)
{
	struct fixture *fixture = *state;
	struct signed_one one;
	struct berth_error err;
	make(fixture, "cell", 1, 0, &one);
	assert_int_equal(one.of.path_size, 0);
	struct berth_digest leaf = berth_merkle_leaf(one.text, strlen(one.text));
	char digest[BERTH_DIGEST_TEXT_SIZE];
	berth_digest_text(&leaf, digest);
	BERTH_AUTO_FREE char *text = berth_format("{\"root\":\"%s\",\"size\":1}", digest);
	assert_ok(berth_verify(fixture->key.der, fixture->key.der_size, "application/vnd.berth.trial-statements+json",
			  text, strlen(text), one.signature, sizeof one.signature, &err),
		err);
}

static void a_group_that_was_checked_serves_its_others(void **state)
{
	struct signed_one first, second;
	struct berth_checked_group checked = {0};
	struct berth_error err;
	make(*state, "cell", 5, 1, &first);
	make(*state, "cell", 5, 4, &second);
	assert_ok(verify(*state, &first, &checked, &err), err);
	// With the key of nobody, so not by a second check.
	assert_ok(berth_statement_verify("", 0, &second.of, &checked, &err), err);
	make(*state, "other", 5, 4, &second);
	assert_false(berth_statement_verify("", 0, &second.of, &checked, &err));
	assert_ok(verify(*state, &second, &checked, &err), err);
	assert_false(berth_statement_verify("", 0, &first.of, &checked, &err));
}

static void another_statement_index_or_size_is_refused(void **state)
{
	struct signed_one one;
	make(*state, "cell", 5, 2, &one);
	one.text[0] = 'C';
	assert_refused(*state, &one, BERTH_ERROR_CORRUPT);
	for (uint64_t index = 0; index < 5; index++) {
		make(*state, "cell", 5, 2, &one);
		one.of.index = index;
		if (index != 2) { // the last one's path is shorter
			assert_refused(*state, &one, index == 4 ? BERTH_ERROR_INVALID : BERTH_ERROR_CORRUPT);
		}
	}
	static const uint64_t sizes[] = {6, 7, 8}; // for which a path of three leads somewhere
	for (size_t i = 0; i < BERTH_COUNT(sizes); i++) {
		make(*state, "cell", 5, 2, &one);
		one.of.group_size = sizes[i];
		assert_refused(*state, &one, BERTH_ERROR_CORRUPT);
	}
}

static void a_place_that_no_group_has_is_refused(void **state)
{
	static const struct {
		uint64_t index, group_size;
		size_t path_size;
	} places[] = {
		{2, 0, 96},
		{0, 0, 0},
		{2, 257, 96},
		{256, 257, 32}, // a path that would lead somewhere
		{2, UINT32_MAX, 96},
		{5, 5, 96},
		{UINT32_MAX, 5, 96},
		{2, 5, 0},
		{2, 5, 64},
		{2, 5, 95},
		{2, 5, 97},
		{2, 5, 128},
		{2, 256, (BERTH_STATEMENT_PATH_MAX + 1) * BERTH_DIGEST_SIZE},
	};
	for (size_t i = 0; i < BERTH_COUNT(places); i++) {
		struct signed_one one;
		make(*state, "cell", 5, 2, &one);
		one.of.index = places[i].index;
		one.of.group_size = places[i].group_size;
		one.of.path_size = places[i].path_size;
		assert_refused(*state, &one, BERTH_ERROR_INVALID);
	}
}

static void the_path_or_the_signature_of_another_group_is_refused(void **state)
{
	struct signed_one one, other;
	make(*state, "other", 5, 2, &other);
	make(*state, "cell", 5, 2, &one);
	one.of.path = other.path[0].bytes;
	assert_refused(*state, &one, BERTH_ERROR_CORRUPT);
	make(*state, "cell", 5, 2, &one);
	one.of.signature = other.signature;
	assert_refused(*state, &one, BERTH_ERROR_CORRUPT);
	make(*state, "cell", 5, 2, &one);
	one.path[1].bytes[7] ^= 1;
	assert_refused(*state, &one, BERTH_ERROR_CORRUPT);
	make(*state, "cell", 5, 2, &one);
	one.of.signature_size--;
	assert_refused(*state, &one, BERTH_ERROR_CORRUPT);
}

static void a_signature_over_the_statement_itself_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct signed_one one;
	struct berth_error err;
	make(fixture, "cell", 1, 0, &one);
	assert_ok(berth_sign(fixture->key.own, BERTH_STATEMENTS_TYPE, one.text, strlen(one.text), one.signature, &err),
		err);
	assert_refused(fixture, &one, BERTH_ERROR_CORRUPT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	TEST(each_statement_of_a_group_of_any_size_is_proved_alone),
	TEST(one_statement_alone_has_an_empty_path_and_its_leaf_for_a_root),
	TEST(a_group_that_was_checked_serves_its_others),
	TEST(another_statement_index_or_size_is_refused),
	TEST(a_place_that_no_group_has_is_refused),
	TEST(the_path_or_the_signature_of_another_group_is_refused),
	TEST(a_signature_over_the_statement_itself_is_refused),
};

BERTH_TEST_MAIN(tests)
