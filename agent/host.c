// SPDX-License-Identifier: Apache-2.0
#include "agent/host.h"

#include <stdlib.h>

#include "agent/runner/local/local.h"
#include "agent/trial/trial.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define SLOT_MEMORY_MB 2048 // that a trial has at least, when --slots is not given
#define MB             (INT64_C(1024) * 1024)

bool agent_host_open(struct agent_host *host, const struct agent_flags *flags,
	const struct agent_credentials *credentials, struct berth_error *err)
{
	*host = (struct agent_host){.flags = flags, .credentials = credentials, .http = berth_http_new(err)};
	return host->http != NULL;
}

void agent_host_close(struct agent_host *host)
{
	free(host->daemon_id);
	berth_docker_free(host->docker);
	berth_http_free(host->http);
}

static uint32_t slots_of(uint32_t cpus, uint64_t memory_mb)
{
	uint64_t slots = memory_mb / SLOT_MEMORY_MB;
	slots = slots < cpus ? slots : cpus;
	return slots ? (uint32_t)slots : 1;
}

static bool learn(
	struct agent_host *host, struct berth_session_facts *facts, struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO(berth_docker_info_free) struct berth_docker_info info = {0};
	if (!berth_docker_info(host->docker, &info, until, err)) {
		return false;
	}
	const struct agent_flags *flags = host->flags;
	int64_t disk_free = berth_disk_free(flags->state, NULL);
	free(facts->daemon_id);
	free(facts->platform);
	facts->daemon_id = berth_strdup(info.daemon_id);
	free(host->daemon_id);
	host->daemon_id = berth_strdup(info.daemon_id);
	facts->platform = berth_format("%s/%s", info.os_type, info.architecture);
	facts->cpus = flags->cpus ? flags->cpus : (uint32_t)info.cpus;
	facts->memory_mb = flags->memory_mb ? flags->memory_mb : (uint64_t)(info.memory_bytes / MB);
	facts->disk_mb = disk_free > 0 ? (uint64_t)(disk_free / MB) : 0;
	facts->slots = flags->slots ? flags->slots : slots_of(facts->cpus, facts->memory_mb);
	return true;
}

static struct berth_runner *open_runner(
	void *context, struct berth_session_facts *facts, struct berth_until until, struct berth_error *err)
{
	struct agent_host *host = context;
	if (!host->docker) {
		host->docker = berth_docker_open(host->http, host->flags->docker, until, err);
	}
	struct berth_local_options options = {.fleet = host->credentials->fleet, .agent = host->credentials->agent};
	struct berth_runner *runner = NULL;
	if (host->docker && learn(host, facts, until, err)) {
		runner = berth_local_runner_new(host->docker, &options, until, err);
	}
	if (!runner) {
		berth_error_wrap(err, "docker is needed (start it, or name its socket with --docker)");
	}
	return runner;
}

static bool probe(void *context, struct berth_until until, struct berth_error *err)
{
	struct agent_host *host = context;
	if (berth_docker_is(host->docker, host->daemon_id, until, err)) {
		return true;
	}
	return err->code == BERTH_ERROR_CONFLICT
	               ? false
	               : berth_error_wrap(err,
				 "docker does not answer (start it: running trials are not lost while it is away)");
}

struct berth_session_host agent_host_functions(struct agent_host *host)
{
	return (struct berth_session_host){.open = open_runner,
		.probe = probe,
		.run = berth_trial_run,
		.free_result = berth_trial_result_free,
		.context = host};
}
