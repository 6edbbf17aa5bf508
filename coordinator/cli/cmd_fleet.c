// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "berth/v1/fleet.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/money.h"
#include "coordinator/cli/link.h"
#include "coordinator/cli/output.h"

static const ProtobufCServiceDescriptor *const FLEET = &berth__v1__fleet_service__descriptor;

static void add_agent(struct cli_table *table, const Berth__V1__Agent *agent)
{
	BERTH_AUTO_FREE char *state = cli_state_text(&berth__v1__agent_state__descriptor, (int)agent->state);
	BERTH_AUTO_FREE char *seen = cli_time_text(agent->seen_at_ns);
	cli_table_add(table, "%s", agent->name);
	cli_table_add(table, "%s", state);
	cli_table_add(table, "%u/%u", agent->running, agent->capacity ? agent->capacity->slots : 0);
	cli_table_add(table, "%u", agent->capacity ? agent->capacity->cpus : 0);
	cli_table_add(table, "%llu", agent->capacity ? (unsigned long long)agent->capacity->memory_mb : 0);
	cli_table_add(table, "%llu", agent->capacity ? (unsigned long long)agent->capacity->disk_mb : 0);
	cli_table_add(table, "%u", agent->open_leases);
	cli_table_add(table, "%s", seen);
	cli_table_add(table, "%s", *agent->version ? agent->version : "-");
	cli_table_add(table, "%s", *agent->trouble ? agent->trouble : agent->accepting ? "-" : "takes no trials");
}

static struct cli_table *agent_table(void)
{
	static const char *const HEADS[] = {"AGENT", "STATE", "RUNNING", "CPUS", "MEMORY_MB", "DISK_MB", "LEASES",
		"SEEN", "VERSION", "TROUBLE", NULL};
	return cli_table_new(HEADS);
}

int cli_agent_list(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	Berth__V1__ListAgentsRequest request = BERTH__V1__LIST_AGENTS_REQUEST__INIT;
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__ListAgentsResponse *response = cli_call(&link, FLEET, "ListAgents", &request, err);
	if (!response) {
		return CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_messages_print(cli->io->out, response->agents, response->n_agents);
		return 0;
	}
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = agent_table();
	for (size_t i = 0; i < response->n_agents; i++) {
		add_agent(table, response->agents[i]);
	}
	cli_table_print(cli, table);
	return 0;
}

static void show_agent(const struct cli *cli, const Berth__V1__GetAgentResponse *response)
{
	static const char *const HEADS[] = {"TRIAL", "JOB", "INDEX", "GENERATION", "PHASE", "SINCE", NULL};
	BERTH_AUTO(cli_table_cleanup) struct cli_table *agents = agent_table();
	BERTH_AUTO(cli_table_cleanup) struct cli_table *trials = cli_table_new(HEADS);
	add_agent(agents, response->agent);
	for (size_t i = 0; i < response->n_running; i++) {
		const Berth__V1__Trial *trial = response->running[i];
		BERTH_AUTO_FREE char *since = cli_time_text(trial->started_at_ns);
		cli_table_add(trials, "%s", trial->trial_name);
		cli_table_add(trials, "%s", trial->key ? trial->key->job_id : "-");
		cli_table_add(trials, "%u", trial->key ? trial->key->index : 0);
		cli_table_add(trials, "%u", trial->key ? trial->key->generation : 0);
		cli_table_add(trials, "%s", *trial->phase ? trial->phase : "-");
		cli_table_add(trials, "%s", since);
	}
	cli_table_print(cli, agents);
	fputs(cli->output == CLI_OUTPUT_TABLE ? "\n" : "", cli->io->out);
	cli_table_print(cli, trials);
}

int cli_agent_show(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	Berth__V1__GetAgentRequest request = BERTH__V1__GET_AGENT_REQUEST__INIT;
	request.name = (char *)cli->args.positionals[0];
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetAgentResponse *response = cli_call(&link, FLEET, "GetAgent", &request, err);
	if (!response || !response->agent) {
		if (response) {
			berth_fail(err, BERTH_ERROR_NOT_FOUND, "there is no agent %s; `berth agent list` shows them",
				request.name);
		}
		return CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, cli_message_json(&response->base), false);
	} else {
		show_agent(cli, response);
	}
	return 0;
}

int cli_agent_forget(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	Berth__V1__ForgetAgentRequest request = BERTH__V1__FORGET_AGENT_REQUEST__INIT;
	const char *reason = cli_args_text(&cli->args, CLI_FLAG_REASON);
	request.name = (char *)cli->args.positionals[0];
	request.reason = (char *)(reason ? reason : "");
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__ForgetAgentResponse *response = cli_call(&link, FLEET, "ForgetAgent", &request, err);
	if (!response) {
		return CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, cli_message_json(&response->base), false);
		return 0;
	}
	char money[BERTH_MONEY_TEXT_SIZE];
	berth_money_format(response->forfeited_nano_usd, money);
	fprintf(cli->io->out, "gave up agent %s, %zu leases and %s USD\n", request.name, response->n_lease_ids, money);
	return 0;
}
