// SPDX-License-Identifier: Apache-2.0
// The two clocks, and deadlines with cancellation.
//
// Liveness and pacing use berth_boot_ns (CLOCK_BOOTTIME: it runs on while the host sleeps and no one can set it).
// Only persisted bounds use berth_wall_ns. The pure cores get both as arguments and never call these.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BERTH_NS_PER_MS	     INT64_C(1000000)
#define BERTH_NS_PER_S	     INT64_C(1000000000)
#define BERTH_NO_DEADLINE_NS INT64_MAX

struct berth_cancel;

// What bounds a call that blocks: it ends at `deadline_ns` (boot clock) or when `cancel` fires, whichever is first.
struct berth_until {
	int64_t deadline_ns;
	struct berth_cancel *cancel; // NULL: never cancelled
};

int64_t berth_boot_ns(void);
int64_t berth_wall_ns(void);
struct berth_until berth_within_ms(int64_t ms, struct berth_cancel *cancel);
// The same cancel token, and the earlier of its deadline and `ms` from now.
struct berth_until berth_until_at_most_ms(struct berth_until until, int64_t ms);
// Milliseconds left, rounded up, 0 when it is over, capped at one hour (callers wait in a loop).
int berth_until_left_ms(struct berth_until until);
bool berth_until_over(struct berth_until until);

// RFC 3339 in UTC with `Z`. Harbor's form has always six fraction digits; the ledger's only when they are not zero.
#define BERTH_TIME_TEXT_SIZE 40
void berth_time_harbor(int64_t wall_ns, char text[static BERTH_TIME_TEXT_SIZE]);
void berth_time_canonical(int64_t wall_ns, char text[static BERTH_TIME_TEXT_SIZE]);
