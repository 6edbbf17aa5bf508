// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/core/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/policy.h"
#include "tests/support/test.h"

#define RECOVER_EVERY 5

static void assert_same_state(const struct berth_core *one, const struct berth_core *other)
{
	struct berth_digest a = berth_core_digest(one), b = berth_core_digest(other);
	assert_memory_equal(a.bytes, b.bytes, BERTH_DIGEST_SIZE);
}

static void record(struct test_fleet *fleet)
{
	test_disk_write(fleet->disk, fleet->core, (size_t)rand_r(&fleet->seed) % 4);
	if (++fleet->decided % RECOVER_EVERY == 0 && !fleet->quick) {
		struct berth_core *recovered = test_disk_recover(fleet->disk, &fleet->config);
		assert_same_state(fleet->core, recovered);
		berth_core_free(recovered);
	}
}

static void replay(struct test_fleet *fleet)
{
	struct berth_error err;
	for (size_t i = 0; i < fleet->outcome.events_count; i++) {
		// Through bytes, as from a disk.
		BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
		berth_proto_pack(fleet->outcome.events[i], &packed);
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__Event *event = berth_proto_unpack(
			&berth__store__v1__event__descriptor, packed.data, packed.size, "event", &err);
		assert_ok(event && berth_core_apply(fleet->replica, event, &err), err);
		test_disk_append(fleet->disk, packed.data, packed.size);
	}
	if (!fleet->quick) {
		assert_same_state(fleet->core, fleet->replica);
	}
}

void test_decide(struct test_fleet *fleet, struct berth_command command)
{
	berth_outcome_clear(&fleet->outcome);
	berth_core_decide(fleet->core, &command, fleet->now, &fleet->outcome);
	replay(fleet);
	record(fleet);
}

struct test_fleet *test_fleet_new(int64_t hold_ms)
{
	return test_fleet_new_paced(hold_ms, (struct berth_governor_policy){0});
}

struct test_fleet *test_fleet_new_paced(int64_t hold_ms, struct berth_governor_policy creates)
{
	struct berth_core_config config = {.fleet = "quay",
		.hold_ms = hold_ms,
		.heartbeat_ms = 500,
		.max_generations = 3,
		.aging_ms = 600000,
		.allow_unmetered_local = true,
		.create_policy = creates};
	struct test_fleet *fleet = berth_alloc(sizeof *fleet);
	fleet->config = config;
	fleet->seed = 4;
	fleet->core = berth_core_new(&config);
	fleet->replica = berth_core_new(&config);
	fleet->disk = test_disk_new();
	fleet->now = (struct berth_core_now){
		.boot_ns = INT64_C(1000) * BERTH_NS_PER_S, .wall_ns = INT64_C(1800000000) * BERTH_NS_PER_S};
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_START,
				   .nonce = (const uint8_t *)"0123456789abcdef",
				   .version = "test",
				   .actor = ""});
	return fleet;
}

void test_fleet_free(struct test_fleet *fleet)
{
	berth_outcome_clear(&fleet->outcome);
	berth_core_free(fleet->core);
	berth_core_free(fleet->replica);
	test_disk_free(fleet->disk);
	free(fleet);
}

void test_restart(struct test_fleet *fleet)
{
	berth_core_free(fleet->core);
	test_disk_crash(fleet->disk);
	fleet->core = test_disk_recover(fleet->disk, &fleet->config);
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_START,
				   .nonce = (const uint8_t *)"fedcba9876543210",
				   .version = "test",
				   .actor = ""});
}

void test_restore(struct test_fleet *fleet, uint64_t size)
{
	struct test_disk *backup = test_disk_backup(fleet->disk, size);
	const struct berth_core_restored restored = {.size = size, .reason = "the disk died"};
	berth_core_free(fleet->core);
	berth_core_free(fleet->replica);
	test_disk_free(fleet->disk);
	fleet->disk = backup;
	fleet->core = test_disk_recover(backup, &fleet->config);
	fleet->replica = test_disk_recover(backup, &fleet->config);
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_START,
				   .nonce = (const uint8_t *)"fedcba9876543210",
				   .version = "test",
				   .restored = &restored,
				   .actor = ""});
}

void test_advance_ms(struct test_fleet *fleet, int64_t ms)
{
	fleet->now.boot_ns += ms * BERTH_NS_PER_MS;
	fleet->now.wall_ns += ms * BERTH_NS_PER_MS;
}

void test_tick(struct test_fleet *fleet)
{
	bool due = fleet->now.boot_ns >= berth_core_next_tick_ns(fleet->core);
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_TICK, .actor = ""});
	// Who waits for the next tick misses nothing.
	if (!due) {
		assert_int_equal(fleet->outcome.events_count, 0);
		assert_int_equal(fleet->outcome.effects_count, 0);
	}
	assert_true(berth_core_next_tick_ns(fleet->core) > fleet->now.boot_ns);
}

void test_place(struct test_fleet *fleet)
{
	char ids[BERTH_PLACE_IDS][BERTH_ID_SIZE];
	for (size_t i = 0; i < BERTH_PLACE_IDS; i++) {
		snprintf(ids[i], BERTH_ID_SIZE, "%032llx", (unsigned long long)++fleet->ids);
	}
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_PLACE, .actor = "", .ids = ids});
}

void test_enroll(struct test_fleet *fleet, const char *agent)
{
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_ENROLL,
				   .actor = "operator/ann",
				   .role = "agent",
				   .name = agent,
				   .certificate_sha256 = "c0ffee",
				   .signing_key_id = "1",
				   .signing_key_der = (const uint8_t *)"k",
				   .signing_key_size = 1});
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
}

uint64_t test_hello(struct test_fleet *fleet, const char *agent, const char *boot, uint32_t slots)
{
	Berth__V1__Incarnation obeyed = BERTH__V1__INCARNATION__INIT;
	Berth__V1__LedgerHead seen = BERTH__V1__LEDGER_HEAD__INIT;
	obeyed.number = fleet->obeyed;
	obeyed.nonce = (ProtobufCBinaryData){.len = 16, .data = (uint8_t *)"0123456789abcdef"};
	seen.sequence = fleet->seen_elsewhere;
	Berth__V1__Hello hello = BERTH__V1__HELLO__INIT;
	Berth__V1__VersionRange range = BERTH__V1__VERSION_RANGE__INIT;
	Berth__V1__Capacity capacity = BERTH__V1__CAPACITY__INIT;
	range.least = range.most = 1;
	capacity.cpus = capacity.slots = slots;
	capacity.memory_mb = 16384;
	hello.protocol = &range;
	hello.capacity = &capacity;
	hello.boot_id = (char *)boot;
	hello.daemon_id = (char *)(fleet->daemon ? fleet->daemon : "daemon");
	hello.obeyed = fleet->obeyed ? &obeyed : NULL;
	hello.seen = &seen;
	uint64_t session = ++fleet->sessions;
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_HELLO,
				   .actor = "agent/x",
				   .agent = agent,
				   .session = session,
				   .hello = &hello,
				   .seen_held = fleet->seen_elsewhere == 0});
	return session;
}

uint64_t test_join(struct test_fleet *fleet, const char *agent, const char *boot, uint32_t slots)
{
	uint64_t session = test_hello(fleet, agent, boot, slots);
	assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	test_beat(fleet, agent, session, NULL, 0);
	return session;
}

void test_beat(
	struct test_fleet *fleet, const char *agent, uint64_t session, const Berth__V1__TrialKey *running, size_t count)
{
	Berth__V1__Heartbeat beat = BERTH__V1__HEARTBEAT__INIT;
	Berth__V1__TrialKey *keys[16];
	assert_true(count <= BERTH_COUNT(keys));
	for (size_t i = 0; i < count; i++) {
		keys[i] = (Berth__V1__TrialKey *)&running[i];
	}
	beat.running = keys;
	beat.n_running = count;
	beat.accepting = true;
	beat.sequence = ++fleet->beats;
	beat.acknowledged = fleet->beats - 1 - fleet->unanswered;
	beat.outbox_first = fleet->outbox_first;
	beat.outbox_last = fleet->outbox_last;
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_HEARTBEAT,
				   .actor = "agent/x",
				   .agent = agent,
				   .session = session,
				   .heartbeat = &beat});
}

struct test_spec {
	Berth__V1__SubmitJobRequest request;
	Berth__V1__JobSpec spec;
	Berth__V1__RetryPolicy retry;
	Berth__V1__AgentConfig agent;
	Berth__V1__AgentConfig *agents[1];
	Berth__V1__Task task;
	Berth__V1__Task *tasks[4096];
};

static const char *submit(struct test_fleet *fleet, const char *key, uint32_t tasks, uint32_t attempts,
	uint32_t max_retries, const char *budget)
{
	static char job_id[BERTH_ID_SIZE];
	struct test_spec *spec = berth_alloc(sizeof *spec);
	berth__v1__submit_job_request__init(&spec->request);
	berth__v1__job_spec__init(&spec->spec);
	berth__v1__retry_policy__init(&spec->retry);
	berth__v1__agent_config__init(&spec->agent);
	berth__v1__task__init(&spec->task);
	spec->task.base_name = spec->task.name = (char *)"count-words";
	spec->task.environment_id = (char *)"0123456789abcdef0123456789abcdef";
	spec->task.cpus = 1;
	spec->task.separate_verifier = fleet->verifier;
	spec->task.memory_mb = fleet->memory_mb ? (uint32_t)(fleet->memory_mb > 0 ? fleet->memory_mb : 0) : 512;
	spec->task.agent_timeout_sec = 600;
	spec->task.verifier_timeout_sec = spec->task.build_timeout_sec = 100;
	BERTH_AUTO_FREE Berth__V1__Task *varied = berth_alloc(tasks * sizeof *varied);
	for (uint32_t i = 0; i < tasks; i++) {
		varied[i] = spec->task;
		spec->tasks[i] = &varied[i];
		if (fleet->vary) {
			fleet->vary(&varied[i], i);
		}
	}
	spec->agent.name = (char *)"oracle";
	spec->agents[0] = &spec->agent;
	spec->retry.max_retries = max_retries;
	spec->retry.wait_multiplier = 2;
	spec->retry.min_wait_sec = 5;
	spec->retry.max_wait_sec = 60;
	spec->spec.name = (char *)key;
	spec->spec.retry = &spec->retry;
	spec->spec.agents = spec->agents;
	spec->spec.n_agents = 1;
	spec->spec.concurrent_trials = fleet->concurrent;
	spec->spec.priority = fleet->priority;
	spec->spec.tasks = spec->tasks;
	spec->spec.n_tasks = tasks;
	spec->spec.attempts = attempts;
	spec->spec.environment_type = (char *)"docker";
	spec->spec.budget = (char *)budget;
	spec->spec.phase = (char *)(budget[0] ? "search" : "");
	spec->spec.timeout_multiplier = 1;
	spec->spec.agent_timeout_multiplier = spec->spec.verifier_timeout_multiplier =
		spec->spec.agent_setup_timeout_multiplier = spec->spec.environment_build_timeout_multiplier = -1;
	spec->spec.override_cpus = spec->spec.override_memory_mb = -1;
	spec->request.spec = &spec->spec;
	spec->request.client_key = (char *)key;
	snprintf(job_id, sizeof job_id, "%032llx", (unsigned long long)++fleet->ids);
	char id[BERTH_ID_SIZE];
	memcpy(id, job_id, sizeof id);
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_SUBMIT,
				   .actor = "user/ann",
				   .submit = &spec->request,
				   .job_id = id,
				   .name_seed = (const uint8_t *)"seedseedseedseed",
				   .request_digest = berth_sha256(&tasks, sizeof tasks)});
	free(spec);
	return berth_strdup(fleet->outcome.job_id);
}

const char *test_submit(struct test_fleet *fleet, const char *key, uint32_t tasks, uint32_t attempts)
{
	return submit(fleet, key, tasks, attempts, 0, "");
}

const char *test_submit_retrying(struct test_fleet *fleet, const char *key, uint32_t max_retries)
{
	return submit(fleet, key, 1, 1, max_retries, "");
}

const char *test_submit_paid(struct test_fleet *fleet, const char *key, uint32_t tasks, const char *budget)
{
	return submit(fleet, key, tasks, 1, 0, budget);
}

#define DIGEST_TEXT "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

#define VERIFIER_RATE                                                                                                  \
	",{\"backend\":\"local\",\"role\":\"verifier_environment\",\"cpu_count\":1,\"memory_mb\":512,"                 \
	"\"nano_usd_per_second\":20,\"billing_quantum_seconds\":60}"

void test_open_budget(struct test_fleet *fleet, const char *name, int64_t hard, int64_t phase, const char *more)
{
	BERTH_AUTO_FREE char *json = berth_format(
		"{\"study_id\":\"s\",\"manifest_digest\":\"" DIGEST_TEXT "\",\"hard_limit_nano_usd\":%lld,"
		"\"phase_limits_nano_usd\":{\"search\":%lld},\"rates\":[{\"backend\":\"local\","
		"\"role\":\"task_environment\",\"cpu_count\":1,\"memory_mb\":512,\"nano_usd_per_second\":10,"
		"\"billing_quantum_seconds\":60}%s]%s}",
		(long long)hard, (long long)phase, fleet->verifier ? VERIFIER_RATE : "", more);
	struct berth_error err = {0};
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	request.name = (char *)name;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__BudgetPolicy *policy = berth_policy_parse(json, strlen(json), "policy", &err);
	assert_ok(policy != NULL, err);
	request.policy = policy;
	test_decide(fleet,
		(struct berth_command){
			.kind = BERTH_COMMAND_CREATE_BUDGET, .actor = "operator/ann", .create_budget = &request});
	assert_ok(fleet->outcome.error.code == BERTH_ERROR_OK, fleet->outcome.error);
}

void test_amend_budget(struct test_fleet *fleet, const char *name, uint64_t number, int64_t hard, int64_t phase)
{
	Berth__V1__AmendBudgetRequest request = BERTH__V1__AMEND_BUDGET_REQUEST__INIT;
	Berth__V1__PhaseLimit limit = BERTH__V1__PHASE_LIMIT__INIT, *limits[] = {&limit};
	uint8_t signature[64] = {0};
	limit.phase = (char *)"search";
	limit.limit_nano_usd = phase;
	request.name = (char *)name;
	request.number = number;
	request.hard_limit_nano_usd = hard;
	request.phase_limits = limits;
	request.n_phase_limits = 1;
	request.reason = (char *)"more is needed";
	request.key_id = (char *)"k1";
	request.signature = (ProtobufCBinaryData){sizeof signature, signature};
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_AMEND_BUDGET,
				   .actor = "operator/ann",
				   .amend_budget = &request,
				   .signature_ok = true});
	assert_ok(fleet->outcome.error.code == BERTH_ERROR_OK, fleet->outcome.error);
}

// No agent can say so: the event comes as from a later version.
void test_breach(struct test_fleet *fleet, const char *budget, const char *reservation_id)
{
	struct berth_error err;
	Berth__Store__V1__Event event = BERTH__STORE__V1__EVENT__INIT;
	Berth__Store__V1__BudgetEnded ended = BERTH__STORE__V1__BUDGET_ENDED__INIT;
	Berth__V1__ReservationEnding ending = BERTH__V1__RESERVATION_ENDING__INIT;
	Berth__V1__Usage usage = BERTH__V1__USAGE__INIT;
	usage.unit = (char *)"billing_second";
	usage.quantity = 6000;
	usage.elapsed_ns = usage.quantity * BERTH_NS_PER_S;
	usage.provider_confirmed = true;
	ending.state = BERTH__V1__RESERVATION_STATE__BREACHED;
	ending.charged_nano_usd = TEST_PRICE;
	ending.overrun_nano_usd = usage.quantity * 10 - TEST_PRICE;
	ending.breach_kind = (char *)"reservation";
	ending.usage = &usage;
	ended.budget = (char *)budget;
	ended.reservation_id = (char *)reservation_id;
	ended.ending = &ending;
	event.sequence = test_disk_last(fleet->disk) + 1;
	event.recorded_at_ns = fleet->now.wall_ns;
	event.body_case = BERTH__STORE__V1__EVENT__BODY_BUDGET_ENDED;
	event.budget_ended = &ended;
	assert_ok(berth_core_apply(fleet->core, &event, &err), err);
	assert_ok(berth_core_apply(fleet->replica, &event, &err), err);
	BERTH_AUTO(berth_buf_free) struct berth_buf packed = {0};
	berth_proto_pack(&event, &packed);
	test_disk_append(fleet->disk, packed.data, packed.size);
}

Berth__V1__BudgetTotals test_totals(const struct test_fleet *fleet, const char *budget)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Budget *found = berth_core_budget(fleet->core, budget);
	assert_non_null(found);
	return *found->totals;
}

Berth__V1__Reservation *test_reservation(const struct test_fleet *fleet, const char *budget, const char *id)
{
	Berth__V1__Reservation *all[4096], *found = NULL;
	size_t count = berth_core_reservations(fleet->core, budget, false, NULL, BERTH_COUNT(all), all);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(all[i]->reservation_id, id) == 0) {
			found = all[i];
		} else {
			berth_proto_free(all[i]);
		}
	}
	return found;
}

Berth__V1__TrialKey test_key(const char *job, uint32_t index, uint32_t generation)
{
	Berth__V1__TrialKey key = BERTH__V1__TRIAL_KEY__INIT;
	key.job_id = (char *)job;
	key.index = index;
	key.generation = generation;
	return key;
}

Berth__V1__Assignment *test_assignment(struct test_fleet *fleet, const char *job, uint32_t index)
{
	struct berth_core_assignment assignment;
	assert_true(berth_core_assignment(fleet->core, job, index, test_generation(fleet, job, index), &assignment));
	return berth_proto_clone(&assignment.message);
}

const char *test_lease(struct test_fleet *fleet, const char *job, uint32_t index)
{
	static char lease_id[BERTH_ID_SIZE];
	struct berth_core_assignment assignment;
	assert_true(berth_core_assignment(fleet->core, job, index, test_generation(fleet, job, index), &assignment));
	assert_int_equal(assignment.message.n_leases, 1);
	snprintf(lease_id, sizeof lease_id, "%s", assignment.message.leases[0]->lease_id);
	return lease_id;
}

static void report(struct test_fleet *fleet, const char *agent, uint64_t session, const char *boot, uint64_t sequence,
	Berth__V1__Report *message)
{
	message->boot_id = (char *)boot;
	message->sequence = sequence;
	test_decide(fleet, (struct berth_command){.kind = BERTH_COMMAND_REPORT,
				   .actor = "agent/x",
				   .agent = agent,
				   .session = session,
				   .report = message,
				   .reward = 1});
}

void test_report_lease(struct test_fleet *fleet, const char *agent, uint64_t session, const char *boot,
	uint64_t sequence, const char *lease, Berth__V1__LeaseState state, Berth__V1__DeathProof proof)
{
	Berth__V1__Report message = BERTH__V1__REPORT__INIT;
	Berth__V1__LeaseMove move = BERTH__V1__LEASE_MOVE__INIT;
	move.lease_id = (char *)lease;
	move.state = state;
	move.proof = proof;
	move.elapsed_ns = fleet->elapsed_ns;
	move.provider_expiry_at_ns = fleet->expiry_ns;
	move.expected_end_at_ns = fleet->end_ns;
	move.lease = fleet->given_lease;
	move.reservation = fleet->given_reservation;
	move.others = &fleet->given_other;
	move.n_others = fleet->given_other != NULL;
	move.resource_id = (char *)(state == BERTH__V1__LEASE_STATE__LEASE_ACTIVE ? "box" : "");
	message.body_case = BERTH__V1__REPORT__BODY_LEASE;
	message.lease = &move;
	report(fleet, agent, session, boot, sequence, &message);
}

void test_report_done(struct test_fleet *fleet, const char *agent, uint64_t session, const char *boot,
	uint64_t sequence, Berth__V1__TrialKey key, Berth__V1__Outcome outcome, const char *exception)
{
	Berth__V1__Report message = BERTH__V1__REPORT__INIT;
	Berth__V1__TrialDone done = BERTH__V1__TRIAL_DONE__INIT;
	Berth__V1__TrialResult result = BERTH__V1__TRIAL_RESULT__INIT;
	Berth__V1__TrialException failure = BERTH__V1__TRIAL_EXCEPTION__INIT;
	Berth__V1__Evidence evidence = BERTH__V1__EVIDENCE__INIT;
	Berth__V1__Attestation attestation = BERTH__V1__ATTESTATION__INIT, *attestations[] = {&attestation};
	Berth__V1__LeaseReceipt receipt = BERTH__V1__LEASE_RECEIPT__INIT, *receipts[] = {&receipt};
	evidence.attestations = attestations;
	evidence.receipts = receipts;
	evidence.n_attestations = evidence.n_receipts = 1;
	failure.type = (char *)exception;
	result.outcome = outcome;
	result.rewards_json = (char *)(outcome == BERTH__V1__OUTCOME__OUTCOME_SCORED ? "{\"reward\": 1.0}" : "");
	result.exception = exception ? &failure : NULL;
	result.evidence = fleet->no_evidence ? NULL : &evidence;
	done.trial = &key;
	done.result = &result;
	message.body_case = BERTH__V1__REPORT__BODY_DONE;
	message.done = &done;
	report(fleet, agent, session, boot, sequence, &message);
}

uint64_t test_live_and_retire(struct test_fleet *fleet, const char *agent, uint64_t session, const char *boot,
	uint64_t sequence, const char *lease)
{
	static const struct {
		Berth__V1__LeaseState state;
		Berth__V1__DeathProof proof;
	} life[] = {{BERTH__V1__LEASE_STATE__LEASE_DISPATCHING, 0}, {BERTH__V1__LEASE_STATE__LEASE_ACTIVE, 0},
		{BERTH__V1__LEASE_STATE__LEASE_KILL_PROVED, 0},
		{BERTH__V1__LEASE_STATE__LEASE_RETIRED, BERTH__V1__DEATH_PROOF__ABSENCE_SEEN}};
	for (size_t i = 0; i < BERTH_COUNT(life); i++) {
		test_report_lease(fleet, agent, session, boot, sequence++, lease, life[i].state, life[i].proof);
		assert_int_equal(fleet->outcome.error.code, BERTH_ERROR_OK);
	}
	return sequence;
}

size_t test_effects(const struct test_fleet *fleet, enum berth_effect_kind kind)
{
	size_t count = 0;
	for (size_t i = 0; i < fleet->outcome.effects_count; i++) {
		count += fleet->outcome.effects[i].kind == kind;
	}
	return count;
}

static void *recorded(const struct test_fleet *fleet, const char *key, const ProtobufCMessageDescriptor *type)
{
	size_t size;
	struct berth_error err;
	const void *value = test_disk_record(fleet->disk, key, &size);
	void *message = berth_proto_unpack(type, value, size, key, &err);
	assert_ok(message != NULL, err);
	return message;
}

static Berth__V1__Trial *trial(const struct test_fleet *fleet, const char *job, uint32_t index)
{
	uint64_t sequence;
	Berth__V1__Trial *found = berth_core_trial(fleet->core, job, index, NULL, &sequence);
	if (berth_core_is_forgotten(fleet->core, job)) {
		BERTH_AUTO_FREE char *job_key = berth_format("job/%s", job);
		BERTH_AUTO_FREE char *key = berth_format("trial/%s/%08x", job, index);
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__JobRow *job_row = recorded(fleet, job_key, &berth__store__v1__job_row__descriptor);
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__TrialRow *row = recorded(fleet, key, &berth__store__v1__trial_row__descriptor);
		assert_null(found);
		found = berth_core_recorded_trial(job_row, row, NULL, &sequence);
	}
	assert_non_null(found);
	return found;
}

Berth__V1__TrialState test_state(const struct test_fleet *fleet, const char *job, uint32_t index)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Trial *found = trial(fleet, job, index);
	return found->state;
}

uint32_t test_generation(const struct test_fleet *fleet, const char *job, uint32_t index)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Trial *found = trial(fleet, job, index);
	return found->key->generation;
}

Berth__V1__JobState test_job_state(const struct test_fleet *fleet, const char *job)
{
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__Job *found = berth_core_job(fleet->core, job);
	assert_non_null(found);
	return found->state;
}

int test_set_up_two(void **state)
{
	*state = test_fleet_new(TEST_HOLD_MS);
	test_enroll(*state, "north");
	test_enroll(*state, "south");
	return 0;
}

int test_tear_down(void **state)
{
	test_fleet_free(*state);
	return 0;
}
