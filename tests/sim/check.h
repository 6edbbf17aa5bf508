// SPDX-License-Identifier: Apache-2.0
// What a run says about itself: its trace, and the first promise that was broken.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

void sim_check_begin(bool tracing);
// A line of the trace, with the time. Costs nothing when no trace is kept.
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool sim_is_tracing(void);
// `promise` is its name in the design: "I7", "P1". The first one counts and ends the run.
void sim_violation(const char *promise, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sim_first_violation(void); // NULL: none
const bool *sim_is_violated(void);
// The newest lines, at most `most`.
void sim_trace_print(FILE *out, unsigned most);
