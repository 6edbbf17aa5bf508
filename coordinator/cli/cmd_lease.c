// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "berth/v1/lease.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/money.h"
#include "coordinator/cli/link.h"
#include "coordinator/cli/output.h"

#define LEASES_LIMIT_MAX     100000
#define LEASES_LIMIT_DEFAULT 100
#define LEASES_PAGE          1000
#define NEVER                "by proof alone" // nothing ends it by itself

static const ProtobufCServiceDescriptor *const LEASES = &berth__v1__lease_service__descriptor;

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

static void add_orphan(struct cli_table *table, const Berth__V1__Lease *lease, const Berth__V1__LeaseDetail *detail)
{
	char money[BERTH_MONEY_TEXT_SIZE];
	BERTH_AUTO_FREE char *state = cli_state_text(&berth__v1__lease_state__descriptor, (int)lease->state);
	BERTH_AUTO_FREE char *dead = detail->dead_by_ns ? cli_time_text(detail->dead_by_ns) : NULL;
	berth_money_format(detail->worst_nano_usd, money);
	cli_table_add(table, "%s", lease->lease_id);
	cli_table_add(table, "%s", state);
	cli_table_add(table, "%s", lease->agent);
	cli_table_add(table, "%s", *lease->resource_id ? lease->resource_id : "-");
	cli_table_add(table, "%s", dead ? dead : NEVER);
	cli_table_add(table, "%s", money);
	cli_table_add(table, "%s", detail->orphaned);
}

struct leases {
	bool orphans;
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
		if (leases->orphans) {
			add_orphan(leases->table, page->leases[i], page->details[i]);
		} else {
			add_lease(leases->table, page->leases[i]);
		}
		berth_json *item = cli_message_json(&page->leases[i]->base);
		berth_json_set(item, "detail", cli_message_json(&page->details[i]->base));
		berth_json_append(leases->list, item);
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

static bool read_pages(
	const struct cli *cli, Berth__V1__ListLeasesRequest *request, struct leases *leases, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	const char *job = cli_args_text(&cli->args, CLI_FLAG_LEASE_JOB);
	if (!cli_args_integer(&cli->args, CLI_FLAG_LIMIT, 1, LEASES_LIMIT_MAX, &leases->left, err) ||
		!cli_link_open((struct cli *)cli, CLI_LINK_BERTH, &link, err)) {
		return false;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetJobResponse *found = job ? cli_get_job(&link, job, err) : NULL;
	if (job && !found) {
		return false;
	}
	request->job_id = found ? found->job->job_id : "";
	for (bool more = true; more;) {
		request->limit = leases->left < LEASES_PAGE ? (uint32_t)leases->left : LEASES_PAGE;
		request->after_lease_id = leases->last ? leases->last : "";
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__ListLeasesResponse *page = cli_call(&link, LEASES, "ListLeases", request, err);
		if (!page) {
			return false;
		}
		if (page->n_details != page->n_leases) {
			return berth_fail(err, BERTH_ERROR_UNSUPPORTED,
				"the coordinator is of an older release: update it first");
		}
		more = take_page(leases, page);
	}
	return true;
}

static int list_leases(struct cli *cli, bool orphans, const char *const *heads, struct berth_error *err)
{
	BERTH_AUTO(leases_free)
	struct leases leases = {.orphans = orphans,
		.table = cli_table_new(heads),
		.list = berth_json_array(),
		.left = LEASES_LIMIT_DEFAULT};
	Berth__V1__ListLeasesRequest request = BERTH__V1__LIST_LEASES_REQUEST__INIT;
	request.open_only = !cli_args_has(&cli->args, CLI_FLAG_EVERY);
	request.orphans_only = orphans;
	if (!read_pages(cli, &request, &leases, err)) {
		return CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		cli_json_print(cli->io->out, BERTH_STEAL(leases.list), false);
	} else {
		cli_table_print(cli, leases.table);
	}
	return 0;
}

int cli_lease_list(struct cli *cli, struct berth_error *err)
{
	static const char *const HEADS[] = {"LEASE", "STATE", "ROLE", "BACKEND", "AGENT", "JOB", "TRIAL", "GENERATION",
		"RESOURCE", "EXPIRES", "FAILURE", NULL};
	return list_leases(cli, false, HEADS, err);
}

int cli_lease_orphans(struct cli *cli, struct berth_error *err)
{
	static const char *const HEADS[] = {"LEASE", "STATE", "AGENT", "RESOURCE", "DEAD_BY", "WORST_USD", "WHY", NULL};
	return list_leases(cli, true, HEADS, err);
}

static void show_lease(struct cli *cli, const Berth__V1__Lease *lease, const Berth__V1__LeaseDetail *detail)
{
	static const char *const HEADS[] = {"LEASE", "STATE", "ROLE", "AGENT", "JOB", "TRIAL", "GENERATION", "RESOURCE",
		"CREATED", "RETIRED", "DEAD_BY", "BUDGET", "RESERVATION", "CHARGED_USD", "WORST_USD", "ORPHANED",
		"FAILURE", NULL};
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = cli_table_new(HEADS);
	BERTH_AUTO_FREE char *state = cli_state_text(&berth__v1__lease_state__descriptor, (int)lease->state);
	const ProtobufCEnumValue *role =
		protobuf_c_enum_descriptor_get_value(&berth__v1__lease_role__descriptor, (int)lease->role);
	BERTH_AUTO_FREE char *created = cli_time_text(lease->created_at_ns);
	BERTH_AUTO_FREE char *retired = cli_time_text(lease->retired_at_ns);
	BERTH_AUTO_FREE char *dead = detail->dead_by_ns ? cli_time_text(detail->dead_by_ns) : NULL;
	bool open = lease->state != BERTH__V1__LEASE_STATE__LEASE_RETIRED;
	char charged[BERTH_MONEY_TEXT_SIZE], worst[BERTH_MONEY_TEXT_SIZE];
	berth_money_format(detail->charged_nano_usd, charged);
	berth_money_format(detail->worst_nano_usd, worst);
	cli_table_add(table, "%s", lease->lease_id);
	cli_table_add(table, "%s", state);
	cli_table_add(table, "%s", role ? role->name : "-");
	cli_table_add(table, "%s", lease->agent);
	cli_table_add(table, "%s", lease->job_id);
	cli_table_add(table, "%u", lease->trial_index);
	cli_table_add(table, "%u", lease->generation);
	cli_table_add(table, "%s", *lease->resource_id ? lease->resource_id : "-");
	cli_table_add(table, "%s", created);
	cli_table_add(table, "%s", retired);
	cli_table_add(table, "%s", dead ? dead : open ? NEVER : "-");
	cli_table_add(table, "%s", *detail->budget ? detail->budget : "-");
	cli_table_add(table, "%s", *detail->reservation ? detail->reservation : "-");
	cli_table_add(table, "%s", charged);
	cli_table_add(table, "%s", worst);
	cli_table_add(table, "%s", *detail->orphaned ? detail->orphaned : "-");
	cli_table_add(table, "%s", *lease->failure ? lease->failure : "-");
	cli_table_print(cli, table);
}

int cli_lease_show(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	Berth__V1__GetLeaseRequest request = BERTH__V1__GET_LEASE_REQUEST__INIT;
	request.lease_id = (char *)cli->args.positionals[0];
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__GetLeaseResponse *response = cli_call(&link, LEASES, "GetLease", &request, err);
	if (!response) {
		return CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		berth_json *item = cli_message_json(&response->lease->base);
		berth_json_set(item, "detail", cli_message_json(&response->detail->base));
		cli_json_print(cli->io->out, item, false);
	} else {
		show_lease(cli, response->lease, response->detail);
	}
	return 0;
}
