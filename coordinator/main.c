// SPDX-License-Identifier: Apache-2.0
// berth-coordinator: `init` makes a fleet's authority and first credentials, `serve` runs the coordinator.
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/rpc/rpc.h"
#include "coordinator/core/core.h"
#include "coordinator/init.h"
#include "coordinator/service/server.h"

#define VERSION            "0.1.0"
#define CREDENTIAL_MAX     (64 * 1024)
#define GRACE_MS           5000
#define HEAP_KEPT_BYTES    (32 * 1024 * 1024)
#define EXIT_FENCED        9
#define DISK_FREE_MB       1024
#define FILES_MAX          65536
#define CREATES_MAX        10000
#define CREATE_SECONDS_MAX 86400
#define CREATE_PLACES_MAX  1000000
#define CREATE_PERMIT_MS   30000

struct flags {
	const char *data, *credentials, *listen, *blobs_listen, *ready_file;
	const char *fleet, *out, *hosts;
	long hold_ms, heartbeat_ms, aging_ms, checkpoint_ms, max_generations, disk_free_min_mb;
	bool meter_local, cut_tail;
	struct berth_governor_policy create_policy;
};

static const char usage[] =
	"berth-coordinator init --fleet NAME --out DIR [--hosts NAME,ADDRESS,...]\n"
	"  Makes DIR/coordinator (authority, certificate, keys) and DIR/operator (for the `berth` command).\n"
	"  --hosts  names and addresses that clients reach the coordinator by (default: localhost,127.0.0.1)\n"
	"\n"
	"berth-coordinator serve --data DIR --credentials DIR [flags]\n"
	"  --listen ADDR            jobs, fleet and leases (default 127.0.0.1:7311)\n"
	"  --blobs-listen ADDR      task bundles and results (default 127.0.0.1:7312)\n"
	"  --hold-ms N              how long an agent keeps its trials without the coordinator (2000 or more, default "
	"600000)\n"
	"  --heartbeat-ms N         how often agents are heard (default: hold / 20, 500 to 10000)\n"
	"  --max-generations N      runs of one trial that the infrastructure may lose (default 5)\n"
	"  --aging-ms N             wait after which a trial keeps hosts and money for itself (default 600000)\n"
	"  --checkpoint-ms N        how often changed state is written beside the log, so that a start need not read\n"
	"                           it from its beginning (default 30000; sooner after 20000 events)\n"
	"  --disk-free-min-mb N     free space on the data disk below which nothing new is taken (default 1024)\n"
	"  --create-rate N/SECONDS  begin at most N environments in so many seconds, evenly spaced, in the whole "
	"fleet\n"
	"                           (default: as they come)\n"
	"  --create-places N        environments that may live at once (default: as many as agents hold)\n"
	"  --meter-local            local work needs a budget too\n"
	"  --cut-tail               after a power cut: drop what was never synced at the ledger's end and can't be "
	"read\n"
	"  --ready-file FILE        written once it serves: listen=PORT and blobs=PORT, a line each\n"
	"  --log-level LEVEL        debug, info, warn, error\n";

static bool number(const char *flag, const char *text, long least, long most, long *value, struct berth_error *err)
{
	char *end;
	*value = strtol(text, &end, 10);
	if (*end || end == text || *value < least || *value > most) {
		return berth_fail(err, BERTH_ERROR_INVALID, "--%s must be a whole number from %ld to %ld, not %s", flag,
			least, most, text);
	}
	return true;
}

enum {
	FLAG_DATA = 256,
	FLAG_CREDENTIALS,
	FLAG_LISTEN,
	FLAG_BLOBS,
	FLAG_READY,
	FLAG_FLEET,
	FLAG_OUT,
	FLAG_HOSTS,
	FLAG_HOLD,
	FLAG_HEARTBEAT,
	FLAG_AGING,
	FLAG_CHECKPOINT,
	FLAG_GENERATIONS,
	FLAG_DISK,
	FLAG_CREATE_RATE,
	FLAG_CREATE_PLACES,
	FLAG_METER,
	FLAG_CUT_TAIL,
	FLAG_LEVEL,
	FLAG_VERSION,
	FLAG_HELP
};

static const struct option options[] = {
	{"data", required_argument, NULL, FLAG_DATA},
	{"credentials", required_argument, NULL, FLAG_CREDENTIALS},
	{"listen", required_argument, NULL, FLAG_LISTEN},
	{"blobs-listen", required_argument, NULL, FLAG_BLOBS},
	{"ready-file", required_argument, NULL, FLAG_READY},
	{"fleet", required_argument, NULL, FLAG_FLEET},
	{"out", required_argument, NULL, FLAG_OUT},
	{"hosts", required_argument, NULL, FLAG_HOSTS},
	{"hold-ms", required_argument, NULL, FLAG_HOLD},
	{"heartbeat-ms", required_argument, NULL, FLAG_HEARTBEAT},
	{"aging-ms", required_argument, NULL, FLAG_AGING},
	{"checkpoint-ms", required_argument, NULL, FLAG_CHECKPOINT},
	{"max-generations", required_argument, NULL, FLAG_GENERATIONS},
	{"disk-free-min-mb", required_argument, NULL, FLAG_DISK},
	{"create-rate", required_argument, NULL, FLAG_CREATE_RATE},
	{"create-places", required_argument, NULL, FLAG_CREATE_PLACES},
	{"meter-local", no_argument, NULL, FLAG_METER},
	{"cut-tail", no_argument, NULL, FLAG_CUT_TAIL},
	{"log-level", required_argument, NULL, FLAG_LEVEL},
	{"version", no_argument, NULL, FLAG_VERSION},
	{"help", no_argument, NULL, FLAG_HELP},
	{0},
};

static bool set_number(struct flags *flags, int flag, const char *value, struct berth_error *err)
{
	switch (flag) {
	case FLAG_HOLD:
		return number("hold-ms", value, BERTH_HOLD_MS_MIN, 24 * 3600 * 1000, &flags->hold_ms, err);
	case FLAG_HEARTBEAT:
		return number("heartbeat-ms", value, 50, 60000, &flags->heartbeat_ms, err);
	case FLAG_AGING:
		return number("aging-ms", value, 0, 24 * 3600 * 1000, &flags->aging_ms, err);
	case FLAG_CHECKPOINT:
		return number("checkpoint-ms", value, 1, 24 * 3600 * 1000, &flags->checkpoint_ms, err);
	case FLAG_GENERATIONS:
		return number("max-generations", value, 1, 100, &flags->max_generations, err);
	default:
		return number("disk-free-min-mb", value, 0, 1L << 30, &flags->disk_free_min_mb, err);
	}
}

static bool set_create_rate(struct flags *flags, const char *value, struct berth_error *err)
{
	char *end;
	long creates = strtol(value, &end, 10), seconds = *end == '/' ? strtol(end + 1, &end, 10) : 0;
	if (*end || creates < 1 || creates > CREATES_MAX || seconds < 1 || seconds > CREATE_SECONDS_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"--create-rate must be N/SECONDS, 1 to %d in 1 to %d seconds, as 4/1, not %s", CREATES_MAX,
			CREATE_SECONDS_MAX, value);
	}
	flags->create_policy.dispatches = (uint32_t)creates;
	flags->create_policy.period_ms = seconds * 1000;
	flags->create_policy.permit_ms = CREATE_PERMIT_MS;
	return true;
}

static bool set_create_places(struct flags *flags, const char *value, struct berth_error *err)
{
	long places;
	if (!number("create-places", value, 1, CREATE_PLACES_MAX, &places, err)) {
		return false;
	}
	flags->create_policy.places = (uint32_t)places;
	if (!flags->create_policy.dispatches) { // --create-rate may still say less
		flags->create_policy.dispatches = CREATES_MAX;
		flags->create_policy.period_ms = 1000;
		flags->create_policy.permit_ms = CREATE_PERMIT_MS;
	}
	return true;
}

static bool set_flag(struct flags *flags, int flag, const char *value, struct berth_error *err)
{
	enum berth_log_level level;
	const char **texts[] = {&flags->data, &flags->credentials, &flags->listen, &flags->blobs_listen,
		&flags->ready_file, &flags->fleet, &flags->out, &flags->hosts};
	if (flag >= FLAG_DATA && flag <= FLAG_HOSTS) {
		*texts[flag - FLAG_DATA] = value;
		return true;
	}
	switch (flag) {
	case FLAG_CREATE_RATE:
		return set_create_rate(flags, value, err);
	case FLAG_CREATE_PLACES:
		return set_create_places(flags, value, err);
	case FLAG_METER:
		flags->meter_local = true;
		return true;
	case FLAG_CUT_TAIL:
		flags->cut_tail = true;
		return true;
	case FLAG_LEVEL:
		if (!berth_log_level_parse(value, &level)) {
			return berth_fail(err, BERTH_ERROR_INVALID,
				"--log-level must be debug, info, warn or error, not %s", value);
		}
		berth_log_setup("coordinator", level);
		return true;
	case FLAG_VERSION:
		puts("berth-coordinator " VERSION);
		exit(0);
	case FLAG_HELP:
		fputs(usage, stdout);
		exit(0);
	case '?':
		return berth_fail(err, BERTH_ERROR_INVALID, "see berth-coordinator --help");
	default:
		return set_number(flags, flag, value, err);
	}
}

static bool parse(int argc, char **argv, struct flags *flags, struct berth_error *err)
{
	int flag;
	while ((flag = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (!set_flag(flags, flag, optarg, err)) {
			return false;
		}
	}
	return true;
}

static bool read_credential(const char *folder, const char *name, bool required, char **text, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	BERTH_AUTO(berth_buf_free) struct berth_buf content = {0};
	if (!required && !berth_file_exists(path)) {
		return true;
	}
	if (!berth_file_read(path, CREDENTIAL_MAX, &content, err)) {
		return berth_error_wrap(err, "--credentials %s (made by `berth-coordinator init`)", folder);
	}
	*text = berth_buf_steal(&content);
	return true;
}

static atomic_bool fenced;

static void on_fenced(void *context)
{
	(void)context;
	atomic_store(&fenced, true);
	kill(getpid(), SIGTERM);
}

static bool write_ready(const char *path, const struct berth_daemon *daemon, struct berth_error *err)
{
	if (!path) {
		return true;
	}
	BERTH_AUTO_FREE char *text = berth_format(
		"listen=%d\nblobs=%d\n", berth_coordinator_port(daemon), berth_coordinator_blobs_port(daemon));
	return berth_file_write_unsynced(path, text, strlen(text), 0644, err);
}

static int serve(const struct flags *flags, struct berth_error *err)
{
	if (!flags->data || !flags->credentials) {
		berth_fail(err, BERTH_ERROR_INVALID, "serve needs --data DIR and --credentials DIR");
		return berth_error_exit_code(err->code);
	}
	BERTH_AUTO_FREE char *authority = NULL;
	BERTH_AUTO_FREE char *authority_key = NULL;
	BERTH_AUTO_FREE char *certificate = NULL;
	BERTH_AUTO_FREE char *key = NULL;
	BERTH_AUTO_FREE char *secret_key_file = berth_path_join(flags->credentials, "secret.key");
	if (!read_credential(flags->credentials, "authority.pem", true, &authority, err) ||
		!read_credential(flags->credentials, "certificate.pem", true, &certificate, err) ||
		!read_credential(flags->credentials, "key.pem", true, &key, err) ||
		!read_credential(flags->credentials, "authority-key.pem", false, &authority_key, err)) {
		return berth_error_exit_code(err->code);
	}
	BERTH_AUTO_FREE char *ledger_key_file = berth_path_join(flags->credentials, "ledger-key.pem");
	struct berth_coordinator_options coordinator = {.data_folder = flags->data,
		.listen = flags->listen,
		.blobs_listen = flags->blobs_listen,
		.tls = {.authority = authority, .certificate = certificate, .key = key},
		.authority_key = authority_key,
		.secret_key_file = secret_key_file,
		.ledger_key_file = ledger_key_file,
		.hold_ms = flags->hold_ms,
		.heartbeat_ms = flags->heartbeat_ms,
		.aging_ms = flags->aging_ms,
		.checkpoint_ms = flags->checkpoint_ms,
		.max_generations = (uint32_t)flags->max_generations,
		.meter_local = flags->meter_local,
		.cut_tail = flags->cut_tail,
		.create_policy = flags->create_policy,
		.disk_free_min_bytes = flags->disk_free_min_mb * 1024 * 1024,
		.version = VERSION,
		.fenced = on_fenced};
	struct berth_daemon *daemon = berth_coordinator_start(&coordinator, err);
	if (!daemon) {
		return berth_error_exit_code(err->code);
	}
	bool ready = write_ready(flags->ready_file, daemon, err);
	if (ready) {
		berth_log_info("serving", "listen=%d blobs=%d", berth_coordinator_port(daemon),
			berth_coordinator_blobs_port(daemon));
		while (berth_threads_wait_signal() == SIGHUP) {
		}
	}
	berth_coordinator_stop(daemon, GRACE_MS);
	berth_rpc_library_end();
	berth_log_info("stopped", "fenced=%d", (int)atomic_load(&fenced));
	if (atomic_load(&fenced)) {
		return EXIT_FENCED;
	}
	return ready ? 0 : berth_error_exit_code(err->code);
}

static void limit_process(void)
{
	mallopt(M_ARENA_MAX, 2); // few arenas keep the process small
	// What a batch frees the next one takes: given back to the kernel in between, every page would be faulted in
	// again.
	mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
	mallopt(M_MMAP_THRESHOLD, HEAP_KEPT_BYTES / 16);
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_MAX) {
		files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

int main(int argc, char **argv)
{
	limit_process();
	berth_threads_setup();
	berth_log_setup("coordinator", BERTH_LOG_INFO);
	struct berth_error err = {0};
	struct flags flags = {.listen = "127.0.0.1:7311",
		.blobs_listen = "127.0.0.1:7312",
		.hosts = "localhost,127.0.0.1",
		.hold_ms = BERTH_HOLD_MS_DEFAULT,
		.aging_ms = BERTH_AGING_MS_DEFAULT,
		.checkpoint_ms = BERTH_CHECKPOINT_MS_DEFAULT,
		.max_generations = BERTH_MAX_GENERATIONS,
		.disk_free_min_mb = DISK_FREE_MB};
	int status;
	bool parsed = parse(argc, argv, &flags, &err);
	const char *verb = optind < argc ? argv[optind] : "";
	if (!flags.heartbeat_ms) {
		flags.heartbeat_ms = flags.hold_ms / 20 < 500     ? 500
		                     : flags.hold_ms / 20 > 10000 ? 10000
		                                                  : flags.hold_ms / 20;
	}
	if (!parsed) {
		status = berth_error_exit_code(err.code);
	} else if (strcmp(verb, "serve") == 0) {
		status = serve(&flags, &err);
	} else if (strcmp(verb, "init") == 0) {
		status = berth_coordinator_init(flags.fleet, flags.out, flags.hosts, &err)
		                 ? 0
		                 : berth_error_exit_code(err.code);
	} else {
		fputs(usage, stderr);
		return 2;
	}
	if (err.code != BERTH_ERROR_OK) {
		fprintf(stderr, "berth-coordinator: %s\n", err.message);
	}
	return status;
}
