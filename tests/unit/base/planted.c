// SPDX-License-Identifier: Apache-2.0
// planted race|heap|overflow|leak: a fault of that kind through our own library, for planted_test.sh.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#define ROUNDS 1000

static void *add(void *context)
{
	struct berth_buf *buf = context;
	for (int i = 0; i < ROUNDS; i++) {
		berth_buf_add_byte(buf, 'x');
	}
	return NULL;
}

// Two threads on one buffer, without a lock; it is large enough, so that nothing worse than the race happens.
static void plant_race(void)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf buf = {0};
	berth_buf_reserve(&buf, 4 * ROUNDS);
	pthread_t threads[2];
	struct berth_error err;
	for (size_t i = 0; i < BERTH_COUNT(threads); i++) {
		if (!berth_thread_start(&threads[i], "racer", add, &buf, &err)) {
			return;
		}
	}
	for (size_t i = 0; i < BERTH_COUNT(threads); i++) {
		pthread_join(threads[i], NULL);
	}
	printf("%zu bytes\n", buf.size);
}

static void plant_heap(void)
{
	char *text = berth_strdup("freed");
	char *volatile kept = text;
	free(text);
	printf("%c\n", kept[0]);
}

static void plant_overflow(void)
{
	volatile int number = INT_MAX;
	number = number + 1;
	printf("%d\n", number);
}

static void plant_leak(void)
{
	char *volatile lost = berth_strdup("lost");
	printf("%c\n", lost[0]);
	lost = NULL;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*plant)(void);
	} faults[] = {{"race", plant_race}, {"heap", plant_heap}, {"overflow", plant_overflow}, {"leak", plant_leak}};
	for (size_t i = 0; argc == 2 && i < BERTH_COUNT(faults); i++) {
		if (strcmp(argv[1], faults[i].name) == 0) {
			faults[i].plant();
			return 0;
		}
	}
	return 2;
}
