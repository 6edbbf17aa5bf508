// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/task/task.h"
#include "tests/support/test.h"
#include "tests/unit/task/folder.h"

static struct berth_task *load(const char *toml)
{
	BERTH_AUTO_FREE char *folder = test_task("sample-task", toml);
	struct berth_task *task = NULL;
	struct berth_error err;
	assert_ok(berth_task_load(folder, false, &task, &err), err);
	return task;
}

static void assert_refused(const char *toml, const char *part)
{
	BERTH_AUTO_FREE char *folder = test_task("sample-task", toml);
	struct berth_task *task = NULL;
	struct berth_error err;
	assert_fails(berth_task_load(folder, false, &task, &err), err, BERTH_ERROR_INVALID, part);
	assert_null(task);
}

static void an_empty_task_has_harbors_defaults(void **state)
{
	(void)state;
	struct berth_task *task = load("");
	assert_string_equal(task->name, "sample-task");
	assert_string_equal(task->short_name, "sample-task");
	assert_string_equal(task->base_name, "sample-task");
	assert_string_equal(task->reward_strategy, "mean");
	assert_true(task->agent.timeout_sec == 0);
	assert_true(task->verifier.timeout_sec == 600);
	assert_true(task->environment.build_timeout_sec == 600);
	assert_int_equal(task->environment.cpus, -1);
	assert_int_equal(task->environment.memory_mb, -1);
	assert_int_equal(task->environment.network.mode, BERTH_NETWORK_UNSET);
	assert_string_equal(task->environment.os, "linux");
	assert_null(task->environment.docker_image);
	assert_null(task->environment.healthcheck.command);
	assert_null(task->agent.user);
	assert_int_equal(task->steps_count, 0);
	assert_int_equal(task->warnings.count, 0);
	assert_int_equal(berth_task_verifier_mode(task, NULL), BERTH_VERIFIER_SHARED);
	assert_true(task->has_dockerfile && !task->has_compose && !task->has_solution && !task->has_trajectory);
	berth_task_free(task);
}

static const char full[] =
	"schema_version = \"1.4\"\n"
	"source = \"set\"\n"
	"artifacts = [\"/app/out\", {source = \"/srv/x\", destination = \"y/z\", exclude = [\"*.o\"], service = "
	"\"store\"}]\n"
	"[task]\nname = \"org/name.x\"\nversion = \"2\"\ndescription = \"d\"\n"
	"authors = [{name = \"A\", email = \"a@example.org\"}]\nkeywords = [\"k\"]\n"
	"[metadata]\nanything = {goes = [1, 2.5]}\n"
	"[agent]\ntimeout_sec = 120\nuser = 1000\nnetwork_mode = \"allowlist\"\n"
	"allowed_hosts = [\"Example.ORG.\", \"*.a-b.net\", \"10.0.0.0/8\", \"2001:db8::1\"]\n"
	"[verifier]\ntimeout_sec = \"60\"\nuser = \"judge\"\n[verifier.env]\nZ = \"${Z:-1}\"\nA = \"2\"\n"
	"[[verifier.collect]]\ncommand = \"ls\"\n[[verifier.collect]]\ncommand = \"id\"\nservice = \"store\"\n"
	"timeout_sec = 5\nuser = 0\n"
	"[environment]\nbuild_timeout_sec = 30.5\ndocker_image = \"debian\"\nos = \"Linux\"\ncpus = 2.0\nmemory_mb = "
	"\"512\"\n"
	"storage = \"2G\"\ngpus = 0\ngpu_types = [\"H100\"]\nnetwork_mode = \"no-network\"\nskills_dir = "
	"\"/s\"\nworkdir = \"/w\"\n"
	"[[environment.mcp_servers]]\nname = \"m\"\ntransport = \"http\"\nurl = \"http://x\"\n"
	"[[environment.mcp_servers]]\nname = \"n\"\ntransport = \"stdio\"\ncommand = \"c\"\nargs = [\"-v\"]\n"
	"[environment.env]\nQ = \"a\\nb\"\n"
	"[environment.healthcheck]\ncommand = \"true\"\ninterval_sec = 1\nretries = 7\n"
	"[solution.env]\nS = \"$$\"\n";

static void every_key_arrives_in_the_struct(void **state)
{
	(void)state;
	struct berth_task *task = load(full);
	assert_int_equal(task->warnings.count, 0);
	assert_string_equal(task->name, "org/name.x");
	assert_string_equal(task->short_name, "name.x");
	assert_string_equal(task->version, "2");
	assert_string_equal(task->source, "set");
	assert_int_equal(task->artifacts.count, 2);
	assert_string_equal(task->artifacts.items[0].source, "/app/out");
	assert_null(task->artifacts.items[0].destination);
	assert_string_equal(task->artifacts.items[1].destination, "y/z");
	assert_string_equal(task->artifacts.items[1].exclude.items[0], "*.o");
	assert_string_equal(task->artifacts.items[1].service, "store");
	assert_true(task->agent.timeout_sec == 120);
	assert_string_equal(task->agent.user, "1000");
	assert_int_equal(task->agent.network.mode, BERTH_NETWORK_ALLOWLIST);
	assert_string_equal(task->agent.network.allowed_hosts.items[0], "example.org");
	assert_true(task->verifier.timeout_sec == 60);
	assert_string_equal(task->verifier.env.names[0], "Z");
	assert_string_equal(task->verifier.env.values[0], "${Z:-1}");
	assert_int_equal(task->verifier.collect_count, 2);
	assert_string_equal(task->verifier.collect[0].service, "main");
	assert_true(task->verifier.collect[0].timeout_sec == 60);
	assert_string_equal(task->verifier.collect[1].user, "0");
	assert_int_equal(task->environment.cpus, 2);
	assert_int_equal(task->environment.memory_mb, 512);
	assert_int_equal(task->environment.storage_mb, 2048);
	assert_int_equal(task->environment.network.mode, BERTH_NETWORK_NONE);
	assert_string_equal(task->environment.mcp_servers[0].transport, "streamable-http");
	assert_string_equal(task->environment.mcp_servers[1].args.items[0], "-v");
	assert_string_equal(berth_env_get(&task->environment.env, "Q"), "a\nb");
	assert_true(task->environment.healthcheck.interval_sec == 1 && task->environment.healthcheck.timeout_sec == 30);
	assert_int_equal(task->environment.healthcheck.retries, 7);
	assert_string_equal(berth_env_get(&task->solution_env, "S"), "$$");
	berth_task_free(task);
}

static void x2_a_network_mode_has_one_spelling(void **state)
{
	(void)state;
	static const char *const modes[] = {"public", "no-network", "allowlist"};
	for (size_t i = 0; i < BERTH_COUNT(modes); i++) {
		BERTH_AUTO_FREE char *text = berth_format("[environment]\nnetwork_mode = \"%s\"\n", modes[i]);
		struct berth_task *task = load(text);
		assert_string_equal(berth_network_mode_name(task->environment.network.mode), modes[i]);
		berth_task_free(task);
	}
	assert_string_equal(berth_network_mode_name(BERTH_NETWORK_UNSET), "public");
	assert_refused("[environment]\nnetwork_mode = \"no_network\"\n", "no-network");
}

static void old_dialects_are_read(void **state)
{
	(void)state;
	struct berth_task *task = load("version = \"1.0\"\nmulti_step_reward_mode = \"mean\"\n[environment]\nmemory = "
				       "\"1G\"\nstorage = \"10G\"\n"
				       "allow_internet = false\n");
	assert_int_equal(task->environment.memory_mb, 1024);
	assert_int_equal(task->environment.storage_mb, 10240);
	assert_int_equal(task->environment.network.mode, BERTH_NETWORK_NONE);
	assert_int_equal(task->warnings.count, 0);
	berth_task_free(task);
	// A network mode that is written down wins over the old key.
	task = load("[environment]\nallow_internet = false\nnetwork_mode = \"public\"\nmemory = \"1G\"\nmemory_mb = "
		    "1024\n");
	assert_int_equal(task->environment.network.mode, BERTH_NETWORK_PUBLIC);
	berth_task_free(task);
	task = load("[environment]\nallow_internet = \"true\"\nmemory = 2048\n");
	assert_int_equal(task->environment.network.mode, BERTH_NETWORK_PUBLIC);
	assert_int_equal(task->environment.memory_mb, -1);
	assert_string_equal(task->warnings.items[0],
		"task.toml:3: [environment].memory is no text and has no effect: write memory_mb instead");
	berth_task_free(task);
}

static void unknown_keys_are_warned_of_with_file_line_and_the_nearest_key(void **state)
{
	(void)state;
	struct berth_task *task = load("schema_version = \"1.4\"\nfrobnicate = 1\n[environment]\n\ncpu = "
				       "4\n[[verifier.collect]]\ncommand = \"x\"\n"
				       "comand = \"y\"\n");
	assert_int_equal(task->warnings.count, 3);
	assert_string_equal(task->warnings.items[0], "task.toml:2: frobnicate is an unknown key and has no effect");
	assert_string_equal(task->warnings.items[1],
		"task.toml:8: [verifier.collect].comand is an unknown key and has no effect: did you mean command?");
	assert_string_equal(task->warnings.items[2],
		"task.toml:5: [environment].cpu is an unknown key and has no effect: did you mean cpus?");
	berth_task_free(task);
}

static void wrong_values_name_file_line_key_and_fix(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{"[environment]\ncpus = 1.5\n",
			"/task.toml:2: [environment].cpus must be a whole number, not 1.5: write cpus = 2"},
		{"version = 1.0\n", "/task.toml:1: version must be text, not 1.0: write version = \"1.0\""},
		{"[agent]\ntimeout_sec = \"soon\"\n",
			"task.toml:2: [agent].timeout_sec must be a finite number, not \"soon\""},
		{"[agent]\ntimeout_sec = inf\n", "must be a finite number, not \"inf\""},
		{"[agent]\ntimeout_sec = -1\n", "[agent].timeout_sec must not be below 0, not -1"},
		{"[verifier]\ntimeout_sec = 0\n", "[verifier].timeout_sec must be above 0"},
		{"[environment]\nallow_internet = \"maybe\"\n", "must be true or false, not \"maybe\""},
		{"[environment]\nmemory = \"2GB\"\n", "[environment].memory is wrong: \"2GB\" is no size"},
		{"[environment]\nmemory = \"2G\"\nmemory_mb = 1024\n",
			"[environment].memory means 2048 MB and memory_mb says 1024"},
		{"[environment]\nnetwork_mode = \"none\"\n",
			"must be one of public, no-network, allowlist, not \"none\""},
		{"[environment]\nallowed_hosts = [\"a.org\"]\n", "write network_mode = \"allowlist\" beside it"},
		{"[agent]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"http://a.org\"]\n",
			"holds \"http://a.org\""},
		{"[agent]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"a.org:80\"]\n", "holds \"a.org:80\""},
		{"[agent]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"10.0.0.1/8\"]\n", "holds \"10.0.0.1/8\""},
		{"[agent]\nuser = true\n", "[agent].user must be text"},
		{"[environment]\nos = \"bsd\"\n", "must be linux or windows"},
		{"[environment]\nenv = [\"A=1\"]\n", "[environment].env must be a table"},
		{"[environment.env]\nA = 1\n", "[environment.env].A must be text, not 1: write A = \"1\""},
		{"[environment.env]\n\"A=B\" = \"1\"\n", "is no name of a variable"},
		{"[environment.env]\nA = \"x\\u0000y\"\n", "must not hold a NUL"},
		{"environment = 5\n", "task.toml:1: environment must be a table"},
		{"[task]\nname = \"nameless\"\n", "[task].name must be \"organisation/name\""},
		{"[task]\nname = \"a/..b\"\n", "[task].name must be"},
		{"[task]\ndescription = \"x\"\n", "[task].name is missing"},
		{"[task]\nname = \"a/b\"\nversion = \"\"\n", "[task].version must not be empty"},
		{"[environment.healthcheck]\nretries = 3\n", "[environment.healthcheck].command is missing"},
		{"[[environment.mcp_servers]]\nname = \"x\"\n", "has transport sse and needs a url"},
		{"[verifier]\nenvironment_mode = \"shared\"\n[verifier.environment]\ncpus = 1\n", "write \"separate\""},
		{"multi_step_reward_strategy = \"max\"\n", "must be one of mean, final"},
		{"artifacts = [\"/a/../b\"]\n", "task.toml:1:"},
		{"artifacts = [{destination = \"x\"}]\n", "source is missing"},
		{"artifacts = [{source = \"/a\", destination = \"/abs\"}]\n", "has the destination \"/abs\""},
		{"artifacts = [{source = \"/a\", destination = \"manifest.json\"}]\n", "other than manifest.json"},
		{"artifacts = [{source = \"rel\", service = \"db\"}]\n", "needs an absolute source"},
		{"artifacts = \"x\"\n", "must be a list of paths"}, {"cpus = \n", "task.toml:1:"}};
	for (size_t i = 0; i < BERTH_COUNT(rows); i++) {
		assert_refused(rows[i][0], rows[i][1]);
	}
}

static void steps_have_folders_defaults_and_their_own_checks(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = test_task("steps",
		"[[steps]]\nname = \"one\"\nmin_reward = 0.5\n[steps.agent]\ntimeout_sec = 5\n"
		"[steps.verifier.environment]\ncpus = 1\n[[steps]]\nname = \"two\"\n"
		"min_reward = {a = 1, b = 0.5}\nartifacts = [\"/x\"]\n[steps.healthcheck]\ncommand = \"true\"\n");
	struct berth_task *task = NULL;
	struct berth_error err;
	assert_fails(berth_task_load(folder, false, &task, &err), err, BERTH_ERROR_INVALID,
		"steps/one/instruction.md of step \"one\" is missing");
	test_write(folder, "steps/one/instruction.md", "one");
	test_write(folder, "steps/two/instruction.md", "# canary\n\ntwo\r\nlines\n");
	test_write(folder, "steps/two/solution/solve.sh", "");
	assert_ok(berth_task_load(folder, false, &task, &err), err);
	assert_int_equal(task->steps_count, 2);
	assert_true(task->has_solution);
	assert_true(task->steps[0].has_min_reward && task->steps[0].min_reward == 0.5);
	assert_true(berth_json_as_number(berth_json_get(task->steps[1].min_rewards, "b")) == 0.5);
	assert_true(task->steps[0].verifier.timeout_sec == 600);
	assert_int_equal(berth_task_verifier_mode(task, &task->steps[0]), BERTH_VERIFIER_SEPARATE);
	assert_int_equal(berth_task_verifier_mode(task, &task->steps[1]), BERTH_VERIFIER_SHARED);
	assert_string_equal(task->steps[1].healthcheck.command, "true");
	struct berth_strings extra = {0};
	berth_strings_add(&extra, "more");
	BERTH_AUTO_FREE char *instruction = berth_task_instruction(task, &task->steps[1], &extra, &err);
	assert_string_equal(instruction, "two\nlines\n\n\nmore");
	berth_strings_free(&extra);
	berth_task_free(task);
	assert_refused("[[steps]]\nname = \"../x\"\n", "must be the name of a folder below steps/");
	assert_refused("[[steps]]\nname = \"x\"\n[[steps]]\nname = \"x\"\n", "[steps].name is \"x\" twice");
}

static void missing_files_are_named(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = test_task("files", "");
	BERTH_AUTO_FREE char *script = berth_path_join(folder, "tests/test.sh");
	BERTH_AUTO_FREE char *instruction = berth_path_join(folder, "instruction.md");
	BERTH_AUTO_FREE char *dockerfile = berth_path_join(folder, "environment/Dockerfile");
	struct berth_task *task = NULL;
	struct berth_error err;
	unlink(script);
	assert_fails(berth_task_load(folder, false, &task, &err), err, BERTH_ERROR_INVALID, "tests/test.sh is missing");
	assert_ok(berth_task_load(folder, true, &task, &err), err);
	berth_task_free(task);
	unlink(instruction);
	assert_fails(berth_task_load(folder, true, &task, &err), err, BERTH_ERROR_INVALID, "instruction.md is missing");
	unlink(dockerfile);
	assert_fails(berth_task_load(folder, true, &task, &err), err, BERTH_ERROR_INVALID,
		"nothing says which image to run");
	assert_true(berth_task_is_folder(folder));
	BERTH_AUTO_FREE char *environment = berth_path_join(folder, "environment");
	assert_false(berth_task_is_folder(environment));
	rmdir(environment);
	assert_fails(berth_task_load(folder, true, &task, &err), err, BERTH_ERROR_INVALID, "environment/ is missing");
	assert_fails(berth_task_load("/nonexistent/task", true, &task, &err), err, BERTH_ERROR_NOT_FOUND,
		"/nonexistent/task");
}

static void an_instruction_that_is_no_utf8_is_refused(void **state)
{
	(void)state;
	struct berth_task *task = load("");
	test_write(task->folder, "instruction.md", "caf\xe9\n");
	struct berth_error err;
	assert_fails(berth_task_instruction(task, NULL, NULL, &err), err, BERTH_ERROR_INVALID, "is not UTF-8");
	test_write(task->folder, "instruction.md", "<!-- canary -->\r\n\r\nLine\rline\n");
	BERTH_AUTO_FREE char *text = berth_task_instruction(task, NULL, NULL, &err);
	assert_string_equal(text, "Line\nline\n");
	berth_task_free(task);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(an_empty_task_has_harbors_defaults),
	cmocka_unit_test(every_key_arrives_in_the_struct),
	cmocka_unit_test(x2_a_network_mode_has_one_spelling),
	cmocka_unit_test(old_dialects_are_read),
	cmocka_unit_test(unknown_keys_are_warned_of_with_file_line_and_the_nearest_key),
	cmocka_unit_test(wrong_values_name_file_line_key_and_fix),
	cmocka_unit_test(steps_have_folders_defaults_and_their_own_checks),
	cmocka_unit_test(missing_files_are_named),
	cmocka_unit_test(an_instruction_that_is_no_utf8_is_refused),
};

BERTH_TEST_MAIN(tests)
