// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/trial/internal.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

void trial_failure_free(struct trial_failure *failure)
{
	free(failure->message);
	free(failure->phase);
	*failure = (struct trial_failure){0};
}

bool trial_fail(struct trial_failure *failure, Berth__V1__Outcome outcome, const char *type, const char *format, ...)
{
	if (failure->type) {
		return false;
	}
	va_list args;
	va_start(args, format);
	failure->message = berth_vformat(format, args);
	va_end(args);
	failure->type = type;
	failure->outcome = outcome;
	failure->at_ns = berth_wall_ns();
	return false;
}

bool trial_fail_error(struct trial_failure *failure, const char *type, const struct berth_error *err)
{
	if (err->code == BERTH_ERROR_CANCELLED) {
		return trial_fail(failure, BERTH__V1__OUTCOME__OUTCOME_CANCELLED, "CancelledError", "%s", err->message);
	}
	bool of_task = err->code == BERTH_ERROR_INVALID;
	return trial_fail(failure,
		of_task ? BERTH__V1__OUTCOME__OUTCOME_TASK : BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE, type, "%s",
		err->message);
}

bool trial_failure_continues(const struct trial_failure *failure)
{
	return !failure->type || strcmp(failure->type, "AgentTimeoutError") == 0 ||
	       strcmp(failure->type, "NonZeroAgentExitCodeError") == 0;
}

Berth__V1__TrialException *trial_failure_message(const struct trial_failure *failure)
{
	if (!failure->type) {
		return NULL;
	}
	Berth__V1__TrialException *exception = berth_alloc(sizeof *exception);
	berth__v1__trial_exception__init(exception);
	BERTH_AUTO_FREE char *traceback = berth_format(
		"phase: %s\n%s: %s\n", failure->phase ? failure->phase : "trial", failure->type, failure->message);
	berth_proto_set_string(&exception->type, failure->type);
	berth_proto_set_string(&exception->message, failure->message);
	berth_proto_set_string(&exception->traceback, traceback);
	exception->occurred_at_ns = failure->at_ns;
	return exception;
}
