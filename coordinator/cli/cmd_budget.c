// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/money.h"
#include "coordinator/budget/policy.h"
#include "coordinator/cli/budget.h"
#include "coordinator/cli/output.h"

#define RESERVATIONS_LIMIT_MAX     100000
#define RESERVATIONS_LIMIT_DEFAULT 100
#define RESERVATIONS_PAGE          1000

static void add_usd(struct cli_table *table, int64_t nano_usd)
{
	char text[BERTH_MONEY_TEXT_SIZE];
	berth_money_format(nano_usd, text);
	cli_table_add(table, "%s", text);
}

static void add_totals(struct cli_table *table, const Berth__V1__BudgetTotals *totals)
{
	static const Berth__V1__BudgetTotals none = BERTH__V1__BUDGET_TOTALS__INIT;
	totals = totals ? totals : &none;
	add_usd(table, totals->limit_nano_usd);
	add_usd(table, totals->settled_nano_usd);
	add_usd(table, totals->reserved_nano_usd);
	add_usd(table, totals->forfeited_nano_usd);
	add_usd(table, totals->remaining_nano_usd);
	add_usd(table, totals->overrun_nano_usd);
}

static struct cli_table *budget_table(void)
{
	static const char *const HEADS[] = {"BUDGET", "LIMIT_USD", "SETTLED", "RESERVED", "FORFEITED", "LEFT",
		"OVERRUN", "OPEN", "BLOCKED", "AMENDMENTS", "STATE", NULL};
	return cli_table_new(HEADS);
}

static void add_budget(struct cli_table *table, const Berth__V1__Budget *budget)
{
	cli_table_add(table, "%s", budget->name);
	add_totals(table, budget->totals);
	cli_table_add(table, "%llu", (unsigned long long)budget->open_reservations);
	cli_table_add(table, "%u", budget->blocked_trials);
	cli_table_add(table, "%llu", (unsigned long long)budget->amendments);
	cli_table_add(table, "%s", budget->breached ? "breached" : "open");
}

int cli_budget_print(struct cli *cli, const Berth__V1__Budget *budget)
{
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, cli_message_json(&budget->base), false);
		return 0;
	}
	static const char *const HEADS[] = {
		"PHASE", "LIMIT_USD", "SETTLED", "RESERVED", "FORFEITED", "LEFT", "OVERRUN", NULL};
	BERTH_AUTO(cli_table_cleanup) struct cli_table *budgets = budget_table();
	BERTH_AUTO(cli_table_cleanup) struct cli_table *phases = cli_table_new(HEADS);
	add_budget(budgets, budget);
	for (size_t i = 0; i < budget->n_by_phase; i++) {
		cli_table_add(phases, "%s", budget->by_phase[i]->key);
		add_totals(phases, budget->by_phase[i]->value);
	}
	cli_table_print(cli, budgets);
	fputs(cli->output == CLI_OUTPUT_TABLE ? "\n" : "", cli->io->out);
	cli_table_print(cli, phases);
	return 0;
}

Berth__V1__GetBudgetResponse *cli_get_budget(struct cli_link *link, const char *name, struct berth_error *err)
{
	Berth__V1__GetBudgetRequest request = BERTH__V1__GET_BUDGET_REQUEST__INIT;
	request.name = (char *)name;
	Berth__V1__GetBudgetResponse *response = cli_call(link, CLI_BUDGETS, "GetBudget", &request, err);
	if (response && !response->budget) {
		berth_proto_free(response);
		berth_fail(err, BERTH_ERROR_INTERNAL, "the coordinator's answer lacks the budget");
		return NULL;
	}
	return response;
}

static Berth__V1__BudgetPolicy *read_policy(const char *path, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	return berth_file_read(path, BERTH_POLICY_SIZE_MAX, &text, err)
	               ? berth_policy_parse(berth_buf_text(&text), text.size, path, err)
	               : NULL;
}

int cli_budget_create(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__BudgetPolicy *policy = read_policy(cli->args.positionals[1], err);
	if (!policy || !cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	Berth__V1__CreateBudgetRequest request = BERTH__V1__CREATE_BUDGET_REQUEST__INIT;
	request.name = (char *)cli->args.positionals[0];
	request.policy = policy;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__CreateBudgetResponse *response = cli_call(&link, CLI_BUDGETS, "CreateBudget", &request, err);
	return response && response->budget ? cli_budget_print(cli, response->budget) : CLI_FAILED;
}

int cli_budget_list(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	Berth__V1__ListBudgetsRequest request = BERTH__V1__LIST_BUDGETS_REQUEST__INIT;
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__ListBudgetsResponse *response = cli_call(&link, CLI_BUDGETS, "ListBudgets", &request, err);
	if (!response) {
		return CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_messages_print(cli->io->out, response->budgets, response->n_budgets);
		return 0;
	}
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = budget_table();
	for (size_t i = 0; i < response->n_budgets; i++) {
		add_budget(table, response->budgets[i]);
	}
	cli_table_print(cli, table);
	return 0;
}

int cli_budget_show(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetBudgetResponse *response = cli_get_budget(&link, cli->args.positionals[0], err);
	return response ? cli_budget_print(cli, response->budget) : CLI_FAILED;
}

// --- reservations ---

static void add_reservation(struct cli_table *table, const Berth__V1__Reservation *row)
{
	const ProtobufCEnumValue *state =
		protobuf_c_enum_descriptor_get_value(&berth__v1__reservation_state__descriptor, (int)row->state);
	const Berth__V1__ReservationEnding *ending = row->ending;
	BERTH_AUTO_FREE char *since = cli_time_text(row->reserved_at_ns);
	BERTH_AUTO_FREE char *until = cli_time_text(row->ended_at_ns);
	cli_table_add(table, "%s", row->reservation_id);
	cli_table_add(table, "%s", state ? state->name : "-");
	add_usd(table, row->max_nano_usd);
	add_usd(table, ending ? ending->charged_nano_usd : 0);
	cli_table_add(table, "%s", row->scope ? row->scope->phase : "-");
	cli_table_add(table, "%s", row->meter_id);
	cli_table_add(table, "%s", *row->job_id ? row->job_id : "-");
	cli_table_add(table, "%s", row->scope && *row->scope->lane ? row->scope->lane : "-");
	cli_table_add(table, "%s", since);
	cli_table_add(table, "%s", until);
	cli_table_add(table, "%s", ending && *ending->failure_type ? ending->failure_type : "-");
}

struct reservations {
	struct cli_table *table;
	berth_json *list;
	int64_t left;
	char *last; // id that the next page starts after
};

static void reservations_free(struct reservations *rows)
{
	cli_table_cleanup(&rows->table);
	berth_json_free(rows->list);
	berth_free_cleanup(&rows->last);
}

// False when this was the last page.
static bool take_page(struct reservations *rows, const Berth__V1__ListReservationsResponse *page)
{
	for (size_t i = 0; i < page->n_reservations && rows->left > 0; i++, rows->left--) {
		add_reservation(rows->table, page->reservations[i]);
		berth_json_append(rows->list, cli_message_json(&page->reservations[i]->base));
	}
	if (page->n_reservations == 0 || rows->left == 0) {
		return false;
	}
	const char *last = page->reservations[page->n_reservations - 1]->reservation_id;
	bool ahead = !rows->last || strcmp(last, rows->last) > 0;
	berth_free_cleanup(&rows->last);
	rows->last = berth_strdup(last);
	return ahead;
}

int cli_budget_reservations(struct cli *cli, struct berth_error *err)
{
	static const char *const HEADS[] = {"RESERVATION", "STATE", "MAX_USD", "CHARGED", "PHASE", "METER", "JOB",
		"AGENT", "SINCE", "UNTIL", "FAILURE", NULL};
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	BERTH_AUTO(reservations_free)
	struct reservations rows = {
		.table = cli_table_new(HEADS), .list = berth_json_array(), .left = RESERVATIONS_LIMIT_DEFAULT};
	if (!cli_args_integer(&cli->args, CLI_FLAG_LIMIT, 1, RESERVATIONS_LIMIT_MAX, &rows.left, err) ||
		!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	Berth__V1__ListReservationsRequest request = BERTH__V1__LIST_RESERVATIONS_REQUEST__INIT;
	request.budget = (char *)cli->args.positionals[0];
	request.open_only = !cli_args_has(&cli->args, CLI_FLAG_EVERY);
	for (bool more = true; more;) {
		request.limit = rows.left < RESERVATIONS_PAGE ? (uint32_t)rows.left : RESERVATIONS_PAGE;
		request.after_reservation_id = rows.last ? rows.last : "";
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__ListReservationsResponse *page =
			cli_call(&link, CLI_BUDGETS, "ListReservations", &request, err);
		if (!page) {
			return CLI_FAILED;
		}
		more = take_page(&rows, page);
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, BERTH_STEAL(rows.list), false);
	} else {
		cli_table_print(cli, rows.table);
	}
	return 0;
}
