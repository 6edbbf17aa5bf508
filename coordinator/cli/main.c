// SPDX-License-Identifier: Apache-2.0
// The process around the command: streams, environment and signals.
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/thread.h"
#include "common/rpc/rpc.h"
#include "coordinator/cli/cli.h"

struct signals {
	struct berth_cancel *interrupt, *detach;
	atomic_bool over;
};

static void *wait_for_signals(void *context)
{
	struct signals *signals = context;
	for (;;) {
		berth_threads_wait_signal();
		if (atomic_load(&signals->over)) {
			return NULL;
		}
		berth_cancel_fire(berth_cancel_fired(signals->interrupt) ? signals->detach : signals->interrupt);
	}
}

static const char *environment(void *context, const char *name)
{
	(void)context;
	return getenv(name);
}

static int columns_of(int fd)
{
	struct winsize size;
	return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// At its end the kernel takes back at once what the libraries would hand over piece by piece; only a search for leaks
// and races wants their way.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ENDS_AT_ONCE false
#else
#define ENDS_AT_ONCE true
#endif

int main(int argc, char **argv)
{
	if (ENDS_AT_ONCE) {
		berth_rpc_library_keep();
	}
	berth_threads_setup();
	berth_log_setup("berth", BERTH_LOG_WARN);
	struct signals signals = {.interrupt = berth_cancel_new(NULL), .detach = berth_cancel_new(NULL)};
	struct berth_cli_io io = {
		.in = stdin,
		.out = stdout,
		.err = stderr,
		.in_tty = isatty(STDIN_FILENO),
		.out_tty = isatty(STDOUT_FILENO),
		.err_tty = isatty(STDERR_FILENO),
		.columns = columns_of(STDERR_FILENO),
		.lookup = environment,
		.interrupt = signals.interrupt,
		.detach = signals.detach,
	};
	struct berth_error err;
	pthread_t thread;
	if (!berth_thread_start(&thread, "signals", wait_for_signals, &signals, &err)) {
		fprintf(stderr, "berth: %s\n", err.message);
		return berth_error_exit_code(err.code);
	}
	int code = berth_cli_main(argc, argv, &io);
	if (ENDS_AT_ONCE) {
		fflush(NULL);
		_exit(code);
	}
	berth_rpc_library_end();
	atomic_store(&signals.over, true);
	pthread_kill(thread, SIGHUP);
	pthread_join(thread, NULL);
	berth_cancel_free(signals.detach);
	berth_cancel_free(signals.interrupt);
	return code;
}
