// SPDX-License-Identifier: Apache-2.0
#include "coordinator/budget/money.h"

#include <stdio.h>
#include <string.h>

#define USD_PLACES         9
#define PER_MILLION_PLACES 3 // one USD a million tokens is 1,000 nano-USD a token

static bool fits(bool overflow, int64_t result, struct berth_error *err)
{
	if (overflow || result < 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "an amount of money is outside 0 to 2^63 - 1 nano-USD");
	}
	return true;
}

bool berth_money_add(int64_t a, int64_t b, int64_t *sum, struct berth_error *err)
{
	int64_t result;
	bool overflow = __builtin_add_overflow(a, b, &result);
	if (!fits(overflow || a < 0 || b < 0, result, err)) {
		return false;
	}
	*sum = result;
	return true;
}

bool berth_money_subtract(int64_t a, int64_t b, int64_t *difference, struct berth_error *err)
{
	int64_t result;
	bool overflow = __builtin_sub_overflow(a, b, &result);
	if (!fits(overflow || a < 0 || b < 0, result, err)) {
		return false;
	}
	*difference = result;
	return true;
}

bool berth_money_multiply(int64_t a, int64_t b, int64_t *product, struct berth_error *err)
{
	int64_t result;
	bool overflow = __builtin_mul_overflow(a, b, &result);
	if (!fits(overflow || a < 0 || b < 0, result, err)) {
		return false;
	}
	*product = result;
	return true;
}

static bool is_decimal(const char *text)
{
	size_t whole = strspn(text, "0123456789");
	if (whole == 0) {
		return false;
	}
	if (text[whole] == 0) {
		return true;
	}
	size_t part = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
	return part > 0 && text[whole + 1 + part] == 0;
}

static bool push_digit(int64_t *value, int digit)
{
	return !__builtin_mul_overflow(*value, (int64_t)10, value) &&
	       !__builtin_add_overflow(*value, (int64_t)digit, value);
}

// text * 10^places, up to the next whole number.
static bool parse_scaled(const char *text, int places, int64_t *out, struct berth_error *err)
{
	if (strlen(text) > BERTH_MONEY_TEXT_MAX || !is_decimal(text)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"\"%.*s\" is no amount of USD: give digits with at most one point, such as 12 or 0.25",
			BERTH_MONEY_TEXT_MAX, text);
	}
	int64_t value = 0;
	int seen = 0;
	bool fits_in = true, after_point = false, more = false;
	for (const char *at = text; *at && fits_in; at++) {
		if (*at == '.') {
			after_point = true;
		} else if (after_point && seen == places) {
			more |= *at != '0';
		} else {
			fits_in = push_digit(&value, *at - '0');
			seen += after_point;
		}
	}
	while (fits_in && seen++ < places) {
		fits_in = push_digit(&value, 0);
	}
	if (!fits_in || __builtin_add_overflow(value, (int64_t)more, &value)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s USD is more than 63 bits of nano-USD hold", text);
	}
	*out = value;
	return true;
}

bool berth_money_parse(const char *text, int64_t *nano_usd, struct berth_error *err)
{
	return parse_scaled(text, USD_PLACES, nano_usd, err);
}

bool berth_money_token_price(const char *usd_per_million, int64_t *nano_usd, struct berth_error *err)
{
	return parse_scaled(usd_per_million, PER_MILLION_PLACES, nano_usd, err);
}

void berth_money_format(int64_t nano_usd, char text[static BERTH_MONEY_TEXT_SIZE])
{
	snprintf(text, BERTH_MONEY_TEXT_SIZE, "%lld.%09lld", (long long)(nano_usd / BERTH_NANO_PER_USD),
		(long long)(nano_usd % BERTH_NANO_PER_USD));
	size_t least = (size_t)(strchr(text, '.') - text) + 3;
	for (size_t size = strlen(text); size > least && text[size - 1] == '0'; size--) {
		text[size - 1] = 0;
	}
}
