// SPDX-License-Identifier: Apache-2.0
#include "common/base/thread.h"

#include <errno.h>
#include <signal.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_SIZE (8 * BERTH_STACK_DEFAULT_SIZE)
#else
#define STACK_SIZE BERTH_STACK_DEFAULT_SIZE
#endif

static sigset_t waited_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	return set;
}

void berth_threads_setup(void)
{
	sigset_t set = waited_signals();
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int berth_threads_wait_signal(void)
{
	sigset_t set = waited_signals();
	int number = 0;
	while (sigwait(&set, &number) != 0) {
	}
	return number;
}

bool berth_thread_start(
	pthread_t *thread, const char *name, void *(*run)(void *), void *context, struct berth_error *err)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	int status = pthread_create(thread, &attr, run, context);
	pthread_attr_destroy(&attr);
	if (status != 0) {
		errno = status;
		return berth_fail_errno(err, "cannot start the thread %s", name);
	}
	pthread_setname_np(*thread, name);
	return true;
}
