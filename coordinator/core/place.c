// SPDX-License-Identifier: Apache-2.0
// Placement: which waiting cell goes to which agent. Between jobs by weighted least share of running CPU, within a job
// in order, onto the agent that has run the image before, else the one with most room.
//
// Aging: a cell that waited longer than aging_ms keeps the agents that could hold it when empty for itself, so a large
// task is placed at the latest when what runs there has ended. In the same way a run that waited so long for money
// keeps what comes back to its budget, as long as that can pay it.
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/core/state.h"

#define WEIGHT_DEFAULT   10
#define BEATS_MISSED_MAX 3  // after this many an agent is given nothing new
#define LOOK_AHEAD_MAX   16 // cells of one job that are tried before the next job gets its turn

static bool has_room(const struct agent *agent, uint32_t cpus, uint64_t memory_mb)
{
	return agent->running_count < agent->capacity.slots && agent->running_cpus + cpus <= agent->capacity.cpus &&
	       agent->running_memory_mb + memory_mb <= agent->capacity.memory_mb;
}

// Takes new trials: in a session, willing, and heard of lately.
bool agent_is_open(const struct berth_core *core, const struct agent *agent, struct berth_core_now now)
{
	int64_t silent_ns = now.boot_ns - agent->beat_boot_ns;
	return agent->session && agent->ready && agent->accepting && !agent->lost &&
	       silent_ns <= BEATS_MISSED_MAX * core->config.heartbeat_ms * BERTH_NS_PER_MS;
}

static bool could_hold(const struct agent *agent, const struct cell *cell)
{
	return agent->session && agent->accepting && agent->capacity.slots && cell_cpus(cell) <= agent->capacity.cpus &&
	       cell_memory_mb(cell) <= agent->capacity.memory_mb;
}

bool has_image(const struct agent *agent, const char *environment_id)
{
	for (size_t i = 0; i < BERTH_IMAGES_KEPT; i++) {
		if (strcmp(agent->images[i], environment_id) == 0) {
			return true;
		}
	}
	return false;
}

static void remember_image(struct agent *agent, const char *environment_id)
{
	if (!has_image(agent, environment_id)) {
		snprintf(agent->images[agent->images_next++ % BERTH_IMAGES_KEPT], BERTH_ID_SIZE, "%s", environment_id);
	}
}

static bool is_full(const struct job *job)
{
	return job->spec->concurrent_trials &&
	       job->counts[BERTH__V1__TRIAL_STATE__TRIAL_RUNNING] >= job->spec->concurrent_trials;
}

static bool is_at_limit(const struct job *job, const struct cell *cell)
{
	uint32_t limit = job->spec->agents[cell_agent(cell)]->n_concurrent;
	return limit && job->agent_running[cell_agent(cell)] >= limit;
}

// The first of its job that waited past the aging bound, for a host or (`blocked`) for money, oldest first; NULL when
// none did. One that a limit of its own job keeps back waits for neither.
static const struct cell *aged_cell(const struct berth_core *core, bool blocked, struct berth_core_now now)
{
	const struct job *job;
	const struct cell *oldest = NULL;
	int64_t bound_ns = now.boot_ns - core->config.aging_ms * BERTH_NS_PER_MS;
	DL_FOREACH2(core->open_jobs, job, open_next)
	{
		if (!job->ready.count || is_full(job)) {
			continue;
		}
		const struct cell *cell = &job->cells[queue_at(&job->ready, 0)];
		if (is_at_limit(job, cell) || cell_is_blocked(cell) != blocked ||
			(blocked && !may_be_paid_later(core, cell))) {
			continue; // neither hosts nor money are kept for one that could not use them
		}
		if (cell->queued_boot_ns < bound_ns && (!oldest || cell->queued_boot_ns < oldest->queued_boot_ns)) {
			oldest = cell;
		}
	}
	return oldest;
}

// For whom hosts and money are kept.
struct aged {
	const struct cell *host, *money;
};

static bool spends_savings(const struct cell *cell, const struct cell *saver)
{
	return saver && saver != cell && cell_price(cell) > 0 &&
	       strcmp(cell->job->spec->budget, saver->job->spec->budget) == 0;
}

static struct agent *agent_for(
	const struct berth_core *core, const struct cell *cell, const struct cell *aged, struct berth_core_now now)
{
	const char *image = cell->job->spec->tasks[cell_task(cell)]->environment_id;
	struct agent *agent, *next, *best = NULL;
	bool best_warm = false;
	HASH_ITER (hh, core->agents, agent, next) {
		if (!agent_is_open(core, agent, now) || !has_room(agent, cell_cpus(cell), cell_memory_mb(cell)) ||
			(aged && aged != cell && could_hold(agent, aged))) {
			continue;
		}
		bool warm = has_image(agent, image);
		// Ties go to the first name, so that two replays place alike.
		if (!best || warm > best_warm ||
			(warm == best_warm && (agent->running_count < best->running_count ||
						      (agent->running_count == best->running_count &&
							      strcmp(agent->name, best->name) < 0)))) {
			best = agent;
			best_warm = warm;
		}
	}
	return best;
}

static uint32_t weight(const struct job *job)
{
	return job->spec->priority > 0 ? (uint32_t)job->spec->priority : WEIGHT_DEFAULT;
}

struct choice {
	struct cell *cell;
	struct agent *agent;
};

// Where there is no room for the one, there is none for the other.
static bool needs_as_much(const struct cell *cell, const struct cell *other)
{
	return cell_cpus(cell) >= cell_cpus(other) && cell_memory_mb(cell) >= cell_memory_mb(other);
}

static struct choice choose_in(
	const struct berth_core *core, struct job *job, struct aged aged, struct berth_core_now now)
{
	if (is_full(job)) {
		return (struct choice){0};
	}
	const struct cell *unplaced = NULL; // the newest for which no agent has room
	for (uint32_t i = 0; i < job->ready.count && i < LOOK_AHEAD_MAX; i++) {
		struct cell *cell = &job->cells[queue_at(&job->ready, i)];
		bool waits = cell_is_blocked(cell) || is_at_limit(job, cell) || spends_savings(cell, aged.money) ||
		             (unplaced && cell != aged.host && needs_as_much(cell, unplaced));
		struct agent *agent = waits ? NULL : agent_for(core, cell, aged.host, now);
		if (agent) {
			return (struct choice){cell, agent};
		}
		unplaced = waits ? unplaced : cell;
	}
	return (struct choice){0};
}

static struct choice choose(const struct berth_core *core, struct berth_core_now now)
{
	struct aged aged = {aged_cell(core, false, now), core->blocked_jobs ? aged_cell(core, true, now) : NULL};
	struct choice best = {0};
	struct job *job;
	DL_FOREACH2(core->open_jobs, job, open_next)
	{
		if (!job->ready.count || job->state != BERTH__V1__JOB_STATE__JOB_RUNNING) {
			continue;
		}
		// a/b < c/d as a*d < c*b: the share of running CPU per weight.
		const struct job *other = best.cell ? best.cell->job : NULL;
		if (other &&
			(uint64_t)job->running_cpus * weight(other) >= (uint64_t)other->running_cpus * weight(job)) {
			continue;
		}
		struct choice choice = choose_in(core, job, aged, now);
		if (choice.cell) {
			best = choice;
		}
	}
	return best;
}

#define NUMBER_SIZE_MAX 20

// A slash and the number, without printf: each run needs several.
static char *put_number(char *at, uint64_t number)
{
	char digits[NUMBER_SIZE_MAX];
	size_t count = 0;
	do {
		digits[count++] = (char)('0' + number % 10);
	} while (number /= 10);
	*at++ = '/';
	while (count) {
		*at++ = digits[--count];
	}
	return at;
}

static char *digest_text(const struct decision *decision, const char *text, const char *end)
{
	struct berth_digest digest = berth_sha256(text, (size_t)(end - text));
	char *digest_as_text = emit_part(decision, BERTH_DIGEST_TEXT_SIZE);
	berth_digest_text(&digest, digest_as_text);
	return digest_as_text;
}

// "sha256:..." of who owns the lease: the cell's generation.
static char *owner_id(const struct decision *decision, const struct cell *cell, uint32_t generation)
{
	char text[BERTH_ID_SIZE + 2 * (1 + NUMBER_SIZE_MAX)];
	char *at = stpcpy(text, cell->job->id);
	at = put_number(at, cell->index);
	return digest_text(decision, text, put_number(at, generation));
}

// What was asked for, as one digest: task bundle, environment, resources.
static char *config_digest(const struct decision *decision, const struct cell *cell)
{
	const Berth__V1__Task *task = cell->job->spec->tasks[cell_task(cell)];
	size_t size = strlen(task->environment_id) + strlen(task->lock_digest) + strlen(task->network_mode);
	char *text = emit_part(decision, size + sizeof "///" + 2 * (1 + NUMBER_SIZE_MAX));
	char *at = stpcpy(stpcpy(stpcpy(text, task->environment_id), "/"), task->lock_digest);
	at = put_number(at, cell_cpus(cell));
	at = put_number(at, cell_memory_mb(cell));
	return digest_text(decision, text, stpcpy(stpcpy(at, "/"), task->network_mode));
}

static Berth__V1__Lease *new_lease(const struct decision *decision, const struct cell *cell, const struct agent *agent,
	Berth__V1__LeaseRole role, const char *id)
{
	Berth__V1__Lease *lease = emit_part(decision, sizeof *lease);
	berth__v1__lease__init(lease);
	lease->lease_id = emit_text(decision, id);
	lease->backend = BERTH__V1__BACKEND__BACKEND_LOCAL;
	lease->role = role;
	lease->state = BERTH__V1__LEASE_STATE__LEASE_CREATING;
	lease->owner_id = owner_id(decision, cell, cell->generation + 1);
	lease->config_digest = config_digest(decision, cell);
	lease->job_id = emit_text(decision, cell->job->id);
	lease->trial_index = cell->index;
	lease->generation = cell->generation + 1;
	lease->retries = cell->retries;
	lease->failures = cell->failures;
	lease->agent = emit_text(decision, agent->name);
	lease->daemon_id = emit_text(decision, agent->daemon_id);
	return lease;
}

static Berth__V1__TrialKey *next_key(const struct decision *decision, const struct cell *cell)
{
	Berth__V1__TrialKey *key = emit_part(decision, sizeof *key);
	berth__v1__trial_key__init(key);
	key->job_id = emit_text(decision, cell->job->id);
	key->index = cell->index;
	key->generation = cell->generation + 1;
	return key;
}

static void begin_clocks(const struct decision *decision, const struct cell *cell)
{
	struct lease *lease;
	LL_FOREACH2(cell->leases, lease, next_of_cell)
	{
		lease->begun_boot_ns = decision->now.boot_ns;
	}
}

static void assign(
	const struct decision *decision, struct choice choice, const struct run_plan *plan, char (*ids)[BERTH_ID_SIZE])
{
	struct cell *cell = choice.cell;
	Berth__Store__V1__Event *event = emit_new(decision, BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED);
	Berth__Store__V1__TrialAssigned *assigned = emit_part(decision, sizeof *assigned);
	berth__store__v1__trial_assigned__init(assigned);
	event->trial_assigned = assigned;
	assigned->trial = next_key(decision, cell);
	assigned->agent = emit_text(decision, choice.agent->name);
	assigned->boot_id = emit_text(decision, choice.agent->boot_id);
	for (size_t i = 0; i < plan->count; i++) {
		emit_append(decision, &assigned->n_leases, &assigned->leases,
			new_lease(decision, cell, choice.agent, plan->leases[i].role, ids[i]));
	}
	struct berth_budget_refusal refusal;
	if (!reserve_run(decision, cell, plan, assigned, &refusal)) {
		refuse_run(decision, cell, &refusal);
		for (size_t i = 0; i < plan->count; i++) {
			pace_end(decision->core, ids[i], decision->now);
		}
		return;
	}
	remember_image(choice.agent, cell->job->spec->tasks[cell_task(cell)]->environment_id);
	emit(decision, event);
	begin_clocks(decision, cell);
	cell->sent_session = choice.agent->session;
	effect_cell(decision, BERTH_EFFECT_ASSIGN, cell);
	effect_cell(decision, BERTH_EFFECT_TRIAL_CHANGED, cell);
	if (assigned->n_reservations) {
		effect_budget(decision, cell->job->spec->budget);
	}
}

void decide_place(const struct decision *decision)
{
	decision->core->place_wanted = false;
	size_t used = 0;
	for (;;) {
		struct choice choice = choose(decision->core, decision->now);
		if (!choice.cell) {
			return;
		}
		struct run_plan plan = plan_of(decision->core, choice.cell);
		if (used + plan.count > BERTH_PLACE_IDS) {
			decision->core->place_wanted = true; // the ids are used up; another PLACE goes on
			return;
		}
		char ids[RUN_LEASES_MAX][BERTH_ID_SIZE];
		if (!pace_take(decision, plan.count, decision->command->ids + used, ids)) {
			decision->core->place_wanted = true;
			return;
		}
		assign(decision, choice, &plan, ids);
		used += plan.count;
	}
}

bool berth_core_wants_place(const struct berth_core *core, struct berth_core_now now)
{
	return core->started && core->place_wanted && !core->stopped && !core->resending && !pace_waits(core, now) &&
	       choose(core, now).cell != NULL;
}
