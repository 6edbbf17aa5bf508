// SPDX-License-Identifier: Apache-2.0
// What an ending costs, and whether it is one that could have been decided.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/charge.h"
#include "coordinator/budget/state.h"
#include "coordinator/budget/text.h"

#define NAMESPACE_MAX 128

typedef Berth__V1__ReservationEnding ending_t;

ending_t *new_ending(Berth__V1__ReservationState state)
{
	ending_t *ending = berth_alloc(sizeof *ending);
	berth__v1__reservation_ending__init(ending);
	ending->state = state;
	return ending;
}

static const char *breach_of(const Berth__V1__Meter *meter, const Berth__V1__Reservation *row, const ending_t *ending)
{
	const Berth__V1__Usage *usage = ending->usage;
	if (meter->kind_case == BERTH__V1__METER__KIND_TIMED) {
		return ending->overrun_nano_usd > 0 && usage->provider_confirmed ? "reservation" : "";
	}
	bool has_ceilings = row->input_token_ceiling || row->output_token_ceiling;
	return ending->overrun_nano_usd > 0                                       ? "reservation"
	       : has_ceilings && usage->input_tokens > row->input_token_ceiling   ? "input_token_ceiling"
	       : has_ceilings && usage->output_tokens > row->output_token_ceiling ? "output_token_ceiling"
	                                                                          : "";
}

bool price_ending(
	const Berth__V1__Meter *meter, const Berth__V1__Reservation *row, ending_t *ending, struct berth_error *err)
{
	const Berth__V1__Usage *usage = ending->usage;
	int64_t cost;
	bool fine = meter->kind_case == BERTH__V1__METER__KIND_TIMED
	                    ? berth_charge_timed(meter->timed, usage->quantity, &cost, err)
	                    : berth_charge_tokens(meter->tokens, usage->input_tokens, usage->output_tokens, &cost, err);
	if (!fine) {
		return false;
	}
	ending->charged_nano_usd = cost < row->max_nano_usd ? cost : row->max_nano_usd;
	ending->overrun_nano_usd = cost - ending->charged_nano_usd;
	const char *breach = breach_of(meter, row, ending);
	berth_proto_set_string(&ending->breach_kind, breach);
	ending->state = breach[0] ? BERTH__V1__RESERVATION_STATE__BREACHED : BERTH__V1__RESERVATION_STATE__SETTLED;
	return true;
}

static bool check_timed_usage(
	const Berth__V1__TimedMeter *meter, const Berth__V1__Usage *usage, struct berth_error *err)
{
	int64_t billed;
	if (strcmp(usage->unit, "billing_second") != 0 || usage->input_tokens || usage->output_tokens) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "a timed meter is settled in billing seconds alone");
	}
	if (usage->quantity < meter->billing_quantum_seconds) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "a settlement bills at least one billing quantum");
	}
	if (usage->quantity % meter->billing_quantum_seconds != 0) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "a settlement bills whole billing quanta");
	}
	if (!berth_charge_billed(meter, usage->elapsed_ns, &billed, err) || usage->quantity > billed) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "a settlement bills more time than was measured");
	}
	return true;
}

static bool check_usage(const Berth__V1__Meter *meter, const Berth__V1__Usage *usage, struct berth_error *err)
{
	if (!usage) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "a settlement without usage");
	}
	if (meter->kind_case == BERTH__V1__METER__KIND_TIMED) {
		return check_timed_usage(meter->timed, usage, err);
	}
	if (strcmp(usage->unit, "token") != 0 || usage->quantity || usage->elapsed_ns || usage->input_tokens < 0 ||
		usage->output_tokens < 0) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "a token meter is settled in tokens alone");
	}
	return true;
}

static bool check_provenance(const Berth__V1__TerminalProvenance *provenance, struct berth_error *err)
{
	return !provenance ||
	       (provenance->schema_version == 1 && text_is_dotted(provenance->namespace_, NAMESPACE_MAX) &&
		       text_is_digest(provenance->digest)) ||
	       berth_fail(err, BERTH_ERROR_CORRUPT,
		       "a provenance has schema version 1, a namespace (a-z 0-9 _ . -) and a sha256: digest");
}

// The frozen tariff gives one ending for one usage.
static bool check_settled(const Berth__V1__Meter *meter, const Berth__V1__Reservation *row, const ending_t *ending,
	struct berth_error *err)
{
	if (!check_usage(meter, ending->usage, err) || !check_provenance(ending->provenance, err)) {
		return false;
	}
	BERTH_AUTO(berth_proto_cleanup) ending_t *priced = berth_proto_clone(ending);
	if (!price_ending(meter, row, priced, err)) {
		return false;
	}
	if (!same_message(priced, ending)) {
		return berth_fail(err, BERTH_ERROR_CORRUPT,
			"charge, overrun or breach differ from the frozen tariff: %lld + %lld nano-USD \"%s\", not "
			"%lld + "
			"%lld \"%.32s\"",
			(long long)priced->charged_nano_usd, (long long)priced->overrun_nano_usd, priced->breach_kind,
			(long long)ending->charged_nano_usd, (long long)ending->overrun_nano_usd, ending->breach_kind);
	}
	return true;
}

static bool is_bare(const ending_t *ending)
{
	return !ending->usage && !ending->provenance && !ending->overrun_nano_usd && !ending->breach_kind[0];
}

static bool check_unused(const Berth__V1__Reservation *row, const ending_t *ending, struct berth_error *err)
{
	bool forfeited = ending->state == BERTH__V1__RESERVATION_STATE__FORFEITED;
	bool never = ending->proof == BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED ||
	             ending->proof == BERTH__V1__DEATH_PROOF__REJECTED;
	if (!is_bare(ending) || (!forfeited && ending->state != BERTH__V1__RESERVATION_STATE__RELEASED)) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "an ending without sense");
	}
	if (forfeited && (ending->charged_nano_usd != row->max_nano_usd || ending->proof ||
				 !text_is_failure_type(ending->failure_type))) {
		return berth_fail(
			err, BERTH_ERROR_CORRUPT, "a forfeit charges the whole ceiling and has a failure type");
	}
	if (!forfeited && (ending->charged_nano_usd || !never || ending->failure_type[0])) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "a release charges nothing and needs its proof");
	}
	return true;
}

bool check_ending(const Berth__V1__Meter *meter, const Berth__V1__Reservation *row, const ending_t *ending,
	struct berth_error *err)
{
	if (!ending || ending->receipt_digest[0]) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "an end without an ending, or with an appeal's");
	}
	if (ending->state != BERTH__V1__RESERVATION_STATE__SETTLED &&
		ending->state != BERTH__V1__RESERVATION_STATE__BREACHED) {
		return check_unused(row, ending, err);
	}
	if (ending->failure_type[0] || ending->proof) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "a settlement has neither failure type nor proof");
	}
	return check_settled(meter, row, ending, err);
}

void add_ending(struct reservation *reservation, const ending_t *ending, int sign)
{
	for (size_t i = 0; i < ACCOUNT_KINDS; i++) {
		struct account *account = reservation->accounts[i];
		if (!account) {
			continue;
		}
		if (ending->state == BERTH__V1__RESERVATION_STATE__FORFEITED) {
			account->forfeited += sign * ending->charged_nano_usd;
		} else {
			account->settled += sign * ending->charged_nano_usd;
		}
		account->overrun += sign * ending->overrun_nano_usd;
	}
}
