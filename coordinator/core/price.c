// SPDX-License-Identifier: Apache-2.0
// What a run of a trial holds at most, from the rates of the job's budget. A backend that the policy has any rate for
// is paid in full: a machine of it without a rate is refused. One without rates is not paid for at all.
//
// Policies never change, so that a job's prices are taken once.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/task.h"
#include "coordinator/budget/money.h"
#include "coordinator/core/state.h"

#define SETUP_TIMEOUT_SEC  360.0         // of an agent that names none
#define PHASE_MAX_SECONDS  (24.0 * 3600) // of a phase that has no timeout
#define TTL_MARGIN_SECONDS 300.0         // health check, copies, artifacts
#define LOCAL              "local"       // the backend of docker environments

static double seconds_of(double base, double max, double specific, double global)
{
	bool immediate;
	double seconds = berth_timeout_sec(base, max, specific, global, &immediate);
	return seconds > 0 || immediate ? seconds : PHASE_MAX_SECONDS;
}

// How long the environment of this role is needed when every phase takes all of its time.
static int64_t needed_seconds(const Berth__V1__JobSpec *spec, const Berth__V1__Task *task,
	const Berth__V1__AgentConfig *agent, Berth__V1__LeaseRole role)
{
	double global = spec->timeout_multiplier;
	double setup = agent->override_setup_timeout_sec, work = agent->override_timeout_sec;
	double override = spec->verifier_override_timeout_sec;
	double verifier = seconds_of(override > 0 ? override : task->verifier_timeout_sec,
		spec->verifier_max_timeout_sec, spec->verifier_timeout_multiplier, global);
	double steps = task->n_steps ? (double)task->n_steps : 1;
	double needed = TTL_MARGIN_SECONDS +
	                seconds_of(task->build_timeout_sec, 0, spec->environment_build_timeout_multiplier, global);
	if (role == BERTH__V1__LEASE_ROLE__VERIFIER_ENVIRONMENT) {
		needed += steps * verifier;
	} else {
		bool verifies = !task->separate_verifier && !spec->verifier_disable;
		needed += seconds_of(
			setup > 0 ? setup : SETUP_TIMEOUT_SEC, 0, spec->agent_setup_timeout_multiplier, global);
		needed += steps * (seconds_of(work > 0 ? work : task->agent_timeout_sec, agent->max_timeout_sec,
					   spec->agent_timeout_multiplier, global) +
					  (verifies ? verifier : 0));
	}
	// A task without an agent timeout pays for the longest time that there is.
	return (int64_t)ceil(needed < PHASE_MAX_SECONDS ? needed : PHASE_MAX_SECONDS);
}

static bool price_lease(const struct berth_core *core, const Berth__V1__JobSpec *spec, const Berth__V1__Task *task,
	const Berth__V1__AgentConfig *agent, struct run_lease *lease, int64_t *nano_usd, struct berth_error *err)
{
	const char *role = berth_resource_role(lease->role);
	uint32_t cpus = spec_cpus(spec, task);
	uint64_t memory_mb = spec_memory_mb(spec, task);
	const Berth__V1__Rate *rate =
		berth_budgets_rate(core->budgets, spec->budget, LOCAL, role, (int64_t)cpus, (int64_t)memory_mb);
	if (!memory_mb) {
		return berth_fail(err, BERTH_ERROR_BUDGET,
			"task %s declares no memory, and budget %s pays for machines of a size: declare memory_mb, or "
			"give --override-memory-mb",
			task->name, spec->budget);
	}
	if (!rate) {
		return berth_fail(err, BERTH_ERROR_BUDGET,
			"budget %s has no rate for %s %s with %u CPUs and %llu MB, which task %s needs: change the "
			"task's cpus or memory_mb, or open a budget with such a rate",
			spec->budget, LOCAL, role, cpus, (unsigned long long)memory_mb, task->name);
	}
	struct berth_resource_class class;
	if (!berth_resource_class_of_rate(rate, needed_seconds(spec, task, agent, lease->role), &class, err)) {
		return berth_error_wrap(err, "task %s, %s", task->name, role);
	}
	berth_resource_class_meter_id(&class, lease->meter_id);
	return berth_budgets_ceiling(core->budgets, spec->budget, lease->meter_id, nano_usd, err);
}

bool price_run(const struct berth_core *core, const Berth__V1__JobSpec *spec, uint32_t task_index, uint32_t agent_index,
	struct run_plan *plan, struct berth_error *err)
{
	const Berth__V1__Task *task = spec->tasks[task_index];
	*plan = (struct run_plan){.count = 1, .leases = {{.role = BERTH__V1__LEASE_ROLE__TASK_ENVIRONMENT}}};
	if (task->separate_verifier && !spec->verifier_disable) {
		plan->leases[plan->count++].role = BERTH__V1__LEASE_ROLE__VERIFIER_ENVIRONMENT;
	}
	if (!spec->budget[0] || !berth_budgets_prices(core->budgets, spec->budget, LOCAL)) {
		return true;
	}
	for (size_t i = 0; i < plan->count; i++) {
		int64_t nano_usd;
		if (!price_lease(core, spec, task, spec->agents[agent_index], &plan->leases[i], &nano_usd, err) ||
			!berth_money_add(plan->price_nano_usd, nano_usd, &plan->price_nano_usd, err)) {
			return false;
		}
	}
	return true;
}

struct run_plan plan_of(const struct berth_core *core, const struct cell *cell)
{
	struct run_plan plan;
	// It was priced when the job was taken, by a policy that does not change.
	price_run(core, cell->job->spec, cell_task(cell), cell_agent(cell), &plan, NULL);
	return plan;
}

// By what price_lease asks of a task.
static bool costs_as_much(const Berth__V1__Task *a, const Berth__V1__Task *b)
{
	return a->cpus == b->cpus && a->memory_mb == b->memory_mb && !a->separate_verifier == !b->separate_verifier &&
	       a->n_steps == b->n_steps && a->build_timeout_sec == b->build_timeout_sec &&
	       a->agent_timeout_sec == b->agent_timeout_sec && a->verifier_timeout_sec == b->verifier_timeout_sec;
}

bool price_job(const struct berth_core *core, const Berth__V1__JobSpec *spec, int64_t **prices, struct berth_error *err)
{
	*prices = NULL;
	if (!spec->budget[0]) {
		return true;
	}
	BERTH_AUTO_FREE int64_t *list = berth_alloc(spec->n_tasks * spec->n_agents * sizeof *list);
	for (size_t i = 0; i < spec->n_tasks * spec->n_agents; i++) {
		size_t task = i / spec->n_agents;
		if (task && costs_as_much(spec->tasks[task - 1], spec->tasks[task])) {
			list[i] = list[i - spec->n_agents]; // large jobs have runs of tasks of one size
			continue;
		}
		struct run_plan plan;
		if (!price_run(core, spec, (uint32_t)task, (uint32_t)(i % spec->n_agents), &plan, err)) {
			return false;
		}
		list[i] = plan.price_nano_usd;
	}
	*prices = BERTH_STEAL(list);
	return true;
}

// A cell is run again while the fleet lost fewer than max_generations runs of it, and max_retries times by Harbor's
// policy; the last run is one of the first kind or the one that counts.
int64_t most_runs(const struct berth_core *core, const Berth__V1__JobSpec *spec)
{
	return (int64_t)core->config.max_generations + (spec->retry ? spec->retry->max_retries : 0);
}

// Each cell's price in every generation that it can have.
static bool quote(const struct berth_core *core, const Berth__V1__JobSpec *spec, const int64_t *prices,
	int64_t *nano_usd, struct berth_error *err)
{
	int64_t runs = most_runs(core, spec), once = 0;
	for (size_t i = 0; i < spec->n_tasks * spec->n_agents; i++) {
		if (!berth_money_add(once, prices[i], &once, err)) {
			return false;
		}
	}
	return berth_money_multiply(once, spec->attempts, nano_usd, err) &&
	       berth_money_multiply(*nano_usd, runs, nano_usd, err);
}

// The four limits that a run draws on.
struct limit {
	const char *what, *phase, *job, *user;
};
#define LIMITS 4

static void limits_of(
	const Berth__V1__JobSpec *spec, const char *job_id, const char *user, struct limit limits[static LIMITS])
{
	limits[0] = (struct limit){.what = "the hard limit"};
	limits[1] = (struct limit){.what = "the limit of the phase", .phase = spec->phase};
	limits[2] = (struct limit){.what = "the limit of one job", .job = job_id};
	limits[3] = (struct limit){.what = "the user's limit", .user = user};
}

static bool totals_of(const struct berth_core *core, const Berth__V1__JobSpec *spec, const struct limit *limit,
	Berth__V1__BudgetTotals *totals)
{
	return berth_budgets_totals(core->budgets, spec->budget, limit->phase, limit->job, limit->user, totals);
}

// A run that is dearer than a limit would wait for ever.
static bool fits_limits(const struct berth_core *core, const Berth__V1__JobSpec *spec, const char *user,
	const int64_t *prices, struct berth_error *err)
{
	struct limit limits[LIMITS];
	limits_of(spec, "", user, limits);
	int64_t dearest = 0;
	for (size_t i = 0; i < spec->n_tasks * spec->n_agents; i++) {
		dearest = prices[i] > dearest ? prices[i] : dearest;
	}
	for (size_t i = 0; i < LIMITS; i++) {
		Berth__V1__BudgetTotals totals;
		if (!totals_of(core, spec, &limits[i], &totals)) {
			return berth_fail(err, BERTH_ERROR_BUDGET,
				"budget %s has no phase \"%s\": `berth budget show %s` lists them", spec->budget,
				spec->phase, spec->budget);
		}
		if (totals.limit_nano_usd >= 0 && dearest > totals.limit_nano_usd) {
			char price[BERTH_MONEY_TEXT_SIZE], limit[BERTH_MONEY_TEXT_SIZE];
			berth_money_format(dearest, price);
			berth_money_format(totals.limit_nano_usd, limit);
			return berth_fail(err, BERTH_ERROR_BUDGET,
				"one run of the job's dearest trial holds %s USD, and %s of budget %s is %s USD: "
				"shorten its timeouts, or amend the limit",
				price, limits[i].what, spec->budget, limit);
		}
	}
	return true;
}

bool may_be_paid_later(const struct berth_core *core, const struct cell *cell)
{
	const struct job *job = cell->job;
	struct limit limits[LIMITS];
	limits_of(job->spec, job->id, job->submitter, limits);
	for (size_t i = 0; i < LIMITS; i++) {
		Berth__V1__BudgetTotals totals;
		if (!totals_of(core, job->spec, &limits[i], &totals) ||
			(totals.limit_nano_usd >= 0 && cell_price(cell) > totals.limit_nano_usd -
										  totals.settled_nano_usd -
										  totals.forfeited_nano_usd)) {
			return false;
		}
	}
	return true;
}

int64_t room_for(const struct berth_core *core, const Berth__V1__JobSpec *spec, const char *user)
{
	struct limit limits[LIMITS];
	limits_of(spec, "", user, limits);
	int64_t room = INT64_MAX;
	for (size_t i = 0; i < LIMITS; i++) {
		Berth__V1__BudgetTotals totals;
		if (totals_of(core, spec, &limits[i], &totals) && totals.limit_nano_usd >= 0 &&
			totals.remaining_nano_usd < room) {
			room = totals.remaining_nano_usd;
		}
	}
	return room;
}

static bool may_be_free(const struct berth_core *core, const Berth__V1__JobSpec *spec, struct berth_error *err)
{
	if (spec->phase[0]) {
		return berth_fail(err, BERTH_ERROR_INVALID, "phase %s is of no budget: name one", spec->phase);
	}
	return core->config.allow_unmetered_local ||
	       berth_fail(err, BERTH_ERROR_BUDGET,
		       "this fleet meters local work too, and the job names no budget: give one, or start the "
		       "coordinator with --allow-unmetered-local");
}

bool may_be_paid(const struct berth_core *core, const Berth__V1__JobSpec *spec, const char *user,
	int64_t *quote_nano_usd, struct berth_error *err)
{
	*quote_nano_usd = 0;
	if (!spec->budget[0]) {
		return may_be_free(core, spec, err);
	}
	Berth__V1__BudgetTotals totals;
	if (!berth_budgets_totals(core->budgets, spec->budget, NULL, NULL, NULL, &totals)) {
		return berth_fail(
			err, BERTH_ERROR_BUDGET, "no budget is named %s: `berth budget list` shows them", spec->budget);
	}
	if (berth_budgets_is_breached(core->budgets, spec->budget)) {
		return berth_fail(err, BERTH_ERROR_BUDGET,
			"budget %s is breached and grants nothing more: open another one", spec->budget);
	}
	if (!core->config.allow_unmetered_local && !berth_budgets_prices(core->budgets, spec->budget, LOCAL)) {
		return berth_fail(err, BERTH_ERROR_BUDGET,
			"this fleet meters local work too, and budget %s has no rates for it: name one that has",
			spec->budget);
	}
	BERTH_AUTO_FREE int64_t *prices = NULL;
	return price_job(core, spec, &prices, err) && fits_limits(core, spec, user, prices, err) &&
	       (quote(core, spec, prices, quote_nano_usd, err) ||
		       berth_error_wrap(err, "the job's quote: split the job"));
}

int64_t cell_price(const struct cell *cell)
{
	const struct job *job = cell->job;
	return job->prices ? job->prices[cell->index % (job->tasks_count * job->agents_count)] : 0;
}

// Room for one price is room for every lower one: a job's trials all draw on the same limits.
bool cell_is_blocked(const struct cell *cell)
{
	return cell->state == BERTH__V1__TRIAL_STATE__TRIAL_QUEUED && !cell->delayed && cell->job->blocked_reason &&
	       cell_price(cell) >= cell->job->unpayable_nano_usd;
}

uint32_t job_blocked(const struct job *job)
{
	uint32_t count = 0;
	for (uint32_t i = 0; job->blocked_reason && i < job->ready.count; i++) {
		count += cell_is_blocked(&job->cells[queue_at(&job->ready, i)]);
	}
	return count;
}
