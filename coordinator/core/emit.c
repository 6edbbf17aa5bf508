// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

#define LIST_KEPT   4   // items: what most decisions come to
#define EVENTS_SIZE 960 // bytes: what most decisions come to, and what an allocator hands out again at once

void berth_outcome_drop_events(struct berth_outcome *outcome)
{
	for (size_t i = 0; i < outcome->owned_count; i++) {
		berth_proto_free(outcome->owned[i]);
	}
	berth_arena_free(BERTH_STEAL(outcome->memory));
	outcome->owned = NULL;
	outcome->owned_count = 0;
	outcome->events_count = 0;
}

void berth_outcome_clear(struct berth_outcome *outcome)
{
	berth_outcome_drop_events(outcome);
	free(outcome->events);
	free(outcome->effects);
	*outcome = (struct berth_outcome){0};
}

void berth_outcome_reset(struct berth_outcome *outcome)
{
	if (outcome->events_capacity > LIST_KEPT || outcome->effects_capacity > LIST_KEPT) {
		berth_outcome_clear(outcome);
		return;
	}
	berth_outcome_drop_events(outcome);
	outcome->effects_count = 0;
	outcome->error.code = BERTH_ERROR_OK;
	outcome->error.message[0] = 0;
	outcome->job_id[0] = 0;
	outcome->existed = false;
}

static struct berth_arena *memory_of(const struct decision *decision)
{
	struct berth_outcome *outcome = decision->outcome;
	if (!outcome->memory) {
		outcome->memory = berth_arena_new(EVENTS_SIZE);
	}
	return outcome->memory;
}

void *emit_part(const struct decision *decision, size_t size)
{
	return berth_arena_take(memory_of(decision), size);
}

char *emit_text(const struct decision *decision, const char *text)
{
	return text && text[0] ? berth_arena_text(memory_of(decision), text) : (char *)protobuf_c_empty_string;
}

ProtobufCBinaryData emit_bytes(const struct decision *decision, const void *data, size_t size)
{
	return (ProtobufCBinaryData){.len = size, .data = size ? memcpy(emit_part(decision, size), data, size) : NULL};
}

void *emit_copy(const struct decision *decision, const void *message)
{
	return berth_proto_copy_in(memory_of(decision), message);
}

void emit_append(const struct decision *decision, size_t *count, void *pointer_to_list, void *item)
{
	void ***list = pointer_to_list;
	if ((*count & (*count - 1)) == 0) { // full: 0 or a power of two
		void **larger = emit_part(decision, (*count ? 2 * *count : 1) * sizeof *larger);
		if (*count) {
			memcpy(larger, *list, *count * sizeof *larger);
		}
		*list = larger;
	}
	(*list)[(*count)++] = item;
}

void *emit_own(const struct decision *decision, void *message)
{
	struct berth_outcome *outcome = decision->outcome;
	emit_append(decision, &outcome->owned_count, &outcome->owned, message);
	return message;
}

Berth__Store__V1__Event *emit_new(const struct decision *decision, Berth__Store__V1__Event__BodyCase body)
{
	const struct berth_command *command = decision->command;
	Berth__Store__V1__Event *event = emit_part(decision, sizeof *event);
	berth__store__v1__event__init(event);
	event->body_case = body;
	event->actor = command->actor ? (char *)command->actor : event->actor;
	if (decision->from_report) {
		event->origin = emit_part(decision, sizeof *event->origin);
		berth__store__v1__origin__init(event->origin);
		event->origin->agent = (char *)command->agent;
		event->origin->boot_id = command->report->boot_id;
		event->origin->report_sequence = command->report->sequence;
	}
	return event;
}

void emit(const struct decision *decision, Berth__Store__V1__Event *event)
{
	struct berth_core *core = decision->core;
	struct berth_outcome *outcome = decision->outcome;
	event->sequence = core->last_sequence + 1;
	// A wall clock that steps back does not take recorded time back with it.
	event->recorded_at_ns =
		decision->now.wall_ns > core->recorded_at_ns ? decision->now.wall_ns : core->recorded_at_ns;
	struct berth_error err = {0};
	if (!berth_core_apply(core, event, &err)) {
		// Deciding what cannot be applied is a bug of ours; going on would write a log that cannot be replayed.
		berth_log_error("decided an event that does not apply", "reason=%s", berth_log_quote(err.message));
		abort();
	}
	if (outcome->events_count == outcome->events_capacity) {
		outcome->events_capacity = outcome->events_capacity ? 2 * outcome->events_capacity : LIST_KEPT;
		outcome->events =
			berth_realloc_array(outcome->events, outcome->events_capacity, sizeof(*outcome->events));
	}
	outcome->events[outcome->events_count++] = event;
}

struct berth_effect *effect(const struct decision *decision, enum berth_effect_kind kind)
{
	struct berth_outcome *outcome = decision->outcome;
	if (outcome->effects_count == outcome->effects_capacity) {
		outcome->effects_capacity = outcome->effects_capacity ? 4 * outcome->effects_capacity : LIST_KEPT;
		outcome->effects =
			berth_realloc_array(outcome->effects, outcome->effects_capacity, sizeof(*outcome->effects));
	}
	struct berth_effect *added = &outcome->effects[outcome->effects_count++];
	memset(added, 0, offsetof(struct berth_effect, reason) + 1); // a reason is a text, of which most have none
	added->kind = kind;
	return added;
}

struct berth_effect *effect_agent(
	const struct decision *decision, enum berth_effect_kind kind, const struct agent *agent)
{
	struct berth_effect *added = effect(decision, kind);
	berth_copy_text(added->agent, sizeof added->agent, agent->name);
	added->session = agent->session;
	return added;
}

struct berth_effect *effect_cell(const struct decision *decision, enum berth_effect_kind kind, const struct cell *cell)
{
	struct berth_effect *added = effect(decision, kind);
	memcpy(added->job_id, cell->job->id, BERTH_ID_SIZE);
	added->index = cell->index;
	added->generation = cell->generation;
	if (cell->agent) {
		berth_copy_text(added->agent, sizeof added->agent, cell->agent->name);
		added->session = cell->agent->session;
	}
	return added;
}

void refuse(const struct decision *decision, enum berth_error_code code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	decision->outcome->error.code = code;
	vsnprintf(decision->outcome->error.message, sizeof decision->outcome->error.message, format, args);
	va_end(args);
}

static void decide_start(const struct decision *decision)
{
	const struct berth_command *command = decision->command;
	if (command->restored) {
		begin_restored(decision);
	}
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_COORDINATOR_STARTED);
	Berth__Store__V1__CoordinatorStarted *started = emit_part(decision, sizeof *started);
	berth__store__v1__coordinator_started__init(started);
	started->number = decision->core->incarnation_number + 1;
	started->nonce = emit_bytes(decision, command->nonce, 16);
	started->version = emit_text(decision, command->version);
	started->fleet = emit_text(decision, decision->core->fleet);
	event->coordinator_started = started;
	emit(decision, event);
	// Who was heard of before the restart counts as heard of now: the fencing wait starts again, once.
	struct agent *agent, *next;
	HASH_ITER (hh, decision->core->agents, agent, next) {
		agent->beat_boot_ns = decision->now.boot_ns;
	}
	resume_waits(decision);
	pace_begin(decision->core, decision->now);
	decision->core->started = true;
}

typedef void (*decide_fn)(const struct decision *);

static const decide_fn deciders[] = {
	[BERTH_COMMAND_START] = decide_start,
	[BERTH_COMMAND_ENROLL] = decide_enroll,
	[BERTH_COMMAND_HELLO] = decide_hello,
	[BERTH_COMMAND_HEARTBEAT] = decide_heartbeat,
	[BERTH_COMMAND_REPORT] = decide_report,
	[BERTH_COMMAND_PROGRESS] = decide_progress,
	[BERTH_COMMAND_STREAM_DOWN] = decide_stream_down,
	[BERTH_COMMAND_SUBMIT] = decide_submit,
	[BERTH_COMMAND_CANCEL] = decide_cancel,
	[BERTH_COMMAND_TICK] = decide_tick,
	[BERTH_COMMAND_PLACE] = decide_place,
	[BERTH_COMMAND_CREATE_BUDGET] = decide_create_budget,
	[BERTH_COMMAND_AMEND_BUDGET] = decide_amend_budget,
	[BERTH_COMMAND_KEEP_REPORTS] = decide_keep_reports,
	[BERTH_COMMAND_BACKUP_VERIFIED] = decide_backup_verified,
	[BERTH_COMMAND_FORGET_AGENT] = decide_forget_agent,
};

void berth_core_decide(struct berth_core *core, const struct berth_command *command, struct berth_core_now now,
	struct berth_outcome *outcome)
{
	struct decision decision = {.core = core, .command = command, .now = now, .outcome = outcome};
	if (core->stopped) {
		refuse(&decision, BERTH_ERROR_NOT_SERVING,
			"a newer incarnation of this coordinator is known to the fleet: this one has stopped; stop the "
			"other one or this one for good");
		return;
	}
	// A replayed core does not know when it last heard of anyone: a tick would take every agent for lost.
	if (!core->started && command->kind != BERTH_COMMAND_START) {
		refuse(&decision, BERTH_ERROR_NOT_SERVING, "this coordinator is still starting: try again");
		return;
	}
	deciders[command->kind](&decision);
}
