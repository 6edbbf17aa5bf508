// SPDX-License-Identifier: Apache-2.0
// The runner for a local Docker Engine: one container an environment, named and labelled by its lease.
#pragma once

#include "agent/docker/docker.h"
#include "agent/runner/runner.h"

// Label keys. A reap filters on fleet and agent.
#define BERTH_LABEL_FLEET      "dev.berth.fleet"
#define BERTH_LABEL_DAEMON     "dev.berth.daemon"
#define BERTH_LABEL_AGENT      "dev.berth.agent"
#define BERTH_LABEL_JOB        "dev.berth.job"
#define BERTH_LABEL_TRIAL      "dev.berth.trial"
#define BERTH_LABEL_GENERATION "dev.berth.generation"
#define BERTH_LABEL_LEASE      "dev.berth.lease"
#define BERTH_LABEL_ROLE       "dev.berth.role"
#define BERTH_LABEL_BUILD      "dev.berth.build" // images: the cache key

struct berth_local_options {
	const char *fleet;
	const char *agent;
	bool foreign_cgroups; // never touch the host's control groups, as if the daemon ran elsewhere
};

// Makes (or finds) the agent's own bridge, on which containers can't reach each other. `docker` outlives the runner.
struct berth_runner *berth_local_runner_new(struct berth_docker *docker, const struct berth_local_options *options,
	struct berth_until until, struct berth_error *err);
// Removes the bridge: when the agent leaves for good.
bool berth_local_runner_remove_network(struct berth_runner *runner, struct berth_until until, struct berth_error *err);
