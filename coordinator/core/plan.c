// SPDX-License-Identifier: Apache-2.0
// What a job would take on, before it is submitted.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/table.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

// Whether the host has room for one of the job's trials when it is empty.
static bool could_run(const struct agent *agent, const Berth__V1__JobSpec *spec)
{
	for (size_t i = 0; i < spec->n_tasks; i++) {
		if (spec_cpus(spec, spec->tasks[i]) <= agent->capacity.cpus &&
			spec_memory_mb(spec, spec->tasks[i]) <= agent->capacity.memory_mb) {
			return true;
		}
	}
	return false;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_hosts(const struct berth_core *core, const Berth__V1__JobSpec *spec, struct berth_core_now now,
	Berth__V1__PlanJobResponse *plan)
{
	const struct agent *agent, *next;
	HASH_ITER (hh, core->agents, agent, next) {
		if (agent_is_open(core, agent, now) && could_run(agent, spec)) {
			berth_proto_append(&plan->n_hosts, &plan->hosts, berth_strdup(agent->name));
			plan->slots += agent->capacity.slots;
		}
	}
	if (plan->n_hosts) {
		qsort(plan->hosts, plan->n_hosts, sizeof(*plan->hosts), compare_names);
	}
}

struct environment {
	const char *id;
	UT_hash_handle hh;
};

static bool is_known(const struct berth_core *core, const char *environment_id)
{
	const struct agent *agent, *next;
	HASH_ITER (hh, core->agents, agent, next) {
		if (has_image(agent, environment_id)) {
			return true;
		}
	}
	return false;
}

static void add_miss(Berth__V1__PlanJobResponse *plan, const Berth__V1__Task *task)
{
	Berth__V1__EnvironmentMiss *miss = berth_alloc(sizeof *miss);
	berth__v1__environment_miss__init(miss);
	berth_proto_set_string(&miss->environment_id, task->environment_id);
	berth_proto_set_string(&miss->task, task->name);
	berth_proto_append(&plan->n_misses, &plan->misses, miss);
}

static void add_environments(
	const struct berth_core *core, const Berth__V1__JobSpec *spec, Berth__V1__PlanJobResponse *plan)
{
	struct environment *all = NULL, *known, *next;
	BERTH_AUTO_FREE struct environment *list = berth_alloc(spec->n_tasks * sizeof *list);
	for (size_t i = 0; i < spec->n_tasks; i++) {
		const char *id = spec->tasks[i]->environment_id;
		HASH_FIND_STR(all, id, known);
		if (known) {
			continue;
		}
		list[i].id = id;
		HASH_ADD_KEYPTR(hh, all, id, strlen(id), &list[i]);
		plan->environments++;
		if (!is_known(core, id)) {
			add_miss(plan, spec->tasks[i]);
		}
	}
	HASH_ITER (hh, all, known, next) {
		HASH_DEL(all, known);
	}
}

static bool add_money(const struct berth_core *core, const Berth__V1__JobSpec *spec, const char *user,
	Berth__V1__PlanJobResponse *plan, struct berth_error *err)
{
	berth_proto_set_string(&plan->budget, spec->budget);
	berth_proto_set_string(&plan->phase, spec->phase);
	if (!may_be_paid(core, spec, user, &plan->quote_nano_usd, err)) {
		return false;
	}
	if (!spec->budget[0]) {
		return true;
	}
	plan->single_nano_usd = plan->quote_nano_usd / most_runs(core, spec);
	plan->room = berth_alloc(sizeof *plan->room);
	berth__v1__budget_room__init(plan->room);
	plan->room->remaining_nano_usd = room_for(core, spec, user);
	plan->room->waits = plan->quote_nano_usd > plan->room->remaining_nano_usd;
	return true;
}

static void set_refusal(Berth__V1__PlanJobResponse *plan, const struct berth_error *err)
{
	berth_proto_set_string(&plan->refusal, err->message);
	berth_proto_set_string(&plan->refusal_code, berth_error_name(err->code));
}

void berth_core_plan(const struct berth_core *core, const Berth__V1__SubmitJobRequest *submit, const char *user,
	const char *disk_message, struct berth_core_now now, Berth__V1__PlanJobResponse *plan)
{
	const Berth__V1__JobSpec *spec = submit->spec;
	struct berth_error err;
	if (!check_submit(core, submit, disk_message, &err)) {
		set_refusal(plan, &err);
	}
	uint64_t trials = spec ? (uint64_t)spec->attempts * spec->n_agents * spec->n_tasks : 0;
	if (trials == 0 || trials > BERTH_JOB_CELLS_MAX) {
		return;
	}
	plan->trials = (uint32_t)trials;
	plan->tasks = (uint32_t)spec->n_tasks;
	plan->agents = (uint32_t)spec->n_agents;
	plan->attempts = spec->attempts;
	add_hosts(core, spec, now, plan);
	add_environments(core, spec, plan);
	if (!add_money(core, spec, user, plan, &err) && !plan->refusal[0]) {
		set_refusal(plan, &err);
	}
}
