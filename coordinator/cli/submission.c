// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/submission.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"

#define MB                 (1024 * 1024)
#define TASK_SIZE_LIMIT_MB (1024 * 1024)
#define ANSWER_MAX         16
#define CLIENT_KEY_MAX     128

static void warn_all(const struct cli *cli, const char *of, const struct berth_strings *warnings)
{
	for (size_t i = 0; i < warnings->count; i++) {
		fprintf(cli->io->err, "berth: warning: %s%s%s\n", of, *of ? ": " : "", warnings->items[i]);
	}
}

static void task_free(struct berth_task **task)
{
	berth_task_free(*task);
}

static bool add_task(const struct cli *cli, struct cli_submission *submission, size_t index, struct berth_error *err)
{
	const struct berth_job_task *given = &submission->job->tasks[index];
	BERTH_AUTO(task_free) struct berth_task *task = NULL;
	if (!berth_task_load(given->path, submission->job->verifier_disable, &task, err)) {
		return berth_error_wrap(err, "task %s", given->path);
	}
	warn_all(cli, given->path, &task->warnings);
	return cli_task_size_check(given->path, submission->task_size_max, err) &&
	       cli_spec_add_task(submission->request->spec, given, task, err) &&
	       cli_secrets_add_task(cli, submission, index, task, err);
}

static bool set_client_key(const struct cli *cli, Berth__V1__SubmitJobRequest *request, struct berth_error *err)
{
	const char *key = cli_args_text(&cli->args, CLI_FLAG_CLIENT_KEY);
	char random[BERTH_ID_SIZE];
	berth_random_id(random);
	if (key && (!*key || strlen(key) > CLIENT_KEY_MAX)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "--client-key: give 1 to %d bytes", CLIENT_KEY_MAX);
	}
	berth_proto_set_string(&request->client_key, key ? key : random);
	return true;
}

static Berth__V1__SubmitJobRequest *request_new(void)
{
	Berth__V1__SubmitJobRequest *request = berth_alloc(sizeof *request);
	berth__v1__submit_job_request__init(request);
	request->spec = berth_alloc(sizeof *request->spec);
	berth__v1__job_spec__init(request->spec);
	request->secrets = berth_alloc(sizeof *request->secrets);
	berth__v1__secret_set__init(request->secrets);
	return request;
}

bool cli_submission_make(struct cli *cli, struct cli_submission *submission, struct berth_error *err)
{
	*submission = (struct cli_submission){.request = request_new()};
	int64_t limit_mb = BERTH_TASK_FOLDER_SIZE_MAX / MB;
	if (!cli_args_integer(&cli->args, CLI_FLAG_TASK_SIZE_LIMIT, 1, TASK_SIZE_LIMIT_MB, &limit_mb, err) ||
		!cli_job_flags_read(&cli->args, &submission->flags, err) ||
		!set_client_key(cli, submission->request, err) ||
		!berth_job_load(&submission->flags, &submission->job, err)) {
		return false;
	}
	submission->task_size_max = limit_mb * MB;
	submission->quiet = cli_args_has(&cli->args, CLI_FLAG_QUIET) || submission->job->quiet;
	warn_all(cli, "", &submission->job->warnings);
	if (submission->job->tasks_count == 0) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"there is no task to run; give a task folder or a folder of task folders with -p");
	}
	if (!cli_spec_fill(cli, submission->job, submission->request->spec, err) ||
		!cli_secrets_add_job(cli, submission, err)) {
		return false;
	}
	for (size_t i = 0; i < submission->job->tasks_count; i++) {
		if (berth_cancel_fired(cli->io->interrupt)) {
			return berth_fail(err, BERTH_ERROR_CANCELLED, "interrupted; nothing was submitted");
		}
		if (!add_task(cli, submission, i, err)) {
			return false;
		}
	}
	return true;
}

// False when the user interrupts instead of answering.
static bool wait_for_input(const struct berth_cli_io *io)
{
	struct pollfd fds[] = {
		{.fd = fileno(io->in), .events = POLLIN}, {.fd = berth_cancel_fd(io->interrupt), .events = POLLIN}};
	while (poll(fds, BERTH_COUNT(fds), -1) < 0 && errno == EINTR) {
	}
	return !berth_cancel_fired(io->interrupt);
}

// Harbor asks before it hands this host's variables to containers; a script is not asked.
static bool confirm(const struct cli *cli, const struct cli_submission *submission, struct berth_error *err)
{
	struct berth_cli_io *io = cli->io;
	if (submission->variables.count == 0 || cli_args_has(&cli->args, CLI_FLAG_YES)) {
		return true;
	}
	fputs("Variables of this host that go to the trials:", io->err);
	for (size_t i = 0; i < submission->variables.count; i++) {
		fprintf(io->err, " %s", submission->variables.items[i]);
	}
	fputc('\n', io->err);
	if (!io->in_tty || !io->err_tty) {
		return true;
	}
	char answer[ANSWER_MAX] = "";
	fputs("Go on? [y/N] ", io->err);
	fflush(io->err);
	if (wait_for_input(io) && fgets(answer, sizeof answer, io->in) && (answer[0] == 'y' || answer[0] == 'Y')) {
		return true;
	}
	return berth_fail(err, BERTH_ERROR_CANCELLED, "nothing was submitted (-y goes on without asking)");
}

static bool put_bundles(
	const struct cli *cli, struct cli_link *link, struct cli_submission *submission, struct berth_error *err)
{
	Berth__V1__JobSpec *spec = submission->request->spec;
	bool show = cli->io->err_tty && !submission->quiet;
	for (size_t i = 0; i < spec->n_tasks; i++) {
		if (show) {
			fprintf(cli->io->err, "\rSending tasks %zu/%zu", i + 1, spec->n_tasks);
			fflush(cli->io->err);
		}
		if (!cli_bundle_put(
			    link, submission->job->tasks[i].path, submission->task_size_max, spec->tasks[i], err)) {
			return false;
		}
	}
	if (show) {
		fputs("\r\033[K", cli->io->err);
	}
	return true;
}

bool cli_submission_send(struct cli *cli, struct cli_link *link, struct cli_submission *submission, char **job_id,
	struct berth_error *err)
{
	// The coordinator is asked first, so that nobody packs gigabytes for one that is not there.
	Berth__V1__ListJobsRequest hello = BERTH__V1__LIST_JOBS_REQUEST__INIT;
	hello.limit = 1;
	BERTH_AUTO(berth_proto_cleanup)
	void *jobs = cli_call(link, &berth__v1__job_service__descriptor, "ListJobs", &hello, err);
	if (!jobs || !confirm(cli, submission, err) || !put_bundles(cli, link, submission, err)) {
		return false;
	}
	// From here on the job may exist: an interrupt no longer ends the call, but what comes after it.
	struct cli_link patient = *link;
	patient.cancel = cli->io->detach;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__SubmitJobResponse *response =
		cli_call(&patient, &berth__v1__job_service__descriptor, "SubmitJob", submission->request, err);
	if (!response) {
		return false;
	}
	if (response->existed) {
		fprintf(cli->io->err, "Job %s was submitted before with this client key.\n", response->job_id);
	}
	*job_id = berth_strdup(response->job_id);
	return true;
}

Berth__V1__PlanJobResponse *cli_submission_plan(
	struct cli_link *link, struct cli_submission *submission, struct berth_error *err)
{
	Berth__V1__SubmitJobRequest bare = *submission->request;
	bare.secrets = NULL;
	for (size_t i = 0; i < bare.spec->n_tasks; i++) {
		if (!cli_bundle_name(link, submission->job->tasks[i].path, submission->task_size_max,
			    bare.spec->tasks[i], err)) {
			return NULL;
		}
	}
	return cli_call(link, &berth__v1__job_service__descriptor, "PlanJob", &bare, err);
}

void cli_submission_free(struct cli_submission *submission)
{
	if (submission->request) {
		cli_secrets_wipe(submission->request->secrets);
	}
	berth_proto_free(submission->request);
	berth_job_free(submission->job);
	berth_job_flags_free(&submission->flags);
	berth_strings_free(&submission->variables);
}
