// SPDX-License-Identifier: Apache-2.0
// berth-agent: runs a fleet's trials on this host.
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/host.h"
#include "berth_descriptors.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#define FILES_MAX    65536
#define ARENAS_MAX   2
#define PERTURB_BYTE 0x5a
#define MB           (INT64_C(1024) * 1024)
#define MS_PER_S     1000

struct agent {
	struct berth_session_options options;
	struct berth_cancel *stop;
	bool ended_well;
	struct berth_error err;
};

static void limit_process(const struct agent_flags *flags)
{
	// Few arenas keep the process small; freed memory is overwritten, so that no secret of an ended trial stays.
	mallopt(M_ARENA_MAX, ARENAS_MAX);
	mallopt(M_PERTURB, PERTURB_BYTE);
	if (!flags->core_dumps) {
		prctl(PR_SET_DUMPABLE, 0);
	}
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_MAX) {
		files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static struct berth_rpc_channel *open_channel(
	const char *flag, const char *address, const struct berth_rpc_tls *tls, struct berth_error *err)
{
	struct berth_rpc_channel_options options = {.address = address,
		.tls = tls,
		.descriptor_set = berth_descriptor_set,
		.descriptor_set_size = berth_descriptor_set_size};
	struct berth_rpc_channel *channel = berth_rpc_channel_new(&options, err);
	if (!channel) {
		berth_error_wrap(err, "--%s %s", flag, address);
	}
	return channel;
}

static void *session_thread(void *context)
{
	struct agent *agent = context;
	agent->ended_well = berth_session_run(&agent->options, agent->stop, &agent->err);
	kill(getpid(), SIGTERM); // for main, when it did not ask for the end
	return NULL;
}

static bool run_session(struct agent *agent, struct berth_error *err)
{
	agent->stop = berth_cancel_new(NULL);
	pthread_t thread;
	bool started = berth_thread_start(&thread, "session", session_thread, agent, err);
	if (started) {
		while (berth_threads_wait_signal() == SIGHUP) {
		}
		berth_cancel_fire(agent->stop);
		pthread_join(thread, NULL);
	}
	berth_cancel_free(agent->stop);
	if (started && !agent->ended_well && agent->err.code == BERTH_ERROR_TIMEOUT) {
		// Threads still run, so nothing that they use may be freed. The next start settles the rest.
		berth_log_warn("ended with trials left", "error=%s", berth_log_quote(agent->err.message));
		_exit(EXIT_SUCCESS);
	}
	if (started && !agent->ended_well) {
		*err = agent->err;
	}
	return started && agent->ended_well;
}

static bool run_with(const struct agent_flags *flags, const struct agent_credentials *credentials,
	struct agent_host *host, struct berth_error *err)
{
	static const char *const capabilities[] = {"local"};
	struct berth_rpc_tls tls = {
		.authority = credentials->authority, .certificate = credentials->certificate, .key = credentials->key};
	struct berth_signing_key *key = berth_signing_key_open(credentials->signing_file, err);
	struct berth_rpc_channel *coordinator = key ? open_channel("coordinator", flags->coordinator, &tls, err) : NULL;
	struct berth_rpc_channel *blobs = coordinator ? open_channel("blobs", flags->blobs, &tls, err) : NULL;
	struct agent agent = {.options = {.state = flags->state,
				      .fleet = credentials->fleet,
				      .agent = credentials->agent,
				      .version = AGENT_VERSION,
				      .capabilities = capabilities,
				      .capabilities_count = BERTH_COUNT(capabilities),
				      .coordinator = coordinator,
				      .blobs = blobs,
				      .signing_key = key,
				      .ledger_key_der = credentials->ledger_key,
				      .ledger_key_size = credentials->ledger_key_size,
				      .host = agent_host_functions(host),
				      .drain_ms = flags->drain_s * MS_PER_S,
				      .disk_free_min_bytes = flags->disk_free_min_mb * MB,
				      .cut_tail = flags->cut_tail,
				      .bundles_bytes_max = flags->bundles_mb * MB}};
	bool done = blobs && run_session(&agent, err);
	berth_rpc_channel_free(blobs);
	berth_rpc_channel_free(coordinator);
	berth_rpc_library_end();
	berth_signing_key_free(key);
	return done;
}

static bool run(const struct agent_flags *flags, struct berth_error *err)
{
	struct agent_credentials credentials;
	struct agent_host host = {0};
	bool done = agent_credentials_load(&credentials, flags->credentials, err) &&
	            agent_host_open(&host, flags, &credentials, err) && run_with(flags, &credentials, &host, err);
	agent_host_close(&host);
	agent_credentials_free(&credentials);
	return done;
}

int main(int argc, char **argv)
{
	struct berth_error err = {0};
	struct agent_flags flags;
	bool done = agent_flags_parse(&flags, argc, argv, &err);
	if (done && flags.help) {
		fputs(agent_flags_usage(), stdout);
	} else if (done && flags.version) {
		puts("berth-agent " AGENT_VERSION);
	} else if (done) {
		berth_threads_setup();
		limit_process(&flags);
		berth_log_setup("agent", flags.level);
		done = run(&flags, &err);
	}
	agent_flags_free(&flags);
	if (!done) {
		fprintf(stderr, "berth-agent: %s\n", err.message);
		return berth_error_exit_code(err.code);
	}
	return EXIT_SUCCESS;
}
