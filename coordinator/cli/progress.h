// SPDX-License-Identifier: Apache-2.0
// How far a job is, how fast it goes and when it will end: pure arithmetic on what the coordinator tells and this
// host's own monotonic clock.
#pragma once

#include "berth/v1/job.pb-c.h"
#include "common/base/buf.h"

struct cli_progress {
	bool started;
	uint32_t ended_first; // when the watch began
	int64_t first_ms;
	Berth__V1__JobCounts counts; // newest; no pointers inside
};

void cli_progress_update(struct cli_progress *progress, const Berth__V1__JobCounts *counts, int64_t now_ms);
uint32_t cli_progress_ended(const Berth__V1__JobCounts *counts);
// Trials that end in a minute, since the watch began; below 0: not known yet.
double cli_progress_rate(const struct cli_progress *progress, int64_t now_ms);
// Seconds until the last one ends at that rate; below 0: not known yet.
int64_t cli_progress_eta_s(const struct cli_progress *progress, int64_t now_ms);
// "45s", "3m05s", "2h07m", "3d04h".
void cli_duration_text(int64_t seconds, struct berth_buf *out);
// One line without its end, cut to `columns` (0: not cut). `phases` is put at its end.
void cli_progress_line(const struct cli_progress *progress, const char *name, const char *phases, int64_t now_ms,
	int columns, struct berth_buf *out);

// Where each trial is: one byte a trial.
#define CLI_CELLS_MAX 10000000
struct cli_phases {
	uint8_t *states;
	size_t count;
};
// True when the trial has ended and had not before.
bool cli_phases_update(struct cli_phases *phases, const Berth__V1__Trial *trial);
// "2 agent_execution, 1 verifier".
void cli_phases_text(const struct cli_phases *phases, struct berth_buf *out);
void cli_phases_free(struct cli_phases *phases);
