// SPDX-License-Identifier: Apache-2.0
// `berth job plan`: what a job would take on and cost at most, before it is submitted.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/money.h"
#include "coordinator/cli/output.h"
#include "coordinator/cli/submission.h"

static void add_money(struct cli_table *table, bool paid, int64_t nano_usd)
{
	char text[BERTH_MONEY_TEXT_SIZE];
	berth_money_format(nano_usd, text);
	cli_table_add(table, "%s", paid ? text : "-");
}

static void print_plan(struct cli *cli, const Berth__V1__PlanJobResponse *plan)
{
	static const char *const HEADS[] = {"TRIALS", "TASKS", "AGENTS", "ATTEMPTS", "HOSTS", "SLOTS", "ENVIRONMENTS",
		"TO_BUILD", "TO_SEND", "BUDGET", "ONCE_USD", "WORST_USD", "LEFT_USD", NULL};
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = cli_table_new(HEADS);
	bool paid = *plan->budget;
	cli_table_add(table, "%u", plan->trials);
	cli_table_add(table, "%u", plan->tasks);
	cli_table_add(table, "%u", plan->agents);
	cli_table_add(table, "%u", plan->attempts);
	cli_table_add(table, "%zu", plan->n_hosts);
	cli_table_add(table, "%u", plan->slots);
	cli_table_add(table, "%u", plan->environments);
	cli_table_add(table, "%zu", plan->n_misses);
	cli_table_add(table, "%zu", plan->n_missing);
	cli_table_add(table, "%s", paid ? plan->budget : "-");
	add_money(table, paid, plan->single_nano_usd);
	add_money(table, paid, plan->quote_nano_usd);
	add_money(table, paid && plan->room, plan->room ? plan->room->remaining_nano_usd : 0);
	cli_table_print(cli, table);
	if (plan->room && plan->room->waits) {
		fputs("The worst case is more than the budget has left: some trials may wait as budget_blocked.\n",
			cli->io->err);
	}
	if (!plan->n_hosts) {
		fputs("No host takes trials now: the job would wait for one (`berth agent list`).\n", cli->io->err);
	}
}

int cli_job_plan(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_submission_free) struct cli_submission submission = {0};
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	if (!cli_submission_make(cli, &submission, err) || !cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__PlanJobResponse *plan = cli_submission_plan(&link, &submission, err);
	if (!plan) {
		return CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, cli_message_json(&plan->base), false);
	} else {
		print_plan(cli, plan);
	}
	if (*plan->refusal) {
		berth_fail(
			err, berth_error_from_name(plan->refusal_code), "the job would be refused: %s", plan->refusal);
		return CLI_FAILED;
	}
	return 0;
}
