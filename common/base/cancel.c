// SPDX-License-Identifier: Apache-2.0
#include "common/base/cancel.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "common/base/mem.h"

struct berth_cancel {
	atomic_bool fired;
	int fd;
	pthread_mutex_t lock; // guards hooks; held while a hook runs, so that unhook can promise that none is running
	struct berth_cancel_hook *hooks;
	struct berth_cancel_hook in_parent;
};

static void fire_hook(void *context)
{
	berth_cancel_fire(context);
}

struct berth_cancel *berth_cancel_new(struct berth_cancel *parent)
{
	struct berth_cancel *cancel = berth_alloc(sizeof *cancel);
	cancel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (cancel->fd < 0) {
		abort();
	}
	pthread_mutex_init(&cancel->lock, NULL);
	if (parent) {
		cancel->in_parent = (struct berth_cancel_hook){.run = fire_hook, .context = cancel};
		berth_cancel_hook(parent, &cancel->in_parent);
	}
	return cancel;
}

void berth_cancel_free(struct berth_cancel *cancel)
{
	if (!cancel) {
		return;
	}
	berth_cancel_unhook(&cancel->in_parent);
	close(cancel->fd);
	pthread_mutex_destroy(&cancel->lock);
	free(cancel);
}

void berth_cancel_fire(struct berth_cancel *cancel)
{
	pthread_mutex_lock(&cancel->lock);
	if (!atomic_exchange(&cancel->fired, true)) {
		eventfd_write(cancel->fd, 1);
		struct berth_cancel_hook *hook;
		while ((hook = cancel->hooks)) {
			DL_DELETE(cancel->hooks, hook);
			hook->prev = hook->next = NULL;
			hook->run(hook->context);
		}
	}
	pthread_mutex_unlock(&cancel->lock);
}

bool berth_cancel_fired(const struct berth_cancel *cancel)
{
	return atomic_load(&cancel->fired);
}

int berth_cancel_fd(const struct berth_cancel *cancel)
{
	return cancel->fd;
}

void berth_cancel_hook(struct berth_cancel *cancel, struct berth_cancel_hook *hook)
{
	pthread_mutex_lock(&cancel->lock);
	hook->owner = cancel;
	hook->prev = hook->next = NULL;
	if (atomic_load(&cancel->fired)) {
		hook->run(hook->context);
	} else {
		DL_APPEND(cancel->hooks, hook);
	}
	pthread_mutex_unlock(&cancel->lock);
}

void berth_cancel_unhook(struct berth_cancel_hook *hook)
{
	struct berth_cancel *cancel = hook->owner;
	if (!cancel) {
		return;
	}
	pthread_mutex_lock(&cancel->lock);
	if (hook->prev) {
		DL_DELETE(cancel->hooks, hook);
	}
	hook->owner = NULL;
	pthread_mutex_unlock(&cancel->lock);
}

bool berth_fail_until(struct berth_until until, struct berth_error *err, const char *what)
{
	if (until.cancel && berth_cancel_fired(until.cancel)) {
		return berth_fail(err, BERTH_ERROR_CANCELLED, "%s was cancelled", what);
	}
	return berth_fail(err, BERTH_ERROR_TIMEOUT, "%s timed out", what);
}

bool berth_sleep_ms(int64_t ms, struct berth_until until, struct berth_error *err)
{
	struct berth_until nap = berth_until_at_most_ms(until, ms);
	while (!berth_until_over(nap)) {
		struct pollfd poller = {.fd = until.cancel ? berth_cancel_fd(until.cancel) : -1, .events = POLLIN};
		poll(&poller, 1, berth_until_left_ms(nap));
	}
	if (berth_until_over(until)) {
		return berth_fail_until(until, err, "wait");
	}
	return true;
}
