// SPDX-License-Identifier: Apache-2.0
// Following a budget until the user has seen enough, over restarts of the coordinator.
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/money.h"
#include "coordinator/cli/budget.h"
#include "coordinator/cli/output.h"

static void free_stream(struct berth_rpc_stream **stream)
{
	berth_rpc_stream_free(*stream);
}

static void print_line(FILE *out, const Berth__V1__Budget *budget)
{
	const Berth__V1__BudgetTotals *totals = budget->totals;
	char settled[BERTH_MONEY_TEXT_SIZE], reserved[BERTH_MONEY_TEXT_SIZE], forfeited[BERTH_MONEY_TEXT_SIZE],
		left[BERTH_MONEY_TEXT_SIZE], limit[BERTH_MONEY_TEXT_SIZE];
	berth_money_format(totals->settled_nano_usd, settled);
	berth_money_format(totals->reserved_nano_usd, reserved);
	berth_money_format(totals->forfeited_nano_usd, forfeited);
	berth_money_format(totals->remaining_nano_usd, left);
	berth_money_format(totals->limit_nano_usd, limit);
	BERTH_AUTO_FREE char *name = cli_text_line(budget->name);
	fprintf(out, "%s: %s of %s USD left, settled %s, reserved %s, forfeited %s; %llu open, %u trials blocked%s\n",
		name, left, limit, settled, reserved, forfeited, (unsigned long long)budget->open_reservations,
		budget->blocked_trials, budget->breached ? "; breached" : "");
}

static void print_update(const struct cli *cli, const Berth__V1__GetBudgetResponse *update)
{
	if (cli->output == CLI_OUTPUT_JSON && update->budget) {
		cli_json_print(cli->io->out, cli_message_json(&update->budget->base), true);
	} else if (update->budget && update->budget->totals) {
		print_line(cli->io->out, update->budget);
	}
	fflush(cli->io->out);
}

// Follows one stream to its end; err says why it ended.
static void follow(
	const struct cli *cli, struct cli_link *link, const char *name, struct cli_away *away, struct berth_error *err)
{
	const struct berth_until whole = {BERTH_NO_DEADLINE_NS, link->cancel};
	BERTH_AUTO(free_stream)
	struct berth_rpc_stream *stream =
		berth_rpc_stream_open(link->channels->main, CLI_BUDGETS, "WatchBudget", whole, err);
	Berth__V1__GetBudgetRequest request = BERTH__V1__GET_BUDGET_REQUEST__INIT;
	request.name = (char *)name;
	if (!stream) {
		return;
	}
	if (berth_rpc_stream_send(stream, &request.base, err)) {
		berth_rpc_stream_close_send(stream, NULL);
	}
	for (;;) {
		BERTH_AUTO(berth_proto_cleanup) ProtobufCMessage *message = NULL;
		switch (berth_rpc_stream_receive(stream, &message, whole, err)) {
		case BERTH_RPC_MESSAGE:
			link->reached = true;
			*away = (struct cli_away){0};
			print_update(cli, (const Berth__V1__GetBudgetResponse *)message);
			break;
		case BERTH_RPC_END:
			berth_fail(err, BERTH_ERROR_UNAVAILABLE, "the stream ended early");
			return;
		case BERTH_RPC_FAILED:
			return;
		}
	}
}

int cli_budget_watch(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	struct cli_away away = {0};
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	do {
		follow(cli, &link, cli->args.positionals[0], &away, err);
	} while (!berth_cancel_fired(link.cancel) && cli_away_wait(&link, &away, err));
	return CLI_FAILED;
}
