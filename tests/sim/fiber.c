// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/fiber.h"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "common/base/mem.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK_SIZE (1024 * 1024)
#else
#define STACK_SIZE (192 * 1024)
#endif

// A context starts a fiber on its stack; from then on jumps switch, which cost no system call.
struct fiber {
	ucontext_t context;
	jmp_buf place; // where it gave way
	bool started;
	void (*run)(void *context);
	void *argument;
	void *stack;
	bool returned;
	struct fiber *next; // of those that are free
};

static jmp_buf scheduler;
static struct fiber *entering;
static struct fiber *idle; // fibers whose stacks wait for the next

#if defined(__SANITIZE_ADDRESS__)
static const void *scheduler_stack;
static size_t scheduler_size;
#define LEAVING(save, bottom, size) __sanitizer_start_switch_fiber(save, bottom, size)
#define ARRIVED(save, bottom, size) __sanitizer_finish_switch_fiber(save, bottom, size)
#else
#define LEAVING(save, bottom, size) (void)(save)
#define ARRIVED(save, bottom, size) (void)(save)
#endif

static void enter(void)
{
	struct fiber *fiber = entering;
	ARRIVED(NULL, &scheduler_stack, &scheduler_size);
	fiber->run(fiber->argument);
	fiber->returned = true;
	LEAVING(NULL, scheduler_stack, scheduler_size);
	_longjmp(scheduler, 1);
}

static void prepare(ucontext_t *context, void *stack)
{
	getcontext(context);
	context->uc_stack.ss_sp = stack;
	context->uc_stack.ss_size = STACK_SIZE;
	context->uc_link = NULL;
	makecontext(context, enter, 0);
}

struct fiber *fiber_new(void (*run)(void *context), void *context)
{
	struct fiber *fiber = idle;
	if (fiber) {
		idle = fiber->next;
	} else {
		fiber = berth_alloc(sizeof *fiber);
		fiber->stack = mmap(
			NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (fiber->stack == MAP_FAILED) {
			abort();
		}
	}
	fiber->run = run;
	fiber->argument = context;
	fiber->returned = fiber->started = false;
	prepare(&fiber->context, fiber->stack);
	return fiber;
}

bool fiber_resume(struct fiber *fiber)
{
	void *volatile fake = NULL;
	entering = fiber;
	LEAVING((void **)&fake, fiber->stack, STACK_SIZE);
	if (!_setjmp(scheduler)) {
		if (fiber->started) {
			_longjmp(fiber->place, 1);
		}
		fiber->started = true;
		setcontext(&fiber->context);
	}
	ARRIVED(fake, NULL, NULL);
	return fiber->returned;
}

void fiber_give_way(struct fiber *fiber)
{
	void *volatile fake = NULL;
	LEAVING((void **)&fake, scheduler_stack, scheduler_size);
	if (!_setjmp(fiber->place)) {
		_longjmp(scheduler, 1);
	}
	ARRIVED(fake, &scheduler_stack, &scheduler_size);
}

void fiber_free(struct fiber *fiber)
{
#if defined(__SANITIZE_ADDRESS__)
	__asan_unpoison_memory_region(fiber->stack, STACK_SIZE);
#endif
	fiber->next = idle;
	idle = fiber;
}
