// SPDX-License-Identifier: Apache-2.0
// `berth budget` as an operator runs it, and what a user sees of money.
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/json.h"
#include "tests/support/test.h"
#include "tests/unit/cli/fake.h"

#define POLICY                                                                                                         \
	"{\"study_id\":\"s\",\"manifest_digest\":\"sha256:"                                                            \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"hard_limit_nano_usd\":20000000000,"      \
	"\"phase_limits_nano_usd\":{\"search\":12500000000,\"final\":1000000000},"                                     \
	"\"rates\":[{\"backend\":\"local\",\"role\":\"task_environment\",\"cpu_count\":1,\"memory_mb\":512,"           \
	"\"nano_usd_per_second\":10}]}"

struct desk { // an operator's
	struct fake fake;
	struct shell shell;
	char *policy;
	char *operator_;
	const char *env[7];
};

static void write_text(const char *folder, const char *name, const char *text)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	assert_ok(berth_file_write(path, text, strlen(text), 0600, &err), err);
}

static berth_json *parsed(const char *text)
{
	struct berth_error err;
	berth_json *value = berth_json_parse(text, strlen(text), "output", &err);
	assert_ok(value, err);
	return value;
}

static int setup(void **state)
{
	struct desk *desk = berth_alloc(sizeof *desk);
	fake_start(&desk->fake, true);
	shell_start(&desk->shell, NULL);
	desk->operator_ = fake_operator(&desk->fake, "admin");
	const char *const env[] = {"BERTH_COORDINATOR", desk->fake.address, "BERTH_BLOBS", desk->fake.blobs_address,
		"BERTH_CREDENTIALS", desk->operator_, NULL};
	memcpy(desk->env, env, sizeof env);
	desk->shell.env = desk->env;
	write_text(desk->fake.folder, "policy.json", POLICY);
	desk->policy = berth_path_join(desk->fake.folder, "policy.json");
	*state = desk;
	return 0;
}

static int teardown(void **state)
{
	struct desk *desk = *state;
	shell_free(&desk->shell);
	fake_stop(&desk->fake);
	free(desk->policy);
	free(desk->operator_);
	free(desk);
	return 0;
}

static void a_budget_is_created_listed_and_shown(void **state)
{
	struct desk *desk = *state;
	SHELL(&desk->shell, "budget", "create", "tide", desk->policy);
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "12.50");
	SHELL(&desk->shell, "budget", "create", "tide", desk->policy); // the same again is fine
	assert_code(desk->shell, 0);
	SHELL(&desk->shell, "budget", "list", "--output", "plain");
	assert_code(desk->shell, 0);
	assert_string_equal(desk->shell.out, "tide\t20.00\t0.00\t0.00\t0.00\t20.00\t0.00\t0\t0\t0\topen\n");
	SHELL(&desk->shell, "budget", "show", "tide", "--output", "json");
	BERTH_AUTO(berth_json_cleanup) berth_json *shown = parsed(desk->shell.out);
	assert_string_equal(berth_json_get_string(shown, "name"), "tide");
	SHELL(&desk->shell, "budget", "show", "tde");
	assert_code(desk->shell, 3);
}

static void a_policy_that_is_wrong_is_refused_by_its_field(void **state)
{
	struct desk *desk = *state;
	write_text(desk->fake.folder, "policy.json", "{\"study\":1}");
	SHELL(&desk->shell, "budget", "create", "tide", desk->policy);
	assert_code(desk->shell, 2);
	assert_has(desk->shell.err, "study: unknown field");
	SHELL(&desk->shell, "budget", "create", "tide", "/no/such/policy.json");
	assert_code(desk->shell, 3);
}

static void an_amendment_is_signed_by_an_operator_who_was_enrolled(void **state)
{
	struct desk *desk = *state;
	SHELL(&desk->shell, "budget", "create", "tide", desk->policy);
	SHELL(&desk->shell, "budget", "amend", "tide", "--hard-limit", "30", "--reason", "more");
	assert_code(desk->shell, 3);
	assert_has(desk->shell.err, "--role operator");
	BERTH_AUTO_FREE char *ann = berth_path_join(desk->fake.folder, "ann");
	SHELL(&desk->shell, "agent", "enroll", "ann", "--role", "operator", "--out", ann);
	assert_code(desk->shell, 0);
	desk->env[5] = ann;
	SHELL(&desk->shell, "budget", "amend", "tide", "--hard-limit", "30.5", "--phase-limit", "search=29",
		"--job-limit", "j1=0.25", "--user-limit", "user/bo=none", "--reason", "the study grew", "--output",
		"plain");
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "tide\t30.50\t");
	assert_has(desk->shell.out, "search\t29.00\t");
	// The next one has the next number.
	SHELL(&desk->shell, "budget", "amend", "tide", "--hard-limit", "31", "--reason", "again");
	assert_code(desk->shell, 0);
	BERTH_AUTO_FREE char *eve = berth_path_join(desk->fake.folder, "eve");
	SHELL(&desk->shell, "agent", "enroll", "eve", "--role", "operator", "--out", eve);
	SHELL(&desk->shell, "budget", "amend", "tide", "--hard-limit", "40", "--reason", "not known any more");
	assert_code(desk->shell, 1);
	assert_has(desk->shell.err, "not signed by an enrolled operator's key");
}

static void what_an_amendment_lacks_is_told(void **state)
{
	struct desk *desk = *state;
	static const struct {
		const char *words[6], *part;
	} rows[] = {{{"budget", "amend", "tide", "--hard-limit", "30"}, "--reason TEXT is missing"},
		{{"budget", "amend", "tide", "--hard-limit", "1e3"}, "--hard-limit"},
		{{"budget", "amend", "tide", "--phase-limit", "search"}, "\"search\" is no NAME=USD"},
		{{"budget", "amend", "tide", "--user-limit", "bo=x"}, "--user-limit"},
		{{"budget", "amend", "tide", "--job-limit", "=3"}, "\"=3\" is no NAME=USD"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		shell_run(&desk->shell, rows[i].words);
		assert_code(desk->shell, 2);
		assert_has(desk->shell.err, rows[i].part);
	}
}

static void a_watch_prints_each_change_until_it_is_interrupted(void **state)
{
	struct desk *desk = *state;
	SHELL(&desk->shell, "budget", "create", "tide", desk->policy);
	SHELL(&desk->shell, "budget", "watch", "tide");
	assert_has(
		desk->shell.out, "tide: 20.00 of 20.00 USD left, settled 0.00, reserved 0.00, forfeited 0.00; 0 open");
	assert_has(desk->shell.out, "reserved 0.005");
	desk->fake.on_budget_watch = desk->shell.interrupt;
	SHELL(&desk->shell, "budget", "watch", "tide", "--output", "json");
	assert_code(desk->shell, 130);
}

static void reservations_come_in_pages(void **state)
{
	struct desk *desk = *state;
	SHELL(&desk->shell, "budget", "reservations", "tide", "--output", "plain");
	assert_code(desk->shell, 0);
	assert_has(desk->shell.out, "aaaa\tRESERVED\t0.000045\t0.00\t");
	assert_null(strstr(desk->shell.out, "bbbb"));
	SHELL(&desk->shell, "budget", "reservations", "tide", "--all");
	assert_has(desk->shell.out, "CreateUnknown");
	SHELL(&desk->shell, "budget", "reservations", "tide", "--all", "--limit", "1", "--output", "json");
	BERTH_AUTO(berth_json_cleanup) berth_json *limited = parsed(desk->shell.out);
	assert_int_equal(berth_json_size(limited), 1);
}

static void a_job_that_its_budget_refuses_gives_code_5(void **state)
{
	struct desk *desk = *state;
	BERTH_AUTO_FREE char *task = fake_task(&desk->fake, "moor", "[agent]\ntimeout_sec = 60.0\n");
	desk->fake.budget_refusal = "no budget is named tide";
	SHELL(&desk->shell, "run", "-p", task, "--budget", "tide", "--phase", "search");
	assert_code(desk->shell, 5);
	assert_has(desk->shell.err, "no budget is named tide");
}

static void trials_that_wait_for_money_say_for_what(void **state)
{
	struct desk *desk = *state;
	BERTH_AUTO_FREE char *task = fake_task(&desk->fake, "moor", "[agent]\ntimeout_sec = 60.0\n");
	desk->fake.blocked_reason = "2.00 USD is wanted and 0.50 of 9.00 USD is left";
	SHELL(&desk->shell, "run", "-p", task, "--budget", "tide", "--phase", "search", "--detach");
	assert_code(desk->shell, 0);
	SHELL(&desk->shell, "job", "show", FAKE_JOB_ID);
	assert_has(desk->shell.err, "trials wait for money: 2.00 USD is wanted");
	assert_has(desk->shell.out, "2.00 USD is wanted and 0.50 of 9.00 USD is left");
	SHELL(&desk->shell, "job", "watch", FAKE_JOB_ID);
	assert_has(desk->shell.err, "trials wait for money: 2.00 USD is wanted");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(a_budget_is_created_listed_and_shown),
	TEST(a_policy_that_is_wrong_is_refused_by_its_field),
	TEST(an_amendment_is_signed_by_an_operator_who_was_enrolled),
	TEST(what_an_amendment_lacks_is_told),
	TEST(a_watch_prints_each_change_until_it_is_interrupted),
	TEST(reservations_come_in_pages),
	TEST(a_job_that_its_budget_refuses_gives_code_5),
	TEST(trials_that_wait_for_money_say_for_what),
};

BERTH_TEST_MAIN(tests)
