// SPDX-License-Identifier: Apache-2.0
// What is found by reading a coordinator's events from the first on.
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/budget/chain.h"
#include "coordinator/cli/ledger_audit.h"

typedef bool visit_fn(void *context, const Berth__Store__V1__Event *event, struct berth_error *err);

static bool visit_page(const Berth__V1__GetEventsResponse *page, uint64_t from, visit_fn *visit, void *context,
	struct berth_error *err)
{
	for (size_t i = 0; i < page->n_events; i++) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__Store__V1__Event *event = berth_proto_unpack(&berth__store__v1__event__descriptor,
			page->events[i].data, page->events[i].len, "a stored event", err);
		if (!event || !visit(context, event, err)) {
			return berth_error_wrap(err, "event %llu", (unsigned long long)(from + i));
		}
	}
	return true;
}

static bool each_event(struct cli_link *link, visit_fn *visit, void *context, struct berth_error *err)
{
	Berth__V1__GetEventsRequest request = BERTH__V1__GET_EVENTS_REQUEST__INIT;
	request.from = 1;
	for (bool more = true; more;) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__GetEventsResponse *page = cli_call(link, CLI_LEDGER, "GetEvents", &request, err);
		if (!page || !visit_page(page, request.from, visit, context, err)) {
			return false;
		}
		request.from += page->n_events;
		more = page->n_events > 0;
	}
	return true;
}

// --- the newest event of a lease ---
struct find {
	const char *lease;
	uint64_t sequence;
};

static bool is_of(const Berth__Store__V1__Event *event, const char *lease)
{
	if (event->body_case == BERTH__STORE__V1__EVENT__BODY_LEASE_MOVED) {
		return strcmp(event->lease_moved->lease_id, lease) == 0;
	}
	bool begins = false;
	if (event->body_case == BERTH__STORE__V1__EVENT__BODY_TRIAL_ASSIGNED) {
		for (size_t i = 0; i < event->trial_assigned->n_leases; i++) {
			begins = begins || strcmp(event->trial_assigned->leases[i]->lease_id, lease) == 0;
		}
	}
	return begins;
}

static bool find_lease(void *context, const Berth__Store__V1__Event *event, struct berth_error *err)
{
	(void)err;
	struct find *find = context;
	if (is_of(event, find->lease)) {
		find->sequence = event->sequence;
	}
	return true;
}

bool cli_ledger_find_lease(struct cli_link *link, const char *lease, uint64_t *sequence, struct berth_error *err)
{
	struct find find = {.lease = lease};
	if (!each_event(link, find_lease, &find, err)) {
		return false;
	}
	*sequence = find.sequence;
	return find.sequence ||
	       berth_fail(err, BERTH_ERROR_NOT_FOUND,
		       "no event is of a lease %s: `berth lease list --all` shows their whole ids", lease);
}

// --- a budget's chain ---
struct export
{
	struct cli *cli;
	struct berth_budget_chain chain;
};

static bool export_event(void *context, const Berth__Store__V1__Event *event, struct berth_error *err)
{
	struct export *export = context;
	BERTH_AUTO(berth_buf_free) struct berth_buf lines = {0};
	if (!berth_budget_chain_add(&export->chain, event, &lines, err)) {
		return false;
	}
	fputs(berth_buf_text(&lines), export->cli->io->out);
	return true;
}

int cli_ledger_export(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	struct export export = {.cli = cli, .chain = {.budget = cli_args_text(&cli->args, CLI_FLAG_BUDGET)}};
	if (!export.chain.budget) {
		berth_fail(err, BERTH_ERROR_INVALID, "--budget NAME is missing: whose chain to write");
		return CLI_FAILED;
	}
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err) || !each_event(&link, export_event, &export, err)) {
		return CLI_FAILED;
	}
	if (export.chain.sequence == 0) {
		berth_fail(err, BERTH_ERROR_NOT_FOUND, "no budget is named %s: `berth budget list` shows them",
			export.chain.budget);
		return CLI_FAILED;
	}
	return 0;
}
