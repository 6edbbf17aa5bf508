// SPDX-License-Identifier: Apache-2.0
// What a load asks of a coordinator as its operator: credentials of agents, a budget, jobs, and what became of them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/evidence/sign.h"
#include "common/rpc/client.h"

struct credentials {
	char *authority, *certificate, *key;
};

struct operator_ {
	char *folder; // of the fleet's credentials, as `berth-coordinator init` made it
	struct credentials own;
	struct berth_rpc_channel *main, *blobs;
	struct berth_signing_key *signing; // one for all agents of the load
};

void operator_connect(struct operator_ *operator_, const char *folder, int port, int blobs_port);
// The agent's credentials, enrolled now or in an earlier run.
struct credentials operator_agent(struct operator_ *operator_, const char *name);
struct berth_rpc_tls credentials_tls(const struct credentials *credentials);

struct job_request {
	const char *key;   // client key and name
	uint32_t tasks;    // each its own
	uint32_t attempts; // of each
	bool paid;         // on the load's budget, which is made when it is missing
};
// Puts the bundle, submits, and gives the job's id. *ns: how long the submit call took.
void operator_submit(
	struct operator_ *operator_, const struct job_request *request, char id[static BERTH_ID_SIZE], int64_t *ns);
void operator_cancel(struct operator_ *operator_, const char *job_id);

// What a coordinator says of a trial now.
struct trial_now {
	uint32_t generation;
	bool running, over;
};
// Of every trial of the job, by index; *count of them. The caller frees.
struct trial_now *operator_trials(struct operator_ *operator_, const char *job_id, uint32_t *count);
