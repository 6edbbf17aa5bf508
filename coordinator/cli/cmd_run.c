// SPDX-License-Identifier: Apache-2.0
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/output.h"
#include "coordinator/cli/submission.h"
#include "coordinator/cli/watch.h"

static void print_id(const struct cli *cli, const char *job_id, const char *name)
{
	if (cli->output != CLI_OUTPUT_JSON) {
		fprintf(cli->io->out, "%s\n", job_id);
		return;
	}
	berth_json *object = berth_json_object();
	berth_json_set(object, "job_id", berth_json_string(job_id));
	berth_json_set(object, "name", berth_json_string(name));
	cli_json_print(cli->io->out, object, false);
}

static bool submit(struct cli *cli, struct cli_link *link, struct cli_submission *submission, char **job_id,
	struct berth_error *err)
{
	return cli_submission_make(cli, submission, err) && cli_link_open(cli, CLI_LINK_BERTH, link, err) &&
	       cli_submission_send(cli, link, submission, job_id, err);
}

static int watch_and_finish(struct cli *cli, struct cli_link *link, const struct cli_submission *submission,
	const char *job_id, struct berth_error *err)
{
	const struct cli_watch_options options = {
		.style = submission->quiet  ? CLI_WATCH_SILENT
	                 : cli->io->err_tty ? CLI_WATCH_BAR
	                                    : CLI_WATCH_LINES,
		.out = cli->io->err,
		.cancel_on_interrupt = true,
	};
	bool interrupted = false;
	if (!cli_watch(cli, link, job_id, &options, &interrupted, err)) {
		return CLI_FAILED;
	}
	// What was cancelled still has results; only the second interrupt leaves them.
	struct cli_link last = *link;
	last.cancel = interrupted ? cli->io->detach : link->cancel;
	int code = cli_finish(cli, &last, job_id, submission->job->jobs_dir, err);
	return interrupted && code != CLI_FAILED ? berth_error_exit_code(BERTH_ERROR_CANCELLED) : code;
}

int cli_run(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_submission_free) struct cli_submission submission = {0};
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	BERTH_AUTO_FREE char *job_id = NULL;
	if (!submit(cli, &link, &submission, &job_id, err)) {
		return CLI_FAILED;
	}
	if (cli_args_has(&cli->args, CLI_FLAG_DETACH)) {
		print_id(cli, job_id, submission.request->spec->name);
		return 0;
	}
	fprintf(cli->io->err, "Job %s (%s)\n", job_id, submission.request->spec->name);
	return watch_and_finish(cli, &link, &submission, job_id, err);
}

int cli_job_submit(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_submission_free) struct cli_submission submission = {0};
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	BERTH_AUTO_FREE char *job_id = NULL;
	if (!submit(cli, &link, &submission, &job_id, err)) {
		return CLI_FAILED;
	}
	print_id(cli, job_id, submission.request->spec->name);
	return 0;
}
