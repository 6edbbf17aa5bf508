// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/recover.h"

#include "common/base/mem.h"
#include "common/codec/proto.h"

Berth__Store__V1__Event *berth_recover_event(struct berth_ledger *ledger, uint64_t sequence, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	if (!berth_ledger_read(ledger, sequence, &packed, err)) {
		return NULL;
	}
	return berth_proto_unpack(
		&berth__store__v1__event__descriptor, packed.data, packed.size, "a stored event", err);
}

Berth__V1__JobSpec *berth_recover_spec(struct berth_ledger *ledger, uint64_t sequence, struct berth_error *err)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__Store__V1__Event *event = berth_recover_event(ledger, sequence, err);
	if (!event) {
		return NULL;
	}
	if (event->body_case != BERTH__STORE__V1__EVENT__BODY_JOB_SUBMITTED) {
		berth_fail(err, BERTH_ERROR_CORRUPT, "event %llu is not the job's", (unsigned long long)sequence);
		return NULL;
	}
	return BERTH_STEAL(event->job_submitted->spec);
}

struct replay {
	struct berth_core *core;
	uint64_t to;
	bool reached;
};

static bool replay_event(void *context, uint64_t sequence, const void *packed, size_t size, struct berth_error *err)
{
	struct replay *replay = context;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__Store__V1__Event *event =
		berth_proto_unpack(&berth__store__v1__event__descriptor, packed, size, "a stored event", err);
	if (!event || !berth_core_apply(replay->core, event, err)) {
		return berth_error_wrap(err, "replay of event %llu", (unsigned long long)sequence);
	}
	replay->reached = sequence == replay->to;
	return !replay->reached;
}

bool berth_recover_events(
	struct berth_core *core, struct berth_ledger *ledger, uint64_t from, uint64_t to, struct berth_error *err)
{
	struct replay replay = {.core = core, .to = to};
	return from > to || berth_ledger_replay(ledger, from, replay_event, &replay, err) || replay.reached;
}

static bool scan(
	void *context, const char *prefix, berth_core_record_visit *visit, void *visitor, struct berth_error *err)
{
	return berth_ledger_rows(context, prefix, NULL, visit, visitor, err);
}

static Berth__V1__JobSpec *spec_at(void *context, uint64_t sequence, struct berth_error *err)
{
	return berth_recover_spec(context, sequence, err);
}

bool berth_recover(struct berth_core *core, struct berth_ledger *ledger, struct berth_error *err)
{
	const struct berth_core_records records = {.scan = scan, .spec = spec_at, .context = ledger};
	return berth_core_load(core, &records, err) &&
	       berth_recover_events(
		       core, ledger, berth_ledger_marker(ledger) + 1, berth_ledger_head(ledger).sequence, err);
}
