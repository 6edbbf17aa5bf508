// SPDX-License-Identifier: Apache-2.0
#include "agent/flags.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define SLOTS_MOST     1024
#define DRAIN_S        30
#define DISK_FREE_MB   2048
#define BUNDLES_MB     20480
#define PORT_MOST      65535
#define MEMORY_MB_MOST (INT64_C(1) << 30)

enum {
	FLAG_COORDINATOR = 256,
	FLAG_CREDENTIALS,
	FLAG_STATE,
	FLAG_DOCKER,
	FLAG_BLOBS,
	FLAG_SLOTS,
	FLAG_CPUS,
	FLAG_MEMORY,
	FLAG_DRAIN,
	FLAG_DISK,
	FLAG_BUNDLES,
	FLAG_LEVEL,
	FLAG_CORES,
	FLAG_CUT_TAIL,
	FLAG_VERSION,
	FLAG_HELP,
};

static const struct option options[] = {
	{"coordinator", required_argument, NULL, FLAG_COORDINATOR},
	{"credentials", required_argument, NULL, FLAG_CREDENTIALS},
	{"state", required_argument, NULL, FLAG_STATE},
	{"docker", required_argument, NULL, FLAG_DOCKER},
	{"blobs", required_argument, NULL, FLAG_BLOBS},
	{"slots", required_argument, NULL, FLAG_SLOTS},
	{"cpus", required_argument, NULL, FLAG_CPUS},
	{"memory-mb", required_argument, NULL, FLAG_MEMORY},
	{"drain-seconds", required_argument, NULL, FLAG_DRAIN},
	{"disk-free-min-mb", required_argument, NULL, FLAG_DISK},
	{"bundles-mb", required_argument, NULL, FLAG_BUNDLES},
	{"log-level", required_argument, NULL, FLAG_LEVEL},
	{"allow-core-dumps", no_argument, NULL, FLAG_CORES},
	{"cut-tail", no_argument, NULL, FLAG_CUT_TAIL},
	{"version", no_argument, NULL, FLAG_VERSION},
	{"help", no_argument, NULL, FLAG_HELP},
	{0},
};

const char *agent_flags_usage(void)
{
	return "berth-agent --coordinator ADDR --credentials DIR --state DIR [flags]\n"
	       "Runs trials that a coordinator gives to this host. Fleet and name come from the certificate.\n"
	       "  --coordinator ADDR      host:port\n"
	       "  --blobs ADDR            host:port of task bundles and results (default: the port after the "
	       "coordinator's)\n"
	       "  --credentials DIR       authority.pem, certificate.pem, key.pem and signing.pem, as `berth agent "
	       "enroll` writes them\n"
	       "  --state DIR             what must outlive this process; made when missing\n"
	       "  --docker HOST           unix:///PATH of the Engine (default: $DOCKER_HOST, then "
	       "unix:///var/run/docker.sock)\n"
	       "  --slots N               most trials at once (default: as many as have a CPU and 2 GB each)\n"
	       "  --cpus N                CPUs to offer (default: the Engine's)\n"
	       "  --memory-mb N           memory to offer (default: the Engine's)\n"
	       "  --drain-seconds N       how long SIGTERM waits for trials to end and reports to be sent (default "
	       "30)\n"
	       "  --disk-free-min-mb N    free space under --state below which no new trial is taken (default 2048)\n"
	       "  --bundles-mb N          most space for unpacked task bundles (default 20480)\n"
	       "  --log-level LEVEL       debug, info, warn, error (default info)\n"
	       "  --allow-core-dumps      a core dump of the agent may hold secrets of running trials\n"
	       "  --cut-tail              after a power cut: drop what was never synced at the store's end and can't "
	       "be "
	       "read\n"
	       "  --version, --help\n";
}

static bool number(
	const char *flag, const char *text, int64_t least, int64_t most, int64_t *value, struct berth_error *err)
{
	char *end;
	errno = 0;
	*value = strtoll(text, &end, 10);
	if (errno || *end || end == text || *value < least || *value > most) {
		return berth_fail(err, BERTH_ERROR_INVALID, "--%s must be a whole number from %lld to %lld, not \"%s\"",
			flag, (long long)least, (long long)most, text);
	}
	return true;
}

static bool set_number(struct agent_flags *flags, int flag, const char *text, struct berth_error *err)
{
	int64_t value = 0;
	switch (flag) {
	case FLAG_SLOTS:
		if (!number("slots", text, 1, SLOTS_MOST, &value, err)) {
			return false;
		}
		flags->slots = (uint32_t)value;
		return true;
	case FLAG_CPUS:
		if (!number("cpus", text, 1, SLOTS_MOST, &value, err)) {
			return false;
		}
		flags->cpus = (uint32_t)value;
		return true;
	case FLAG_MEMORY:
		if (!number("memory-mb", text, 1, MEMORY_MB_MOST, &value, err)) {
			return false;
		}
		flags->memory_mb = (uint64_t)value;
		return true;
	case FLAG_DRAIN:
		return number("drain-seconds", text, 0, 24 * 3600, &flags->drain_s, err);
	case FLAG_DISK:
		return number("disk-free-min-mb", text, 1, MEMORY_MB_MOST, &flags->disk_free_min_mb, err);
	default:
		return number("bundles-mb", text, 1, MEMORY_MB_MOST, &flags->bundles_mb, err);
	}
}

static bool set_flag(struct agent_flags *flags, int flag, const char *text, struct berth_error *err)
{
	const char **texts[] = {&flags->coordinator, &flags->credentials, &flags->state, &flags->docker};
	if (flag >= FLAG_COORDINATOR && flag <= FLAG_DOCKER) {
		*texts[flag - FLAG_COORDINATOR] = text;
		return true;
	}
	switch (flag) {
	case FLAG_BLOBS:
		free(flags->blobs);
		flags->blobs = berth_strdup(text);
		return true;
	case FLAG_LEVEL:
		return berth_log_level_parse(text, &flags->level) ||
		       berth_fail(err, BERTH_ERROR_INVALID,
			       "--log-level must be debug, info, warn or error, not \"%s\"", text);
	case FLAG_CORES:
		flags->core_dumps = true;
		return true;
	case FLAG_CUT_TAIL:
		flags->cut_tail = true;
		return true;
	case FLAG_VERSION:
		flags->version = true;
		return true;
	case FLAG_HELP:
		flags->help = true;
		return true;
	default:
		return set_number(flags, flag, text, err);
	}
}

// "host:7312" of "host:7311".
static bool derive_blobs(struct agent_flags *flags, struct berth_error *err)
{
	const char *colon = strrchr(flags->coordinator, ':');
	int64_t port;
	if (!colon || !number("coordinator", colon + 1, 1, PORT_MOST - 1, &port, NULL)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"--coordinator must be host:port, not \"%s\" (or give --blobs too)", flags->coordinator);
	}
	flags->blobs =
		berth_format("%.*s:%lld", (int)(colon - flags->coordinator), flags->coordinator, (long long)port + 1);
	return true;
}

static bool check(struct agent_flags *flags, struct berth_error *err)
{
	if (!flags->coordinator) {
		return berth_fail(
			err, BERTH_ERROR_INVALID, "--coordinator is missing: give the coordinator's host:port");
	}
	if (!flags->credentials) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"--credentials is missing: give the folder that `berth agent enroll` wrote");
	}
	if (!flags->state) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"--state is missing: give a folder of its own that outlives this process");
	}
	return flags->blobs || derive_blobs(flags, err);
}

bool agent_flags_parse(struct agent_flags *flags, int argc, char **argv, struct berth_error *err)
{
	*flags = (struct agent_flags){.drain_s = DRAIN_S,
		.disk_free_min_mb = DISK_FREE_MB,
		.bundles_mb = BUNDLES_MB,
		.level = BERTH_LOG_INFO};
	optind = 0; // begins anew, for a second parse in one process
	opterr = 0;
	int flag;
	while ((flag = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (flag == ':') {
			return berth_fail(err, BERTH_ERROR_INVALID, "%s needs a value", argv[optind - 1]);
		}
		if (flag == '?') {
			return berth_fail(err, BERTH_ERROR_INVALID, "there is no flag %s: see berth-agent --help",
				argv[optind - 1]);
		}
		if (!set_flag(flags, flag, optarg, err)) {
			return false;
		}
	}
	if (flags->help || flags->version) {
		return true;
	}
	if (optind < argc) {
		return berth_fail(err, BERTH_ERROR_INVALID, "berth-agent takes only flags, not \"%s\"", argv[optind]);
	}
	return check(flags, err);
}

void agent_flags_free(struct agent_flags *flags)
{
	free(flags->blobs);
}
