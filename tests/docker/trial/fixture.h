// SPDX-License-Identifier: Apache-2.0
// Trials against a real Engine: a runner of a fleet of its own, assignments made from task folders, and a book that
// records every move.
#pragma once

#include <pthread.h>

#include "agent/docker/docker.h"
#include "agent/runner/local/local.h"
#include "agent/trial/trial.h"
#include "common/http/http.h"

struct bench {
	char fleet[48];
	char *host; // of the Engine
	struct berth_http *http;
	struct berth_docker *docker;
	struct berth_runner *runner;
	char *folder;
	pthread_mutex_t lock;
	int moves;
	void (*on_phase)(void *context, const char *phase);
	void *context;
};

// False where no Engine was given: the test is to be skipped.
bool bench_open(struct bench *bench, const char *host, bool foreign_cgroups);
void bench_close(struct bench *bench);
// Containers of this bench's fleet that exist, in any state.
size_t bench_containers(struct bench *bench);

struct trial_options {
	const char *agent;
	Berth__V1__Leftovers leftovers;
	const char *drop_secret;   // a variable that does not come with the assignment
	const char *token;         // value of BERTH_SAMPLE_TOKEN; NULL: unset
	double timeout_multiplier; // 0: 1
	struct berth_cancel *cancel;
	struct berth_lease_book *book; // NULL: the bench's
};

struct run {
	char *work; // the trial's folder
	Berth__V1__Assignment *assignment;
	Berth__V1__TrialResult result;
};
// Runs one trial of the task folder; the caller frees.
void bench_run(struct bench *bench, const char *task_folder, const struct trial_options *options, struct run *run);
void run_free(struct run *run);
// A file of the trial's folder as text, "" when it is missing; the caller frees.
char *run_file(const struct run *run, const char *name);
// The task's folder in the checkout; the caller frees.
char *corpus_task(const char *name);
