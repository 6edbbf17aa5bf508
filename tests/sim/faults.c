// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/faults.h"

#include <inttypes.h>
#include <string.h>

#include "tests/sim/audit.h"
#include "tests/sim/check.h"
#include "tests/sim/trial.h"
#include "tests/sim/world.h"

#define S               INT64_C(1000000000)
#define MS              INT64_C(1000000)
#define TIMED_MOST      12
#define SHARE_MOST      700 // of the kinds, in thousandths
#define RATES_MOST      6
#define OVER_S_LEAST    60
#define OVER_S_MOST     300
#define FLAPS_MOST      12
#define STEP_S_MOST     86400
#define RATE_MOST       250
#define RARE_RATE_MOST  12 // of what costs a process its life, or comes with each message
#define TWIN_WAITS_MOST 100

static bool healed;                // what was planned for later does not happen
static struct sim_faults *planned; // of this run

const char *sim_fault_text(enum sim_fault_kind kind)
{
#define TEXT(name, text) text,
	static const char *const texts[] = {SIM_FAULT_KINDS(TEXT)};
#undef TEXT
	return texts[kind];
}

// --- drawing ---
static bool is_rare(enum sim_fault_kind kind)
{
	return kind == SIM_SYNC_CRASH || kind == SIM_SYNC_FAIL || kind == SIM_SYNC_STALL || kind == SIM_MESSAGE_BREAK ||
	       kind == SIM_QUEUE_FULL;
}

static struct sim_fault draw_timed(struct sim_random *random, enum sim_fault_kind kind, int64_t over_ns)
{
	struct sim_fault fault = {.kind = kind, .at_ns = sim_random_between(random, S, over_ns)};
	// Some short, some past every hold.
	fault.for_ns = sim_random_chance(random, 500) ? sim_random_between(random, 100 * MS, 10 * S)
	                                              : sim_random_between(random, 10 * S, 150 * S);
	fault.target = (unsigned)sim_random_below(random, SIM_AGENTS_MAX);
	fault.amount = sim_random_between(random, -STEP_S_MOST, STEP_S_MOST) * S;
	if (sim_random_chance(random, 500)) {
		fault.amount /= 10000;
	}
	fault.remaining = (unsigned)sim_random_between(random, 2, FLAPS_MOST);
	fault.armed = sim_random_chance(random, 400);
	fault.seeks = sim_random_chance(random, 500);
	fault.armed_for_ns = sim_random_chance(random, 500) ? 0 : sim_random_between(random, 100 * MS, 8 * S);
	if (kind == SIM_LINK_TURN) {
		fault.amount = sim_random_between(random, 1000, 3000); // thousandths of a heartbeat
	}
	if (kind == SIM_WALL_STEP && fault.seeks && fault.amount > 0) {
		fault.amount = -fault.amount; // what waits is over too late, and not too soon
	}
	if (kind == SIM_LINK_TURN || kind == SIM_LINK_KILL) { // what they are for comes after a hold
		fault.for_ns += 80 * S;
	}
	return fault;
}

static struct sim_fault draw_rate(struct sim_random *random, enum sim_fault_kind kind)
{
	int64_t most = is_rare(kind) ? RARE_RATE_MOST : RATE_MOST;
	return (struct sim_fault){.kind = kind, .amount = sim_random_between(random, 1, most)};
}

// The kinds of a seed: few in most, so that these meet each other.
static size_t draw_kinds(
	struct sim_random *random, enum sim_fault_kind first, enum sim_fault_kind end, enum sim_fault_kind *kinds)
{
	unsigned share = (unsigned)sim_random_between(random, 0, SHARE_MOST);
	size_t count = 0;
	for (int kind = first; kind < (int)end; kind++) {
		if (sim_random_chance(random, share)) {
			kinds[count++] = (enum sim_fault_kind)kind;
		}
	}
	return count;
}

void sim_faults_draw(struct sim_faults *faults, uint64_t seed)
{
	struct sim_random random = sim_random_stream(seed, SIM_STREAM_FAULTS);
	*faults = (struct sim_faults){.over_ns = sim_random_between(&random, OVER_S_LEAST, OVER_S_MOST) * S};
	enum sim_fault_kind kinds[SIM_FAULT_KINDS_COUNT];
	size_t count = draw_kinds(&random, (enum sim_fault_kind)0, SIM_FIRST_RATE, kinds);
	uint64_t timed = count ? sim_random_below(&random, TIMED_MOST + 1) : 0;
	for (uint64_t i = 0; i < timed; i++) {
		faults->items[faults->count++] =
			draw_timed(&random, kinds[sim_random_below(&random, count)], faults->over_ns);
	}
	count = draw_kinds(&random, SIM_FIRST_RATE, SIM_FAULT_KINDS_COUNT, kinds);
	for (size_t i = 0; i < count; i++) {
		struct sim_fault fault = draw_rate(&random, kinds[i]);
		if (sim_random_chance(&random, 500)) {
			faults->items[faults->count++] = fault;
		}
	}
}

// --- rates ---
static void set_rate(const struct sim_fault *fault)
{
	unsigned rate = (unsigned)fault->amount;
	unsigned *rates[] = {
		[SIM_MESSAGE_BREAK] = &sim_net_faults()->break_per_mille,
		[SIM_HALF_OPEN] = &sim_net_faults()->half_open_per_mille,
		[SIM_STRAGGLE] = &sim_net_faults()->straggle_per_mille,
		[SIM_STRANGE] = &sim_net_faults()->strange_per_mille,
		[SIM_QUEUE_FULL] = &sim_net_faults()->full_per_mille,
		[SIM_SYNC_STALL] = &sim_disk_faults()->stall_per_mille,
		[SIM_SYNC_CRASH] = &sim_disk_faults()->crash_per_mille,
		[SIM_SYNC_FAIL] = &sim_disk_faults()->failure_per_mille,
		[SIM_CREATE_BUSY] = &sim_docker_faults()->busy,
		[SIM_CREATE_REFUSED] = &sim_docker_faults()->refused,
		[SIM_CREATE_AMBIGUOUS] = &sim_docker_faults()->ambiguous,
		[SIM_CREATE_CRASH] = &sim_docker_faults()->crash,
		[SIM_KILL_FAIL] = &sim_docker_faults()->kill_fails,
		[SIM_KILL_HANG] = &sim_docker_faults()->kill_hangs,
		[SIM_KILL_LOST] = &sim_docker_faults()->kill_lost,
		[SIM_LIST_OMIT] = &sim_docker_faults()->list_omits,
		[SIM_EARLY_DEATH] = &sim_docker_faults()->early_death,
	};
	*rates[fault->kind] = rate;
}

// --- what lasts, and its end ---
static struct sim_agent *target_of(const struct sim_fault *fault)
{
	return &sim_world.agents[fault->target % sim_world.agents_count];
}

static void continue_process(struct sim_process *process)
{
	if (process->stopped) {
		sim_trace("%s: continues", process->name);
		sim_process_continue(process);
		sim_runs_process_continued(process);
	}
}

// The coordinator's host, or an agent's.
static struct sim_host *host_of(const struct sim_fault *fault)
{
	return fault->target == 0 ? &sim_world.coordinator.host : &target_of(fault)->host;
}

static void set_disk(const struct sim_fault *fault, bool low, bool full)
{
	const char *folder = fault->target == 0 ? sim_world.coordinator.ledger_folder : target_of(fault)->store_folder;
	sim_disk_set_low(sim_disk_of(folder), low, full);
}

static void unblock(void *context)
{
	sim_net_unblock(context);
}

static void end_one(void *context)
{
	const struct sim_fault *fault = context;
	struct sim_agent *agent = target_of(fault);
	if (healed) {
		return; // everything has ended already
	}
	switch (fault->kind) {
	case SIM_COORDINATOR_STOP:
		continue_process(&sim_world.coordinator.process);
		break;
	case SIM_AGENT_STOP:
		continue_process(&agent->process);
		if (fault->amount > 0) { // a host that wakes up elsewhere
			sim_net_link(agent->number)->blocked[0] = true;
			sim_at(sim_now() + fault->for_ns, unblock, sim_net_link(agent->number));
		}
		break;
	case SIM_LINK_DOWN:
	case SIM_LINK_FROM:
	case SIM_LINK_TO:
	case SIM_LINK_KILL:
	case SIM_LINK_TURN:
		sim_net_unblock(sim_net_link(agent->number));
		break;
	case SIM_NET_SLOW:
		sim_net_faults()->delay_ns_most = 20 * MS;
		break;
	case SIM_ENGINE_DOWN:
		sim_docker_set_down(agent->docker, false);
		break;
	case SIM_WALL_FREEZE:
		host_of(fault)->frozen_wall_ns = 0;
		break;
	case SIM_DISK_LOW:
	case SIM_DISK_FULL:
		set_disk(fault, false, false);
		break;
	case SIM_POOL_EMPTY:
		agent->has_no_network = false;
		break;
	case SIM_CERTIFICATE:
		sim_agent_take_certificate(agent);
		break;
	default:
		break;
	}
}

static void flap(void *context)
{
	struct sim_fault *fault = context;
	struct sim_link *link = sim_net_link(target_of(fault)->number);
	if (healed || fault->remaining == 0) {
		sim_net_unblock(link);
		return;
	}
	if (fault->remaining-- % 2) {
		sim_net_unblock(link);
	} else {
		link->blocked[0] = link->blocked[1] = true;
	}
	sim_at(sim_now() + fault->for_ns / FLAPS_MOST, flap, fault);
}

static void block_from(void *context)
{
	if (!healed) {
		sim_net_link(target_of(context)->number)->blocked[0] = true;
	}
}

// What the coordinator said last arrives late, long after the last that it
// heard.
static void turn(void *context)
{
	const struct sim_fault *fault = context;
	if (!healed) {
		struct sim_link *link = sim_net_link(target_of(fault)->number);
		sim_net_unblock(link);
		link->blocked[0] = true;
	}
}

static void kill_process(struct sim_process *process, bool *power, bool with_power)
{
	if (!process->dead && process->threads_count) {
		*power = with_power;
		sim_process_die(process);
	}
}

static void kill_coordinator(void *context)
{
	(void)context;
	if (!healed) {
		kill_process(&sim_world.coordinator.process, &sim_world.coordinator.power, false);
	}
}

static void kill_all(void)
{
	kill_process(&sim_world.coordinator.process, &sim_world.coordinator.power, false);
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		kill_process(&sim_world.agents[i].process, &sim_world.agents[i].power, false);
	}
}

static void stop_process(struct sim_process *process)
{
	if (!process->dead) {
		sim_trace("%s: stopped", process->name);
		sim_process_stop(process);
	}
}

static void step_wall(const struct sim_fault *fault)
{
	host_of(fault)->wall_base_ns += fault->amount;
}

// The twin wakes when every agent has seen, and written down, more than its
// copy of the ledger holds. (A copy after which nothing was seen is a restart,
// for all that anybody can tell.)
static void begin_twin(void *context)
{
	struct sim_fault *fault = context;
	if (healed || fault->remaining++ > TWIN_WAITS_MOST) {
		return;
	}
	if (!sim_twin_begin()) {
		sim_at(sim_now() + S, begin_twin, fault);
	}
}

static void block(const struct sim_fault *fault)
{
	struct sim_link *link = sim_net_link(target_of(fault)->number);
	link->blocked[0] = link->blocked[0] || fault->kind != SIM_LINK_TO;
	link->blocked[1] = link->blocked[1] || fault->kind != SIM_LINK_FROM;
}

static void begin_on_link(struct sim_fault *fault)
{
	const struct sim_agent *agent = target_of(fault);
	switch (fault->kind) {
	case SIM_LINK_DOWN:
	case SIM_LINK_FROM:
	case SIM_LINK_TO:
		block(fault);
		break;
	case SIM_LINK_KILL:
		block(fault);
		sim_at(sim_now() + fault->remaining * S / 4, kill_coordinator, fault);
		break;
	case SIM_LINK_FLAP:
		flap(fault);
		break;
	case SIM_LINK_TURN:
		sim_net_link(agent->number)->blocked[1] = true;
		sim_at(sim_now() + sim_world.heartbeat_ms * MS, block_from, fault);
		// An agent waits for three heartbeats before it connects again.
		sim_at(sim_now() + sim_world.heartbeat_ms * fault->amount * MS / 1000, turn, fault);
		break;
	case SIM_LINK_BREAK:
		sim_net_break(agent->number);
		break;
	default:
		break;
	}
}

static bool may_be_coordinator(enum sim_fault_kind kind)
{
	return kind == SIM_WALL_STEP || kind == SIM_WALL_FREEZE || kind == SIM_DISK_LOW || kind == SIM_DISK_FULL;
}

// The coordinator, if it can be it, or another agent, if the one that was drawn has nothing to do.
static void seek_target(struct sim_fault *fault)
{
	if (may_be_coordinator(fault->kind)) {
		fault->target = 0;
		return;
	}
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		unsigned target = (fault->target + i) % sim_world.agents_count;
		if (sim_runs_on(&sim_world.agents[target].process)) {
			fault->target = target;
			return;
		}
	}
}

static void begin_one(void *context)
{
	struct sim_fault *fault = context;
	if (healed) {
		return;
	}
	if (fault->seeks && fault->kind == SIM_WALL_STEP && !sim_audit_has_paused() &&
		sim_now() < fault->at_ns + fault->for_ns) {
		sim_at(sim_now() + S, begin_one, fault); // what waits out a pause goes by a clock
		return;
	}
	if (fault->seeks) {
		seek_target(fault);
	}
	struct sim_agent *agent = target_of(fault);
	sim_trace("FAULT %s (%s, for %.1f s)", sim_fault_text(fault->kind), agent->name, (double)fault->for_ns / 1e9);
	switch (fault->kind) {
	case SIM_COORDINATOR_KILL:
	case SIM_COORDINATOR_POWER:
		kill_process(&sim_world.coordinator.process, &sim_world.coordinator.power,
			fault->kind == SIM_COORDINATOR_POWER);
		break;
	case SIM_AGENT_KILL:
	case SIM_AGENT_POWER:
		kill_process(&agent->process, &agent->power, fault->kind == SIM_AGENT_POWER);
		break;
	case SIM_COORDINATOR_STOP:
		stop_process(&sim_world.coordinator.process);
		break;
	case SIM_AGENT_STOP:
		stop_process(&agent->process);
		break;
	case SIM_ALL_KILL:
		kill_all();
		break;
	case SIM_NET_SLOW:
		sim_net_faults()->delay_ns_most = 3 * S;
		break;
	case SIM_ENGINE_DOWN:
		sim_docker_set_down(agent->docker, true);
		break;
	case SIM_WALL_STEP:
		step_wall(fault);
		break;
	case SIM_TWIN:
		sim_twin_copy();
		fault->remaining = 0;
		begin_twin(fault);
		break;
	case SIM_WALL_FREEZE:
		host_of(fault)->frozen_wall_ns = sim_host_wall_ns(host_of(fault));
		break;
	case SIM_DISK_LOW:
	case SIM_DISK_FULL:
		set_disk(fault, true, fault->kind == SIM_DISK_FULL);
		break;
	case SIM_POOL_EMPTY:
		agent->has_no_network = true;
		kill_process(&agent->process, &agent->power, false);
		break;
	case SIM_CERTIFICATE:
		sim_agent_rotate(agent);
		break;
	case SIM_LIAR:
		sim_liar_begin();
		break;
	case SIM_RESTORE:
		sim_restore_begin(fault->for_ns);
		break;
	default:
		begin_on_link(fault);
		break;
	}
	sim_at(sim_now() + fault->for_ns, end_one, fault);
}

static bool is_timed(const struct sim_fault *fault)
{
	return !fault->left_out && fault->kind < SIM_FIRST_RATE;
}

void sim_faults_assigned(unsigned agent)
{
	for (size_t i = 0; i < planned->count; i++) {
		struct sim_fault *fault = &planned->items[i];
		if (is_timed(fault) && fault->armed && fault->at_ns <= sim_now() && target_of(fault)->number == agent) {
			fault->armed = false;
			sim_at(sim_now() + fault->armed_for_ns, begin_one, fault);
		}
	}
}

void sim_faults_begin(struct sim_faults *faults)
{
	healed = false;
	planned = faults;
	for (size_t i = 0; i < faults->count; i++) {
		struct sim_fault *fault = &faults->items[i];
		if (is_timed(fault) && !fault->armed) {
			sim_at(fault->at_ns, begin_one, fault);
		} else if (!fault->left_out && !fault->armed) {
			set_rate(fault);
		}
	}
}

void sim_faults_end(void)
{
	healed = true;
	sim_world.healing = true;
	sim_world.healed_ns = sim_now();
	*sim_docker_faults() = (struct sim_docker_faults){0};
	struct sim_disk_faults *disk = sim_disk_faults();
	disk->stall_per_mille = disk->crash_per_mille = disk->failure_per_mille = 0;
	struct sim_net_faults *net = sim_net_faults();
	*net = (struct sim_net_faults){.delay_ns_least = net->delay_ns_least};
	net->delay_ns_most = 20 * MS;
	sim_liar_end();
	continue_process(&sim_world.coordinator.process);
	sim_world.coordinator.host.frozen_wall_ns = 0;
	sim_disk_set_low(sim_disk_of(sim_world.coordinator.ledger_folder), false, false);
	for (unsigned i = 0; i < sim_world.agents_count; i++) {
		struct sim_agent *agent = &sim_world.agents[i];
		agent->address = "coordinator";
		agent->host.frozen_wall_ns = 0;
		agent->has_no_network = false;
		sim_disk_set_low(sim_disk_of(agent->store_folder), false, false);
		sim_agent_take_certificate(agent);
		continue_process(&agent->process);
		sim_net_unblock(sim_net_link(agent->number));
		sim_docker_set_down(agent->docker, false);
	}
	sim_trace("HEALED");
}

void sim_faults_print(FILE *out, const struct sim_faults *faults)
{
	for (size_t i = 0; i < faults->count; i++) {
		const struct sim_fault *fault = &faults->items[i];
		if (fault->left_out) {
			continue;
		}
		if (fault->kind >= SIM_FIRST_RATE) {
			fprintf(out, "  %2zu  %s, %" PRId64 " in 1000\n", i, sim_fault_text(fault->kind),
				fault->amount);
		} else {
			fprintf(out, "  %2zu  %s %.3f s: %s, agent-%c, for %.1f s\n", i,
				fault->armed ? "soon after the first trial given after" : "at",
				(double)fault->at_ns / 1e9, sim_fault_text(fault->kind),
				'a' + (int)(fault->target % sim_world.agents_count), (double)fault->for_ns / 1e9);
		}
	}
}
