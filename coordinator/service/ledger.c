// SPDX-License-Identifier: Apache-2.0
// LedgerService: heads, events and proofs. Everything but the incarnation comes from the ledger, which any thread
// reads.
#include <stdlib.h>

#include "berth/v1/ledger.pb-c.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/audit/recover.h"
#include "coordinator/service/backups.h"
#include "coordinator/service/daemon.h"
#include "coordinator/service/heads.h"

#define EVENTS_LIMIT     1000
#define RESENDING_LIMIT  100
#define EVENTS_BYTES_MAX (2 * 1024 * 1024) // of a page that holds more than one event

struct asked {
	const char *job;
	uint32_t index;
	char job_id[BERTH_ID_SIZE];
	uint64_t sequence;
	bool forgotten;
	struct berth_error err;
};

static void ask_nothing(const struct berth_core *core, void *context)
{
	(void)core, (void)context;
}

// What only the engine knows of a head: messages of their own, since it goes on.
static void ask_history(const struct berth_core *core, void *context)
{
	Berth__V1__GetHeadResponse *response = context;
	response->incarnation = berth_alloc(sizeof *response->incarnation);
	berth__v1__incarnation__init(response->incarnation);
	response->incarnation->number = berth_core_incarnation(core).number;
	struct berth_core_backup backup;
	if (berth_core_backup(core, &backup)) {
		response->backup = berth_alloc(sizeof *response->backup);
		berth__v1__verified_backup__init(response->backup);
		response->backup->size = backup.size;
		berth_proto_set_bytes(&response->backup->root_hash, backup.root.bytes, BERTH_DIGEST_SIZE);
		response->backup->verified_at_ns = backup.verified_at_ns;
		berth_proto_set_string(&response->backup->operator_, backup.operator);
	}
	const struct berth_core_restore *restores;
	size_t count = berth_core_restores(core, &restores);
	for (size_t i = 0; i < count; i++) {
		Berth__V1__Restore *restore = berth_alloc(sizeof *restore);
		berth__v1__restore__init(restore);
		restore->head = berth_alloc(sizeof *restore->head);
		berth__v1__ledger_head__init(restore->head);
		restore->head->sequence = restores[i].size;
		berth_proto_set_bytes(&restore->head->leaf_hash, restores[i].leaf.bytes, BERTH_DIGEST_SIZE);
		berth_proto_set_bytes(&restore->head->root_hash, restores[i].root.bytes, BERTH_DIGEST_SIZE);
		restore->incarnation = restores[i].incarnation;
		berth_proto_append(&response->n_restores, &response->restores, restore);
	}
	const char *names[RESENDING_LIMIT];
	size_t resending = berth_core_resending(core, names, RESENDING_LIMIT);
	for (size_t i = 0; i < resending && i < RESENDING_LIMIT; i++) {
		berth_proto_append(&response->n_resending, &response->resending, berth_strdup(names[i]));
	}
}

static void get_head(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	struct berth_daemon *daemon = context;
	struct berth_error err;
	Berth__V1__GetHeadResponse *response = berth_alloc(sizeof *response);
	berth__v1__get_head_response__init(response);
	bool ok = berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_history, response, &err);
	Berth__V1__LedgerHead head;
	struct berth_signed_head storage;
	const struct berth_ledger_head newest = berth_ledger_head(daemon->ledger);
	berth_heads_fill(daemon->heads, &newest, &storage, &head);
	const ProtobufCBinaryData key = berth_heads_key_der(daemon->heads);
	response->head = berth_proto_clone(&head);
	berth_proto_set_string(&response->fleet, daemon->fleet);
	berth_proto_set_bytes(&response->key_der, key.data, key.len);
	berth_reply(call, ok ? response : NULL, &err);
	berth_proto_free(response);
}

// The caller's certificate must be the one in force: the engine knows it.
static bool may_ask(struct berth_daemon *daemon, struct berth_rpc_call *call, struct berth_error *err)
{
	return berth_engine_ask(daemon->engine, berth_rpc_call_principal(call), ask_nothing, NULL, err);
}

static void free_events(Berth__V1__GetEventsResponse *page)
{
	for (size_t i = 0; i < page->n_events; i++) {
		free(page->events[i].data);
	}
	free(page->events);
}

static bool read_events(struct berth_ledger *ledger, const Berth__V1__GetEventsRequest *request,
	Berth__V1__GetEventsResponse *page, struct berth_error *err)
{
	size_t limit = request->limit && request->limit < EVENTS_LIMIT ? request->limit : EVENTS_LIMIT;
	uint64_t last = berth_ledger_head(ledger).sequence;
	page->events = berth_alloc(limit * sizeof *page->events);
	size_t bytes = 0;
	for (uint64_t sequence = request->from; sequence <= last && page->n_events < limit; sequence++) {
		BERTH_AUTO(berth_buf_free) struct berth_buf event = {0};
		if (!berth_ledger_read(ledger, sequence, &event, err)) {
			return false;
		}
		bytes += event.size;
		if (page->n_events && bytes > EVENTS_BYTES_MAX) {
			break;
		}
		page->events[page->n_events].len = event.size;
		page->events[page->n_events++].data = (uint8_t *)berth_buf_steal(&event);
	}
	return true;
}

static void get_events(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	struct berth_error err;
	Berth__V1__GetEventsResponse page = BERTH__V1__GET_EVENTS_RESPONSE__INIT;
	bool ok = may_ask(daemon, call, &err) &&
	          read_events(daemon->ledger, (const Berth__V1__GetEventsRequest *)message, &page, &err);
	berth_reply(call, ok ? &page : NULL, &err);
	free_events(&page);
}

static void ask_result(const struct berth_core *core, void *context)
{
	struct asked *asked = context;
	if (!berth_core_find_job(core, asked->job, asked->job_id, &asked->err)) {
		return;
	}
	asked->forgotten = berth_core_is_forgotten(core, asked->job_id);
	if (!asked->forgotten) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__Trial *trial = berth_core_trial(core, asked->job_id, asked->index, NULL, &asked->sequence);
		if (!trial) {
			berth_fail(&asked->err, BERTH_ERROR_NOT_FOUND, "job %s has no trial %u", asked->job_id,
				asked->index);
		}
	}
}

// The event that has a trial's result.
static bool find_result(
	struct berth_daemon *daemon, const Berth__V1__TrialPlace *place, uint64_t *sequence, struct berth_error *err)
{
	struct asked asked = {.job = place->job_id, .index = place->index};
	if (!berth_engine_ask(daemon->engine, NULL, ask_result, &asked, err)) {
		return false;
	}
	if (asked.err.code != BERTH_ERROR_OK) {
		return berth_fail(err, asked.err.code, "%s", asked.err.message);
	}
	if (asked.forgotten) {
		BERTH_AUTO(berth_proto_cleanup)
		Berth__V1__Trial *trial =
			berth_read_trial(daemon, asked.job_id, asked.index, NULL, &asked.sequence, err);
		if (!trial) {
			return false;
		}
	}
	*sequence = asked.sequence;
	return asked.sequence || berth_fail(err, BERTH_ERROR_NOT_FOUND, "trial %u of job %s has no result yet",
					 asked.index, asked.job_id);
}

static bool head_of(struct berth_daemon *daemon, uint64_t size, struct berth_ledger_head *head, struct berth_error *err)
{
	if (size == 0) {
		*head = berth_ledger_head(daemon->ledger);
		return true;
	}
	return berth_ledger_head_at(daemon->ledger, size, head, err);
}

static void prove_inclusion(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__ProveInclusionRequest *request = (const Berth__V1__ProveInclusionRequest *)message;
	Berth__V1__ProveInclusionResponse response = BERTH__V1__PROVE_INCLUSION_RESPONSE__INIT;
	BERTH_AUTO(berth_buf_free) struct berth_buf event = {0};
	struct berth_ledger_head head;
	struct berth_head_proof proof;
	struct berth_error err;
	response.sequence = request->sequence;
	bool ok = may_ask(daemon, call, &err) &&
	          (request->sequence || !request->trial ||
			  find_result(daemon, request->trial, &response.sequence, &err)) &&
	          berth_ledger_read(daemon->ledger, response.sequence, &event, &err) &&
	          head_of(daemon, request->size, &head, &err) &&
	          berth_heads_inclusion(daemon->ledger, response.sequence, head.sequence, &proof, &err);
	if (!ok) {
		berth_rpc_finish(call, &err);
		return;
	}
	Berth__V1__LedgerHead signed_head;
	struct berth_signed_head storage;
	berth_heads_fill(daemon->heads, &head, &storage, &signed_head);
	response.event = (ProtobufCBinaryData){.len = event.size, .data = event.data};
	response.head = &signed_head;
	response.path = proof.items;
	response.n_path = proof.count;
	response.fleet = daemon->fleet;
	response.key_der = berth_heads_key_der(daemon->heads);
	berth_reply(call, &response, NULL);
}

static void prove_consistency(struct berth_rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct berth_daemon *daemon = context;
	const Berth__V1__ProveConsistencyRequest *request = (const Berth__V1__ProveConsistencyRequest *)message;
	struct berth_ledger_head first, second;
	struct berth_head_proof proof;
	struct berth_error err;
	bool ok = may_ask(daemon, call, &err) && berth_ledger_head_at(daemon->ledger, request->first, &first, &err) &&
	          head_of(daemon, request->second, &second, &err) &&
	          berth_heads_consistency(daemon->ledger, first.sequence, second.sequence, &proof, &err);
	if (!ok) {
		berth_rpc_finish(call, &err);
		return;
	}
	Berth__V1__ProveConsistencyResponse response = BERTH__V1__PROVE_CONSISTENCY_RESPONSE__INIT;
	Berth__V1__LedgerHead heads[2];
	struct berth_signed_head storages[2];
	berth_heads_fill(daemon->heads, &first, &storages[0], &heads[0]);
	berth_heads_fill(daemon->heads, &second, &storages[1], &heads[1]);
	response.first = &heads[0];
	response.second = &heads[1];
	response.path = proof.items;
	response.n_path = proof.count;
	berth_reply(call, &response, NULL);
}

const struct berth_rpc_handler berth_ledger_handlers[] = {
	{.method = "GetHead", .roles = BERTH_ROLE_AGENT | BERTH_ROLE_USER | BERTH_ROLE_OPERATOR, .message = get_head},
	{.method = "GetEvents", .roles = BERTH_ROLE_OPERATOR, .message = get_events},
	{.method = "ProveInclusion", .roles = BERTH_ROLE_OPERATOR, .message = prove_inclusion},
	{.method = "ProveConsistency", .roles = BERTH_ROLE_USER | BERTH_ROLE_OPERATOR, .message = prove_consistency},
	{.method = "BeginBackup", .roles = BERTH_ROLE_OPERATOR, .message = berth_backup_begin},
	{.method = "FinishBackup", .roles = BERTH_ROLE_OPERATOR, .message = berth_backup_finish},
};
const size_t berth_ledger_handlers_count = BERTH_COUNT(berth_ledger_handlers);
