// SPDX-License-Identifier: Apache-2.0
// Results that wait. While agents resend, a trial may yet turn out to have run again in the part that a restore lost,
// and its later run may be the one whose score was told: no result counts before every agent has said what it knows.
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

// Those of a large fleet must not make one decision of many megabytes, and others have their turn in between.
#define COUNTED_AT_ONCE 64 // results
#define COUNTED_EACH_NS BERTH_NS_PER_MS

void core_defer(struct berth_core *core, struct cell *cell, Berth__Store__V1__TrialEnded *ended)
{
	cell->deferred = ended;
	DL_APPEND(core->deferred, cell);
}

void core_drop_deferred(struct berth_core *core, struct cell *cell)
{
	if (cell->deferred) {
		DL_DELETE(core->deferred, cell);
		berth_proto_free(BERTH_STEAL(cell->deferred));
	}
}

void defer_result(const struct decision *decision, struct cell *cell, Berth__Store__V1__TrialEnded *ended)
{
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_RESULT_DEFERRED);
	event->result_deferred = emit_part(decision, sizeof *event->result_deferred);
	berth__store__v1__result_deferred__init(event->result_deferred);
	event->result_deferred->ended = ended;
	emit(decision, event);
	effect_cell(decision, BERTH_EFFECT_TRIAL_CHANGED, cell);
}

void count_deferred(const struct decision *decision)
{
	struct berth_core *core = decision->core;
	for (size_t left = COUNTED_AT_ONCE; core->deferred && !core->resending; left--) {
		if (!left) {
			wake_at(core, decision->now.boot_ns + COUNTED_EACH_NS);
			return;
		}
		struct cell *cell = core->deferred;
		Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_TRIAL_ENDED);
		event->trial_ended = emit_copy(decision, cell->deferred);
		emit(decision, event);
		effect_cell(decision, BERTH_EFFECT_TRIAL_CHANGED, cell);
		end_job_if_over(decision, cell->job);
	}
}
