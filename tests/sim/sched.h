// SPDX-License-Identifier: Apache-2.0
// Time, hosts, processes and their threads. One thread of the operating system; of the simulated threads that could
// run, the seed picks the next, and when none can, time jumps to the next thing that is due.
//
// A process that dies keeps running as a ghost: nothing that it does has an effect any more, its time flies, and its
// threads come to their ends at once, so that the memory of the real code is given back by the real code.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/random.h"

#define SIM_NEVER INT64_MAX

struct sim_thread;

// A machine: its clocks run on while its processes die.
struct sim_host {
	char name[24];
	int64_t boot_base_ns, wall_base_ns;
	int64_t drift_ppm;      // of both clocks against true time
	int64_t frozen_wall_ns; // where its wall clock stands still; 0: it does not
};

struct sim_process {
	char name[24];
	struct sim_host *host;
	bool dead;    // nothing has an effect any more
	bool stopped; // by SIGSTOP
	bool haunts;  // dead, and its threads have not come to their ends
	int64_t ghost_boot_ns;
	struct sim_thread *threads;
	size_t threads_count;
	// Of the process's own code: its main thread, and what makes that end in an orderly way (from the scheduler).
	void (*main)(struct sim_process *process);
	void (*stop)(struct sim_process *process);
	void (*died)(struct sim_process *process); // told at the moment of its death, also after its main has returned
	unsigned life;                             // counts its starts
};

// --- a run ---
void sim_sched_begin(uint64_t seed);
// Until `until_ns` of true time, or until *over.
void sim_sched_run(int64_t until_ns, const bool *over);
void sim_sched_bury(void); // runs what is left of the dead, at the end of a run
uint64_t sim_steps(void);
uint64_t sim_stuck(void); // threads of dead processes that never came to their ends: a fault of this simulation
int64_t sim_now(void);    // true time, from 0
int64_t sim_host_boot_ns(const struct sim_host *host);
int64_t sim_host_wall_ns(const struct sim_host *host);
// Calls once at that time, outside any thread.
void sim_at(int64_t ns, void (*call)(void *context), void *context);

// --- processes ---
void sim_process_begin(struct sim_process *process);
// Any time. The death is complete once the running thread gives way. Wakes who waits on the process itself.
void sim_process_die(struct sim_process *process);
void sim_process_stop(struct sim_process *process);     // SIGSTOP
void sim_process_continue(struct sim_process *process); // SIGCONT
bool sim_process_is_gone(const struct sim_process *process);

// --- threads; from inside one ---
struct sim_process *sim_self(void); // NULL outside
struct sim_thread *sim_thread_begin(struct sim_process *process, void *(*run)(void *context), void *context);
// Nobody joins it.
void sim_thread_detach(struct sim_thread *thread);
void sim_thread_join(struct sim_thread *thread);
// Until the channel is woken (true) or the host's boot clock reaches `until_ns` (false).
bool sim_wait(const void *channel, int64_t until_ns);
void sim_sleep_ns(int64_t ns); // of true time
void sim_wake(struct sim_process *process, const void *channel);
// As _exit: the process dies here.
void sim_exit(void) __attribute__((noreturn));
