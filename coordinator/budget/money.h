// SPDX-License-Identifier: Apache-2.0
// Money is a whole number of nano-USD in 63 bits. Overflow is an error, never a wrap; what is read rounds up.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define BERTH_NANO_PER_USD    INT64_C(1000000000)
#define BERTH_MONEY_TEXT_SIZE 24
#define BERTH_MONEY_TEXT_MAX  64 // characters that are read

// Operands are not negative; INVALID when the result is above 63 bits, or below 0.
bool berth_money_add(int64_t a, int64_t b, int64_t *sum, struct berth_error *err);
bool berth_money_subtract(int64_t a, int64_t b, int64_t *difference, struct berth_error *err);
bool berth_money_multiply(int64_t a, int64_t b, int64_t *product, struct berth_error *err);

// Decimal USD such as "12", "0.25": digits and at most one point between digits. A part of a nano-USD counts as a whole
// one. Signs, exponents, NaN, infinities and spaces are refused.
bool berth_money_parse(const char *text, int64_t *nano_usd, struct berth_error *err);
// From a decimal price in USD for a million tokens, up to the next nano-USD a token.
bool berth_money_token_price(const char *usd_per_million, int64_t *nano_usd, struct berth_error *err);
// Exact, with two to nine places: "12.50". Reads back to the same amount. `nano_usd` is not negative.
void berth_money_format(int64_t nano_usd, char text[static BERTH_MONEY_TEXT_SIZE]);
