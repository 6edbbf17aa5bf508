// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/budget/world.h"

#include <stdlib.h>

#define START_NS INT64_C(1784462400000000000)

static const Berth__V1__Scope default_scope = {PROTOBUF_C_MESSAGE_INIT(&berth__v1__scope__descriptor), (char *)"search",
	(char *)"agent_runner", (char *)"run-1", (char *)"", (char *)""};

Berth__V1__BudgetPolicy *world_policy(const char *json)
{
	struct berth_error err = {0};
	Berth__V1__BudgetPolicy *policy = berth_policy_parse(json, strlen(json), "policy.json", &err);
	assert_ok(policy != NULL, err);
	return policy;
}

// --- what berth_budgets_keys tells of an event must be all that it changes ---

#define CHECKED_EVENTS_MAX 300

struct seen {
	char *key;
	struct berth_digest digest;
	bool told; // before the event, or after it
};

struct seen_rows {
	struct seen *items;
	size_t count;
};

static struct seen *find_seen(struct seen_rows *rows, const char *key)
{
	for (size_t i = 0; i < rows->count; i++) {
		if (strcmp(rows->items[i].key, key) == 0) {
			return &rows->items[i];
		}
	}
	return NULL;
}

static void see_row(void *context, const char *key, const struct berth_buf *value)
{
	struct seen_rows *rows = context;
	rows->items = berth_realloc_array(rows->items, rows->count + 1, sizeof *rows->items);
	rows->items[rows->count++] =
		(struct seen){.key = berth_strdup(key), .digest = berth_sha256(value->data, value->size)};
}

static void see_told(void *context, const char *key)
{
	struct seen *seen = find_seen(context, key);
	if (seen) {
		seen->told = true;
	}
}

static void look(const struct world *world, const Berth__Store__V1__Event *event, struct seen_rows *rows)
{
	berth_budgets_rows(world->budgets, see_row, rows);
	berth_budgets_keys(world->budgets, event, NULL, see_told, rows);
	for (size_t i = 0; i < rows->count; i++) {
		BERTH_AUTO(berth_buf_free) struct berth_buf value = {0};
		assert_true(berth_budgets_row(world->budgets, rows->items[i].key, &value));
		struct berth_digest digest = berth_sha256(value.data, value.size);
		assert_true(berth_digest_equal(&digest, &rows->items[i].digest));
	}
}

static void compare_and_free(struct seen_rows *before, struct seen_rows *after)
{
	for (size_t i = 0; i < after->count; i++) {
		struct seen *row = &after->items[i], *old = find_seen(before, row->key);
		bool changed = !old || !berth_digest_equal(&old->digest, &row->digest);
		if (changed && !(row->told && (!old || old->told))) {
			fail_msg("%s changed and was not told", row->key);
		}
	}
	for (struct seen_rows *rows = before;; rows = after) {
		for (size_t i = 0; i < rows->count; i++) {
			free(rows->items[i].key);
		}
		free(rows->items);
		if (rows == after) {
			return;
		}
	}
}

void world_log(struct world *world, Berth__Store__V1__Event__BodyCase body, void *message)
{
	Berth__Store__V1__Event *event = berth_alloc(sizeof *event);
	berth__store__v1__event__init(event);
	event->sequence = world->count + 1;
	event->recorded_at_ns = world->now_ns;
	event->body_case = body;
	event->budget_opened = message; // every body is one pointer of the same union
	struct berth_error err = {0};
	struct seen_rows before = {0}, after = {0};
	bool checked = world->count < CHECKED_EVENTS_MAX;
	if (checked) {
		look(world, event, &before);
	}
	assert_ok(berth_budgets_apply(world->budgets, event, &err), err);
	if (checked) {
		look(world, event, &after);
		compare_and_free(&before, &after);
	}
	if (world->count == world->capacity) {
		world->capacity = world->capacity ? 2 * world->capacity : 16;
		world->events = berth_realloc_array(world->events, world->capacity, sizeof *world->events);
	}
	world->events[world->count++] = event;
}

void world_open(struct world *world, const char *policy)
{
	*world = (struct world){.budgets = berth_budgets_new(), .now_ns = START_NS};
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	request.name = (char *)"b";
	request.policy = world_policy(policy);
	Berth__Store__V1__BudgetOpened *opened;
	assert_ok(berth_budget_decide_open(world->budgets, &request, &opened, &world->refusal), world->refusal.error);
	berth_proto_free(request.policy);
	world_log(world, BERTH__STORE__V1__EVENT__BODY_BUDGET_OPENED, opened);
}

static void add_row(void *context, const char *key, const struct berth_buf *value)
{
	berth_hasher_add(context, key, strlen(key) + 1);
	berth_hasher_add(context, value->data, value->size);
}

struct berth_digest digest_of(const struct berth_budgets *budgets)
{
	struct berth_hasher *hasher = berth_hasher_new();
	berth_budgets_rows(budgets, add_row, hasher);
	return berth_hasher_finish(hasher);
}

void world_close(struct world *world)
{
	struct berth_budgets *again = berth_budgets_new();
	struct berth_error err = {0};
	for (size_t i = 0; i < world->count; i++) {
		assert_ok(berth_budgets_apply(again, world->events[i], &err), err);
		berth_proto_free(world->events[i]);
	}
	struct berth_digest live = digest_of(world->budgets), replayed = digest_of(again);
	assert_true(world->forgot || berth_digest_equal(&live, &replayed));
	free(world->events);
	berth_budgets_free(again);
	berth_budgets_free(world->budgets);
}

struct berth_budget_reserve world_command(const char *id, const char *meter, int64_t max)
{
	return (struct berth_budget_reserve){
		.budget = "b", .reservation_id = id, .scope = &default_scope, .meter_id = meter, .max_nano_usd = max};
}

bool world_reserve_as(struct world *world, const struct berth_budget_reserve *command)
{
	Berth__V1__Reservation *row = NULL;
	if (!berth_budget_decide_reserve(world->budgets, command, 1, &row, &world->refusal)) {
		return false;
	}
	if (row) {
		Berth__Store__V1__BudgetReserved *reserved = berth_alloc(sizeof *reserved);
		berth__store__v1__budget_reserved__init(reserved);
		reserved->reservation = row;
		world_log(world, BERTH__STORE__V1__EVENT__BODY_BUDGET_RESERVED, reserved);
	}
	return true;
}

bool world_reserve(struct world *world, const char *id, const char *meter, int64_t max)
{
	struct berth_budget_reserve command = world_command(id, meter, max);
	return world_reserve_as(world, &command);
}

static bool log_ended(struct world *world, bool decided, Berth__Store__V1__BudgetEnded *ended)
{
	if (ended) {
		world_log(world, BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED, ended);
	}
	return decided;
}

bool world_settle_as(struct world *world, const struct berth_budget_settle *command)
{
	Berth__Store__V1__BudgetEnded *ended = NULL;
	bool decided = berth_budget_decide_settle(world->budgets, command, &ended, &world->refusal);
	return log_ended(world, decided, ended);
}

bool world_settle(struct world *world, const char *id, int64_t elapsed_ns)
{
	struct berth_budget_settle command = {.reservation_id = id, .elapsed_ns = elapsed_ns};
	return world_settle_as(world, &command);
}

bool world_forfeit(struct world *world, const char *id, const char *failure_type)
{
	Berth__Store__V1__BudgetEnded *ended = NULL;
	bool decided = berth_budget_decide_forfeit(world->budgets, id, failure_type, NULL, &ended, &world->refusal);
	return log_ended(world, decided, ended);
}

bool world_release(struct world *world, const char *id, Berth__V1__DeathProof proof)
{
	Berth__Store__V1__BudgetEnded *ended = NULL;
	bool decided = berth_budget_decide_release(world->budgets, id, proof, NULL, &ended, &world->refusal);
	return log_ended(world, decided, ended);
}

bool world_appeal(struct world *world, const char *id, Berth__V1__DeathProof proof, int64_t retired_at_ns)
{
	Berth__V1__Lease lease = BERTH__V1__LEASE__INIT;
	lease.lease_id = (char *)id;
	lease.state = BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	lease.proof = proof;
	lease.retired_at_ns = retired_at_ns;
	struct berth_budget_appeal command = {.reservation_id = id, .lease = &lease, .receipt_digest = DIGEST_OF("e")};
	Berth__Store__V1__BudgetAppealed *appealed = NULL;
	bool decided = berth_budget_decide_appeal(world->budgets, &command, &appealed, &world->refusal);
	if (appealed) {
		world_log(world, BERTH__STORE__V1__EVENT__BODY_BUDGET_APPEALED, appealed);
	}
	return decided;
}

bool world_amend(struct world *world, int64_t hard, const char *phase, int64_t phase_limit)
{
	Berth__V1__PhaseLimit limit = BERTH__V1__PHASE_LIMIT__INIT, *limits = &limit;
	limit.phase = (char *)phase;
	limit.limit_nano_usd = phase_limit;
	Berth__V1__Budget *budget = berth_budgets_get(world->budgets, "b");
	uint8_t signature[64] = {1};
	Berth__V1__AmendBudgetRequest request = BERTH__V1__AMEND_BUDGET_REQUEST__INIT;
	request.name = (char *)"b";
	request.hard_limit_nano_usd = hard;
	request.n_phase_limits = phase ? 1 : 0;
	request.phase_limits = &limits;
	request.reason = (char *)"needed";
	request.number = budget->amendments + 1;
	request.key_id = (char *)"operator-key";
	request.signature = (ProtobufCBinaryData){sizeof signature, signature};
	berth_proto_free(budget);
	Berth__Store__V1__BudgetAmended *amended = NULL;
	bool decided = berth_budget_decide_amend(world->budgets, &request, true, &amended, &world->refusal);
	if (amended) {
		world_log(world, BERTH__STORE__V1__EVENT__BODY_BUDGET_AMENDED, amended);
	}
	return decided;
}

Berth__V1__BudgetTotals world_totals(const struct world *world)
{
	Berth__V1__BudgetTotals totals;
	assert_true(berth_budgets_totals(world->budgets, "b", NULL, NULL, NULL, &totals));
	return totals;
}

const Berth__V1__Reservation *world_row(const struct world *world, const char *id)
{
	const Berth__V1__Reservation *row = berth_budgets_reservation(world->budgets, id);
	assert_non_null(row);
	return row;
}

void assert_sums(const struct world *world, int64_t settled, int64_t reserved, int64_t forfeited, int64_t overrun)
{
	Berth__V1__BudgetTotals totals = world_totals(world);
	assert_int_equal(totals.settled_nano_usd, settled);
	assert_int_equal(totals.reserved_nano_usd, reserved);
	assert_int_equal(totals.forfeited_nano_usd, forfeited);
	assert_int_equal(totals.overrun_nano_usd, overrun);
}

void assert_refused(const struct world *world, bool result, enum berth_budget_reason reason, const char *part)
{
	assert_false(result);
	if (world->refusal.reason != reason || !strstr(world->refusal.error.message, part)) {
		fail_msg("wanted reason %d with \"%s\", got %d: %s", reason, part, world->refusal.reason,
			world->refusal.error.message);
	}
	assert_int_not_equal(world->refusal.error.code, BERTH_ERROR_OK);
}
