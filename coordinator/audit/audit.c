// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/audit.h"

#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/audit/records.h"
#include "coordinator/audit/recover.h"

static struct berth_ledger *open_ledger(const char *data_folder, struct berth_error *err)
{
	BERTH_AUTO_FREE char *current = berth_path_join(data_folder, "ledger/CURRENT");
	if (!berth_file_exists(current)) {
		berth_fail(
			err, BERTH_ERROR_NOT_FOUND, "%s holds no ledger: name what `serve --data` names", data_folder);
		return NULL;
	}
	const struct berth_ledger_options options = {0};
	return berth_ledger_open(data_folder, &options, err);
}

static struct berth_core *new_core(const char *fleet)
{
	// What bounds decisions alone: replay decides nothing.
	const struct berth_core_config config = {.fleet = fleet,
		.hold_ms = BERTH_HOLD_MS_DEFAULT,
		.heartbeat_ms = 1000,
		.max_generations = BERTH_MAX_GENERATIONS,
		.aging_ms = BERTH_AGING_MS_DEFAULT};
	return berth_core_new(&config);
}

// Every ledger starts with the start of its first coordinator.
static bool read_fleet(struct berth_ledger *ledger, struct berth_audit *audit, struct berth_error *err)
{
	if (audit->head.sequence == 0) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "event 1 is missing: the ledger is empty");
	}
	BERTH_AUTO(berth_proto_cleanup) Berth__Store__V1__Event *event = berth_recover_event(ledger, 1, err);
	if (!event) {
		return berth_error_wrap(err, "event 1");
	}
	if (event->body_case != BERTH__STORE__V1__EVENT__BODY_COORDINATOR_STARTED) {
		return berth_fail(err, BERTH_ERROR_CORRUPT, "event 1 is not the start of a coordinator");
	}
	snprintf(audit->fleet, sizeof audit->fleet, "%s", event->coordinator_started->fleet);
	return true;
}

static bool replay(
	struct berth_core *core, struct berth_ledger *ledger, struct berth_audit *audit, struct berth_error *err)
{
	audit->marker = berth_ledger_marker(ledger);
	return berth_recover_events(core, ledger, 1, audit->marker, err) &&
	       (!audit->marker || audit_records(core, ledger, &audit->records, err)) &&
	       berth_recover_events(core, ledger, audit->marker + 1, audit->head.sequence, err);
}

static bool same_as_recovered(struct berth_ledger *ledger, const struct berth_audit *audit, struct berth_error *err)
{
	struct berth_core *core = new_core(audit->fleet);
	bool ok = berth_recover(core, ledger, err);
	struct berth_digest state = ok ? berth_core_digest(core) : (struct berth_digest){{0}};
	berth_core_free(core);
	if (ok && !berth_digest_equal(&state, &audit->state)) {
		return berth_fail(err, BERTH_ERROR_CORRUPT,
			"a start from the records of event %llu gives another state than the log from event 1",
			(unsigned long long)audit->marker);
	}
	return ok;
}

struct berth_core *berth_audit_ledger(const char *data_folder, struct berth_audit *audit, struct berth_error *err)
{
	*audit = (struct berth_audit){0};
	struct berth_ledger *ledger = open_ledger(data_folder, err);
	if (!ledger) {
		return NULL;
	}
	struct berth_core *core = NULL;
	audit->head = berth_ledger_head(ledger);
	bool ok = berth_ledger_verify(ledger, err) && read_fleet(ledger, audit, err);
	if (ok) {
		core = new_core(audit->fleet);
		ok = replay(core, ledger, audit, err);
	}
	if (ok) {
		audit->state = berth_core_digest(core);
		audit->incarnation = berth_core_incarnation(core).number;
		ok = same_as_recovered(ledger, audit, err);
	}
	berth_ledger_close(ledger);
	if (!ok) {
		// A log that no coordinator can have written, whatever the rule that it breaks.
		err->code = err->code == BERTH_ERROR_IO ? BERTH_ERROR_IO : BERTH_ERROR_CORRUPT;
		berth_core_free(core);
		return NULL;
	}
	return core;
}
