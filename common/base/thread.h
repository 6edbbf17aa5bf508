// SPDX-License-Identifier: Apache-2.0
// Threads with small stacks and blocked signals: only main waits for signals (sigwait), and SIGPIPE is ignored.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

#define BERTH_STACK_DEFAULT_SIZE (256 * 1024)

// Call first in main: blocks every signal that ends or stops a program politely, and ignores SIGPIPE.
void berth_threads_setup(void);
// Sleeps until SIGINT or SIGTERM (returned), or SIGHUP.
int berth_threads_wait_signal(void);
// `name` has at most 15 bytes. The thread must be joined.
bool berth_thread_start(
	pthread_t *thread, const char *name, void *(*run)(void *), void *context, struct berth_error *err);
