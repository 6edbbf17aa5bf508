// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/docker.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "tests/sim/check.h"

#define MS                 INT64_C(1000000)
#define LATE_MS_MOST       45000 // well inside the placement bound
#define HANG_MS            30000
#define ABSENCE_LISTINGS   2
#define ABSENCE_PAUSE_MS   200
#define PLACEMENT_PAUSE_MS 5000
#define DEATH_MS_MOST      60000

enum container_state { COMING, RUNNING, ENDED, GONE };

struct container {
	char lease_id[40];
	struct sim_docker *docker;
	enum container_state state;
	bool dies_early;
	int64_t born_ns, lived_ns; // lived: once it is gone
	struct container *next;
};

struct sim_docker {
	char host[24];
	bool down;
	struct sim_docker *next;
};

struct asked { // a create
	char *lease_id;
	bool answered;
};

struct runner {
	struct berth_runner base; // first: it is cast back
	struct sim_docker *docker;
	int64_t begun_ns;      // boot clock
	struct asked *creates; // of this life of the agent
	size_t creates_count;
};

struct berth_environment {
	struct container *container;
};

static struct {
	struct sim_random random;
	struct sim_docker_faults faults;
	struct container *containers;
	struct sim_docker *list;
	void (*asked)(const char *agent, const char *lease_id);
	void (*born)(const char *lease_id);
} engine;

void sim_docker_begin(uint64_t seed)
{
	engine.random = sim_random_stream(seed, SIM_STREAM_DOCKER);
	engine.faults = (struct sim_docker_faults){0};
}

struct sim_docker_faults *sim_docker_faults(void)
{
	return &engine.faults;
}

void sim_docker_on_create(void (*asked)(const char *agent, const char *lease_id), void (*born)(const char *lease_id))
{
	engine.asked = asked;
	engine.born = born;
}

struct sim_docker *sim_docker_new(const char *host)
{
	struct sim_docker *docker = berth_alloc(sizeof *docker);
	snprintf(docker->host, sizeof docker->host, "%s", host);
	return docker;
}

void sim_docker_free(struct sim_docker *docker)
{
	struct container *container, *next;
	LL_FOREACH_SAFE(engine.containers, container, next)
	{
		if (container->docker == docker) {
			LL_DELETE(engine.containers, container);
			free(container);
		}
	}
	free(docker);
}

void sim_docker_set_down(struct sim_docker *docker, bool down)
{
	docker->down = down;
}

bool sim_docker_is_down(const struct sim_docker *docker)
{
	return docker->down;
}

static bool chance(unsigned per_mille)
{
	return sim_random_chance(&engine.random, per_mille);
}

static bool exists(const struct container *container)
{
	return container->state != GONE;
}

bool sim_docker_is_alive(const char *lease_id)
{
	const struct container *container;
	LL_FOREACH (engine.containers, container) {
		if (exists(container) && strcmp(container->lease_id, lease_id) == 0) {
			return true;
		}
	}
	return false;
}

bool sim_docker_was_asked(const char *lease_id)
{
	const struct container *container;
	LL_FOREACH (engine.containers, container) {
		if (strcmp(container->lease_id, lease_id) == 0) {
			return true;
		}
	}
	return false;
}

int64_t sim_docker_lifetime_ns(const char *lease_id)
{
	const struct container *container;
	int64_t lived_ns = 0;
	LL_FOREACH (engine.containers, container) {
		if (strcmp(container->lease_id, lease_id) == 0) {
			bool runs = container->state == RUNNING || container->state == ENDED;
			lived_ns += runs ? sim_now() - container->born_ns : container->lived_ns;
		}
	}
	return lived_ns;
}

unsigned sim_docker_alive(void)
{
	const struct container *container;
	unsigned count = 0;
	LL_FOREACH (engine.containers, container) {
		count += exists(container);
	}
	return count;
}

unsigned sim_docker_shown(const struct sim_docker *docker)
{
	const struct container *container;
	unsigned count = 0;
	LL_FOREACH (engine.containers, container) {
		count += container->docker == docker && (container->state == RUNNING || container->state == ENDED);
	}
	return count;
}

const char *sim_docker_any_alive(void)
{
	const struct container *container;
	LL_FOREACH (engine.containers, container) {
		if (exists(container)) {
			return container->lease_id;
		}
	}
	return "none";
}

// --- the life of a container ---
static void end_early(void *context)
{
	struct container *container = context;
	if (container->state == RUNNING) {
		container->state = ENDED;
		sim_trace("%s: container of %.8s ends by itself", container->docker->host, container->lease_id);
	}
}

static void be_born(void *context)
{
	struct container *container = context;
	container->state = RUNNING;
	container->born_ns = sim_now();
	sim_trace("%s: container of %.8s is there", container->docker->host, container->lease_id);
	if (engine.born) {
		engine.born(container->lease_id);
	}
	if (container->dies_early) {
		sim_at(sim_now() + sim_random_between(&engine.random, 0, DEATH_MS_MOST) * MS, end_early, container);
	}
}

static struct container *ask(struct sim_docker *docker, const char *lease_id, int64_t in_ms)
{
	struct container *container = berth_alloc(sizeof *container);
	snprintf(container->lease_id, sizeof container->lease_id, "%s", lease_id);
	container->docker = docker;
	container->dies_early = chance(engine.faults.early_death);
	LL_PREPEND(engine.containers, container);
	if (in_ms < 0) {
		container->state = GONE; // it reached the Engine, which made nothing of it
	} else {
		container->state = COMING;
		sim_at(sim_now() + in_ms * MS, be_born, container);
	}
	return container;
}

// Waits for the Engine, as long as there is someone who waits.
static void await_ms(int64_t ms, struct berth_until until)
{
	struct berth_until nap = berth_until_at_most_ms(until, ms);
	while (!sim_self()->dead && !berth_until_over(nap)) {
		sim_wait(sim_self(), nap.deadline_ns); // its death wakes it
	}
}

static bool is_away(struct sim_docker *docker, struct berth_error *err)
{
	return (docker->down || sim_self()->dead) &&
	       !berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the daemon does not answer");
}

static void dies_here(void)
{
	if (chance(engine.faults.crash)) {
		sim_process_die(sim_self());
	}
}

// --- the runner ---
static struct asked *find_asked(const struct runner *runner, const char *lease_id)
{
	for (size_t i = 0; i < runner->creates_count; i++) {
		if (strcmp(runner->creates[i].lease_id, lease_id) == 0) {
			return &runner->creates[i];
		}
	}
	return NULL;
}

static void remember_asked(struct runner *runner, const char *lease_id)
{
	if (!find_asked(runner, lease_id)) {
		runner->creates = berth_grow_array(runner->creates, runner->creates_count, sizeof *runner->creates);
		runner->creates[runner->creates_count++] = (struct asked){.lease_id = berth_strdup(lease_id)};
	}
}

static enum berth_create_outcome ambiguous(
	struct runner *runner, const char *lease_id, struct berth_until until, struct berth_error *err)
{
	int64_t in_ms = chance(300) ? -1 : chance(500) ? 0 : sim_random_between(&engine.random, 1000, LATE_MS_MOST);
	ask(runner->docker, lease_id, in_ms);
	sim_trace("%s: create of %.8s has no answer (container in %lld ms)", runner->docker->host, lease_id,
		(long long)in_ms);
	await_ms(sim_random_between(&engine.random, 10, 20000), until);
	berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the create has no answer");
	return BERTH_CREATE_AMBIGUOUS;
}

static enum berth_create_outcome create(struct berth_runner *base, const struct berth_environment_plan *plan,
	struct berth_created *created, struct berth_until until, struct berth_error *err)
{
	struct runner *runner = (struct runner *)base;
	until.cancel = NULL;
	remember_asked(runner, plan->lease_id);
	dies_here();
	if (is_away(runner->docker, err)) {
		return BERTH_CREATE_NOT_DISPATCHED;
	}
	if (chance(engine.faults.busy + engine.faults.refused)) {
		bool again = chance(engine.faults.busy * 1000 / (engine.faults.busy + engine.faults.refused));
		await_ms(5, until);
		berth_fail(err, again ? BERTH_ERROR_EXHAUSTED : BERTH_ERROR_INTERNAL, "the daemon refuses");
		return BERTH_CREATE_REJECTED;
	}
	engine.asked(runner->docker->host, plan->lease_id);
	if (chance(engine.faults.ambiguous)) {
		return ambiguous(runner, plan->lease_id, until, err);
	}
	ask(runner->docker, plan->lease_id, sim_random_between(&engine.random, 5, 400));
	dies_here();
	await_ms(500, until);
	find_asked(runner, plan->lease_id)->answered = true;
	created->resource_id = berth_strdup(plan->lease_id);
	return BERTH_CREATE_CREATED;
}

static struct container *find_in(const struct sim_docker *docker, const char *lease_id)
{
	struct container *container;
	LL_FOREACH (engine.containers, container) {
		if (container->docker == docker && (container->state == RUNNING || container->state == ENDED) &&
			strcmp(container->lease_id, lease_id) == 0) {
			return container;
		}
	}
	return NULL;
}

// One listing by lease, and the removal of what it shows.
static bool sweep(
	struct runner *runner, const char *lease_id, bool *found, struct berth_until until, struct berth_error *err)
{
	await_ms(sim_random_between(&engine.random, 1, 50), until);
	if (is_away(runner->docker, err)) {
		return false;
	}
	struct container *container = find_in(runner->docker, lease_id);
	*found = container != NULL;
	if (!container) {
		return true;
	}
	if (chance(engine.faults.kill_hangs)) {
		await_ms(HANG_MS, until);
		return berth_fail(err, BERTH_ERROR_TIMEOUT, "the removal of a container timed out");
	}
	if (chance(engine.faults.kill_fails)) {
		return berth_fail(err, BERTH_ERROR_INTERNAL, "the removal of a container failed");
	}
	if (!chance(engine.faults.kill_lost) && !sim_self()->dead) {
		container->state = GONE;
		container->lived_ns = sim_now() - container->born_ns;
		sim_trace("%s: container of %.8s is removed", runner->docker->host, lease_id);
	}
	return true;
}

// As agent/runner/local does: nothing-there is a proof only twice in a row, and
// after the placement bound where no answer of the create was seen; of what
// older lives asked for, from the beginning of this one.
static bool kill_lease(
	struct berth_runner *base, const char *lease_id, struct berth_until until, struct berth_error *err)
{
	struct runner *runner = (struct runner *)base;
	const struct asked *asked = find_asked(runner, lease_id);
	bool settled = asked && asked->answered;
	int64_t bound_ns = (asked ? berth_boot_ns() : runner->begun_ns) + base->placement_bound_ms * BERTH_NS_PER_MS;
	for (int absences = 0;;) {
		bool found = false;
		if (!sweep(runner, lease_id, &found, until, err)) {
			return false;
		}
		settled = settled || found;
		absences = found ? 0 : absences + 1;
		bool proven = settled || berth_boot_ns() >= bound_ns;
		if (absences >= ABSENCE_LISTINGS && proven) {
			return true;
		}
		if (!berth_sleep_ms(proven ? ABSENCE_PAUSE_MS : PLACEMENT_PAUSE_MS, until, err)) {
			return false;
		}
	}
}

static bool list_leases(
	struct berth_runner *base, char ***lease_ids, size_t *count, struct berth_until until, struct berth_error *err)
{
	struct runner *runner = (struct runner *)base;
	*lease_ids = NULL;
	*count = 0;
	await_ms(sim_random_between(&engine.random, 1, 50), until);
	if (is_away(runner->docker, err)) {
		return false;
	}
	const struct container *container;
	LL_FOREACH (engine.containers, container) {
		bool shown = container->state == RUNNING || container->state == ENDED;
		if (container->docker == runner->docker && shown && !chance(engine.faults.list_omits)) {
			*lease_ids = berth_grow_array(*lease_ids, *count, sizeof **lease_ids);
			(*lease_ids)[(*count)++] = berth_strdup(container->lease_id);
		}
	}
	return true;
}

static struct berth_environment *open_environment(struct berth_runner *base, const struct berth_environment_plan *plan,
	const char *resource_id, struct berth_until until, struct berth_error *err)
{
	(void)plan;
	struct runner *runner = (struct runner *)base;
	struct container *container = find_in(runner->docker, resource_id);
	if (is_away(runner->docker, err) || !berth_sleep_ms(sim_random_between(&engine.random, 10, 2000), until, err)) {
		return NULL;
	}
	if (!container || container->state != RUNNING) {
		berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the container is not there");
		return NULL;
	}
	struct berth_environment *environment = berth_alloc(sizeof *environment);
	environment->container = container;
	return environment;
}

static void close_environment(struct berth_environment *environment)
{
	free(environment);
}

bool sim_docker_runs(struct berth_environment *environment)
{
	return environment->container->state == RUNNING && !environment->container->docker->down;
}

static void free_runner(struct berth_runner *base)
{
	struct runner *runner = (struct runner *)base;
	for (size_t i = 0; i < runner->creates_count; i++) {
		free(runner->creates[i].lease_id);
	}
	free(runner->creates);
	free(runner);
}

struct berth_runner *sim_docker_runner(struct sim_docker *docker)
{
	struct runner *runner = berth_alloc(sizeof *runner);
	runner->docker = docker;
	runner->begun_ns = berth_boot_ns();
	runner->base = (struct berth_runner){.name = "simulated",
		.backend = BERTH__V1__BACKEND__BACKEND_LOCAL,
		.create = create,
		.kill = kill_lease,
		.list_leases = list_leases,
		.open = open_environment,
		.close = close_environment,
		.placement_bound_ms = SIM_PLACEMENT_BOUND_MS,
		.free = free_runner};
	return &runner->base;
}
