// SPDX-License-Identifier: Apache-2.0
// What the loads of this folder measure with: latencies, a server's CPU time and memory, and failures that end a run.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/base/error.h"

// Ends the program with the error's message.
void bench_must(bool condition, const struct berth_error *err);
void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

// Latencies in nanoseconds, 64 buckets for each power of two: off by 1.6 % at most.
#define HISTOGRAM_SUB    64
#define HISTOGRAM_POWERS 36
struct histogram {
	uint64_t counts[HISTOGRAM_SUB * HISTOGRAM_POWERS];
	uint64_t total;
	int64_t most_ns;
};
void histogram_add(struct histogram *histogram, int64_t ns);
void histogram_clear(struct histogram *histogram);
double histogram_us(const struct histogram *histogram, double fraction); // quantile; 0 without a value
// As JSON: {"count":...,"p50_us":...,"p90_us":...,"p99_us":...,"p999_us":...,"max_us":...,"cdf":[[us,fraction],...]}.
void histogram_print(FILE *out, const struct histogram *histogram);

// CPU microseconds of a process and its children, those that have ended among them. 0 for pid 0.
double process_cpu_us(pid_t pid);
double own_cpu_us(void);
// Resident and peak memory in kB.
long process_rss_kb(pid_t pid);
