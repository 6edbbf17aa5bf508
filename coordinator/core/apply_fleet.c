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

bool apply_agent_booted(struct berth_core *core, const event_t *event, struct berth_error *err)
{
	const Berth__Store__V1__AgentBooted *booted = event->agent_booted;
	struct agent *agent = core_agent(core, booted->agent);
	if (!agent || strlen(booted->boot_id) != BERTH_ID_SIZE - 1) {
		return corrupt_event(event, err, "boot of an agent that is not enrolled");
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
