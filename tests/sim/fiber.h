// SPDX-License-Identifier: Apache-2.0
// Threads of the simulated processes: coroutines on stacks of their own, switched by hand, one at a time.
#pragma once

#include <stdbool.h>

struct fiber;

// Runs `run(context)` when it is first switched to.
struct fiber *fiber_new(void (*run)(void *context), void *context);
// From the scheduler: runs the fiber until it gives way. True when its function has returned.
bool fiber_resume(struct fiber *fiber);
// From inside a fiber: back to the scheduler.
void fiber_give_way(struct fiber *fiber);
// The stack is used again for another fiber. One that never returned may be freed too: what it owned is lost.
void fiber_free(struct fiber *fiber);
