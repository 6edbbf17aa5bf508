// SPDX-License-Identifier: Apache-2.0
#include "coordinator/budget/chain.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/json.h"
#include "coordinator/budget/policy.h"

static void set_text(berth_json *object, const char *key, const char *text)
{
	berth_json_set(object, key, text && text[0] ? berth_json_string(text) : berth_json_null());
}

static void set_integer(berth_json *object, const char *key, int64_t value)
{
	berth_json_set(object, key, berth_json_integer(value));
}

static berth_json *new_action(const char *kind)
{
	berth_json *action = berth_json_object();
	set_text(action, "kind", kind);
	return action;
}

// Takes the action.
static bool add_line(struct berth_budget_chain *chain, int64_t at_ns, berth_json *action, struct berth_buf *lines,
	struct berth_error *err)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *entry = berth_json_object();
	char time[BERTH_TIME_TEXT_SIZE], digest[BERTH_DIGEST_TEXT_SIZE];
	berth_time_canonical(at_ns, time);
	berth_digest_text(&chain->previous, digest);
	set_integer(entry, "sequence", (int64_t)chain->sequence + 1);
	set_text(entry, "recorded_at", time);
	set_text(entry, "previous_digest", digest);
	berth_json_set(entry, "action", action);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_json_write_canonical(entry, &text, err)) {
		return false;
	}
	chain->previous = berth_sha256(text.data, text.size);
	chain->sequence++;
	berth_digest_text(&chain->previous, digest);
	set_text(entry, "digest", digest);
	if (!berth_json_write_canonical(entry, lines, err)) {
		return false;
	}
	berth_buf_add_byte(lines, '\n');
	return true;
}

static berth_json *reserved_action(const Berth__V1__Reservation *reservation)
{
	berth_json *action = new_action("reserved"), *scope = berth_json_object();
	set_text(scope, "phase", reservation->scope->phase);
	set_text(scope, "category", reservation->scope->category);
	set_text(scope, "run_id", reservation->scope->run_id);
	set_text(scope, "lane", reservation->scope->lane);
	set_text(scope, "arm", reservation->scope->arm);
	set_text(action, "reservation_id", reservation->reservation_id);
	berth_json_set(action, "scope", scope);
	set_text(action, "meter_id", reservation->meter_id);
	set_integer(action, "max_nano_usd", reservation->max_nano_usd);
	return action;
}

static void set_usage(berth_json *action, const Berth__V1__Usage *usage)
{
	bool tokens = strcmp(usage->unit, "token") == 0;
	berth_json_set(action, "input_tokens", tokens ? berth_json_integer(usage->input_tokens) : berth_json_null());
	berth_json_set(action, "output_tokens", tokens ? berth_json_integer(usage->output_tokens) : berth_json_null());
	berth_json_set(action, "usage_quantity", tokens ? berth_json_null() : berth_json_integer(usage->quantity));
	set_text(action, "usage_unit", tokens ? NULL : usage->unit);
}

static berth_json *settled_action(const Berth__V1__ReservationEnding *ending)
{
	bool breached = ending->state == BERTH__V1__RESERVATION_STATE__BREACHED;
	berth_json *action = new_action("settled");
	set_integer(action, "charged_nano_usd", ending->charged_nano_usd + (breached ? ending->overrun_nano_usd : 0));
	set_usage(action, ending->usage);
	set_text(action, "status", breached ? "breached" : "settled");
	set_text(action, "breach_kind", ending->breach_kind);
	if (ending->provenance) {
		berth_json *provenance = berth_json_object();
		set_integer(provenance, "schema_version", ending->provenance->schema_version);
		set_text(provenance, "namespace", ending->provenance->namespace_);
		set_text(provenance, "digest", ending->provenance->digest);
		berth_json_set(action, "terminal_provenance", provenance);
	}
	// Time that nobody but the agent saw is no charge, and the reference has no word for it.
	if (!breached && ending->overrun_nano_usd) {
		set_integer(action, "overrun_nano_usd", ending->overrun_nano_usd);
	}
	return action;
}

static berth_json *ended_action(const char *reservation_id, const Berth__V1__ReservationEnding *ending)
{
	berth_json *action;
	if (ending->usage) {
		action = settled_action(ending);
	} else if (ending->state == BERTH__V1__RESERVATION_STATE__FORFEITED) {
		action = new_action("forfeited");
		set_integer(action, "charged_nano_usd", ending->charged_nano_usd);
		set_text(action, "failure_type", ending->failure_type);
	} else {
		bool never = ending->proof == BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED;
		action = new_action("released");
		set_text(action, "proof", never ? "never_dispatched" : "rejected");
	}
	set_text(action, "reservation_id", reservation_id);
	return action;
}

static berth_json *appealed_action(const Berth__Store__V1__BudgetAppealed *appealed)
{
	berth_json *action = new_action("appealed");
	set_text(action, "reservation_id", appealed->forfeited->reservation_id);
	set_text(action, "receipt_digest", appealed->ending->receipt_digest);
	set_integer(action, "charged_nano_usd", appealed->ending->charged_nano_usd);
	berth_json_set(action, "usage_quantity",
		appealed->ending->usage ? berth_json_integer(appealed->ending->usage->quantity) : berth_json_null());
	return action;
}

static berth_json *amended_action(const Berth__Store__V1__BudgetAmended *amended)
{
	berth_json *action = new_action("amended"), *phases = berth_json_object(), *subs = berth_json_array();
	set_integer(action, "number", (int64_t)amended->number);
	set_text(action, "reason", amended->reason);
	set_text(action, "key_id", amended->key_id);
	BERTH_AUTO_FREE char *signature = berth_base64(amended->signature.data, amended->signature.len);
	set_text(action, "signature_base64", signature);
	berth_json_set(action, "hard_limit_nano_usd",
		amended->hard_limit_nano_usd ? berth_json_integer(amended->hard_limit_nano_usd) : berth_json_null());
	for (size_t i = 0; i < amended->n_phase_limits; i++) {
		set_integer(phases, amended->phase_limits[i]->phase, amended->phase_limits[i]->limit_nano_usd);
	}
	berth_json_set(action, "phase_limits_nano_usd", phases);
	for (size_t i = 0; i < amended->n_sub_limits; i++) {
		const Berth__V1__SubLimit *sub = amended->sub_limits[i];
		berth_json *inner = berth_json_object();
		set_text(inner, "job_id", sub->job_id);
		set_text(inner, "user", sub->user);
		berth_json_set(inner, "limit_nano_usd",
			sub->removed ? berth_json_null() : berth_json_integer(sub->limit_nano_usd));
		berth_json_append(subs, inner);
	}
	berth_json_set(action, "sub_limits", subs);
	return action;
}

static berth_json *job_limited_action(const Berth__Store__V1__BudgetJobLimited *limited)
{
	berth_json *action = new_action("job_limited");
	set_text(action, "job_id", limited->job_id);
	set_integer(action, "limit_nano_usd", limited->limit_nano_usd);
	return action;
}

static berth_json *opened_action(const Berth__Store__V1__BudgetOpened *opened)
{
	berth_json *action = new_action("opened");
	berth_json_set(action, "policy", berth_policy_json(opened->policy));
	return action;
}

// NULL when the event is not this budget's.
static berth_json *action_of(const struct berth_budget_chain *chain, const Berth__Store__V1__Event *event)
{
	const char *budget = chain->budget;
	switch (event->body_case) {
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED:
		return strcmp(event->budget_opened->name, budget) == 0 ? opened_action(event->budget_opened) : NULL;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED:
		return strcmp(event->budget_amended->name, budget) == 0 ? amended_action(event->budget_amended) : NULL;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_JOB_LIMITED:
		return strcmp(event->budget_job_limited->budget, budget) == 0
		               ? job_limited_action(event->budget_job_limited)
		               : NULL;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED:
		return strcmp(event->budget_reserved->reservation->budget, budget) == 0
		               ? reserved_action(event->budget_reserved->reservation)
		               : NULL;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED:
		return strcmp(event->budget_ended->budget, budget) == 0
		               ? ended_action(event->budget_ended->reservation_id, event->budget_ended->ending)
		               : NULL;
	case BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED:
		return strcmp(event->budget_appealed->forfeited->budget, budget) == 0
		               ? appealed_action(event->budget_appealed)
		               : NULL;
	default:
		return NULL;
	}
}

bool berth_budget_chain_add(struct berth_budget_chain *chain, const Berth__Store__V1__Event *event,
	struct berth_buf *lines, struct berth_error *err)
{
	if (event->body_case == BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED) {
		const Berth__Store__V1__TrialAssigned *assigned = event->trial_assigned;
		for (size_t i = 0; i < assigned->n_reservations; i++) {
			const Berth__V1__Reservation *reservation = assigned->reservations[i];
			if (strcmp(reservation->budget, chain->budget) == 0 &&
				!add_line(chain, event->recorded_at_ns, reserved_action(reservation), lines, err)) {
				return false;
			}
		}
		return true;
	}
	berth_json *action = action_of(chain, event);
	return !action || add_line(chain, event->recorded_at_ns, action, lines, err);
}
