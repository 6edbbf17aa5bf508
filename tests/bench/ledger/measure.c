// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ledger/measure.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/mem.h"

#define CDF_POINTS 50

void bench_must(bool condition, const struct berth_error *err)
{
	if (!condition) {
		bench_fail("%s", err->message);
	}
}

void bench_fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static size_t bucket_of(int64_t ns)
{
	uint64_t value = ns > 0 ? (uint64_t)ns : 0;
	if (value < HISTOGRAM_SUB) {
		return (size_t)value;
	}
	unsigned power = 63u - (unsigned)__builtin_clzll(value) - 5; // its top six bits and one stay
	size_t bucket = (size_t)power * HISTOGRAM_SUB + (size_t)(value >> (power - 1)) - HISTOGRAM_SUB;
	size_t last = (size_t)HISTOGRAM_SUB * HISTOGRAM_POWERS - 1;
	return bucket < last ? bucket : last;
}

static double bucket_ns(size_t bucket)
{
	if (bucket < HISTOGRAM_SUB) {
		return (double)bucket;
	}
	unsigned power = (unsigned)(bucket / HISTOGRAM_SUB);
	return (double)((uint64_t)(bucket % HISTOGRAM_SUB + HISTOGRAM_SUB) << (power - 1));
}

void histogram_add(struct histogram *histogram, int64_t ns)
{
	histogram->counts[bucket_of(ns)]++;
	histogram->total++;
	histogram->most_ns = ns > histogram->most_ns ? ns : histogram->most_ns;
}

void histogram_clear(struct histogram *histogram)
{
	memset(histogram, 0, sizeof *histogram);
}

double histogram_us(const struct histogram *histogram, double fraction)
{
	double wanted = fraction * (double)histogram->total;
	uint64_t seen = 0;
	for (size_t i = 0; i < BERTH_COUNT(histogram->counts); i++) {
		seen += histogram->counts[i];
		if (seen && (double)seen >= wanted) {
			return bucket_ns(i) / 1000;
		}
	}
	return 0;
}

void histogram_print(FILE *out, const struct histogram *histogram)
{
	fprintf(out,
		"{\"count\":%llu,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,"
		"\"cdf\":[",
		(unsigned long long)histogram->total, histogram_us(histogram, 0.5), histogram_us(histogram, 0.9),
		histogram_us(histogram, 0.99), histogram_us(histogram, 0.999), (double)histogram->most_ns / 1000);
	for (int i = 1; i <= CDF_POINTS; i++) {
		double fraction = (double)i / CDF_POINTS;
		fprintf(out, "%s[%.1f,%.2f]", i > 1 ? "," : "", histogram_us(histogram, fraction), fraction);
	}
	fputs("]}", out);
}

// Ticks of one process and of its children that were waited for; false when it is gone.
static bool read_ticks(pid_t pid, pid_t *parent, unsigned long *ticks)
{
	char path[64];
	unsigned long user, system, children_user, children_system;
	int of = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "r");
	if (!file) {
		return false;
	}
	int read = fscanf(file, "%*d (%*[^)]) %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu", &of, &user,
		&system, &children_user, &children_system);
	fclose(file);
	*parent = of;
	*ticks = user + system + children_user + children_system;
	return read == 5;
}

double process_cpu_us(pid_t pid)
{
	unsigned long sum = 0, ticks;
	pid_t parent;
	DIR *folder = pid ? opendir("/proc") : NULL;
	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		pid_t found = isdigit(entry->d_name[0]) ? (pid_t)strtol(entry->d_name, NULL, 10) : 0;
		if (found && read_ticks(found, &parent, &ticks) && (found == pid || parent == pid)) {
			sum += ticks;
		}
	}
	if (folder) {
		closedir(folder);
	}
	return (double)sum * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

double own_cpu_us(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

long process_rss_kb(pid_t pid)
{
	char path[64], line[256];
	long kb = 0;
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	FILE *file = pid ? fopen(path, "r") : NULL;
	while (file && fgets(line, sizeof line, file) && sscanf(line, "VmRSS: %ld", &kb) != 1) {
	}
	if (file) {
		fclose(file);
	}
	return kb;
}
