// SPDX-License-Identifier: Apache-2.0
// Keys are made here and stay here: the coordinator gets a certificate request and the public half of the signing key.
#include <string.h>

#include "berth/v1/fleet.pb-c.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "common/evidence/sign.h"
#include "common/evidence/x509.h"
#include "coordinator/cli/link.h"

#define DAYS_MAX 3650

struct keys {
	char *key;
	uint8_t *request, *signing;
	size_t request_size, signing_size;
};

static void keys_free(struct keys *keys)
{
	if (keys->key) {
		explicit_bzero(keys->key, strlen(keys->key));
	}
	berth_free_cleanup(&keys->key);
	berth_free_cleanup(&keys->request);
	berth_free_cleanup(&keys->signing);
}

static void free_signing_key(struct berth_signing_key **key)
{
	berth_signing_key_free(*key);
}

static bool make_keys(const char *folder, const char *name, bool signs, struct keys *keys, struct berth_error *err)
{
	BERTH_AUTO_FREE char *key_path = berth_path_join(folder, "key.pem");
	if (berth_file_exists(key_path)) {
		return berth_fail(err, BERTH_ERROR_CONFLICT,
			"%s is there already; give another folder with --out, or move it away", key_path);
	}
	if (!berth_mkdir_all(folder, 0700, err) ||
		!berth_x509_request_new(name, &keys->key, &keys->request, &keys->request_size, err)) {
		return false;
	}
	if (!signs) {
		return true;
	}
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "signing.pem");
	BERTH_AUTO(free_signing_key) struct berth_signing_key *signing = berth_signing_key_open(path, err);
	return signing && berth_signing_key_public(signing, &keys->signing, &keys->signing_size, err);
}

static bool write_text(const char *folder, const char *name, const char *text, mode_t mode, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	return berth_file_write(path, text, strlen(text), mode, err);
}

static Berth__V1__EnrollResponse *enroll(
	struct cli *cli, const char *role, int64_t days, const struct keys *keys, struct berth_error *err)
{
	BERTH_AUTO(cli_link_close) struct cli_link link = {0};
	if (!cli_link_open(cli, CLI_LINK_BERTH, &link, err)) {
		return NULL;
	}
	Berth__V1__EnrollRequest request = BERTH__V1__ENROLL_REQUEST__INIT;
	request.role = (char *)role;
	request.name = (char *)cli->args.positionals[0];
	request.request_der = (ProtobufCBinaryData){keys->request_size, keys->request};
	request.signing_key_der = (ProtobufCBinaryData){keys->signing_size, keys->signing};
	request.days = (uint32_t)days;
	return cli_call(&link, &berth__v1__fleet_service__descriptor, "Enroll", &request, err);
}

int cli_agent_enroll(struct cli *cli, struct berth_error *err)
{
	const char *folder = cli_args_text(&cli->args, CLI_FLAG_OUT);
	const char *given = cli_args_text(&cli->args, CLI_FLAG_ROLE);
	const char *role = given ? given : "agent";
	int64_t days = 0;
	BERTH_AUTO(keys_free) struct keys keys = {0};
	if (!folder) {
		berth_fail(err, BERTH_ERROR_INVALID, "--out FOLDER is missing: where the key and certificates go");
		return CLI_FAILED;
	}
	if (!cli_args_integer(&cli->args, CLI_FLAG_DAYS, 1, DAYS_MAX, &days, err) ||
		!make_keys(folder, cli->args.positionals[0], strcmp(role, "user") != 0, &keys, err)) {
		return CLI_FAILED;
	}
	BERTH_AUTO(berth_proto_cleanup) Berth__V1__EnrollResponse *response = enroll(cli, role, days, &keys, err);
	// The key comes last: with it the folder is whole.
	if (!response || !write_text(folder, "authority.pem", response->authority_pem, 0644, err) ||
		!write_text(folder, "certificate.pem", response->certificate_pem, 0644, err) ||
		(response->ledger_key_pem[0] &&
			!write_text(folder, "ledger.pem", response->ledger_key_pem, 0644, err)) ||
		!write_text(folder, "key.pem", keys.key, 0600, err)) {
		return CLI_FAILED;
	}
	fprintf(cli->io->out, "%s\n", folder);
	fprintf(cli->io->err, "Enrolled spiffe://%s/%s/%s\n", response->fleet, role, cli->args.positionals[0]);
	return 0;
}
