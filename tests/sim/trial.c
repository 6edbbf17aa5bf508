// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/trial.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "tests/sim/audit.h"
#include "tests/sim/check.h"
#include "tests/sim/docker.h"

#define MS         INT64_C(1000000)
#define BUILD_MS   3000
#define WORK_MS    8000
#define LONG_MS    90000
#define LONG_FEW   250        // in 1000 trials may take so long
#define LONG_MANY  850        // where trials are few and long
#define SETTLE_NS  (300 * MS) // how long two runs of one cell may overlap while one of them is being stopped
#define LEASES_MAX 4

static struct {
	struct sim_random random;
	struct sim_run runs[SIM_RUNS_MAX];
	size_t count;
} trials;

void sim_runs_begin(uint64_t seed)
{
	trials.random = sim_random_stream(seed, SIM_STREAM_WORLD + 100);
	trials.count = 0;
}

struct sim_run *sim_run_of(const char *job_id, uint32_t index, uint32_t generation)
{
	for (size_t i = trials.count; i-- > 0;) {
		struct sim_run *run = &trials.runs[i];
		if (run->index == index && run->generation == generation && strcmp(run->job_id, job_id) == 0) {
			return run;
		}
	}
	return NULL;
}

// --- I1: of one cell, one run at a time goes on ---
static bool goes_on(const struct sim_run *run)
{
	return !run->over && !run->process->dead && !run->process->stopped && !berth_cancel_fired(run->cancel);
}

static bool same_cell(const struct sim_run *a, const struct sim_run *b)
{
	return a->index == b->index && strcmp(a->job_id, b->job_id) == 0;
}

static void check_alone(void *context)
{
	const struct sim_run *run = context;
	for (size_t i = 0; i < trials.count; i++) {
		const struct sim_run *other = &trials.runs[i];
		if (other != run && same_cell(run, other) && goes_on(run) && goes_on(other)) {
			sim_violation("I1",
				"cell %u of job %.8s is inside its hold on %s (generation "
				"%u) and on %s (%u)",
				run->index, run->job_id, run->agent, run->generation, other->agent, other->generation);
		}
	}
}

static struct sim_run *begin_run(const char *agent, const Berth__V1__TrialKey *key, struct berth_cancel *cancel)
{
	if (trials.count == SIM_RUNS_MAX) {
		abort();
	}
	struct sim_run *run = &trials.runs[trials.count++];
	*run = (struct sim_run){.index = key->index,
		.generation = key->generation,
		.process = sim_self(),
		.life = sim_self()->life,
		.cancel = cancel};
	snprintf(run->job_id, sizeof run->job_id, "%s", key->job_id);
	snprintf(run->agent, sizeof run->agent, "%s", agent);
	sim_trace("%s: runs %.8s/%u generation %u", agent, key->job_id, key->index, key->generation);
	sim_at(sim_now() + SETTLE_NS, check_alone, run);
	return run;
}

static void check_fenced(void *context)
{
	const struct sim_run *run = context;
	if (goes_on(run)) {
		sim_violation("I1",
			"trial %.8s/%u is withdrawn since its hold is over, and generation %u goes on at %s",
			run->job_id, run->index, run->generation, run->agent);
	}
}

void sim_runs_fenced(const char *job_id, uint32_t index, uint32_t generation)
{
	struct sim_run *run = sim_run_of(job_id, index, generation);
	if (run) {
		sim_at(sim_now() + SETTLE_NS, check_fenced, run);
	}
}

void sim_runs_process_died(const struct sim_process *process)
{
	for (size_t i = 0; i < trials.count; i++) {
		trials.runs[i].over = trials.runs[i].over || trials.runs[i].process == process;
	}
}

void sim_runs_process_continued(const struct sim_process *process)
{
	for (size_t i = 0; i < trials.count; i++) {
		if (!trials.runs[i].over && trials.runs[i].process == process) {
			sim_at(sim_now() + SETTLE_NS, check_alone, &trials.runs[i]);
		}
	}
}

bool sim_runs_on(const struct sim_process *process)
{
	for (size_t i = 0; i < trials.count; i++) {
		if (trials.runs[i].process == process && goes_on(&trials.runs[i])) {
			return true;
		}
	}
	return false;
}

void sim_runs_check_current(int64_t bound_ns)
{
	for (size_t i = 0; i < trials.count; i++) {
		struct sim_run *run = &trials.runs[i];
		if (!goes_on(run) || sim_audit_is_current(run->job_id, run->index, run->generation)) {
			run->stale_since_ns = 0;
		} else if (!run->stale_since_ns) {
			run->stale_since_ns = sim_now();
		} else if (sim_now() - run->stale_since_ns > bound_ns) {
			sim_violation("I2",
				"generation %u of trial %.8s/%u goes on at %s, %.0f s "
				"after it was withdrawn",
				run->generation, run->job_id, run->index, run->agent,
				(double)(sim_now() - run->stale_since_ns) / 1e9);
		}
	}
}

// --- leases, as agent/trial keeps them ---
struct kept {
	const struct berth_lease_book *book;
	const Berth__V1__Assignment *assignment;
	Berth__V1__LeaseState states[LEASES_MAX];
	bool used[LEASES_MAX];
};

static bool keep_mark(void *context, const Berth__V1__LeaseMove *move, struct berth_error *err)
{
	struct kept *kept = context;
	if (!kept->book->mark(kept->book->context, move, err)) {
		return false;
	}
	for (size_t i = 0; i < kept->assignment->n_leases; i++) {
		if (strcmp(kept->assignment->leases[i]->lease_id, move->lease_id) == 0) {
			kept->states[i] = move->state;
		}
	}
	return true;
}

static void end_leases(const struct berth_lease_driver *driver, const struct kept *kept)
{
	for (size_t i = 0; i < kept->assignment->n_leases; i++) {
		const char *lease_id = kept->assignment->leases[i]->lease_id;
		struct berth_error err = {0};
		if (!kept->used[i]) {
			berth_lease_drop(driver, lease_id, &err);
		} else if (kept->states[i] == BERTH__V1__LEASE_STATE__LEASE_ACTIVE) {
			berth_lease_retire(driver, lease_id, berth_within_ms(BERTH_RETIRE_DEADLINE_MS, NULL), &err);
		}
	}
}

// Creates under a lease, works for a while, and sees whether the container
// lived through it.
static bool use_lease(const struct berth_lease_driver *driver, struct kept *kept, size_t at, int64_t work_ms,
	struct berth_until until)
{
	const Berth__V1__Lease *lease = kept->assignment->leases[at];
	struct berth_error err = {0};
	struct berth_environment_plan plan = {.lease_id = lease->lease_id,
		.role = lease->role,
		.job_id = lease->job_id,
		.trial_index = lease->trial_index,
		.generation = lease->generation};
	struct berth_created created = {0};
	kept->used[at] = true;
	if (!berth_lease_create(driver, &plan, &created, until, &err)) {
		return false;
	}
	struct berth_environment *environment =
		driver->runner->open(driver->runner, &plan, created.resource_id, until, &err);
	free(created.resource_id);
	if (!environment) {
		return false;
	}
	bool lived = berth_sleep_ms(work_ms, until, NULL) && sim_docker_runs(environment);
	driver->runner->close(environment);
	return lived;
}

// --- results ---
static Berth__V1__Outcome draw_outcome(void)
{
	uint64_t draw = sim_random_below(&trials.random, 100);
	return draw < 80   ? BERTH__V1__OUTCOME__OUTCOME_SCORED
	       : draw < 92 ? BERTH__V1__OUTCOME__OUTCOME_TASK
	                   : BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE;
}

static void set_exception(Berth__V1__TrialResult *result, const char *type)
{
	result->exception = berth_alloc(sizeof *result->exception);
	berth__v1__trial_exception__init(result->exception);
	berth_proto_set_string(&result->exception->type, type);
}

static void fill_result(Berth__V1__TrialResult *result, const struct sim_run *run)
{
	result->outcome = (Berth__V1__Outcome)run->outcome;
	if (run->outcome == BERTH__V1__OUTCOME__OUTCOME_SCORED) {
		berth_proto_set_string(&result->rewards_json, run->rewards);
	} else {
		set_exception(result,
			run->outcome == BERTH__V1__OUTCOME__OUTCOME_TASK ? "AgentTimeoutError" : "RuntimeError");
	}
	result->evidence = berth_alloc(sizeof *result->evidence);
	berth__v1__evidence__init(result->evidence);
	Berth__V1__Attestation *attestation = berth_alloc(sizeof *attestation);
	berth__v1__attestation__init(attestation);
	berth_proto_append(&result->evidence->n_attestations, &result->evidence->attestations, attestation);
	Berth__V1__LeaseReceipt *receipt = berth_alloc(sizeof *receipt);
	berth__v1__lease_receipt__init(receipt);
	berth_proto_append(&result->evidence->n_receipts, &result->evidence->receipts, receipt);
}

void sim_free_result(Berth__V1__TrialResult *result)
{
	berth_proto_free(berth_memdup(result, sizeof *result)); // all but the caller's own struct
	berth__v1__trial_result__init(result);
}

void sim_run_trial(const struct berth_trial_host *host, const struct berth_trial_input *input,
	struct berth_cancel *cancel, Berth__V1__TrialResult *result)
{
	const Berth__V1__Assignment *assignment = input->assignment;
	struct sim_run *run = begin_run(host->agent, assignment->trial, cancel);
	struct kept kept = {.book = &host->leases.book, .assignment = assignment};
	struct berth_lease_driver driver = {
		.runner = host->leases.runner, .book = {.mark = keep_mark, .context = &kept}};
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = cancel};
	Berth__V1__Outcome outcome = draw_outcome();
	bool is_long = sim_random_chance(&trials.random, sim_world.few_and_long ? LONG_MANY : LONG_FEW);
	int64_t work_ms = sim_random_between(&trials.random, 200, is_long ? LONG_MS : WORK_MS);
	bool two = assignment->n_leases > 1 && sim_random_chance(&trials.random, 500);
	host->phase(host->context, "environment_setup");
	bool good = berth_sleep_ms(sim_random_between(&trials.random, 10, BUILD_MS), until, NULL) &&
	            use_lease(&driver, &kept, 0, work_ms, until) &&
	            (!two || use_lease(&driver, &kept, 1, work_ms, until));
	host->phase(host->context, "cleanup");
	end_leases(&driver, &kept);
	run->over = true;
	run->finished = true;
	bool cancelled = !good && berth_cancel_fired(cancel);
	run->outcome = cancelled ? BERTH__V1__OUTCOME__OUTCOME_CANCELLED
	               : good    ? outcome
	                         : BERTH__V1__OUTCOME__OUTCOME_INFRASTRUCTURE;
	snprintf(run->rewards, sizeof run->rewards, "{\"reward\": 0.%03u}",
		(unsigned)sim_random_below(&trials.random, 1000));
	fill_result(result, run);
	sim_trace("%s: %.8s/%u generation %u has outcome %d", host->agent, run->job_id, run->index, run->generation,
		run->outcome);
}
