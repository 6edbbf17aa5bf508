// SPDX-License-Identifier: Apache-2.0
// LeaseService: leases in memory from the core, those that nothing can change any more from their records.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/service/daemon.h"

#define LEASES_LIMIT 1000

struct question {
	const Berth__V1__ListLeasesRequest *list;
	const char *lease_id;
	Berth__V1__Lease **leases;
	Berth__V1__LeaseDetail **details;
	size_t count, limit;
	char job_id[BERTH_ID_SIZE];
	bool ok;
	struct berth_error err;
};

static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

static void ask_leases(const struct berth_core *core, void *context)
{
	struct question *question = context;
	const Berth__V1__ListLeasesRequest *request = question->list;
	question->ok =
		!request->job_id[0] || berth_core_find_job(core, request->job_id, question->job_id, &question->err);
	if (!question->ok) {
		return;
	}
	enum berth_core_lease_filter filter = request->orphans_only ? BERTH_LEASES_ORPHANED
	                                      : request->open_only  ? BERTH_LEASES_OPEN
	                                                            : BERTH_LEASES_ALL;
	question->count = berth_core_leases(core, or_null(question->job_id), filter, or_null(request->after_lease_id),
		question->limit, question->leases, question->details);
}

static Berth__V1__LeaseDetail *no_detail(void)
{
	Berth__V1__LeaseDetail *detail = berth_alloc(sizeof *detail);
	berth__v1__lease_detail__init(detail);
	return detail;
}

// Those that nothing can change any more are records only; they come with an empty detail.
static bool add_recorded(struct berth_daemon *daemon, struct question *question)
{
	const Berth__V1__ListLeasesRequest *request = question->list;
	if (request->open_only || request->orphans_only) {
		return true;
	}
	size_t known = question->count, taken = 0;
	BERTH_AUTO_FREE Berth__V1__LeaseDetail **details =
		berth_memdup(question->details, (known + 1) * sizeof(*details));
	BERTH_AUTO_FREE char(*ids)[BERTH_ID_SIZE] = berth_alloc((known + 1) * sizeof *ids);
	for (size_t i = 0; i < known; i++) {
		snprintf(ids[i], sizeof ids[i], "%s", question->leases[i]->lease_id);
	}
	bool ok = berth_read_leases(daemon, or_null(question->job_id), or_null(request->after_lease_id),
		question->limit, question->leases, &question->count, &question->err);
	// Both are by id; those of `details` that the records pushed off the page's end are left over.
	for (size_t i = 0; i < question->count; i++) {
		bool own = taken < known && strcmp(question->leases[i]->lease_id, ids[taken]) == 0;
		question->details[i] = own ? details[taken++] : no_detail();
	}
	for (; taken < known; taken++) {
		berth_proto_free(details[taken]);
	}
	return ok;
}

static void list_leases(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__ListLeasesRequest *request = (const Berth__V1__ListLeasesRequest *)message;
	struct question question = {.list = request,
		.limit = request->limit && request->limit < LEASES_LIMIT ? request->limit : LEASES_LIMIT};
	question.leases = berth_alloc(question.limit * sizeof(*question.leases));
	question.details = berth_alloc((question.limit + 1) * sizeof(*question.details));
	bool ok = berth_engine_ask(
			  daemon->engine, berth_rpc_call_principal(call), ask_leases, &question, &question.err) &&
	          question.ok && add_recorded(daemon, &question);
	Berth__V1__ListLeasesResponse *response = berth_alloc(sizeof *response);
	berth__v1__list_leases_response__init(response);
	response->leases = question.leases;
	response->details = question.details;
	response->n_leases = response->n_details = question.count;
	berth_reply(call, ok ? response : NULL, &question.err);
	berth_proto_free(response);
}

static void ask_lease(const struct berth_core *core, void *context)
{
	struct question *question = context;
	question->ok =
		berth_core_lease(core, question->lease_id, &question->leases[0], &question->details[0], &question->err);
}

struct search {
	const char *text;
	Berth__V1__Lease *found;
	bool several;
};

static bool look_at_record(void *context, const char *key, unsigned slot, const void *value, size_t size)
{
	(void)slot;
	struct search *search = context;
	struct berth_error err;
	if (strncmp(strrchr(key, '/') + 1, search->text, strlen(search->text)) == 0) {
		search->several = search->found != NULL;
		berth_proto_free(search->found);
		search->found = berth_proto_unpack(&berth__v1__lease__descriptor, value, size, key, &err);
	}
	return !search->several;
}

static bool find_recorded(struct berth_daemon *daemon, struct question *question)
{
	struct search search = {.text = question->lease_id};
	if (question->err.code != BERTH_ERROR_NOT_FOUND || strlen(question->lease_id) < BERTH_ID_PREFIX_MIN ||
		!berth_ledger_rows(daemon->ledger, "lease/", NULL, look_at_record, &search, &question->err) ||
		search.several || !search.found) {
		berth_proto_free(search.found);
		return false;
	}
	question->leases[0] = search.found;
	question->details[0] = no_detail();
	return true;
}

static void get_lease(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	Berth__V1__Lease *lease = NULL;
	Berth__V1__LeaseDetail *detail = NULL;
	struct question question = {.lease_id = ((const Berth__V1__GetLeaseRequest *)message)->lease_id,
		.leases = &lease,
		.details = &detail};
	bool ok =
		berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_lease, &question, &question.err) &&
		(question.ok || find_recorded(daemon, &question));
	Berth__V1__GetLeaseResponse response = BERTH__V1__GET_LEASE_RESPONSE__INIT;
	response.lease = lease;
	response.detail = detail;
	berth_reply(call, ok ? &response : NULL, &question.err);
	berth_proto_free(lease);
	berth_proto_free(detail);
}

const struct berth_rpc_handler berth_lease_handlers[] = {
	{.method = "ListLeases", .roles = BERTH_ROLE_USER | BERTH_ROLE_OPERATOR, .message = list_leases},
	{.method = "GetLease", .roles = BERTH_ROLE_USER | BERTH_ROLE_OPERATOR, .message = get_lease},
};
const size_t berth_lease_handlers_count = BERTH_COUNT(berth_lease_handlers);
