// SPDX-License-Identifier: Apache-2.0
// An operator: opens the budget, amends its limits, up and down, and raises them again when nothing goes wrong any more
// and trials wait for money. What has no answer is asked again, word for word.
#include <stdlib.h>
#include <string.h>

#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/sign.h"
#include "coordinator/budget/budget.h"
#include "tests/sim/audit.h"
#include "tests/sim/check.h"
#include "tests/sim/keys.h"
#include "tests/sim/world.h"

#define CALL_MS       10000
#define PAUSE_MS      2000
#define MANIFEST      "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define CREATE_S      253
#define CLEANUP_S     600
#define TTL_S         86400
#define OPERATOR_LINK (SIM_LINKS_MAX - 2)

static struct {
	bool opened;
	char policy_digest[BERTH_DIGEST_TEXT_SIZE];
	uint64_t amendments;    // that were answered
	unsigned planned;       // of the world's, that were answered
	int64_t limit_nano_usd; // in force
	struct berth_cancel *stop;
} operator;

const struct sim_key *sim_operator_key(void)
{
	static struct sim_key key;
	if (!key.key) {
		sim_key_make(&key);
	}
	return &key;
}

bool sim_operator_has_opened(void)
{
	return operator.opened || !sim_world.limit_nano_usd;
}

// --- the budget ---
static Berth__V1__Rate *new_rate(const char *role)
{
	Berth__V1__Rate *rate = berth_alloc(sizeof *rate);
	berth__v1__rate__init(rate);
	berth_proto_set_string(&rate->backend, "local");
	berth_proto_set_string(&rate->role, role);
	rate->cpu_count = 1;
	rate->memory_mb = 512;
	rate->nano_usd_per_second = SIM_NANO_USD_PER_SECOND;
	rate->billing_quantum_seconds = 1;
	rate->create_request_timeout_seconds = CREATE_S;
	rate->cleanup_horizon_seconds = CLEANUP_S;
	rate->provider_ttl_max_seconds = TTL_S;
	return rate;
}

static Berth__V1__BudgetPolicy *new_policy(void)
{
	Berth__V1__BudgetPolicy *policy = berth_alloc(sizeof *policy);
	berth__v1__budget_policy__init(policy);
	berth_proto_set_string(&policy->study_id, "s");
	berth_proto_set_string(&policy->manifest_digest, MANIFEST);
	policy->hard_limit_nano_usd = sim_world.limit_nano_usd;
	Berth__V1__PhaseLimit *phase = berth_alloc(sizeof *phase);
	berth__v1__phase_limit__init(phase);
	berth_proto_set_string(&phase->phase, "search");
	phase->limit_nano_usd = sim_world.limit_nano_usd;
	berth_proto_append(&policy->n_phase_limits, &policy->phase_limits, phase);
	berth_proto_append(&policy->n_rates, &policy->rates, new_rate("task_environment"));
	berth_proto_append(&policy->n_rates, &policy->rates, new_rate("verifier_environment"));
	return policy;
}

static bool call(struct berth_rpc_channel *channel, const char *method, const ProtobufCMessage *request,
	ProtobufCMessage **response, struct berth_error *err)
{
	return berth_rpc_unary(channel, &berth__v1__budget_service__descriptor, method, request, response,
		berth_within_ms(CALL_MS, operator.stop), err);
}

static void open_budget(struct berth_rpc_channel *channel)
{
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__CreateBudgetRequest *request = berth_alloc(sizeof *request);
	berth__v1__create_budget_request__init(request);
	berth_proto_set_string(&request->name, SIM_BUDGET);
	request->policy = new_policy();
	ProtobufCMessage *response = NULL;
	struct berth_error err = {0};
	unsigned restores = sim_world.restores;
	operator.opened = call(channel, "CreateBudget", &request->base, &response, &err) &&
		restores == sim_world.restores;
	sim_trace("operator: the budget of %lld: %s",
		(long long)sim_world.limit_nano_usd, operator.opened ? "is open" : err.message);
	if (operator.opened) {
		const Berth__V1__Budget *budget = ((const Berth__V1__CreateBudgetResponse *)response)->budget;
		snprintf(operator.policy_digest, sizeof operator.policy_digest, "%s", budget->policy_digest);
		operator.limit_nano_usd = sim_world.limit_nano_usd;
	}
	berth_proto_free(response);
}

// --- amendments ---
static bool amend(struct berth_rpc_channel *channel, int64_t limit_nano_usd)
{
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	Berth__V1__PhaseLimit phase = BERTH__V1__PHASE_LIMIT__INIT, *phases = &phase;
	Berth__V1__AmendBudgetRequest request = BERTH__V1__AMEND_BUDGET_REQUEST__INIT;
	phase.phase = (char *)"search";
	phase.limit_nano_usd = limit_nano_usd;
	request.name = (char *)SIM_BUDGET;
	request.hard_limit_nano_usd = limit_nano_usd;
	request.phase_limits = &phases;
	request.n_phase_limits = 1;
	request.reason = (char *)"the tide";
	request.number = operator.amendments + 1;
	request.key_id = (char *)sim_operator_key()->id;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	struct berth_error err = {0};
	ProtobufCMessage *response = NULL;
	bool ok = berth_budget_amendment_text(operator.policy_digest, &request, &text, &err) &&
	          berth_sign(sim_operator_key()->key, BERTH_AMENDMENT_TYPE, text.data, text.size, signature, &err);
	request.signature = (ProtobufCBinaryData){.len = sizeof signature, .data = signature};
	unsigned restores = sim_world.restores;
	ok = ok && call(channel, "AmendBudget", &request.base, &response, &err) && restores == sim_world.restores;
	berth_proto_free(response);
	sim_trace("operator: amendment %llu to %lld: %s", (unsigned long long)request.number, (long long)limit_nano_usd,
		ok ? "counts" : err.message);
	if (ok) {
		operator.amendments++;
		operator.limit_nano_usd = limit_nano_usd;
		sim_audit_amended(operator.amendments, limit_nano_usd);
	}
	return ok;
}

// After the faults there is money for everything that waits.
static int64_t wanted_limit(void)
{
	if (operator.planned<sim_world.amendments_count) {
		const struct sim_amendment *next = &sim_world.amendments[operator.planned];
		return sim_now() >= next->at_ns ? next->limit_nano_usd : 0;
	}
	if (!sim_world.healing) {
		return 0;
	}
	if (operator.limit_nano_usd<sim_world.limit_nano_usd) {
		return sim_world.limit_nano_usd;
	}
	// What came after a backup may need more room at once than it did when it happened.
	return sim_audit_money_is_short() || sim_audit_resends() ? operator.limit_nano_usd +
								   sim_world.limit_nano_usd : 0;
}

// What was amended before the backup was planned, and each of that is an amendment.
void sim_operator_restored(void)
{
	operator.amendments = sim_audit_amendments(&operator.limit_nano_usd);
	operator.opened = operator.opened && operator.limit_nano_usd;
	operator.planned = operator.planned<operator.amendments ? operator.planned : (unsigned)operator.amendments;
}

// --- the process ---
static void run(struct sim_process *process)
{
	(void)process;
	struct berth_rpc_channel *channel =
		sim_net_channel(&sim_world.user_address, OPERATOR_LINK, BERTH_ROLE_OPERATOR, "ann", NULL);
	operator.stop = berth_cancel_new(NULL);
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = operator.stop };
	while (sim_world.limit_nano_usd && berth_sleep_ms(PAUSE_MS, until, NULL)) {
		int64_t limit_nano_usd = operator.opened ? wanted_limit() : 0;
		if (!operator.opened) {
			open_budget(channel);
		} else if (limit_nano_usd && amend(channel, limit_nano_usd)) {
			operator.planned += operator.planned<sim_world.amendments_count;
		}
	}
	berth_cancel_free(BERTH_STEAL(operator.stop));
}

static void stop(struct sim_process *process)
{
	(void)process;
	if (operator.stop) {
		berth_cancel_fire(operator.stop);
	}
}

static void died(struct sim_process *process)
{
	sim_net_process_died(process);
}

void sim_operator_begin(void)
{
	struct sim_process *process = &sim_world.operator;
	memset(&operator, 0, sizeof operator);
	snprintf(process->name, sizeof process->name, "operator");
	process->host = &sim_world.user_host;
	process->main = run;
	process->stop = stop;
	process->died = died;
	sim_process_begin(process);
}
