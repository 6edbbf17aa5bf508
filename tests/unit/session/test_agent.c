// SPDX-License-Identifier: Apache-2.0
// An agent on the fake host, as a process that can be killed: test_agent PORT FOLDER.
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "tests/unit/session/agent_under_test.h"

#define RUN_MS_MAX 40
#define SLOTS      3

struct process {
	struct berth_session_options options;
	struct berth_cancel *stop;
	bool ended_well;
	struct berth_error err;
};

static void *run(void *context)
{
	struct process *process = context;
	process->ended_well = berth_session_run(&process->options, process->stop, &process->err);
	if (!process->ended_well) {
		fprintf(stderr, "test agent: %s\n", process->err.message);
		_exit(1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		return 2;
	}
	berth_threads_setup();
	berth_log_setup("agent", BERTH_LOG_WARN);
	struct fake_host host;
	fake_host_open(&host, argv[2]);
	host.run_ms_max = RUN_MS_MAX;
	host.slots = SLOTS;
	BERTH_AUTO_FREE char *state = berth_format("%s/state", argv[2]);
	struct berth_rpc_channel *channel = open_channel(atoi(argv[1]));
	struct process process = {.options = agent_options(&host, channel, state), .stop = berth_cancel_new(NULL)};
	pthread_t thread;
	if (pthread_create(&thread, NULL, run, &process) != 0) {
		return 2;
	}
	berth_threads_wait_signal();
	berth_cancel_fire(process.stop);
	pthread_join(thread, NULL);
	berth_cancel_free(process.stop);
	berth_rpc_channel_free(channel);
	fake_host_close(&host);
	return 0;
}
