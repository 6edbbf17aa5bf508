// SPDX-License-Identifier: Apache-2.0
// This host as a place for trials: its Docker Engine, and what it offers.
#pragma once

#include "agent/flags.h"
#include "agent/session/session.h"
#include "common/http/http.h"

struct agent_host {
	const struct agent_flags *flags;
	const struct agent_credentials *credentials;
	struct berth_http *http;
	char *daemon_id;             // of the daemon that answered at the start
	struct berth_docker *docker; // once it could be opened
};
bool agent_host_open(struct agent_host *host, const struct agent_flags *flags,
	const struct agent_credentials *credentials, struct berth_error *err);
void agent_host_close(struct agent_host *host);
struct berth_session_host agent_host_functions(struct agent_host *host);
