// SPDX-License-Identifier: Apache-2.0
// A user who submits jobs, again and again with one client key until there is
// an answer, and cancels some.
#include <stdlib.h>
#include <string.h>

#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/sim/audit.h"
#include "tests/sim/check.h"
#include "tests/sim/world.h"

#define CALL_MS   10000
#define PAUSE_MS  2000
#define USER_LINK (SIM_LINKS_MAX - 1)

static Berth__V1__Task *new_task(const struct sim_job *job, uint32_t number)
{
	Berth__V1__Task *task = berth_alloc(sizeof *task);
	berth__v1__task__init(task);
	BERTH_AUTO_FREE char *name = berth_format("task-%u", number);
	berth_proto_set_string(&task->base_name, name);
	berth_proto_set_string(&task->name, name);
	berth_proto_set_string(&task->environment_id, "0123456789abcdef0123456789abcdef");
	task->cpus = 1;
	task->memory_mb = 512;
	task->separate_verifier = job->separate_verifier;
	task->build_timeout_sec = 60;
	task->agent_timeout_sec = 100;
	task->verifier_timeout_sec = 50;
	task->bundle = berth_alloc(sizeof *task->bundle);
	berth__v1__blob_ref__init(task->bundle);
	uint8_t digest[32] = {1};
	berth_proto_set_bytes(&task->bundle->sha256, digest, sizeof digest);
	task->bundle->size = 1;
	return task;
}

static Berth__V1__JobSpec *new_spec(const struct sim_job *job)
{
	Berth__V1__JobSpec *spec = berth_alloc(sizeof *spec);
	berth__v1__job_spec__init(spec);
	berth_proto_set_string(&spec->name, job->key);
	berth_proto_set_string(&spec->environment_type, "docker");
	spec->attempts = job->attempts;
	if (job->paid) {
		berth_proto_set_string(&spec->budget, SIM_BUDGET);
		berth_proto_set_string(&spec->phase, "search");
	}
	spec->concurrent_trials = job->concurrent;
	spec->priority = job->priority;
	spec->override_cpus = spec->override_memory_mb = -1;
	for (uint32_t i = 0; i < job->tasks; i++) {
		berth_proto_append(&spec->n_tasks, &spec->tasks, new_task(job, i));
	}
	Berth__V1__AgentConfig *agent = berth_alloc(sizeof *agent);
	berth__v1__agent_config__init(agent);
	berth_proto_set_string(&agent->name, "oracle");
	berth_proto_append(&spec->n_agents, &spec->agents, agent);
	spec->retry = berth_alloc(sizeof *spec->retry);
	berth__v1__retry_policy__init(spec->retry);
	spec->retry->max_retries = job->retries;
	spec->retry->wait_multiplier = 2;
	spec->retry->min_wait_sec = 1;
	spec->retry->max_wait_sec = 20;
	return spec;
}

static bool submit(struct berth_rpc_channel *channel, struct sim_job *job)
{
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__SubmitJobRequest *request = berth_alloc(sizeof *request);
	berth__v1__submit_job_request__init(request);
	berth_proto_set_string(&request->client_key, job->key);
	request->spec = new_spec(job);
	ProtobufCMessage *response = NULL;
	struct berth_error err = {0};
	unsigned restores = sim_world.restores;
	bool ok = berth_rpc_unary(channel, &berth__v1__job_service__descriptor, "SubmitJob", &request->base, &response,
			  berth_within_ms(CALL_MS, sim_world.user_stop), &err) &&
	          restores == sim_world.restores; // else the answer was about what is lost
	if (ok) {
		snprintf(job->id, sizeof job->id, "%s", ((Berth__V1__SubmitJobResponse *)response)->job_id);
		sim_trace("user: %s is job %.8s (%u trials)", job->key, job->id, job->tasks * job->attempts);
		sim_audit_submitted(job->id);
	}
	if (!ok) {
		sim_trace("user: %s is not taken: %s", job->key, err.message);
	}
	berth_proto_free(response);
	return ok;
}

static bool cancel(struct berth_rpc_channel *channel, const struct sim_job *job)
{
	Berth__V1__CancelJobRequest request = BERTH__V1__CANCEL_JOB_REQUEST__INIT;
	request.job_id = (char *)job->id;
	request.reason = (char *)"changed my mind";
	ProtobufCMessage *response = NULL;
	struct berth_error err = {0};
	unsigned restores = sim_world.restores;
	bool ok = berth_rpc_unary(channel, &berth__v1__job_service__descriptor, "CancelJob", &request.base, &response,
			  berth_within_ms(CALL_MS, sim_world.user_stop), &err) &&
	          restores == sim_world.restores;
	berth_proto_free(response);
	if (ok) {
		sim_trace("user: cancelled job %.8s", job->id);
		sim_audit_cancelled(job->id);
	}
	return ok;
}

void sim_user_restored(void)
{
	for (unsigned i = 0; i < sim_world.jobs_count; i++) {
		struct sim_job *job = &sim_world.jobs[i];
		bool cancelling;
		job->submitted = job->submitted && sim_audit_has_job(job->id, &cancelling);
		job->answered_cancel = job->submitted && cancelling;
	}
}

static void run(struct sim_process *process)
{
	(void)process;
	struct berth_rpc_channel *channel =
		sim_net_channel(&sim_world.user_address, USER_LINK, BERTH_ROLE_USER, "bob", NULL);
	sim_world.user_stop = berth_cancel_new(NULL);
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = sim_world.user_stop};
	while (berth_sleep_ms(PAUSE_MS, until, NULL)) {
		for (unsigned i = 0; sim_operator_has_opened() && i < sim_world.jobs_count; i++) {
			struct sim_job *job = &sim_world.jobs[i];
			if (!job->submitted && sim_now() >= job->submit_at_ns) {
				job->submitted = submit(channel, job);
			} else if (job->submitted && job->cancels && !job->answered_cancel &&
				   sim_now() >= job->cancel_at_ns) {
				job->answered_cancel = cancel(channel, job);
			}
		}
	}
	berth_cancel_free(BERTH_STEAL(sim_world.user_stop));
}

static void stop(struct sim_process *process)
{
	(void)process;
	if (sim_world.user_stop) {
		berth_cancel_fire(sim_world.user_stop);
	}
}

static void died(struct sim_process *process)
{
	sim_net_process_died(process);
}

void sim_user_begin(void)
{
	struct sim_process *user = &sim_world.user;
	sim_world.user_address = "coordinator";
	snprintf(user->name, sizeof user->name, "user");
	user->host = &sim_world.user_host;
	user->main = run;
	user->stop = stop;
	user->died = died;
	sim_process_begin(user);
}
