// SPDX-License-Identifier: Apache-2.0
// What the real code asks of the system, answered from the simulation. The linker takes a symbol from the program's own
// objects before it looks into an archive or a shared library, so the production libraries run as they are, on these.
// Outside a simulated thread the system itself is asked.
#include "tests/sim/seam.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "common/base/cancel.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "tests/sim/sched.h"

static struct sim_random ids;

void sim_seam_begin(uint64_t seed)
{
	ids = sim_random_stream(seed, SIM_STREAM_IDS);
}

// --- clocks ---
static int64_t boot_ns(const struct sim_process *process)
{
	return process->dead ? process->ghost_boot_ns : sim_host_boot_ns(process->host);
}

int clock_gettime(clockid_t id, struct timespec *at)
{
	const struct sim_process *process = sim_self();
	if (!process) {
		return (int)syscall(SYS_clock_gettime, id, at);
	}
	int64_t ns = id == CLOCK_REALTIME ? sim_host_wall_ns(process->host) : boot_ns(process);
	at->tv_sec = ns / BERTH_NS_PER_S;
	at->tv_nsec = ns % BERTH_NS_PER_S;
	return 0;
}

unsigned sleep(unsigned seconds)
{
	sim_sleep_ns(seconds * BERTH_NS_PER_S);
	return 0;
}

// --- randomness ---
extern char __executable_start, etext;

// Libraries seed generators of their own, once a process and not once a run.
static bool is_ours(const void *caller)
{
	return (const char *)caller >= &__executable_start && (const char *)caller < &etext;
}

ssize_t getrandom(void *data, size_t size, unsigned flags)
{
	if (!sim_self() || !is_ours(__builtin_return_address(0))) {
		return syscall(SYS_getrandom, data, size, flags);
	}
	uint8_t *bytes = data;
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		uint64_t word = sim_random_next(&ids);
		memcpy(bytes + i, &word, size - i < sizeof word ? size - i : sizeof word);
	}
	return (ssize_t)size;
}

// --- threads: one runs at a time and gives way only where it waits, so locks are free by themselves ---
bool berth_thread_start(
	pthread_t *thread, const char *name, void *(*run)(void *), void *context, struct berth_error *err)
{
	(void)name, (void)err;
	*thread = (pthread_t)sim_thread_begin(sim_self(), run, context);
	return true;
}

int pthread_join(pthread_t thread, void **result)
{
	(void)result;
	sim_thread_join((struct sim_thread *)thread);
	return 0;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
	pthread_mutex_unlock(lock);
	sim_wait(condition, SIM_NEVER);
	return pthread_mutex_lock(lock);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until)
{
	pthread_mutex_unlock(lock);
	bool woken = sim_wait(condition, until->tv_sec * BERTH_NS_PER_S + until->tv_nsec);
	pthread_mutex_lock(lock);
	return woken ? 0 : ETIMEDOUT;
}

int pthread_cond_signal(pthread_cond_t *condition)
{
	return pthread_cond_broadcast(condition);
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
	if (sim_self()) {
		sim_wake(sim_self(), condition);
	}
	return 0;
}

// --- the end of a process, and files ---
void _exit(int status)
{
	if (sim_self()) {
		sim_exit();
	}
	syscall(SYS_exit_group, status);
	__builtin_unreachable();
}

// Files live in memory for as long as the run.
int fsync(int fd)
{
	(void)fd;
	return 0;
}

static bool is_ghost(void)
{
	return sim_self() && sim_self()->dead;
}

int unlink(const char *path)
{
	return is_ghost() ? 0 : (int)syscall(SYS_unlink, path);
}

int rename(const char *from, const char *to)
{
	return is_ghost() ? 0 : (int)syscall(SYS_rename, from, to);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
	return is_ghost() ? (ssize_t)size : syscall(SYS_pwrite64, fd, data, size, offset);
}

int statvfs(const char *path, struct statvfs *info)
{
	(void)path;
	*info = (struct statvfs){.f_bavail = 1 << 30, .f_frsize = 4096, .f_bsize = 4096};
	return 0;
}

// --- cancel tokens, without descriptors ---
struct berth_cancel {
	bool fired;
	struct sim_process *process;
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
	cancel->process = parent ? parent->process : sim_self();
	if (parent) {
		cancel->in_parent = (struct berth_cancel_hook){.run = fire_hook, .context = cancel};
		berth_cancel_hook(parent, &cancel->in_parent);
	}
	return cancel;
}

void berth_cancel_free(struct berth_cancel *cancel)
{
	if (cancel) {
		berth_cancel_unhook(&cancel->in_parent);
		free(cancel);
	}
}

void berth_cancel_fire(struct berth_cancel *cancel)
{
	if (cancel->fired) {
		return;
	}
	cancel->fired = true;
	struct berth_cancel_hook *hook;
	while ((hook = cancel->hooks)) {
		DL_DELETE(cancel->hooks, hook);
		hook->prev = hook->next = NULL;
		hook->run(hook->context);
	}
	sim_wake(cancel->process, cancel);
}

bool berth_cancel_fired(const struct berth_cancel *cancel)
{
	return cancel->fired;
}

int berth_cancel_fd(const struct berth_cancel *cancel)
{
	(void)cancel;
	return -1;
}

void berth_cancel_hook(struct berth_cancel *cancel, struct berth_cancel_hook *hook)
{
	hook->owner = cancel;
	hook->prev = hook->next = NULL;
	if (cancel->fired) {
		hook->run(hook->context);
	} else {
		DL_APPEND(cancel->hooks, hook);
	}
}

void berth_cancel_unhook(struct berth_cancel_hook *hook)
{
	if (hook->owner && hook->prev) {
		DL_DELETE(hook->owner->hooks, hook);
	}
	hook->owner = NULL;
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
		sim_wait(until.cancel, nap.deadline_ns);
	}
	return !berth_until_over(until) || berth_fail_until(until, err, "wait");
}
