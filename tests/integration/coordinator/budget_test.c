// SPDX-License-Identifier: Apache-2.0
// Money over the wire: who may open and amend a budget, a paid job from its submission to the last lease, what is shown
// of it before and after a restart.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "berth/v1/budget.pb-c.h"
#include "common/base/cancel.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/budget.h"
#include "coordinator/budget/policy.h"
#include "coordinator/service/daemon.h"
#include "tests/integration/coordinator/quay.h"
#include "tests/support/test.h"

#define BUDGET(on, method, request, err) quay_call(on, &berth__v1__budget_service__descriptor, method, request, err)
#define PRICE                            45000 // 4500 s at 10 nano-USD
#define POLICY                                                                                                         \
	"{\"study_id\":\"s\",\"manifest_digest\":\"sha256:"                                                            \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"hard_limit_nano_usd\":45000,"            \
	"\"phase_limits_nano_usd\":{\"search\":45000},\"rates\":[{\"backend\":\"local\","                              \
	"\"role\":\"task_environment\",\"cpu_count\":1,\"memory_mb\":512,\"nano_usd_per_second\":10,"                  \
	"\"billing_quantum_seconds\":60}]}"

static Berth__V1__BudgetPolicy *policy(void)
{
	struct berth_error err;
	Berth__V1__BudgetPolicy *parsed = berth_policy_parse(POLICY, strlen(POLICY), "policy", &err);
	assert_ok(parsed != NULL, err);
	return parsed;
}

static void open_budget(struct fixture *f)
{
	struct berth_error err;
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__BudgetPolicy *parsed = policy();
	request.name = (char *)"tide";
	request.policy = parsed;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__CreateBudgetResponse *response = BUDGET(f->main, "CreateBudget", &request, &err);
	assert_ok(response != NULL, err);
	assert_int_equal(response->budget->totals->limit_nano_usd, PRICE);
}

static Berth__V1__Budget *budget_of(struct fixture *f)
{
	struct berth_error err;
	Berth__V1__GetBudgetRequest request = BERTH__V1__GET_BUDGET_REQUEST__INIT;
	request.name = (char *)"tide";
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetBudgetResponse *response = BUDGET(f->main, "GetBudget", &request, &err);
	assert_ok(response != NULL, err);
	return BERTH_STEAL(response->budget);
}

static void assert_sums(struct fixture *f, int64_t settled, int64_t reserved)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Budget *budget = budget_of(f);
	assert_int_equal(budget->totals->settled_nano_usd, settled);
	assert_int_equal(budget->totals->reserved_nano_usd, reserved);
	assert_int_equal(budget->totals->forfeited_nano_usd, 0);
}

static Berth__V1__AmendBudgetResponse *amend(
	struct fixture *f, uint64_t number, int64_t limit, bool forged, struct berth_error *err)
{
	Berth__V1__AmendBudgetRequest request = BERTH__V1__AMEND_BUDGET_REQUEST__INIT;
	Berth__V1__PhaseLimit phase = BERTH__V1__PHASE_LIMIT__INIT, *phases[] = {&phase};
	phase.phase = (char *)"search";
	phase.limit_nano_usd = limit;
	request.name = (char *)"tide";
	request.number = number;
	request.hard_limit_nano_usd = limit;
	request.phase_limits = phases;
	request.n_phase_limits = 1;
	request.reason = (char *)"more is needed";
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Budget *budget = budget_of(f);
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	BERTH_AUTO_FREE uint8_t *public_der = NULL;
	size_t size;
	char key_id[BERTH_DIGEST_HEX_SIZE];
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	assert_ok(berth_signing_key_public(f->signing, &public_der, &size, err), *err);
	berth_signing_key_id(public_der, size, key_id);
	assert_ok(berth_budget_amendment_text(budget->policy_digest, &request, &text, err), *err);
	assert_ok(berth_sign(f->signing, BERTH_AMENDMENT_TYPE, text.data, text.size, signature, err), *err);
	request.key_id = key_id;
	request.signature = (ProtobufCBinaryData){sizeof signature, signature};
	request.hard_limit_nano_usd += forged;
	return BUDGET(f->main, "AmendBudget", &request, err);
}

static void an_amendment_counts_only_with_an_enrolled_operators_signature(void **state)
{
	struct fixture *f = *state;
	struct berth_error err;
	open_budget(f);
	// The key is an agent's, then an operator's.
	assert_fails(amend(f, 1, 2 * PRICE, false, &err), err, BERTH_ERROR_DENIED, "not signed");
	struct credentials ann = {0};
	quay_enroll(f, "operator", "ann", &ann);
	assert_fails(amend(f, 1, 2 * PRICE, true, &err), err, BERTH_ERROR_DENIED, "not signed");
	for (int i = 0; i < 2; i++) { // the same again is no other amendment
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__AmendBudgetResponse *response = amend(f, 1, 2 * PRICE, false, &err);
		assert_ok(response != NULL, err);
		assert_int_equal(response->budget->totals->limit_nano_usd, 2 * PRICE);
		assert_int_equal(response->budget->amendments, 1);
		// The key is part of what a restart finds.
		quay_stop(f);
		quay_start(f);
	}
	assert_fails(amend(f, 3, 3 * PRICE, false, &err), err, BERTH_ERROR_CONFLICT, "number 2");
	quay_free_credentials(&ann);
}

static void only_operators_open_budgets(void **state)
{
	struct fixture *f = *state;
	struct berth_error err;
	struct credentials bo = {0};
	quay_enroll(f, "user", "bo", &bo);
	struct berth_rpc_channel *user = quay_channel(berth_coordinator_port(f->daemon), &bo);
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__BudgetPolicy *parsed = policy();
	request.name = (char *)"tide";
	request.policy = parsed;
	assert_fails(BUDGET(user, "CreateBudget", &request, &err), err, BERTH_ERROR_DENIED, "");
	open_budget(f);
	Berth__V1__ListBudgetsRequest list = BERTH__V1__LIST_BUDGETS_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__ListBudgetsResponse *listed = BUDGET(user, "ListBudgets", &list, &err);
	assert_ok(listed != NULL, err);
	assert_int_equal(listed->n_budgets, 1);
	berth_rpc_channel_free(user);
	quay_free_credentials(&bo);
}

// --- a paid job ---

static char *submit_paid(struct fixture *f, const char *budget, struct berth_error *err)
{
	struct submitted job;
	quay_fill_job(&job, "key", 2);
	for (size_t i = 0; i < 2; i++) {
		job.task[i].cpus = 1;
		job.task[i].memory_mb = 512;
		job.task[i].agent_timeout_sec = 600;
		job.task[i].verifier_timeout_sec = job.task[i].build_timeout_sec = 100;
	}
	job.spec.timeout_multiplier = 1;
	job.spec.agent_timeout_multiplier = job.spec.verifier_timeout_multiplier =
		job.spec.agent_setup_timeout_multiplier = job.spec.environment_build_timeout_multiplier = -1;
	job.spec.budget = (char *)budget;
	job.spec.phase = (char *)"search";
	quay_put_bundle(f, &job);
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__SubmitJobResponse *response = JOBS(f->main, "SubmitJob", &job.request, err);
	return response ? berth_strdup(response->job_id) : NULL;
}

struct budget_watch {
	struct fixture *fixture;
	int64_t settled_nano_usd; // wanted
	unsigned updates;
	bool saw_blocked, reached;
};

static void *watch_budget(void *context)
{
	struct budget_watch *watch = context;
	struct berth_error err;
	Berth__V1__GetBudgetRequest request = BERTH__V1__GET_BUDGET_REQUEST__INIT;
	request.name = (char *)"tide";
	struct berth_rpc_stream *stream = berth_rpc_stream_open(watch->fixture->main,
		&berth__v1__budget_service__descriptor, "WatchBudget", berth_within_ms(WAIT_MS, NULL), &err);
	berth_rpc_stream_send(stream, &request.base, NULL);
	berth_rpc_stream_close_send(stream, NULL);
	ProtobufCMessage *message;
	while (!watch->reached &&
		berth_rpc_stream_receive(stream, &message, berth_within_ms(WAIT_MS, NULL), &err) == BERTH_RPC_MESSAGE) {
		const Berth__V1__Budget *budget = ((const Berth__V1__GetBudgetResponse *)message)->budget;
		watch->updates++;
		watch->saw_blocked |= budget->blocked_trials == 1;
		watch->reached = budget->totals->settled_nano_usd == watch->settled_nano_usd;
		berth_proto_free(message);
	}
	berth_rpc_stream_free(stream);
	return NULL;
}

static void assert_blocked(struct fixture *f, const char *job, uint32_t blocked)
{
	struct berth_error err;
	Berth__V1__GetJobRequest request = BERTH__V1__GET_JOB_REQUEST__INIT;
	request.job_id = (char *)job;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__GetJobResponse *found = JOBS(f->main, "GetJob", &request, &err);
	assert_ok(found != NULL, err);
	assert_int_equal(found->job->counts->budget_blocked, blocked);
	assert_true(!blocked || strstr(found->job->blocked_reason, "0.000045 USD is wanted and 0.00 of 0.000045"));
}

static void assert_reservations(struct fixture *f, bool open_only, size_t wanted)
{
	struct berth_error err;
	Berth__V1__ListReservationsRequest request = BERTH__V1__LIST_RESERVATIONS_REQUEST__INIT;
	request.budget = (char *)"tide";
	request.open_only = open_only;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__ListReservationsResponse *page = BUDGET(f->main, "ListReservations", &request, &err);
	assert_ok(page != NULL, err);
	assert_int_equal(page->n_reservations, wanted);
	for (size_t i = 0; !open_only && i < page->n_reservations; i++) {
		assert_int_equal(page->reservations[i]->state, BERTH__V1__RESERVATION_STATE__SETTLED);
		assert_int_equal(page->reservations[i]->ending->charged_nano_usd, 60 * 10);
	}
}

static void a_paid_job_waits_for_its_money_settles_and_is_shown_after_a_restart(void **state)
{
	struct fixture *f = *state;
	struct berth_error err;
	struct agent agent = {.elapsed_ns = BERTH_NS_PER_S};
	open_budget(f);
	assert_fails(submit_paid(f, "ebb", &err), err, BERTH_ERROR_BUDGET, "no budget is named ebb");
	BERTH_AUTO_FREE char *job = submit_paid(f, "tide", &err);
	assert_ok(job != NULL, err);
	struct budget_watch watch = {.fixture = f, .settled_nano_usd = 60 * 10};
	pthread_t watcher;
	pthread_create(&watcher, NULL, watch_budget, &watch);
	quay_join(&agent, f);
	Berth__V1__CoordinatorMessage *first = quay_receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	assert_string_equal(first->assignment->leases[0]->reservation_id, first->assignment->leases[0]->lease_id);
	assert_sums(f, 0, PRICE);
	assert_blocked(f, job, 1);
	assert_reservations(f, true, 1);
	berth_sleep_ms(600, berth_within_ms(WAIT_MS, NULL), NULL); // the watcher's rate
	// What is left after the first settlement is too little: the other waits for an amendment.
	quay_finish(&agent, first->assignment, QUAY_HONEST);
	berth_proto_free(first);
	pthread_join(watcher, NULL);
	assert_true(watch.reached && watch.saw_blocked);
	assert_sums(f, 60 * 10, 0);
	struct credentials ann = {0};
	quay_enroll(f, "operator", "ann", &ann);
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__AmendBudgetResponse *amended = amend(f, 1, 2 * PRICE, false, &err);
	assert_ok(amended != NULL, err);
	Berth__V1__CoordinatorMessage *second = quay_receive(&agent, BERTH__V1__COORDINATOR_MESSAGE__BODY_ASSIGNMENT);
	assert_blocked(f, job, 0);
	quay_finish(&agent, second->assignment, QUAY_HONEST);
	berth_proto_free(second);
	quay_leave(&agent);
	quay_forget(&agent);
	assert_int_equal(quay_state_of(f, job), BERTH__V1__JOB_STATE__JOB_COMPLETED);
	for (int i = 0; i < 2; i++) {
		assert_sums(f, 2 * 60 * 10, 0);
		assert_reservations(f, false, 2);
		assert_reservations(f, true, 0);
		quay_stop(f);
		quay_start(f);
	}
	quay_free_credentials(&ann);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, quay_setup, quay_teardown)

static const struct CMUnitTest tests[] = {
	TEST(an_amendment_counts_only_with_an_enrolled_operators_signature),
	TEST(only_operators_open_budgets),
	TEST(a_paid_job_waits_for_its_money_settles_and_is_shown_after_a_restart),
};

BERTH_TEST_MAIN(tests)
