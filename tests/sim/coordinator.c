// SPDX-License-Identifier: Apache-2.0
// A coordinator process: the real one, on a simulated disk and network.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/evidence/x509.h"
#include "coordinator/service/daemon.h"
#include "tests/sim/audit.h"
#include "tests/sim/check.h"
#include "tests/sim/keys.h"
#include "tests/sim/trial.h"
#include "tests/sim/world.h"

#define RESTART_MS_MOST  20000
#define LOST_MS          100
#define GENERATIONS      6
#define HOLD_SHARE_LEAST 4 // of the longest, 1 / so much
#define MS               INT64_C(1000000)

static const char *authority(void)
{
	static char *certificate;
	if (!certificate) {
		struct berth_error err;
		BERTH_AUTO_FREE char *key = NULL;
		if (!berth_x509_authority_new("quay", 365, &certificate, &key, &err)) {
			abort();
		}
	}
	return certificate;
}

// A result's evidence is checked elsewhere; here it holds. (The linker gives this for the real one: --wrap.)
const char *__wrap_berth_evidence_fault(const struct berth_signer *signer, const Berth__V1__TrialDone *done);

const char *__wrap_berth_evidence_fault(const struct berth_signer *signer, const Berth__V1__TrialDone *done)
{
	(void)signer, (void)done;
	return NULL;
}

// Portions so small that a checkpoint of a small fleet takes many, as one of a large fleet does.
uint64_t __real_berth_core_checkpoint_take(
	struct berth_core *core, size_t most, berth_core_row_sink *sink, void *context);
uint64_t __wrap_berth_core_checkpoint_take(
	struct berth_core *core, size_t most, berth_core_row_sink *sink, void *context);

uint64_t __wrap_berth_core_checkpoint_take(
	struct berth_core *core, size_t most, berth_core_row_sink *sink, void *context)
{
	bool whole = most == SIZE_MAX; // by who reads a ledger
	return __real_berth_core_checkpoint_take(
		core, whole || most < sim_world.portion ? most : sim_world.portion, sink, context);
}

static void fenced(void *context)
{
	struct sim_coordinator *coordinator = context;
	sim_trace("%s: a newer incarnation is known", coordinator->process.name);
	if (!coordinator->is_twin) {
		sim_audit_fenced();
	}
	berth_cancel_fire(coordinator->stop);
}

// --- enrolment, once ---
static void enrolled(
	struct berth_engine_request *request, const struct berth_core *core, const struct berth_outcome *outcome)
{
	(void)core, (void)outcome;
	*(bool *)request->context = true;
	sim_wake(sim_self(), request->context);
	free(request);
}

// Everybody signs with one key: only an operator's signature is ever looked at.
static void enroll(struct berth_daemon *daemon, const char *role, const char *name, const char *certificate)
{
	bool done = false;
	struct berth_engine_request *request = berth_alloc(sizeof *request);
	snprintf(request->actor, sizeof request->actor, "operator/ann");
	request->command.kind = BERTH_COMMAND_ENROLL;
	request->command.role = role;
	request->command.name = name;
	request->command.certificate_sha256 = certificate;
	request->command.signing_key_id = sim_operator_key()->id;
	request->command.signing_key_der = sim_operator_key()->der;
	request->command.signing_key_size = sim_operator_key()->der_size;
	request->done = enrolled;
	request->context = &done;
	struct berth_error err;
	if (!berth_engine_post(daemon->engine, request, &err)) {
		free(request);
		return;
	}
	while (!done) {
		sim_wait(&done, SIM_NEVER);
	}
}

static void enroll_all(struct sim_coordinator *coordinator, struct berth_daemon *daemon)
{
	for (unsigned i = 0; !coordinator->is_twin && i < sim_world.agents_count; i++) {
		struct sim_agent *agent = &sim_world.agents[i];
		if (!sim_audit_is_enrolled(agent->name, agent->newest_certificate)) {
			enroll(daemon, "agent", agent->name, agent->newest_certificate);
		}
	}
	if (!coordinator->is_twin && !sim_audit_is_enrolled("ann", "")) {
		enroll(daemon, "operator", "ann", "");
	}
	if (!coordinator->is_twin && sim_world.liar.main && !sim_audit_is_enrolled("mallory", "")) {
		enroll(daemon, "agent", "mallory", "");
	}
}

void sim_coordinator_look(struct sim_coordinator *coordinator)
{
	coordinator->has_to_look = true; // it may be looking already, and wait for something else
	sim_wake(&coordinator->process, coordinator->stop);
}

// --- the process ---
static void settle_in(struct sim_coordinator *coordinator, struct berth_daemon *daemon)
{
	coordinator->starts++;
	coordinator->serves = true;
	Berth__V1__Incarnation incarnation = berth_core_incarnation(daemon->core);
	sim_trace("%s: serves as incarnation %llu", coordinator->process.name, (unsigned long long)incarnation.number);
	struct berth_error err;
	berth_engine_ask(daemon->engine, NULL, sim_audit_started, coordinator, &err);
	enroll_all(coordinator, daemon);
}

static int64_t choose_hold_ms(const struct sim_process *process)
{
	return sim_world.holds_change && process->life > 1
	               ? sim_random_between(&sim_world.random, sim_world.hold_ms / HOLD_SHARE_LEAST, sim_world.hold_ms)
	               : sim_world.hold_ms;
}

static void run(struct sim_process *process)
{
	struct sim_coordinator *coordinator = (struct sim_coordinator *)process;
	int64_t hold_ms = choose_hold_ms(process);
	BERTH_AUTO_FREE char *key_file = berth_format("%s.key", coordinator->folder);
	BERTH_AUTO_FREE char *ledger_key_file = berth_format("%s.ledger-key", coordinator->folder);
	struct berth_coordinator_options options = {.data_folder = coordinator->folder,
		.listen = coordinator->address,
		.blobs_listen = "blobs",
		.tls = {.authority = authority()},
		.secret_key_file = key_file,
		.ledger_key_file = ledger_key_file,
		.hold_ms = hold_ms,
		.heartbeat_ms = hold_ms * sim_world.heartbeat_ms / sim_world.hold_ms,
		.aging_ms = sim_world.aging_ms,
		.checkpoint_ms = sim_world.checkpoint_ms,
		.max_generations = GENERATIONS,
		.version = "sim",
		.fenced = fenced,
		.context = coordinator};
	struct berth_error err = {0};
	coordinator->stop = berth_cancel_new(NULL);
	struct berth_daemon *daemon = berth_coordinator_start(&options, &err);
	if (daemon) {
		settle_in(coordinator, daemon);
		while (!berth_cancel_fired(coordinator->stop)) {
			if (!coordinator->has_to_look) {
				sim_wait(coordinator->stop, SIM_NEVER);
			}
			coordinator->has_to_look = false;
			enroll_all(coordinator, daemon);
		}
		coordinator->serves = false;
		berth_coordinator_stop(daemon, 0);
	} else if (!process->dead) {
		sim_audit_start_failed(coordinator, &err);
	}
	berth_cancel_free(BERTH_STEAL(coordinator->stop));
}

static void stop(struct sim_process *process)
{
	struct sim_coordinator *coordinator = (struct sim_coordinator *)process;
	if (coordinator->stop) {
		berth_cancel_fire(coordinator->stop);
	}
}

static void begin_again(void *context)
{
	struct sim_coordinator *coordinator = context;
	if (coordinator->is_lost && !sim_process_is_gone(&coordinator->process)) {
		sim_at(sim_now() + LOST_MS * MS, begin_again,
			coordinator); // what it still does is done to the old disk
	} else if (coordinator->process.dead && !coordinator->is_twin) {
		if (coordinator->is_lost) {
			sim_restore_put_back(coordinator);
		}
		coordinator->power = false;
		sim_process_begin(&coordinator->process);
	}
}

static void died(struct sim_process *process)
{
	struct sim_coordinator *coordinator = (struct sim_coordinator *)process;
	sim_trace("%s: dies%s", process->name, coordinator->power ? " with the power" : "");
	coordinator->serves = false;
	sim_world.coordinator_deaths++;
	sim_net_process_died(process);
	sim_disk_crash(sim_disk_of(coordinator->ledger_folder), coordinator->power);
	int64_t pause_ms = sim_world.healing ? 100 : sim_random_between(&sim_world.random, 100, RESTART_MS_MOST);
	sim_at(sim_now() + pause_ms * MS, begin_again, coordinator);
}

void sim_coordinator_begin(struct sim_coordinator *coordinator, const char *name, const char *folder)
{
	struct berth_error err;
	authority(); // made once, outside any run: it takes random numbers
	snprintf(coordinator->folder, sizeof coordinator->folder, "%s/%s", folder, name);
	snprintf(coordinator->ledger_folder, sizeof coordinator->ledger_folder, "%s/ledger", coordinator->folder);
	berth_mkdir_all(coordinator->folder, 0700, &err);
	BERTH_AUTO_FREE char *ledger_key_file = berth_format("%s.ledger-key", coordinator->folder);
	sim_key_put(sim_ledger_key(), ledger_key_file); // a twin has it as well
	sim_operator_key();
	snprintf(coordinator->process.name, sizeof coordinator->process.name, "%s", name);
	coordinator->address = coordinator->is_twin ? "twin" : "coordinator";
	coordinator->process.host = &coordinator->host;
	coordinator->process.main = run;
	coordinator->process.stop = stop;
	coordinator->process.died = died;
}
