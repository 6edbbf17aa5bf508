// SPDX-License-Identifier: Apache-2.0
#include "coordinator/budget/charge.h"

#include "common/base/clock.h"
#include "coordinator/budget/money.h"

static int64_t ceil_divide(int64_t value, int64_t by)
{
	return value / by + (value % by != 0);
}

static bool billed_of_seconds(
	const Berth__V1__TimedMeter *meter, int64_t seconds, int64_t *billed, struct berth_error *err)
{
	int64_t quanta = ceil_divide(seconds, meter->billing_quantum_seconds);
	return berth_money_multiply(quanta > 1 ? quanta : 1, meter->billing_quantum_seconds, billed, err);
}

bool berth_charge_billed(
	const Berth__V1__TimedMeter *meter, int64_t elapsed_ns, int64_t *billed_seconds, struct berth_error *err)
{
	if (elapsed_ns < 0) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a duration of %lld ns is negative", (long long)elapsed_ns);
	}
	return billed_of_seconds(meter, ceil_divide(elapsed_ns, BERTH_NS_PER_S), billed_seconds, err);
}

bool berth_charge_timed(
	const Berth__V1__TimedMeter *meter, int64_t billed_seconds, int64_t *nano_usd, struct berth_error *err)
{
	int64_t cost;
	return berth_money_multiply(billed_seconds, meter->nano_usd_per_second, &cost, err) &&
	       berth_money_add(meter->fixed_nano_usd, cost, nano_usd, err);
}

bool berth_charge_ceiling(const Berth__V1__TimedMeter *meter, int64_t *nano_usd, struct berth_error *err)
{
	int64_t billed;
	return billed_of_seconds(meter, meter->max_billing_seconds, &billed, err) &&
	       berth_charge_timed(meter, billed, nano_usd, err);
}

bool berth_charge_tokens(const Berth__V1__TokenMeter *meter, int64_t input_tokens, int64_t output_tokens,
	int64_t *nano_usd, struct berth_error *err)
{
	int64_t input, output;
	return berth_money_multiply(input_tokens, meter->input_nano_usd_per_token, &input, err) &&
	       berth_money_multiply(output_tokens, meter->output_nano_usd_per_token, &output, err) &&
	       berth_money_add(input, output, nano_usd, err);
}

bool berth_charge_input_ceiling(
	const Berth__V1__TokenMeter *meter, size_t canonical_size, int64_t *tokens, struct berth_error *err)
{
	if (canonical_size > INT64_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "a request is too large to be priced");
	}
	return berth_money_add((int64_t)canonical_size, meter->input_overhead_tokens, tokens, err);
}

bool berth_charge_output_ceiling(
	int64_t max_tokens, int64_t max_completion_tokens, int64_t *tokens, struct berth_error *err)
{
	int64_t most = max_tokens > max_completion_tokens ? max_tokens : max_completion_tokens;
	if (max_tokens < 0 || max_completion_tokens < 0 || most == 0) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"a request bounds its output by max_tokens or max_completion_tokens, at least 1");
	}
	*tokens = most;
	return true;
}
