// SPDX-License-Identifier: Apache-2.0
// Random walks against a model that adds everything up again from the whole log after each step.
#include "tests/unit/budget/world.h"

#define SEEDS    24
#define STEPS    300
#define JOBS     3
#define IDS      120
#define MAX_IDLE 2000 // seconds that pass at most in one step

struct entry { // a reservation as the log tells it
	const Berth__V1__Reservation *row;
	const Berth__V1__ReservationEnding *ending;
};

struct model {
	struct entry entries[STEPS];
	size_t count;
	int64_t hard, phase_limit[2], job_limit;
	bool breached;
};

static const char *const phases[] = {"final", "search"};
static const char *const jobs[] = {"", "j1", "j2"};
static const char *const meters[] = {"plain", "runner", "worker"};

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static struct entry *entry_of(struct model *model, const char *id)
{
	for (size_t i = 0; i < model->count; i++) {
		if (strcmp(model->entries[i].row->reservation_id, id) == 0) {
			return &model->entries[i];
		}
	}
	return NULL;
}

static void amend_model(struct model *model, const Berth__Store__V1__BudgetAmended *amended)
{
	model->hard = amended->hard_limit_nano_usd ? amended->hard_limit_nano_usd : model->hard;
	for (size_t i = 0; i < amended->n_phase_limits; i++) {
		model->phase_limit[strcmp(amended->phase_limits[i]->phase, "search") == 0] =
			amended->phase_limits[i]->limit_nano_usd;
	}
}

static void read_log(const struct world *world, struct model *model)
{
	memset(model, 0, sizeof *model);
	for (size_t i = 0; i < world->count; i++) {
		const Berth__Store__V1__Event *event = world->events[i];
		switch (event->body_case) {
		case BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED:
			model->hard = event->budget_opened->policy->hard_limit_nano_usd;
			model->phase_limit[0] = event->budget_opened->policy->phase_limits[0]->limit_nano_usd;
			model->phase_limit[1] = event->budget_opened->policy->phase_limits[1]->limit_nano_usd;
			model->job_limit = event->budget_opened->policy->job_limit_nano_usd;
			break;
		case BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED:
			model->entries[model->count++].row = event->budget_reserved->reservation;
			break;
		case BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED:
			entry_of(model, event->budget_ended->reservation_id)->ending = event->budget_ended->ending;
			model->breached |= event->budget_ended->ending->state == BERTH__V1__RESERVATION_STATE__BREACHED;
			break;
		case BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED:
			entry_of(model, event->budget_appealed->forfeited->reservation_id)->ending =
				event->budget_appealed->ending;
			break;
		case BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED:
			amend_model(model, event->budget_amended);
			break;
		default:
			fail_msg("an event that no step makes");
		}
	}
}

static Berth__V1__BudgetTotals sum(const struct model *model, const char *phase, const char *job)
{
	Berth__V1__BudgetTotals sums = BERTH__V1__BUDGET_TOTALS__INIT;
	for (size_t i = 0; i < model->count; i++) {
		const struct entry *entry = &model->entries[i];
		if ((phase && strcmp(entry->row->scope->phase, phase) != 0) ||
			(job && strcmp(entry->row->job_id, job) != 0)) {
			continue;
		}
		if (!entry->ending) {
			sums.reserved_nano_usd += entry->row->max_nano_usd;
		} else if (entry->ending->state == BERTH__V1__RESERVATION_STATE__FORFEITED) {
			sums.forfeited_nano_usd += entry->row->max_nano_usd;
		} else {
			assert_true(entry->ending->charged_nano_usd <= entry->row->max_nano_usd);
			sums.settled_nano_usd += entry->ending->charged_nano_usd;
			sums.overrun_nano_usd += entry->ending->overrun_nano_usd;
		}
	}
	return sums;
}

static int64_t exposure(const Berth__V1__BudgetTotals *sums)
{
	return sums->settled_nano_usd + sums->reserved_nano_usd + sums->forfeited_nano_usd;
}

static void assert_same(const struct world *world, const struct model *model, const char *phase, const char *job)
{
	Berth__V1__BudgetTotals wanted = sum(model, phase, job), got;
	assert_true(berth_budgets_totals(world->budgets, "b", phase, job, NULL, &got));
	assert_int_equal(got.settled_nano_usd, wanted.settled_nano_usd);
	assert_int_equal(got.reserved_nano_usd, wanted.reserved_nano_usd);
	assert_int_equal(got.forfeited_nano_usd, wanted.forfeited_nano_usd);
	assert_int_equal(got.overrun_nano_usd, wanted.overrun_nano_usd);
}

static void check(const struct world *world, struct model *model)
{
	read_log(world, model);
	assert_same(world, model, NULL, NULL);
	assert_same(world, model, phases[0], NULL);
	assert_same(world, model, phases[1], NULL);
	assert_same(world, model, NULL, jobs[1]);
	assert_same(world, model, NULL, jobs[2]);
	size_t open = 0;
	for (size_t i = 0; i < model->count; i++) {
		open += model->entries[i].ending == NULL;
	}
	assert_int_equal(berth_budgets_open_count(world->budgets), open);
	Berth__V1__Budget *budget = berth_budgets_get(world->budgets, "b");
	assert_int_equal(!budget->breached, !model->breached);
	berth_proto_free(budget);
}

static bool model_admits(const struct model *model, int phase, const char *job, int64_t amount)
{
	Berth__V1__BudgetTotals all = sum(model, NULL, NULL), part = sum(model, phases[phase], NULL),
				of_job = sum(model, NULL, job);
	return !model->breached && exposure(&all) + amount <= model->hard &&
	       exposure(&part) + amount <= model->phase_limit[phase] &&
	       (!job[0] || exposure(&of_job) + amount <= model->job_limit);
}

static void step_reserve(struct world *world, struct model *model, const char *id, uint64_t dice)
{
	int phase = dice % 2;
	const char *job = jobs[dice / 2 % JOBS], *meter = meters[dice / 6 % 3];
	Berth__V1__Scope scope = BERTH__V1__SCOPE__INIT;
	scope.phase = (char *)phases[phase];
	scope.category = scope.run_id = (char *)"r";
	struct berth_budget_reserve command = world_command(id, meter, 0);
	command.scope = &scope;
	command.job_id = job;
	int64_t amount = meter == meters[0] ? CEILING_PLAIN : CEILING_RUNNER;
	if (meter == meters[2]) {
		command.max_nano_usd = amount = 1 + (int64_t)(dice / 18 % 2000);
	}
	bool is_new = !entry_of(model, id), admits = model_admits(model, phase, job, amount);
	size_t logged = world->count;
	bool taken = world_reserve_as(world, &command);
	if (is_new) {
		assert_int_equal(!taken, !admits);
	} else {
		assert_int_equal(world->count, logged);
	}
}

static void step_settle(struct world *world, const char *id, uint64_t dice)
{
	const Berth__V1__Reservation *row = berth_budgets_reservation(world->budgets, id);
	struct berth_budget_settle settle = {.reservation_id = id, .provider_confirmed = dice % 97 == 0};
	if (row && strcmp(row->meter_id, "worker") == 0) {
		settle.input_tokens = (int64_t)(dice % (uint64_t)(row->max_nano_usd / 2 + 1));
	} else {
		settle.elapsed_ns = (int64_t)(dice / 97 % 1500) * BERTH_NS_PER_S;
	}
	world_settle_as(world, &settle);
}

static void step(struct world *world, struct model *model, uint64_t *seed)
{
	char id[BERTH_RESERVATION_ID_MAX + 1];
	uint64_t dice = next(seed);
	snprintf(id, sizeof id, "r%llu", (unsigned long long)(next(seed) % IDS));
	if (dice % 10 >= 4 && model->count > 0) { // mostly about one that exists
		size_t some = next(seed) % model->count;
		for (size_t i = 0; i < model->count; i++) {
			bool ended = model->entries[(some + i) % model->count].ending != NULL;
			if (ended == (dice % 10 == 8 || dice % 70 == 6)) {
				some = (some + i) % model->count;
				break;
			}
		}
		snprintf(id, sizeof id, "%s", model->entries[some].row->reservation_id);
	}
	world->now_ns += (int64_t)(next(seed) % MAX_IDLE) * BERTH_NS_PER_S;
	switch (dice % 10) {
	case 0:
	case 1:
	case 2:
	case 3:
		step_reserve(world, model, id, next(seed));
		break;
	case 4:
	case 5:
		step_settle(world, id, next(seed));
		break;
	case 6:
		world_forfeit(world, id, "OrphanedLease");
		break;
	case 7:
		world_release(world, id, BERTH__V1__DEATH_PROOF__NEVER_DISPATCHED);
		break;
	case 8: {
		const Berth__V1__Reservation *row = berth_budgets_reservation(world->budgets, id);
		int64_t dead = (row ? row->reserved_at_ns : 0) + (int64_t)(next(seed) % 1200) * BERTH_NS_PER_S;
		world_appeal(
			world, id, BERTH__V1__DEATH_PROOF__ABSENCE_SEEN, dead < world->now_ns ? dead : world->now_ns);
		break;
	}
	default:
		world_amend(world, (int64_t)(40000 + next(seed) % 100000), phases[dice / 10 % 2],
			(int64_t)(next(seed) % 50000));
	}
}

static void random_walks_agree_with_a_recount_of_the_whole_log(void **state)
{
	(void)state;
	static struct model model;
	size_t bodies[BERTH__STORE__V1__EVENT__BODY_BUDGET_JOB_LIMITED + 1] = {0}, breaches = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed * 0x9e3779b97f4a7c15u;
		struct world world;
		world_open(&world, POLICY(100000, "\"search\":60000,\"final\":40000", ",\"job_limit_nano_usd\":30000"));
		check(&world, &model);
		for (int i = 0; i < STEPS; i++) {
			step(&world, &model, &random);
			check(&world, &model);
		}
		for (size_t i = 0; i < world.count; i++) {
			bodies[world.events[i]->body_case]++;
		}
		breaches += model.breached;
		world_close(&world);
	}
	// The walks do something of each kind.
	print_message("reserved %zu, ended %zu, appealed %zu, amended %zu, breached walks %zu\n",
		bodies[BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED],
		bodies[BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED],
		bodies[BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED],
		bodies[BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED], breaches);
	assert_true(bodies[BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED] > 1000);
	assert_true(bodies[BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED] > 1000);
	assert_true(bodies[BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED] > 20);
	assert_true(bodies[BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED] > 100);
	assert_true(breaches > 0 && breaches < SEEDS);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(random_walks_agree_with_a_recount_of_the_whole_log),
};

BERTH_TEST_MAIN(tests)
