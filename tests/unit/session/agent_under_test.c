// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/session/agent_under_test.h"

#include <stdlib.h>

#include "berth_descriptors.h"
#include "common/base/mem.h"

struct berth_rpc_channel *open_channel(int port)
{
	BERTH_AUTO_FREE char *address = berth_format("127.0.0.1:%d", port);
	struct berth_rpc_channel_options options = {.address = address,
		.descriptor_set = berth_descriptor_set,
		.descriptor_set_size = berth_descriptor_set_size,
		.reconnect_ms_max = 200};
	struct berth_error err;
	struct berth_rpc_channel *channel = berth_rpc_channel_new(&options, &err);
	if (!channel) {
		fprintf(stderr, "channel: %s\n", err.message);
		abort();
	}
	return channel;
}

struct berth_session_options agent_options(struct fake_host *host, struct berth_rpc_channel *channel, const char *state)
{
	static const char *const capabilities[] = {"local"};
	return (struct berth_session_options){
		.state = state,
		.fleet = FAKE_FLEET,
		.agent = "quay-1",
		.version = "1",
		.capabilities = capabilities,
		.capabilities_count = 1,
		.coordinator = channel,
		.blobs = channel,
		.host = fake_host_functions(host),
		.drain_ms = 20000,
		.disk_free_min_bytes = 1,
		.probe_ms = 50,
		.sweep_ms = 100,
	};
}

static void *run(void *context)
{
	struct agent_under_test *agent = context;
	agent->ended_well = berth_session_run(&agent->options, agent->stop, &agent->err);
	return NULL;
}

void agent_start(struct agent_under_test *agent, struct fake *fake, struct fake_host *host, const char *state)
{
	agent->fake = fake;
	agent->channel = open_channel(fake->port);
	agent->options = agent_options(host, agent->channel, state);
	if (agent->disk_free_min_bytes) {
		agent->options.disk_free_min_bytes = agent->disk_free_min_bytes;
	}
	if (agent->drain_ms) {
		agent->options.drain_ms = agent->drain_ms;
	}
	agent->stop = berth_cancel_new(NULL);
	pthread_create(&agent->thread, NULL, run, agent);
}

void agent_end(struct agent_under_test *agent)
{
	berth_cancel_fire(agent->stop);
	pthread_join(agent->thread, NULL);
	berth_cancel_free(agent->stop);
	berth_rpc_channel_free(agent->channel);
	// What the coordinator's threads wrote is the test's to read now.
	pthread_mutex_lock(&agent->fake->lock);
	pthread_mutex_unlock(&agent->fake->lock);
	assert_ok(agent->ended_well, agent->err);
}
