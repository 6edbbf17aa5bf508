// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/desk.h"

#include <stdlib.h>
#include <string.h>

#include "berth/v1/budget.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/x509.h"
#include "coordinator/budget/budget.h"
#include "coordinator/budget/policy.h"

#define BUDGET_NAME "tide"
#define POLICY                                                                                                         \
	"{\"study_id\":\"s\",\"manifest_digest\":\"sha256:"                                                            \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"hard_limit_nano_usd\":90000,"            \
	"\"phase_limits_nano_usd\":{\"search\":90000},\"rates\":[{\"backend\":\"local\","                              \
	"\"role\":\"task_environment\",\"cpu_count\":1,\"memory_mb\":512,\"nano_usd_per_second\":10,"                  \
	"\"billing_quantum_seconds\":60}]}"

static bool ask(struct port *port, struct berth_rpc_channel *on, const ProtobufCServiceDescriptor *service,
	const char *method, const void *request, void *pointer_to_response)
{
	struct berth_error err = {0};
	void **response = pointer_to_response;
	*response = quay_call(on, service, method, request, &err);
	if (*response) {
		return true;
	}
	port_is_gone(port, method, &err);
	return false;
}

#define ASK_JOBS(port, method, request, response)                                                                      \
	ask(port, (port)->user_main, &berth__v1__job_service__descriptor, method, request, response)
#define ASK_BUDGETS(port, method, request, response)                                                                   \
	ask(port, (port)->quay.main, &berth__v1__budget_service__descriptor, method, request, response)

bool desk_enroll(struct port *port, const char *role, const char *name, struct credentials *into)
{
	struct berth_error err;
	BERTH_AUTO_FREE uint8_t *request_der = NULL;
	BERTH_AUTO_FREE uint8_t *signing_der = NULL;
	BERTH_AUTO_FREE char *key = NULL;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__EnrollResponse *response = NULL;
	Berth__V1__EnrollRequest request = BERTH__V1__ENROLL_REQUEST__INIT;
	if (!berth_x509_request_new(name, &key, &request_der, &request.request_der.len, &err) ||
		!berth_signing_key_public(port->quay.signing, &signing_der, &request.signing_key_der.len, &err)) {
		port_broken(port, "%s", err.message);
	}
	request.request_der.data = request_der;
	request.signing_key_der.data = signing_der;
	request.role = (char *)role;
	request.name = (char *)name;
	if (!ask(port, port->quay.main, &berth__v1__fleet_service__descriptor, "Enroll", &request, &response)) {
		return false;
	}
	quay_free_credentials(into);
	*into = (struct credentials){
		berth_strdup(response->authority_pem), berth_strdup(response->certificate_pem), BERTH_STEAL(key)};
	port_open_channels(port);
	return true;
}

// --- money ---

bool desk_open_budget(struct port *port)
{
	struct berth_error err;
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__CreateBudgetResponse *response = NULL;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__BudgetPolicy *policy = berth_policy_parse(POLICY, strlen(POLICY), "policy", &err);
	if (!policy) {
		port_broken(port, "%s", err.message);
	}
	request.name = (char *)BUDGET_NAME;
	request.policy = policy;
	return ASK_BUDGETS(port, "CreateBudget", &request, &response);
}

static bool get_budget(struct port *port, Berth__V1__GetBudgetResponse **response)
{
	Berth__V1__GetBudgetRequest request = BERTH__V1__GET_BUDGET_REQUEST__INIT;
	request.name = (char *)BUDGET_NAME;
	return ASK_BUDGETS(port, "GetBudget", &request, response);
}

bool desk_money(struct port *port, struct desk_money *money)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__GetBudgetResponse *response = NULL;
	if (!get_budget(port, &response)) {
		return false;
	}
	const Berth__V1__BudgetTotals *totals = response->budget->totals;
	*money = (struct desk_money){totals->limit_nano_usd, totals->settled_nano_usd, totals->forfeited_nano_usd,
		totals->reserved_nano_usd, response->budget->amendments};
	if (money->settled + money->forfeited + money->reserved > money->limit) {
		port_broken(port, "settled %lld + forfeited %lld + reserved %lld pass the limit of %lld nano-USD",
			(long long)money->settled, (long long)money->forfeited, (long long)money->reserved,
			(long long)money->limit);
	}
	return true;
}

static void sign(struct port *port, const char *policy_digest, Berth__V1__AmendBudgetRequest *request,
	char key_id[static BERTH_DIGEST_HEX_SIZE], uint8_t signature[static BERTH_SIGNATURE_SIZE])
{
	struct berth_error err;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	BERTH_AUTO_FREE uint8_t *public_der = NULL;
	size_t size;
	if (!berth_signing_key_public(port->quay.signing, &public_der, &size, &err) ||
		!berth_budget_amendment_text(policy_digest, request, &text, &err) ||
		!berth_sign(port->quay.signing, BERTH_AMENDMENT_TYPE, text.data, text.size, signature, &err)) {
		port_broken(port, "%s", err.message);
	}
	berth_signing_key_id(public_der, size, key_id);
	request->key_id = key_id;
	request->signature = (ProtobufCBinaryData){BERTH_SIGNATURE_SIZE, signature};
}

bool desk_amend(struct port *port, uint64_t number, int64_t limit)
{
	Berth__V1__AmendBudgetRequest request = BERTH__V1__AMEND_BUDGET_REQUEST__INIT;
	Berth__V1__PhaseLimit phase = BERTH__V1__PHASE_LIMIT__INIT, *phases[] = {&phase};
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__GetBudgetResponse *budget = NULL;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__AmendBudgetResponse *response = NULL;
	char key_id[BERTH_DIGEST_HEX_SIZE];
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	if (!get_budget(port, &budget)) {
		return false;
	}
	phase.phase = (char *)"search";
	phase.limit_nano_usd = limit;
	request.name = (char *)BUDGET_NAME;
	request.number = number;
	request.hard_limit_nano_usd = limit;
	request.phase_limits = phases;
	request.n_phase_limits = 1;
	request.reason = (char *)"more is needed";
	sign(port, budget->budget->policy_digest, &request, key_id, signature);
	return ASK_BUDGETS(port, "AmendBudget", &request, &response);
}

// --- jobs ---

static void fill_job(struct submitted *job, const char *key, uint32_t cells)
{
	quay_fill_job(job, key, cells);
	for (uint32_t i = 0; i < cells; i++) {
		job->task[i].cpus = 1;
		job->task[i].memory_mb = 512;
		job->task[i].agent_timeout_sec = 600;
		job->task[i].verifier_timeout_sec = job->task[i].build_timeout_sec = 100;
	}
	job->spec.timeout_multiplier = 1;
	job->spec.agent_timeout_multiplier = job->spec.verifier_timeout_multiplier =
		job->spec.agent_setup_timeout_multiplier = job->spec.environment_build_timeout_multiplier = -1;
	job->spec.budget = (char *)BUDGET_NAME;
	job->spec.phase = (char *)"search";
}

bool desk_submit(struct port *port, const char *key, uint32_t cells, char id[static DESK_ID])
{
	struct berth_error err = {0};
	struct submitted job;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__SubmitJobResponse *response = NULL;
	fill_job(&job, key, cells);
	if (!quay_put_bundle_of(&port->quay, &job, &err)) {
		port_is_gone(port, "PutBlob", &err);
		return false;
	}
	if (!ASK_JOBS(port, "SubmitJob", &job.request, &response)) {
		return false;
	}
	snprintf(id, DESK_ID, "%s", response->job_id);
	return true;
}

bool desk_cancel(struct port *port, const char *job)
{
	Berth__V1__CancelJobRequest request = BERTH__V1__CANCEL_JOB_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__CancelJobResponse *response = NULL;
	request.job_id = (char *)job;
	return ASK_JOBS(port, "CancelJob", &request, &response);
}

bool desk_state(struct port *port, const char *job, Berth__V1__JobState *state, uint32_t *scored)
{
	Berth__V1__GetJobRequest request = BERTH__V1__GET_JOB_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__GetJobResponse *response = NULL;
	request.job_id = (char *)job;
	if (!ASK_JOBS(port, "GetJob", &request, &response)) {
		return false;
	}
	*state = response->job->state;
	*scored = response->job->counts->scored;
	return true;
}

static bool check_trials(struct port *port, const char *job, bool completed, uint32_t cells)
{
	Berth__V1__ListTrialsRequest request = BERTH__V1__LIST_TRIALS_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__ListTrialsResponse *page = NULL;
	request.job_id = (char *)job;
	request.with_folders = true;
	if (!ASK_JOBS(port, "ListTrials", &request, &page)) {
		return false;
	}
	if (page->n_trials != cells) {
		port_broken(port, "job %s has %zu trials, not %u", job, page->n_trials, cells);
	}
	for (size_t i = 0; i < cells; i++) {
		const Berth__V1__Trial *trial = page->trials[i];
		bool scored = trial->state == BERTH__V1__TRIAL_STATE__TRIAL_SCORED && trial->result &&
		              strcmp(trial->result->rewards_json, "{\"reward\": 0.5}") == 0 &&
		              trial->folder.len == strlen(QUAY_FOLDER) &&
		              memcmp(trial->folder.data, QUAY_FOLDER, trial->folder.len) == 0;
		if (completed && (!scored || trial->key->generation != 1)) {
			port_broken(port, "trial %zu of job %s is in state %d, generation %u, result %s", i, job,
				trial->state, trial->key->generation,
				trial->result ? trial->result->rewards_json : "none");
		}
	}
	return true;
}

static bool check_leases(struct port *port, const char *job, uint32_t cells)
{
	Berth__V1__ListLeasesRequest request = BERTH__V1__LIST_LEASES_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__ListLeasesResponse *page = NULL;
	request.job_id = (char *)job;
	if (!ask(port, port->quay.main, &berth__v1__lease_service__descriptor, "ListLeases", &request, &page)) {
		return false;
	}
	if (page->n_leases != cells) {
		port_broken(port, "job %s has %zu leases for %u runs", job, page->n_leases, cells);
	}
	for (size_t i = 0; i < page->n_leases; i++) {
		if (page->leases[i]->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
			port_broken(port, "lease %s of the ended job %s is in state %d", page->leases[i]->lease_id, job,
				page->leases[i]->state);
		}
	}
	return true;
}

bool desk_check_ended(struct port *port, const char *job, Berth__V1__JobState state, uint32_t cells)
{
	Berth__V1__JobState found;
	uint32_t scored;
	bool completed = state == BERTH__V1__JOB_STATE__JOB_COMPLETED;
	if (!desk_state(port, job, &found, &scored)) {
		return false;
	}
	if (found != state || scored != (completed ? cells : 0)) {
		port_broken(port, "job %s is in state %d with %u scored of %u, not in state %d", job, found, scored,
			cells, state);
	}
	return check_trials(port, job, completed, cells) && check_leases(port, job, cells);
}
