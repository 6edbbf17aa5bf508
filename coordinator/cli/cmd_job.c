// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/output.h"
#include "coordinator/cli/watch.h"

#define LIMIT_MAX     10000
#define LIMIT_DEFAULT 100

static const ProtobufCServiceDescriptor *const JOBS = &berth__v1__job_service__descriptor;

// "0.750" over the scored cells, "-" when there are none.
static void add_mean(struct cli_table *table, const Berth__V1__JobCounts *counts)
{
	if (counts->scored > 0) {
		cli_table_add(table, "%.3f", counts->reward_sum / counts->scored);
	} else {
		cli_table_add(table, "-");
	}
}

static void add_job(struct cli_table *table, const Berth__V1__Job *job)
{
	static const Berth__V1__JobCounts none = BERTH__V1__JOB_COUNTS__INIT;
	const Berth__V1__JobCounts *counts = job->counts ? job->counts : &none;
	BERTH_AUTO_FREE char *state = cli_state_text(&berth__v1__job_state__descriptor, (int)job->state);
	BERTH_AUTO_FREE char *time = cli_time_text(job->submitted_at_ns);
	cli_table_add(table, "%s", job->job_id);
	cli_table_add(table, "%s", job->name);
	cli_table_add(table, "%s", state);
	cli_table_add(table, "%u", counts->total);
	cli_table_add(table, "%u", counts->running);
	cli_table_add(table, "%u", counts->budget_blocked);
	cli_table_add(table, "%u", counts->scored);
	cli_table_add(table, "%u", counts->unscored + counts->quarantined + counts->cancelled);
	add_mean(table, counts);
	cli_table_add(table, "%s", time);
	cli_table_add(table, "%s", *job->submitter ? job->submitter : "-");
}

static struct cli_table *job_table(void)
{
	static const char *const HEADS[] = {"JOB", "NAME", "STATE", "TRIALS", "RUNNING", "BLOCKED", "SCORED",
		"UNSCORED", "REWARD", "SUBMITTED", "BY", NULL};
	return cli_table_new(HEADS);
}

int cli_job_list(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	int64_t limit = LIMIT_DEFAULT;
	if (!cli_args_integer(&cli->args, CLI_FLAG_LIMIT, 1, LIMIT_MAX, &limit, err) ||
		!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	Berth__V1__ListJobsRequest request = BERTH__V1__LIST_JOBS_REQUEST__INIT;
	request.limit = (uint32_t)limit;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__ListJobsResponse *response = cli_call(&link, JOBS, "ListJobs", &request, err);
	if (!response) {
		return CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_messages_print(cli->io->out, response->jobs, response->n_jobs);
		return 0;
	}
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = job_table();
	for (size_t i = 0; i < response->n_jobs; i++) {
		add_job(table, response->jobs[i]);
	}
	cli_table_print(cli, table);
	return 0;
}

static bool add_trial(void *context, const Berth__V1__Trial *trial, struct berth_error *err)
{
	(void)err;
	struct cli_table *table = context;
	const Berth__V1__TrialResult *result = trial->result;
	BERTH_AUTO_FREE char *state = cli_state_text(&berth__v1__trial_state__descriptor, (int)trial->state);
	const char *why = *trial->blocked_reason        ? trial->blocked_reason
	                  : result && result->exception ? result->exception->type
	                  : trial->n_notes              ? trial->notes[trial->n_notes - 1]
	                                                : "-";
	cli_table_add(table, "%u", trial->key->index);
	cli_table_add(table, "%s", trial->trial_name);
	cli_table_add(table, "%s", state);
	cli_table_add(table, "%s", *trial->agent_host ? trial->agent_host : "-");
	cli_table_add(table, "%s", *trial->phase ? trial->phase : "-");
	bool scored = trial->state == BERTH__V1__TRIAL_STATE__TRIAL_SCORED;
	cli_table_add(table, "%s", scored && result && *result->rewards_json ? result->rewards_json : "-");
	cli_table_add(table, "%s", why);
	return true;
}

static bool append_trial(void *context, const Berth__V1__Trial *trial, struct berth_error *err)
{
	(void)err;
	berth_json_append(context, cli_message_json(&trial->base));
	return true;
}

static bool show_json(struct cli *cli, struct cli_link *link, const Berth__V1__Job *job, struct berth_error *err)
{
	berth_json *trials = berth_json_array();
	if (!cli_each_trial(link, job->job_id, false, append_trial, trials, err)) {
		berth_json_free(trials);
		return false;
	}
	berth_json *object = berth_json_object();
	berth_json_set(object, "job", cli_message_json(&job->base));
	berth_json_set(object, "trials", trials);
	cli_json_print(cli->io->out, object, false);
	return true;
}

static bool show_tables(struct cli *cli, struct cli_link *link, const Berth__V1__Job *job, struct berth_error *err)
{
	static const char *const HEADS[] = {"INDEX", "TRIAL", "STATE", "HOST", "PHASE", "REWARD", "WHY", NULL};
	BERTH_AUTO(cli_table_cleanup) struct cli_table *jobs = job_table();
	BERTH_AUTO(cli_table_cleanup) struct cli_table *trials = cli_table_new(HEADS);
	if (!cli_each_trial(link, job->job_id, false, add_trial, trials, err)) {
		return false;
	}
	add_job(jobs, job);
	cli_table_print(cli, jobs);
	for (size_t i = 0; i < job->n_open_leases; i++) {
		fprintf(cli->io->err, "Waits for lease %s\n", job->open_leases[i]);
	}
	if (*job->blocked_reason) {
		BERTH_AUTO_FREE char *reason = cli_text_line(job->blocked_reason);
		fprintf(cli->io->err, "%u trials wait for money: %s\n", job->counts->budget_blocked, reason);
	}
	fputs(cli->output == CLI_OUTPUT_TABLE ? "\n" : "", cli->io->out);
	cli_table_print(cli, trials);
	return true;
}

int cli_job_show(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetJobResponse *found = cli_get_job(&link, cli->args.positionals[0], err);
	bool shown = found && (cli->output == CLI_OUTPUT_JSON ? show_json(cli, &link, found->job, err)
							      : show_tables(cli, &link, found->job, err));
	return shown ? 0 : CLI_FAILED;
}

static int watch_code(const Berth__V1__Job *job)
{
	const Berth__V1__JobCounts *counts = job->counts;
	return counts && counts->scored < counts->total ? CLI_EXIT_UNSCORED : 0;
}

int cli_job_watch(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetJobResponse *found = cli_get_job(&link, cli->args.positionals[0], err);
	const struct cli_watch_options options = {
		.style = cli->output == CLI_OUTPUT_JSON                        ? CLI_WATCH_NDJSON
	                 : cli->io->out_tty && cli->output == CLI_OUTPUT_TABLE ? CLI_WATCH_BAR
	                                                                       : CLI_WATCH_LINES,
		.out = cli->io->out,
	};
	bool interrupted;
	if (!found || !cli_watch(cli, &link, found->job->job_id, &options, &interrupted, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetJobResponse *ended = cli_get_job(&link, found->job->job_id, err);
	return ended ? watch_code(ended->job) : CLI_FAILED;
}

int cli_job_cancel(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetJobResponse *found = cli_get_job(&link, cli->args.positionals[0], err);
	if (!found) {
		return CLI_FAILED;
	}
	const char *reason = cli_args_text(&cli->args, CLI_FLAG_REASON);
	Berth__V1__CancelJobRequest request = BERTH__V1__CANCEL_JOB_REQUEST__INIT;
	request.job_id = found->job->job_id;
	request.reason = (char *)(reason ? reason : "");
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__CancelJobResponse *response = cli_call(&link, JOBS, "CancelJob", &request, err);
	if (!response || !response->job) {
		return response ? (berth_fail(err, BERTH_ERROR_INTERNAL, "the coordinator's answer lacks the job"),
					  CLI_FAILED)
		                : CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, cli_message_json(&response->job->base), false);
		return 0;
	}
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = job_table();
	add_job(table, response->job);
	cli_table_print(cli, table);
	return 0;
}

int cli_job_results(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	const char *jobs_dir = cli_args_text(&cli->args, CLI_FLAG_JOBS_DIR);
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	return cli_finish(cli, &link, cli->args.positionals[0], jobs_dir ? jobs_dir : "jobs", err);
}
