// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/local/local.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/local/internal.h"
#include "common/base/digest.h"
#include "common/base/mem.h"

// A create whose answer was lost is carried out by a busy daemon within seconds; a minute is far out.
#define PLACEMENT_BOUND_MS  (60 * 1000)
#define NETWORK_NAME_MAX    60
#define NETWORK_NAME_DIGITS 12
#define NETWORK_NAME_KEPT   (NETWORK_NAME_MAX - NETWORK_NAME_DIGITS - 1)

// "berth-FLEET-AGENT". A name that had to be cut or cleaned ends in a hash, so that two agents never share one.
static char *network_name(const char *fleet, const char *agent)
{
	char *name = berth_format("berth-%s-%s", fleet, agent);
	bool changed = strlen(name) > NETWORK_NAME_MAX;
	for (char *at = name; *at; at++) {
		if (!isalnum((unsigned char)*at) && !strchr("_.-", *at)) {
			*at = '-';
			changed = true;
		}
	}
	if (!changed) {
		return name;
	}
	BERTH_AUTO_FREE char *whole = berth_format("%s\n%s", fleet, agent);
	struct berth_digest digest = berth_sha256(whole, strlen(whole));
	char hex[BERTH_DIGEST_HEX_SIZE];
	berth_digest_hex(&digest, hex);
	BERTH_AUTO_FREE char *cleaned = name;
	return berth_format("%.*s-%.*s", NETWORK_NAME_KEPT, cleaned, NETWORK_NAME_DIGITS, hex);
}

static bool find_network(struct local *local, bool *found, struct berth_until until, struct berth_error *err)
{
	const struct berth_docker_label labels[] = {
		{BERTH_LABEL_FLEET, local->fleet},
		{BERTH_LABEL_AGENT, local->agent},
	};
	struct berth_docker_listed *listed = NULL;
	size_t count = 0;
	if (!berth_docker_network_list(local->docker, labels, BERTH_COUNT(labels), &listed, &count, until, err)) {
		return false;
	}
	*found = false;
	for (size_t i = 0; i < count; i++) {
		*found = *found || strcmp(listed[i].name, local->network) == 0;
	}
	berth_docker_listed_free(listed, count);
	return true;
}

static bool ensure_network(struct local *local, struct berth_until until, struct berth_error *err)
{
	bool found;
	if (!find_network(local, &found, until, err)) {
		return false;
	}
	if (found) {
		return true;
	}
	const struct berth_docker_label labels[] = {
		{BERTH_LABEL_FLEET, local->fleet},
		{BERTH_LABEL_AGENT, local->agent},
	};
	const struct berth_docker_network network = {
		.name = local->network,
		.isolate_containers = true,
		.labels = labels,
		.labels_count = BERTH_COUNT(labels),
	};
	BERTH_AUTO_FREE char *id = NULL;
	struct berth_error failure = {0};
	if (berth_docker_network_create(local->docker, &network, &id, until, &failure)) {
		return true;
	}
	// Another runner of this agent may have been quicker.
	if (failure.code == BERTH_ERROR_CONFLICT && find_network(local, &found, until, err) && found) {
		return true;
	}
	return berth_fail(err, failure.code, "network %s: %s", local->network, failure.message);
}

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
	free(local->network);
	free(local->daemon_id);
	free(local->platform);
	free(local->os);
	free(local);
}

static const char *local_workdir(struct berth_environment *environment)
{
	return environment->workdir;
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
		.network = network_name(options->fleet, options->agent),
		.daemon_id = berth_strdup(info.daemon_id),
		.platform = berth_format("%s/%s", info.os_type, info.architecture),
		.os = berth_strdup(info.os_type),
		.foreign_cgroups = options->foreign_cgroups,
	};
	pthread_mutex_init(&local->lock, NULL);
	pthread_cond_init(&local->landed, NULL);
	if (!ensure_network(local, until, err)) {
		local_free(&local->runner);
		return NULL;
	}
	return &local->runner;
}

bool berth_local_runner_remove_network(struct berth_runner *runner, struct berth_until until, struct berth_error *err)
{
	struct local *local = (struct local *)runner;
	struct berth_error failure = {0};
	return berth_docker_network_remove(local->docker, local->network, until, &failure) ||
	       failure.code == BERTH_ERROR_NOT_FOUND ||
	       berth_fail(err, failure.code, "network %s: %s", local->network, failure.message);
}
