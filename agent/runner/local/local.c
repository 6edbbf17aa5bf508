// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/local/local.h"

#include <stdlib.h>
#include <string.h>

#include "agent/runner/local/internal.h"
#include "common/base/mem.h"

// A create whose answer was lost is carried out by a busy daemon within seconds; a minute is far out.
#define PLACEMENT_BOUND_MS (60 * 1000)

static void local_free(struct berth_runner *runner)
{
	struct local *local = (struct local *)runner;
	if (!local) {
		return;
	}
	while (local->leases) {
		local_lease_forget(local, local->leases->lease_id);
	}
	pthread_mutex_destroy(&local->lock);
	pthread_cond_destroy(&local->landed);
	free(local->fleet);
	free(local->agent);
	free(local->network_id);
	free(local->daemon_id);
	free(local->platform);
	free(local->os);
	free(local);
}

static const char *local_workdir(struct berth_environment *environment)
{
	return environment->workdir;
}

static bool local_tidy(struct berth_runner *runner, struct berth_until until, struct berth_error *err)
{
	return local_network_settle((struct local *)runner, until, err);
}

static struct berth_runner vtable(void)
{
	return (struct berth_runner){
		.name = "local",
		.backend = BERTH__V1__BACKEND__BACKEND_LOCAL,
		.placement_bound_ms = PLACEMENT_BOUND_MS,
		.prepare = local_prepare,
		.create = local_create,
		.open = local_open,
		.kill = local_kill,
		.tidy = local_tidy,
		.list_leases = local_list_leases,
		.exec = local_exec,
		.upload = local_upload,
		.put = local_put,
		.workdir = local_workdir,
		.download = local_download,
		.attest = local_attest,
		.close = local_close,
		.free = local_free,
	};
}

struct berth_runner *berth_local_runner_new(struct berth_docker *docker, const struct berth_local_options *options,
	struct berth_until until, struct berth_error *err)
{
	BERTH_AUTO(berth_docker_info_free) struct berth_docker_info info = {0};
	if (!berth_docker_info(docker, &info, until, err)) {
		return NULL;
	}
	struct local *local = berth_alloc(sizeof *local);
	*local = (struct local){
		.runner = vtable(),
		.docker = docker,
		.fleet = berth_strdup(options->fleet),
		.agent = berth_strdup(options->agent),
		.daemon_id = berth_strdup(info.daemon_id),
		.platform = berth_format("%s/%s", info.os_type, info.architecture),
		.os = berth_strdup(info.os_type),
		.foreign_cgroups = options->foreign_cgroups,
		.others_sent_ns = berth_boot_ns(),
	};
	pthread_mutex_init(&local->lock, NULL);
	pthread_cond_init(&local->landed, NULL);
	if (!local_network_settle(local, until, err)) {
		local_free(&local->runner);
		return NULL;
	}
	return &local->runner;
}
