// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/budget/charge.h"
#include "coordinator/budget/money.h"
#include "tests/support/test.h"

static void sums_and_products_above_63_bits_are_errors(void **state)
{
	(void)state;
	struct berth_error err = {0};
	int64_t out = 7;
	assert_true(berth_money_add(INT64_MAX - 1, 1, &out, &err));
	assert_int_equal(out, INT64_MAX);
	assert_fails(berth_money_add(INT64_MAX, 1, &out, &err), err, BERTH_ERROR_INVALID, "2^63");
	assert_fails(berth_money_multiply(INT64_MAX / 2 + 1, 2, &out, &err), err, BERTH_ERROR_INVALID, "2^63");
	assert_fails(berth_money_subtract(1, 2, &out, &err), err, BERTH_ERROR_INVALID, "2^63");
	assert_int_equal(out, INT64_MAX); // untouched by what failed
}

static void negative_amounts_are_errors_even_where_the_result_is_not(void **state)
{
	(void)state;
	int64_t out;
	assert_false(berth_money_add(-1, 2, &out, NULL));
	assert_false(berth_money_multiply(-2, -2, &out, NULL));
	assert_false(berth_money_subtract(1, -1, &out, NULL));
}

static void currency_is_read_exactly_and_rounds_up(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t nano_usd;
	} rows[] = {{"0", 0}, {"12", 12000000000}, {"0.25", 250000000}, {"0.000000001", 1}, {"0.0000000001", 1},
		{"0.0000000010", 1}, {"1.0000000001", 1000000001}, {"007.50", 7500000000},
		{"9223372036.854775807", INT64_MAX}, {"9223372036.8547758069", INT64_MAX},
		{"0.00000000000000000000000000000000000000000000000000000000001", 1}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		int64_t out = -1;
		struct berth_error err = {0};
		assert_ok(berth_money_parse(rows[i].text, &out, &err), err);
		assert_int_equal(out, rows[i].nano_usd);
	}
}

static void what_is_no_decimal_is_refused(void **state)
{
	(void)state;
	static const char *const rows[] = {"", "-1", "+1", "1e3", "1E-9", "NaN", "nan", "Infinity", "inf", "1.", ".5",
		"1.2.3", " 1", "1 ", "1_000", "0x10", "1,5", "\xd9\xa1",
		"1.00000000000000000000000000000000000000000000000000000000000000000"};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		int64_t out;
		struct berth_error err = {0};
		assert_fails(berth_money_parse(rows[i], &out, &err), err, BERTH_ERROR_INVALID, "no amount of USD");
	}
	static const char *const large[] = {"9223372036.854775808", "9223372036.8547758071", "99999999999999999999"};
	for (size_t i = 0; i < BERTH_COUNT(large); i++) {
		int64_t out;
		struct berth_error err = {0};
		assert_fails(berth_money_parse(large[i], &out, &err), err, BERTH_ERROR_INVALID, "63 bits");
	}
}

static void a_price_for_a_million_tokens_rounds_up_for_one(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t nano_usd;
	} rows[] = {{"1.1", 1100}, {"5.5", 5500}, {"3.2", 3200}, {"0.0001", 1}, {"27.5", 27500}, {"0", 0},
		{"2.0001", 2001}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		int64_t out = -1;
		struct berth_error err = {0};
		assert_ok(berth_money_token_price(rows[i].text, &out, &err), err);
		assert_int_equal(out, rows[i].nano_usd);
	}
}

static void formatted_money_reads_back_to_the_same_amount(void **state)
{
	(void)state;
	static const struct {
		int64_t nano_usd;
		const char *text;
	} rows[] = {{0, "0.00"}, {1, "0.000000001"}, {370, "0.00000037"}, {12500000000, "12.50"}, {1000000000, "1.00"},
		{INT64_MAX, "9223372036.854775807"}, {10000000, "0.01"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		char text[BERTH_MONEY_TEXT_SIZE];
		berth_money_format(rows[i].nano_usd, text);
		assert_string_equal(text, rows[i].text);
		int64_t back;
		assert_true(berth_money_parse(text, &back, NULL));
		assert_int_equal(back, rows[i].nano_usd);
	}
}

static Berth__V1__TimedMeter golden_meter(void)
{
	Berth__V1__TimedMeter meter = BERTH__V1__TIMED_METER__INIT;
	meter.fixed_nano_usd = 10;
	meter.nano_usd_per_second = 3;
	meter.billing_quantum_seconds = 60;
	meter.max_billing_seconds = 1050;
	return meter;
}

static void golden_billing_quantum_60_fixed_10_rate_3(void **state)
{
	(void)state;
	static const struct {
		int64_t elapsed_ns, billed;
	} rows[] = {{0, 60}, {1, 60}, {60000000000, 60}, {60000000100, 120}, {1050000000000, 1080}};
	Berth__V1__TimedMeter meter = golden_meter();
	int64_t out;
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		assert_true(berth_charge_billed(&meter, rows[i].elapsed_ns, &out, NULL));
		assert_int_equal(out, rows[i].billed);
	}
	assert_true(berth_charge_ceiling(&meter, &out, NULL));
	assert_int_equal(out, 3250);
	assert_false(berth_charge_billed(&meter, -1, &out, NULL));
}

static void ceiling_370_for_10_and_3_times_120(void **state)
{
	(void)state;
	Berth__V1__TimedMeter meter = golden_meter();
	meter.max_billing_seconds = 61;
	int64_t out;
	assert_true(berth_charge_ceiling(&meter, &out, NULL));
	assert_int_equal(out, 370);
	assert_true(berth_charge_timed(&meter, 120, &out, NULL));
	assert_int_equal(out, 370);
}

static void a_charge_that_overflows_is_an_error(void **state)
{
	(void)state;
	Berth__V1__TimedMeter meter = golden_meter();
	meter.nano_usd_per_second = INT64_MAX / 1000;
	struct berth_error err = {0};
	int64_t out;
	assert_fails(berth_charge_ceiling(&meter, &out, &err), err, BERTH_ERROR_INVALID, "2^63");
	meter.billing_quantum_seconds = INT64_MAX;
	assert_false(berth_charge_timed(&meter, INT64_MAX, &out, NULL));
	meter.max_billing_seconds = INT64_MAX;
	meter.billing_quantum_seconds = INT64_MAX - 1;
	assert_false(berth_charge_ceiling(&meter, &out, NULL));
}

static void token_ceilings_count_bytes_overhead_and_the_larger_output_bound(void **state)
{
	(void)state;
	Berth__V1__TokenMeter meter = BERTH__V1__TOKEN_METER__INIT;
	meter.input_nano_usd_per_token = 2;
	meter.output_nano_usd_per_token = 5;
	meter.input_overhead_tokens = 8192;
	int64_t out;
	assert_true(berth_charge_input_ceiling(&meter, 100, &out, NULL));
	assert_int_equal(out, 8292);
	assert_true(berth_charge_output_ceiling(0, 7, &out, NULL));
	assert_int_equal(out, 7);
	assert_true(berth_charge_output_ceiling(9, 7, &out, NULL));
	assert_int_equal(out, 9);
	assert_false(berth_charge_output_ceiling(0, 0, &out, NULL));
	assert_true(berth_charge_tokens(&meter, 10, 4, &out, NULL));
	assert_int_equal(out, 40);
	assert_false(berth_charge_tokens(&meter, INT64_MAX, 4, &out, NULL));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(sums_and_products_above_63_bits_are_errors),
	cmocka_unit_test(negative_amounts_are_errors_even_where_the_result_is_not),
	cmocka_unit_test(currency_is_read_exactly_and_rounds_up),
	cmocka_unit_test(what_is_no_decimal_is_refused),
	cmocka_unit_test(a_price_for_a_million_tokens_rounds_up_for_one),
	cmocka_unit_test(formatted_money_reads_back_to_the_same_amount),
	cmocka_unit_test(golden_billing_quantum_60_fixed_10_rate_3),
	cmocka_unit_test(ceiling_370_for_10_and_3_times_120),
	cmocka_unit_test(a_charge_that_overflows_is_an_error),
	cmocka_unit_test(token_ceilings_count_bytes_overhead_and_the_larger_output_bound),
};

BERTH_TEST_MAIN(tests)
