// SPDX-License-Identifier: Apache-2.0
// `berth ledger` against a running coordinator: its head, proofs, and what is checked of them here.
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/cli/ledger_audit.h"
#include "coordinator/cli/ledger_proof.h"
#include "coordinator/cli/output.h"

int cli_ledger_show(struct cli *cli, struct berth_error *err)
{
	static const char *const HEADS[] = {
		"FLEET", "INCARNATION", "EVENTS", "ROOT", "KEY", "BACKED_UP", "WAITS_FOR", NULL};
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	BERTH_AUTO(cli_key_free) struct cli_key key = {0};
	if (!cli_trusted_key(cli, &key, err) || !cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__GetHeadResponse *response = cli_get_head(&link, &key, err);
	if (!response) {
		return CLI_FAILED;
	}
	char key_id[BERTH_DIGEST_HEX_SIZE], root[BERTH_DIGEST_HEX_SIZE];
	berth_signing_key_id(key.der, key.size, key_id);
	berth_hex(response->head->root_hash.data, BERTH_DIGEST_SIZE, root);
	if (cli->output == CLI_OUTPUT_JSON) {
		berth_json *object = cli_message_json(&response->base);
		berth_json_set(object, "key_id", berth_json_string(key_id));
		cli_json_print(cli->io->out, object, false);
		return 0;
	}
	BERTH_AUTO(cli_table_cleanup) struct cli_table *table = cli_table_new(HEADS);
	cli_table_add(table, "%s", response->fleet);
	cli_table_add(table, "%llu", (unsigned long long)response->incarnation->number);
	cli_table_add(table, "%llu", (unsigned long long)response->head->sequence);
	cli_table_add(table, "sha256:%s", root);
	cli_table_add(table, "%s", key_id);
	cli_table_add(table, "%llu", response->backup ? (unsigned long long)response->backup->size : 0);
	BERTH_AUTO(berth_buf_free) struct berth_buf names = {0};
	for (size_t i = 0; i < response->n_resending; i++) {
		berth_buf_printf(&names, "%s%s", i ? "," : "", response->resending[i]);
	}
	cli_table_add(table, "%s", names.size ? berth_buf_text(&names) : "-");
	cli_table_print(cli, table);
	return 0;
}

// One of "JOB/INDEX" of --trial, --lease (found later) and the sequence.
static bool what_to_prove(const struct cli *cli, Berth__V1__ProveInclusionRequest *request,
	Berth__V1__TrialPlace *place, char **job, struct berth_error *err)
{
	const char *trial = cli_args_text(&cli->args, CLI_FLAG_TRIAL);
	const char *text = trial ? strrchr(trial, '/') : cli->args.positionals_count ? cli->args.positionals[0] : NULL;
	bool lease = cli_args_has(&cli->args, CLI_FLAG_LEASE);
	if ((trial != NULL) + lease + cli->args.positionals_count != 1 || (!lease && !text)) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"name one event: its SEQUENCE, --trial JOB/INDEX, or --lease ID for the newest of a lease");
	}
	if (lease) {
		return true;
	}
	char *end;
	text += trial ? 1 : 0;
	unsigned long long number = strtoull(text, &end, 10);
	if (*end || end == text || *text == '-' || (!trial && number == 0) || (trial && number > UINT32_MAX)) {
		return berth_fail(err, BERTH_ERROR_INVALID, "%s is not %s", text,
			trial ? "the index of a trial" : "the sequence of an event, from 1");
	}
	if (trial) {
		*job = berth_strndup(trial, (size_t)(text - 1 - trial));
		place->job_id = *job;
		place->index = (uint32_t)number;
		request->trial = place;
	} else {
		request->sequence = number;
	}
	return true;
}

int cli_ledger_prove(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	BERTH_AUTO(cli_key_free) struct cli_key key = {0};
	BERTH_AUTO_FREE char *job = NULL;
	const char *lease = cli_args_text(&cli->args, CLI_FLAG_LEASE);
	Berth__V1__ProveInclusionRequest request = BERTH__V1__PROVE_INCLUSION_REQUEST__INIT;
	Berth__V1__TrialPlace place = BERTH__V1__TRIAL_PLACE__INIT;
	if (!what_to_prove(cli, &request, &place, &job, err) || !cli_trusted_key(cli, &key, err) ||
		!cli_link_open(cli, CLI_LINK_BERTH, &link, err) ||
		(lease && !cli_ledger_find_lease(&link, lease, &request.sequence, err))) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__ProveInclusionResponse *response = cli_call(&link, CLI_LEDGER, "ProveInclusion", &request, err);
	BERTH_AUTO(berth_json_cleanup) berth_json *document = response ? cli_proof_json(response, err) : NULL;
	struct cli_proof proof;
	// What is handed on holds.
	if (!document || !cli_proof_check(document, key.der, key.size, &proof, err)) {
		return CLI_FAILED;
	}
	cli_json_print(cli->io->out, BERTH_STEAL(document), false);
	return 0;
}

int cli_ledger_check(struct cli *cli, struct berth_error *err)
{
	const char *path = cli->args.positionals[0];
	BERTH_AUTO(cli_key_free) struct cli_key key = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	struct cli_proof proof;
	if (!cli_trusted_key(cli, &key, err) || !berth_file_read(path, CLI_PROOF_SIZE_MAX, &text, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_json_cleanup)
	berth_json *document = berth_json_parse_unique(text.data, text.size, path, err);
	if (!document || !cli_proof_check(document, key.der, key.size, &proof, err)) {
		berth_error_wrap(err, "%s", path);
		return CLI_FAILED;
	}
	fprintf(cli->io->out, "event %llu (%s) is in the ledger of %s, of %llu events, signed by %s\n",
		(unsigned long long)proof.sequence, proof.kind, proof.fleet, (unsigned long long)proof.size,
		proof.key_id);
	return 0;
}
