// SPDX-License-Identifier: Apache-2.0
// What a load was told before the coordinator was killed, against what the coordinator knows after it started again.
#include <stdlib.h>

#include "common/base/mem.h"
#include "tests/bench/ledger/load.h"

void journal_write(const struct load *load)
{
	FILE *file = fopen(load->options.journal, "w");
	if (!file) {
		bench_fail("cannot write %s", load->options.journal);
	}
	fprintf(file, "%s %llu\n", load->job, (unsigned long long)load->doubled);
	for (uint32_t i = 0; i < load->trials_count; i++) {
		const struct trial *trial = &load->trials[i];
		if (trial->generation) {
			fprintf(file, "%u %u %d %d\n", i, trial->generation, trial->sent, trial->acknowledged);
		}
	}
	if (fclose(file) != 0) {
		bench_fail("cannot write %s", load->options.journal);
	}
}

int journal_check(struct load *load)
{
	unsigned long long doubled;
	uint32_t index, generation, count;
	int sent, acknowledged;
	FILE *file = fopen(load->options.journal, "r");
	if (!file || fscanf(file, "%32s %llu", load->job, &doubled) != 2) {
		bench_fail("cannot read %s", load->options.journal);
	}
	BERTH_AUTO_FREE struct trial_now *now = operator_trials(&load->operator_, load->job, &count);
	uint64_t completions = 0, grants = 0, lost_completions = 0, lost_grants = 0;
	while (fscanf(file, "%u %u %d %d", &index, &generation, &sent, &acknowledged) == 4) {
		const struct trial_now *found = index < count ? &now[index] : &(struct trial_now){0};
		grants++;
		lost_grants += found->generation < generation || (!found->running && !found->over);
		completions += acknowledged != 0;
		lost_completions += acknowledged && !found->over;
	}
	fclose(file);
	printf("{\"grants\":%llu,\"lost_grants\":%llu,\"completions\":%llu,\"lost_completions\":%llu,\"doubled\":%llu}"
	       "\n",
		(unsigned long long)grants, (unsigned long long)lost_grants, (unsigned long long)completions,
		(unsigned long long)lost_completions, doubled);
	return lost_completions || lost_grants || doubled ? 1 : 0;
}
