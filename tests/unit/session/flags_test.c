// SPDX-License-Identifier: Apache-2.0
// berth-agent's command line and credentials: what is wrong is named with its fix.
#include <stdlib.h>
#include <string.h>

#include "agent/flags.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/evidence/sign.h"
#include "common/evidence/x509.h"
#include "tests/support/test.h"

#define ARGUMENTS_MAX 12

static bool parse(struct agent_flags *flags, const char *line, struct berth_error *err)
{
	static char text[512];
	snprintf(text, sizeof text, "berth-agent %s", line);
	char *arguments[ARGUMENTS_MAX] = {0};
	int count = 0;
	char *rest = NULL;
	for (char *part = strtok_r(text, " ", &rest); part; part = strtok_r(NULL, " ", &rest)) {
		arguments[count++] = part;
	}
	return agent_flags_parse(flags, count, arguments, err);
}

static void every_mistake_names_its_flag(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{"--credentials c --state s", "--coordinator is missing"},
		{"--coordinator h:1 --state s", "--credentials is missing"},
		{"--coordinator h:1 --credentials c", "--state is missing"},
		{"--coordinator h --credentials c --state s", "--coordinator must be host:port"},
		{"--slots none", "--slots must be a whole number from 1 to"},
		{"--drain-seconds -1", "--drain-seconds must be"},
		{"--log-level loud", "--log-level must be debug"},
		{"--state", "--state needs a value"},
		{"--what", "no flag --what"},
		{"--coordinator h:1 --credentials c --state s extra", "not \"extra\""},
	};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		struct agent_flags flags;
		struct berth_error err;
		assert_fails(parse(&flags, rows[i][0], &err), err, BERTH_ERROR_INVALID, rows[i][1]);
		agent_flags_free(&flags);
	}
}

static void blobs_are_at_the_port_after_the_coordinators(void **state)
{
	(void)state;
	struct agent_flags flags;
	struct berth_error err;
	assert_ok(parse(&flags, "--coordinator [::1]:7311 --credentials c --state s --slots 3", &err), err);
	assert_string_equal(flags.blobs, "[::1]:7312");
	assert_int_equal(flags.slots, 3);
	agent_flags_free(&flags);
}

static void enroll(const char *folder, const char *role)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *authority = NULL, *authority_key = NULL, *key = NULL, *certificate = NULL;
	BERTH_AUTO_FREE uint8_t *request = NULL;
	size_t size = 0;
	assert_ok(berth_x509_authority_new("quay", 1, &authority, &authority_key, &err), err);
	assert_ok(berth_x509_request_new("host-1", &key, &request, &size, &err), err);
	assert_ok(
		berth_x509_issue(authority, authority_key, request, size, role, "host-1", NULL, 1, &certificate, &err),
		err);
	const char *const files[][2] = {{"authority.pem", authority}, {"certificate.pem", certificate},
		{"key.pem", key}, {"signing.pem", "any"}};
	for (size_t i = 0; i < BERTH_COUNT(files); i++) {
		BERTH_AUTO_FREE char *path = berth_path_join(folder, files[i][0]);
		assert_ok(berth_file_write(path, files[i][1], strlen(files[i][1]), 0600, &err), err);
	}
}

static void fleet_and_name_come_from_the_certificate(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	struct agent_credentials credentials;
	struct berth_error err;
	assert_fails(agent_credentials_load(&credentials, folder, &err), err, BERTH_ERROR_NOT_FOUND, "agent enroll");
	agent_credentials_free(&credentials);
	enroll(folder, "agent");
	assert_ok(agent_credentials_load(&credentials, folder, &err), err);
	assert_string_equal(credentials.fleet, "quay");
	assert_string_equal(credentials.agent, "host-1");
	agent_credentials_free(&credentials);
	enroll(folder, "user");
	assert_fails(agent_credentials_load(&credentials, folder, &err), err, BERTH_ERROR_INVALID, "is of user host-1");
	agent_credentials_free(&credentials);
}

static void the_ledgers_key_is_taken_where_the_enrolment_gave_one(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *private_path = berth_path_join(folder, "ledger-key.pem");
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "ledger.pem");
	BERTH_AUTO_FREE uint8_t *der = NULL;
	size_t size;
	struct agent_credentials credentials;
	struct berth_error err;
	enroll(folder, "agent");
	assert_ok(agent_credentials_load(&credentials, folder, &err), err);
	assert_int_equal(credentials.ledger_key_size, 0);
	agent_credentials_free(&credentials);
	struct berth_signing_key *key = berth_signing_key_open(private_path, &err);
	assert_ok(key && berth_signing_key_public(key, &der, &size, &err), err);
	berth_signing_key_free(key);
	BERTH_AUTO_FREE char *pem = berth_public_key_pem(der, size, &err);
	assert_ok(berth_file_write(path, pem, strlen(pem), 0644, &err), err);
	assert_ok(agent_credentials_load(&credentials, folder, &err), err);
	assert_int_equal(credentials.ledger_key_size, size);
	assert_memory_equal(credentials.ledger_key, der, size);
	agent_credentials_free(&credentials);
	assert_ok(berth_file_write(path, "junk", 4, 0644, &err), err);
	assert_fails(agent_credentials_load(&credentials, folder, &err), err, BERTH_ERROR_INVALID, "ledger.pem");
	agent_credentials_free(&credentials);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_mistake_names_its_flag),
	cmocka_unit_test(blobs_are_at_the_port_after_the_coordinators),
	cmocka_unit_test(fleet_and_name_come_from_the_certificate),
	cmocka_unit_test(the_ledgers_key_is_taken_where_the_enrolment_gave_one),
};
BERTH_TEST_MAIN(tests)
