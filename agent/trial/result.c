// SPDX-License-Identifier: Apache-2.0
// From what happened to what is reported, with every secret taken out.
#include <stdlib.h>
#include <string.h>

#include "agent/trial/internal.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

Berth__V1__Outcome trial_outcome(
	bool unproven, bool leases_ended, const struct trial_failure *failure, const berth_json *rewards)
{
	if (unproven || !leases_ended) {
		return BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE;
	}
	if (rewards && trial_failure_continues(failure)) {
		return BERTH__V1__OUTCOME__OUTCOME_SCORED;
	}
	return failure->type ? failure->outcome : BERTH__V1__OUTCOME__OUTCOME_TASK;
}

static void write_exception(struct trial *trial, const Berth__V1__TrialException *exception)
{
	BERTH_AUTO_FREE char *path = berth_path_join(trial->input->work_folder, "exception.txt");
	struct berth_error err = {0};
	if (!berth_file_write(path, exception->traceback, strlen(exception->traceback), 0644, &err)) {
		trial_log(trial, "exception: %s", err.message);
	}
}

static void redact_exception(const struct trial *trial, Berth__V1__TrialException *exception)
{
	if (exception) {
		redact_string(&trial->redactor, &exception->message);
		redact_string(&trial->redactor, &exception->traceback);
	}
}

static void set_rewards(struct trial *trial)
{
	// A run of which some part can't be trusted has no rewards: its files still show what was written.
	if (trial->result->outcome != BERTH__V1__OUTCOME__OUTCOME_SCORED) {
		return;
	}
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	berth_json_write(trial->rewards, 0, &text);
	berth_proto_set_string(&trial->result->rewards_json, berth_buf_text(&text));
}

static bool leases_ended(const struct trial *trial)
{
	for (size_t i = 0; i < trial->leases_count; i++) {
		if (trial->lease_records[i].record->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
			return false;
		}
	}
	return true;
}

static Berth__V1__AgentUsage *no_usage(void)
{
	Berth__V1__AgentUsage *usage = berth_alloc(sizeof *usage);
	berth__v1__agent_usage__init(usage);
	return usage;
}

void trial_result(struct trial *trial, const struct trial_failure *failure)
{
	Berth__V1__TrialResult *result = trial->result;
	bool ended = leases_ended(trial);
	result->outcome = trial_outcome(trial->unproven, ended, failure, trial->rewards);
	result->exception = trial_failure_message(failure);
	result->usage = no_usage();
	set_rewards(trial);
	bool kill = trial->spec->leftovers == BERTH__V1__LEFTOVERS__LEFTOVERS_KILL;
	berth_proto_set_string(&result->leftovers, trial->leftovers ? trial->leftovers : kill ? "none" : "kept");
	berth_proto_set_string(&result->agent_name, trial->agent ? trial->agent->name : "");
	berth_proto_set_string(&result->agent_version, "1.0.0");
	if (result->exception) {
		write_exception(trial, result->exception);
		redact_exception(trial, result->exception);
	}
	for (size_t i = 0; i < result->n_steps; i++) {
		redact_exception(trial, result->steps[i]->exception);
	}
}

void berth_trial_result_free(Berth__V1__TrialResult *result)
{
	// The caller's own struct stays; what it holds goes as that of any unpacked message.
	Berth__V1__TrialResult *held = berth_memdup(result, sizeof *result);
	berth_proto_free(held);
	berth__v1__trial_result__init(result);
}
