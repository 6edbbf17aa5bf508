// SPDX-License-Identifier: Apache-2.0
// An agent process: the real session, on a simulated disk, network and Engine.
#include <stdlib.h>
#include <string.h>

#include "agent/session/session.h"
#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/keys.h"
#include "tests/sim/trial.h"
#include "tests/sim/world.h"

#define RESTART_MS_MOST 30000
#define MS              INT64_C(1000000)

static struct berth_runner *open_runner(
	void *context, struct berth_session_facts *facts, struct berth_until until, struct berth_error *err)
{
	(void)until;
	struct sim_agent *agent = context;
	if (sim_docker_is_down(agent->docker)) {
		berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the daemon does not answer");
		return NULL;
	}
	if (agent->has_no_network) {
		berth_fail(err, BERTH_ERROR_EXHAUSTED, "the daemon has no address pool left for the agent's bridge");
		return NULL;
	}
	free(facts->daemon_id);
	free(facts->platform);
	*facts = (struct berth_session_facts){.daemon_id = berth_strdup(agent->name),
		.platform = berth_strdup("linux/amd64"),
		.cpus = agent->cpus,
		.slots = agent->slots,
		.memory_mb = 16384};
	return sim_docker_runner(agent->docker);
}

static bool probe(void *context, struct berth_until until, struct berth_error *err)
{
	(void)until;
	struct sim_agent *agent = context;
	return !sim_docker_is_down(agent->docker) ||
	       berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the daemon does not answer");
}

static void run(struct sim_process *process)
{
	struct sim_agent *agent = (struct sim_agent *)process;
	struct berth_rpc_channel *channel =
		sim_net_channel(&agent->address, agent->number, BERTH_ROLE_AGENT, agent->name, agent->certificate);
	struct berth_session_options options = {.state = agent->folder,
		.fleet = "quay",
		.agent = agent->name,
		.version = "sim",
		.coordinator = channel,
		.blobs = channel,
		.host = {.open = open_runner,
			.probe = probe,
			.run = sim_run_trial,
			.free_result = sim_free_result,
			.context = agent},
		.ledger_key_der = sim_ledger_key()->der,
		.ledger_key_size = sim_ledger_key()->der_size,
		.drain_ms = 1,
		.disk_free_min_bytes = 1,
		.sweep_ms = 10000};
	struct berth_error err = {0};
	agent->stop = berth_cancel_new(NULL);
	sim_trace("%s: begins", agent->name);
	if (!berth_session_run(&options, agent->stop, &err)) {
		sim_trace("%s: ends: %s", agent->name, err.message);
	}
	berth_cancel_free(BERTH_STEAL(agent->stop));
}

static void stop(struct sim_process *process)
{
	struct sim_agent *agent = (struct sim_agent *)process;
	if (agent->stop) {
		berth_cancel_fire(agent->stop);
	}
}

static void begin_again(void *context)
{
	struct sim_agent *agent = context;
	if (agent->process.dead) {
		agent->power = false;
		sim_process_begin(&agent->process);
	}
}

static void died(struct sim_process *process)
{
	struct sim_agent *agent = (struct sim_agent *)process;
	sim_trace("%s: dies%s", process->name, agent->power ? " with the power" : "");
	sim_world.agent_deaths++;
	sim_runs_process_died(process);
	sim_net_process_died(process);
	sim_disk_crash(sim_disk_of(agent->store_folder), agent->power);
	int64_t pause_ms = sim_world.healing ? 100 : sim_random_between(&sim_world.random, 100, RESTART_MS_MOST);
	sim_at(sim_now() + pause_ms * MS, begin_again, agent);
}

void sim_agent_rotate(struct sim_agent *agent)
{
	if (strcmp(agent->certificate, agent->newest_certificate) != 0) {
		return; // one at a time
	}
	snprintf(agent->newest_certificate, sizeof agent->newest_certificate, "c0ffee%x",
		(unsigned)(sim_now() / BERTH_NS_PER_S) + 1);
	sim_coordinator_look(&sim_world.coordinator);
}

void sim_agent_take_certificate(struct sim_agent *agent)
{
	if (strcmp(agent->certificate, agent->newest_certificate) != 0) {
		memcpy(agent->certificate, agent->newest_certificate, sizeof agent->certificate);
		sim_net_break(agent->number);
	}
}

void sim_agent_begin(struct sim_agent *agent, unsigned number, const char *folder)
{
	struct berth_error err;
	agent->number = number;
	snprintf(agent->name, sizeof agent->name, "agent-%c", 'a' + (int)number);
	snprintf(agent->folder, sizeof agent->folder, "%s/%s", folder, agent->name);
	snprintf(agent->store_folder, sizeof agent->store_folder, "%s/store", agent->folder);
	berth_mkdir_all(agent->folder, 0700, &err);
	snprintf(agent->process.name, sizeof agent->process.name, "%s", agent->name);
	agent->address = "coordinator";
	snprintf(agent->certificate, sizeof agent->certificate, "c0ffee0");
	memcpy(agent->newest_certificate, agent->certificate, sizeof agent->certificate);
	agent->docker = sim_docker_new(agent->name);
	agent->process.host = &agent->host;
	agent->process.main = run;
	agent->process.stop = stop;
	agent->process.died = died;
}
