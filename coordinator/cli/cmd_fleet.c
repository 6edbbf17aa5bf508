// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "berth/v1/fleet.pb-c.h"
#include "berth/v1/lease.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/link.h"
#include "coordinator/cli/output.h"

#define LEASES_LIMIT_MAX     100000
#define LEASES_LIMIT_DEFAULT 100
#define LEASES_PAGE          1000

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

static void add_lease(struct cli_table *table, const Berth__V1__Lease *lease)
{
	BERTH_AUTO_FREE char *state = cli_state_text(&berth__v1__lease_state__descriptor, (int)lease->state);
	BERTH_AUTO_FREE char *backend = cli_state_text(&berth__v1__backend__descriptor, (int)lease->backend);
	const ProtobufCEnumValue *role =
		protobuf_c_enum_descriptor_get_value(&berth__v1__lease_role__descriptor, (int)lease->role);
	BERTH_AUTO_FREE char *expiry = cli_time_text(lease->provider_expiry_at_ns);
	cli_table_add(table, "%s", lease->lease_id);
	cli_table_add(table, "%s", state);
	cli_table_add(table, "%s", role ? role->name : "-");
	cli_table_add(table, "%s", backend);
	cli_table_add(table, "%s", lease->agent);
	cli_table_add(table, "%s", lease->job_id);
	cli_table_add(table, "%u", lease->trial_index);
	cli_table_add(table, "%u", lease->generation);
	cli_table_add(table, "%s", *lease->resource_id ? lease->resource_id : "-");
	cli_table_add(table, "%s", expiry);
	cli_table_add(table, "%s", *lease->failure ? lease->failure : "-");
}

struct leases {
	struct cli_table *table;
	berth_json *list;
	int64_t left;
	char *last; // id that the next page starts after
};

static void leases_free(struct leases *leases)
{
	cli_table_cleanup(&leases->table);
	berth_json_free(leases->list);
	berth_free_cleanup(&leases->last);
}

// False when this was the last page.
static bool take_page(struct leases *leases, const Berth__V1__ListLeasesResponse *page)
{
	for (size_t i = 0; i < page->n_leases && leases->left > 0; i++, leases->left--) {
		add_lease(leases->table, page->leases[i]);
		berth_json_append(leases->list, cli_message_json(&page->leases[i]->base));
	}
	if (page->n_leases == 0 || leases->left == 0) {
		return false;
	}
	const char *last = page->leases[page->n_leases - 1]->lease_id;
	bool ahead = !leases->last || strcmp(last, leases->last) > 0;
	berth_free_cleanup(&leases->last);
	leases->last = berth_strdup(last);
	return ahead;
}

int cli_lease_list(struct cli *cli, struct berth_error *err)
{
	static const char *const HEADS[] = {"LEASE", "STATE", "ROLE", "BACKEND", "AGENT", "JOB", "TRIAL", "GENERATION",
		"RESOURCE", "EXPIRES", "FAILURE", NULL};
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	BERTH_AUTO(leases_free)
	struct leases leases = {
		.table = cli_table_new(HEADS), .list = berth_json_array(), .left = LEASES_LIMIT_DEFAULT};
	const char *job = cli_args_text(&cli->args, CLI_FLAG_LEASE_JOB);
	if (!cli_args_integer(&cli->args, CLI_FLAG_LIMIT, 1, LEASES_LIMIT_MAX, &leases.left, err) ||
		!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetJobResponse *found = job ? cli_get_job(&link, job, err) : NULL;
	if (job && !found) {
		return CLI_FAILED;
	}
	Berth__V1__ListLeasesRequest request = BERTH__V1__LIST_LEASES_REQUEST__INIT;
	request.job_id = found ? found->job->job_id : "";
	request.open_only = !cli_args_has(&cli->args, CLI_FLAG_EVERY);
	for (bool more = true; more;) {
		request.limit = leases.left < LEASES_PAGE ? (uint32_t)leases.left : LEASES_PAGE;
		request.after_lease_id = leases.last ? leases.last : "";
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__ListLeasesResponse *page =
			cli_call(&link, &berth__v1__lease_service__descriptor, "ListLeases", &request, err);
		if (!page) {
			return CLI_FAILED;
		}
		more = take_page(&leases, page);
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, BERTH_STEAL(leases.list), false);
	} else {
		cli_table_print(cli, leases.table);
	}
	return 0;
}
