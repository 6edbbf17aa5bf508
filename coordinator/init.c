// SPDX-License-Identifier: Apache-2.0
#include "coordinator/init.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/evidence/sign.h"
#include "common/evidence/x509.h"
#include "common/rpc/rpc.h"

#define AUTHORITY_DAYS   3650
#define CERTIFICATE_DAYS 825
#define HOSTS_MAX        32
#define SECRET_KEY_SIZE  32

static bool put(
	const char *folder, const char *name, const void *data, size_t size, mode_t mode, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	return berth_file_write(path, data, size, mode, err);
}

static bool put_text(const char *folder, const char *name, const char *text, mode_t mode, struct berth_error *err)
{
	return put(folder, name, text, strlen(text), mode, err);
}

struct authority {
	char *certificate, *key;
};

static bool issue_into(const struct authority *authority, const char *folder, const char *role, const char *name,
	const char *const *hosts, struct berth_error *err)
{
	BERTH_AUTO_FREE char *key = NULL;
	BERTH_AUTO_FREE uint8_t *request = NULL;
	BERTH_AUTO_FREE char *certificate = NULL;
	size_t size;
	return berth_mkdir_all(folder, 0700, err) && berth_x509_request_new(name, &key, &request, &size, err) &&
	       berth_x509_issue(authority->certificate, authority->key, request, size, role, name, hosts,
		       CERTIFICATE_DAYS, &certificate, err) &&
	       put_text(folder, "authority.pem", authority->certificate, 0644, err) &&
	       put_text(folder, "certificate.pem", certificate, 0644, err) &&
	       put_text(folder, "key.pem", key, 0600, err);
}

// The key that signs the ledger's heads; its public half goes where the certificate goes.
static bool make_ledger_key(const char *coordinator, const char *operator_folder, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_path_join(coordinator, "ledger-key.pem");
	BERTH_AUTO_FREE uint8_t *der = NULL;
	BERTH_AUTO_FREE char *pem = NULL;
	size_t size;
	struct berth_signing_key *key = berth_signing_key_open(path, err);
	bool ok = key && berth_signing_key_public(key, &der, &size, err);
	berth_signing_key_free(key);
	pem = ok ? berth_public_key_pem(der, size, err) : NULL;
	return pem && put_text(coordinator, "ledger.pem", pem, 0644, err) &&
	       put_text(operator_folder, "ledger.pem", pem, 0644, err);
}

static size_t split_hosts(char *text, const char *hosts[static HOSTS_MAX + 1])
{
	size_t count = 0;
	char *save;
	for (char *host = strtok_r(text, ",", &save); host && count < HOSTS_MAX; host = strtok_r(NULL, ",", &save)) {
		hosts[count++] = host;
	}
	hosts[count] = NULL;
	return count;
}

bool berth_coordinator_init(const char *fleet, const char *out, const char *hosts_text, struct berth_error *err)
{
	if (!fleet || !out) {
		return berth_fail(err, BERTH_ERROR_INVALID, "init needs --fleet NAME and --out DIR");
	}
	BERTH_AUTO_FREE char *coordinator = berth_path_join(out, "coordinator");
	BERTH_AUTO_FREE char *operator_folder = berth_path_join(out, "operator");
	if (berth_file_exists(coordinator) || berth_file_exists(operator_folder)) {
		return berth_fail(err, BERTH_ERROR_CONFLICT,
			"%s already holds a fleet's credentials: give another --out, or remove it to start a new fleet",
			out);
	}
	BERTH_AUTO_FREE char *hosts_copy = berth_strdup(hosts_text);
	const char *hosts[HOSTS_MAX + 1];
	split_hosts(hosts_copy, hosts);
	struct authority authority = {0};
	uint8_t secret[SECRET_KEY_SIZE];
	berth_random(secret, sizeof secret);
	bool ok = berth_x509_authority_new(fleet, AUTHORITY_DAYS, &authority.certificate, &authority.key, err) &&
	          issue_into(&authority, coordinator, "coordinator", "main", hosts, err) &&
	          put_text(coordinator, "authority-key.pem", authority.key, 0600, err) &&
	          put(coordinator, "secret.key", secret, sizeof secret, 0600, err) &&
	          issue_into(&authority, operator_folder, "operator", "admin", NULL, err) &&
	          make_ledger_key(coordinator, operator_folder, err);
	explicit_bzero(secret, sizeof secret);
	free(authority.certificate);
	free(authority.key);
	return ok;
}
