// SPDX-License-Identifier: Apache-2.0
// What events of enrolments and of agents' lives change. A published event's rule never changes.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

typedef Berth__Store__V1__Event event_t;

static void enroll_person(struct berth_core *core, const Berth__Store__V1__AgentEnrolled *enrolled)
{
	char name[2 * BERTH_NAME_SIZE];
	snprintf(name, sizeof name, "%s/%s", enrolled->role, enrolled->name);
	struct person *person = NULL;
	HASH_FIND_STR(core->people, name, person);
	if (!person) {
		person = berth_alloc(sizeof *person);
		memcpy(person->name, name, sizeof person->name);
		HASH_ADD_STR(core->people, name, person);
	}
	snprintf(person->certificate_sha256, sizeof person->certificate_sha256, "%s", enrolled->certificate_sha256);
	snprintf(person->signing_key_id, sizeof person->signing_key_id, "%s",
		enrolled->signing_key_der.len ? enrolled->signing_key_id : "");
	free(person->signing_key_der);
	person->signing_key_der = berth_memdup(enrolled->signing_key_der.data, enrolled->signing_key_der.len);
	person->signing_key_size = enrolled->signing_key_der.len;
}

bool apply_agent_enrolled(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__AgentEnrolled *enrolled = event->agent_enrolled;
	if (strlen(enrolled->name) >= BERTH_NAME_SIZE) {
		return corrupt_event(event, err, "enrolled name is too long");
	}
	if (strcmp(enrolled->role, "agent") != 0) {
		enroll_person(core, enrolled);
		return true;
	}
	struct agent *agent = core_agent(core, enrolled->name);
	if (!agent) {
		agent = berth_alloc(sizeof *agent);
		snprintf(agent->name, sizeof agent->name, "%s", enrolled->name);
		HASH_ADD_STR(core->agents, name, agent);
	}
	agent->forgotten = false;
	snprintf(agent->certificate_sha256, sizeof agent->certificate_sha256, "%s", enrolled->certificate_sha256);
	free(agent->signing_key_der);
	agent->signing_key_der = berth_memdup(enrolled->signing_key_der.data, enrolled->signing_key_der.len);
	agent->signing_key_size = enrolled->signing_key_der.len;
	return true;
}

#define LIFE_DIGITS 16 // of a boot id: the number of the life in its agent's state folder

// Whether what older lives left is what this one settled and reported: it has their state, and their Docker daemon.
static bool continues(const struct agent *agent, const Berth__Store__V1__AgentBooted *booted)
{
	return strncmp(booted->boot_id, agent->boot_id, LIFE_DIGITS) > 0 &&
	       strcmp(booted->daemon_id, agent->daemon_id) == 0;
}

// Whether these were dispatched nobody can tell any more.
static void leave_unknown(const struct agent *agent)
{
	struct lease *lease;
	DL_FOREACH (agent->fresh, lease) {
		berth_proto_set_string(&lease->record->failure,
			"its agent came back without the state, or with another Docker daemon, that would show whether "
			"this was dispatched: give the agent up (berth agent forget) once nothing of it can run");
	}
}

bool apply_agent_booted(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__AgentBooted *booted = event->agent_booted;
	struct agent *agent = core_agent(core, booted->agent);
	if (!agent || strlen(booted->boot_id) != BERTH_ID_SIZE - 1) {
		return corrupt_event(event, err, "boot of an agent that is not enrolled");
	}
	bool is_new = agent->boot_id[0] && strcmp(agent->boot_id, booted->boot_id) != 0;
	if (is_new && !continues(agent, booted)) {
		leave_unknown(agent);
	}
	memcpy(agent->boot_id, booted->boot_id, BERTH_ID_SIZE);
	free(agent->daemon_id);
	free(agent->platform);
	free(agent->version);
	agent->daemon_id = berth_strdup(booted->daemon_id);
	agent->platform = berth_strdup(booted->platform);
	agent->version = berth_strdup(booted->version);
	berth__v1__capacity__init(&agent->capacity);
	if (booted->capacity) {
		agent->capacity.cpus = booted->capacity->cpus;
		agent->capacity.memory_mb = booted->capacity->memory_mb;
		agent->capacity.disk_mb = booted->capacity->disk_mb;
		agent->capacity.slots = booted->capacity->slots;
	}
	agent->hold_ms = booted->hold_ms;
	return true;
}

bool apply_agent_hold(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	struct agent *agent = core_agent(core, event->agent_hold->agent);
	if (!agent || event->agent_hold->hold_ms <= 0) {
		return corrupt_event(event, err, "the hold of an agent that is not enrolled, or none");
	}
	agent->hold_ms = event->agent_hold->hold_ms;
	return true;
}
