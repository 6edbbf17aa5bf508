// SPDX-License-Identifier: Apache-2.0
// Limits change by an operator's signed amendments, one after the other by number.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/money.h"
#include "coordinator/budget/state.h"
#include "coordinator/budget/text.h"

#define AMENDMENT_DOMAIN "berth-budget-amendment-v1"
#define SIGNATURE_SIZE   64
#define KEY_ID_MAX       128

typedef Berth__V1__AmendBudgetRequest request_t;
typedef Berth__Store__V1__BudgetAmended amended_t;

static void set_text_or_null(berth_json *object, const char *key, const char *text)
{
	berth_json_set(object, key, text[0] ? berth_json_string(text) : berth_json_null());
}

bool berth_budget_amendment_text(
	const char *policy_digest, const request_t *request, struct berth_buf *out, struct berth_error *err)
{
	BERTH_AUTO(berth_json_cleanup) berth_json *object = berth_json_object();
	berth_json *phases = berth_json_object(), *subs = berth_json_array();
	berth_json_set(object, "schema_version", berth_json_integer(1));
	berth_json_set(object, "budget", berth_json_string(request->name));
	berth_json_set(object, "policy_digest", berth_json_string(policy_digest));
	berth_json_set(object, "number", berth_json_integer((int64_t)request->number));
	berth_json_set(object, "hard_limit_nano_usd",
		request->hard_limit_nano_usd ? berth_json_integer(request->hard_limit_nano_usd) : berth_json_null());
	berth_json_set(object, "reason", berth_json_string(request->reason));
	for (size_t i = 0; i < request->n_phase_limits; i++) {
		berth_json_set(phases, request->phase_limits[i]->phase,
			berth_json_integer(request->phase_limits[i]->limit_nano_usd));
	}
	berth_json_set(object, "phase_limits_nano_usd", phases);
	for (size_t i = 0; i < request->n_sub_limits; i++) {
		const Berth__V1__SubLimit *sub = request->sub_limits[i];
		berth_json *inner = berth_json_object();
		set_text_or_null(inner, "job_id", sub->job_id);
		set_text_or_null(inner, "user", sub->user);
		berth_json_set(inner, "limit_nano_usd",
			sub->removed ? berth_json_null() : berth_json_integer(sub->limit_nano_usd));
		berth_json_append(subs, inner);
	}
	berth_json_set(object, "sub_limits", subs);
	berth_buf_add(out, AMENDMENT_DOMAIN, sizeof AMENDMENT_DOMAIN);
	return berth_json_write_canonical(object, out, err);
}

static bool check_sub_limits(const request_t *request, struct berth_error *err)
{
	if (request->n_sub_limits > BERTH_BUDGET_SUB_MAX) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "more than %d sub-limits in one step", BERTH_BUDGET_SUB_MAX);
	}
	for (size_t i = 0; i < request->n_sub_limits; i++) {
		const Berth__V1__SubLimit *sub = request->sub_limits[i];
		const char *name = sub->job_id[0] ? sub->job_id : sub->user;
		if (!sub->job_id[0] == !sub->user[0] || !text_is_name(name, SUB_LIMIT_NAME_MAX)) {
			return berth_fail(err, BERTH_ERROR_INVALID, "a sub-limit is of one job or of one user");
		}
		if (sub->limit_nano_usd < 0 || (sub->removed && sub->limit_nano_usd)) {
			return berth_fail(err, BERTH_ERROR_INVALID,
				"the limit of %s is negative, or removed and set at once", name);
		}
		for (size_t k = 0; k < i; k++) {
			if (same_text(request->sub_limits[k]->job_id, sub->job_id) &&
				same_text(request->sub_limits[k]->user, sub->user)) {
				return berth_fail(err, BERTH_ERROR_INVALID, "the limit of %s is given twice", name);
			}
		}
	}
	return true;
}

static int64_t new_phase_limit(const request_t *request, const struct account *phase)
{
	for (size_t i = 0; i < request->n_phase_limits; i++) {
		if (strcmp(request->phase_limits[i]->phase, phase->name) == 0) {
			return request->phase_limits[i]->limit_nano_usd;
		}
	}
	return phase->limit;
}

static bool check_limits(const struct budget *budget, const request_t *request, struct berth_error *err)
{
	if (!request->hard_limit_nano_usd && !request->n_phase_limits && !request->n_sub_limits) {
		return berth_fail(err, BERTH_ERROR_INVALID, "an amendment that changes nothing");
	}
	for (size_t i = 0; i < request->n_phase_limits; i++) {
		const Berth__V1__PhaseLimit *limit = request->phase_limits[i];
		if (!find_phase(budget, limit->phase)) {
			return berth_fail(err, BERTH_ERROR_INVALID, "there is no phase %.128s", limit->phase);
		}
		for (size_t k = 0; k < i; k++) {
			if (strcmp(request->phase_limits[k]->phase, limit->phase) == 0) {
				return berth_fail(err, BERTH_ERROR_INVALID, "phase %s is given twice", limit->phase);
			}
		}
	}
	int64_t hard = request->hard_limit_nano_usd ? request->hard_limit_nano_usd : budget->total.limit, sum = 0;
	for (size_t i = 0; i < budget->phases_count; i++) {
		if (!berth_money_add(sum, new_phase_limit(request, &budget->phases[i]), &sum, err)) {
			return false;
		}
	}
	return (hard >= 1 && sum <= hard) ||
	       berth_fail(err, BERTH_ERROR_INVALID,
		       "the phase limits would sum to %lld nano-USD and the hard limit be %lld", (long long)sum,
		       (long long)hard);
}

static bool check_amendment(const struct budget *budget, const request_t *request, struct berth_error *err)
{
	if (!text_is_name(request->reason, BERTH_BUDGET_REASON_MAX)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "an amendment needs a reason of at most %d bytes",
			BERTH_BUDGET_REASON_MAX);
	}
	if (!text_is_name(request->key_id, KEY_ID_MAX) || request->signature.len != SIGNATURE_SIZE) {
		return berth_fail(err, BERTH_ERROR_INVALID, "an amendment is signed by an operator's key");
	}
	return check_limits(budget, request, err) && check_sub_limits(request, err);
}

static bool digest_amendment(
	const struct budget *budget, const request_t *request, struct berth_digest *digest, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_budget_amendment_text(budget->digest, request, &text, err)) {
		return false;
	}
	*digest = berth_sha256(text.data, text.size);
	return true;
}

// The event has the request's fields under other numbers.
static void copy_limits(const request_t *request, amended_t *amended)
{
	for (size_t i = 0; i < request->n_phase_limits; i++) {
		berth_proto_append(
			&amended->n_phase_limits, &amended->phase_limits, berth_proto_clone(request->phase_limits[i]));
	}
	for (size_t i = 0; i < request->n_sub_limits; i++) {
		berth_proto_append(
			&amended->n_sub_limits, &amended->sub_limits, berth_proto_clone(request->sub_limits[i]));
	}
	amended->hard_limit_nano_usd = request->hard_limit_nano_usd;
	amended->number = request->number;
	berth_proto_set_string(&amended->name, request->name);
	berth_proto_set_string(&amended->reason, request->reason);
	berth_proto_set_string(&amended->key_id, request->key_id);
	berth_proto_set_bytes(&amended->signature, request->signature.data, request->signature.len);
}

bool berth_budget_decide_amend(const struct berth_budgets *budgets, const request_t *request, bool signature_ok,
	amended_t **event, struct berth_budget_refusal *refusal)
{
	*event = NULL;
	*refusal = (struct berth_budget_refusal){0};
	const struct budget *budget = find_budget(budgets, request->name);
	struct berth_error err = {0};
	struct berth_digest digest;
	if (!budget) {
		return refuse_budget(refusal, BERTH_BUDGET_UNKNOWN_BUDGET, "no budget is named %.64s", request->name);
	}
	if (!signature_ok) {
		return refuse_budget(refusal, BERTH_BUDGET_NOT_SIGNED,
			"budget %s: the amendment is not signed by an enrolled operator's key", budget->name);
	}
	if (!check_amendment(budget, request, &err) || !digest_amendment(budget, request, &digest, &err)) {
		return refuse_budget(refusal, BERTH_BUDGET_INVALID, "budget %s: %s", budget->name, err.message);
	}
	if (request->number == budget->amendments && berth_digest_equal(&digest, &budget->amendment_digest)) {
		return true;
	}
	if (request->number != budget->amendments + 1) {
		return refuse_budget(refusal, BERTH_BUDGET_CONFLICT,
			"budget %s: the next amendment is number %llu, not %llu: look at the limits and sign again",
			budget->name, (unsigned long long)budget->amendments + 1, (unsigned long long)request->number);
	}
	*event = berth_alloc(sizeof **event);
	berth__store__v1__budget_amended__init(*event);
	copy_limits(request, *event);
	return true;
}

static request_t request_of(const amended_t *amended)
{
	request_t request = BERTH__V1__AMEND_BUDGET_REQUEST__INIT;
	request.name = amended->name;
	request.hard_limit_nano_usd = amended->hard_limit_nano_usd;
	request.n_phase_limits = amended->n_phase_limits;
	request.phase_limits = amended->phase_limits;
	request.reason = amended->reason;
	request.n_sub_limits = amended->n_sub_limits;
	request.sub_limits = amended->sub_limits;
	request.number = amended->number;
	request.key_id = amended->key_id;
	request.signature = amended->signature;
	return request;
}

bool berth_budgets_apply_amended(struct berth_budgets *budgets, const amended_t *amended, struct berth_error *err)
{
	struct budget *budget = find_budget(budgets, amended->name);
	request_t request = request_of(amended);
	struct berth_error why = {0};
	struct berth_digest digest;
	if (!budget || amended->number != budget->amendments + 1 || !check_amendment(budget, &request, &why) ||
		!digest_amendment(budget, &request, &digest, &why)) {
		return corrupt_budget(err, "amendment", "%.64s, number %llu: %s", amended->name,
			(unsigned long long)amended->number,
			why.code ? why.message : "no such budget, or out of its order");
	}
	for (size_t i = 0; i < budget->phases_count; i++) {
		budget->phases[i].limit = new_phase_limit(&request, &budget->phases[i]);
	}
	if (amended->hard_limit_nano_usd) {
		budget->total.limit = amended->hard_limit_nano_usd;
	}
	for (size_t i = 0; i < amended->n_sub_limits; i++) {
		const Berth__V1__SubLimit *sub = amended->sub_limits[i];
		struct account *account = sub->job_id[0] ? make_sub(budget, ACCOUNT_JOB, sub->job_id)
		                                         : make_sub(budget, ACCOUNT_USER, sub->user);
		account->limited = !sub->removed;
		account->limit = sub->limit_nano_usd;
	}
	budget->amendments = amended->number;
	budget->amendment_digest = digest;
	return true;
}
