// SPDX-License-Identifier: Apache-2.0
// What usage costs, exactly:
//   billed  = max(ceil(elapsed / quantum), 1) * quantum
//   charge  = fixed + billed * nano-USD a second
//   ceiling = charge of billed(max_billing_seconds), which is what a reservation must hold, no more and no less
//   tokens  = input * input price + output * output price
// Each gives INVALID on overflow or a negative amount.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/v1/budget.pb-c.h"
#include "common/base/error.h"

bool berth_charge_billed(
	const Berth__V1__TimedMeter *meter, int64_t elapsed_ns, int64_t *billed_seconds, struct berth_error *err);
bool berth_charge_timed(
	const Berth__V1__TimedMeter *meter, int64_t billed_seconds, int64_t *nano_usd, struct berth_error *err);
bool berth_charge_ceiling(const Berth__V1__TimedMeter *meter, int64_t *nano_usd, struct berth_error *err);
bool berth_charge_tokens(const Berth__V1__TokenMeter *meter, int64_t input_tokens, int64_t output_tokens,
	int64_t *nano_usd, struct berth_error *err);

// The most tokens that a request can be counted as: the bytes of its canonical JSON and the overhead.
bool berth_charge_input_ceiling(
	const Berth__V1__TokenMeter *meter, size_t canonical_size, int64_t *tokens, struct berth_error *err);
// The larger of the two fields that bound an output, each 0 where it is not set; one must be.
bool berth_charge_output_ceiling(
	int64_t max_tokens, int64_t max_completion_tokens, int64_t *tokens, struct berth_error *err);
