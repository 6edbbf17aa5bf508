// SPDX-License-Identifier: Apache-2.0
// The outbox as the session sees it: every report that is on disk, in the order in which it must reach the coordinator.
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "agent/core/core_internal.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

static struct agent_core_boot *find_boot(const struct berth_agent_core *core, const char *boot_id)
{
	struct agent_core_boot *boot;
	DL_FOREACH (core->boots, boot) {
		if (strcmp(boot->boot_id, boot_id) == 0) {
			return boot;
		}
	}
	return NULL;
}

static void free_report(struct agent_core_report *report)
{
	berth_proto_free(report->done);
	free(report->packed);
	free(report);
}

static bool is_acked(const struct agent_core_report *report)
{
	return report->sequence <= report->boot->acked;
}

void agent_core_outbox_add(struct berth_agent_core *core, const Berth__V1__Report *report)
{
	struct agent_core_boot *boot = find_boot(core, report->boot_id);
	if (!boot) {
		boot = berth_alloc(sizeof *boot);
		boot->boot_id = berth_strdup(report->boot_id);
		DL_APPEND(core->boots, boot);
	}
	struct agent_core_report *entry = berth_alloc(sizeof *entry);
	entry->boot = boot;
	entry->sequence = report->sequence;
	entry->size = berth__v1__report__get_packed_size(report);
	entry->packed = berth_alloc(entry->size + 1);
	berth__v1__report__pack(report, entry->packed);
	if (report->body_case == BERTH__V1__REPORT__BODY_DONE && report->done->trial) {
		entry->done = berth_proto_clone(report->done->trial);
	}
	boot->last = report->sequence;
	core->outbox_size += entry->size;
	DL_APPEND(core->reports, entry);
}

void agent_core_outbox_welcome(struct berth_agent_core *core, uint64_t applied_through, bool same_incarnation)
{
	struct agent_core_boot *boot;
	DL_FOREACH (core->boots, boot) {
		if (strcmp(boot->boot_id, core->boot_id) == 0) {
			boot->acked = applied_through;
		} else if (!same_incarnation) {
			// It may have been restored from a backup that is older than what was acknowledged. Applying
			// twice is harmless, losing is not.
			boot->acked = 0;
		}
	}
}

static void send_report(
	struct berth_agent_core *core, struct agent_core_report *entry, struct berth_agent_actions *actions)
{
	Berth__V1__AgentMessage *message = berth_alloc(sizeof *message);
	berth__v1__agent_message__init(message);
	message->body_case = BERTH__V1__AGENT_MESSAGE__BODY_REPORT;
	message->report = berth__v1__report__unpack(NULL, entry->size, entry->packed);
	agent_core_act(actions, BERTH_AGENT_SEND)->message = message;
	entry->sent = true;
	core->in_flight++;
}

void agent_core_outbox_send(struct berth_agent_core *core, struct berth_agent_actions *actions)
{
	struct agent_core_report *entry;
	DL_FOREACH (core->reports, entry) {
		if (core->in_flight >= AGENT_CORE_IN_FLIGHT_MAX) {
			return;
		}
		if (!entry->sent && !is_acked(entry)) {
			send_report(core, entry, actions);
		}
	}
}

void agent_core_outbox_stream_down(struct berth_agent_core *core)
{
	struct agent_core_report *entry;
	DL_FOREACH (core->reports, entry) {
		entry->sent = false;
	}
	core->in_flight = 0;
	core->stable_known = false;
}

bool agent_core_outbox_wrote(const struct berth_agent_core *core, const char *boot_id, uint64_t sequence)
{
	const struct agent_core_boot *boot = find_boot(core, boot_id);
	if (!boot) {
		// An older life, all of whose reports are gone: nothing is known about it.
		return sequence == 0 || strcmp(boot_id, core->boot_id) != 0;
	}
	return sequence <= boot->last;
}

void agent_core_outbox_ack(struct berth_agent_core *core, const char *boot_id, uint64_t through)
{
	struct agent_core_boot *boot = find_boot(core, boot_id);
	if (!boot) {
		return;
	}
	struct agent_core_report *entry;
	DL_FOREACH (core->reports, entry) {
		if (entry->boot == boot && entry->sent && !is_acked(entry) && entry->sequence <= through) {
			core->in_flight--;
		}
	}
	if (through > boot->acked) {
		boot->acked = through;
	}
}

static void drop_through(struct berth_agent_core *core, struct agent_core_boot *boot, uint64_t through,
	struct berth_agent_actions *actions)
{
	struct agent_core_report *entry, *after;
	bool any = false;
	DL_FOREACH_SAFE (core->reports, entry, after) {
		if (entry->boot == boot && entry->sequence <= through) {
			DL_DELETE(core->reports, entry);
			core->outbox_size -= entry->size;
			free_report(entry);
			any = true;
		}
	}
	if (!any) {
		return;
	}
	boot->dropped = through;
	struct berth_agent_action *action = agent_core_act(actions, BERTH_AGENT_DROP_REPORTS);
	action->boot_id = berth_strdup(boot->boot_id);
	action->through = through;
}

// What may be deleted. A coordinator without backups has all that it acknowledged on its own disk and nowhere else, so
// nothing could ever be sent again. With backups a report stays until one covers it. Reports of older boots reach the
// coordinator before every report of this boot, so a backup that covers one of this boot covers them, and one that
// covers none says nothing of theirs.
void agent_core_outbox_drop(struct berth_agent_core *core, struct berth_agent_actions *actions)
{
	if (!core->stable_known) {
		return;
	}
	struct agent_core_boot *boot;
	DL_FOREACH (core->boots, boot) {
		uint64_t through = boot->acked;
		bool ours = strcmp(boot->boot_id, core->boot_id) == 0;
		if (core->keeps_reports && (ours || !core->stable_through) && core->stable_through < through) {
			through = core->stable_through;
		}
		if (through > boot->dropped) {
			drop_through(core, boot, through, actions);
		}
	}
}

bool agent_core_outbox_has_result(const struct berth_agent_core *core, const Berth__V1__TrialKey *key)
{
	struct agent_core_report *entry;
	DL_FOREACH (core->reports, entry) {
		if (entry->done && agent_core_key_equal(entry->done, key)) {
			return true;
		}
	}
	return false;
}

uint64_t agent_core_outbox_first(const struct berth_agent_core *core)
{
	struct agent_core_report *entry;
	DL_FOREACH (core->reports, entry) {
		if (!is_acked(entry)) {
			return entry->sequence;
		}
	}
	return 0;
}

uint64_t agent_core_outbox_last(const struct berth_agent_core *core)
{
	const struct agent_core_boot *boot = find_boot(core, core->boot_id);
	return boot ? boot->last : 0;
}

void agent_core_outbox_free(struct berth_agent_core *core)
{
	struct agent_core_report *entry, *entry_after;
	DL_FOREACH_SAFE (core->reports, entry, entry_after) {
		free_report(entry);
	}
	struct agent_core_boot *boot, *boot_after;
	DL_FOREACH_SAFE (core->boots, boot, boot_after) {
		free(boot->boot_id);
		free(boot);
	}
}
