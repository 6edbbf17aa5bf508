// SPDX-License-Identifier: Apache-2.0
// The agent's own bridge, known by its labels and its id. Engines let two networks have one name, since their check for
// it races with a create that a killed life of this agent has sent, and then no container starts on either, whichever
// way it names it. So each bridge that is made has a name of its own, and what is too much is removed.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/local/internal.h"
#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/base/mem.h"

#define NAME_KEPT 51

// "berth-FLEET-AGENT-" and digits that no other one has.
static char *new_name(const struct local *local)
{
	char id[BERTH_ID_SIZE];
	berth_random_id(id);
	BERTH_AUTO_FREE char *whole = berth_format("berth-%s-%s", local->fleet, local->agent);
	for (char *at = whole; *at; at++) {
		*at = isalnum((unsigned char)*at) || strchr("_.-", *at) ? *at : '-';
	}
	return berth_format("%.*s-%.8s", NAME_KEPT, whole, id);
}

char *local_network_id(struct local *local)
{
	pthread_mutex_lock(&local->lock);
	char *id = berth_strdup(local->network_id);
	pthread_mutex_unlock(&local->lock);
	return id;
}

static void keep(struct local *local, const char *id)
{
	pthread_mutex_lock(&local->lock);
	if (!local->network_id || strcmp(local->network_id, id) != 0) {
		free(local->network_id);
		local->network_id = berth_strdup(id);
	}
	pthread_mutex_unlock(&local->lock);
}

static bool list_networks(struct local *local, struct berth_docker_listed **listed, size_t *count,
	struct berth_until until, struct berth_error *err)
{
	const struct berth_docker_label labels[] = {
		{BERTH_LABEL_FLEET, local->fleet},
		{BERTH_LABEL_AGENT, local->agent},
	};
	return berth_docker_network_list(local->docker, labels, BERTH_COUNT(labels), listed, count, until, err);
}

// The one that is in use if it is there, else the same one whoever looks; NULL if there is none.
static const char *choose(struct local *local, const struct berth_docker_listed *listed, size_t count)
{
	BERTH_AUTO_FREE char *used = local_network_id(local);
	const char *chosen = NULL;
	for (size_t i = 0; i < count; i++) {
		if (used && strcmp(listed[i].id, used) == 0) {
			return listed[i].id;
		}
		chosen = chosen && strcmp(chosen, listed[i].id) < 0 ? chosen : listed[i].id;
	}
	return chosen;
}

// A container of an older life may still be on one: then it goes with a later sweep.
static void remove_others(struct local *local, const struct berth_docker_listed *listed, size_t count, const char *kept,
	struct berth_until until)
{
	for (size_t i = 0; i < count; i++) {
		struct berth_error err = {0};
		if (strcmp(listed[i].id, kept) != 0) {
			bool gone = berth_docker_network_remove(local->docker, listed[i].id, until, &err);
			berth_log_info("a second bridge of this agent", "network=%s removed=%s", listed[i].name,
				gone ? "true" : "false");
		}
	}
}

static bool find(struct local *local, bool *found, struct berth_until until, struct berth_error *err)
{
	struct berth_docker_listed *listed = NULL;
	size_t count = 0;
	if (!list_networks(local, &listed, &count, until, err)) {
		return false;
	}
	const char *chosen = choose(local, listed, count);
	*found = chosen != NULL;
	if (chosen) {
		keep(local, chosen);
		remove_others(local, listed, count, chosen, until);
	}
	berth_docker_listed_free(listed, count);
	return true;
}

bool local_network_settle(struct local *local, struct berth_until until, struct berth_error *err)
{
	bool found = false;
	if (!find(local, &found, until, err) || found) {
		return found;
	}
	const struct berth_docker_label labels[] = {
		{BERTH_LABEL_FLEET, local->fleet},
		{BERTH_LABEL_AGENT, local->agent},
	};
	BERTH_AUTO_FREE char *name = new_name(local);
	const struct berth_docker_network network = {
		.name = name,
		.isolate_containers = true,
		.labels = labels,
		.labels_count = BERTH_COUNT(labels),
	};
	BERTH_AUTO_FREE char *id = NULL;
	if (!berth_docker_network_create(local->docker, &network, &id, until, err)) {
		return berth_error_wrap(err, "network %s", name);
	}
	keep(local, id);
	return true;
}

bool berth_local_runner_remove_network(struct berth_runner *runner, struct berth_until until, struct berth_error *err)
{
	struct local *local = (struct local *)runner;
	struct berth_docker_listed *listed = NULL;
	size_t count = 0;
	if (!list_networks(local, &listed, &count, until, err)) {
		return false;
	}
	bool good = true;
	for (size_t i = 0; i < count && good; i++) {
		struct berth_error failure = {0};
		good = berth_docker_network_remove(local->docker, listed[i].id, until, &failure) ||
		       failure.code == BERTH_ERROR_NOT_FOUND ||
		       berth_fail(err, failure.code, "network %s: %s", listed[i].name, failure.message);
	}
	berth_docker_listed_free(listed, count);
	return good;
}
