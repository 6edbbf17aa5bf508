// SPDX-License-Identifier: Apache-2.0
// Following a job to its end, over restarts of the coordinator and of this user's patience.
#pragma once

#include "coordinator/cli/link.h"

enum cli_watch_style { CLI_WATCH_SILENT, CLI_WATCH_BAR, CLI_WATCH_LINES, CLI_WATCH_NDJSON };

struct cli_watch_options {
	enum cli_watch_style style;
	FILE *out;
	bool cancel_on_interrupt; // the first interrupt cancels the job, the second leaves it; else the first leaves it
};

// Returns when the job has ended. False with CANCELLED when it was left, with UNAVAILABLE when the coordinator stayed
// away. *interrupted tells that the job was cancelled here.
bool cli_watch(struct cli *cli, struct cli_link *link, const char *job_id, const struct cli_watch_options *options,
	bool *interrupted, struct berth_error *err);

// One line on a trial that has ended, cleaned; the caller frees.
char *cli_trial_line(const Berth__V1__Trial *trial);
bool cli_job_has_ended(const Berth__V1__Job *job);

// finish.c: writes the job's result folders and prints what came out. The exit code of the command, or CLI_FAILED.
int cli_finish(
	struct cli *cli, struct cli_link *link, const char *job_id, const char *jobs_dir, struct berth_error *err);
