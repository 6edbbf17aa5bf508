// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/ledger_audit.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/merkle.h"
#include "coordinator/cli/ledger_proof.h"
#include "coordinator/cli/output.h"

#define KEY_SIZE_MAX  16384
#define HEAD_SIZE_MAX 4096
#define PROOF_MAX     (BERTH_MERKLE_LEVELS + 1)

void cli_key_free(struct cli_key *key)
{
	free(key->der);
}

static bool read_key(const char *path, struct cli_key *key, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf pem = {0};
	return berth_file_read(path, KEY_SIZE_MAX, &pem, err) &&
	       berth_public_key_parse(berth_buf_text(&pem), path, &key->der, &key->size, err);
}

// --key, else ledger.pem of the credentials.
bool cli_trusted_key(const struct cli *cli, struct cli_key *key, struct berth_error *err)
{
	BERTH_AUTO_FREE char *folder = cli_credentials_folder(cli);
	BERTH_AUTO_FREE char *kept = berth_path_join(folder, "ledger.pem");
	const char *given = cli_args_text(&cli->args, CLI_FLAG_KEY);
	if (!given && !berth_file_exists(kept)) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND,
			"%s is missing: enrolment writes it; or name the ledger's public key with --key PEM", kept);
	}
	return read_key(given ? given : kept, key, err);
}

Berth__V1__GetHeadResponse *cli_get_head(struct cli_link *link, const struct cli_key *key, struct berth_error *err)
{
	Berth__V1__GetHeadRequest request = BERTH__V1__GET_HEAD_REQUEST__INIT;
	Berth__V1__GetHeadResponse *response = cli_call(link, CLI_LEDGER, "GetHead", &request, err);
	if (response && (!response->head || !response->incarnation ||
				!cli_head_check(response->head, response->fleet, key->der, key->size, err))) {
		berth_error_wrap(err, "the head that %s gives", link->address);
		berth_proto_free(response);
		return NULL;
	}
	return response;
}

// --- the head that is kept ---
struct kept {
	uint64_t size; // 0: none yet
	struct berth_digest root;
};

static char *kept_path(const struct cli *cli, const char *fleet, struct berth_error *err)
{
	const char *state = cli_env(cli, "XDG_STATE_HOME"), *home = cli_env(cli, "HOME");
	if (!state && !home) {
		berth_fail(err, BERTH_ERROR_INVALID, "$XDG_STATE_HOME or $HOME must be set: the head is kept below it");
		return NULL;
	}
	return state ? berth_format("%s/berth/%s.head.json", state, fleet)
	             : berth_format("%s/.local/state/berth/%s.head.json", home, fleet);
}

static bool read_kept(const char *path, struct kept *kept, struct berth_error *err)
{
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	*kept = (struct kept){0};
	if (!berth_file_exists(path)) {
		return true;
	}
	if (!berth_file_read(path, HEAD_SIZE_MAX, &text, err)) {
		return false;
	}
	BERTH_AUTO(berth_json_cleanup) berth_json *head = berth_json_parse_unique(text.data, text.size, path, err);
	const char *root = head ? berth_json_get_string(head, "root") : NULL;
	int64_t size = head ? berth_json_get_integer(head, "size") : 0;
	if (!root || size <= 0 || !berth_unhex(root, kept->root.bytes, BERTH_DIGEST_SIZE)) {
		return berth_fail(
			err, BERTH_ERROR_CORRUPT, "%s is not a head that was kept: move it away to begin anew", path);
	}
	kept->size = (uint64_t)size;
	return true;
}

static bool keep(const char *path, const Berth__V1__LedgerHead *head, struct berth_error *err)
{
	char root[BERTH_DIGEST_HEX_SIZE];
	BERTH_AUTO_FREE char *signature = berth_base64(head->signature.data, head->signature.len);
	berth_hex(head->root_hash.data, BERTH_DIGEST_SIZE, root);
	BERTH_AUTO_FREE char *text = berth_format("{\"root\":\"%s\",\"signature\":\"%s\",\"size\":%llu}\n", root,
		signature, (unsigned long long)head->sequence);
	BERTH_AUTO_FREE char *folder = berth_strndup(path, (size_t)(strrchr(path, '/') - path));
	return berth_mkdir_all(folder, 0700, err) && berth_file_write(path, text, strlen(text), 0600, err);
}

static bool is_proven(
	const struct kept *kept, const Berth__V1__LedgerHead *head, const Berth__V1__ProveConsistencyResponse *response)
{
	struct berth_digest proof[PROOF_MAX], root;
	if (response->n_path > PROOF_MAX) {
		return false;
	}
	for (size_t i = 0; i < response->n_path; i++) {
		if (response->path[i].len != BERTH_DIGEST_SIZE) {
			return false;
		}
		memcpy(proof[i].bytes, response->path[i].data, BERTH_DIGEST_SIZE);
	}
	memcpy(root.bytes, head->root_hash.data, BERTH_DIGEST_SIZE);
	return berth_merkle_verify_consistency(kept->size, &kept->root, head->sequence, &root, proof, response->n_path);
}

static bool continues(
	struct cli_link *link, const struct kept *kept, const Berth__V1__LedgerHead *head, struct berth_error *err)
{
	if (head->sequence < kept->size) {
		return berth_fail(err, BERTH_ERROR_CORRUPT,
			"the ledger has %llu events, and %llu were seen: it was truncated or is an older copy",
			(unsigned long long)head->sequence, (unsigned long long)kept->size);
	}
	Berth__V1__ProveConsistencyRequest request = BERTH__V1__PROVE_CONSISTENCY_REQUEST__INIT;
	request.first = kept->size;
	request.second = head->sequence;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__ProveConsistencyResponse *response = cli_call(link, CLI_LEDGER, "ProveConsistency", &request, err);
	if (!response) {
		return false;
	}
	return is_proven(kept, head, response) ||
	       berth_fail(err, BERTH_ERROR_CORRUPT,
		       "the ledger of %llu events does not continue the one of %llu that was seen: it was edited or "
		       "forked",
		       (unsigned long long)head->sequence, (unsigned long long)kept->size);
}

int cli_ledger_audit_online(struct cli *cli, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	BERTH_AUTO(cli_key_free) struct cli_key key = {0};
	struct kept kept;
	if (!cli_trusted_key(cli, &key, err) || !cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__GetHeadResponse *response = cli_get_head(&link, &key, err);
	BERTH_AUTO_FREE char *path = response ? kept_path(cli, response->fleet, err) : NULL;
	if (!path || !read_kept(path, &kept, err) || (kept.size && !continues(&link, &kept, response->head, err)) ||
		!keep(path, response->head, err)) {
		return CLI_FAILED;
	}
	if (cli->output == CLI_OUTPUT_JSON) {
		berth_json *object = cli_message_json(&response->head->base);
		berth_json_set(object, "continues", berth_json_integer((int64_t)kept.size));
		cli_json_print(cli->io->out, object, false);
		return 0;
	}
	fprintf(cli->io->out, "the ledger of %s: %llu events, signed; continues the %llu that were seen before\n",
		response->fleet, (unsigned long long)response->head->sequence, (unsigned long long)kept.size);
	return 0;
}
