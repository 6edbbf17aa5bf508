// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/ledger_summary.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/money.h"

#define PAGE       256
#define STATES_MAX 16

struct summary {
	uint64_t leases[STATES_MAX]; // by state
	uint64_t jobs, jobs_open;
	struct cli_table *unproven;
	berth_json *unproven_list;
};

// The worst that an open lease may still cost is what it holds.
static void add_unproven(struct summary *summary, const Berth__V1__Lease *lease, const Berth__V1__LeaseDetail *detail)
{
	char money[BERTH_MONEY_TEXT_SIZE];
	BERTH_AUTO_FREE char *state = cli_state_text(&berth__v1__lease_state__descriptor, (int)lease->state);
	BERTH_AUTO_FREE char *dead = cli_time_text(detail->dead_by_ns);
	berth_money_format(detail->worst_nano_usd, money);
	cli_table_add(summary->unproven, "%s", lease->lease_id);
	cli_table_add(summary->unproven, "%s", state);
	cli_table_add(summary->unproven, "%s", lease->agent);
	cli_table_add(summary->unproven, "%s", dead);
	cli_table_add(summary->unproven, "%s", money);
	berth_json *item = cli_message_json(&lease->base);
	berth_json_set(item, "worst_nano_usd", berth_json_integer(detail->worst_nano_usd));
	berth_json_append(summary->unproven_list, item);
}

static void count_leases(struct summary *summary, const struct berth_core *core)
{
	char last[BERTH_ID_SIZE] = "";
	for (size_t count = PAGE; count == PAGE;) {
		Berth__V1__Lease *page[PAGE];
		Berth__V1__LeaseDetail *details[PAGE];
		count = berth_core_leases(core, NULL, BERTH_LEASES_ALL, *last ? last : NULL, PAGE, page, details);
		for (size_t i = 0; i < count; i++) {
			if (page[i]->state < STATES_MAX) {
				summary->leases[page[i]->state]++;
			}
			if (page[i]->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED) {
				add_unproven(summary, page[i], details[i]);
			}
			snprintf(last, sizeof last, "%s", page[i]->lease_id);
			berth_proto_free(page[i]);
			berth_proto_free(details[i]);
		}
	}
}

static void count_jobs(struct summary *summary, const struct berth_core *core)
{
	char before[BERTH_ID_SIZE] = "";
	for (size_t count = PAGE; count == PAGE;) {
		Berth__V1__Job *page[PAGE];
		count = berth_core_jobs(core, *before ? before : NULL, PAGE, page);
		for (size_t i = 0; i < count; i++) {
			summary->jobs++;
			summary->jobs_open += !berth_core_job_is_over(core, page[i]->job_id);
			snprintf(before, sizeof before, "%s", page[i]->job_id);
			berth_proto_free(page[i]);
		}
	}
}

static void add_money(struct cli_table *table, int64_t nano_usd)
{
	char text[BERTH_MONEY_TEXT_SIZE];
	berth_money_format(nano_usd, text);
	cli_table_add(table, "%s", text);
}

static void add_budgets(const struct berth_core *core, struct cli_table *table, berth_json *list)
{
	Berth__V1__Budget **budgets;
	size_t count = berth_core_budgets(core, &budgets);
	for (size_t i = 0; i < count; i++) {
		cli_table_add(table, "%s", budgets[i]->name);
		add_money(table, budgets[i]->totals->limit_nano_usd);
		add_money(table, budgets[i]->totals->settled_nano_usd);
		add_money(table, budgets[i]->totals->reserved_nano_usd);
		add_money(table, budgets[i]->totals->forfeited_nano_usd);
		add_money(table, budgets[i]->totals->overrun_nano_usd);
		berth_json_append(list, cli_message_json(&budgets[i]->base));
		berth_proto_free(budgets[i]);
	}
	free(budgets);
}

static berth_json *states_json(const struct summary *summary, struct cli_table *table)
{
	berth_json *object = berth_json_object();
	for (int state = 0; state < STATES_MAX; state++) {
		if (summary->leases[state]) {
			BERTH_AUTO_FREE char *text = cli_state_text(&berth__v1__lease_state__descriptor, state);
			cli_table_add(table, "%s", text);
			cli_table_add(table, "%llu", (unsigned long long)summary->leases[state]);
			berth_json_set(object, text, berth_json_integer((int64_t)summary->leases[state]));
		}
	}
	return object;
}

void cli_ledger_summary(struct cli *cli, const struct berth_core *core, berth_json *head)
{
	static const char *const UNPROVEN[] = {"UNPROVEN", "STATE", "AGENT", "DEAD_BY", "WORST_USD", NULL};
	static const char *const STATES[] = {"LEASES", "COUNT", NULL};
	static const char *const BUDGETS[] = {
		"BUDGET", "LIMIT_USD", "SETTLED", "RESERVED", "FORFEITED", "OVERRUN", NULL};
	BERTH_AUTO(cli_table_cleanup) struct cli_table *unproven = cli_table_new(UNPROVEN);
	BERTH_AUTO(cli_table_cleanup) struct cli_table *states = cli_table_new(STATES);
	BERTH_AUTO(cli_table_cleanup) struct cli_table *budgets = cli_table_new(BUDGETS);
	struct summary summary = {.unproven = unproven, .unproven_list = berth_json_array()};
	berth_json *list = berth_json_array();
	count_jobs(&summary, core);
	count_leases(&summary, core);
	add_budgets(core, budgets, list);
	berth_json_set(head, "jobs", berth_json_integer((int64_t)summary.jobs));
	berth_json_set(head, "jobs_open", berth_json_integer((int64_t)summary.jobs_open));
	berth_json_set(head, "leases", states_json(&summary, states));
	berth_json_set(head, "unproven", summary.unproven_list);
	berth_json_set(head, "budgets", list);
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, head, false);
		return;
	}
	berth_json_free(head);
	fprintf(cli->io->out, "%llu jobs, %llu not over\n\n", (unsigned long long)summary.jobs,
		(unsigned long long)summary.jobs_open);
	cli_table_print(cli, states);
	fputs("\n", cli->io->out);
	cli_table_print(cli, unproven);
	fputs("\n", cli->io->out);
	cli_table_print(cli, budgets);
}
