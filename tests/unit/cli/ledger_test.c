// SPDX-License-Identifier: Apache-2.0
// `berth ledger` without a coordinator: folders at rest, proofs, keys.
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/json.h"
#include "common/evidence/sign.h"
#include "tests/support/test.h"
#include "tests/unit/audit/history.h"
#include "tests/unit/cli/fake.h"

struct desk {
	struct history *history;
	struct shell shell;
	char *folder, *data;
	const char *env[3];
};

static int setup(void **state)
{
	struct desk *desk = berth_alloc(sizeof *desk);
	desk->history = history_new();
	desk->folder = berth_test_folder();
	desk->data = berth_path_join(desk->folder, "data");
	history_write(desk->history, desk->data, desk->history->count - 1);
	shell_start(&desk->shell, NULL);
	desk->env[0] = "BERTH_CREDENTIALS";
	desk->env[1] = desk->folder;
	desk->shell.env = desk->env;
	*state = desk;
	return 0;
}

static int teardown(void **state)
{
	struct desk *desk = *state;
	history_free(desk->history);
	shell_free(&desk->shell);
	free(desk->folder);
	free(desk->data);
	free(desk);
	return 0;
}

static void write_text(const struct desk *desk, const char *name, const char *text)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *path = berth_path_join(desk->folder, name);
	assert_ok(berth_file_write(path, text, strlen(text), 0600, &err), err);
}

static void a_whole_ledger_is_told_with_its_root_and_state(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	SHELL(&desk->shell, "ledger", "verify", desk->data);
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "quay");
	SHELL(&desk->shell, "ledger", "verify", desk->data, "--output", "json");
	assert_code(desk->shell, 0);
	BERTH_AUTO(berth_json_cleanup)
	berth_json *told = berth_json_parse(desk->shell.out, strlen(desk->shell.out), "output", &err);
	assert_int_equal(berth_json_get_integer(told, "events"), desk->history->count);
	assert_int_equal(berth_json_get_integer(told, "records_at"), desk->history->count - 1);
	assert_non_null(strstr(berth_json_get_string(told, "root"), "sha256:"));
}

static void an_audit_lists_what_is_not_proven_dead_and_the_sums(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	SHELL(&desk->shell, "ledger", "audit", desk->data, "--output", "json");
	assert_code(desk->shell, 0);
	BERTH_AUTO(berth_json_cleanup)
	berth_json *told = berth_json_parse(desk->shell.out, strlen(desk->shell.out), "output", &err);
	assert_int_equal(berth_json_get_integer(told, "jobs"), 2);
	assert_int_equal(berth_json_get_integer(told, "jobs_open"), 1);
	assert_int_equal(berth_json_get_integer(berth_json_get(told, "leases"), "retired"), 1);
	size_t unproven = berth_json_size(berth_json_get(told, "unproven"));
	assert_int_equal(berth_json_get_integer(berth_json_get(told, "leases"), "creating"), unproven);
	assert_true(unproven >= 1);
	const berth_json *budget = berth_json_at(berth_json_get(told, "budgets"), 0);
	assert_int_equal(berth_json_get_integer(berth_json_get(budget, "totals"), "settled_nano_usd"), 1200);
	SHELL(&desk->shell, "ledger", "audit", desk->data);
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "2 jobs, 1 not over");
}

static void damage_is_code_8_and_names_the_event(void **state)
{
	struct desk *desk = *state;
	history_damage(desk->data, 3, "x", 1);
	SHELL(&desk->shell, "ledger", "verify", desk->data);
	assert_code(desk->shell, 8);
	assert_has(desk->shell.err, "event 3 does not have the leaf hash");
	SHELL(&desk->shell, "ledger", "audit", desk->data);
	assert_code(desk->shell, 8);
	assert_string_equal(desk->shell.out, "");
}

static void a_folder_that_is_no_ledgers_is_not_found(void **state)
{
	struct desk *desk = *state;
	SHELL(&desk->shell, "ledger", "verify", desk->folder);
	assert_code(desk->shell, 3);
	assert_has(desk->shell.err, "holds no ledger");
	SHELL(&desk->shell, "ledger", "verify");
	assert_code(desk->shell, 2);
}

static void a_check_needs_a_key_and_a_proof(void **state)
{
	struct desk *desk = *state;
	struct berth_error err;
	write_text(desk, "proof.json", "{\"type\":\"berth-ledger-proof\",\"version\":1}");
	BERTH_AUTO_FREE char *proof = berth_path_join(desk->folder, "proof.json");
	SHELL(&desk->shell, "ledger", "check", proof);
	assert_code(desk->shell, 3);
	assert_has(desk->shell.err, "ledger.pem is missing: enrolment writes it");
	BERTH_AUTO_FREE char *key_path = berth_path_join(desk->folder, "ledger-key.pem");
	BERTH_AUTO_FREE uint8_t *der = NULL;
	size_t size;
	struct berth_signing_key *key = berth_signing_key_open(key_path, &err);
	assert_ok(key && berth_signing_key_public(key, &der, &size, &err), err);
	berth_signing_key_free(key);
	BERTH_AUTO_FREE char *pem = berth_public_key_pem(der, size, &err);
	write_text(desk, "ledger.pem", pem);
	SHELL(&desk->shell, "ledger", "check", proof);
	assert_code(desk->shell, 2);
	assert_has(desk->shell.err, "a member is missing or malformed");
	write_text(desk, "proof.json", "{\"version\":1,\"version\":1}");
	SHELL(&desk->shell, "ledger", "check", proof);
	assert_code(desk->shell, 2);
	// A private key is no public one.
	SHELL(&desk->shell, "ledger", "check", proof, "--key", key_path);
	assert_code(desk->shell, 2);
	assert_has(desk->shell.err, "not an Ed25519 public key");
}

#define AT_DESK(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	AT_DESK(a_whole_ledger_is_told_with_its_root_and_state),
	AT_DESK(an_audit_lists_what_is_not_proven_dead_and_the_sums),
	AT_DESK(damage_is_code_8_and_names_the_event),
	AT_DESK(a_folder_that_is_no_ledgers_is_not_found),
	AT_DESK(a_check_needs_a_key_and_a_proof),
};
BERTH_TEST_MAIN(tests)
