// SPDX-License-Identifier: Apache-2.0
// pilot: drives a real coordinator through the scripted job, or through jobs without an end while it is killed. See
// docs/CRASH.md; campaign.py and random_kills.py call it.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/rpc/rpc.h"
#include "tests/crash/chaos.h"

static const char usage[] =
	"pilot run --coordinator PROGRAM --folder DIR [--preload LIBRARY] [--life 1|2] [--checkpoint-ms N] "
	"[--hold-ms N]\n"
	"  [--faults] [NAME=VALUE...]\n"
	"  The scripted job in an empty folder. The variables go to that life; points are logged in DIR/points.\n"
	"  --faults  the variables make the disk fail: a life may end by itself, or refuse\n"
	"  Prints: ok, lives, deaths, worst recovery in ms, refusals, the first end's wait status; or: broken, and "
	"why.\n"
	"pilot chaos --coordinator PROGRAM --berth PROGRAM --folder DIR --seed N --kills N --audit-every N\n";

enum {
	FLAG_COORDINATOR = 256,
	FLAG_PRELOAD,
	FLAG_FOLDER,
	FLAG_LIFE,
	FLAG_CHECKPOINT,
	FLAG_HOLD,
	FLAG_FAULTS,
	FLAG_BERTH,
	FLAG_SEED,
	FLAG_KILLS,
	FLAG_AUDIT,
};

static const struct option options[] = {
	{"coordinator", required_argument, NULL, FLAG_COORDINATOR},
	{"preload", required_argument, NULL, FLAG_PRELOAD},
	{"folder", required_argument, NULL, FLAG_FOLDER},
	{"life", required_argument, NULL, FLAG_LIFE},
	{"checkpoint-ms", required_argument, NULL, FLAG_CHECKPOINT},
	{"hold-ms", required_argument, NULL, FLAG_HOLD},
	{"faults", no_argument, NULL, FLAG_FAULTS},
	{"berth", required_argument, NULL, FLAG_BERTH},
	{"seed", required_argument, NULL, FLAG_SEED},
	{"kills", required_argument, NULL, FLAG_KILLS},
	{"audit-every", required_argument, NULL, FLAG_AUDIT},
	{0},
};

struct flags {
	struct port_options port;
	struct chaos_options chaos;
	unsigned life;
};

static bool parse(int argc, char **argv, struct flags *flags)
{
	int flag;
	while ((flag = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (flag) {
		case FLAG_COORDINATOR:
			flags->port.coordinator = optarg;
			break;
		case FLAG_PRELOAD:
			flags->port.preload = optarg;
			break;
		case FLAG_FOLDER:
			flags->port.folder = optarg;
			break;
		case FLAG_LIFE:
			flags->life = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case FLAG_CHECKPOINT:
			flags->port.checkpoint_ms = optarg;
			break;
		case FLAG_HOLD:
			flags->port.hold_ms = optarg;
			break;
		case FLAG_FAULTS:
			flags->port.faults = true;
			break;
		case FLAG_BERTH:
			flags->chaos.berth = optarg;
			break;
		case FLAG_SEED:
			flags->chaos.seed = strtoull(optarg, NULL, 10);
			break;
		case FLAG_KILLS:
			flags->chaos.kills = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case FLAG_AUDIT:
			flags->chaos.audit_every = (unsigned)strtoul(optarg, NULL, 10);
			break;
		default:
			return false;
		}
	}
	return flags->port.coordinator && flags->port.folder && optind < argc && flags->life >= 1 && flags->life <= 2;
}

static void run(struct script *script, const struct flags *flags, const char *const *plan)
{
	script->plans[flags->life - 1] = plan;
	script_run(script, flags->life == 2);
	const struct port *port = &script->port;
	printf("ok\t%u\t%u\t%.0f\t%u\t%d\n", port->lives, port->deaths, port->worst_ms, port->refusals,
		port->first_end);
}

int main(int argc, char **argv)
{
	struct berth_error err;
	struct script script = {.joined = false};
	struct flags flags = {.port = {.checkpoint_ms = "20", .hold_ms = "600000"},
		.life = 1,
		.chaos = {.kills = 100, .audit_every = 500}};
	berth_threads_setup();
	if (!parse(argc, argv, &flags)) {
		fputs(usage, stderr);
		return 2;
	}
	if (!berth_mkdir_all(flags.port.folder, 0700, &err)) {
		fprintf(stderr, "pilot: %s\n", err.message);
		return 1;
	}
	port_open(&script.port, &flags.port);
	script.hand.port = &script.port;
	if (strcmp(argv[optind], "chaos") == 0 && flags.chaos.berth) {
		chaos_run(&script, &flags.chaos);
	} else {
		run(&script, &flags, (const char *const *)argv + optind + 1);
	}
	hand_free(&script.hand);
	port_close(&script.port);
	berth_rpc_library_end();
	return 0;
}
