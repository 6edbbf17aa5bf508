// SPDX-License-Identifier: Apache-2.0
// A job on its way to the coordinator: flags and file read, tasks checked and hashed, variables resolved, bundles put.
#pragma once

#include "berth/v1/job.pb-c.h"
#include "common/task/jobfile.h"
#include "coordinator/cli/link.h"

struct cli_submission {
	struct berth_job_flags flags;
	struct berth_job *job;
	Berth__V1__SubmitJobRequest *request;
	struct berth_strings variables; // of this host that templates took a value from
	int64_t task_size_max;
	bool quiet;
};

// Everything that can fail without a coordinator. Warnings go to stderr. INVALID names file, key and fix.
bool cli_submission_make(struct cli *cli, struct cli_submission *submission, struct berth_error *err);
// Puts the bundles that the fleet lacks and submits. The caller frees *job_id.
bool cli_submission_send(struct cli *cli, struct cli_link *link, struct cli_submission *submission, char **job_id,
	struct berth_error *err);
// What it would take on; nothing is put, no value of a variable leaves this host. The caller frees the plan.
Berth__V1__PlanJobResponse *cli_submission_plan(
	struct cli_link *link, struct cli_submission *submission, struct berth_error *err);
void cli_submission_free(struct cli_submission *submission); // for BERTH_AUTO

// --- its parts ---

// job_flags.c: what the command line says of a job. The caller frees with berth_job_flags_free.
bool cli_job_flags_read(const struct cli_args *args, struct berth_job_flags *flags, struct berth_error *err);

// spec.c
bool cli_spec_fill(
	const struct cli *cli, const struct berth_job *job, Berth__V1__JobSpec *spec, struct berth_error *err);
// Appends the task's message; bundle is left out.
bool cli_spec_add_task(Berth__V1__JobSpec *spec, const struct berth_job_task *given, const struct berth_task *task,
	struct berth_error *err);
// Refuses a folder with more than size_max bytes of content, and names both.
bool cli_task_size_check(const char *folder, int64_t size_max, struct berth_error *err);

// secrets.c: resolves templates from this host and fills scopes and names as secret.proto says.
bool cli_secrets_add_job(const struct cli *cli, struct cli_submission *submission, struct berth_error *err);
bool cli_secrets_add_task(const struct cli *cli, struct cli_submission *submission, size_t index,
	const struct berth_task *task, struct berth_error *err);
// Overwrites the values before they are freed.
void cli_secrets_wipe(Berth__V1__SecretSet *secrets);

// bundle.c: packs the task at `path` and puts it where the fleet lacks it; fills task->bundle. The second only packs
// it.
bool cli_bundle_put(
	struct cli_link *link, const char *path, int64_t size_max, Berth__V1__Task *task, struct berth_error *err);
bool cli_bundle_name(
	struct cli_link *link, const char *path, int64_t size_max, Berth__V1__Task *task, struct berth_error *err);
