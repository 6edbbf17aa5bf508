// SPDX-License-Identifier: Apache-2.0
// The command line: parsing, what it says to a wrong word, and the pages that come from the same table.
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "coordinator/cli/command.h"
#include "tests/support/test.h"

#define WORDS_MAX 16

static bool parse(struct cli_args *args, struct berth_error *err, const char *line)
{
	char *words[WORDS_MAX] = {"berth"};
	int count = 1;
	BERTH_AUTO_FREE char *copy = berth_strdup(line);
	// The parsed texts point into argv, which lives as long as the process.
	char *rest = copy;
	for (char *word; (word = strsep(&rest, " ")) && count < WORDS_MAX;) {
		if (*word) {
			words[count++] = berth_strdup(word);
		}
	}
	static char *kept[1024];
	static size_t kept_count;
	for (int i = 1; i < count; i++) {
		kept[kept_count++ % BERTH_COUNT(kept)] = words[i];
	}
	return cli_args_parse(count, words, args, err);
}

static void flags_are_read_in_every_way_of_writing_them(void **state)
{
	(void)state;
	struct cli_args args;
	struct berth_error err;
	assert_ok(parse(&args, &err, "run -p tasks -k5 -n 32 --agent=oracle -a nop -qy --timeout-multiplier 2.5"), err);
	int64_t attempts = 0, concurrent = 0;
	double multiplier = 0;
	assert_string_equal(args.command->noun, "run");
	assert_string_equal(cli_args_text(&args, CLI_FLAG_PATH), "tasks");
	assert_string_equal(cli_args_text(&args, CLI_FLAG_AGENT), "nop");
	assert_true(cli_args_integer(&args, CLI_FLAG_N_ATTEMPTS, 1, 9, &attempts, &err));
	assert_true(cli_args_integer(&args, CLI_FLAG_N_CONCURRENT, 1, 99, &concurrent, &err));
	assert_true(cli_args_number(&args, CLI_FLAG_TIMEOUT_MULTIPLIER, &multiplier, &err));
	assert_int_equal(attempts, 5);
	assert_int_equal(concurrent, 32);
	assert_true(multiplier == 2.5);
	assert_true(cli_args_has(&args, CLI_FLAG_QUIET));
	assert_true(cli_args_has(&args, CLI_FLAG_YES));
	assert_false(cli_args_has(&args, CLI_FLAG_DETACH));
	cli_args_free(&args);
}

static void flags_may_stand_before_and_after_the_command_and_a_double_dash_ends_them(void **state)
{
	(void)state;
	struct cli_args args;
	struct berth_error err;
	assert_ok(parse(&args, &err, "--output json job show --insecure -- --odd-name"), err);
	assert_string_equal(args.command->verb, "show");
	assert_int_equal(args.positionals_count, 1);
	assert_string_equal(args.positionals[0], "--odd-name");
	assert_string_equal(cli_args_text(&args, CLI_FLAG_OUTPUT), "json");
	cli_args_free(&args);
}

static void a_wrong_word_is_named_with_what_was_meant(void **state)
{
	(void)state;
	static const struct {
		const char *line, *wrong, *fix;
	} ROWS[] = {
		{"jbo list", "jbo: no such command", "did you mean `berth job`?"},
		{"job sumbit", "job sumbit: no such command", "did you mean `berth job submit`?"},
		{"job zzzzzzzz", "job zzzzzzzz: no such command", "`berth help job` lists them"},
		{"job", "job: what about it?", "berth help job"},
		{"run --n-atempts 3", "--n-atempts: no such flag", "did you mean --n-attempts?"},
		{"run --frobnicate-it", "--frobnicate-it: no such flag", "berth help COMMAND"},
		{"run -Z", "-Z: no such flag as -Z", "berth help COMMAND"},
		{"run --dataset tb", "--dataset of `harbor run` is not supported", "with -p"},
		{"run --task-git-url x", "--task-git-url of `harbor run`", "clone it"},
		{"job list -k 3", "--n-attempts is no flag of `berth job list`", "berth help job list"},
		{"run -p", "--path needs a value", "--path FOLDER"},
		{"run --env podman", "--env: \"podman\" is none of", "docker|e2b"},
		{"run --leftovers maybe", "\"maybe\"", "keep|kill"},
		{"run --detach=yes", "--detach=yes", "takes no value"},
		{"job show", "usage: berth job show", "JOB"},
		{"job show a b", "b: one word too many", "usage: berth job show JOB"},
		{"run task", "task: one word too many", "usage: berth run"},
	};
	for (size_t i = 0; i < BERTH_COUNT(ROWS); i++) {
		struct cli_args args;
		struct berth_error err;
		assert_fails(parse(&args, &err, ROWS[i].line), err, BERTH_ERROR_INVALID, ROWS[i].wrong);
		if (!strstr(err.message, ROWS[i].fix)) {
			fail_msg("%s: no \"%s\" in: %s", ROWS[i].line, ROWS[i].fix, err.message);
		}
		cli_args_free(&args);
	}
}

static void a_number_outside_its_range_names_flag_and_range(void **state)
{
	(void)state;
	static const char *const LINES[] = {"run -k 0", "run -k x", "run -k 3x", "run -k 99999999999999999999"};
	for (size_t i = 0; i < BERTH_COUNT(LINES); i++) {
		struct cli_args args;
		struct berth_error err;
		int64_t value = 7;
		assert_ok(parse(&args, &err, LINES[i]), err);
		assert_fails(cli_args_integer(&args, CLI_FLAG_N_ATTEMPTS, 1, 100, &value, &err), err,
			BERTH_ERROR_INVALID, "from 1 to 100");
		assert_int_equal(value, 7);
		cli_args_free(&args);
	}
}

static void a_distance_counts_edits_and_swaps(void **state)
{
	(void)state;
	assert_int_equal(cli_edit_distance("submit", "submit"), 0);
	assert_int_equal(cli_edit_distance("sumbit", "submit"), 1);
	assert_int_equal(cli_edit_distance("", "job"), 3);
	assert_int_equal(cli_edit_distance("watch", "watches"), 2);
	static const char *const NAMES[] = {"list", "show"};
	assert_string_equal(cli_nearest("lits", NAMES, 2), "list");
	assert_null(cli_nearest("cancel", NAMES, 2));
}

static char *printed(void (*print)(FILE *out, const void *what), const void *what)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	print(out, what);
	fclose(out);
	return text;
}

static void put_command(FILE *out, const void *command)
{
	cli_help_command(out, command);
}

static void put_completion(FILE *out, const void *nothing)
{
	(void)nothing;
	cli_completion_bash(out);
}

static void every_flag_is_on_the_page_of_each_command_that_takes_it_and_on_no_other(void **state)
{
	(void)state;
	for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
		BERTH_AUTO_FREE char *page = printed(put_command, &CLI_COMMANDS[i]);
		for (size_t flag = 0; flag < CLI_FLAGS_COUNT; flag++) {
			BERTH_AUTO_FREE char *name = berth_format(
				"--%s%s", CLI_FLAG_TABLE[flag].name, CLI_FLAG_TABLE[flag].value ? " " : "");
			bool takes = CLI_FLAG_TABLE[flag].groups & (CLI_COMMANDS[i].groups | CLI_ALL);
			if (takes && !strstr(page, name)) {
				fail_msg("%s %s lacks %s", CLI_COMMANDS[i].noun, CLI_COMMANDS[i].verb, name);
			}
			if (!takes && CLI_FLAG_TABLE[flag].value && strstr(page, name)) {
				fail_msg("%s %s has %s", CLI_COMMANDS[i].noun, CLI_COMMANDS[i].verb, name);
			}
		}
	}
}

static void names_and_letters_of_flags_are_given_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < CLI_FLAGS_COUNT; i++) {
		const struct cli_flag *flag = &CLI_FLAG_TABLE[i];
		assert_int_equal(cli_flag_find(flag->name, strlen(flag->name)), i);
		assert_true(!flag->letter || cli_flag_find_letter(flag->letter) == i);
		assert_true((flag->shape == CLI_SWITCH) == (flag->value == NULL));
	}
	assert_int_equal(cli_flag_find_letter(0), CLI_FLAGS_COUNT);
}

// bash itself completes words with the script.
static void complete(const char *script_path, const char *words, int at, const char *wanted)
{
	BERTH_AUTO_FREE char *command =
		berth_format("bash -c 'source %s; COMP_WORDS=(%s); COMP_CWORD=%d; _berth; echo \"${COMPREPLY[*]}\"'",
			script_path, words, at);
	FILE *pipe = popen(command, "r");
	char line[4096] = "";
	assert_non_null(pipe);
	assert_non_null(fgets(line, sizeof line, pipe));
	assert_int_equal(pclose(pipe), 0);
	line[strcspn(line, "\n")] = 0;
	assert_string_equal(line, wanted);
}

static void bash_completes_commands_flags_and_choices(void **state)
{
	(void)state;
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "completion.bash");
	BERTH_AUTO_FREE char *script = printed(put_completion, NULL);
	struct berth_error err;
	assert_ok(berth_file_write(path, script, strlen(script), 0644, &err), err);
	complete(path, "berth j", 1, "job");
	complete(path, "berth job c", 2, "cancel");
	complete(path, "berth run --leftovers k", 3, "keep kill");
	complete(path, "berth run --n-a", 2, "--n-attempts");
	complete(path, "berth job cancel J --rea", 4, "--reason");
	complete(path, "berth health --b", 2, "--blobs");
	complete(path, "berth job list --rea", 3, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_are_read_in_every_way_of_writing_them),
		cmocka_unit_test(flags_may_stand_before_and_after_the_command_and_a_double_dash_ends_them),
		cmocka_unit_test(a_wrong_word_is_named_with_what_was_meant),
		cmocka_unit_test(a_number_outside_its_range_names_flag_and_range),
		cmocka_unit_test(a_distance_counts_edits_and_swaps),
		cmocka_unit_test(every_flag_is_on_the_page_of_each_command_that_takes_it_and_on_no_other),
		cmocka_unit_test(names_and_letters_of_flags_are_given_once),
		cmocka_unit_test(bash_completes_commands_flags_and_choices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
