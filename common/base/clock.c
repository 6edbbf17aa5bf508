// SPDX-License-Identifier: Apache-2.0
#include "common/base/clock.h"

#include <stdio.h>
#include <time.h>

#include "common/base/cancel.h"

#define LEFT_MS_MAX (60 * 60 * 1000)

static int64_t read_clock(clockid_t id)
{
	struct timespec now;
	clock_gettime(id, &now);
	return (int64_t)now.tv_sec * BERTH_NS_PER_S + now.tv_nsec;
}

int64_t berth_boot_ns(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

int64_t berth_wall_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

struct berth_until berth_within_ms(int64_t ms, struct berth_cancel *cancel)
{
	return berth_until_at_most_ms((struct berth_until){BERTH_NO_DEADLINE_NS, cancel}, ms);
}

struct berth_until berth_until_at_most_ms(struct berth_until until, int64_t ms)
{
	int64_t now = berth_boot_ns();
	int64_t deadline = ms > (INT64_MAX - now) / BERTH_NS_PER_MS ? BERTH_NO_DEADLINE_NS : now + ms * BERTH_NS_PER_MS;
	if (deadline < until.deadline_ns) {
		until.deadline_ns = deadline;
	}
	return until;
}

int berth_until_left_ms(struct berth_until until)
{
	if (until.cancel && berth_cancel_fired(until.cancel)) {
		return 0;
	}
	int64_t now = berth_boot_ns();
	if (until.deadline_ns <= now) {
		return 0;
	}
	int64_t left = (until.deadline_ns - now - 1) / BERTH_NS_PER_MS + 1;
	return left > LEFT_MS_MAX ? LEFT_MS_MAX : (int)left;
}

bool berth_until_over(struct berth_until until)
{
	return berth_until_left_ms(until) == 0;
}

static void date_text(int64_t wall_ns, char text[static BERTH_TIME_TEXT_SIZE], bool fraction_always)
{
	int64_t ns = wall_ns % BERTH_NS_PER_S;
	time_t seconds = (time_t)(wall_ns / BERTH_NS_PER_S);
	if (ns < 0) {
		ns += BERTH_NS_PER_S;
		seconds--;
	}
	struct tm tm;
	gmtime_r(&seconds, &tm);
	size_t used = strftime(text, BERTH_TIME_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	int us = (int)(ns / 1000);
	if (us || fraction_always) {
		used += (size_t)snprintf(text + used, BERTH_TIME_TEXT_SIZE - used, ".%06d", us);
	}
	snprintf(text + used, BERTH_TIME_TEXT_SIZE - used, "Z");
}

void berth_time_harbor(int64_t wall_ns, char text[static BERTH_TIME_TEXT_SIZE])
{
	date_text(wall_ns, text, true);
}

void berth_time_canonical(int64_t wall_ns, char text[static BERTH_TIME_TEXT_SIZE])
{
	date_text(wall_ns, text, false);
}
