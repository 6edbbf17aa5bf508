// SPDX-License-Identifier: Apache-2.0
// One signature over all results of a group of writes. It is made before they are written, so that what is sent, and
// sent again after a crash, is what the disk has.
#include <string.h>

#include "agent/session/store_internal.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/statement.h"

static_assert(AGENT_STORE_GROUP_MAX <= BERTH_STATEMENT_GROUP_MAX, "a group of writes is signed at once");

static Berth__V1__Evidence *evidence_of(const struct agent_write *write)
{
	const Berth__V1__Report *report = write->report;
	bool has = report && report->body_case == BERTH__V1__REPORT__BODY_DONE && report->done->result;
	Berth__V1__Evidence *evidence = has ? report->done->result->evidence : NULL;
	return evidence && *evidence->statement ? evidence : NULL;
}

static void add_proof(struct agent_store *store, const struct berth_statement_group *statements, size_t index,
	const uint8_t signature[static BERTH_SIGNATURE_SIZE], Berth__V1__Evidence *evidence)
{
	struct berth_digest path[BERTH_STATEMENT_PATH_MAX];
	size_t count = berth_statement_group_path(statements, index, path);
	berth_proto_set_string(&evidence->key_id, store->key_id);
	berth_proto_set_bytes(&evidence->signature, signature, BERTH_SIGNATURE_SIZE);
	berth_proto_set_bytes(&evidence->path, path, count * sizeof path[0]);
	evidence->group_index = (uint32_t)index;
	evidence->group_size = (uint32_t)berth_statement_group_size(statements);
}

void agent_store_sign(struct agent_store *store, struct agent_write *const *group, size_t count)
{
	Berth__V1__Evidence *evidence[AGENT_STORE_GROUP_MAX];
	size_t found = 0;
	for (size_t i = 0; i < count; i++) {
		Berth__V1__Evidence *of = evidence_of(group[i]);
		if (of) {
			evidence[found++] = of;
		}
	}
	if (found == 0 || !store->options.signing_key) {
		return;
	}
	struct berth_statement_group *statements = berth_statement_group_new();
	for (size_t i = 0; i < found; i++) {
		berth_statement_group_add(statements, evidence[i]->statement, strlen(evidence[i]->statement));
	}
	uint8_t signature[BERTH_SIGNATURE_SIZE];
	struct berth_error err;
	bool is_signed = berth_statement_group_sign(statements, store->options.signing_key, signature, &err);
	if (!is_signed) {
		berth_log_error("results go unsigned and will be run again", "error=%s", berth_log_quote(err.message));
	}
	for (size_t i = 0; is_signed && i < found; i++) {
		add_proof(store, statements, i, signature, evidence[i]);
	}
	berth_statement_group_free(statements);
}
