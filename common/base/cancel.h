// SPDX-License-Identifier: Apache-2.0
// A cancel token: fires once, from any thread, and wakes everything that waits under it within milliseconds.
//
// Tokens form a tree: a child fires when its parent does. Free a child before its parent. Any thread may fire, ask and
// hook; one thread owns the token and frees it, after everything that waits under it has returned.
#pragma once

#include <stdbool.h>

#include "common/base/clock.h"
#include "common/base/error.h"

struct berth_cancel;

struct berth_cancel *berth_cancel_new(struct berth_cancel *parent); // parent may be NULL
void berth_cancel_free(struct berth_cancel *cancel);		    // NULL is allowed
void berth_cancel_fire(struct berth_cancel *cancel);
bool berth_cancel_fired(const struct berth_cancel *cancel);
// Readable once the token has fired: for poll beside sockets. Belongs to the token.
int berth_cancel_fd(const struct berth_cancel *cancel);

// A hook runs once, in the firing thread, or at once where the token has fired already. It must not block. After
// berth_cancel_unhook returns it is neither running nor will it run.
struct berth_cancel_hook {
	void (*run)(void *context);
	void *context;
	struct berth_cancel_hook *prev, *next;
	struct berth_cancel *owner;
};
void berth_cancel_hook(struct berth_cancel *cancel, struct berth_cancel_hook *hook);
void berth_cancel_unhook(struct berth_cancel_hook *hook);

// Sleeps `ms` milliseconds; false with CANCELLED or TIMEOUT when `until` is over first.
bool berth_sleep_ms(int64_t ms, struct berth_until until, struct berth_error *err);
// Fills err with CANCELLED or TIMEOUT ("`what` was cancelled", "`what` timed out") for an `until` that is over.
bool berth_fail_until(struct berth_until until, struct berth_error *err, const char *what);
