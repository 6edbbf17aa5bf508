// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/flags.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/evidence/sign.h"
#include "common/evidence/x509.h"
#include "common/rpc/rpc.h"

#define PEM_BYTES_MAX (64 * 1024)

static bool read_pem(const char *folder, const char *name, char **text, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	BERTH_AUTO(berth_buf_free) struct berth_buf content = {0};
	if (!berth_file_read(path, PEM_BYTES_MAX, &content, err)) {
		return berth_error_wrap(err, "--credentials %s (made by `berth agent enroll`)", folder);
	}
	*text = berth_buf_steal(&content);
	return true;
}

static bool read_name(struct agent_credentials *credentials, const char *folder, struct berth_error *err)
{
	BERTH_AUTO_FREE char *id = NULL;
	struct berth_rpc_principal principal;
	if (!berth_x509_spiffe_id(credentials->certificate, &id, err) ||
		!berth_rpc_principal_parse(id, &principal, err)) {
		return berth_error_wrap(err, "--credentials %s: certificate.pem", folder);
	}
	if (principal.role != BERTH_ROLE_AGENT) {
		return berth_fail(err, BERTH_ERROR_INVALID,
			"--credentials %s: certificate.pem is of %s %s: enroll this host with `berth agent enroll`",
			folder, berth_rpc_role_name(principal.role), principal.name);
	}
	credentials->fleet = berth_strdup(principal.fleet);
	credentials->agent = berth_strdup(principal.name);
	return true;
}

static bool read_ledger_key(struct agent_credentials *credentials, const char *folder, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "ledger.pem");
	BERTH_AUTO_FREE char *pem = NULL;
	return !berth_file_exists(path) ||
	       (read_pem(folder, "ledger.pem", &pem, err) &&
		       berth_public_key_parse(pem, path, &credentials->ledger_key, &credentials->ledger_key_size, err));
}

bool agent_credentials_load(struct agent_credentials *credentials, const char *folder, struct berth_error *err)
{
	memset(credentials, 0, sizeof *credentials);
	credentials->signing_file = berth_path_join(folder, "signing.pem");
	if (!read_pem(folder, "authority.pem", &credentials->authority, err) ||
		!read_pem(folder, "certificate.pem", &credentials->certificate, err) ||
		!read_pem(folder, "key.pem", &credentials->key, err)) {
		return false;
	}
	// A key made here would be one that the coordinator never heard of.
	if (!berth_file_exists(credentials->signing_file)) {
		return berth_fail(err, BERTH_ERROR_NOT_FOUND,
			"--credentials %s: signing.pem is missing: enroll this host with `berth agent enroll`", folder);
	}
	return read_ledger_key(credentials, folder, err) && read_name(credentials, folder, err);
}

void agent_credentials_free(struct agent_credentials *credentials)
{
	free(credentials->authority);
	free(credentials->certificate);
	free(credentials->key);
	free(credentials->signing_file);
	free(credentials->ledger_key);
	free(credentials->fleet);
	free(credentials->agent);
}
