// SPDX-License-Identifier: Apache-2.0
// A finished job of two tasks, two attempts and two agents, and the blobs of its trials.
#pragma once

#include "berth/v1/job.pb-c.h"
#include "common/base/buf.h"
#include "coordinator/cli/results.h"

#define FIXTURE_TRIALS 8 // attempt outermost, then task, then agent
#define FIXTURE_JOB_ID "0123456789abcdef0123456789abcdef"

struct fixture {
	Berth__V1__Job *job;
	Berth__V1__JobSpec *spec;
	Berth__V1__Trial *trials[FIXTURE_TRIALS];
	struct berth_buf blob; // of every trial that has one
	int fetches;           // calls of fixture_fetch
	char *folder;          // fresh; jobs are written below it
};

void fixture_make(struct fixture *fixture);
void fixture_free(struct fixture *fixture); // for BERTH_AUTO
struct berth_results_blobs fixture_blobs(struct fixture *fixture);
// Writes the whole job below fixture->folder and gives the writer back; fails the test when it cannot.
struct berth_results *fixture_write(struct fixture *fixture);
// Reads <job folder>/<path> as JSON; fails the test when it is none.
berth_json *fixture_read(const struct fixture *fixture, const char *path);
// "a.b.0.c" inside a value; NULL when it is not there.
const berth_json *fixture_at(const berth_json *value, const char *path);
