// SPDX-License-Identifier: Apache-2.0
// A budget authority under test, driven as a coordinator drives it: decide, log, apply. At its end the log is replayed
// from the start and must give the same rows.
#pragma once

#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/budget.h"
#include "coordinator/budget/policy.h"
#include "tests/support/test.h"

#define DIGEST_OF(c)                                                                                                   \
	"sha256:" c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c  \
		c c c c c c c c c c c c c c

// Meters of the policies below: `runner` costs 10 and 3 a second in quanta of 60 s, 1050 s at most: ceiling 3250.
// `plain` costs 2 a second, 30 s at most: ceiling 60. `worker` costs 2 a token in and 5 out.
#define METERS                                                                                                         \
	"\"meters\":{\"runner\":{\"kind\":\"timed_resource\",\"resource_type\":\"agent_runner\","                      \
	"\"resource_class_digest\":\"sha256:61e41e3e55d6f312e042a5ab8398d4139f4a87cc76466589741192d905e2d867\","       \
	"\"fixed_nano_usd\":10,\"nano_usd_per_second\":3,\"billing_quantum_seconds\":60,\"max_billing_seconds\":1050}" \
	","                                                                                                            \
	"\"plain\":{\"kind\":\"timed_resource\",\"resource_type\":\"sandbox\",\"resource_class_digest\":\"" DIGEST_OF( \
		"b") "\",\"nano_usd_per_second\":2,\"max_billing_seconds\":30},"                                       \
		     "\"worker\":{\"kind\":\"provider_tokens\",\"provider_config\":\"openai/m1\",\"price\":{"          \
		     "\"input_nano_usd_per_token\":2,\"output_nano_usd_per_token\":5}}}"
#define POLICY(hard, phases, more)                                                                                     \
	"{\"study_id\":\"s\",\"manifest_digest\":\"" DIGEST_OF(                                                        \
		"a") "\",\"hard_limit_nano_usd\":" #hard ",\"phase_limits_nano_usd\":{" phases "}," METERS more "}"
#define CEILING_RUNNER 3250
#define CEILING_PLAIN  60

struct world {
	struct berth_budgets *budgets;
	Berth__Store__V1__Event **events;
	size_t count, capacity;
	int64_t now_ns;
	struct berth_budget_refusal refusal;
	bool forgot; // rows have left: they are compared without those
};

// One budget "b" with this policy.
void world_open(struct world *world, const char *policy);
void world_close(struct world *world);
Berth__V1__BudgetPolicy *world_policy(const char *json);

// Logs and applies; the log owns the event's body.
void world_log(struct world *world, Berth__Store__V1__Event__BodyCase body, void *message);

// False leaves the refusal. `max` 0: the exact maximum.
bool world_reserve(struct world *world, const char *id, const char *meter, int64_t max);
bool world_reserve_as(struct world *world, const struct berth_budget_reserve *command);
bool world_settle(struct world *world, const char *id, int64_t elapsed_ns);
bool world_settle_as(struct world *world, const struct berth_budget_settle *command);
bool world_forfeit(struct world *world, const char *id, const char *failure_type);
bool world_release(struct world *world, const char *id, Berth__V1__DeathProof proof);
bool world_appeal(struct world *world, const char *id, Berth__V1__DeathProof proof, int64_t retired_at_ns);
bool world_amend(struct world *world, int64_t hard, const char *phase, int64_t phase_limit);
struct berth_budget_reserve world_command(const char *id, const char *meter, int64_t max);

Berth__V1__BudgetTotals world_totals(const struct world *world);
const Berth__V1__Reservation *world_row(const struct world *world, const char *id);
void assert_sums(const struct world *world, int64_t settled, int64_t reserved, int64_t forfeited, int64_t overrun);
// Refused for this reason, with a message that contains `part`.
void assert_refused(const struct world *world, bool result, enum berth_budget_reason reason, const char *part);
struct berth_digest digest_of(const struct berth_budgets *budgets);
