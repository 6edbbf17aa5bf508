// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_internal.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define ACTIONS_FIRST 8

struct berth_agent_action *agent_core_act(struct berth_agent_actions *actions, enum berth_agent_action_kind kind)
{
	if (actions->count == actions->capacity) {
		actions->capacity = actions->capacity ? 2 * actions->capacity : ACTIONS_FIRST;
		actions->items = berth_realloc_array(actions->items, actions->capacity, sizeof *actions->items);
	}
	struct berth_agent_action *action = &actions->items[actions->count++];
	memset(action, 0, sizeof *action);
	action->kind = kind;
	return action;
}

void agent_core_send(struct berth_agent_actions *actions, const Berth__V1__AgentMessage *message)
{
	agent_core_act(actions, BERTH_AGENT_SEND)->message = berth_proto_clone(message);
}

void agent_core_close(struct berth_agent_core *core, struct berth_agent_actions *actions, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	agent_core_act(actions, BERTH_AGENT_CLOSE)->reason = berth_vformat(format, args);
	va_end(args);
	core->stream = AGENT_CORE_REFUSED;
}

void berth_agent_actions_clear(struct berth_agent_actions *actions)
{
	for (size_t i = 0; i < actions->count; i++) {
		struct berth_agent_action *action = &actions->items[i];
		berth_proto_free(action->message);
		berth_proto_free(action->obeyed);
		berth_proto_free(action->assignment);
		berth_proto_free(action->trial);
		free(action->reason);
		free(action->boot_id);
	}
	free(actions->items);
	memset(actions, 0, sizeof *actions);
}
