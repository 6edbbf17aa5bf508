// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/daemon.h"

void berth_reply(struct berth_rpc_call *call, const void *message, const struct berth_error *err)
{
	struct berth_error failure;
	if (message && !berth_rpc_send(call, message, &failure)) {
		berth_rpc_finish(call, &failure);
		return;
	}
	berth_rpc_finish(call, message ? NULL : err);
}

void berth_actor(const struct berth_rpc_call *call, char actor[static 2 * BERTH_RPC_NAME_MAX])
{
	const struct berth_rpc_principal *principal = berth_rpc_call_principal(call);
	snprintf(actor, 2 * BERTH_RPC_NAME_MAX, "%s/%s", berth_rpc_role_name(principal->role), principal->name);
}

static Berth__Store__V1__Event *read_event(struct berth_daemon *daemon, uint64_t sequence, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	if (!berth_ledger_read(daemon->ledger, sequence, &packed, err)) {
		return NULL;
	}
	return berth_proto_unpack(
		&berth__store__v1__event__descriptor, packed.data, packed.size, "a stored event", err);
}

Berth__V1__TrialResult *berth_read_result(struct berth_daemon *daemon, uint64_t sequence, bool summary)
{
	struct berth_error err;
	BERTH_AUTO(berth_proto_cleanup) Berth__Store__V1__Event *event = read_event(daemon, sequence, &err);
	if (!event) {
		return NULL;
	}
	Berth__V1__TrialResult **held = NULL;
	if (event->body_case == BERTH__STORE__V1__EVENT__BODY_TRIAL_ENDED) {
		held = &event->trial_ended->result;
	} else if (event->body_case == BERTH__STORE__V1__EVENT__BODY_TRIAL_UNASSIGNED) {
		held = &event->trial_unassigned->result;
	}
	Berth__V1__TrialResult *result = held ? BERTH_STEAL(*held) : NULL;
	if (result && summary) {
		berth_proto_free(result->evidence);
		result->evidence = NULL;
		if (result->exception) {
			berth_proto_set_string(&result->exception->traceback, NULL);
		}
	}
	return result;
}

Berth__V1__JobSpec *berth_read_spec(struct berth_daemon *daemon, uint64_t sequence, struct berth_error *err)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__Store__V1__Event *event = read_event(daemon, sequence, err);
	if (!event) {
		return NULL;
	}
	if (event->body_case != BERTH__STORE__V1__EVENT__BODY_JOB_SUBMITTED) {
		berth_fail(err, BERTH_ERROR_CORRUPT, "event %llu is not the job's", (unsigned long long)sequence);
		return NULL;
	}
	return BERTH_STEAL(event->job_submitted->spec);
}
