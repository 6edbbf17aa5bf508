// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/fiber.h"

#define GHOST_STEPS_MAX 200000
#define HAUNTING_MAX    32
#define STILL_STEPS_MAX 1000000

struct sim_thread {
	struct sim_process *process;
	struct fiber *fiber;
	void *(*run)(void *context);
	void *context;
	bool ready, waiting, done, lost, detached;
	const void *channel;
	int64_t wake_boot_ns;
	uint64_t waits; // tells an old timer from the one that counts
	bool timed_out;
	struct sim_thread *prev, *next;
};

struct due {
	int64_t at_ns;
	uint64_t tie;
	void (*call)(void *context);
	void *context;
	struct sim_thread *thread; // instead of a call: its wait is over
	uint64_t wait;
};

static struct {
	struct sim_random random;
	int64_t now_ns;
	uint64_t steps, last_tie;
	uint64_t moved_at; // the step at which time moved last
	struct due *heap;
	size_t heap_count;
	struct sim_thread **ready;
	size_t ready_count;
	struct sim_thread *current;
	struct sim_thread *unused; // a timer may still point at one, with a wait that is over
	struct sim_process *haunting[HAUNTING_MAX];
	size_t haunting_count;
	uint64_t stuck; // threads of the dead that did not come to their ends
} sched;

// --- the heap of what is due ---
static bool is_before(const struct due *a, const struct due *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->tie < b->tie);
}

static void push_due(struct due due)
{
	due.tie = ++sched.last_tie;
	sched.heap = berth_grow_array(sched.heap, sched.heap_count, sizeof *sched.heap);
	size_t at = sched.heap_count++;
	while (at > 0 && is_before(&due, &sched.heap[(at - 1) / 2])) {
		sched.heap[at] = sched.heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	sched.heap[at] = due;
}

static struct due pop_due(void)
{
	struct due first = sched.heap[0], last = sched.heap[--sched.heap_count];
	size_t at = 0, child;
	while ((child = 2 * at + 1) < sched.heap_count) {
		if (child + 1 < sched.heap_count && is_before(&sched.heap[child + 1], &sched.heap[child])) {
			child++;
		}
		if (!is_before(&sched.heap[child], &last)) {
			break;
		}
		sched.heap[at] = sched.heap[child];
		at = child;
	}
	sched.heap[at] = last;
	return first;
}

void sim_at(int64_t ns, void (*call)(void *context), void *context)
{
	push_due((struct due){.at_ns = ns > sched.now_ns ? ns : sched.now_ns, .call = call, .context = context});
}

// --- clocks ---
int64_t sim_now(void)
{
	return sched.now_ns;
}

uint64_t sim_stuck(void)
{
	return sched.stuck;
}

uint64_t sim_steps(void)
{
	return sched.steps;
}

static int64_t drifted(const struct sim_host *host, int64_t true_ns)
{
	return true_ns + (int64_t)((__int128)true_ns * host->drift_ppm / 1000000);
}

int64_t sim_host_boot_ns(const struct sim_host *host)
{
	return host->boot_base_ns + drifted(host, sched.now_ns);
}

int64_t sim_host_wall_ns(const struct sim_host *host)
{
	return host->frozen_wall_ns ? host->frozen_wall_ns : host->wall_base_ns + drifted(host, sched.now_ns);
}

static int64_t true_time_of(const struct sim_host *host, int64_t boot_ns)
{
	__int128 since = (__int128)(boot_ns - host->boot_base_ns) * 1000000;
	int64_t guess = (int64_t)(since / (1000000 + host->drift_ppm));
	while (host->boot_base_ns + drifted(host, guess) < boot_ns) {
		guess++;
	}
	return guess > sched.now_ns ? guess : sched.now_ns;
}

// --- threads ---
struct sim_process *sim_self(void)
{
	return sched.current ? sched.current->process : NULL;
}

static void make_ready(struct sim_thread *thread)
{
	thread->waiting = false;
	thread->waits++;
	thread->ready = true;
	sched.ready = berth_grow_array(sched.ready, sched.ready_count, sizeof *sched.ready);
	sched.ready[sched.ready_count++] = thread;
}

static void run_thread(void *context)
{
	struct sim_thread *thread = context;
	thread->run(thread->context);
	thread->done = true;
}

struct sim_thread *sim_thread_begin(struct sim_process *process, void *(*run)(void *context), void *context)
{
	struct sim_thread *thread = sched.unused;
	uint64_t waits = 0;
	if (thread) {
		sched.unused = thread->next;
		waits = thread->waits;
	} else {
		thread = berth_alloc(sizeof *thread);
	}
	*thread = (struct sim_thread){.waits = waits};
	thread->process = process;
	thread->run = run;
	thread->context = context;
	thread->fiber = fiber_new(run_thread, thread);
	DL_APPEND(process->threads, thread);
	process->threads_count++;
	make_ready(thread);
	return thread;
}

static void free_thread(struct sim_thread *thread)
{
	DL_DELETE(thread->process->threads, thread);
	thread->process->threads_count--;
	fiber_free(thread->fiber);
	thread->waits++;
	thread->waiting = false;
	thread->prev = NULL;
	thread->next = sched.unused;
	sched.unused = thread;
}

void sim_thread_detach(struct sim_thread *thread)
{
	thread->detached = true;
}

void sim_thread_join(struct sim_thread *thread)
{
	while (!thread->done && !thread->lost) {
		sim_wait(thread, SIM_NEVER);
	}
	if (thread->done) {
		free_thread(thread);
	}
}

static void drop_ready(size_t at)
{
	sched.ready[at]->ready = false;
	sched.ready[at] = sched.ready[--sched.ready_count];
}

static void forget_ready(const struct sim_thread *thread)
{
	for (size_t i = 0; thread->ready && i < sched.ready_count; i++) {
		if (sched.ready[i] == thread) {
			drop_ready(i);
		}
	}
}

static void resume(struct sim_thread *thread)
{
	sched.steps++;
	sched.current = thread;
	bool returned = fiber_resume(thread->fiber);
	sched.current = NULL;
	if (!returned) {
		return;
	}
	sim_wake(thread->process, thread);
	if (thread->detached) {
		free_thread(thread);
	}
}

bool sim_wait(const void *channel, int64_t until_ns)
{
	struct sim_thread *thread = sched.current;
	const struct sim_process *process = thread->process;
	thread->waiting = true;
	thread->channel = channel;
	thread->wake_boot_ns = until_ns;
	thread->timed_out = false;
	if (until_ns != SIM_NEVER && !process->dead) {
		push_due((struct due){
			.at_ns = true_time_of(process->host, until_ns), .thread = thread, .wait = thread->waits});
	}
	fiber_give_way(thread->fiber);
	return !thread->timed_out;
}

void sim_sleep_ns(int64_t ns)
{
	const struct sim_process *process = sim_self();
	int64_t boot_ns = process->dead ? process->ghost_boot_ns : sim_host_boot_ns(process->host);
	sim_wait(NULL, boot_ns + ns);
}

void sim_wake(struct sim_process *process, const void *channel)
{
	struct sim_thread *thread;
	DL_FOREACH (process->threads, thread) {
		if (thread->waiting && thread->channel == channel) {
			make_ready(thread);
		}
	}
}

void sim_exit(void)
{
	struct sim_thread *thread = sched.current;
	sim_process_die(thread->process);
	thread->lost = true;
	sim_wake(thread->process, thread);
	for (;;) {
		fiber_give_way(thread->fiber);
	}
}

// --- processes ---
static void *run_main(void *context)
{
	struct sim_process *process = context;
	process->main(process);
	sim_process_die(process);
	return NULL;
}

void sim_process_begin(struct sim_process *process)
{
	process->dead = process->stopped = process->haunts = false;
	process->ghost_boot_ns = 0;
	process->life++;
	sim_thread_detach(sim_thread_begin(process, run_main, process));
}

bool sim_process_is_gone(const struct sim_process *process)
{
	return !process->threads_count;
}

void sim_process_die(struct sim_process *process)
{
	if (process->dead) {
		return;
	}
	process->ghost_boot_ns = sim_host_boot_ns(process->host);
	process->dead = process->haunts = true;
	process->stopped = false;
	if (sched.haunting_count == HAUNTING_MAX) {
		abort();
	}
	sched.haunting[sched.haunting_count++] = process;
	process->died(process);
	sim_wake(process, process);
}

void sim_process_stop(struct sim_process *process)
{
	process->stopped = true;
}

void sim_process_continue(struct sim_process *process)
{
	process->stopped = false;
}

// Of a dead process: a thread that can run, after its time has flown to the next deadline where none could.
static struct sim_thread *next_of_ghost(struct sim_process *process)
{
	struct sim_thread *thread, *first = NULL;
	DL_FOREACH (process->threads, thread) {
		if (thread->ready) {
			return thread;
		}
		if (thread->waiting && thread->wake_boot_ns != SIM_NEVER &&
			(!first || thread->wake_boot_ns < first->wake_boot_ns)) {
			first = thread;
		}
	}
	if (first) {
		process->ghost_boot_ns =
			first->wake_boot_ns > process->ghost_boot_ns ? first->wake_boot_ns : process->ghost_boot_ns;
		first->timed_out = true;
		make_ready(first);
	}
	return first;
}

static void run_ghost(struct sim_process *process)
{
	process->stop(process);
	struct sim_thread *thread, *next;
	size_t steps = 0;
	while ((thread = next_of_ghost(process)) && steps++ < GHOST_STEPS_MAX) {
		forget_ready(thread);
		resume(thread);
	}
	DL_FOREACH_SAFE (process->threads, thread, next) {
		if (!thread->lost) {
			sched.stuck++;
		}
		forget_ready(thread);
		DL_DELETE(process->threads, thread); // its memory stays with it
		process->threads_count--;
	}
	process->haunts = false;
}

// --- the loop ---
void sim_sched_begin(uint64_t seed)
{
	sched.random = sim_random_stream(seed, SIM_STREAM_ORDER);
	sched.now_ns = 0;
	sched.steps = sched.moved_at = sched.last_tie = sched.stuck = 0;
	sched.heap_count = sched.ready_count = sched.haunting_count = 0;
}

static bool step_ready(void)
{
	if (!sched.ready_count) {
		return false;
	}
	size_t from = (size_t)sim_random_below(&sched.random, sched.ready_count);
	for (size_t i = 0; i < sched.ready_count; i++) {
		size_t at = (from + i) % sched.ready_count;
		struct sim_thread *thread = sched.ready[at];
		if (!thread->process->stopped) {
			drop_ready(at);
			resume(thread);
			return true;
		}
	}
	return false;
}

static void step_due(void)
{
	struct due due = pop_due();
	if (due.at_ns > sched.now_ns) {
		sched.now_ns = due.at_ns;
		sched.moved_at = sched.steps;
	}
	if (!due.thread) {
		sched.steps++;
		due.call(due.context);
	} else if (due.thread->waiting && due.thread->waits == due.wait) {
		due.thread->timed_out = true;
		make_ready(due.thread);
	}
}

void sim_sched_bury(void)
{
	while (sched.haunting_count) {
		run_ghost(sched.haunting[--sched.haunting_count]);
	}
}

void sim_sched_run(int64_t until_ns, const bool *over)
{
	while (!*over && sched.now_ns < until_ns) {
		if (sched.steps - sched.moved_at > STILL_STEPS_MAX) {
			sim_violation("I16", "time stands still: something runs again and again and waits for nothing");
			return;
		}
		if (sched.haunting_count) {
			run_ghost(sched.haunting[--sched.haunting_count]);
		} else if (!step_ready()) {
			if (!sched.heap_count) {
				return;
			}
			step_due();
		}
	}
}
