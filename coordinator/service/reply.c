// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/audit/recover.h"
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
	const char *role = berth_rpc_role_name(principal->role);
	size_t size = strlen(role);
	berth_copy_text(actor, 2 * BERTH_RPC_NAME_MAX, role);
	actor[size++] = '/';
	berth_copy_text(actor + size, 2 * BERTH_RPC_NAME_MAX - size, principal->name);
}

Berth__V1__TrialResult *berth_read_result(struct berth_daemon *daemon, uint64_t sequence, bool summary)
{
	struct berth_error err;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__Event *event = berth_recover_event(daemon->ledger, sequence, &err);
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
