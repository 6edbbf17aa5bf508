// SPDX-License-Identifier: Apache-2.0
// What failpoint.c is told by the environment of the program that it is preloaded into, and the words of its log.
#pragma once

// Only files below this folder count. Without it the library does nothing.
#define FAILPOINT_ROOT "BERTH_FAILPOINT_ROOT"
// A file that gets one line a point: number, call, kind, phase, moment, separated by tabs. A run that kills or fails
// something logs only the points where it did; without either every point is logged, with moment "-".
#define FAILPOINT_LOG "BERTH_FAILPOINT_LOG"
// A file whose first FAILPOINT_PHASE_SIZE bytes name the phase of the script that drives the program; mapped, so that
// it may change at any time.
#define FAILPOINT_PHASE      "BERTH_FAILPOINT_PHASE"
#define FAILPOINT_PHASE_SIZE 32

// SIGKILL at the point with this number: before the call, after it, or torn, which is after half of a write's bytes.
#define FAILPOINT_KILL_AT "BERTH_FAILPOINT_KILL_AT"
#define FAILPOINT_MOMENT  "BERTH_FAILPOINT_MOMENT"
// How long the call waits for its death before, or torn, while the other threads go on: what they say too early leaves.
#define FAILPOINT_LINGER_MS "BERTH_FAILPOINT_LINGER_MS"

// Instead of a kill, an error: its name (ENOSPC, EIO, EMFILE), or "stall" for a call that takes FAILPOINT_STALL_MS
// longer.
#define FAILPOINT_ERROR    "BERTH_FAILPOINT_ERROR"
#define FAILPOINT_STALL_MS "BERTH_FAILPOINT_STALL_MS"
// Which calls it meets: call and kind ("*" is any), from the FROM-th such call on (1 is the first), TIMES of them (0:
// all that follow). The fault is in force only while the phase starts with FAILPOINT_DURING, when that is given.
#define FAILPOINT_CALL   "BERTH_FAILPOINT_CALL"
#define FAILPOINT_KIND   "BERTH_FAILPOINT_KIND"
#define FAILPOINT_FROM   "BERTH_FAILPOINT_FROM"
#define FAILPOINT_TIMES  "BERTH_FAILPOINT_TIMES"
#define FAILPOINT_DURING "BERTH_FAILPOINT_DURING"
