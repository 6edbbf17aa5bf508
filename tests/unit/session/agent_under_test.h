// SPDX-License-Identifier: Apache-2.0
// A session against the fake coordinator and the fake host, in this process, in a thread.
#pragma once

#include "tests/support/test.h"
#include "tests/unit/session/fake_coordinator.h"
#include "tests/unit/session/fake_host.h"

struct agent_under_test {
	int64_t disk_free_min_bytes, drain_ms; // when not 0
	struct berth_session_options options;
	struct fake *fake;
	struct berth_rpc_channel *channel;
	struct berth_cancel *stop;
	pthread_t thread;
	bool ended_well;
	struct berth_error err;
};

struct berth_rpc_channel *open_channel(int port);
// Options for an agent in `folder`/state, with short intervals.
struct berth_session_options agent_options(
	struct fake_host *host, struct berth_rpc_channel *channel, const char *state);
void agent_start(struct agent_under_test *agent, struct fake *fake, struct fake_host *host, const char *state);
void agent_end(struct agent_under_test *agent); // orderly; fails the test when it was not
